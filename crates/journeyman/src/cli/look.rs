//! Values of the server as texts for people.
//!
//! Invariant: text from a server, which can come from agents and repositories, reaches a terminal only through
//! [`plain`]. An escape sequence could rewrite earlier output, or enter text for the user.

use journeyman_core::time::{Clock, Timestamp};
use serde_json::Value;

use super::paint::{ColorWhen, Paint};
use super::terminal;
use super::words::{ago, when};
use crate::system::Machine;

/// The colors, the time to which others are relative, and the width of the terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) paint: Paint,
    pub(super) now: Timestamp,
    /// The number of columns of the terminal; `None` if stdout is not a terminal.
    pub(super) columns: Option<usize>,
}

impl Look {
    /// Returns the look of stdout now.
    pub(super) fn for_stdout(color: ColorWhen) -> Self {
        Self { paint: Paint::for_stdout(color), now: Machine.now(), columns: terminal::columns() }
    }

    /// Formats a status.
    pub(super) fn status(self, value: &Value) -> String {
        self.paint.status(&cell(value))
    }

    /// Formats a link.
    pub(super) fn link(self, value: &Value) -> String {
        if value.is_null() { cell(value) } else { self.paint.link(&cell(value)) }
    }

    /// Formats a time by its distance.
    pub(super) fn ago(self, value: &Value) -> String {
        if value.is_null() { cell(value) } else { ago(&cell(value), self.now) }
    }

    /// Formats a time that may be in the future by its distance.
    pub(super) fn when(self, value: &Value) -> String {
        if value.is_null() { cell(value) } else { when(&cell(value), self.now) }
    }

    /// Formats fields, one per line, with their names in a column.
    pub(super) fn fields<'a>(self, fields: impl IntoIterator<Item = (&'a str, String)>) -> Vec<String> {
        let fields: Vec<(&str, String)> = fields.into_iter().collect();
        let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let line =
            |(name, value): (&str, String)| format!("{} {value}", self.paint.heading(&format!("{name:<width$}")));
        fields.into_iter().map(line).collect()
    }
}

/// Replaces characters that control a terminal, except line breaks and tabs.
pub(super) fn plain(text: &str) -> String {
    let controls = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            // Marks of writing direction can change how a line reads.
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if controls(c) { '\u{fffd}' } else { c }).collect()
}

/// Formats a value as one line; null is a dash.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text).replace(['\n', '\t'], " "),
        Value::Array(values) => values.len().to_string(),
        other => other.to_string(),
    }
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
    }

    #[test]
    fn values_are_formatted_for_people() {
        let look = Look { paint: Paint::OFF, now: Timestamp::from_micros(120_000_000), columns: None };
        assert_eq!(look.ago(&json!("1970-01-01T00:00:00.000Z")), "2 minutes ago");
        assert_eq!((look.ago(&Value::Null), look.link(&Value::Null)), ("-".to_owned(), "-".to_owned()));
        assert_eq!(
            (look.when(&json!("1970-01-01T00:03:00.000Z")), look.when(&Value::Null)),
            ("in 1 minute".to_owned(), "-".to_owned())
        );
        let fields = look.fields([("id", "1".to_owned()), ("model", "m".to_owned())]);
        assert_eq!(fields, ["id    1", "model m"]);
        let painted = Look { paint: Paint::ON, ..look };
        assert_eq!(painted.status(&json!("failed")), "\u{1b}[31mfailed\u{1b}[0m");
        assert!(!painted.status(&json!("\u{1b}[2J")).contains('\u{1b}'), "a status of the server cannot add sequences");
    }
}
