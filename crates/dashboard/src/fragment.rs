//! Pieces of pages that are rendered separately.

use std::fmt;

use askama::Template;
use askama::filters::HtmlSafe;

/// The output of a template. There is no other way to create a fragment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fragment(String);

impl Fragment {
    /// Renders a template.
    pub(crate) fn of(template: &impl Template) -> askama::Result<Self> {
        template.render().map(Self)
    }

    /// Returns the size in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Fragment {}
