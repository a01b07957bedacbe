//! The parts of a job as lines for people.

use journeyman_core::model::price::dollars;
use serde_json::Value;

use crate::cli::look::{Look, cell, plain};
use crate::cli::paint::Paint;
use crate::cli::table::headed;
use crate::cli::words::short;

/// Returns the bytes of a diff: unchanged for a pipe, without control characters and with colors for a terminal.
pub(super) fn diff(bytes: Vec<u8>, to_terminal: bool, paint: Paint) -> Vec<u8> {
    if to_terminal || paint.is_on() { paint.diff(&plain(&String::from_utf8_lossy(&bytes))).into_bytes() } else { bytes }
}

/// Formats the record of a job, with one field per line.
pub(super) fn record(look: Look, record: &Value) -> Vec<String> {
    let source = format!("{} at {}", cell(&record["source"]["repository"]), cell(&record["source"]["ref"]));
    look.fields([
        ("job", cell(&record["id"])),
        ("status", look.status(&record["status"])),
        ("source", source),
        ("model", cell(&record["model"])),
        ("pull request", look.link(&record["prLink"])),
        ("created", look.ago(&record["createdAt"])),
        ("archived", look.ago(&record["archivedAt"])),
    ])
}

/// Formats jobs with their details as a table.
pub(super) fn jobs(look: Look, jobs: &[Value]) -> Vec<String> {
    let row = |job: &Value| {
        let title = short(&cell(&job["title"]), 60);
        let (status, created) = (look.status(&job["status"]), look.ago(&job["createdAt"]));
        [cell(&job["id"]), status, title, cell(&job["model"]), created, look.link(&job["pullRequest"]["url"])]
    };
    let head = ["JOB", "STATUS", "TITLE", "MODEL", "CREATED", "PULL REQUEST"];
    headed(look.paint, head, jobs.iter().map(row).collect())
}

/// Formats messages as a table.
pub(super) fn messages(look: Look, messages: &[Value]) -> Vec<String> {
    let row = |message: &Value| {
        let [id, author, commits] = ["id", "author", "commits"].map(|field| cell(&message[field]));
        let (status, created) = (look.status(&message["status"]), look.ago(&message["createdAt"]));
        [id, status, author, created, commits, short(&cell(&message["prompt"]), 60)]
    };
    let head = ["MESSAGE", "STATUS", "AUTHOR", "CREATED", "COMMITS", "PROMPT"];
    headed(look.paint, head, messages.iter().map(row).collect())
}

/// Formats runs as a table.
pub(super) fn runs(look: Look, runs: &[Value]) -> Vec<String> {
    let row = |run: &Value| {
        let [id, attempt] = ["id", "attempt"].map(|field| cell(&run[field]));
        let [started, finished] = ["startedAt", "finishedAt"].map(|field| look.ago(&run[field]));
        let usage = &run["usage"];
        let tokens = format!("{}/{}", cell(&usage["inputTokens"]), cell(&usage["outputTokens"]));
        let cost = usage["costMicros"].as_u64().map_or_else(|| "-".to_owned(), dollars);
        let status = look.status(&run["status"]);
        [id, attempt, status, started, finished, tokens, cost, short(&cell(&run["reason"]["text"]), 100)]
    };
    let head = ["RUN", "ATTEMPT", "STATUS", "STARTED", "FINISHED", "TOKENS", "COST", "REASON"];
    headed(look.paint, head, runs.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    const LOOK: Look = Look { paint: Paint::OFF, now: Timestamp::from_micros(3_600_000_000) };

    #[test]
    fn a_diff_is_changed_only_for_people() {
        assert_eq!(diff(b"+\x1b[2J".to_vec(), true, Paint::OFF), "+\u{fffd}[2J".as_bytes());
        assert_eq!(diff(b"+\x1b[2J".to_vec(), false, Paint::OFF), b"+\x1b[2J");
        assert_eq!(diff(b"+a".to_vec(), true, Paint::ON), b"\x1b[32m+a\x1b[0m");
    }

    #[test]
    fn rows_have_no_sequences_of_the_server() {
        let rows = messages(LOOK, &[json!({"prompt": "a\n\u{1b}]0;x\u{7}", "commits": ["a", "b"]})]);
        assert!(!rows[1].contains('\u{1b}') && !rows[1].contains('\n'), "{rows:?}");
    }

    #[test]
    fn a_list_of_jobs_has_titles_and_relative_times() {
        let job = json!({
            "id": "job_1", "status": "active", "title": "Add a page", "model": "m",
            "createdAt": "1970-01-01T00:00:00.000Z", "pullRequest": {"url": "http://h/7"},
        });
        let rows = jobs(LOOK, std::slice::from_ref(&job));
        assert_eq!(rows[0], "JOB    STATUS  TITLE       MODEL  CREATED     PULL REQUEST");
        assert_eq!(rows[1], "job_1  active  Add a page  m      1 hour ago  http://h/7");
        let painted = jobs(Look { paint: Paint::ON, ..LOOK }, &[job]);
        assert!(painted[1].contains("\u{1b}[33mactive\u{1b}[0m"), "{painted:?}");
    }

    #[test]
    fn a_run_has_a_cost_only_if_it_is_known() {
        let rows = runs(LOOK, &[json!({"usage": {"costMicros": 1_250_000}}), json!({"usage": {"costMicros": null}})]);
        assert!(rows[1].contains("$1.25") && !rows[2].contains('$'), "{rows:?}");
    }

    #[test]
    fn a_record_has_a_line_for_each_field() {
        let job = json!({"id": "job_1", "status": "active", "source": {"repository": "r", "ref": "main"}});
        let lines = record(LOOK, &job);
        assert_eq!(lines[2], "source       r at main");
        assert_eq!(lines[4], "pull request -");
    }
}
