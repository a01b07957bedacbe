//! Events that are shown in one line.

use journeyman_core::job::event::LogEntry;
use journeyman_core::job::updates::UpdateStop;
use journeyman_core::pull::base_comparison::Conflicts;
use serde::Deserialize;
use serde_json::Value;

use crate::{visible, words};

/// A line of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The name of the icon.
    pub(crate) icon: &'static str,
    pub(crate) tone: Tone,
    pub(crate) text: String,
    /// Details in monospace after the text, such as a destination.
    pub(crate) code: Vec<String>,
    /// The hashes of commits after the text.
    pub(crate) commits: Vec<String>,
    /// The URL of the line's link.
    pub(crate) link: Option<String>,
    /// The reason that the text contains. If the page shows it elsewhere, [`Line::short`] is shown instead.
    pub(crate) reason: Option<String>,
    /// The text without the reason.
    pub(crate) short: &'static str,
}

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Muted,
    Success,
    Warning,
    Danger,
}

impl Tone {
    /// Returns the class in the stylesheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Muted => "",
            Self::Success => "success",
            Self::Warning => "warning",
            Self::Danger => "danger",
        }
    }
}

impl Line {
    fn new(icon: &'static str, tone: Tone, text: impl Into<String>) -> Self {
        let (code, commits) = (Vec::new(), Vec::new());
        Self { icon, tone, text: text.into(), code, commits, link: None, reason: None, short: "" }
    }

    /// Creates the line for another attempt at a message.
    pub(crate) fn attempt(number: u64) -> Self {
        Self::new("refresh", Tone::Muted, format!("Attempt {number} started"))
    }

    /// Adds the text that replaces that with the reason.
    fn in_short(self, short: &'static str) -> Self {
        Self { short, ..self }
    }

    fn about(mut self, code: impl Into<String>) -> Self {
        let code = code.into();
        if !code.is_empty() {
            self.code.push(code);
        }
        self
    }
}

/// The maximum number of paths in a line.
const SHOWN_PATHS: usize = 5;

/// Returns the line for the event about changes and commits that were not published.
fn left_out(data: &Value) -> Line {
    let paths = data["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
    let replaced = |one: &Value| matches!(one["reason"].as_str(), Some("replaced_commits" | "rewritten_history"));
    if let [one] = paths
        && replaced(one)
    {
        let detail = one["detail"].as_str().unwrap_or_default();
        let text = format!("The agent's commits were replaced. {detail}");
        return Line::new("warning", Tone::Warning, text).about(one["path"].as_str().unwrap_or_default().to_owned());
    }
    let all = paths.len() + usize::try_from(data["more"].as_u64().unwrap_or_default()).unwrap_or_default();
    let text = format!("{} not published:", words::counted(all, "change"));
    let shown = paths.iter().take(SHOWN_PATHS).filter_map(|one| one["path"].as_str()).map(str::to_owned);
    Line { code: shown.collect(), ..Line::new("warning", Tone::Warning, text) }
}

/// Returns the line for the event that tells what a working tree lacks.
fn incomplete(data: &Value) -> Line {
    let entries = data["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |kind: &str| entries.iter().filter(|one| one["kind"] == kind).count();
    let mut parts = Vec::new();
    for (kind, what) in [("submodule", "not filled"), ("file", "incomplete")] {
        let number = of(kind);
        parts.extend((number > 0).then(|| format!("{} {what}", words::counted(number, kind))));
    }
    parts.extend((of("base") > 0).then(|| "base branch not shown".to_owned()));
    parts.extend((of("turn") > 0).then(|| "work of an earlier attempt lost".to_owned()));
    parts.extend((of("home") > 0).then(|| "home not restored".to_owned()));
    let more = data["more"].as_u64().filter(|more| *more > 0);
    parts.extend(more.map(|more| format!("{more} more entries")));
    let detail = entries.first().and_then(|one| one["detail"].as_str()).unwrap_or_default().trim_end_matches('.');
    let text = format!("{} ({detail}):", parts.join(", "));
    let shown = entries.iter().take(SHOWN_PATHS).filter_map(|one| one["path"].as_str()).map(str::to_owned);
    Line { code: shown.collect(), ..Line::new("warning", Tone::Warning, text) }
}

/// Returns the line for an entry, if it is shown in one. `last_reason` is the reason that was shown before.
pub(crate) fn of(entry: &LogEntry, last_reason: Option<&str>) -> Option<Line> {
    let data = &entry.data;
    let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
    let reason = data["reason"]["text"].as_str().map(str::to_owned);
    let line = match entry.kind.as_str() {
        "agent.session" => session(data),
        "agent.continued" if data["cause"] == "unresolved_conflicts" => {
            Line::new("play", Tone::Muted, "The agent is asked to resolve its conflicts")
        }
        "agent.continued" => {
            Line::new("play", Tone::Muted, "The turn was interrupted and continues").about(text("cause"))
        }
        "changes.left_out" => left_out(data),
        "checkout.incomplete" => incomplete(data),
        "home.not_stored" => {
            let text = format!("The agent's home was not stored. {}", text("detail"));
            Line::new("warning", Tone::Warning, text)
        }
        "agent.model_call" => {
            let failure = data["failure"].as_str()?;
            Line::new("model", Tone::Warning, format!("A model call failed: {failure}"))
        }
        "model.denied" => Line::new("shield", Tone::Warning, format!("A model call was denied: {}", text("reason"))),
        "egress.allowed" => Line::new("globe", Tone::Muted, "Connected to").about(text("destination")),
        "egress.denied" => {
            let why = text("reason");
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            Line::new("shield", Tone::Warning, format!("Connection blocked{why}")).about(text("destination"))
        }
        "permission.answered" => {
            let granted = data["granted"] == true;
            let (tone, word) = if granted { (Tone::Muted, "Allowed") } else { (Tone::Warning, "Refused") };
            Line::new("shield", tone, word).about(text("title"))
        }
        "commit.pushed" => {
            let mut line = Line::new("commit", Tone::Success, "Pushed");
            let commits = data["commits"].as_array().map(Vec::as_slice).unwrap_or_default();
            line.commits = commits.iter().filter_map(|sha| sha.as_str()).map(str::to_owned).collect();
            line
        }
        "pull_request.opened" | "pull_request.updated" => {
            let word = if entry.kind.ends_with("opened") { "Opened" } else { "Updated" };
            let mut line = Line::new("pull", Tone::Success, format!("{word} pull request #{}", data["number"]));
            line.link = data["url"].as_str().filter(|url| words::is_page(url)).map(str::to_owned);
            line
        }
        "pull_request.merged" => {
            Line::new("merge", Tone::Success, format!("Pull request #{} was merged", data["number"]))
        }
        "pull_request.closed" => {
            Line::new("cross", Tone::Warning, format!("Pull request #{} was closed without a merge", data["number"]))
        }
        "pull_request.reopened" => {
            Line::new("pull", Tone::Muted, format!("Pull request #{} was reopened", data["number"]))
        }
        "pull_request.outdated" => outdated(data),
        "message.changed" => {
            Line::new("edit", Tone::Muted, "A queued message was changed, because its comment was edited")
        }
        "message.waiting" => {
            Line::new("warning", Tone::Warning, format!("Waiting to retry: {}", reason.as_deref().unwrap_or_default()))
        }
        "message.published_with" => {
            Line::new("commit", Tone::Success, "Published with commits of earlier messages that failed to publish")
        }
        "message.withdrawn" => Line::new("cross", Tone::Muted, "A queued message was withdrawn"),
        "run.finished" => run_finished(data, reason.as_deref())?,
        "job.failed" if reason.as_deref() != last_reason => {
            Line::new("warning", Tone::Danger, format!("Failed: {}", reason.as_deref().unwrap_or_default()))
                .in_short("The job failed")
        }
        "job.archived" => Line::new("archive", Tone::Muted, "Archived"),
        "job.unarchived" => Line::new("archive", Tone::Muted, "Unarchived"),
        _ => return None,
    };
    Some(Line { reason, ..line })
}

fn session(data: &Value) -> Line {
    let action = match data["opened"].as_str() {
        Some("resumed") => "resumed its session",
        Some("loaded") => "loaded its session",
        _ => "opened a session",
    };
    let agent = data["agent"].as_str().filter(|name| !name.is_empty()).unwrap_or("The agent");
    let not_set = data["notSet"].as_object().into_iter().flatten();
    let not_set: Vec<String> =
        not_set.map(|(setting, wanted)| format!("{setting} {}", wanted.as_str().unwrap_or_default())).collect();
    if not_set.is_empty() {
        return Line::new("play", Tone::Muted, format!("{agent} {action}"));
    }
    Line::new("warning", Tone::Warning, format!("{agent} {action}, but it has no {}", not_set.join(", no ")))
}

fn run_finished(data: &Value, reason: Option<&str>) -> Option<Line> {
    let reason = reason.unwrap_or_default();
    match data["status"].as_str() {
        Some("failed") => {
            let line = Line::new("warning", Tone::Danger, format!("The run failed: {reason}"));
            Some(line.in_short("The run failed"))
        }
        Some("cancelled") => Some(
            Line::new("stop", Tone::Muted, format!("The run was stopped: {reason}")).in_short("The run was stopped"),
        ),
        // The reason why there is no pull request.
        _ if !reason.is_empty() => Some(Line::new("info", Tone::Muted, reason)),
        _ => None,
    }
}

/// Returns the line about a pull request that is to be updated with its base.
fn outdated(data: &Value) -> Line {
    let (number, base) = (&data["number"], visible::line(data["base"].as_str().unwrap_or_default()));
    let conflicts: Conflicts = Deserialize::deserialize(&data["conflicts"]).unwrap_or_default();
    let what = match (conflicts.count(), data["behind"].as_u64().unwrap_or_default()) {
        (0, 1) => format!("is 1 commit behind {base}"),
        (0, behind) => format!("is {} commits behind {base}", words::grouped(behind)),
        (count, _) => format!("conflicts with {base} in {}", words::counted(count, "file")),
    };
    match UpdateStop::deserialize(&data["stop"]) {
        Ok(stop) => {
            let text = format!("Pull request #{number} {what}. The agent is not asked: {}", stop.text());
            Line::new("merge", Tone::Warning, text)
        }
        Err(_) => Line::new("merge", Tone::Muted, format!("Pull request #{number} {what}")),
    }
}
