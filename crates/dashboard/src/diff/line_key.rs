//! The name of a line of a diff in forms and links.

use journeyman_core::position::DiffSide;
use journeyman_core::pull::LinePosition;

/// A line of a diff, as a form or a link names it. Context lines are on the new side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineKey {
    /// The path of the file; the former path if the file was deleted.
    pub(crate) path: String,
    /// The side.
    pub(crate) side: DiffSide,
    /// The number in the file of this side.
    pub(crate) line: u64,
}

impl LineKey {
    /// Returns the line of a comment.
    pub(crate) fn of(position: &LinePosition) -> Self {
        Self { path: position.path.clone(), side: position.side, line: position.line }
    }
}
