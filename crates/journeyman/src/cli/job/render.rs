//! Formats responses of the server for people.
//!
//! Invariant: text from a server, which can come from agents and repositories, reaches a terminal only through
//! [`plain`]. An escape sequence could rewrite earlier output, or enter text for the user.

use journeyman_core::model::price::dollars;
use serde_json::Value;

use crate::cli::table::table;

/// Replaces characters that control a terminal, except line breaks and tabs.
pub(in crate::cli) fn plain(text: &str) -> String {
    let controls = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            // Marks of writing direction can change how a line reads.
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if controls(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns the bytes of a diff: unchanged for a pipe, without control characters for a terminal.
pub(super) fn diff(bytes: Vec<u8>, to_terminal: bool) -> Vec<u8> {
    if to_terminal { plain(&String::from_utf8_lossy(&bytes)).into_bytes() } else { bytes }
}

/// Formats a value as one line; null is a dash.
pub(in crate::cli) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text).replace(['\n', '\t'], " "),
        Value::Array(values) => values.len().to_string(),
        other => other.to_string(),
    }
}

/// Shortens a text to at most `most` characters.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Formats the record of a job, with one field per line.
pub(super) fn record(record: &Value) -> Vec<String> {
    let source = format!("{} at {}", cell(&record["source"]["repository"]), cell(&record["source"]["ref"]));
    let lines = [
        ("job", cell(&record["id"])),
        ("status", cell(&record["status"])),
        ("source", source),
        ("model", cell(&record["model"])),
        ("pull request", cell(&record["prLink"])),
        ("created", cell(&record["createdAt"])),
        ("archived", cell(&record["archivedAt"])),
    ];
    lines.map(|(name, value)| format!("{name:<13} {value}")).into()
}

/// Formats jobs as a table.
pub(super) fn jobs(jobs: &[Value]) -> Vec<String> {
    let row = |job: &Value| ["id", "status", "model", "createdAt", "prLink"].map(|field| cell(&job[field]));
    table(["JOB", "STATUS", "MODEL", "CREATED", "PULL REQUEST"], jobs.iter().map(row).collect())
}

/// Formats messages as a table.
pub(super) fn messages(messages: &[Value]) -> Vec<String> {
    let row = |message: &Value| {
        let [id, status, author, created, commits] =
            ["id", "status", "author", "createdAt", "commits"].map(|field| cell(&message[field]));
        [id, status, author, created, commits, short(&cell(&message["prompt"]), 60)]
    };
    table(["MESSAGE", "STATUS", "AUTHOR", "CREATED", "COMMITS", "PROMPT"], messages.iter().map(row).collect())
}

/// Formats runs as a table.
pub(super) fn runs(runs: &[Value]) -> Vec<String> {
    let row = |run: &Value| {
        let [id, attempt, status, started, finished] =
            ["id", "attempt", "status", "startedAt", "finishedAt"].map(|field| cell(&run[field]));
        let usage = &run["usage"];
        let tokens = format!("{}/{}", cell(&usage["inputTokens"]), cell(&usage["outputTokens"]));
        let cost = usage["costMicros"].as_u64().map_or_else(|| "-".to_owned(), dollars);
        [id, attempt, status, started, finished, tokens, cost, short(&cell(&run["reason"]["text"]), 100)]
    };
    let head = ["RUN", "ATTEMPT", "STATUS", "STARTED", "FINISHED", "TOKENS", "COST", "REASON"];
    table(head, runs.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn characters_that_control_a_terminal_are_replaced() {
        assert_eq!(
            plain("a\u{1b}[2J\u{9b}1m\r\u{8}b\n\tc\u{202e}"),
            "a\u{fffd}[2J\u{fffd}1m\u{fffd}\u{fffd}b\n\tc\u{fffd}"
        );
        assert_eq!(diff(b"+\x1b[2J".to_vec(), true), "+\u{fffd}[2J".as_bytes());
        assert_eq!(diff(b"+\x1b[2J".to_vec(), false), b"+\x1b[2J");
        let rows = messages(&[json!({"prompt": "a\n\u{1b}]0;x\u{7}", "commits": ["a", "b"]})]);
        assert!(!rows[1].contains('\u{1b}') && !rows[1].contains('\n'), "{rows:?}");
    }

    #[test]
    fn a_run_has_a_cost_only_if_it_is_known() {
        let rows = runs(&[json!({"usage": {"costMicros": 1_250_000}}), json!({"usage": {"costMicros": null}})]);
        assert!(rows[1].contains("$1.25") && !rows[2].contains('$'), "{rows:?}");
    }

    #[test]
    fn a_record_has_a_line_for_each_field() {
        let lines = record(&json!({"id": "job_1", "status": "active", "source": {"repository": "r", "ref": "main"}}));
        assert_eq!(lines[2], "source        r at main");
        assert_eq!(lines[4], "pull request  -");
        assert_eq!(short("abcdef", 4), "abc…");
    }
}
