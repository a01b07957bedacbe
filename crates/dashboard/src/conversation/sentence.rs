//! The events of a log as one sentence each, for the list of all events.

use std::collections::HashMap;
use std::time::Duration;

use journeyman_core::job::event::LogEntry;
use serde_json::Value;

use super::line::{self, Line};
use super::{Plan, Tool};
use crate::words;

/// The known types of events, sorted.
pub(crate) const TYPES: [&str; 37] = [
    "agent.continued",
    "agent.line_dropped",
    "agent.message",
    "agent.model_call",
    "agent.plan",
    "agent.session",
    "agent.thought",
    "agent.tool_call",
    "agent.usage",
    "changes.left_out",
    "checkout.incomplete",
    "checks.settled",
    "commit.pushed",
    "egress.allowed",
    "egress.denied",
    "home.not_stored",
    "job.archived",
    "job.completed",
    "job.created",
    "job.failed",
    "job.unarchived",
    "message.accepted",
    "message.changed",
    "message.finished",
    "message.published_with",
    "message.waiting",
    "message.withdrawn",
    "model.denied",
    "permission.answered",
    "pull_request.closed",
    "pull_request.merged",
    "pull_request.opened",
    "pull_request.outdated",
    "pull_request.reopened",
    "pull_request.updated",
    "run.finished",
    "run.started",
];

/// The sentences of entries of a log, in their order. Updates of a tool call have no title, so the calls are remembered.
#[derive(Debug, Default)]
pub(crate) struct Sentences {
    tools: HashMap<(String, String), Tool>,
}

impl Sentences {
    /// Returns the sentence of the next entry; `None` if its type is not known.
    pub(crate) fn of(&mut self, entry: &LogEntry) -> Option<String> {
        let data = &entry.data;
        if data["cut"] == true {
            return Some(format!("Too large to keep: {}", words::bytes(data["bytes"].as_u64().unwrap_or_default())));
        }
        if entry.kind != "agent.continued"
            && let Some(line) = line::of(entry, None)
        {
            return Some(with_details(line));
        }
        let text = |field: &str| first_line(data[field].as_str().unwrap_or_default());
        Some(match entry.kind.as_str() {
            "agent.continued" if data["cause"] == "unresolved_conflicts" => {
                "The agent is asked to resolve its conflicts".to_owned()
            }
            "agent.continued" => because("The turn was interrupted and continues", text("cause")),
            "agent.message" | "agent.thought" => text("text").to_owned(),
            "agent.plan" => {
                let plan = Plan::new(String::new(), data);
                format!("{} of {} done", plan.done(), words::counted(plan.steps.len(), "step"))
            }
            "agent.tool_call" => self.tool(entry),
            "agent.usage" => usage(data),
            "agent.model_call" => model_call(data),
            "agent.line_dropped" => because("A line of the agent's output was ignored", text("reason")),
            "checks.settled" => checks(data),
            "job.created" => because("The job was created", text("title")),
            "job.completed" => "The job completed".to_owned(),
            "job.failed" => "The job failed".to_owned(),
            "message.accepted" => text("prompt").to_owned(),
            "message.finished" => message_finished(data),
            "run.started" => match data["attempt"].as_u64() {
                Some(attempt @ 2..) => Line::attempt(attempt).text,
                _ => "A run started".to_owned(),
            },
            "run.finished" => "The run succeeded".to_owned(),
            _ => return None,
        })
    }

    fn tool(&mut self, entry: &LogEntry) -> String {
        let LogEntry { at, run_id, data, .. } = entry;
        let run = run_id.map(|run| run.to_string()).unwrap_or_default();
        let id = data["toolCallId"].as_str().unwrap_or_default().to_owned();
        let tool = self.tools.entry((run, id)).and_modify(|tool| tool.add(data, *at));
        let tool = tool.or_insert_with(|| Tool::new(data, *at));
        match tool.exit_code.filter(|_| tool.status == "failed") {
            _ if data["status"].as_str().is_none() => format!("{}: an update", tool.title),
            Some(code) => format!("{}: failed with exit code {code}", tool.title),
            None => format!("{}: {}", tool.title, tool.word()),
        }
    }
}

/// Returns the text of a line with its details.
fn with_details(Line { text, code, commits, .. }: Line) -> String {
    let commits = commits.iter().map(|sha| sha.get(..8).unwrap_or(sha).to_owned());
    std::iter::once(text).chain(code).chain(commits).collect::<Vec<_>>().join(" ")
}

/// Returns the first line of a text that is not blank.
fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// Adds a detail to a sentence, if there is one.
fn because(sentence: &str, detail: &str) -> String {
    if detail.is_empty() { sentence.to_owned() } else { format!("{sentence}: {detail}") }
}

fn usage(data: &Value) -> String {
    match (data["used"].as_u64(), data["size"].as_u64()) {
        (Some(used), Some(size)) => {
            format!("The context has {} of {} tokens", words::tokens(used), words::tokens(size))
        }
        (Some(used), None) => format!("The context has {} tokens", words::tokens(used)),
        (None, _) => "The agent reported its usage".to_owned(),
    }
}

fn model_call(data: &Value) -> String {
    let tokens = |field: &str| words::tokens(data[field].as_u64().unwrap_or_default());
    let model = data["model"].as_str().filter(|model| !model.is_empty()).unwrap_or("a model");
    let cost = data["costMicros"].as_u64().filter(|cost| *cost > 0).map(words::money);
    let cost = cost.map(|cost| format!(", {cost}")).unwrap_or_default();
    let cost = if data["estimated"] == true { format!("{cost} (estimated: the call was interrupted)") } else { cost };
    let waited = Duration::from_millis(data["waitedMillis"].as_u64().unwrap_or_default());
    let cost = match words::duration(waited) {
        time if waited >= Duration::from_secs(1) => format!("{cost}, after {time} of waiting for the budget"),
        _ => cost,
    };
    format!("Called {model}: {} tokens in, {} out{cost}", tokens("inputTokens"), tokens("outputTokens"))
}

fn checks(data: &Value) -> String {
    let sha = data["sha"].as_str().unwrap_or_default();
    let sha = sha.get(..8).unwrap_or(sha);
    let failed: Vec<&str> = data["failed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match data["result"].as_str() {
        Some("passed") => format!("The checks of {sha} passed"),
        Some("failed") => because(&format!("The checks of {sha} failed"), &failed.join(", ")),
        Some("timed_out") => format!("The checks of {sha} did not finish"),
        _ => format!("{sha} has no checks"),
    }
}

fn message_finished(data: &Value) -> String {
    let reason = first_line(data["reason"]["text"].as_str().unwrap_or_default());
    match data["status"].as_str() {
        Some("failed") => because("The message failed", reason),
        Some("cancelled") => because("The message was stopped", reason),
        _ => "The message finished".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use journeyman_core::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn entry(kind: &str, data: Value) -> LogEntry {
        LogEntry { seq: 1, kind: kind.to_owned(), at: Timestamp::default(), run_id: None, data }
    }

    /// Returns an example of the data of each type, with its sentence.
    fn table() -> Vec<(&'static str, Value, &'static str)> {
        let reason = || json!({"code": "internal", "text": "it broke"});
        let sha = "0123456789abcdef0123456789abcdef01234567";
        vec![
            (
                "agent.continued",
                json!({"cause": "unresolved_conflicts"}),
                "The agent is asked to resolve its conflicts",
            ),
            ("agent.continued", json!({"cause": "limit"}), "The turn was interrupted and continues: limit"),
            ("agent.line_dropped", json!({"reason": "no JSON"}), "A line of the agent's output was ignored: no JSON"),
            ("agent.message", json!({"text": "\nFirst line\nsecond"}), "First line"),
            ("agent.message", json!({"cut": true, "bytes": 300_000}), "Too large to keep: 300 kB"),
            (
                "agent.model_call",
                json!({"model": "opus", "inputTokens": 1200, "outputTokens": 30, "costMicros": 20_000, "failure": null}),
                "Called opus: 1.2 k tokens in, 30 out, $0.0200",
            ),
            ("agent.model_call", json!({"failure": "status 529"}), "A model call failed: status 529"),
            ("agent.plan", json!({"entries": [{"status": "completed"}, {}]}), "1 of 2 steps done"),
            ("agent.session", json!({"agent": "codex", "opened": "resumed"}), "codex resumed its session"),
            (
                "agent.session",
                json!({"agent": "x", "opened": "new", "notSet": {"effort": "max", "mode": "yolo"}}),
                "x opened a session, but it has no effort max, no mode yolo",
            ),
            ("agent.thought", json!({"text": "Hm"}), "Hm"),
            ("agent.tool_call", json!({"title": "ls", "status": "completed"}), "ls: done"),
            ("agent.usage", json!({"used": 12_000, "size": 200_000}), "The context has 12.0 k of 200.0 k tokens"),
            ("agent.usage", json!({"used": 12}), "The context has 12 tokens"),
            ("agent.usage", json!({}), "The agent reported its usage"),
            (
                "changes.left_out",
                json!({"paths": [{"path": "b.bin", "reason": "special", "detail": "It is a FIFO."}], "more": 1}),
                "2 changes not published: b.bin",
            ),
            (
                "changes.left_out",
                json!({"paths": [{"path": "a1b2", "reason": "rewritten_history", "detail": "It does not continue."}], "more": 0}),
                "The agent's commits were replaced. It does not continue. a1b2",
            ),
            (
                "checkout.incomplete",
                json!({"entries": [{"path": "lib", "kind": "submodule", "detail": "The project fills none."}]}),
                "1 submodule not filled (The project fills none): lib",
            ),
            (
                "checkout.incomplete",
                json!({"entries": [
                    {"path": "origin/main", "kind": "base", "detail": "It is gone."},
                    {"path": "m.bin", "kind": "file"},
                    {"path": "n.bin", "kind": "file"},
                ], "more": 2}),
                "2 files incomplete, base branch not shown, 2 more entries (It is gone): origin/main m.bin n.bin",
            ),
            (
                "checkout.incomplete",
                json!({"entries": [{"path": "~", "kind": "home", "detail": "It is damaged."}]}),
                "home not restored (It is damaged): ~",
            ),
            ("checks.settled", json!({"sha": sha, "result": "passed"}), "The checks of 01234567 passed"),
            (
                "checks.settled",
                json!({"sha": sha, "result": "failed", "failed": ["lint", "test"]}),
                "The checks of 01234567 failed: lint, test",
            ),
            ("checks.settled", json!({"sha": sha, "result": "timed_out"}), "The checks of 01234567 did not finish"),
            ("checks.settled", json!({"sha": sha, "result": "none"}), "01234567 has no checks"),
            ("commit.pushed", json!({"commits": [sha, "b"]}), "Pushed 01234567 b"),
            ("egress.allowed", json!({"destination": "a.example:443"}), "Connected to a.example:443"),
            ("egress.denied", json!({"destination": "a.example:443"}), "Connection blocked a.example:443"),
            (
                "home.not_stored",
                json!({"reason": "too_large", "detail": "It is too large."}),
                "The agent's home was not stored. It is too large.",
            ),
            ("job.archived", json!({}), "Archived"),
            ("job.completed", json!({}), "The job completed"),
            ("job.created", json!({"title": "Fix it"}), "The job was created: Fix it"),
            ("job.failed", json!({"reason": reason()}), "Failed: it broke"),
            ("job.failed", json!({}), "The job failed"),
            ("job.unarchived", json!({}), "Unarchived"),
            ("message.accepted", json!({"messageId": "msg_1", "prompt": "Fix it\nsoon"}), "Fix it"),
            ("message.changed", json!({}), "A queued message was changed, because its comment was edited"),
            ("message.finished", json!({"status": "finished", "reason": null}), "The message finished"),
            ("message.finished", json!({"status": "failed", "reason": reason()}), "The message failed: it broke"),
            ("message.finished", json!({"status": "cancelled", "reason": null}), "The message was stopped"),
            ("message.published_with", json!({}), "Published with commits of earlier messages that failed to publish"),
            ("message.waiting", json!({"reason": reason()}), "Waiting to retry: it broke"),
            ("message.withdrawn", json!({}), "A queued message was withdrawn"),
            ("model.denied", json!({"reason": "no money"}), "A model call was denied: no money"),
            ("permission.answered", json!({"title": "rm -rf", "granted": false}), "Refused rm -rf"),
            ("pull_request.closed", json!({"number": 7}), "Pull request #7 was closed without a merge"),
            ("pull_request.merged", json!({"number": 7}), "Pull request #7 was merged"),
            ("pull_request.opened", json!({"number": 7}), "Opened pull request #7"),
            (
                "pull_request.outdated",
                json!({"number": 7, "base": "main", "behind": 2, "conflicts": {"files": ["a"], "more": 1}, "stop": null}),
                "Pull request #7 conflicts with main in 2 files",
            ),
            (
                "pull_request.outdated",
                json!({"number": 7, "base": "main", "behind": 1, "conflicts": {"files": []}, "stop": "daily_limit"}),
                "Pull request #7 is 1 commit behind main. The agent is not asked: the limit of automatic messages in a day is used up",
            ),
            ("pull_request.reopened", json!({"number": 7}), "Pull request #7 was reopened"),
            ("pull_request.updated", json!({"number": 7}), "Updated pull request #7"),
            ("run.finished", json!({"status": "succeeded", "reason": null}), "The run succeeded"),
            ("run.finished", json!({"status": "failed", "reason": reason()}), "The run failed: it broke"),
            ("run.started", json!({"attempt": 1}), "A run started"),
            ("run.started", json!({"attempt": 2}), "Attempt 2 started"),
        ]
    }

    #[test]
    fn every_type_of_event_has_a_sentence() {
        for (kind, data, expected) in table() {
            assert_eq!(Sentences::default().of(&entry(kind, data)).as_deref(), Some(expected), "{kind}");
        }
        let document: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
        let described = &document["components"]["schemas"]["Event"]["discriminator"]["mapping"];
        let described: BTreeSet<&str> = described.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(BTreeSet::from(TYPES), described, "the list of types is complete");
        let shown: BTreeSet<&str> = table().into_iter().map(|(kind, ..)| kind).collect();
        assert_eq!(shown, described, "each type has a row in the table");
        assert_eq!(Sentences::default().of(&entry("moon.landed", json!({}))), None);
    }

    #[test]
    fn the_known_types_are_sorted_and_unique() {
        assert!(TYPES.is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn an_update_of_a_tool_call_has_the_title_of_the_call() {
        let mut sentences = Sentences::default();
        let mut next = |data: Value| sentences.of(&entry("agent.tool_call", data)).unwrap();
        assert_eq!(next(json!({"toolCallId": "1", "title": "cargo test", "status": "pending"})), "cargo test: waits");
        assert_eq!(next(json!({"toolCallId": "2", "title": "ls", "status": "in_progress"})), "ls: running");
        assert_eq!(next(json!({"toolCallId": "1", "content": []})), "cargo test: an update");
        let failed = json!({"toolCallId": "1", "status": "failed", "rawOutput": {"exitCode": 101}});
        assert_eq!(next(failed), "cargo test: failed with exit code 101");
        assert_eq!(next(json!({"toolCallId": "2", "status": "completed"})), "ls: done");
        assert_eq!(next(json!({"toolCallId": "3", "status": "completed"})), "A tool: done", "it began earlier");
    }
}
