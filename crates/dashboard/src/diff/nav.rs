//! The parts of a page with a diff that depend on where it is shown: the choice of the changes, and the endpoint for
//! more lines.

use super::shown::FileShown;
use super::{Appearance, DiffShown, DiffView};
use crate::size::Size;
use crate::words::in_query;

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

impl DiffShown<'_> {
    /// Sets the navigation of the diff.
    pub(crate) fn with_nav(mut self, nav: Nav) -> Self {
        let part = nav.part.as_deref().map(|part| format!("{part}&")).unwrap_or_default();
        self.query = format!("{}{part}", self.appearance.query()).replace('&', "&amp;");
        self.nav = nav;
        self
    }

    /// Returns the link to the same changes in another view.
    pub(crate) fn view_link(&self, view: &str) -> String {
        let appearance = Appearance { view: DiffView::parse(view), ..self.appearance };
        appearance.link(self.nav.part.as_deref())
    }

    /// Returns the link to the same changes with hidden changes of whitespace, or with shown ones if they are hidden.
    pub(crate) fn whitespace_link(&self) -> String {
        let appearance = Appearance { hides_whitespace: !self.appearance.hides_whitespace, ..self.appearance };
        appearance.link(self.nav.part.as_deref())
    }

    /// Returns the link to a part of the changes with the same appearance.
    pub(crate) fn part_link(&self, choice: &Choice) -> String {
        self.appearance.link(choice.query.as_deref())
    }

    /// Returns the URL of the endpoint that returns lines of a file around its hunks.
    pub(crate) fn more(&self, file: &FileShown<'_>) -> Option<String> {
        let more = self.nav.more.as_ref()?;
        Some(format!("{more}&view={}&path={}", self.appearance.view.name(), in_query(&file.diff.path)))
    }
}
