//! Diffs without the changes of whitespace, as `git diff -w` shows them.

use super::blocks::{Block, blocks};
use super::compare::compare;
use super::{FileDiff, Line, LineClass, LineKey};

/// The maximum number of removed lines, and of added lines, in a run that is compared. In the worst case, the time
/// grows with the square of the length. 5,000 lines in another order took 14 ms in a release build.
const LONGEST_RUN: usize = 5_000;

/// Returns the lines of a file. A removed line and an added one that differ only in whitespace are one unchanged line,
/// with the new text. A hunk without other changes is left out, unless it has one of the lines in `kept`.
pub(super) fn hidden<'a>(file: &FileDiff<'a>, kept: &[LineKey]) -> Vec<Line<'a>> {
    let kept: Vec<&LineKey> = kept.iter().filter(|key| key.path == file.path).collect();
    let is_kept = |line: &Line<'_>| kept.iter().any(|key| line.is_at(key.side, key.line));
    let mut lines = Vec::new();
    for hunk in file.lines.chunk_by(|_, next| next.class != LineClass::Hunk) {
        let aligned = aligned(hunk);
        let has = |class: LineClass| aligned.iter().any(|line| line.class == class);
        let has_changes = has(LineClass::Removed) || has(LineClass::Added) || !has(LineClass::WhitespaceOnly);
        if has_changes || hunk.iter().any(is_kept) {
            lines.extend(aligned);
        }
    }
    lines
}

fn aligned<'a>(hunk: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut lines = Vec::with_capacity(hunk.len());
    for block in blocks(hunk) {
        match block {
            Block::Same(at) => lines.extend(hunk.get(at).cloned()),
            Block::Changed { removed, added } => {
                let [removed, added] = [removed, added].map(|run| with_notes(hunk.get(run).unwrap_or_default()));
                lines.extend(paired(&removed, &added));
            }
        }
    }
    lines
}

/// Splits a run of lines into the lines, each with the notes that follow it.
fn with_notes<'l, 'a>(run: &'l [Line<'a>]) -> Vec<&'l [Line<'a>]> {
    run.chunk_by(|_, next| next.class == LineClass::Note).collect()
}

/// Returns the lines of a run of removed lines and of the added lines after it, each with its notes.
fn paired<'a>(removed: &[&[Line<'a>]], added: &[&[Line<'a>]]) -> Vec<Line<'a>> {
    if removed.len() > LONGEST_RUN || added.len() > LONGEST_RUN {
        return removed.iter().chain(added).copied().flatten().cloned().collect();
    }
    let texts =
        [removed, added].map(|run| -> Vec<String> { run.iter().map(|lines| without_whitespace(lines)).collect() });
    let [old, new] = texts.each_ref().map(|run| -> Vec<&str> { run.iter().map(String::as_str).collect() });
    let mut lines = Vec::new();
    // The removed lines and the added lines since the last pair.
    let (mut only_old, mut only_new) = (Vec::new(), Vec::new());
    for part in compare(&old, &new) {
        let old = removed.get(part.old).unwrap_or_default();
        let new = added.get(part.new).unwrap_or_default();
        if part.is_same {
            lines.append(&mut only_old);
            lines.append(&mut only_new);
            lines.extend(old.iter().zip(new).flat_map(|(old, new)| pair(old, new)));
        } else {
            only_old.extend(old.iter().copied().flatten().cloned());
            only_new.extend(new.iter().copied().flatten().cloned());
        }
    }
    lines.append(&mut only_old);
    lines.append(&mut only_new);
    lines
}

fn without_whitespace(lines: &[Line<'_>]) -> String {
    let text = lines.first().map(|line| line.text).unwrap_or_default();
    text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

/// Returns the new line as an unchanged one. The notes of the old line are not about it.
fn pair<'a>(old: &[Line<'a>], new: &[Line<'a>]) -> Vec<Line<'a>> {
    let mut lines = new.to_vec();
    if let (Some(line), Some(old)) = (lines.first_mut(), old.first()) {
        (line.class, line.old_no) = (LineClass::WhitespaceOnly, old.old_no);
    }
    lines
}

#[cfg(test)]
mod tests {
    use journeyman_core::position::DiffSide;

    use super::super::parse::parse;
    use super::*;

    /// Returns the lines of a file with these hunks, as class, old number, new number and text.
    fn lines(hunks: &str, kept: &[LineKey]) -> Vec<String> {
        let diff = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n{hunks}");
        let file = parse(&diff, 20_000).remove(0);
        let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let shown = hidden(&file, kept).into_iter();
        shown
            .map(|line| format!("{:?} {} {} {}", line.class, number(line.old_no), number(line.new_no), line.text))
            .collect()
    }

    fn key(path: &str, side: DiffSide, line: u64) -> LineKey {
        LineKey { path: path.to_owned(), side, line }
    }

    #[test]
    fn lines_that_differ_only_in_whitespace_are_unchanged() {
        for (hunk, expected) in [
            // The lines around a pair stay changed, and all keep their numbers.
            (
                "@@ -3,4 +3,5 @@\n a\n-old\n-  b\n-c\n+new\n+\tb\n+more\n+C\n",
                vec![
                    "Hunk - - @@ -3,4 +3,5 @@",
                    "Context 3 3 a",
                    "Removed 4 - old",
                    "Added - 4 new",
                    "WhitespaceOnly 5 5 \tb",
                    "Removed 6 - c",
                    "Added - 6 more",
                    "Added - 7 C",
                ],
            ),
            // A line within others: the block that it wraps is reindented.
            (
                "@@ -1,2 +1,4 @@\n-one();\n-two();\n+if x {\n+    one();\n+    two();\n+}\n",
                vec![
                    "Hunk - - @@ -1,2 +1,4 @@",
                    "Added - 1 if x {",
                    "WhitespaceOnly 1 2     one();",
                    "WhitespaceOnly 2 3     two();",
                    "Added - 4 }",
                ],
            ),
            // Whitespace within a line, at its end, and a carriage return.
            (
                "@@ -1,4 +1,4 @@\n-f(a,b)\n-c  \n-d\n-e\r\n+f(a, b)\n+c\n+D\n+e\n",
                vec![
                    "Hunk - - @@ -1,4 +1,4 @@",
                    "WhitespaceOnly 1 1 f(a, b)",
                    "WhitespaceOnly 2 2 c",
                    "Removed 3 - d",
                    "Added - 3 D",
                    "WhitespaceOnly 4 4 e",
                ],
            ),
            // An added or removed line of whitespace is a change; other whitespace in it is not.
            ("@@ -1 +1,2 @@\n a\n+  \n", vec!["Hunk - - @@ -1 +1,2 @@", "Context 1 1 a", "Added - 2   "]),
            ("@@ -1,2 +1 @@\n a\n-\n", vec!["Hunk - - @@ -1,2 +1 @@", "Context 1 1 a", "Removed 2 - "]),
            (
                "@@ -1,2 +1,2 @@\n-\t\n-a\n+\n+b\n",
                vec!["Hunk - - @@ -1,2 +1,2 @@", "WhitespaceOnly 1 1 ", "Removed 2 - a", "Added - 2 b"],
            ),
            // Hidden characters are not whitespace.
            ("@@ -1 +1 @@\n-a\u{a0}b\n+a b\n", vec!["Hunk - - @@ -1 +1 @@", "Removed 1 - a\u{a0}b", "Added - 1 a b"]),
            // A line that has moved is not paired across an unchanged one.
            (
                "@@ -1,2 +1,2 @@\n-a\n b\n+ a\n",
                vec!["Hunk - - @@ -1,2 +1,2 @@", "Removed 1 - a", "Context 2 1 b", "Added - 2  a"],
            ),
        ] {
            assert_eq!(lines(hunk, &[]), expected, "{hunk}");
        }
    }

    #[test]
    fn notes_of_the_new_line_stay() {
        let hunk = "@@ -1,2 +1,2 @@\n-a\n-b\n\\ No newline\n+A\n+ b\n\\ No newline at end of file\n";
        let expected = [
            "Hunk - - @@ -1,2 +1,2 @@",
            "Removed 1 - a",
            "Added - 1 A",
            "WhitespaceOnly 2 2  b",
            "Note - - No newline at end of file",
        ];
        assert_eq!(lines(hunk, &[]), expected);
        let removed = "@@ -1,2 +1,2 @@\n-a\n-b\n\\ No newline\n+A\n+b\n";
        assert_eq!(
            lines(removed, &[]),
            ["Hunk - - @@ -1,2 +1,2 @@", "Removed 1 - a", "Added - 1 A", "WhitespaceOnly 2 2 b"]
        );
    }

    #[test]
    fn hunks_without_other_changes_are_left_out() {
        let hunks = "@@ -1,2 +1,2 @@\n-a\n+ a\n b\n@@ -10 +10 @@\n-c\n+d\n@@ -20 +20 @@\n-e\n+e \n";
        assert_eq!(lines(hunks, &[]), ["Hunk - - @@ -10 +10 @@", "Removed 10 - c", "Added - 10 d"]);
        assert_eq!(lines("@@ -1 +1 @@\n-a\n+ a\n", &[]), [""; 0]);
    }

    #[test]
    fn hunks_with_kept_lines_stay() {
        let hunks = "@@ -1,2 +1,2 @@\n-a\n+ a\n b\n@@ -20 +20 @@\n-e\n+e \n";
        let first = ["Hunk - - @@ -1,2 +1,2 @@", "WhitespaceOnly 1 1  a", "Context 2 2 b"];
        for (kept, expected) in [
            (key("x", DiffSide::Old, 1), &first[..]),
            (key("x", DiffSide::New, 1), &first),
            (key("x", DiffSide::New, 2), &first),
            (key("x", DiffSide::New, 3), &[]),
            (key("y", DiffSide::New, 1), &[]),
        ] {
            assert_eq!(lines(hunks, std::slice::from_ref(&kept)), expected, "{kept:?}");
        }
    }

    #[test]
    fn a_very_long_run_stays_as_it_is() {
        for (length, shown) in [(LONGEST_RUN, 0), (LONGEST_RUN + 1, 2 * LONGEST_RUN + 3)] {
            let run = |sign: &str| -> String { (0..length).map(|line| format!("{sign}{line}\n")).collect() };
            let hunk = format!("@@ -1,{length} +1,{length} @@\n{}{}", run("-"), run("+ "));
            assert_eq!(lines(&hunk, &[]).len(), shown, "{length}");
        }
    }
}
