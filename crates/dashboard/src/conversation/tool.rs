//! Tool calls, built from the updates of the Agent Client Protocol.

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use journeyman_core::time::Timestamp;
use serde_json::Value;

/// The maximum number of bytes of a text that are shown from its beginning and from its end.
const MAX_SHOWN_BYTES: (usize, usize) = (12_000, 4_000);

/// The number of context lines around a change.
const CONTEXT: u32 = 3;

/// The maximum size in bytes of the texts that are compared.
const MAX_COMPARED_BYTES: usize = 500_000;

/// The current state of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) title: String,
    /// The name of the icon for the kind of tool.
    pub(crate) icon: &'static str,
    /// The status: `pending`, `in_progress`, `completed`, `failed`, or `stopped` if the run ended before the call.
    pub(crate) status: &'static str,
    /// The exit code of a command.
    pub(crate) exit_code: Option<i64>,
    pub(crate) input: Option<String>,
    pub(crate) parts: Vec<Part>,
    /// The raw output. Pages show it if there are no parts.
    pub(crate) output: Option<String>,
    pub(crate) began: Timestamp,
    /// The time at which the call ended.
    pub(crate) ended: Option<Timestamp>,
}

/// A part of a tool's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A text.
    Text(String),
    /// A change of a file: its path, the old text and the new text.
    Change(String, String, String),
}

impl Tool {
    /// Creates a tool call from its first event.
    pub(crate) fn new(data: &Value, at: Timestamp) -> Self {
        let mut tool = Self {
            title: String::new(),
            icon: "tool",
            status: "pending",
            exit_code: None,
            input: None,
            parts: Vec::new(),
            output: None,
            began: at,
            ended: None,
        };
        tool.add(data, at);
        tool
    }

    /// Applies an update, which has only the changed fields.
    pub(crate) fn add(&mut self, data: &Value, at: Timestamp) {
        if let Some(title) = data["title"].as_str().filter(|title| !title.is_empty()) {
            self.title = title.to_owned();
        } else if self.title.is_empty() {
            self.title = "A tool".to_owned();
        }
        if let Some(kind) = data["kind"].as_str() {
            self.icon = icon(kind);
        }
        if let Some(status) = data["status"].as_str() {
            self.status = match status {
                "in_progress" => "in_progress",
                "completed" => "completed",
                "failed" => "failed",
                _ => "pending",
            };
            if matches!(self.status, "completed" | "failed") {
                self.ended = Some(at);
            }
        }
        if let Some(input) = data.get("rawInput").and_then(shown) {
            // A shell command is easier to read without JSON.
            let command = data["rawInput"]["command"].as_str().map(str::to_owned);
            self.input = Some(cut(&command.unwrap_or(input)));
        }
        let code = ["exitCode", "exit_code"].into_iter().find_map(|field| data["rawOutput"][field].as_i64());
        self.exit_code = code.or(self.exit_code);
        if let Some(output) = data.get("rawOutput").and_then(shown) {
            self.output = Some(cut(&output));
        }
        if let Some(content) = data["content"].as_array() {
            self.parts = content.iter().filter_map(part).collect();
        }
    }

    /// Returns true if the call has not ended.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status, "pending" | "in_progress")
    }

    /// Returns the word for the state of the call.
    pub(crate) fn word(&self) -> &'static str {
        match self.status {
            "completed" => "done",
            "in_progress" => "running",
            "pending" => "waits",
            status => status,
        }
    }

    /// Marks an open call as stopped; returns true if it was open.
    pub(crate) fn stop(&mut self, at: Timestamp) -> bool {
        let is_open = self.is_open();
        if is_open {
            (self.status, self.ended) = ("stopped", Some(at));
        }
        is_open
    }

    /// Returns the last lines of the output, at most `count`, and the number of all its lines.
    pub(crate) fn last_lines(&self, count: usize) -> (Vec<&str>, usize) {
        let output = match self.parts.iter().rfind(|part| matches!(part, Part::Text(_))) {
            Some(Part::Text(text)) => text.as_str(),
            _ => self.output.as_deref().unwrap_or_default(),
        };
        let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        (lines[lines.len().saturating_sub(count)..].to_vec(), lines.len())
    }

    /// Returns true if there are details to expand.
    pub(crate) fn has_body(&self) -> bool {
        self.input.is_some() || !self.parts.is_empty() || self.output.is_some()
    }
}

/// Formats a JSON value for display; returns `None` if it is empty.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) if fields.is_empty() => None,
        other => serde_json::to_string_pretty(other).ok(),
    }
}

fn part(value: &Value) -> Option<Part> {
    match value["type"].as_str()? {
        "content" => {
            value["content"]["text"].as_str().filter(|text| !text.is_empty()).map(|text| Part::Text(cut(text)))
        }
        "diff" => {
            let path = value["path"].as_str().unwrap_or_default().to_owned();
            let (old, new) =
                (value["oldText"].as_str().unwrap_or_default(), value["newText"].as_str().unwrap_or_default());
            Some(Part::Change(path, old.to_owned(), new.to_owned()))
        }
        _ => None,
    }
}

/// Returns a unified diff without file headers, as lines.
pub(crate) fn patch(old: &str, new: &str) -> Vec<String> {
    if old.len().max(new.len()) > MAX_COMPARED_BYTES {
        return vec![" The file is too large to be compared here; see the Changes tab for the result.".to_owned()];
    }
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    let (printer, mut config) = (BasicLineDiffPrinter(&input.interner), UnifiedDiffConfig::default());
    config.context_len(CONTEXT);
    let text = diff.unified_diff(&printer, config, &input).to_string();
    cut(&text).lines().map(str::to_owned).collect()
}

/// Shortens a long text to its beginning and its end.
fn cut(text: &str) -> String {
    let (head, tail) = MAX_SHOWN_BYTES;
    if text.len() <= head + tail {
        return text.to_owned();
    }
    let (end, start) = (text.floor_char_boundary(head), text.ceil_char_boundary(text.len() - tail));
    let left_out = start - end;
    format!("{}\n… {left_out} bytes left out; see the Events tab …\n{}", &text[..end], &text[start..])
}

fn icon(kind: &str) -> &'static str {
    match kind {
        "read" => "read",
        "edit" | "delete" | "move" => "edit",
        "search" => "search",
        "execute" => "shell",
        "think" => "thought",
        "fetch" => "globe",
        _ => "tool",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn updates_of_a_tool_call_are_merged() {
        let at = Timestamp::from_micros;
        let mut tool = Tool::new(&json!({"title": "Run", "kind": "execute", "rawInput": {"command": "ls -l"}}), at(1));
        assert_eq!((tool.icon, tool.status, tool.input.as_deref()), ("shell", "pending", Some("ls -l")));
        tool.add(&json!({"status": "completed", "rawOutput": {"code": 0}}), at(9));
        assert_eq!((tool.title.as_str(), tool.ended), ("Run", Some(at(9))));
        assert_eq!(tool.output.as_deref(), Some("{\n  \"code\": 0\n}"));
        let content = json!([
            {"type": "content", "content": {"type": "text", "text": "hi"}},
            {"type": "diff", "path": "a.txt", "oldText": "1\n2\n", "newText": "1\n3\n"},
            {"type": "terminal"},
        ]);
        tool.add(&json!({ "content": content }), at(10));
        let change = ["a.txt", "1\n2\n", "1\n3\n"].map(str::to_owned);
        let [path, old, new] = change;
        assert_eq!(patch(&old, &new), ["@@ -1,2 +1,2 @@", " 1", "-2", "+3"]);
        assert_eq!(tool.parts, [Part::Text("hi".to_owned()), Part::Change(path, old, new)]);
    }

    #[test]
    fn a_failed_command_has_an_exit_code_and_last_lines() {
        let at = Timestamp::from_micros;
        let mut tool = Tool::new(&json!({"title": "Test", "kind": "execute", "status": "in_progress"}), at(1));
        assert!(tool.is_open());
        tool.add(&json!({"status": "failed", "rawOutput": {"exitCode": 101}}), at(2));
        assert_eq!((tool.exit_code, tool.is_open(), tool.stop(at(3))), (Some(101), false, false));
        let content = json!([{"type": "content", "content": {"type": "text", "text": "one\ntwo\n\nthree\n"}}]);
        tool.add(&json!({ "content": content }), at(4));
        assert_eq!(tool.last_lines(2), (vec!["two", "three"], 3));
        assert_eq!(tool.last_lines(9), (vec!["one", "two", "three"], 3));
        let mut open = Tool::new(&json!({"title": "Sleep"}), at(1));
        assert_eq!(
            (open.stop(at(5)), open.status, open.ended, open.stop(at(6))),
            (true, "stopped", Some(at(5)), false)
        );
        assert_eq!(open.last_lines(2), (vec![], 0));
    }

    #[test]
    fn a_long_text_is_shortened_in_the_middle() {
        let text = format!("{}ü{}", "a".repeat(11_999), "b".repeat(10_000));
        let shown = cut(&text);
        assert!(shown.starts_with("aaa") && shown.ends_with("bbb") && shown.len() < 17_000);
        assert_eq!(cut("short"), "short");
    }
}
