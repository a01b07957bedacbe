//! A diff prepared for a page: unified or side by side, highlighted, with changed words. `templates/_diff.html` renders
//! it, for pages that have a field `diff` of the type [`DiffShown`].

use std::borrow::Cow;

use super::blocks::{Block, blocks};
use super::pieces::{self, Piece};
use super::{FileDiff, Line, LineClass, parse};
use crate::highlight::{Budget, Highlighter};
use crate::words::counted;

/// The maximum number of lines of a diff on a page. The markup of a row is many times as long as its line, and browsers
/// cannot handle hundreds of thousands of rows.
const SHOWN_LINES: usize = 20_000;

/// The layout of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DiffView {
    /// Both sides in one column.
    #[default]
    Unified,
    /// The sides in two columns.
    Split,
}

impl DiffView {
    /// Parses the value of the parameter `view`. Unknown values select the unified view.
    pub(crate) fn parse(value: &str) -> Self {
        if value == "split" { Self::Split } else { Self::Unified }
    }

    /// Parses the parameter `view` in the query of a URL. The last occurrence counts.
    pub(crate) fn of_query(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().rsplit('&');
        let mut values = pairs.filter_map(|pair| pair.strip_prefix("view="));
        values.next().map(Self::parse).unwrap_or_default()
    }
}

/// A complete diff, prepared for a page.
#[derive(Debug)]
pub(crate) struct DiffShown<'a> {
    /// The files, in the order of the diff.
    pub(crate) files: Vec<FileShown<'a>>,
    /// The number of added lines in all files.
    pub(crate) added: usize,
    /// The number of removed lines in all files.
    pub(crate) removed: usize,
    /// True if the diff was truncated.
    pub(crate) cut: bool,
    /// The layout.
    pub(crate) view: DiffView,
}

impl<'a> DiffShown<'a> {
    /// Parses and highlights a diff. Call it within `spawn_blocking`. `cut` means that the diff was truncated.
    pub(crate) fn new(
        diff: &'a str,
        cut: bool,
        view: DiffView,
        highlighter: &Highlighter,
        budget: &mut Budget,
    ) -> Self {
        let files = parse(diff, SHOWN_LINES);
        Self {
            added: files.iter().map(|file| file.added).sum(),
            removed: files.iter().map(|file| file.removed).sum(),
            files: files.into_iter().map(|file| FileShown::new(file, view, highlighter, budget)).collect(),
            cut,
            view,
        }
    }

    /// Returns the number of files as a text: `1 file`, `2 files`.
    pub(crate) fn files_text(&self) -> String {
        counted(self.files.len(), "file")
    }

    /// Returns true if the sides are in two columns.
    pub(crate) fn is_split(&self) -> bool {
        self.view == DiffView::Split
    }
}

/// A file of a diff, prepared for a page.
#[derive(Debug)]
pub(crate) struct FileShown<'a> {
    /// The parsed diff of the file.
    pub(crate) diff: FileDiff<'a>,
    /// The rows of the unified view; empty in the other view.
    pub(crate) unified: Vec<UnifiedRow<'a>>,
    /// The rows of the split view; empty in the other view.
    pub(crate) split: Vec<SplitRow<'a>>,
}

impl<'a> FileShown<'a> {
    fn new(diff: FileDiff<'a>, view: DiffView, highlighter: &Highlighter, budget: &mut Budget) -> Self {
        let pieces = pieces::of_file(&diff, highlighter, budget);
        let (unified, split) = match view {
            DiffView::Unified => (unified(&diff.lines, pieces), Vec::new()),
            DiffView::Split => (Vec::new(), split(&diff.lines, pieces)),
        };
        Self { diff, unified, split }
    }
}

/// A row of the unified view.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnifiedRow<'a> {
    /// The kind of the line.
    pub(crate) class: LineClass,
    /// The line number in the old file.
    pub(crate) old_no: Option<u32>,
    /// The line number in the new file.
    pub(crate) new_no: Option<u32>,
    /// The text of the line.
    pub(crate) pieces: Vec<Piece<'a>>,
}

/// A row of the split view: a hunk header across both sides, or a line on one or both sides.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SplitRow<'a> {
    /// The header of a hunk. If it is present, both sides are `None`.
    pub(crate) hunk: Option<Cow<'a, str>>,
    /// The old and the new side.
    pub(crate) sides: [Option<Cell<'a>>; 2],
}

/// A line on one side of the split view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    /// The kind of the line.
    pub(crate) class: LineClass,
    /// The line number in the file of this side.
    pub(crate) no: Option<u32>,
    /// The text of the line.
    pub(crate) pieces: Vec<Piece<'a>>,
}

fn unified<'a>(lines: &[Line<'a>], pieces: Vec<Vec<Piece<'a>>>) -> Vec<UnifiedRow<'a>> {
    let rows = lines.iter().zip(pieces);
    rows.map(|(line, pieces)| UnifiedRow { class: line.class, old_no: line.old_no, new_no: line.new_no, pieces })
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
                        SplitRow { hunk: taken(at).pop().map(|header| header.text), sides: [None, None] }
                    }
                    class => {
                        let pieces = taken(at);
                        let old = Cell { class, no: line.old_no, pieces: pieces.clone() };
                        let new = Cell { class, no: line.new_no, pieces };
                        SplitRow { hunk: None, sides: [Some(old), Some(new)] }
                    }
                });
            }
            Block::Changed { mut removed, mut added } => {
                while !removed.is_empty() || !added.is_empty() {
                    let mut cell = |at: usize| {
                        let line = lines.get(at)?;
                        Some(Cell { class: line.class, no: line.old_no.or(line.new_no), pieces: taken(at) })
                    };
                    let sides = [removed.next().and_then(&mut cell), added.next().and_then(&mut cell)];
                    rows.push(SplitRow { hunk: None, sides });
                }
            }
        }
    }
    rows
}
