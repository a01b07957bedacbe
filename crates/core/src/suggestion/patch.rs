//! Suggestions as patches.

use super::hunk::{Hunk, Line, NO_NEWLINE};
use crate::position::LineRange;

/// The number of unchanged lines before and after those that a patch changes.
const CONTEXT: usize = 3;

/// A suggestion as a unified diff against the new version of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The diff, which ends with a line break.
    pub text: String,
    /// `true` if `git apply` needs the option `--unidiff-zero`: no line after the changed ones is known. Without the
    /// option, git takes them for the end of the file.
    pub needs_unidiff_zero: bool,
}

/// Returns the patch that replaces lines of the new version of a file; `None` if no hunk has all of them.
pub(super) fn patch(path: &str, lines: LineRange, replacement: &[String], hunks: &[Hunk<'_>]) -> Option<Patch> {
    hunks.iter().find_map(|hunk| {
        let (first, known) = hunk.new_version();
        let start = usize::try_from(lines.start.checked_sub(first)?).ok()?;
        let end = usize::try_from(lines.end.checked_sub(first)?).ok()?.checked_add(1)?;
        let old = known.get(start..end)?;
        let ends_file = old.last().is_some_and(|line| line.ends_file);
        // The lines of a file with Windows line endings end with a carriage return, those of a comment do not.
        let ending = if is_windows(old).or_else(|| is_windows(&known)) == Some(true) { "\r" } else { "" };
        let last_ending =
            if ends_file && !old.last().is_some_and(|line| line.text.ends_with('\r')) { "" } else { ending };
        let last = replacement.len().checked_sub(1);
        let ending_of = |index: usize| if Some(index) == last { last_ending } else { ending };
        let texts: Vec<String> =
            replacement.iter().enumerate().map(|(index, line)| format!("{line}{}", ending_of(index))).collect();
        let new = texts.iter().enumerate();
        let new: Vec<Line<'_>> =
            new.map(|(index, text)| Line { text, ends_file: ends_file && Some(index) == last }).collect();
        Some(changed(path, first, &known, start..end, &new))
    })
}

/// Returns whether the lines that end with a line break end with a carriage return before it; `None` if there are none.
fn is_windows(lines: &[Line<'_>]) -> Option<bool> {
    let mut ended = lines.iter().filter(|line| !line.ends_file).map(|line| line.text.ends_with('\r')).peekable();
    ended.peek()?;
    Some(ended.all(|is_windows| is_windows))
}

/// Returns the patch that replaces some of the lines that begin with the number `first`.
fn changed(path: &str, first: u64, known: &[Line<'_>], mut range: std::ops::Range<usize>, new: &[Line<'_>]) -> Patch {
    let mut new = new;
    let is_change = known[range.clone()] != *new;
    while is_change && known[range.clone()].first().is_some_and(|line| new.first() == Some(line)) {
        (range.start, new) = (range.start + 1, &new[1..]);
    }
    while is_change && known[range.clone()].last().is_some_and(|line| new.last() == Some(line)) {
        (range.end, new) = (range.end - 1, &new[..new.len() - 1]);
    }
    let from = range.start.saturating_sub(CONTEXT);
    let to = known.len().min(range.end + CONTEXT);
    let (before, old, after) = (&known[from..range.start], &known[range.clone()], &known[range.end..to]);
    let shared = before.len() + after.len();
    let start = first.saturating_add(u64::try_from(from).unwrap_or(u64::MAX));
    let ends = [(start, shared + old.len()), (start, shared + new.len())].map(|(start, count)| {
        // Nothing is after the line before.
        format!("{},{count}", if count == 0 { start.saturating_sub(1) } else { start })
    });
    let mut text = format!("--- {}\n+++ {}\n@@ -{} +{} @@\n", name("a", path), name("b", path), ends[0], ends[1]);
    for (mark, lines) in [(' ', before), ('-', old), ('+', new), (' ', after)] {
        for line in lines {
            text.push(mark);
            text.push_str(line.text);
            text.push('\n');
            if line.ends_file {
                text.push_str(NO_NEWLINE);
                text.push('\n');
            }
        }
    }
    let ends_file = old.last().is_some_and(|line| line.ends_file);
    Patch { text, needs_unidiff_zero: after.is_empty() && !ends_file }
}

/// Returns the name of a file in the header of a patch, as git writes it.
fn name(side: &str, path: &str) -> String {
    let is_quoted = |c: char| c.is_control() || c == '"' || c == '\\';
    if !path.contains(is_quoted) {
        // The tab ends a name with spaces.
        return format!("{side}/{path}{}", if path.contains(' ') { "\t" } else { "" });
    }
    let mut quoted = format!("\"{side}/");
    for c in path.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                quoted.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\{byte:03o}")));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
