//! Summaries of jobs: the data that a row of a list shows in addition to the job itself.

use std::time::Duration;

use super::event::{LogEntry, TranscriptKind};
use crate::ids::{JobId, RunId};
use crate::job::label::Attribute;
use crate::message::PlanProgress;
use crate::time::Timestamp;

/// The number of entries at the end of a log among which the current tool call of a job is looked for, so that the cost
/// does not grow with the length of the log.
pub const STEP_WINDOW: u64 = 64;

/// The summary of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSummary {
    /// The labels, the metadata, the author and the agent, sorted by their texts.
    pub attributes: Vec<Attribute>,
    /// The number of messages, including withdrawn ones.
    pub messages: u64,
    /// The sum of the durations of the runs that have ended.
    pub run_time: Duration,
    /// The time at which the current run started; `None` if no run is in progress.
    pub running_since: Option<Timestamp>,
    /// The money spent on model calls so far, in millionths of a US dollar.
    pub cost_micros: u64,
    /// The progress of the agent's plan in the current run.
    pub plan: Option<PlanProgress>,
    /// The title of the tool call that the agent carries out, or carried out last, in the current run. `None` if none of
    /// the last [`STEP_WINDOW`] entries of the log has a title.
    pub step: Option<String>,
}

impl JobSummary {
    /// Returns the author of the first message.
    #[must_use]
    pub fn author(&self) -> Option<&str> {
        self.attributes.iter().find_map(|attribute| match attribute {
            Attribute::Author(author) => Some(author.as_str()),
            _ => None,
        })
    }
}

/// A log entry of a tool call: its first event, or an update, which has only the changed fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolEntry {
    /// The sequence number in the log.
    pub seq: u64,
    /// The run.
    pub run: Option<RunId>,
    /// The ID of the tool call.
    pub call: Option<String>,
    /// The title.
    pub title: Option<String>,
    /// The status, such as `completed`.
    pub status: Option<String>,
}

impl ToolEntry {
    /// Returns the entry with its job; `None` if a log entry is not about a tool call.
    #[must_use]
    pub fn of(job: JobId, entry: &LogEntry) -> Option<(JobId, Self)> {
        let text = |field: &str| entry.data[field].as_str().map(str::to_owned);
        let is_call = entry.kind == TranscriptKind::ToolCall.event_type();
        is_call.then(|| {
            let own = Self {
                seq: entry.seq,
                run: entry.run_id,
                call: text("toolCallId"),
                title: text("title"),
                status: text("status"),
            };
            (job, own)
        })
    }

    fn has_ended(&self) -> bool {
        matches!(self.status.as_deref(), Some("completed" | "failed"))
    }
}

/// Returns the title of the newest tool call of a run that has not ended, or otherwise of the newest one. `entries` are
/// sorted by their numbers.
#[must_use]
pub fn current_step(entries: &[ToolEntry], run: RunId) -> Option<String> {
    // The calls in the order of their first entries: the ID, the last title, and whether the call has ended.
    let mut calls: Vec<(&str, Option<&str>, bool)> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.run == Some(run)) {
        let id = entry.call.as_deref().unwrap_or_default();
        let index = calls.iter().position(|(known, ..)| *known == id).unwrap_or_else(|| {
            calls.push((id, None, false));
            calls.len() - 1
        });
        if let Some((_, title, ended)) = calls.get_mut(index) {
            *title = entry.title.as_deref().filter(|title| !title.trim().is_empty()).or(*title);
            *ended = *ended || entry.has_ended();
        }
    }
    let titled = || calls.iter().rev().filter_map(|(_, title, ended)| Some(((*title)?, *ended)));
    let open = titled().find(|(_, ended)| !ended);
    open.or_else(|| titled().next()).map(|(title, _)| title.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn run(number: u128) -> RunId {
        RunId::from_uuid(Uuid::from_u128(number))
    }

    fn entry(call: &str, title: &str, status: &str) -> ToolEntry {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ToolEntry { seq: 0, run: Some(run(1)), call: given(call), title: given(title), status: given(status) }
    }

    #[test]
    fn the_current_step_is_the_newest_open_call() {
        let started = entry("1", "cargo test", "in_progress");
        for (entries, expected) in [
            (vec![], None),
            (vec![started.clone()], Some("cargo test")),
            (vec![started.clone(), entry("1", "", "completed")], Some("cargo test")),
            (vec![started.clone(), entry("2", "Edit a.rs", "pending")], Some("Edit a.rs")),
            (vec![started.clone(), entry("2", "Edit a.rs", ""), entry("2", "", "failed")], Some("cargo test")),
            (vec![started.clone(), entry("1", "cargo test -p a", "")], Some("cargo test -p a")),
            (vec![entry("1", " ", "in_progress")], None),
            (vec![ToolEntry { run: Some(run(2)), ..started }], None),
        ] {
            assert_eq!(current_step(&entries, run(1)).as_deref(), expected, "{entries:?}");
        }
    }

    #[test]
    fn the_progress_of_a_plan_counts_its_completed_steps() {
        let plan = json!({"entries": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]});
        assert_eq!(PlanProgress::of(&plan), Some(PlanProgress { done: 1, total: 2, current: Some("b".to_owned()) }));
        for other in [json!({}), json!({"entries": []}), json!({"entries": "x"}), json!(7)] {
            assert_eq!(PlanProgress::of(&other), None, "{other}");
        }
    }
}
