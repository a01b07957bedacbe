//! What came of a tool call.
//!
//! Invariant: a diff is shown only if both texts are known and small; otherwise there is none, rather than a part of one.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::PlanEntry;

/// The largest text in bytes that is shown to the client as a diff; larger changes are told without their text.
pub(crate) const MAX_DIFF_BYTES: usize = 256 * 1024;

/// What the text of a failed call begins with, so that a stored conversation still tells which calls failed.
const FAILURE_PREFIX: &str = "Error: ";

/// A file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDiff {
    /// The file, absolute.
    pub(crate) path: PathBuf,
    /// Its text before, `None` if it is new.
    pub(crate) old_text: Option<String>,
    /// Its text after.
    pub(crate) new_text: String,
}

/// What came of a call.
#[derive(Debug, Default)]
pub(crate) struct ToolOutput {
    /// What the model is told.
    pub(crate) text: String,
    /// Whether the call failed.
    pub(crate) failed: bool,
    /// What was changed, if it is small enough to be shown.
    pub(crate) diff: Option<FileDiff>,
    /// The new plan, if the call set one.
    pub(crate) plan: Option<Vec<PlanEntry>>,
}

impl ToolOutput {
    /// A success with a text.
    pub(crate) fn text(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// A failure with its reason.
    pub(crate) fn failure(reason: &str) -> Self {
        Self { text: format!("{FAILURE_PREFIX}{reason}"), failed: true, ..Self::default() }
    }

    /// Whether a text was made by [`ToolOutput::failure`].
    pub(crate) fn is_failure_text(text: &str) -> bool {
        text.starts_with(FAILURE_PREFIX)
    }
}

/// The success of a change, with the diff if both texts are known and small.
pub(crate) fn changed(text: String, path: &Path, old: OldText, new_text: &str) -> ToolOutput {
    let old_text = match old {
        OldText::NewFile => Some(None),
        OldText::Known(old) if old.len() <= MAX_DIFF_BYTES => Some(Some(old)),
        OldText::Known(_) | OldText::Unknown => None,
    };
    let diff = old_text.filter(|_| new_text.len() <= MAX_DIFF_BYTES).map(|old_text| FileDiff {
        path: path.to_path_buf(),
        old_text,
        new_text: new_text.to_owned(),
    });
    ToolOutput { text, diff, ..ToolOutput::default() }
}

/// What is known of a file before a change.
pub(crate) enum OldText {
    /// There was none.
    NewFile,
    /// Its text.
    Known(String),
    /// It is too large to be read or not a text.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_unreadable_files_are_changed_without_a_diff() {
        let path = Path::new("/w/a");
        let large = "x".repeat(MAX_DIFF_BYTES + 1);
        let diff = |old, new: &str| changed(String::new(), path, old, new).diff;
        assert!(diff(OldText::NewFile, "a").is_some_and(|diff| diff.old_text.is_none()));
        assert!(diff(OldText::Known("b".to_owned()), "a").is_some_and(|diff| diff.old_text.is_some()));
        assert_eq!(diff(OldText::Unknown, "a"), None);
        assert_eq!(diff(OldText::Known(large.clone()), "a"), None);
        assert_eq!(diff(OldText::NewFile, &large), None);
    }
}
