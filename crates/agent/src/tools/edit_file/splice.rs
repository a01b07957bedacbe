//! Replaces text in the bytes of a file.
//!
//! Invariants: bytes outside of the changed part stay as they are; inserted text is encoded as the file is, and its line
//! breaks are those of the lines around it.

use super::super::encoding::{Encoding, Unit};

/// The number up to which occurrences are counted if there should be one.
const MOST_COUNTED: usize = 100;

/// An error of a replacement. The texts are for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SpliceError {
    /// There is no text to replace.
    #[error("old_text is empty")]
    Empty,
    /// There is nothing to change.
    #[error("old_text and new_text are the same in this file")]
    Same,
    /// The text is not in the file.
    #[error("old_text is not in the file: read the file and give its exact text{0}")]
    NotFound(&'static str),
    /// The text is in the file several times.
    #[error(
        "old_text is in the file more than once ({0} times{more}): give more of the text around it, or set \
         replace_all to change all of them",
        more = if *.0 == MOST_COUNTED { " or more" } else { "" }
    )]
    Several(usize),
    /// The text to replace has bytes that are no text.
    #[error(
        "the part of the file that would change has bytes that are not valid {0}: give an old_text without them, or \
         change them with run_command"
    )]
    Invalid(&'static str),
    /// The new text has a character that the encoding of the file does not have.
    #[error(
        "new_text has the character `{character}` (U+{:04X}), which {encoding}, the encoding of the file, does not \
         have; nothing was changed. Write it in another way, or convert the file first",
        u32::from(*.character)
    )]
    Unmappable {
        /// The character.
        character: char,
        /// The name of the encoding.
        encoding: &'static str,
    },
}

/// A text to replace, and its replacement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacement<'a> {
    /// The text to replace. Without CR, its LF also stands for CRLF.
    pub(super) old: &'a str,
    /// The text that replaces it.
    pub(super) new: &'a str,
    /// Set to replace all occurrences; otherwise there must be exactly one.
    pub(super) all: bool,
}

/// The text of a file, with the bytes that each part of it comes from.
struct View {
    text: String,
    /// The beginnings of the units, in the text and in the bytes, and the ends of both.
    units: Vec<(usize, usize)>,
    /// The positions of U+FFFD in the text that stand for invalid bytes.
    invalid: Vec<usize>,
    /// The positions of LF in the text, and whether they stand for CRLF.
    breaks: Vec<(usize, bool)>,
}

impl View {
    /// Decodes bytes. If `folds` is set, CRLF becomes LF.
    fn new(bytes: &[u8], encoding: Encoding, folds: bool) -> Self {
        let mut view = Self { text: String::new(), units: Vec::new(), invalid: Vec::new(), breaks: Vec::new() };
        let mut at = 0;
        encoding.units(bytes, |unit, length| {
            match unit {
                Unit::Text("\n") if folds && view.text.ends_with('\r') => {
                    // The CR, which is the last unit, becomes a part of this one.
                    view.text.pop();
                    view.breaks.push((view.text.len(), true));
                    view.text.push('\n');
                }
                Unit::Text(text) => {
                    view.units.push((view.text.len(), at));
                    if text == "\n" {
                        view.breaks.push((view.text.len(), false));
                    }
                    view.text.push_str(text);
                }
                Unit::Invalid(_) => {
                    view.units.push((view.text.len(), at));
                    view.invalid.push(view.text.len());
                    view.text.push('\u{fffd}');
                }
            }
            at += length;
        });
        view.units.push((view.text.len(), at));
        view
    }

    /// Returns the position in the bytes of a position in the text; `None` within a unit.
    fn byte(&self, position: usize) -> Option<usize> {
        let found = self.units.binary_search_by_key(&position, |(text, _)| *text).ok()?;
        self.units.get(found).map(|(_, byte)| *byte)
    }

    /// Returns whether the lines around a position end with CRLF: the first line break from there, otherwise the one
    /// before.
    fn has_crlf_at(&self, position: usize) -> bool {
        let next = self.breaks.partition_point(|(at, _)| *at < position);
        let nearest = self.breaks.get(next).or_else(|| self.breaks.last());
        nearest.is_some_and(|(_, is_crlf)| *is_crlf)
    }

    /// Returns whether a part of the text has invalid bytes.
    fn has_invalid(&self, from: usize, to: usize) -> bool {
        let next = self.invalid.partition_point(|at| *at < from);
        self.invalid.get(next).is_some_and(|at| *at < to)
    }
}

/// Returns the bytes of a file, without its byte order mark, after a replacement, and the number of replaced texts.
pub(super) fn replace(
    bytes: &[u8],
    encoding: Encoding,
    replacement: Replacement<'_>,
) -> Result<(Vec<u8>, usize), SpliceError> {
    let Replacement { old, new, all } = replacement;
    if old.is_empty() {
        return Err(SpliceError::Empty);
    }
    if old == new {
        return Err(SpliceError::Same);
    }
    let folds = !old.contains('\r');
    let view = View::new(bytes, encoding, folds);
    let starts = occurrences(&view.text, old, all);
    match starts.len() {
        0 => return Err(SpliceError::NotFound(hint(&view, old))),
        1 => {}
        several if !all => return Err(SpliceError::Several(several)),
        _ => {}
    }
    let mut result = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for start in &starts {
        let is_crlf = folds && view.has_crlf_at(*start);
        let new = if is_crlf { new.replace("\r\n", "\n") } else { new.to_owned() };
        let (from, to, inserted) = changed_part(old, &new);
        let (from, to) = (start + from, start + to);
        let invalid = || SpliceError::Invalid(encoding.name());
        if view.has_invalid(from, to) {
            return Err(invalid());
        }
        let (from, to) = (view.byte(from).ok_or_else(invalid)?, view.byte(to).ok_or_else(invalid)?);
        let inserted = if is_crlf { with_crlf(inserted) } else { inserted.to_owned() };
        let encoded = encoding.encode(&inserted);
        let encoded = encoded.map_err(|character| SpliceError::Unmappable { character, encoding: encoding.name() })?;
        result.extend_from_slice(bytes.get(done..from).unwrap_or_default());
        result.extend_from_slice(&encoded);
        done = to;
    }
    result.extend_from_slice(bytes.get(done..).unwrap_or_default());
    // The texts may differ only by line breaks that the file has already.
    if result == bytes {
        return Err(SpliceError::Same);
    }
    Ok((result, starts.len()))
}

/// Returns the offsets at which a text occurs: all that do not overlap, or, to find out whether it is the only one,
/// also those that overlap.
fn occurrences(text: &str, old: &str, all: bool) -> Vec<usize> {
    let step = if all { old.len() } else { old.chars().next().map_or(1, char::len_utf8) };
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(position) = text.get(from..).and_then(|rest| rest.find(old)) {
        found.push(from + position);
        if !all && found.len() == MOST_COUNTED {
            break;
        }
        from += position + step;
    }
    found
}

/// Explains why a text is not in a file.
fn hint(view: &View, old: &str) -> &'static str {
    if old.contains('\r') && !view.text.contains('\r') {
        "; its lines end with LF, and old_text has a carriage return"
    } else if !view.invalid.is_empty() {
        "; its bytes that read_file shows as \\xNN cannot be in old_text"
    } else {
        ""
    }
}

/// Returns the beginning and the end of the part of `old` that changes, and the text that replaces it.
fn changed_part<'a>(old: &str, new: &'a str) -> (usize, usize, &'a str) {
    let same = |(a, b): &(char, char)| a == b;
    let prefix: usize = old.chars().zip(new.chars()).take_while(same).map(|(a, _)| a.len_utf8()).sum();
    let (old_rest, new_rest) = (old.get(prefix..).unwrap_or_default(), new.get(prefix..).unwrap_or_default());
    let ends = old_rest.chars().rev().zip(new_rest.chars().rev());
    let mut suffix: usize = ends.take_while(same).map(|(a, _)| a.len_utf8()).sum();
    let middle = |suffix: usize| new_rest.get(..new_rest.len() - suffix).unwrap_or_default();
    if middle(suffix).ends_with('\r')
        && old_rest.get(old_rest.len() - suffix..).is_some_and(|rest| rest.starts_with('\n'))
    {
        // The line break is replaced as a whole.
        suffix -= 1;
    }
    (prefix, old.len() - suffix, middle(suffix))
}

/// Converts line breaks to CRLF. The text has no CRLF.
fn with_crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

#[cfg(test)]
mod tests;
