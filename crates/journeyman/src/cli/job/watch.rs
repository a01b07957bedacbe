//! `journeyman job watch`: prints the transcript of a job as it grows.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use journeyman_client::models::Event;
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::render::plain;
use super::{Session, print, print_lines};

/// The longest time for which the command tries to reconnect, which is enough for a restart of the server.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Prints a job's events after `after` until the job is no longer active, and then its record.
pub(super) async fn watch(session: &Session, job: &str, after: u64) -> Result<Exit, Failure> {
    let job = session.job(job);
    let mut events = job.stream_events().after(after).reconnect_timeout(Some(RECONNECT_TIMEOUT));
    let mut screen = Screen::new(session.json);
    while let Some(event) = events.next().await? {
        screen.show(&event)?;
    }
    screen.end();
    let record = job.get().raw().await?;
    session.show(&record)?;
    Ok(Exit::of(&record))
}

/// Prints events as lines on stdout, with a progress line below them if stderr is a terminal.
struct Screen {
    json: bool,
    progress: Option<ProgressBar>,
    run: String,
}

impl Screen {
    fn new(json: bool) -> Self {
        let progress = (!json && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { json, progress, run: "waiting".to_owned() }
    }

    fn show(&mut self, event: &Event) -> std::io::Result<()> {
        if self.json {
            return print(&event.document.to_string());
        }
        let data = &event.document["data"];
        if event.kind == "run.started" {
            self.run = format!("attempt {}", data["attempt"]);
        }
        let lines = event_lines(&event.kind, data);
        match &self.progress {
            Some(bar) => {
                bar.set_message(format!("{}: {}", self.run, event.kind));
                bar.suspend(|| write(&lines))
            }
            None => write(&lines),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.progress {
            bar.finish_and_clear();
        }
    }
}

fn write(lines: &[String]) -> std::io::Result<()> {
    print_lines(lines)
}

/// Returns the lines that describe an event. Kinds that later versions have added have no lines.
pub(in crate::cli) fn event_lines(kind: &str, data: &Value) -> Vec<String> {
    let text = |field: &str| plain(data[field].as_str().unwrap_or_default());
    let reason = || plain(data["reason"]["text"].as_str().unwrap_or_default());
    let count = |field: &str| data[field].as_array().map_or(0, Vec::len);
    match kind {
        "message.accepted" => text("prompt").lines().map(|line| format!("> {line}")).collect(),
        "message.waiting" => vec![format!("* waiting to retry: {}", reason())],
        "message.published_with" => vec!["* published with commits of earlier messages".to_owned()],
        "message.withdrawn" => vec!["* a message was withdrawn".to_owned()],
        "run.started" => vec![format!("* run started (attempt {})", data["attempt"])],
        "agent.message" => text("text").lines().map(str::to_owned).collect(),
        "agent.thought" => text("text").lines().map(|line| format!("  ~ {line}")).collect(),
        "agent.plan" => plan(data),
        "agent.continued" => vec![format!("* the turn was cut short ({}) and is continued", text("cause"))],
        "agent.tool_call" => tool_call(data).into_iter().collect(),
        "permission.answered" => {
            let answer = if data["granted"] == true { "allowed" } else { "refused" };
            vec![format!("* permission {answer}: {}", text("title"))]
        }
        "egress.denied" => vec![format!("* connection refused: {} ({})", text("destination"), text("reason"))],
        "model.denied" => vec![format!("* model call refused: {}", text("reason"))],
        "agent.model_call" if !data["failure"].is_null() => vec![format!("* {}", text("failure"))],
        "commit.pushed" => vec![format!("* {} commit(s) pushed to {}", count("commits"), text("branch"))],
        "pull_request.opened" => vec![format!("* pull request opened: {}", text("url"))],
        "pull_request.updated" => vec![format!("* pull request updated: {}", text("url"))],
        "run.finished" if data["reason"].is_null() => vec!["* run finished".to_owned()],
        "run.finished" => vec![format!("* run {}: {}", text("status"), reason())],
        "job.failed" => vec![format!("* the job failed: {}", reason())],
        "job.completed" => vec!["* the job is completed".to_owned()],
        "job.archived" => vec!["* the job was archived".to_owned()],
        _ => Vec::new(),
    }
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

/// Returns the line for a tool call; `None` for an update that only adds output.
fn tool_call(data: &Value) -> Option<String> {
    let title = data["title"].as_str().map(plain);
    match (title, data["status"].as_str()) {
        (Some(title), Some("failed")) => Some(format!("  - {title} (failed)")),
        (Some(title), _) => Some(format!("  - {title}")),
        (None, Some("failed")) => Some("  - failed".to_owned()),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_formatted_as_lines() {
        let failed = json!({"reason": {"code": "timed_out", "text": "too\u{1b} long"}});
        let entries =
            json!({"entries": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]});
        for (kind, data, lines) in [
            ("message.accepted", json!({"prompt": "a\nb"}), vec!["> a", "> b"]),
            ("agent.message", json!({"text": "hi\u{7}"}), vec!["hi\u{fffd}"]),
            ("agent.plan", entries, vec!["  [x] a", "  [ ] b"]),
            ("agent.tool_call", json!({"title": "ls", "status": "pending"}), vec!["  - ls"]),
            ("agent.tool_call", json!({"toolCallId": "1", "status": "completed"}), vec![]),
            ("commit.pushed", json!({"commits": ["a", "b"], "branch": "x"}), vec!["* 2 commit(s) pushed to x"]),
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
            ("model.denied", json!({"reason": "no"}), vec!["* model call refused: no"]),
            ("agent.model_call", json!({"failure": "status 529"}), vec!["* status 529"]),
            ("agent.model_call", json!({"failure": null}), vec![]),
            ("job.failed", failed, vec!["* the job failed: too\u{fffd} long"]),
            ("something.new", json!({}), vec![]),
        ] {
            assert_eq!(event_lines(kind, &data), lines, "{kind}");
        }
    }
}
