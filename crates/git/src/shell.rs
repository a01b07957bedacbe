//! Words of shell commands.

/// Quotes a word of a shell command.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
