//! The links of a page with a diff, which keep its appearance and its part.

use super::nav::{Choice, Nav};
use super::shown::FileShown;
use super::{Appearance, DiffShown, DiffView};
use crate::words::in_query;

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
