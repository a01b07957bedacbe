//! A diff as git writes it, taken apart for display.
//!
//! Invariant: within a hunk, what a line is follows from the counts in the hunk's header. A removed line `-- a/x` looks
//! like the header of a file and is not one.

mod blocks;
mod names;
mod parse;
mod pieces;
mod shown;
#[cfg(test)]
mod tests;
mod words;

use std::borrow::Cow;

use self::parse::parse;
pub(crate) use self::shown::{DiffShown, DiffView};

use crate::visible;

/// A file with more changed lines than this is folded at first.
const FOLDED_OVER: usize = 500;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It was there before and is still.
    Modified,
    /// It was elsewhere.
    Renamed,
    /// It was made of another that is still there.
    Copied,
}

impl Change {
    /// A word for the file's head; none for the usual case.
    pub(crate) const fn label(self) -> Option<&'static str> {
        match self {
            Self::Added => Some("added"),
            Self::Deleted => Some("deleted"),
            Self::Modified => None,
            Self::Renamed => Some("renamed"),
            Self::Copied => Some("copied"),
        }
    }
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineClass {
    /// The header of a hunk.
    Hunk,
    /// Unchanged.
    Context,
    /// Only in the new file.
    Added,
    /// Only in the old file.
    Removed,
    /// A remark of git's, such as that there is no newline at the end.
    Note,
}

impl LineClass {
    /// The class in the stylesheet.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hunk => "hunk",
            Self::Context => "same",
            Self::Added => "add",
            Self::Removed => "del",
            Self::Note => "note",
        }
    }

    /// What stands before the line.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Added => "+",
            Self::Removed => "-",
            Self::Hunk | Self::Context | Self::Note => "",
        }
    }
}

/// One line of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// What it is.
    pub(crate) class: LineClass,
    /// Its number in the old file.
    pub(crate) old_no: Option<u32>,
    /// Its number in the new file.
    pub(crate) new_no: Option<u32>,
    /// Without the sign before it and the newline after it.
    pub(crate) text: &'a str,
}

impl<'a> Line<'a> {
    /// The text without the carriage return at the end of a line of Windows, unless that may be what was changed.
    pub(crate) fn content(&self) -> &'a str {
        match self.class {
            LineClass::Added | LineClass::Removed => self.text,
            LineClass::Hunk | LineClass::Context | LineClass::Note => self.text.strip_suffix('\r').unwrap_or(self.text),
        }
    }
}

/// What a diff says of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDiff<'a> {
    /// Where it is, or was if it is gone.
    pub(crate) path: String,
    /// Where it was, if elsewhere.
    pub(crate) old_path: Option<String>,
    /// What happened to it.
    pub(crate) change: Change,
    /// Its mode before, if that changed.
    pub(crate) old_mode: Option<&'a str>,
    /// Its mode after, if that changed.
    pub(crate) new_mode: Option<&'a str>,
    /// How many lines were added.
    pub(crate) added: usize,
    /// How many were removed.
    pub(crate) removed: usize,
    /// Whether it is not text.
    pub(crate) binary: bool,
    /// Its lines, hunks one after the other.
    pub(crate) lines: Vec<Line<'a>>,
    /// How many further lines there was no room for.
    pub(crate) left_out: usize,
}

impl FileDiff<'_> {
    /// The path as a page shows it.
    pub(crate) fn shown_path(&self) -> Cow<'_, str> {
        visible::line(&self.path)
    }

    /// The former path as a page shows it.
    pub(crate) fn shown_old_path(&self) -> Option<Cow<'_, str>> {
        self.old_path.as_deref().map(visible::line)
    }

    /// The change of its mode as a page shows it: `100644 → 100755`.
    pub(crate) fn shown_modes(&self) -> Option<String> {
        let modes = format!("{} → {}", self.old_mode?, self.new_mode?);
        Some(visible::line(&modes).into_owned())
    }

    /// Whether it is shown at first.
    pub(crate) fn unfolded(&self) -> bool {
        self.added + self.removed <= FOLDED_OVER
    }

    /// What to say where there are no lines.
    pub(crate) fn without_lines(&self) -> Option<&'static str> {
        if self.binary {
            return Some("Binary file, not shown.");
        }
        if !self.lines.is_empty() || self.left_out > 0 {
            return None;
        }
        Some(match self.change {
            Change::Added | Change::Deleted => "The file is empty.",
            Change::Modified | Change::Renamed | Change::Copied => "The content is the same.",
        })
    }
}
