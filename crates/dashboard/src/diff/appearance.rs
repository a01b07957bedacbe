//! The choices of a reader for the appearance of a diff, which are parameters of the page's URL.

/// The layout of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DiffView {
    /// Both sides in one column.
    #[default]
    Unified,
    /// The sides in two columns. New and deleted files have one.
    Split,
}

impl DiffView {
    /// Parses the value of the parameter `view`. Unknown values select the unified view.
    pub(crate) fn parse(value: &str) -> Self {
        if value == "split" { Self::Split } else { Self::Unified }
    }

    /// Returns the value of the parameter `view`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::Split => "split",
        }
    }
}

/// The appearance of a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Appearance {
    /// The layout; the parameter `view`.
    pub(crate) view: DiffView,
    /// True if changes of whitespace are hidden; the parameter `w`.
    pub(crate) hides_whitespace: bool,
}

impl Appearance {
    /// Returns the appearance for the values of the parameters `view` and `w`.
    pub(crate) fn parse(view: &str, whitespace: &str) -> Self {
        Self { view: DiffView::parse(view), hides_whitespace: whitespace == "1" }
    }

    /// Parses the parameters in the query of a URL. The last occurrence of each counts.
    pub(crate) fn of_query(query: Option<&str>) -> Self {
        let value = |name: &str| query.unwrap_or_default().rsplit('&').find_map(|pair| pair.strip_prefix(name));
        Self::parse(value("view=").unwrap_or_default(), value("w=").unwrap_or_default())
    }

    /// Returns the parameters that differ from the default, each with `&` at its end.
    pub(crate) fn query(self) -> String {
        let view = if self.view == DiffView::Split { "view=split&" } else { "" };
        format!("{view}{}", if self.hides_whitespace { "w=1&" } else { "" })
    }

    /// Returns the link to a part of the changes with this appearance.
    pub(crate) fn link(self, part: Option<&str>) -> String {
        let whitespace = if self.hides_whitespace { "&w=1" } else { "" };
        let part = part.map(|part| format!("&{part}")).unwrap_or_default();
        format!("?view={}{whitespace}{part}", self.view.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_appearance_is_read_from_the_query() {
        for (query, view, hides_whitespace) in [
            (None, DiffView::Unified, false),
            (Some(""), DiffView::Unified, false),
            (Some("view=split"), DiffView::Split, false),
            (Some("a=b&view=split&c"), DiffView::Split, false),
            (Some("view=split&view=unified"), DiffView::Unified, false),
            (Some("view=unified"), DiffView::Unified, false),
            (Some("view=%73plit"), DiffView::Unified, false),
            (Some("preview=split"), DiffView::Unified, false),
            (Some("view"), DiffView::Unified, false),
            (Some("w=1"), DiffView::Unified, true),
            (Some("view=split&w=1&message=2"), DiffView::Split, true),
            (Some("w=1&w=0"), DiffView::Unified, false),
            (Some("w=true"), DiffView::Unified, false),
            (Some("now=1"), DiffView::Unified, false),
            (Some("w"), DiffView::Unified, false),
        ] {
            assert_eq!(Appearance::of_query(query), Appearance { view, hides_whitespace }, "{query:?}");
        }
    }

    #[test]
    fn queries_and_links_keep_the_appearance() {
        for (view, hides_whitespace, query, link) in [
            (DiffView::Unified, false, "", "?view=unified&message=1"),
            (DiffView::Split, false, "view=split&", "?view=split&message=1"),
            (DiffView::Unified, true, "w=1&", "?view=unified&w=1&message=1"),
            (DiffView::Split, true, "view=split&w=1&", "?view=split&w=1&message=1"),
        ] {
            let appearance = Appearance { view, hides_whitespace };
            assert_eq!((&*appearance.query(), &*appearance.link(Some("message=1"))), (query, link));
            assert_eq!(Appearance::of_query(Some(query)), appearance, "{query}");
        }
        assert_eq!(Appearance::default().link(None), "?view=unified");
    }
}
