//! Markdown of agents as markup.
//!
//! Invariant: a [`Markup`] is what [`ammonia`] let through, with the rules in [`mod@clean`]; no other text becomes one.
//! What [`write`](mod@write) hands it is harmless already (it writes each tag itself, and escapes all text), so that
//! either of them may be wrong alone.

mod clean;
mod depth;
mod link;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

use askama::filters::HtmlSafe;

use crate::highlight::{Budget, Highlighter};
use crate::visible;

/// Longer text is shown as it is.
const LONGEST_TEXT: usize = 256 * 1024;

/// Markup that may be written into a page as it is. Made in this module alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Markup(String);

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Markup {}

/// The only text on a page; see [`html_within`].
#[cfg(test)]
pub(crate) fn html(text: &str, highlighter: &Highlighter) -> Markup {
    html_within(text, highlighter, &mut Budget::page())
}

/// Renders one of several texts on a page, which share what may be coloured. It is work for `spawn_blocking`.
///
/// Raw HTML is text, an image is a link to it, and hidden characters are visible. Text that is too long, or nested so
/// deep that it was made to be, is shown as it is.
pub(crate) fn html_within(text: &str, highlighter: &Highlighter, budget: &mut Budget) -> Markup {
    let text = visible::lines(text);
    let written = if text.len() > LONGEST_TEXT || depth::is_too_deep(&text) {
        None
    } else {
        write::written(&text, highlighter, budget)
    };
    Markup(clean::clean(&written.unwrap_or_else(|| write::as_it_is(&text))))
}
