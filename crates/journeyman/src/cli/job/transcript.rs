//! The events of a job as lines for people.

use std::collections::HashMap;

use serde_json::Value;

use crate::cli::look::plain;
use crate::cli::paint::Paint;
use crate::cli::words::{counted, short};

/// The number of lines that are shown of the result of a tool call.
const RESULT_LINES: usize = 5;

/// The number of characters that are shown of a line of a result.
const RESULT_CHARS: usize = 160;

/// Formats the events of a job, in their order.
#[derive(Debug)]
pub(in crate::cli) struct Transcript {
    paint: Paint,
    /// The titles of tool calls, by their IDs. Only the first event of a call has the title.
    titles: HashMap<String, String>,
}

impl Transcript {
    pub(in crate::cli) fn new(paint: Paint) -> Self {
        Self { paint, titles: HashMap::new() }
    }

    /// Returns the lines that describe an event. Kinds that later versions have added have no lines.
    pub(in crate::cli) fn lines(&mut self, kind: &str, data: &Value) -> Vec<String> {
        let text = |field: &str| plain(data[field].as_str().unwrap_or_default());
        let reason = || plain(data["reason"]["text"].as_str().unwrap_or_default());
        let count = |field: &str| data[field].as_array().map_or(0, Vec::len);
        let paint = self.paint;
        let fact = |text: String| vec![format!("* {text}")];
        let good = |text: &str| vec![paint.good(&format!("* {text}"))];
        let bad = |text: String| vec![paint.bad(&format!("* {text}"))];
        match kind {
            "message.accepted" => text("prompt").lines().map(|line| paint.heading(&format!("> {line}"))).collect(),
            "message.waiting" => vec![paint.warn(&format!("* waiting to retry: {}", reason()))],
            "message.published_with" => fact("published with commits of earlier messages".to_owned()),
            "message.withdrawn" => fact("a message was withdrawn".to_owned()),
            "run.started" => fact(format!("run started (attempt {})", data["attempt"])),
            "agent.session" => not_set(data).into_iter().map(|line| paint.warn(&line)).collect(),
            "agent.message" => text("text").lines().map(str::to_owned).collect(),
            "agent.thought" => text("text").lines().map(|line| paint.dim(&format!("  ~ {line}"))).collect(),
            "agent.plan" => plan(data),
            "agent.continued" => fact(format!("the turn was cut short ({}) and is continued", text("cause"))),
            "changes.left_out" => told(data, "not published").into_iter().map(|line| paint.warn(&line)).collect(),
            "checkout.incomplete" => incomplete(data).into_iter().map(|line| paint.warn(&line)).collect(),
            "home.not_stored" => vec![paint.warn(&format!("* the agent's home was not stored. {}", text("detail")))],
            "agent.tool_call" => self.tool_call(data),
            "permission.answered" if data["granted"] == true => fact(format!("permission allowed: {}", text("title"))),
            "permission.answered" => bad(format!("permission refused: {}", text("title"))),
            "egress.denied" => bad(format!("connection refused: {} ({})", text("destination"), text("reason"))),
            "model.denied" => bad(format!("model call refused: {}", text("reason"))),
            "agent.model_call" if !data["failure"].is_null() => bad(text("failure")),
            "commit.pushed" => fact(format!("{} pushed to {}", counted(count("commits"), "commit"), text("branch"))),
            "pull_request.opened" => fact(format!("pull request opened: {}", paint.link(&text("url")))),
            "pull_request.updated" => fact(format!("pull request updated: {}", paint.link(&text("url")))),
            "pull_request.outdated" => fact(outdated(data)),
            "pull_request.merged" => good(&format!("pull request #{} merged", data["number"])),
            "pull_request.closed" => fact(format!("pull request #{} closed", data["number"])),
            "run.finished" if data["reason"].is_null() => fact("run finished".to_owned()),
            "run.finished" => bad(format!("run {}: {}", text("status"), reason())),
            "job.failed" => bad(format!("the job failed: {}", reason())),
            "job.completed" => good("the job is completed"),
            "job.archived" => fact("the job was archived".to_owned()),
            _ => Vec::new(),
        }
    }

    /// Returns the lines for a tool call: its title when it begins, and its result when it ends.
    fn tool_call(&mut self, data: &Value) -> Vec<String> {
        let id = data["toolCallId"].as_str().unwrap_or_default().to_owned();
        let title = data["title"].as_str().filter(|title| !title.is_empty()).map(plain);
        let mut lines = Vec::new();
        if let Some(title) = title
            && self.titles.get(&id) != Some(&title)
        {
            lines.push(self.paint.link(&format!("  - {title}")));
            self.titles.insert(id.clone(), title);
        }
        let mark = match data["status"].as_str() {
            Some("completed") => String::new(),
            Some("failed") => self.paint.bad("failed"),
            _ => return lines,
        };
        let ended = self.titles.remove(&id);
        let result = result(data);
        if !mark.is_empty() {
            // The lines of another call may be between the title and the failure.
            let title = ended.filter(|_| lines.is_empty()).map(|title| format!("{title} "));
            lines.push(format!("    {}{mark}", title.unwrap_or_default()));
        }
        let more = result.len().saturating_sub(RESULT_LINES);
        lines.extend(result.iter().take(RESULT_LINES).map(|line| self.paint.dim(&format!("    {line}"))));
        if more > 0 {
            lines.push(self.paint.dim(&format!("    … {}", counted(more, "more line"))));
        }
        lines
    }
}

/// Returns a line for each setting that the session does not have.
fn not_set(data: &Value) -> Vec<String> {
    let settings = data["notSet"].as_object().into_iter().flatten();
    let line = |(setting, wanted): (&String, &Value)| {
        format!("* the agent has no {} {}", plain(setting), plain(wanted.as_str().unwrap_or_default()))
    };
    settings.map(line).collect()
}

/// Returns the line about a pull request that is to be updated with its base.
fn outdated(data: &Value) -> String {
    let base = plain(data["base"].as_str().unwrap_or_default());
    let files: Vec<String> =
        data["conflicts"]["files"].as_array().into_iter().flatten().filter_map(Value::as_str).map(plain).collect();
    let more = data["conflicts"]["more"].as_u64().filter(|more| *more > 0).map(|more| format!(" and {more} more"));
    let what = match files.is_empty() {
        true => format!("is behind {base}"),
        false => format!("conflicts with {base}: {}{}", files.join(", "), more.unwrap_or_default()),
    };
    let stop = data["stop"].as_str().map(|stop| format!(" (the agent is not asked: {})", plain(stop)));
    format!("pull request #{} {what}{}", data["number"], stop.unwrap_or_default())
}

/// Returns what is being done, for the line below the transcript; `None` if the event does not change it.
pub(super) fn activity(kind: &str, data: &Value) -> Option<String> {
    let text = match kind {
        "run.started" => "starting the agent".to_owned(),
        "agent.message" => "the agent is writing".to_owned(),
        "agent.thought" => "the agent is thinking".to_owned(),
        "agent.tool_call" => plain(data["title"].as_str()?).lines().next()?.to_owned(),
        "message.waiting" => "waiting to retry".to_owned(),
        "commit.pushed" => "updating the pull request".to_owned(),
        "message.finished" | "run.finished" => "finishing".to_owned(),
        _ => return None,
    };
    Some(short(&text, 100))
}

/// Returns what an event tells about paths, a line for each.
fn told(data: &Value, what: &str) -> Vec<String> {
    let paths = data["paths"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |one: &Value, field: &str| plain(one[field].as_str().unwrap_or_default());
    let line = |one: &Value| format!("* {what}: {}. {}", text(one, "path"), text(one, "detail"));
    let more = data["more"].as_u64().filter(|more| *more > 0);
    let more = more.map(|more| format!("* {what}: {more} more changes"));
    paths.iter().map(line).chain(more).collect()
}

/// Returns the lines about what a working tree lacks.
fn incomplete(data: &Value) -> Vec<String> {
    let entries = data["entries"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |one: &Value, field: &str| plain(one[field].as_str().unwrap_or_default());
    let line = |one: &Value| {
        let what = match one["kind"].as_str() {
            Some("submodule") => "submodule not filled",
            Some("base") => "base branch not shown",
            Some("turn") => "work of an earlier attempt lost",
            Some("home") => "the agent's home not restored",
            _ => "file incomplete",
        };
        format!("* {what}: {}. {}", text(one, "path"), text(one, "detail"))
    };
    let more = data["more"].as_u64().filter(|more| *more > 0);
    let more = more.map(|more| format!("* the checkout is incomplete: {more} more entries"));
    entries.iter().map(line).chain(more).collect()
}

fn plan(data: &Value) -> Vec<String> {
    let entries = data["entries"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |entry: &Value| {
        let mark = match entry["status"].as_str() {
            Some("completed") => "x",
            Some("in_progress") => "~",
            _ => " ",
        };
        format!("  [{mark}] {}", plain(entry["content"].as_str().unwrap_or_default()))
    };
    entries.iter().map(line).collect()
}

/// Returns the lines of the result of a tool call.
fn result(data: &Value) -> Vec<String> {
    let parts = data["content"].as_array().map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = parts.iter().flat_map(part).collect();
    if lines.is_empty() {
        let output = &data["rawOutput"];
        let named = ["output", "stdout", "formatted_output"].iter().find_map(|name| output[*name].as_str());
        lines = texts(output.as_str().or(named).unwrap_or_default());
    }
    lines
}

fn part(part: &Value) -> Vec<String> {
    match part["type"].as_str() {
        Some("content") => texts(part["content"]["text"].as_str().unwrap_or_default()),
        Some("diff") => {
            let is_new = part["oldText"].as_str().is_none_or(str::is_empty);
            let what = if is_new { "wrote" } else { "changed" };
            texts(&format!("{what} {}", part["path"].as_str().unwrap_or("a file")))
        }
        _ => Vec::new(),
    }
}

fn texts(text: &str) -> Vec<String> {
    plain(text).trim_end().lines().map(|line| short(line, RESULT_CHARS)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(kind: &str, data: &Value) -> Vec<String> {
        Transcript::new(Paint::OFF).lines(kind, data)
    }

    #[test]
    fn events_are_formatted_as_lines() {
        let failed = json!({"reason": {"code": "timed_out", "text": "too\u{1b} long"}});
        let entries =
            json!({"entries": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]});
        for (kind, data, expected) in [
            ("message.accepted", json!({"prompt": "a\nb"}), vec!["> a", "> b"]),
            ("agent.message", json!({"text": "hi\u{7}"}), vec!["hi\u{fffd}"]),
            ("agent.plan", entries, vec!["  [x] a", "  [ ] b"]),
            ("agent.tool_call", json!({"title": "ls", "status": "pending"}), vec!["  - ls"]),
            ("agent.tool_call", json!({"toolCallId": "1", "status": "completed"}), vec![]),
            ("commit.pushed", json!({"commits": ["a", "b"], "branch": "x"}), vec!["* 2 commits pushed to x"]),
            ("commit.pushed", json!({"commits": ["a"], "branch": "x"}), vec!["* 1 commit pushed to x"]),
            (
                "egress.denied",
                json!({"destination": "a.b:443", "reason": "not allowed"}),
                vec!["* connection refused: a.b:443 (not allowed)"],
            ),
            (
                "agent.continued",
                json!({"cause": "max_tokens"}),
                vec!["* the turn was cut short (max_tokens) and is continued"],
            ),
            (
                "changes.left_out",
                json!({"paths": [{"path": "lib", "reason": "submodule", "detail": "It is a submodule."}], "more": 2}),
                vec!["* not published: lib. It is a submodule.", "* not published: 2 more changes"],
            ),
            (
                "checkout.incomplete",
                json!({"entries": [
                    {"path": "lib", "kind": "submodule", "reason": "off", "detail": "It is off."},
                    {"path": "m.bin", "kind": "file", "reason": "lost", "detail": "It is gone."},
                    {"path": "origin/main", "kind": "base", "reason": "not_found", "detail": "There is none."},
                ], "more": 2}),
                vec![
                    "* submodule not filled: lib. It is off.",
                    "* file incomplete: m.bin. It is gone.",
                    "* base branch not shown: origin/main. There is none.",
                    "* the checkout is incomplete: 2 more entries",
                ],
            ),
            (
                "checkout.incomplete",
                json!({"entries": [{"path": "~", "kind": "home", "reason": "damaged", "detail": "It is damaged."}]}),
                vec!["* the agent's home not restored: ~. It is damaged."],
            ),
            (
                "home.not_stored",
                json!({"reason": "too_large", "detail": "It is too large."}),
                vec!["* the agent's home was not stored. It is too large."],
            ),
            ("model.denied", json!({"reason": "no"}), vec!["* model call refused: no"]),
            ("agent.session", json!({"opened": "new"}), Vec::new()),
            ("agent.session", json!({"notSet": {"effort": "max"}}), vec!["* the agent has no effort max"]),
            ("agent.model_call", json!({"failure": "status 529"}), vec!["* status 529"]),
            ("agent.model_call", json!({"failure": null}), vec![]),
            (
                "pull_request.outdated",
                json!({"number": 7, "base": "main", "behind": 3, "conflicts": {"files": [], "more": 0}}),
                vec!["* pull request #7 is behind main"],
            ),
            (
                "pull_request.outdated",
                json!({"number": 7, "base": "main", "conflicts": {"files": ["a", "b"]}, "stop": "last_failed"}),
                vec!["* pull request #7 conflicts with main: a, b (the agent is not asked: last_failed)"],
            ),
            ("pull_request.merged", json!({"number": 7}), vec!["* pull request #7 merged"]),
            ("job.failed", failed, vec!["* the job failed: too\u{fffd} long"]),
            ("something.new", json!({}), vec![]),
        ] {
            assert_eq!(lines(kind, &data), expected, "{kind}");
        }
    }

    #[test]
    fn a_tool_call_has_its_title_once_and_its_result() {
        let mut transcript = Transcript::new(Paint::OFF);
        let mut next = |data: Value| transcript.lines("agent.tool_call", &data);
        assert_eq!(next(json!({"toolCallId": "1", "title": "ls", "status": "pending"})), ["  - ls"]);
        assert_eq!(next(json!({"toolCallId": "2", "title": "cat", "status": "pending"})), ["  - cat"]);
        assert!(next(json!({"toolCallId": "1", "title": "ls", "status": "in_progress"})).is_empty());
        let text = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        let ended = next(json!({"toolCallId": "1", "status": "completed", "content": text("1\n2\n3\n4\n5\n6\n")}));
        assert_eq!(ended, ["    1", "    2", "    3", "    4", "    5", "    … 1 more line"]);
        let failed = next(json!({"toolCallId": "2", "status": "failed", "content": text("no\u{1b}[2J such file")}));
        assert_eq!(failed, ["    cat failed", "    no\u{fffd}[2J such file"]);
        let change = json!([{"type": "diff", "path": "a.txt", "oldText": null, "newText": "a"}]);
        let whole = next(json!({"toolCallId": "3", "title": "Write", "status": "completed", "content": change}));
        assert_eq!(whole, ["  - Write", "    wrote a.txt"]);
        let raw = next(json!({"toolCallId": "4", "status": "completed", "rawOutput": {"output": "done"}}));
        assert_eq!(raw, ["    done"]);
    }

    #[test]
    fn lines_have_colors_only_if_they_are_on() {
        let failed = json!({"reason": {"text": "too long"}});
        let painted = Transcript::new(Paint::ON).lines("job.failed", &failed);
        assert_eq!(painted, ["\u{1b}[31m* the job failed: too long\u{1b}[0m"]);
        assert_eq!(lines("job.failed", &failed), ["* the job failed: too long"]);
    }

    #[test]
    fn the_activity_is_in_words() {
        for (kind, data, expected) in [
            ("agent.tool_call", json!({"title": "cargo test\n--all"}), Some("cargo test")),
            ("agent.tool_call", json!({"status": "completed"}), None),
            ("agent.message", json!({"text": "x"}), Some("the agent is writing")),
            ("agent.usage", json!({}), None),
        ] {
            assert_eq!(activity(kind, &data).as_deref(), expected, "{kind}");
        }
    }
}
