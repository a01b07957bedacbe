//! The unchanged lines between hunks, which a diff leaves out.

use super::{Change, FileDiff, Line, LineClass, parse};
use crate::words::counted;

/// The number of unchanged lines around a change in a diff.
const CONTEXT: usize = 3;

/// Unchanged lines that a diff leaves out, as line numbers of the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The first line.
    pub(crate) from: u32,
    /// The last line; `None` for the rest of the file, whose length is not known.
    pub(crate) to: Option<u32>,
    /// The number of the same line in the old file, minus the number in the new file.
    pub(crate) shift: i64,
}

/// The number of lines that a button shows.
const SHOWN_AT_ONCE: u32 = 40;

impl Gap {
    /// Returns the number of lines that a button shows, as a text: `1 line`, `40 lines`.
    pub(crate) fn text(&self) -> String {
        let size = self.to.map_or(SHOWN_AT_ONCE, |to| to.saturating_sub(self.from).saturating_add(1));
        counted(usize::try_from(size.min(SHOWN_AT_ONCE)).unwrap_or_default(), "line")
    }

    /// Returns the last line; zero for the rest of the file.
    pub(crate) fn end(&self) -> u32 {
        self.to.unwrap_or_default()
    }
}

/// Returns the gap above each hunk of a file that is in `lines`, in their order, and the gap after the last one. Hunks
/// that are not in `lines` have as many lines on both sides, and are parts of the gaps.
pub(super) fn of_file(file: &FileDiff<'_>, lines: &[Line<'_>]) -> (Vec<Option<Gap>>, Option<Gap>) {
    let (mut above, mut next) = (Vec::new(), (1, 1));
    for hunk in lines.chunk_by(|_, line| line.class != LineClass::Hunk) {
        let start = hunk.first().and_then(|header| parse::starts(header.text)).unwrap_or(next);
        let gap = Gap { from: next.1, to: Some(start.1.saturating_sub(1)), shift: shift(start) };
        above.push(Some(gap).filter(|gap| may_have_gaps(file) && gap.to >= Some(gap.from)));
        next = hunk.iter().fold(start, |(old, new), line| match line.class {
            LineClass::Context | LineClass::WhitespaceOnly => (old.saturating_add(1), new.saturating_add(1)),
            LineClass::Added => (old, new.saturating_add(1)),
            LineClass::Removed => (old.saturating_add(1), new),
            LineClass::Hunk | LineClass::Note => (old, new),
        });
    }
    let ends_file = last_header(lines) == last_header(&file.lines) && ends_file(&file.lines);
    let is_open = may_have_gaps(file) && !lines.is_empty() && !ends_file && file.left_out == 0;
    let after = is_open.then(|| Gap { from: next.1, to: None, shift: shift(next) });
    (above, after)
}

fn shift((old, new): (u32, u32)) -> i64 {
    i64::from(old) - i64::from(new)
}

/// Returns false if the diff has the whole file.
fn may_have_gaps(file: &FileDiff<'_>) -> bool {
    !matches!(file.change, Change::Added | Change::Deleted) && !file.binary
}

/// Returns the header of the last hunk. It has the numbers of lines, so it is different from those of other hunks.
fn last_header<'a>(lines: &[Line<'a>]) -> Option<&'a str> {
    lines.iter().rfind(|line| line.class == LineClass::Hunk).map(|line| line.text)
}

/// Returns true if the last hunk reaches the end of the file: fewer unchanged lines follow than git would show.
fn ends_file(lines: &[Line<'_>]) -> bool {
    lines.iter().rev().take_while(|line| line.class == LineClass::Context).count() < CONTEXT
}

#[cfg(test)]
mod tests {
    use super::super::whitespace;
    use super::*;

    fn gaps(hunks: &str) -> (Vec<Option<Gap>>, Option<Gap>) {
        let diff = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n{hunks}");
        let file = parse::parse(&diff, 1000).remove(0);
        of_file(&file, &file.lines)
    }

    fn gap(from: u32, to: impl Into<Option<u32>>, shift: i64) -> Option<Gap> {
        Some(Gap { from, to: to.into(), shift })
    }

    #[test]
    fn gaps_are_between_hunks_and_around_them() {
        let hunks = "@@ -10,4 +10,5 @@\n a\n-b\n+c\n+d\n e\n f\n@@ -30,4 +31,4 @@\n-g\n+h\n i\n j\n k\n";
        assert_eq!(gaps(hunks), (vec![gap(1, 9, 0), gap(15, 30, -1)], gap(35, None, -1)));
    }

    #[test]
    fn a_file_that_is_shown_completely_has_no_gaps() {
        assert_eq!(gaps("@@ -1,2 +1,2 @@\n a\n-b\n+c\n"), (vec![None], None));
        assert_eq!(gaps("@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n"), (vec![None], None));
    }

    #[test]
    fn a_hunk_without_lines_on_a_side_begins_after_the_line_that_it_names() {
        assert_eq!(gaps("@@ -5,2 +4,0 @@\n-a\n-b\n").0, [gap(1, 4, 0)]);
        assert_eq!(gaps("@@ -4,0 +5,2 @@\n+a\n+b\n").0, [gap(1, 4, 0)]);
    }

    #[test]
    fn new_files_have_no_gaps() {
        let diff = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n";
        let file = parse::parse(diff, 9).remove(0);
        assert_eq!(of_file(&file, &file.lines), (vec![None], None));
    }

    /// Returns the gaps where changes of whitespace are hidden.
    fn without_whitespace(hunks: &str) -> (Vec<Option<Gap>>, Option<Gap>) {
        let diff = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n{hunks}");
        let file = parse::parse(&diff, 1000).remove(0);
        of_file(&file, &whitespace::hidden(&file, &[]))
    }

    #[test]
    fn gaps_include_hunks_that_are_hidden() {
        let [hidden, also_hidden] = ["@@ -20,4 +21,4 @@\n-a\n+ a\n b\n c\n d\n", "@@ -60,2 +63,2 @@\n e\n-f\n+f \n"];
        let [first, second] =
            ["@@ -10,4 +10,5 @@\n-a\n+b\n+c\n d\n e\n f\n", "@@ -40,4 +41,6 @@\n-g\n+ g\n+h\n+i\n j\n k\n l\n"];
        for (hunks, expected) in [
            // Between two hunks, and after the last one.
            (format!("{first}{hidden}{second}"), (vec![gap(1, 9, 0), gap(15, 40, -1)], gap(47, None, -3))),
            (format!("{first}{second}{also_hidden}"), (vec![gap(1, 9, 0), gap(15, 40, -1)], gap(47, None, -3))),
            (format!("{first}{hidden}"), (vec![gap(1, 9, 0)], gap(15, None, -1))),
            // Before the first one, where no line is added yet.
            ("@@ -2 +2 @@\n-a\n+ a\n@@ -9 +9 @@\n-b\n+c\n".to_owned(), (vec![gap(1, 8, 0)], None)),
            // The lines at the end of the file are unchanged, but are not its context.
            ("@@ -1,4 +1,4 @@\n-a\n-b\n-c\n-d\n+A\n+ b\n+ c\n+ d\n".to_owned(), (vec![None], None)),
            (hidden.to_owned(), (vec![], None)),
        ] {
            assert_eq!(without_whitespace(&hunks), expected, "{hunks}");
        }
    }
}
