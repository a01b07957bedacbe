//! A diff as a page shows it: in one column or in two, coloured, with the words that differ. `templates/_diff.html` is
//! its markup; a page that has a field `diff` of this type includes it.

use std::borrow::Cow;

use super::blocks::{Block, blocks};
use super::pieces::{self, Piece};
use super::{FileDiff, Line, LineClass, parse};
use crate::highlight::{Budget, Highlighter};
use crate::words::counted;

/// How many lines of a diff are on a page. A row of the table is many times as long as its line, and a browser with
/// hundreds of thousands of rows is of no use to anyone.
const SHOWN_LINES: usize = 20_000;

/// How the sides of a diff are arranged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DiffView {
    /// One below the other.
    #[default]
    Unified,
    /// Side by side.
    Split,
}

impl DiffView {
    /// Reads the value of the parameter `view`; what is not known is the usual view.
    pub(crate) fn parse(value: &str) -> Self {
        if value == "split" { Self::Split } else { Self::Unified }
    }

    /// Reads it out of the query of an address, where the last one counts.
    pub(crate) fn of_query(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().rsplit('&');
        let mut values = pairs.filter_map(|pair| pair.strip_prefix("view="));
        values.next().map(Self::parse).unwrap_or_default()
    }
}

/// A whole diff.
#[derive(Debug)]
pub(crate) struct DiffShown<'a> {
    /// Its files, in their order.
    pub(crate) files: Vec<FileShown<'a>>,
    /// How many lines were added in all of them.
    pub(crate) added: usize,
    /// How many were removed.
    pub(crate) removed: usize,
    /// Whether it ends before its end.
    pub(crate) cut: bool,
    /// How it is arranged.
    pub(crate) view: DiffView,
}

impl<'a> DiffShown<'a> {
    /// Takes a diff apart and colours it, which is work for `spawn_blocking`. `cut` says that there was more of it.
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

    /// `1 file`, `2 files`.
    pub(crate) fn files_text(&self) -> String {
        counted(self.files.len(), "file")
    }

    /// Whether it is side by side.
    pub(crate) fn is_split(&self) -> bool {
        self.view == DiffView::Split
    }
}

/// One file of a diff.
#[derive(Debug)]
pub(crate) struct FileShown<'a> {
    /// What the diff says of it.
    pub(crate) diff: FileDiff<'a>,
    /// Its rows in one column; none in the other view.
    pub(crate) unified: Vec<UnifiedRow<'a>>,
    /// Its rows in two columns; none in the other view.
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

/// A line in one column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnifiedRow<'a> {
    /// What it is.
    pub(crate) class: LineClass,
    /// Its number in the old file.
    pub(crate) old_no: Option<u32>,
    /// Its number in the new file.
    pub(crate) new_no: Option<u32>,
    /// Its text.
    pub(crate) pieces: Vec<Piece<'a>>,
}

/// A row of two columns: a header over both, or a line on one side or on both.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SplitRow<'a> {
    /// The header of a hunk; then there are no sides.
    pub(crate) hunk: Option<Cow<'a, str>>,
    /// The old side and the new.
    pub(crate) sides: [Option<Cell<'a>>; 2],
}

/// A line on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    /// What it is.
    pub(crate) class: LineClass,
    /// Its number in the file of this side.
    pub(crate) no: Option<u32>,
    /// Its text.
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
                    // A header is not coloured, so it is one piece.
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
