//! Tests of suggestions. Those of `crates/forge/tests` apply the patches with git.

use super::*;
use crate::position::DiffSide;

fn at(start: u64, end: u64) -> Position {
    Position::lines("src/a.rs".to_owned(), LineRange { start, end }, DiffSide::New)
}

/// A diff whose new version has the lines 10 to 14: `ten`, `eleven`, `twelve`, `13` and `14`.
const DIFF: &str = "@@ -10,5 +10,5 @@ fn main()\n ten\n-11\n-12\n+eleven\n+twelve\n 13\n 14";

/// Returns the lines of the patch of the only suggestion, without the names of the file.
fn patched(body: &str, position: &Position, diff: &str) -> (String, bool) {
    let found = suggestions(body, Replaces::Range, position, Some(diff));
    let [Suggestion { patch: Some(patch), .. }] = found.as_slice() else { panic!("{found:?}") };
    let text = patch.text.strip_prefix("--- a/src/a.rs\n+++ b/src/a.rs\n").expect("the names are first");
    (text.to_owned(), patch.needs_unidiff_zero)
}

#[test]
fn a_suggestion_becomes_a_patch() {
    let truncated = "@@ -10,5 +10,5 @@ fn main()\n ten\n-11\n-12\n+eleven\n+twelve";
    for (body, (start, end), diff, expected, needs_option) in [
        (
            "Better:\n```suggestion\nXI\n```",
            (11, 11),
            DIFF,
            "@@ -10,5 +10,5 @@\n ten\n-eleven\n+XI\n twelve\n 13\n 14\n",
            false,
        ),
        (
            "```suggestion\nXI\nXII\n```",
            (11, 12),
            truncated,
            "@@ -10,3 +10,3 @@\n ten\n-eleven\n-twelve\n+XI\n+XII\n",
            true,
        ),
        // The last line stays, and is known to follow.
        (
            "```suggestion\nXI\ntwelve\n```",
            (11, 12),
            truncated,
            "@@ -10,3 +10,3 @@\n ten\n-eleven\n+XI\n twelve\n",
            false,
        ),
        // Windows sends comments with other line endings than the file has.
        (
            "```suggestion\r\nXI\r\n```\r\n",
            (11, 11),
            DIFF,
            "@@ -10,5 +10,5 @@\n ten\n-eleven\n+XI\n twelve\n 13\n 14\n",
            false,
        ),
        // An empty block deletes, a blank line in a block is one.
        ("```suggestion\n```", (11, 12), DIFF, "@@ -10,5 +10,3 @@\n ten\n-eleven\n-twelve\n 13\n 14\n", false),
        ("```suggestion\n\n```", (11, 12), DIFF, "@@ -10,5 +10,4 @@\n ten\n-eleven\n-twelve\n+\n 13\n 14\n", false),
        ("```suggestion\n```", (10, 12), truncated, "@@ -10,3 +9,0 @@\n-ten\n-eleven\n-twelve\n", true),
        // A longer fence contains a shorter one.
        (
            "````suggestion\n```\ncode\n```\n````",
            (12, 12),
            DIFF,
            "@@ -10,5 +10,7 @@\n ten\n eleven\n-twelve\n+```\n+code\n+```\n 13\n 14\n",
            false,
        ),
        ("~~~suggestion\nXI\n~~~", (11, 11), truncated, "@@ -10,3 +10,3 @@\n ten\n-eleven\n+XI\n twelve\n", false),
        // The block is open until the end of the comment.
        ("```suggestion\nXII", (12, 12), DIFF, "@@ -10,5 +10,5 @@\n ten\n eleven\n-twelve\n+XII\n 13\n 14\n", false),
        // The suggestion inserts a line.
        (
            "```suggestion\ntwelve\nbetween\n```",
            (12, 12),
            DIFF,
            "@@ -10,5 +10,6 @@\n ten\n eleven\n twelve\n+between\n 13\n 14\n",
            false,
        ),
        (
            "```suggestion\ntwelve\n```",
            (12, 12),
            truncated,
            "@@ -10,3 +10,3 @@\n ten\n eleven\n-twelve\n+twelve\n",
            true,
        ),
    ] {
        assert_eq!(patched(body, &at(start, end), diff), (expected.to_owned(), needs_option), "{body:?}");
    }
}

#[test]
fn the_line_endings_and_the_end_of_the_file_stay() {
    let windows = "@@ -1,3 +1,3 @@\n one\r\n-2\r\n+two\r\n three\r";
    let without_end = "@@ -1,2 +1,2 @@\n one\n-2\n+two\n\\ No newline at end of file";
    let both = "@@ -1,2 +1,2 @@\n one\r\n-2\n\\ No newline at end of file\n+two\n\\ No newline at end of file";
    for (body, diff, expected, needs_option) in [
        ("```suggestion\nII\n```", windows, "@@ -1,3 +1,3 @@\n one\r\n-two\r\n+II\r\n three\r\n", false),
        (
            "```suggestion\nII\nIII\n```",
            without_end,
            "@@ -1,2 +1,3 @@\n one\n-two\n\\ No newline at end of file\n+II\n+III\n\\ No newline at end of file\n",
            false,
        ),
        ("```suggestion\n```", without_end, "@@ -1,2 +1,1 @@\n one\n-two\n\\ No newline at end of file\n", false),
        (
            "```suggestion\nII\nIII\n```",
            both,
            "@@ -1,2 +1,3 @@\n one\r\n-two\n\\ No newline at end of file\n+II\r\n+III\n\\ No newline at end of file\n",
            false,
        ),
    ] {
        assert_eq!(patched(body, &at(2, 2), diff), (expected.to_owned(), needs_option), "{body:?} {diff:?}");
    }
}

#[test]
fn the_lines_of_a_suggestion_depend_on_the_code_host() {
    use Replaces::{LastLine, Range};
    let range = |start, end| Some(LineRange { start, end });
    for (language, replaces, position, expected) in [
        ("suggestion", Range, at(11, 12), range(11, 12)),
        ("suggestion", LastLine, at(11, 12), range(12, 12)),
        ("suggestion:-0+0", LastLine, at(11, 12), range(12, 12)),
        ("suggestion:-1+2", LastLine, at(12, 12), range(11, 14)),
        ("suggestion:-20+0", LastLine, at(12, 12), range(1, 12)),
        ("suggestion:-1+0", Range, at(12, 12), range(11, 12)),
        ("suggestion", Range, Position { side: DiffSide::Old, ..at(11, 12) }, None),
        ("suggestion", Range, Position::whole_file("a".to_owned()), None),
    ] {
        let body = format!("```{language}\nx\n```");
        let found = suggestions(&body, replaces, &position, Some(DIFF));
        let [Suggestion { lines, patch }] = found.as_slice() else { panic!("{language}: {found:?}") };
        assert_eq!(*lines, expected, "{language} {position}");
        let is_known = expected.is_some_and(|lines| lines.start >= 10);
        assert_eq!(patch.is_some(), is_known, "{language} {position}");
    }
}

#[test]
fn only_blocks_that_are_shown_as_suggestions_count() {
    for (body, count) in [
        ("```suggestion\na\n```\n\nor\n\n```suggestion\nb\n```", 2),
        ("1. First:\n\n   ```suggestion\n   a\n   ```", 1),
        ("> ```suggestion\n> a\n> ```\n\nNo.", 0),
        ("````md\n```suggestion\na\n```\n````", 0),
        ("    ```suggestion\n    a\n    ```", 0),
        ("<!--\n```suggestion\na\n```\n-->", 0),
        ("```suggestions\na\n```", 0),
        ("```suggestion:2\na\n```", 0),
        ("```suggestion:-1\na\n```", 0),
        ("```rust\na\n```", 0),
        ("``suggestion``", 0),
        ("", 0),
    ] {
        assert_eq!(suggestions(body, Replaces::Range, &at(11, 11), None).len(), count, "{body:?}");
    }
}

#[test]
fn a_suggestion_on_lines_that_are_not_known_has_no_patch() {
    let of = |diff: Option<&str>, lines: (u64, u64)| {
        let found = suggestions("```suggestion\nx\n```", Replaces::Range, &at(lines.0, lines.1), diff);
        found.into_iter().next().and_then(|one| one.patch)
    };
    assert!(of(Some(DIFF), (10, 14)).is_some());
    for (diff, lines) in [
        (None, (11, 11)),
        (Some(""), (11, 11)),
        (Some("no diff"), (11, 11)),
        (Some("@@ -x +y @@\n+a"), (11, 11)),
        (Some(DIFF), (9, 10)),
        (Some(DIFF), (14, 15)),
        (Some(DIFF), (u64::MAX - 1, u64::MAX)),
        (Some("@@ -1 +18446744073709551615 @@\n+a\n+b"), (u64::MAX, u64::MAX)),
    ] {
        let found = of(diff, lines);
        assert!(found.is_none() || lines.0 == u64::MAX, "{diff:?} {lines:?} {found:?}");
    }
}

#[test]
fn the_names_of_a_patch_are_those_that_git_reads() {
    for (path, expected) in [
        ("a b.txt", "--- a/a b.txt\t\n+++ b/a b.txt\t\n"),
        ("ä.txt", "--- a/ä.txt\n+++ b/ä.txt\n"),
        ("a\"b\\c\nd", "--- \"a/a\\\"b\\\\c\\012d\"\n+++ \"b/a\\\"b\\\\c\\012d\"\n"),
    ] {
        let position = Position { path: path.to_owned(), ..at(11, 11) };
        let found = suggestions("```suggestion\nx\n```", Replaces::Range, &position, Some(DIFF));
        let patch = found[0].patch.as_ref().expect("the line is known");
        assert!(patch.text.starts_with(expected), "{}", patch.text);
    }
}

#[test]
fn the_excerpt_of_a_diff_ends_at_the_line() {
    let two = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-2\n+two\n{DIFF}\n");
    let old = |line| Position { side: DiffSide::Old, ..at(line, line) };
    for (diff, position, expected) in [
        (two.as_str(), at(10, 11), "@@ -10,5 +10,5 @@ fn main()\n ten\n-11\n-12\n+eleven"),
        (&two, old(11), "@@ -10,5 +10,5 @@ fn main()\n ten\n-11"),
        (&two, at(1, 1), "@@ -1,2 +1,2 @@\n one"),
        (&two, at(99, 99), &two),
        (&two, Position::whole_file("x".to_owned()), &two),
        ("no diff", at(1, 1), "no diff"),
        (
            "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file",
            at(1, 1),
            "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file",
        ),
    ] {
        assert_eq!(excerpt(diff, &position), expected, "{position}");
    }
}

#[test]
fn removed_and_added_lines_may_look_like_names_of_files() {
    let diff = "@@ -1,3 +1,3 @@\n--- a comment\n+++ a sum\n 2\n 3\n--- a/next\n+++ b/next\n@@ -1 +1 @@\n-x\n+y";
    let (text, _) = patched("```suggestion\nz\n```", &at(1, 1), diff);
    assert_eq!(text, "@@ -1,3 +1,3 @@\n-++ a sum\n+z\n 2\n 3\n");
}
