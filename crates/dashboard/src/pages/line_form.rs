//! The form for a comment on a line of a diff.

use askama::Template;
use journeyman_core::position::DiffSide;

use crate::diff::{Appearance, LineKey};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::frame::Frame;

/// The form. Without a line, it is the pattern that a script copies to the line which the reader chooses.
#[derive(Template)]
#[template(path = "_line_form.html")]
pub(super) struct LineForm<'a> {
    pub(super) frame: &'a Frame,
    /// The URL to which it is sent.
    pub(super) action: String,
    pub(super) key: Option<&'a LineKey>,
    /// The appearance of the changes, which the answer to the form keeps.
    pub(super) appearance: Appearance,
    /// The parameter that selects the shown part of the changes.
    pub(super) part: Option<&'a str>,
    pub(super) draft: &'a str,
    pub(super) error: Option<&'a str>,
    /// The explanation of the buttons if the server collects the comments of a review; otherwise the browser does.
    pub(super) review_hint: Option<&'a str>,
}

impl LineForm<'_> {
    /// Returns the description of the line, such as `removed line 7`.
    fn line(&self) -> String {
        self.key.map_or_else(String::new, |LineKey { side, line, .. }| match side {
            DiffSide::Old => format!("removed line {line}"),
            DiffSide::New => format!("line {line}"),
        })
    }

    /// Returns the query of the link that closes the form.
    fn closed(&self) -> String {
        self.appearance.link(self.part)
    }
}

/// Reads the appearance of the changes that a form keeps.
pub(super) fn appearance(fields: &Fields) -> Appearance {
    Appearance::parse(&fields.text("view"), &fields.text("w"))
}

/// Reads the line that a form names.
///
/// # Errors
/// The form names no line.
pub(super) fn key(fields: &Fields) -> Result<LineKey, Failure> {
    // A path may begin or end with spaces.
    let (path, side, line) = (fields.text("path"), fields.text("side"), fields.text("line"));
    key_of(path, &side, line.trim()).ok_or_else(no_line)
}

/// Returns a line by its parts, as a form or a script sends them; `None` if they name no line.
pub(super) fn key_of(path: String, side: &str, line: &str) -> Option<LineKey> {
    let (side, line) = (DiffSide::parse(side.trim())?, line.parse().ok()?);
    (!path.is_empty()).then_some(LineKey { path, side, line })
}

/// Returns the error for a form that names no line.
pub(super) fn no_line() -> Failure {
    Failure::Form("the form names no line; choose the line again".to_owned())
}
