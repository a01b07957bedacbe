//! Parts of diffs, as code hosts give them with comments.

use crate::conversation::DiffLine;
use crate::position::{DiffSide, Position};

/// The mark of a line that is the last one of its file and does not end with a line break.
pub(super) const NO_NEWLINE: &str = "\\ No newline at end of file";

/// A line of a file, without its line feed. A carriage return before it is part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The text.
    pub(super) text: &'a str,
    /// `true` if the file ends after the text, without a line break.
    pub(super) ends_file: bool,
}

/// A hunk of a diff.
#[derive(Debug)]
pub(super) struct Hunk<'a> {
    header: &'a str,
    /// The lines with their marks, in the order of the diff.
    marked: Vec<(char, Line<'a>)>,
    old_start: u64,
    new_start: u64,
}

impl<'a> Hunk<'a> {
    /// Returns the number of the first line of the new version, and its lines, which follow each other.
    pub(super) fn new_version(&self) -> (u64, Vec<Line<'a>>) {
        (self.new_start, self.marked.iter().filter(|(mark, _)| *mark != '-').map(|(_, line)| *line).collect())
    }

    /// Returns the number of diff lines up to a line of a version of the file, if the hunk has it.
    fn length_to(&self, side: DiffSide, number: u64) -> Option<usize> {
        let (start, other) = if side == DiffSide::Old { (self.old_start, '+') } else { (self.new_start, '-') };
        let index = usize::try_from(number.checked_sub(start)?).ok()?;
        let of_side = self.marked.iter().enumerate().filter(|(_, (mark, _))| *mark != other);
        of_side.map(|(offset, _)| offset + 1).nth(index)
    }
}

/// Reads the hunks of a diff. What is before the first one, and the names of files, do not count. The last hunk may have
/// fewer lines than its header says.
pub(super) fn parse(diff: &str) -> Vec<Hunk<'_>> {
    let mut hunks: Vec<Hunk<'_>> = Vec::new();
    let mut left = (0, 0);
    let mut lines = diff.split('\n').peekable();
    while let Some(line) = lines.next() {
        if let Some((old, new)) = header(line) {
            left = (old.1, new.1);
            hunks.push(Hunk { header: line, marked: Vec::new(), old_start: old.0, new_start: new.0 });
            continue;
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        let is_over = left == (0, 0) && (line.starts_with("--- ") || line.starts_with("+++ "));
        if is_over || line.starts_with("diff --git ") {
            continue;
        }
        let (mark, text) = match line.chars().next() {
            Some(mark @ ('+' | '-' | ' ')) => (mark, &line[1..]),
            Some('\\') => {
                if let Some((_, last)) = hunk.marked.last_mut() {
                    last.ends_file = true;
                }
                continue;
            }
            // Some hosts remove the spaces at the ends of lines.
            None | Some('\r') if lines.peek().is_some() => (' ', line),
            _ => continue,
        };
        left.0 = u64::saturating_sub(left.0, u64::from(mark != '+'));
        left.1 = u64::saturating_sub(left.1, u64::from(mark != '-'));
        hunk.marked.push((mark, Line { text, ends_file: false }));
    }
    hunks
}

/// Reads the header of a hunk: the first line and the number of lines of the old version, and those of the new one.
fn header(line: &str) -> Option<((u64, u64), (u64, u64))> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    Some((range(old)?, range(new)?))
}

fn range(text: &str) -> Option<(u64, u64)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

/// Returns the lines of each hunk of the diff of a file.
#[must_use]
pub fn diff_lines(diff: &str) -> Vec<Vec<DiffLine>> {
    let lines = |hunk: &Hunk<'_>| {
        let (mut old, mut new) = (hunk.old_start, hunk.new_start);
        let line = |(mark, _): &(char, Line<'_>)| {
            let line = DiffLine { old: (*mark != '+').then_some(old), new: (*mark != '-').then_some(new) };
            old += u64::from(line.old.is_some());
            new += u64::from(line.new.is_some());
            line
        };
        hunk.marked.iter().map(line).collect()
    };
    parse(diff).iter().map(lines).collect()
}

/// Returns the part of a diff that ends at the last line of a position, from the header of its hunk. Some hosts give the
/// diff of the whole file. Returns all of it if it does not have the line.
#[must_use]
pub fn excerpt(diff: &str, position: &Position) -> String {
    let Some(line) = position.line() else { return diff.to_owned() };
    let hunks = parse(diff);
    let found = hunks.iter().find_map(|hunk| Some((hunk, hunk.length_to(position.side, line)?)));
    let Some((hunk, length)) = found else { return diff.to_owned() };
    let mut text = hunk.header.to_owned();
    for (mark, line) in hunk.marked.iter().take(length) {
        text.push('\n');
        text.push(*mark);
        text.push_str(line.text);
        if line.ends_file {
            text.push('\n');
            text.push_str(NO_NEWLINE);
        }
    }
    text
}
