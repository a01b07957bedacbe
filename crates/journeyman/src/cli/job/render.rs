//! The parts of a job as lines for people.

use journeyman_core::model::price::dollars;
use serde_json::Value;

use crate::cli::look::{Look, cell, plain};
use crate::cli::paint::Paint;
use crate::cli::table::Column::{Extra, Text, Whole};
use crate::cli::table::headed;

/// Returns the bytes of a diff: unchanged for a pipe, without control characters and with colors for a terminal.
pub(super) fn diff(bytes: Vec<u8>, to_terminal: bool, paint: Paint) -> Vec<u8> {
    if to_terminal || paint.is_on() { paint.diff(&plain(&String::from_utf8_lossy(&bytes))).into_bytes() } else { bytes }
}

/// Formats a job with its details, with one field per line. The reason of a failure follows the status, as does what the
/// job waits for.
pub(super) fn job(look: Look, job: &Value) -> Vec<String> {
    let mut fields = vec![("job", cell(&job["id"])), ("status", look.status(&job["status"]))];
    let (failure, waiting) = (&job["failure"], &job["waiting"]);
    if !failure.is_null() {
        fields.push(("reason", look.paint.bad(&cell(&failure["text"]))));
    }
    if !waiting.is_null() {
        fields.push(("waits for", look.paint.warn(&cell(&waiting["reason"]["text"]))));
        fields.push(("next attempt", look.when(&waiting["nextAttemptAt"])));
    }
    // The record of a job has the pull request in another field.
    let pull = [&job["pullRequest"]["url"], &job["prLink"]].into_iter().find(|link| !link.is_null());
    fields.extend([
        ("title", cell(&job["title"])),
        ("source", format!("{} at {}", cell(&job["source"]["repository"]), cell(&job["source"]["ref"]))),
        ("branch", cell(&job["branch"])),
        ("model", cell(&job["model"])),
        ("effort", cell(&job["effort"])),
        ("pull request", look.link(pull.unwrap_or(&Value::Null))),
        ("created", look.ago(&job["createdAt"])),
        ("archived", look.ago(&job["archivedAt"])),
    ]);
    look.fields(fields)
}

/// Formats jobs with their details as a table.
pub(super) fn jobs(look: Look, jobs: &[Value]) -> Vec<String> {
    let row = |job: &Value| {
        let [id, title, model] = ["id", "title", "model"].map(|field| cell(&job[field]));
        let number = &job["pullRequest"]["number"];
        let pull = if number.is_null() { cell(number) } else { look.paint.link(&format!("#{}", cell(number))) };
        [id, look.status(&job["status"]), title, model, look.ago(&job["createdAt"]), pull]
    };
    let head = [Whole("JOB"), Whole("STATUS"), Text("TITLE"), Extra("MODEL"), Extra("CREATED"), Whole("PR")];
    headed(look, head, jobs.iter().map(row).collect())
}

/// Formats messages as a table.
pub(super) fn messages(look: Look, messages: &[Value]) -> Vec<String> {
    let row = |message: &Value| {
        let [id, author, commits] = ["id", "author", "commits"].map(|field| cell(&message[field]));
        let (status, created) = (look.status(&message["status"]), look.ago(&message["createdAt"]));
        [id, status, author, created, commits, cell(&message["prompt"])]
    };
    let head = [Whole("MESSAGE"), Whole("STATUS"), Extra("AUTHOR"), Extra("CREATED"), Extra("COMMITS"), Text("PROMPT")];
    headed(look, head, messages.iter().map(row).collect())
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
        [id, attempt, status, started, finished, tokens, cost, cell(&run["reason"]["text"])]
    };
    let head = [
        Whole("RUN"),
        Extra("ATTEMPT"),
        Whole("STATUS"),
        Extra("STARTED"),
        Extra("FINISHED"),
        Extra("TOKENS"),
        Extra("COST"),
        Text("REASON"),
    ];
    headed(look, head, runs.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    const LOOK: Look = Look { paint: Paint::OFF, now: Timestamp::from_micros(3_600_000_000), columns: None };

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
            "createdAt": "1970-01-01T00:00:00.000Z", "pullRequest": {"number": 7, "url": "http://h/7"},
        });
        let rows = jobs(LOOK, std::slice::from_ref(&job));
        assert_eq!(rows[0], "JOB    STATUS  TITLE       MODEL  CREATED     PR");
        assert_eq!(rows[1], "job_1  active  Add a page  m      1 hour ago  #7");
        let painted = jobs(Look { paint: Paint::ON, ..LOOK }, &[job]);
        assert!(painted[1].contains("\u{1b}[33mactive\u{1b}[0m"), "{painted:?}");
    }

    #[test]
    fn a_run_has_a_cost_only_if_it_is_known() {
        let rows = runs(LOOK, &[json!({"usage": {"costMicros": 1_250_000}}), json!({"usage": {"costMicros": null}})]);
        assert!(rows[1].contains("$1.25") && !rows[2].contains('$'), "{rows:?}");
    }

    #[test]
    fn a_job_has_a_line_for_each_field() {
        let mut record = json!({"id": "job_1", "status": "active", "source": {"repository": "r", "ref": "main"}});
        let lines = job(LOOK, &record);
        assert_eq!(lines[3], "source       r at main");
        assert_eq!(lines[6..8], ["effort       -", "pull request -"]);
        record["prLink"] = "http://h/7".into();
        assert_eq!(job(LOOK, &record)[7], "pull request http://h/7");
        record["pullRequest"] = json!({"url": "http://h/8"});
        assert_eq!(job(LOOK, &record)[7], "pull request http://h/8");
    }

    #[test]
    fn a_job_is_shown_with_the_reason_of_its_failure_or_with_what_it_waits_for() {
        let failed = json!({"status": "failed", "failure": {"code": "timed_out", "text": "too\u{1b}[2J slow"}});
        assert_eq!(job(LOOK, &failed)[2], "reason       too\u{fffd}[2J slow");
        let waiting = json!({
            "status": "active", "failure": null,
            "waiting": {"reason": {"text": "no quota"}, "nextAttemptAt": "1970-01-01T01:05:00.000Z"},
        });
        let lines = job(LOOK, &waiting);
        assert_eq!(lines[2..4], ["waits for    no quota", "next attempt in 5 minutes"]);
    }
}
