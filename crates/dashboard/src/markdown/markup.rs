//! Sanitized HTML.

use std::fmt;

use askama::filters::HtmlSafe;

/// Sanitized HTML that can be inserted into a page. Only this module creates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Markup(pub(super) String);

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Markup {}
