//! The parts of a page with a diff that depend on where it is shown: the choice of the changes, and the endpoint for
//! more lines.

use crate::size::Size;

/// The navigation of a diff, which depends on the page that shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nav {
    /// The parameter that selects the shown part of the changes; `None` for all changes.
    pub(crate) part: Option<String>,
    /// The parts of the changes, if there are several.
    pub(crate) choices: Vec<Choice>,
    /// The URL that returns lines around a hunk, with the query so far; `None` if there is none.
    pub(crate) more: Option<String>,
    /// The key with which the browser remembers the viewed files.
    pub(crate) key: String,
    /// The URL to which the comments that the browser has collected are sent; `None` if the server collects them.
    pub(crate) send: Option<String>,
    /// The reason why lines cannot have comments here, if they can elsewhere.
    pub(crate) note: Option<&'static str>,
}

/// A part of the changes that the reader can choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The parameter in the URL; `None` for all changes.
    pub(crate) query: Option<String>,
    /// The label, such as `Message 2`.
    pub(crate) label: String,
    /// The size of the part, if it is known.
    pub(crate) size: Option<Size>,
    /// True if the page shows this part.
    pub(crate) is_current: bool,
}
