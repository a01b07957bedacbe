//! The entries of a job's log.

pub(crate) mod kinds;

use journeyman_core::job::event::LogEntry;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// An entry in the log of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    /// The sequence number: 1 for the job's first event. Numbers are skipped only where the server was restored from an
    /// earlier state, so that no two events have the same number.
    #[schema(minimum = 1)]
    pub(crate) seq: u64,
    /// The type of the event. New types may be added; ignore types that you do not know.
    #[serde(rename = "type")]
    #[schema(example = "run.started")]
    pub(crate) kind: String,
    #[schema(format = DateTime)]
    at: String,
    /// The ID of the run, if the event belongs to one.
    #[schema(required)]
    run_id: Option<String>,
    /// The data of the event, which depends on the type.
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
    /// The events, oldest first.
    pub(crate) events: Vec<Event>,
    /// The value of `after` for the next page.
    pub(crate) next_after: u64,
    /// `true` if there are more events already.
    pub(crate) has_more: bool,
}
