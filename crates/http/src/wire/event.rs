//! Lines of a job's log.

pub(crate) mod kinds;

use journeyman_core::job::event::LogEntry;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A fact.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    /// 1 for the job's first; without gaps.
    #[schema(minimum = 1)]
    pub(crate) seq: u64,
    /// What happened; new types may come, ignore what you do not know.
    #[serde(rename = "type")]
    #[schema(example = "run.started")]
    pub(crate) kind: String,
    #[schema(format = DateTime)]
    at: String,
    /// In which run, if in one.
    #[schema(required)]
    run_id: Option<String>,
    /// Its content, by type.
    #[schema(value_type = Object)]
    data: Value,
}

impl From<LogEntry> for Event {
    fn from(entry: LogEntry) -> Self {
        Self {
            seq: entry.seq,
            kind: entry.kind,
            at: entry.at.to_string(),
            run_id: entry.run_id.map(|run| run.to_string()),
            data: entry.data,
        }
    }
}

/// A page of a job's log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPage {
    /// Oldest first.
    pub(crate) events: Vec<Event>,
    /// Give it as `after` for what comes next.
    pub(crate) next_after: u64,
    /// Whether there is more now.
    pub(crate) has_more: bool,
}
