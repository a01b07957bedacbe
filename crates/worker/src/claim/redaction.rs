//! Keeps the values of a project's secrets out of all that is stored: an agent may print what it was given.

use std::borrow::Cow;

use journeyman_core::project::SecretValue;
use serde_json::Value;

/// A value with fewer bytes would hide half of all text, and be guessed anyway.
const SHORTEST: usize = 4;

/// A line of a value with several, such as a key, is hidden by itself from this many bytes on.
const SHORTEST_LINE: usize = 12;

/// The values to hide, and what stands in their place.
#[derive(Default)]
pub(crate) struct Redactor {
    /// The longest first, so that one that is in another does not spoil it.
    hidden: Vec<(String, String)>,
}

impl Redactor {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = (&'a String, &'a SecretValue)>) -> Self {
        let mut hidden = Vec::new();
        for (name, SecretValue(value)) in secrets {
            let instead = format!("[secret {name}]");
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
            let whole = [value.trim()].into_iter().filter(|whole| whole.len() >= SHORTEST);
            hidden.extend(whole.chain(lines).map(|text| (text.to_owned(), instead.clone())));
        }
        hidden.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        hidden.dedup();
        Self { hidden }
    }

    pub(crate) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for (value, instead) in &self.hidden {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), instead));
            }
        }
        text
    }

    /// All strings of a document, names of fields among them.
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

    /// How much of a text can be told while more of it may come: its end may be the beginning of a value, and no value is
    /// cut in two.
    fn settled(&self, text: &str) -> usize {
        let begins = |value: &str| {
            let longest = value.len().saturating_sub(1).min(text.len());
            (1..=longest).rev().find(|length| text.as_bytes().ends_with(&value.as_bytes()[..*length]))
        };
        let open = self.hidden.iter().filter_map(|(value, _)| begins(value)).max().unwrap_or_default();
        let mut end = text.len() - open;
        // Each step is to the left.
        while let Some(begin) = self.value_across(text, end) {
            end = begin;
        }
        end
    }

    /// Where a value begins that goes on beyond `place`.
    fn value_across(&self, text: &str, place: usize) -> Option<usize> {
        let across = |value: &str| {
            let first = place.saturating_sub(value.len() - 1);
            (first..place).find(|begin| text.as_bytes()[*begin..].starts_with(value.as_bytes()))
        };
        self.hidden.iter().filter_map(|(value, _)| across(value)).min()
    }
}

/// The lines of a text whose beginning was cut off: of the first a part is gone, which may have been a part of a value.
pub(crate) fn whole_lines(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, lines)| lines)
}

/// Text that comes in pieces: a value may be spread over several.
#[derive(Default)]
pub(crate) struct Pieces {
    held: String,
}

impl Pieces {
    /// What can be told once `piece` has come.
    pub(crate) fn add(&mut self, redactor: &Redactor, piece: &str) -> String {
        self.held.push_str(piece);
        // A value begins where a character does.
        let rest = self.held.split_off(redactor.settled(&self.held));
        let told = std::mem::replace(&mut self.held, rest);
        redactor.text(&told).into_owned()
    }

    /// What was held back, when no more comes.
    pub(crate) fn end(&mut self, redactor: &Redactor) -> String {
        redactor.text(&std::mem::take(&mut self.held)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_that_was_cut_may_hold_half_a_value() {
        assert_eq!(whole_lines("h-hush-1 and\nmore\n"), "more\n");
        assert_eq!(whole_lines("h-hush-1"), "");
    }

    fn redactor() -> Redactor {
        let secrets = [
            ("TOKEN", "hush-hush-1"),
            ("SHORT", "abc"),
            ("KEY", "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nx\n-----END KEY-----\n"),
            ("LONGER", "hush-hush-12"),
        ];
        let secrets = secrets.map(|(name, value)| (name.to_owned(), SecretValue(value.to_owned())));
        Redactor::new(secrets.iter().map(|(name, value)| (name, value)))
    }

    #[test]
    fn values_are_hidden_wherever_they_stand() {
        let redactor = redactor();
        for (text, shown) in [
            ("a hush-hush-1, abc", "a [secret TOKEN], abc"),
            ("hush-hush-12hush-hush-1", "[secret LONGER][secret TOKEN]"),
            ("> MIIEvQIBADANBgkq", "> [secret KEY]"),
        ] {
            assert_eq!(redactor.text(text), shown);
        }
        let document = json!({"hush-hush-1": ["x hush-hush-1", 1, null, {"a": "hush-hush-1"}]});
        let shown = json!({"[secret TOKEN]": ["x [secret TOKEN]", 1, null, {"a": "[secret TOKEN]"}]});
        assert_eq!(redactor.document(document), shown);
    }

    #[test]
    fn a_value_in_pieces_is_hidden_and_nothing_is_lost() {
        let redactor = redactor();
        let (text, shown) =
            ("ähush hush-hush-1 hush-hu and hush-hush-12", "ähush [secret TOKEN] hush-hu and [secret LONGER]");
        for size in 1..=text.chars().count() {
            let (mut pieces, mut told) = (Pieces::default(), String::new());
            let chars: Vec<char> = text.chars().collect();
            for piece in chars.chunks(size) {
                told.push_str(&pieces.add(&redactor, &piece.iter().collect::<String>()));
                assert!(!told.contains("hush-hush-"), "{size}: {told}");
            }
            told.push_str(&pieces.end(&redactor));
            assert_eq!(told, shown, "in pieces of {size}");
        }
    }
}
