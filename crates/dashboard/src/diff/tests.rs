//! Tests with diffs of git, and with malformed ones.

use super::LineClass::{Added, Context, Hunk, Note, Removed};
use super::*;
use crate::highlight::{Budget, Highlighter};
use crate::visible;

const MAX_LINES: usize = 1000;

/// Parses a diff that must have exactly one file.
fn only(diff: &str) -> FileDiff<'_> {
    let mut files = parse(diff, MAX_LINES);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn rows<'a>(file: &FileDiff<'a>) -> Vec<(LineClass, Option<u32>, Option<u32>, &'a str)> {
    file.lines.iter().map(|line| (line.class, line.old_no, line.new_no, line.text)).collect()
}

#[test]
fn lines_are_numbered_on_both_sides() {
    let file = only(
        "diff --git a/src/main.rs b/src/main.rs\nindex 1111111..2222222 100644\n--- a/src/main.rs\n+++ b/src/main.rs\n\
         @@ -3,3 +3,4 @@ fn main() {\n one\n-two\n+2\n+two and a half\n three\n@@ -20 +21,0 @@\n-end\n",
    );
    assert_eq!((file.path.as_str(), file.change, file.added, file.removed), ("src/main.rs", Change::Modified, 2, 2));
    assert_eq!(
        rows(&file),
        [
            (Hunk, None, None, "@@ -3,3 +3,4 @@ fn main() {"),
            (Context, Some(3), Some(3), "one"),
            (Removed, Some(4), None, "two"),
            (Added, None, Some(4), "2"),
            (Added, None, Some(5), "two and a half"),
            (Context, Some(5), Some(6), "three"),
            (Hunk, None, None, "@@ -20 +21,0 @@"),
            (Removed, Some(20), None, "end"),
        ]
    );
    assert_eq!(file.without_lines(), None);
}

#[test]
fn lines_that_look_like_headers_are_lines() {
    let diff = "diff --git a/q.sql b/q.sql\n--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,3 @@\n--- a/other\n+++ b/other\n \
                @@ -1 +1 @@\n-diff --git a/x b/x\n+diff --git a/y b/y\ndiff --git a/z b/z\n--- a/z\n+++ b/z\n\
                @@ -1 +1 @@\n-a\n+b\n";
    let files = parse(diff, MAX_LINES);
    assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["q.sql", "z"]);
    assert_eq!(
        rows(&files[0])[1..],
        [
            (Removed, Some(1), None, "-- a/other"),
            (Added, None, Some(1), "++ b/other"),
            (Context, Some(2), Some(2), "@@ -1 +1 @@"),
            (Removed, Some(3), None, "diff --git a/x b/x"),
            (Added, None, Some(3), "diff --git a/y b/y"),
        ]
    );
}

#[test]
fn a_rename_has_both_paths() {
    let file = only(
        "diff --git a/old name.txt b/new.txt\nsimilarity index 90%\nrename from old name.txt\nrename to new.txt\n\
         index 1111111..2222222 100644\n--- a/old name.txt\t\n+++ b/new.txt\n@@ -1 +1 @@\n-a\n+b\n",
    );
    assert_eq!((file.old_path.as_deref(), file.path.as_str()), (Some("old name.txt"), "new.txt"));
    assert_eq!((file.change, file.added, file.removed), (Change::Renamed, 1, 1));

    let pure = only("diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n");
    assert_eq!((pure.old_path.as_deref(), pure.path.as_str()), (Some("a"), "b"));
    assert_eq!(pure.without_lines(), Some("The content is the same."));

    let copy = only("diff --git a/a b/b\nsimilarity index 100%\ncopy from a\ncopy to b\n");
    assert_eq!((copy.change, copy.path.as_str()), (Change::Copied, "b"));
}

#[test]
fn a_binary_file_has_no_lines() {
    let file = only(
        "diff --git a/my logo.png b/my logo.png\nnew file mode 100644\nindex 0000000..1111111\n\
         Binary files /dev/null and b/my logo.png differ\n",
    );
    assert_eq!((file.path.as_str(), file.change, file.binary), ("my logo.png", Change::Added, true));
    assert_eq!(file.without_lines(), Some("Binary file, not shown."));

    let patch =
        only("diff --git a/x b/x\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 3\nKcmZ\n\nliteral 0\n");
    assert!(patch.binary && patch.lines.is_empty());
}

#[test]
fn a_missing_newline_at_the_end_is_noted_on_each_side() {
    let file = only(
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\
         \\ No newline at end of file\n",
    );
    assert_eq!(
        rows(&file)[1..],
        [
            (Removed, Some(1), None, "a"),
            (Note, None, None, "No newline at end of file"),
            (Added, None, Some(1), "b"),
            (Note, None, None, "No newline at end of file"),
        ]
    );
}

#[test]
fn an_empty_file_is_named_by_its_header() {
    let new = only("diff --git a/.keep b/.keep\nnew file mode 100644\nindex 0000000..e69de29\n");
    assert_eq!(
        (new.path.as_str(), new.change, new.without_lines()),
        (".keep", Change::Added, Some("The file is empty."))
    );
    let deleted = only("diff --git a/.keep b/.keep\ndeleted file mode 100644\nindex e69de29..0000000\n");
    assert_eq!((deleted.path.as_str(), deleted.change), (".keep", Change::Deleted));
}

#[test]
fn a_deleted_file_keeps_its_path() {
    let file = only("diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n");
    assert_eq!((file.path.as_str(), file.change, file.removed), ("x", Change::Deleted, 2));
}

#[test]
fn a_change_of_mode_is_shown() {
    let file = only("diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n");
    assert_eq!((file.path.as_str(), file.shown_modes().as_deref()), ("run.sh", Some("100644 → 100755")));
    assert_eq!(file.without_lines(), Some("The content is the same."));
}

#[test]
fn unusual_names_are_parsed() {
    for (header, path) in [
        ("a/x b/y b/x b/y", "x b/y"),
        ("a/  b/ ", " "),
        (r#""a/tab\there.txt" "b/tab\there.txt""#, "tab\there.txt"),
        (r#""a/\303\244 \"q\" \\.txt" "b/\303\244 \"q\" \\.txt""#, r#"ä "q" \.txt"#),
        (r#""a/\377" "b/\377""#, r"\xff"),
        ("a/日本語 b/日本語", "日本語"),
        ("a/<b>x</b> b/<b>x</b>", "<b>x</b>"),
    ] {
        let diff = format!("diff --git {header}\nnew file mode 100644\n");
        assert_eq!(only(&diff).path, path);
    }
    let spaced = only("diff --git a/a b.txt b/a b.txt\n--- a/a b.txt\t\n+++ b/a b.txt\t\n@@ -1 +1 @@\n-a\n+b\n");
    assert_eq!(spaced.path, "a b.txt");
    let quoted = only("diff --git \"a/\\n\" \"b/\\n\"\n--- \"a/\\n\"\n+++ \"b/\\n\"\n@@ -1 +1 @@\n-a\n+b\n");
    assert_eq!((quoted.path.as_str(), &*quoted.shown_path()), ("\n", "␊"));
}

#[test]
fn names_that_cannot_be_parsed_are_shown_unchanged() {
    for header in ["", "a", "a/x", "a/x b/y", "\"", "ä"] {
        assert_eq!(only(&format!("diff --git {header}\n")).path, header);
    }
}

#[test]
fn a_text_that_is_not_a_diff_has_no_files() {
    for text in ["", "\n\n", "fatal: bad object\n", "@@ -1 +1 @@\n-a\n+b\n", "--- a/x\n+++ b/x\n"] {
        assert!(parse(text, MAX_LINES).is_empty(), "{text:?}");
    }
}

#[test]
fn a_diff_can_be_truncated_anywhere() {
    let diff = "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nold mode 100644\nnew mode 100755\n--- \"a/\\303\\244\"\n\
                +++ \"b/\\303\\244\"\n@@ -1,2 +1,2 @@ x\n a\n-b\n\\ No newline at end of file\n+c\n";
    for end in 0..diff.len() {
        assert!(parse(&diff[..end], MAX_LINES).len() <= 1);
    }
    assert_eq!(only(diff).path, "ä");
}

#[test]
fn a_hunk_with_a_wrong_length_ends_with_its_lines() {
    let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\ndiff --git a/y b/y\nnew file mode 100644\n";
    let files = parse(diff, MAX_LINES);
    assert_eq!(
        files.iter().map(|file| (file.path.as_str(), file.lines.len())).collect::<Vec<_>>(),
        [("x", 2), ("y", 0)]
    );
    let huge = only("diff --git a/x b/x\n@@ -4294967295,4294967295 +99999999999 @@\n");
    assert!(huge.lines.is_empty());
}

#[test]
fn lines_beyond_the_limit_are_counted() {
    let diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,3 @@\n+a\n+b\n+c\n";
    let files = parse(diff, 2);
    assert_eq!((files[0].lines.len(), files[0].left_out, files[0].added), (2, 2, 3));
    let none = parse(diff, 0);
    assert_eq!((none[0].left_out, none[0].without_lines()), (4, None));
}

#[test]
fn a_large_file_is_collapsed() {
    let diff =
        |lines: usize| format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,{lines} @@\n{}", "+\n".repeat(lines));
    assert!(only(&diff(500)).unfolded());
    assert!(!only(&diff(501)).unfolded());
}

#[test]
fn carriage_returns_show_only_on_changed_lines() {
    let file = only("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n");
    let shown: Vec<_> = file.lines.iter().skip(1).map(|line| visible::line(line.content())).collect();
    assert_eq!(shown, ["a", "b␍", "b"]);
}

/// Returns the rows of the only file in the split view: each cell as number, class and text, with `|` between pieces.
fn split_rows(diff: &str) -> Vec<String> {
    let shown = shown(diff, DiffView::Split);
    assert!(shown.is_split() && shown.files[0].unified.is_empty());
    let rows = shown.files[0].split.iter().map(|row| match &row.hunk {
        Some(hunk) => hunk.to_string(),
        None => {
            let sides = row.sides.iter().map(|side| match side {
                Some(cell) => {
                    let text: Vec<_> = cell.pieces.iter().map(|piece| &*piece.text).collect();
                    let no = cell.no.map(|no| format!("{no} ")).unwrap_or_default();
                    format!("{no}{} {}", cell.class.name(), text.join("|"))
                }
                None => "none".to_owned(),
            });
            sides.collect::<Vec<_>>().join(" / ")
        }
    });
    rows.collect()
}

fn shown(diff: &str, view: DiffView) -> DiffShown<'_> {
    shown_with(diff, Appearance { view, hides_whitespace: false }, &[])
}

fn shown_with<'a>(diff: &'a str, appearance: Appearance, kept: &[LineKey]) -> DiffShown<'a> {
    DiffShown::new(diff, false, appearance, kept, &Highlighter::new(), &mut Budget::without_deadline(100))
}

const CHANGES: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,4 +1,5 @@ head\n same\n-let x = 1\n-gone\n\
                       +let x = 2\n+wholly new\n+third\n end\n@@ -9 +9 @@\n-a b c\n\\ No newline\n+a b d\n";

#[test]
fn the_split_view_pairs_removed_lines_with_added_ones() {
    assert_eq!(
        split_rows(CHANGES),
        [
            "@@ -1,4 +1,5 @@ head",
            "1 same same / 1 same same",
            "2 del let x = |1 / 2 add let x = |2",
            "3 del gone / 3 add wholly new",
            "none / 4 add third",
            "4 same end / 5 same end",
            "@@ -9 +9 @@",
            "9 del a b |c / 9 add a b |d",
            "note No newline / none",
        ]
    );
}

#[test]
fn a_new_or_deleted_file_has_one_column_in_the_split_view() {
    for (header, hunk) in [
        ("new file mode 100644\n--- /dev/null\n+++ b/x\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"),
        ("deleted file mode 100644\n--- a/x\n+++ /dev/null\n", "@@ -1,2 +0,0 @@\n-a\n-b\n"),
    ] {
        let diff = format!("diff --git a/x b/x\n{header}{hunk}");
        let shown = shown(&diff, DiffView::Split);
        assert!(shown.is_split(), "{header}");
        assert_eq!((shown.files[0].unified.len(), shown.files[0].split.len()), (3, 0), "{header}");
    }
}

#[test]
fn the_unified_view_keeps_the_order_of_lines() {
    let shown = shown(CHANGES, DiffView::Unified);
    assert!(!shown.is_split() && shown.files[0].split.is_empty());
    assert_eq!((shown.files_text().as_str(), shown.added, shown.removed), ("1 file", 4, 3));
    let rows: Vec<_> = shown.files[0].unified.iter().map(|row| (row.class, row.old_no, row.new_no)).collect();
    let lines: Vec<_> = shown.files[0].diff.lines.iter().map(|line| (line.class, line.old_no, line.new_no)).collect();
    assert_eq!(rows, lines);
}

#[test]
fn both_views_show_the_whole_text_with_highlighting() {
    let diff = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,3 @@\n fn main() {\r\n\
                -    let x = \"one\";\n+    let x = \"two\u{202e}\";\n }\n";
    let whole = |pieces: &[pieces::Piece<'_>]| pieces.iter().map(|piece| &*piece.text).collect::<String>();
    let unified = shown(diff, DiffView::Unified);
    let texts: Vec<_> = unified.files[0].unified.iter().map(|row| whole(&row.pieces)).collect();
    assert_eq!(texts, ["@@ -1,3 +1,3 @@", "fn main() {", "    let x = \"one\";", "    let x = \"two⟨U+202E⟩\";", "}"]);
    let classes = |row: usize| unified.files[0].unified[row].pieces.iter().filter_map(pieces::Piece::class);
    assert!(classes(1).any(|class| class == "hl-keyword"), "{:?}", unified.files[0].unified[1]);
    assert!(classes(3).any(|class| class == "hl-string word"), "{:?}", unified.files[0].unified[3]);
    let split = shown(diff, DiffView::Split);
    let sides =
        |row: usize| split.files[0].split[row].sides.each_ref().map(|side| whole(&side.as_ref().unwrap().pieces));
    assert_eq!(sides(1), [&*texts[1], &*texts[1]]);
    assert_eq!(sides(2), [&*texts[2], &*texts[3]]);
}

/// A change of a file with two hunks, of which the second changes only whitespace, and of a file with nothing else.
const SPACES: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n same\n-one\n-end\n+if x {\n+  one\n+END\n\
                      @@ -20 +21 @@\n-a\n+ a\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-b\n+\tb\n";

const HIDDEN: [Appearance; 2] = [
    Appearance { view: DiffView::Unified, hides_whitespace: true },
    Appearance { view: DiffView::Split, hides_whitespace: true },
];

#[test]
fn changes_of_whitespace_can_be_hidden() {
    let [unified, split] = HIDDEN.map(|appearance| shown_with(SPACES, appearance, &[]));
    let rows: Vec<_> = unified.files[0].unified.iter().map(|row| (row.class, row.old_no, row.new_no)).collect();
    assert_eq!(
        rows,
        [
            (Hunk, None, None),
            (Context, Some(1), Some(1)),
            (Added, None, Some(2)),
            (LineClass::WhitespaceOnly, Some(2), Some(3)),
            (Removed, Some(3), None),
            (Added, None, Some(4)),
        ]
    );
    let sides: Vec<_> =
        split.files[0].split.iter().map(|row| row.sides.each_ref().map(|side| side.as_ref()?.no)).collect();
    assert_eq!(
        sides,
        [[None, None], [Some(1), Some(1)], [None, Some(2)], [Some(2), Some(3)], [Some(3), Some(4)]],
        "the pair of changed lines is in one row"
    );
    let all = shown(SPACES, DiffView::Unified);
    for diff in [&unified, &split] {
        // The counts and the hash are those of the whole change.
        assert_eq!((diff.files.len(), diff.added, diff.removed), (2, 5, 4));
        assert_eq!((diff.files[0].without_lines(), &diff.files[0].hash), (None, &all.files[0].hash));
        let empty = &diff.files[1];
        assert!(empty.unified.is_empty() && empty.split.is_empty(), "{empty:?}");
        assert_eq!(empty.without_lines(), Some("Only whitespace has changed."));
        assert_eq!((empty.diff.added, empty.diff.removed, &empty.hash), (1, 1, &all.files[1].hash));
    }
    assert_eq!((all.files[0].unified.len(), all.files[1].without_lines()), (10, None));
}

#[test]
fn the_last_file_of_a_diff_that_is_cut_may_have_other_changes() {
    let (highlighter, mut budget) = (Highlighter::new(), Budget::without_deadline(100));
    let cut = DiffShown::new(SPACES, true, HIDDEN[0], &[], &highlighter, &mut budget);
    assert!(cut.files[1].unified.is_empty());
    assert_eq!(cut.files[1].without_lines(), None);
}

#[test]
fn comments_on_lines_with_hidden_changes_are_attached() {
    use journeyman_core::position::DiffSide::{New, Old};
    let key = |side, line| LineKey { path: "x".to_owned(), side, line };
    for appearance in HIDDEN {
        for (side, line, row, kept_row) in [
            (New, 1, Some(1), 1),
            (Old, 2, Some(3), 3),
            (New, 3, Some(3), 3),
            // The second hunk is shown only for a comment on it.
            (Old, 20, None, if appearance.view == DiffView::Split { 6 } else { 7 }),
            (New, 21, None, if appearance.view == DiffView::Split { 6 } else { 7 }),
        ] {
            let key = key(side, line);
            let position = position_of(SPACES, key.clone()).unwrap();
            for (kept, row) in [(&[] as &[LineKey], row), (std::slice::from_ref(&key), Some(kept_row))] {
                let mut shown = shown_with(SPACES, appearance, kept);
                assert!(shown.find(&position).is_some(), "{key:?}");
                assert_eq!(shown.attach(&key, crate::fragment::Fragment::default()), row.is_some(), "{key:?}");
                let file = &shown.files[0];
                let unified = file.unified.iter().position(|row| !row.remarks.is_empty());
                let split = file.split.iter().position(|row| !row.remarks.is_empty());
                assert_eq!(unified.or(split), row, "{key:?} {appearance:?}");
            }
        }
    }
}
