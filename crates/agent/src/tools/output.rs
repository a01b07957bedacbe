//! The results of tool calls.
//!
//! Invariant: a diff is shown only if both texts are known and small; otherwise it is omitted, never truncated.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::PlanEntry;

/// The size of the largest text that is shown as a diff, in bytes; the diff of a larger change is omitted.
pub(crate) const MAX_DIFF_BYTES: usize = 256 * 1024;

/// The start of the text of a failed call, so that a stored conversation shows which calls failed.
const FAILURE_PREFIX: &str = "Error: ";

/// A file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDiff {
    /// The file, absolute.
    pub(crate) path: PathBuf,
    /// The text before the change; `None` if the file is new.
    pub(crate) old_text: Option<String>,
    /// The text after the change.
    pub(crate) new_text: String,
}

/// The result of a call.
#[derive(Debug, Default)]
pub(crate) struct ToolOutput {
    /// The text for the model.
    pub(crate) text: String,
    /// Set if the call failed.
    pub(crate) failed: bool,
    /// The changed file, if the change is small enough to be shown.
    pub(crate) diff: Option<FileDiff>,
    /// The new plan, if the call set one.
    pub(crate) plan: Option<Vec<PlanEntry>>,
}

impl ToolOutput {
    /// Creates a successful result with a text.
    pub(crate) fn text(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// Creates a failed result with its reason.
    pub(crate) fn failure(reason: &str) -> Self {
        Self { text: format!("{FAILURE_PREFIX}{reason}"), failed: true, ..Self::default() }
    }

    /// Returns whether a text begins like those of [`ToolOutput::failure`].
    pub(crate) fn is_failure_text(text: &str) -> bool {
        text.starts_with(FAILURE_PREFIX)
    }
}

/// Creates the result of a change, with the diff if both texts are known and small.
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

/// The text of a file before a change, as far as it is known.
pub(crate) enum OldText {
    /// The file did not exist.
    NewFile,
    /// The text of the file.
    Known(String),
    /// The file is too large to be read, or it is not text.
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
