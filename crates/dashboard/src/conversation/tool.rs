//! A tool call: all that an agent said of it, in the form of the Agent Client Protocol.

use journeyman_core::time::Timestamp;
use serde_json::Value;
use similar::TextDiff;

/// Bytes of one text that are shown: the beginning, and the end.
const SHOWN: (usize, usize) = (12_000, 4_000);

/// Lines around a change.
const CONTEXT: usize = 3;

/// Longer files are not compared.
const MOST_COMPARED: usize = 500_000;

/// A tool call as it is now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) title: String,
    /// The drawing of its kind.
    pub(crate) icon: &'static str,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub(crate) status: &'static str,
    pub(crate) input: Option<String>,
    pub(crate) parts: Vec<Part>,
    /// What it gave, where it has no parts.
    pub(crate) output: Option<String>,
    pub(crate) began: Timestamp,
    /// When it was completed or failed.
    pub(crate) ended: Option<Timestamp>,
}

/// A piece of what a tool gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text.
    Text(String),
    /// A change of a file: its path, and what was there and is.
    Change(String, String, String),
}

impl Tool {
    /// From the first word on it.
    pub(crate) fn new(data: &Value, at: Timestamp) -> Self {
        let mut tool = Self {
            title: String::new(),
            icon: "tool",
            status: "pending",
            input: None,
            parts: Vec::new(),
            output: None,
            began: at,
            ended: None,
        };
        tool.add(data, at);
        tool
    }

    /// A later word: the fields that have changed.
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
            // A command is read better as it was typed.
            let command = data["rawInput"]["command"].as_str().map(str::to_owned);
            self.input = Some(cut(&command.unwrap_or(input)));
        }
        if let Some(output) = data.get("rawOutput").and_then(shown) {
            self.output = Some(cut(&output));
        }
        if let Some(content) = data["content"].as_array() {
            self.parts = content.iter().filter_map(part).collect();
        }
    }

    /// Whether there is anything to unfold.
    pub(crate) fn has_body(&self) -> bool {
        self.input.is_some() || !self.parts.is_empty() || self.output.is_some()
    }
}

/// A value for people; `None` where it says nothing.
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

/// A change, as lines with `+`, `-` or a space before each. It takes the processor, up to a tenth of a second.
pub(crate) fn patch(old: &str, new: &str) -> Vec<String> {
    if old.len().max(new.len()) > MOST_COMPARED {
        return vec![" The file is too large to be compared here; the tab Changes has what came of it.".to_owned()];
    }
    let diff = TextDiff::configure().timeout(std::time::Duration::from_millis(100)).diff_lines(old, new);
    let text = diff.unified_diff().context_radius(CONTEXT).missing_newline_hint(false).to_string();
    cut(&text).lines().map(str::to_owned).collect()
}

/// The beginning and the end of a long text.
fn cut(text: &str) -> String {
    let (head, tail) = SHOWN;
    if text.len() <= head + tail {
        return text.to_owned();
    }
    let (end, start) = (text.floor_char_boundary(head), text.ceil_char_boundary(text.len() - tail));
    let left_out = start - end;
    format!("{}\n… {left_out} bytes are left out here; the tab Events has them …\n{}", &text[..end], &text[start..])
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
    fn what_an_agent_says_of_a_call_is_gathered() {
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
    fn a_long_text_loses_its_middle() {
        let text = format!("{}ü{}", "a".repeat(11_999), "b".repeat(10_000));
        let shown = cut(&text);
        assert!(shown.starts_with("aaa") && shown.ends_with("bbb") && shown.len() < 17_000);
        assert_eq!(cut("short"), "short");
    }
}
