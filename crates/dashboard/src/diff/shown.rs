//! A diff prepared for a page: unified or side by side, highlighted, with changed words. `templates/_diff.html` renders
//! it, for pages that have a field `diff` of the type [`DiffShown`].

use std::borrow::Cow;

use journeyman_core::position::DiffSide;

use super::blocks::{Block, blocks};
use super::pieces::{self, Piece};
use super::tree::{self, Step};
use super::{Appearance, Change, DiffView, FileDiff, Gap, Line, LineClass, LineKey, Nav, gaps, parse, whitespace};
use crate::fragment::Fragment;
use crate::highlight::{Budget, Highlighter};
use crate::size::Size;
use crate::words::{counted, in_query};

/// The maximum number of lines of a diff on a page. The markup of a row is many times as long as its line, and browsers
/// cannot handle hundreds of thousands of rows.
pub(super) const SHOWN_LINES: usize = 20_000;

/// The maximum number of files of a diff on a page. The markup of a file without lines has 2 kB.
pub(super) const SHOWN_FILES: usize = 2_000;

/// A complete diff, prepared for a page.
#[derive(Debug)]
pub(crate) struct DiffShown<'a> {
    /// The first [`SHOWN_FILES`] files, in the order of the diff.
    pub(crate) files: Vec<FileShown<'a>>,
    /// The number of files after them.
    pub(crate) files_left_out: usize,
    /// The number of added lines in all files.
    pub(crate) added: usize,
    /// The number of removed lines in all files.
    pub(crate) removed: usize,
    /// True if the diff was truncated.
    pub(crate) cut: bool,
    /// The appearance.
    pub(crate) appearance: Appearance,
    /// True if the numbers of lines are links to a form for a comment.
    pub(crate) takes_comments: bool,
    /// The navigation, with the choice of the part.
    pub(crate) nav: Nav,
    /// The query of links that keep the appearance and the part, for markup; empty or with `&amp;` at its end.
    pub(super) query: String,
}

impl<'a> DiffShown<'a> {
    /// Parses and highlights a diff. Call it within `spawn_blocking`. `cut` means that the diff was truncated. Where
    /// changes of whitespace are hidden, the hunks with the lines in `kept` are shown in any case.
    pub(crate) fn new(
        diff: &'a str,
        cut: bool,
        appearance: Appearance,
        kept: &[LineKey],
        highlighter: &Highlighter,
        budget: &mut Budget,
    ) -> Self {
        let mut files = parse(diff, SHOWN_LINES);
        let added = files.iter().map(|file| file.added).sum();
        let removed = files.iter().map(|file| file.removed).sum();
        let files_left_out = files.len().saturating_sub(SHOWN_FILES);
        files.truncate(SHOWN_FILES);
        let shown = files.into_iter().map(|file| FileShown::new(file, appearance, kept, highlighter, budget));
        let mut files: Vec<FileShown<'a>> = shown.collect();
        // The lines after the cut are not known.
        if let Some(last) = files.last_mut().filter(|_| cut && files_left_out == 0) {
            last.has_only_whitespace = false;
        }
        Self {
            files,
            files_left_out,
            added,
            removed,
            cut,
            appearance,
            takes_comments: false,
            nav: Nav::default(),
            query: String::new(),
        }
        .with_nav(Nav::default())
    }

    /// Returns the size of the whole diff.
    pub(crate) fn size(&self) -> Size {
        Size::of_lines(self.added, self.removed, self.file_count())
    }

    /// Returns the file with this number, from 1.
    pub(crate) fn file_at(&self, number: &usize) -> Option<&FileShown<'a>> {
        self.files.get(number.checked_sub(1)?)
    }

    /// Returns the steps through the tree of the files.
    pub(crate) fn tree(&self) -> Vec<Step> {
        tree::of_paths(self.files.iter().map(|file| file.diff.path.as_str()))
    }

    /// Returns the number of files of the whole diff.
    pub(crate) fn file_count(&self) -> usize {
        self.files.len() + self.files_left_out
    }

    /// Returns the number of files as a text: `1 file`, `2 files`.
    pub(crate) fn files_text(&self) -> String {
        counted(self.file_count(), "file")
    }

    /// Returns true if the sides are in two columns.
    pub(crate) fn is_split(&self) -> bool {
        self.appearance.view == DiffView::Split
    }
}

/// A file of a diff, prepared for a page.
#[derive(Debug)]
pub(crate) struct FileShown<'a> {
    /// The parsed diff of the file, with changes of whitespace.
    pub(crate) diff: FileDiff<'a>,
    /// The rows of one column; empty if there are two.
    pub(crate) unified: Vec<UnifiedRow<'a>>,
    /// The rows of two columns; empty if there is one.
    pub(crate) split: Vec<SplitRow<'a>>,
    /// True if a line has content below it.
    pub(crate) has_remarks: bool,
    /// The hash of the change.
    pub(crate) hash: String,
    /// The lines after the last hunk.
    pub(crate) after: Option<Gap>,
    /// True if there are no rows because only whitespace has changed.
    has_only_whitespace: bool,
}

impl<'a> FileShown<'a> {
    /// Returns the path in an encoding without hidden characters, for scripts.
    pub(crate) fn encoded_path(&self) -> String {
        in_query(&self.diff.path)
    }

    /// Returns the text for a file without rows.
    pub(crate) fn without_lines(&self) -> Option<&'static str> {
        if self.has_only_whitespace {
            return Some("Only whitespace has changed.");
        }
        self.diff.without_lines()
    }

    fn new(
        diff: FileDiff<'a>,
        appearance: Appearance,
        kept: &[LineKey],
        highlighter: &Highlighter,
        budget: &mut Budget,
    ) -> Self {
        let without_whitespace = appearance.hides_whitespace.then(|| whitespace::hidden(&diff, kept));
        let lines = without_whitespace.as_deref().unwrap_or(&diff.lines);
        let pieces = pieces::of_file(&diff, lines, highlighter, budget);
        // A new or deleted file has only one side; the other column would be empty.
        let has_two_sides = !matches!(diff.change, Change::Added | Change::Deleted);
        let (mut unified, mut split) = match appearance.view {
            DiffView::Split if has_two_sides => (Vec::new(), split(lines, pieces)),
            DiffView::Split | DiffView::Unified => (unified(lines, pieces), Vec::new()),
        };
        let (above, after) = gaps::of_file(&diff, lines);
        let has_only_whitespace = lines.is_empty() && !diff.lines.is_empty() && diff.left_out == 0;
        let headers = unified.iter_mut().filter(|row| row.class == LineClass::Hunk).map(|row| &mut row.gap);
        let headers = headers.chain(split.iter_mut().filter(|row| row.hunk.is_some()).map(|row| &mut row.gap));
        for (header, gap) in headers.zip(above) {
            *header = gap;
        }
        let hash = diff.hash();
        Self { diff, unified, split, has_remarks: false, hash, after, has_only_whitespace }
    }
}

/// A row of the unified view.
#[derive(Debug)]
pub(crate) struct UnifiedRow<'a> {
    /// The kind of the line.
    pub(crate) class: LineClass,
    /// The line number in the old file.
    pub(crate) old_no: Option<u32>,
    /// The line number in the new file.
    pub(crate) new_no: Option<u32>,
    /// The text of the line.
    pub(crate) pieces: Vec<Piece<'a>>,
    /// The sides and numbers by which comments name the line.
    pub(crate) positions: [Option<(DiffSide, u32)>; 2],
    /// The content below the line.
    pub(crate) remarks: Vec<Fragment>,
    /// The lines that the diff leaves out above the header of a hunk.
    pub(crate) gap: Option<Gap>,
}

impl UnifiedRow<'_> {
    /// Returns the number of a removed line.
    pub(crate) fn removed_no(&self) -> Option<u32> {
        self.old_no.filter(|_| self.class == LineClass::Removed)
    }

    /// Returns the old number of a line of which only whitespace has changed.
    pub(crate) fn whitespace_only_no(&self) -> Option<u32> {
        self.old_no.filter(|_| self.class == LineClass::WhitespaceOnly)
    }
}

/// A row of the split view: a hunk header across both sides, or a line on one or both sides.
#[derive(Debug)]
pub(crate) struct SplitRow<'a> {
    /// The header of a hunk. If it is present, both sides are `None`.
    pub(crate) hunk: Option<Cow<'a, str>>,
    /// The old and the new side.
    pub(crate) sides: [Option<Cell<'a>>; 2],
    /// The sides and numbers by which comments name the lines.
    pub(crate) positions: [Option<(DiffSide, u32)>; 2],
    /// The content below the lines.
    pub(crate) remarks: Vec<Fragment>,
    /// The lines that the diff leaves out above the header of a hunk.
    pub(crate) gap: Option<Gap>,
}

impl Cell<'_> {
    /// Returns the letter of the side in the ID of the line.
    pub(crate) fn letter(&self) -> char {
        if self.side == Some(DiffSide::Old) { 'L' } else { 'R' }
    }

    /// Returns true if only whitespace has changed in the line.
    pub(crate) fn is_whitespace_only(&self) -> bool {
        self.class == LineClass::WhitespaceOnly
    }
}

impl SplitRow<'_> {
    fn new<'a>(sides: [Option<Cell<'a>>; 2], positions: [Option<(DiffSide, u32)>; 2]) -> SplitRow<'a> {
        SplitRow { hunk: None, sides, positions, remarks: Vec::new(), gap: None }
    }
}

/// A line on one side of the split view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    /// The kind of the line.
    pub(crate) class: LineClass,
    /// The line number in the file of this side.
    pub(crate) no: Option<u32>,
    /// The side by which comments name the line, if it is on this side.
    pub(crate) side: Option<DiffSide>,
    /// The text of the line.
    pub(crate) pieces: Vec<Piece<'a>>,
}

fn unified<'a>(lines: &[Line<'a>], pieces: Vec<Vec<Piece<'a>>>) -> Vec<UnifiedRow<'a>> {
    let rows = lines.iter().zip(pieces);
    rows.map(|(line, pieces)| UnifiedRow {
        class: line.class,
        old_no: line.old_no,
        new_no: line.new_no,
        pieces,
        positions: [line.old_position(), line.position()],
        remarks: Vec::new(),
        gap: None,
    })
    .collect()
}

fn split<'a>(lines: &[Line<'a>], mut pieces: Vec<Vec<Piece<'a>>>) -> Vec<SplitRow<'a>> {
    let mut taken = |at: usize| pieces.get_mut(at).map(std::mem::take).unwrap_or_default();
    let mut rows = Vec::new();
    for block in blocks(lines) {
        match block {
            Block::Same(at) => {
                let Some(line) = lines.get(at) else { continue };
                rows.push(match line.class {
                    // Headers are not highlighted, so a header is a single piece.
                    LineClass::Hunk => {
                        let hunk = taken(at).pop().map(|header| header.text);
                        SplitRow { hunk, ..SplitRow::new([None, None], [None, None]) }
                    }
                    class => {
                        let pieces = taken(at);
                        let old = Cell { class, no: line.old_no, side: None, pieces: pieces.clone() };
                        let side = line.position().map(|(side, _)| side);
                        let new = Cell { class, no: line.new_no, side, pieces };
                        SplitRow::new([Some(old), Some(new)], [line.old_position(), line.position()])
                    }
                });
            }
            Block::Changed { mut removed, mut added } => {
                while !removed.is_empty() || !added.is_empty() {
                    let at = [removed.next(), added.next()];
                    let positions = at.map(|at| lines.get(at?)?.position());
                    let sides = at.map(|at| {
                        let (at, line) = (at?, lines.get(at?)?);
                        let side = line.position().map(|(side, _)| side);
                        Some(Cell { class: line.class, no: line.old_no.or(line.new_no), side, pieces: taken(at) })
                    });
                    rows.push(SplitRow::new(sides, positions));
                }
            }
        }
    }
    rows
}
