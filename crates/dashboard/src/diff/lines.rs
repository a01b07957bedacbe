//! Lines of a diff as the positions of comments.

use std::fmt;

use askama::filters::HtmlSafe;
use journeyman_core::position::DiffSide;
use journeyman_core::pull::LinePosition;

use super::{DiffShown, FileDiff, Line, LineClass, LineKey, parse};
use crate::diff::shown::SHOWN_LINES;
use crate::fragment::Fragment;
use crate::size::Size;

/// The maximum number of lines of a hunk before the line of a comment.
const LINES_BEFORE: usize = 8;

/// The maximum length of a line in a stored hunk, in characters.
const LINE_CHARS: usize = 400;

/// A line of a page: the number of its file on the page, its side and its number. The query of a URL names it as
/// `at=2-n17`, the fragment as `f2-R17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLine {
    file: usize,
    side: DiffSide,
    line: u32,
}

impl PageLine {
    /// Parses the parameter `at` in the query of a URL.
    pub(crate) fn of_query(query: Option<&str>) -> Option<Self> {
        let value = query?.split('&').find_map(|pair| pair.strip_prefix("at="))?;
        let (file, line) = value.split_once('-')?;
        let (side, line) = match line.split_at_checked(1)? {
            ("o", line) => (DiffSide::Old, line),
            ("n", line) => (DiffSide::New, line),
            _ => return None,
        };
        Some(Self { file: file.parse().ok()?, side, line: line.parse().ok()? })
    }

    /// Returns the query, which begins with the given parameters, and the fragment of the URL that opens the form for a
    /// comment on the line.
    pub(crate) fn link(self, parameters: &str) -> String {
        let letter = if self.side == DiffSide::Old { 'o' } else { 'n' };
        format!("?{parameters}at={}-{letter}{}#{}", self.file, self.line, self.fragment())
    }

    fn fragment(self) -> String {
        let letter = if self.side == DiffSide::Old { 'L' } else { 'R' };
        format!("f{}-{letter}{}", self.file, self.line)
    }
}

/// The number of a line, which is a link: to the line, or to the form for a comment on it.
pub(crate) struct LineNumber<'q> {
    at: PageLine,
    /// The parameters of the URL before the line; `None` if no one can comment.
    query: Option<&'q str>,
}

impl fmt::Display for LineNumber<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PageLine { side, line, .. } = self.at;
        let word = if side == DiffSide::Old { "removed line" } else { "line" };
        let (href, verb) = match self.query {
            Some(query) => (self.at.link(query), "Comment on"),
            None => (format!("#{}", self.at.fragment()), "Link to"),
        };
        write!(f, "<a href=\"{href}\" aria-label=\"{verb} {word} {line}\">{line}</a>")
    }
}

/// Safe because the markup has only numbers, fixed text, and the query of [`DiffShown::query`].
impl HtmlSafe for LineNumber<'_> {}

impl Line<'_> {
    /// Returns the side and the number of a line that can have comments.
    pub(super) fn position(&self) -> Option<(DiffSide, u32)> {
        match self.class {
            LineClass::Removed => Some((DiffSide::Old, self.old_no?)),
            LineClass::Added | LineClass::Context | LineClass::WhitespaceOnly => Some((DiffSide::New, self.new_no?)),
            LineClass::Hunk | LineClass::Note => None,
        }
    }

    /// Returns the position of the removed line in a pair that differs only in whitespace.
    pub(super) fn old_position(&self) -> Option<(DiffSide, u32)> {
        (self.class == LineClass::WhitespaceOnly).then_some((DiffSide::Old, self.old_no?))
    }

    /// Returns true if comments name the line by this side and number.
    pub(super) fn is_at(&self, side: DiffSide, line: u64) -> bool {
        self.position().is_some_and(|(of, no)| of == side && u64::from(no) == line)
    }

    /// Returns the line as it is in a diff.
    fn in_diff(&self) -> String {
        let sign = match self.class {
            LineClass::Added => "+",
            LineClass::Removed => "-",
            LineClass::Context | LineClass::WhitespaceOnly => " ",
            LineClass::Hunk | LineClass::Note => "",
        };
        let text: String = self.text.chars().take(LINE_CHARS).collect();
        format!("{sign}{text}")
    }
}

fn index(file: &FileDiff<'_>, side: DiffSide, line: u64) -> Option<usize> {
    file.lines.iter().position(|one| one.is_at(side, line))
}

fn hunk(file: &FileDiff<'_>, key: &LineKey) -> Option<String> {
    let at = index(file, key.side, key.line)?;
    let before = file.lines.get(..=at)?;
    let header = before.iter().rposition(|line| line.class == LineClass::Hunk)?;
    let first = (header + 1).max(at.saturating_sub(LINES_BEFORE));
    let shown = before.get(first..)?.iter().filter(|line| line.class != LineClass::Note);
    let lines: Vec<String> = before.get(header).into_iter().chain(shown).map(Line::in_diff).collect();
    Some(lines.join("\n"))
}

/// Returns the position of a line with the part of the diff that ends at it; `None` if the diff does not have the line.
pub(crate) fn position_of(diff: &str, key: LineKey) -> Option<LinePosition> {
    let files = parse(diff, SHOWN_LINES);
    let hunk = files.iter().filter(|file| file.path == key.path).find_map(|file| hunk(file, &key))?;
    Some(LinePosition { path: key.path, side: key.side, line: key.line, hunk })
}

/// The files of a diff, without their appearance.
pub(crate) struct Outline<'a>(pub(crate) Vec<FileDiff<'a>>);

impl<'a> Outline<'a> {
    /// Parses a diff.
    pub(crate) fn of(diff: &'a str) -> Self {
        Self(parse(diff, SHOWN_LINES))
    }

    /// Returns the size of the whole diff.
    pub(crate) fn size(&self) -> Size {
        let sum = |count: fn(&FileDiff<'a>) -> usize| self.0.iter().map(count).sum();
        Size::of_lines(sum(|file| file.added), sum(|file| file.removed), self.0.len())
    }

    /// Finds the line of a comment; `None` if the diff no longer has it with the same text.
    pub(crate) fn find(&self, position: &LinePosition) -> Option<PageLine> {
        find(self.0.iter(), position)
    }
}

fn find<'f, 'a: 'f>(files: impl Iterator<Item = &'f FileDiff<'a>>, position: &LinePosition) -> Option<PageLine> {
    let last = position.hunk.lines().next_back().unwrap_or_default();
    files.zip(1..).filter(|(file, _)| file.path == position.path).find_map(|(file, number)| {
        let line = file.lines.get(index(file, position.side, position.line)?)?;
        let is_same = line.in_diff().trim_end_matches('\r') == last.trim_end_matches('\r');
        let (side, line) = line.position().filter(|_| is_same)?;
        Some(PageLine { file: number, side, line })
    })
}

impl DiffShown<'_> {
    /// Finds the line of a comment; `None` if the diff no longer has it with the same text.
    pub(crate) fn find(&self, position: &LinePosition) -> Option<PageLine> {
        find(self.files.iter().map(|file| &file.diff), position)
    }

    /// Returns the number of a line for the page.
    pub(crate) fn number(&self, file: &usize, side: &DiffSide, line: &u32) -> LineNumber<'_> {
        let query = self.takes_comments.then_some(self.query.as_str());
        LineNumber { at: PageLine { file: *file, side: *side, line: *line }, query }
    }

    /// Returns the number of a removed line.
    pub(crate) fn old_number(&self, file: &usize, line: &u32) -> LineNumber<'_> {
        self.number(file, &DiffSide::Old, line)
    }

    /// Returns the number of a line of the new file.
    pub(crate) fn new_number(&self, file: &usize, line: &u32) -> LineNumber<'_> {
        self.number(file, &DiffSide::New, line)
    }

    /// Returns the line that a URL selects, if the diff has it.
    pub(crate) fn key(&self, selected: PageLine) -> Option<LineKey> {
        let file = self.files.get(selected.file.checked_sub(1)?)?;
        let line = u64::from(selected.line);
        index(&file.diff, selected.side, line)?;
        Some(LineKey { path: file.diff.path.clone(), side: selected.side, line })
    }

    /// Adds content below a line of the page, after what is there. Returns false if the page does not have the line.
    pub(crate) fn attach(&mut self, key: &LineKey, content: Fragment) -> bool {
        for file in self.files.iter_mut().filter(|file| file.diff.path == key.path) {
            let is_it = |position: Option<(DiffSide, u32)>| {
                position.is_some_and(|(side, line)| side == key.side && u64::from(line) == key.line)
            };
            let has_it = |positions: [Option<(DiffSide, u32)>; 2]| positions.into_iter().any(is_it);
            let unified = file.unified.iter_mut().find(|row| has_it(row.positions)).map(|row| &mut row.remarks);
            let split = file.split.iter_mut().find(|row| has_it(row.positions)).map(|row| &mut row.remarks);
            if let Some(remarks) = unified.or(split) {
                remarks.push(content);
                file.has_remarks = true;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::{Appearance, DiffView};
    use crate::highlight::{Budget, Highlighter};

    const DIFF: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ head\n same\n-old\n+new\n end\n\
                        diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
                        \\ No newline at end of file\n";

    fn key(path: &str, side: DiffSide, line: u64) -> LineKey {
        LineKey { path: path.to_owned(), side, line }
    }

    fn shown(view: DiffView) -> DiffShown<'static> {
        let appearance = Appearance { view, hides_whitespace: false };
        DiffShown::new(DIFF, false, appearance, &[], &Highlighter::new(), &mut Budget::without_deadline(100))
    }

    #[test]
    fn the_position_of_a_line_has_the_part_of_the_diff_that_ends_at_it() {
        for (path, side, line, hunk) in [
            ("x", DiffSide::New, 1, Some("@@ -1,3 +1,3 @@ head\n same")),
            ("x", DiffSide::Old, 2, Some("@@ -1,3 +1,3 @@ head\n same\n-old")),
            ("x", DiffSide::New, 2, Some("@@ -1,3 +1,3 @@ head\n same\n-old\n+new")),
            ("gone", DiffSide::Old, 1, Some("@@ -1 +0,0 @@\n-a")),
            ("x", DiffSide::Old, 1, None),
            ("x", DiffSide::New, 9, None),
            ("y", DiffSide::New, 1, None),
        ] {
            let found = position_of(DIFF, key(path, side, line)).map(|position| position.hunk);
            assert_eq!(found.as_deref(), hunk, "{path} {side:?} {line}");
        }
    }

    #[test]
    fn a_hunk_is_not_long() {
        let lines: String = (1..=30).map(|line| format!("+{line} {}\n", "x".repeat(1000))).collect();
        let diff = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,30 @@\n{lines}");
        let position = position_of(&diff, key("x", DiffSide::New, 30)).unwrap();
        assert_eq!(position.hunk.lines().count(), LINES_BEFORE + 2, "{}", position.hunk);
        assert!(position.hunk.lines().all(|line| line.chars().count() <= LINE_CHARS + 1));
    }

    #[test]
    fn a_comment_is_outdated_if_its_line_has_changed() {
        let position = position_of(DIFF, key("x", DiffSide::New, 2)).unwrap();
        assert!(shown(DiffView::Unified).find(&position).is_some());
        let changed = LinePosition { hunk: "@@ -1 +1 @@\n+newer".to_owned(), ..position.clone() };
        let moved = LinePosition { line: 7, ..position };
        assert_eq!([&changed, &moved].map(|position| shown(DiffView::Unified).find(position)), [None, None]);
    }

    #[test]
    fn content_is_attached_below_its_line_in_both_views() {
        let key = key("x", DiffSide::Old, 2);
        for view in [DiffView::Unified, DiffView::Split] {
            let mut shown = shown(view);
            assert!(shown.attach(&key, Fragment::default()));
            assert!(!shown.attach(&LineKey { line: 9, ..key.clone() }, Fragment::default()));
            let file = &shown.files[0];
            let unified: Vec<usize> = file.unified.iter().map(|row| row.remarks.len()).collect();
            let split: Vec<usize> = file.split.iter().map(|row| row.remarks.len()).collect();
            match view {
                DiffView::Unified => assert_eq!((unified, split), (vec![0, 0, 1, 0, 0], vec![])),
                DiffView::Split => assert_eq!((unified, split), (vec![], vec![0, 0, 1, 0])),
            }
            assert!(file.has_remarks && !shown.files[1].has_remarks);
        }
    }

    #[test]
    fn the_query_selects_a_line_of_the_diff() {
        let shown = shown(DiffView::Unified);
        for (query, expected) in [
            ("at=1-n2", Some(key("x", DiffSide::New, 2))),
            ("view=split&at=2-o1", Some(key("gone", DiffSide::Old, 1))),
            ("at=1-n9", None),
            ("at=0-n1", None),
            ("at=3-n1", None),
            ("at=1-x1", None),
            ("at=1-é", None),
            ("at=", None),
            ("", None),
        ] {
            let found = PageLine::of_query(Some(query)).and_then(|selected| shown.key(selected));
            assert_eq!(found, expected, "{query}");
        }
    }
}
