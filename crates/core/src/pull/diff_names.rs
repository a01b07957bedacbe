//! Parsing of paths in a diff: they have the prefix `a/` or `b/`, and are quoted like a C string if they contain
//! control characters, quotes, backslashes or bytes beyond ASCII.

use crate::left_out::path_text;

/// Parses `a/path b/path` with two equal paths. If they differ, git repeats them in other lines of the header.
#[must_use]
pub fn of_both(paths: &str) -> String {
    // The text is not split at a space, because paths can contain spaces. Equal paths take one half each.
    let half = paths.len() / 2;
    let (Some(old), Some(new)) = (paths.get(..half), paths.get(half + 1..)) else { return paths.to_owned() };
    let (old, new) = (without(unquoted(old), "a/"), without(unquoted(new), "b/"));
    if old == new && paths.as_bytes().get(half) == Some(&b' ') { new } else { paths.to_owned() }
}

/// Parses the path in a line `--- a/path` or `+++ b/path`; returns `None` if there is no file on that side.
#[must_use]
pub fn of_one(path: &str, prefix: &str) -> Option<String> {
    // git appends a tab if there is a space in the path.
    let path = path.strip_suffix('\t').unwrap_or(path);
    if path == "/dev/null" { None } else { Some(without(unquoted(path), prefix)) }
}

/// Removes the quotes of a path, if it has any, and decodes its escapes. Bytes that are not UTF-8 are shown as
/// `\xNN`.
#[must_use]
pub fn unquoted(path: &str) -> String {
    let Some(inner) = path.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return path.to_owned() };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'a') => 0x07,
            Some(b'b') => 0x08,
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'v') => 0x0b,
            Some(b'f') => 0x0c,
            Some(b'r') => b'\r',
            Some(first @ b'0'..=b'3') => {
                rest.by_ref().take(2).fold(first - b'0', |value, digit| (value << 3) | (digit & 7))
            }
            Some(itself) => itself,
            None => b'\\',
        });
    }
    path_text(&bytes)
}

fn without(path: String, prefix: &str) -> String {
    match path.strip_prefix(prefix) {
        Some(rest) => rest.to_owned(),
        None => path,
    }
}
