//! The source of a setting, for errors: its line in the configuration file, or its environment variable.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::layer::Layer;
use super::suggest::{among, or_similar};

/// The tables of a configuration file. The other settings are outside of tables.
pub(super) const TABLES: [&str; 4] = ["agents", "code-hosts", "models", "prices"];

/// A position in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilePosition {
    line: usize,
    column: usize,
}

impl FilePosition {
    /// Returns the position of a byte in a text.
    fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A setting or a table of a configuration file.
#[derive(Debug, PartialEq)]
pub(super) struct Origin {
    pub(super) position: FilePosition,
    /// The settings of the file with this one alone; empty for a table.
    pub(super) alone: Layer,
}

/// The settings of a file by their names, and the tables by their headers, such as `[agents.mine]`.
pub(super) type Origins = BTreeMap<String, Origin>;

/// Returns the origins of a file that contains valid settings.
pub(super) fn origins(text: &str) -> Result<Origins, toml::de::Error> {
    let root = DeTable::parse(text)?;
    let mut found = Origins::new();
    for (key, value) in root.get_ref() {
        let name: &str = key.get_ref();
        let origin = |offset, alone| Origin { position: FilePosition::of(text, offset), alone };
        match value.get_ref() {
            DeValue::Table(table) if TABLES.contains(&name) => {
                // The names of models contain slashes.
                let header = |id: &str| match name {
                    "prices" => format!("[{name}.{id:?}]"),
                    _ => format!("[{name}.{id}]"),
                };
                let tables = table.keys().map(|id| (header(id.get_ref()), origin(id.span().start, Layer::default())));
                found.extend(tables);
            }
            _ => {
                let one = DeTable::from_iter([(key.clone(), value.clone())]);
                let one = Spanned::new(key.span(), DeValue::Table(one));
                let alone = Layer::deserialize(ValueDeserializer::from(one))?;
                found.insert(name.to_owned(), origin(key.span().start, alone));
            }
        }
    }
    Ok(found)
}

/// Returns the name of the origin that the text of an error begins with.
pub(super) fn named<'a, T>(origins: &'a BTreeMap<String, T>, error: &str) -> Option<(&'a str, &'a T)> {
    let is_named = |name: &str| {
        let rest = error.strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-'))
    };
    origins.iter().find(|(name, _)| is_named(name)).map(|(name, origin)| (name.as_str(), origin))
}

/// Explains an error about the content of a file, with its position and the name of the setting. `section` is the table
/// in which it was found, or empty. Shows no line of the file, because it may contain a credential.
pub(super) fn explained(text: &str, section: &str, error: &toml::de::Error) -> anyhow::Error {
    let position = FilePosition::of(text, error.span().map_or(text.len(), |span| span.start));
    // `toml` reports the keys above the error only in this text.
    let shown = error.to_string();
    let keys = shown.lines().find_map(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let path: Vec<&str> = [section].into_iter().filter(|section| !section.is_empty()).chain(keys).collect();
    let (path, message) = (path.join("."), error.message());
    let in_table = if path.is_empty() { String::new() } else { format!("[{path}]: ") };
    let about = if let Some((name, mut known)) = unknown("field", message) {
        if path.is_empty() {
            known.extend(TABLES);
        }
        let all = || match section {
            "" => "`journeyman config example` lists all settings".to_owned(),
            _ => among(&known),
        };
        format!("{in_table}{name} is not a known setting; {}", or_similar(name, &known, all))
    } else if let Some((name, known)) = unknown("variant", message) {
        format!("{path}: {name:?} is not known; {}", or_similar(name, &known, || among(&known)))
    } else if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        format!("{in_table}{name} is missing")
    } else {
        // A table may contain credentials.
        let message = if section.is_empty() { message.to_owned() } else { without_value(message) };
        let key = if path.is_empty() { key_of_line(text, position.line).unwrap_or_default() } else { path.as_str() };
        if key.is_empty() { message } else { format!("{key}: {message}") }
    };
    anyhow::anyhow!("{position}: {about}")
}

/// Parses a message of serde about an unknown name: returns the name and the known ones.
fn unknown<'a>(kind: &str, message: &'a str) -> Option<(&'a str, Vec<&'a str>)> {
    let rest = message.strip_prefix("unknown ")?.strip_prefix(kind)?.strip_prefix(" `")?;
    let (name, rest) = rest.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

/// Removes the value from a message of serde, such as `invalid type: string "a", expected a map`.
fn without_value(message: &str) -> String {
    match (message.find('"'), message.rfind("\", expected")) {
        (Some(begin), Some(end)) if begin < end => format!("{}{}", message[..begin].trim_end(), &message[end + 1..]),
        _ => message.to_owned(),
    }
}

/// Returns the key of a line that is not valid TOML.
fn key_of_line(text: &str, line: usize) -> Option<&str> {
    let (key, _) = text.lines().nth(line - 1)?.split_once('=')?;
    let is_key = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    Some(key.trim()).filter(|key| is_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_counted_in_characters_from_1() {
        let text = "a = 1\nü = x\n";
        for (offset, position) in [(0, "line 1, column 1"), (6, "line 2, column 1"), (11, "line 2, column 5")] {
            assert_eq!(FilePosition::of(text, offset).to_string(), position);
        }
        assert_eq!(FilePosition::of(text, text.len()).to_string(), "line 3, column 1");
    }

    #[test]
    fn settings_and_tables_have_origins() {
        let text = "workers = 0\n[models.x]\nbase-url = \"http://x\"\n[prices.\"a/b\"]\ninput = 1\noutput = 1\n";
        let found = origins(text).expect("origins");
        let position = |error: &str| named(&found, error).map(|(name, origin)| (name, origin.position.to_string()));
        assert_eq!(position("workers must be at least 1"), Some(("workers", "line 1, column 1".to_owned())));
        assert_eq!(position("[models.x]: dialect"), Some(("[models.x]", "line 2, column 9".to_owned())));
        assert_eq!(position("[prices.\"a/b\"]: input"), Some(("[prices.\"a/b\"]", "line 4, column 9".to_owned())));
        assert_eq!((position("workers-x is wrong"), position("something")), (None, None));
        assert_eq!(found["workers"].alone, Layer { workers: Some(0), ..Layer::default() });
    }

    #[test]
    fn values_are_removed_from_messages_of_serde() {
        for (message, shown) in [
            ("invalid type: string \"a=\\\"b\", expected a map", "invalid type: string, expected a map"),
            ("invalid type: map, expected a string", "invalid type: map, expected a string"),
            ("invalid value: \"", "invalid value: \""),
        ] {
            assert_eq!(without_value(message), shown);
        }
    }

    #[test]
    fn messages_of_serde_about_unknown_names_are_parsed() {
        let many = "unknown field `a`, expected one of `b`, `c-d`, `e`";
        assert_eq!(unknown("field", many), Some(("a", vec!["b", "c-d", "e"])));
        assert_eq!(unknown("variant", "unknown variant `a`, expected `b` or `c`"), Some(("a", vec!["b", "c"])));
        assert_eq!(unknown("field", "unknown field `a`, there are no fields"), Some(("a", Vec::new())));
        assert_eq!(unknown("field", "missing field `a`"), None);
    }
}
