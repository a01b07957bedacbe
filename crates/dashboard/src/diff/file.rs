//! The diff of a file, and its lines.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::size::Size;
use crate::visible;

/// The number of changed lines above which a file is initially collapsed.
const FOLDED_OVER: usize = 500;

/// The kind of change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The file is new.
    Added,
    /// The file was deleted.
    Deleted,
    /// The file exists on both sides at the same path.
    Modified,
    /// The file had another path.
    Renamed,
    /// The file is a copy of another file, which still exists.
    Copied,
}

impl Change {
    /// Returns the label in the file's header; `None` for a modified file.
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

/// The kind of a line in a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineClass {
    /// The header of a hunk.
    Hunk,
    /// An unchanged line.
    Context,
    /// A line of which only whitespace has changed, where such changes are hidden.
    WhitespaceOnly,
    /// A line that is only in the new file.
    Added,
    /// A line that is only in the old file.
    Removed,
    /// A note by git, such as that there is no newline at the end of the file.
    Note,
}

impl LineClass {
    /// Returns the class in the stylesheet.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hunk => "hunk",
            Self::Context | Self::WhitespaceOnly => "same",
            Self::Added => "add",
            Self::Removed => "del",
            Self::Note => "note",
        }
    }

    /// Returns the sign before the line.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Added => "+",
            Self::Removed => "-",
            Self::Hunk | Self::Context | Self::WhitespaceOnly | Self::Note => "",
        }
    }
}

/// A line of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The kind of the line.
    pub(crate) class: LineClass,
    /// The line number in the old file.
    pub(crate) old_no: Option<u32>,
    /// The line number in the new file.
    pub(crate) new_no: Option<u32>,
    /// The text without the leading sign and the trailing newline.
    pub(crate) text: &'a str,
}

impl<'a> Line<'a> {
    /// Returns the text without a trailing carriage return. Changed lines keep it, because it may be the change.
    pub(crate) fn content(&self) -> &'a str {
        match self.class {
            LineClass::Added | LineClass::Removed => self.text,
            LineClass::Hunk | LineClass::Context | LineClass::WhitespaceOnly | LineClass::Note => {
                self.text.strip_suffix('\r').unwrap_or(self.text)
            }
        }
    }
}

/// The diff of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDiff<'a> {
    /// The path of the file; the former path if the file was deleted.
    pub(crate) path: String,
    /// The former path of a renamed file, or the source of a copy.
    pub(crate) old_path: Option<String>,
    /// The kind of change.
    pub(crate) change: Change,
    /// The old mode, if the mode changed.
    pub(crate) old_mode: Option<&'a str>,
    /// The new mode, if the mode changed.
    pub(crate) new_mode: Option<&'a str>,
    /// The number of added lines.
    pub(crate) added: usize,
    /// The number of removed lines.
    pub(crate) removed: usize,
    /// True for a binary file.
    pub(crate) binary: bool,
    /// The line with the blobs of both sides.
    pub(crate) blobs: &'a str,
    /// The lines of all hunks, including the hunk headers.
    pub(crate) lines: Vec<Line<'a>>,
    /// The number of lines that were left out because the diff has too many.
    pub(crate) left_out: usize,
}

impl FileDiff<'_> {
    /// Returns the path with hidden characters made visible.
    pub(crate) fn shown_path(&self) -> Cow<'_, str> {
        visible::line(&self.path)
    }

    /// Returns the former path with hidden characters made visible.
    pub(crate) fn shown_old_path(&self) -> Option<Cow<'_, str>> {
        self.old_path.as_deref().map(visible::line)
    }

    /// Returns the change of the mode, such as `100644 → 100755`.
    pub(crate) fn shown_modes(&self) -> Option<String> {
        let modes = format!("{} → {}", self.old_mode?, self.new_mode?);
        Some(visible::line(&modes).into_owned())
    }

    /// Returns the number of added and removed lines.
    pub(crate) fn size(&self) -> Size {
        Size::of_lines(self.added, self.removed, 1)
    }

    /// Returns the name of the icon for the kind of change.
    pub(crate) const fn icon(&self) -> &'static str {
        match self.change {
            Change::Added => "plus",
            Change::Deleted => "cross",
            Change::Modified | Change::Renamed | Change::Copied => "file",
        }
    }

    /// Returns the folder of the path, with its slash, and the name.
    pub(crate) fn shown_parts(&self) -> (String, String) {
        let path = self.shown_path();
        let (folder, name) = path.split_at(path.rfind('/').map_or(0, |at| at + 1));
        (folder.to_owned(), name.to_owned())
    }

    /// Returns a hash of the change, which tells whether a reader has seen this version of the file.
    pub(crate) fn hash(&self) -> String {
        let mut hash = Sha256::new();
        let blobs = if self.lines.is_empty() { self.blobs } else { "" };
        for text in [self.path.as_str(), self.old_path.as_deref().unwrap_or_default(), blobs] {
            hash.update(text);
            hash.update([0_u8]);
        }
        for line in self.lines.iter().filter(|line| line.class != LineClass::Hunk) {
            hash.update(line.class.sign());
            hash.update(line.text);
            hash.update([0_u8]);
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns true if the file is initially expanded.
    pub(crate) fn unfolded(&self) -> bool {
        self.added + self.removed <= FOLDED_OVER
    }

    /// Returns the text for a file without lines.
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
