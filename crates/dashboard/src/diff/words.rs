//! OpenedRepository of a removed line with its replacement, word by word.

use std::ops::Range;

use super::compare::{Part, compare};

/// The maximum length of compared lines, in characters. Word differences in minified files help no reader.
const LONGEST_LINE: usize = 400;

/// The byte ranges of the words that only one of two lines has. The ranges are sorted and not empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// The ranges in the old line.
    pub(super) old: Vec<Range<usize>>,
    /// The ranges in the new line.
    pub(super) new: Vec<Range<usize>>,
}

/// Compares two lines. Returns no ranges if they have little in common, because then the whole line was replaced.
pub(super) fn changed(old: &str, new: &str) -> Changed {
    if !is_short(old) || !is_short(new) {
        return Changed::default();
    }
    let (old_words, new_words) = (words(old), words(new));
    let parts = compare(&old_words, &new_words);
    if !is_alike(&parts, &old_words, &new_words) {
        return Changed::default();
    }
    let (old_ends, new_ends) = (ends(&old_words), ends(&new_words));
    let mut changed = Changed::default();
    for part in parts.into_iter().filter(|part| !part.is_same) {
        changed.old.extend(bytes(&old_ends, part.old));
        changed.new.extend(bytes(&new_ends, part.new));
    }
    changed
}

fn is_short(line: &str) -> bool {
    line.chars().nth(LONGEST_LINE).is_none()
}

/// Returns true if at least a third of the longer line is also in the other one, not counting spaces.
fn is_alike(parts: &[Part], old: &[&str], new: &[&str]) -> bool {
    let weight = |words: &[&str]| -> usize { words.iter().map(|word| word.trim().len()).sum() };
    let same = parts.iter().filter(|part| part.is_same).filter_map(|part| old.get(part.old.clone()));
    let same: usize = same.map(weight).sum();
    same > 0 && same * 3 >= weight(old).max(weight(new))
}

/// Splits a line into runs of letters and digits, runs of spaces, and single other characters.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = match Kind::of(first) {
            Kind::Sign => first.len_utf8(),
            kind => rest.find(|c| Kind::of(c) != kind).unwrap_or(rest.len()),
        };
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Space,
    Sign,
}

impl Kind {
    fn of(c: char) -> Self {
        if c.is_alphanumeric() || c == '_' {
            Self::Word
        } else if c.is_whitespace() {
            Self::Space
        } else {
            Self::Sign
        }
    }
}

/// Returns the end offset of each word, preceded by zero.
fn ends(words: &[&str]) -> Vec<usize> {
    let ends = words.iter().scan(0, |end, word| {
        *end += word.len();
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Converts a range of words to a range of bytes; returns `None` if it is empty.
fn bytes(ends: &[usize], words: Range<usize>) -> Option<Range<usize>> {
    let range = *ends.get(words.start)?..*ends.get(words.end)?;
    if range.is_empty() { None } else { Some(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_found() {
        let long = "a ".repeat(LONGEST_LINE);
        for (old, new, in_old, in_new) in [
            ("let x = 1;", "let x = 2;", vec!["1"], vec!["2"]),
            ("call(a, b)", "call(a, b, c)", vec![], vec![", c"]),
            ("call(a)", "call(a) // größer", vec![], vec![" // größer"]),
            ("größer = 日本", "größer = 日本語", vec!["日本"], vec!["日本語"]),
            ("the same", "the same", vec![], vec![]),
            ("    a = b", "  a = b", vec!["    "], vec!["  "]),
            // A completely different line is not marked.
            ("old", "new", vec![], vec![]),
            ("return Ok(())", "struct Wholly { different }", vec![], vec![]),
            ("", "new", vec![], vec![]),
            ("", "", vec![], vec![]),
            (&*long, "a a a", vec![], vec![]),
        ] {
            let changed = changed(old, new);
            let of = |line: &str, ranges: &[Range<usize>]| -> Vec<String> {
                ranges.iter().map(|range| line[range.clone()].to_owned()).collect()
            };
            assert_eq!(of(old, &changed.old), in_old, "{old} → {new}");
            assert_eq!(of(new, &changed.new), in_new, "{old} → {new}");
        }
    }
}
