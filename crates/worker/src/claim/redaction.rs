//! Redacts the values of a project's secrets from everything that is stored, because an agent may print the secrets
//! that it gets.

use std::borrow::Cow;

use journeyman_core::secret::SecretValue;
use serde_json::Value;

/// The minimum length of a redacted value in bytes. A shorter value would hide half of all text, and is easily guessed
/// anyway.
const MIN_VALUE_BYTES: usize = 4;

/// The minimum length, in bytes, of a line that is also redacted separately if its value has several lines, such as a
/// key.
const MIN_LINE_BYTES: usize = 12;

/// The values to redact, and their replacements.
#[derive(Default)]
pub(crate) struct Redactor {
    /// Pairs of a value and its replacement. Longer values come first: replacing a value that is part of a longer one
    /// would leave the rest of the longer one.
    hidden: Vec<(String, String)>,
}

impl Redactor {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = (&'a String, &'a SecretValue)>) -> Self {
        let mut hidden = Vec::new();
        for (name, SecretValue(value)) in secrets {
            let replacement = format!("[secret {name}]");
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE_BYTES);
            let whole = [value.trim()].into_iter().filter(|whole| whole.len() >= MIN_VALUE_BYTES);
            hidden.extend(whole.chain(lines).map(|text| (text.to_owned(), replacement.clone())));
        }
        hidden.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        hidden.dedup();
        Self { hidden }
    }

    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for (value, replacement) in &self.hidden {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), replacement));
            }
        }
        text
    }

    /// Redacts all strings of a document, including the names of fields.
    pub(crate) fn document(&self, document: Value) -> Value {
        if self.hidden.is_empty() {
            return document;
        }
        match document {
            Value::String(text) => Value::String(self.text(&text).into_owned()),
            Value::Array(values) => values.into_iter().map(|value| self.document(value)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (self.text(&name).into_owned(), self.document(value))).collect()
            }
            other => other,
        }
    }

    /// Returns the length of the part of `text` that can be redacted and passed on while more text may follow: the end
    /// of `text` may be the beginning of a value, and no value is cut in two.
    fn settled(&self, text: &str) -> usize {
        let begins = |value: &str| {
            let longest = value.len().saturating_sub(1).min(text.len());
            (1..=longest).rev().find(|length| text.as_bytes().ends_with(&value.as_bytes()[..*length]))
        };
        let open = self.hidden.iter().filter_map(|(value, _)| begins(value)).max().unwrap_or_default();
        let mut end = text.len() - open;
        // Each step moves to the left, so the loop ends.
        while let Some(begin) = self.value_across(text, end) {
            end = begin;
        }
        end
    }

    /// Returns the start of the first value that begins before `end` and extends beyond it.
    fn value_across(&self, text: &str, end: usize) -> Option<usize> {
        let across = |value: &str| {
            let first = end.saturating_sub(value.len() - 1);
            (first..end).find(|begin| text.as_bytes()[*begin..].starts_with(value.as_bytes()))
        };
        self.hidden.iter().filter_map(|(value, _)| across(value)).min()
    }
}

/// Returns the complete lines of a text whose beginning was cut off. The first line is dropped, because it may begin
/// with a part of a value.
pub(crate) fn whole_lines(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, lines)| lines)
}

/// Text that arrives in pieces. A value may be spread over several pieces.
#[derive(Default)]
pub(crate) struct Pieces {
    held: String,
}

impl Pieces {
    /// Adds a piece, and returns the redacted text that can be passed on now.
    pub(crate) fn add(&mut self, redactor: &Redactor, piece: &str) -> String {
        self.held.push_str(piece);
        // A value begins at a character boundary, so this does not split a character.
        let rest = self.held.split_off(redactor.settled(&self.held));
        let settled = std::mem::replace(&mut self.held, rest);
        redactor.text(&settled).into_owned()
    }

    /// Returns the redacted text that was held back, when no more text follows.
    pub(crate) fn end(&mut self, redactor: &Redactor) -> String {
        redactor.text(&std::mem::take(&mut self.held)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cut_line_is_dropped_because_it_may_contain_half_a_value() {
        assert_eq!(whole_lines("t-s3cret-1 and\nmore\n"), "more\n");
        assert_eq!(whole_lines("t-s3cret-1"), "");
    }

    fn redactor() -> Redactor {
        let secrets = [
            ("TOKEN", "s3cret-s3cret-1"),
            ("SHORT", "abc"),
            ("KEY", "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nx\n-----END KEY-----\n"),
            ("LONGER", "s3cret-s3cret-12"),
        ];
        let secrets = secrets.map(|(name, value)| (name.to_owned(), SecretValue(value.to_owned())));
        Redactor::new(secrets.iter().map(|(name, value)| (name, value)))
    }

    #[test]
    fn values_are_redacted_everywhere() {
        let redactor = redactor();
        for (text, shown) in [
            ("a s3cret-s3cret-1, abc", "a [secret TOKEN], abc"),
            ("s3cret-s3cret-12s3cret-s3cret-1", "[secret LONGER][secret TOKEN]"),
            ("> MIIEvQIBADANBgkq", "> [secret KEY]"),
        ] {
            assert_eq!(redactor.text(text), shown);
        }
        let document = json!({"s3cret-s3cret-1": ["x s3cret-s3cret-1", 1, null, {"a": "s3cret-s3cret-1"}]});
        let shown = json!({"[secret TOKEN]": ["x [secret TOKEN]", 1, null, {"a": "[secret TOKEN]"}]});
        assert_eq!(redactor.document(document), shown);
    }

    #[test]
    fn a_value_in_pieces_is_redacted_and_no_other_text_is_lost() {
        let redactor = redactor();
        let (text, shown) = (
            "äs3cret s3cret-s3cret-1 s3cret-s3 and s3cret-s3cret-12",
            "äs3cret [secret TOKEN] s3cret-s3 and [secret LONGER]",
        );
        for size in 1..=text.chars().count() {
            let (mut pieces, mut output) = (Pieces::default(), String::new());
            let chars: Vec<char> = text.chars().collect();
            for piece in chars.chunks(size) {
                output.push_str(&pieces.add(&redactor, &piece.iter().collect::<String>()));
                assert!(!output.contains("s3cret-s3cret-"), "{size}: {output}");
            }
            output.push_str(&pieces.end(&redactor));
            assert_eq!(output, shown, "in pieces of {size}");
        }
    }
}
