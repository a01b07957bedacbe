//! Conversion of Markdown to HTML: the texts of agents, and the [articles](article()) of the documentation.
//!
//! Invariant: a [`Markup`] is output of [`ammonia`] with the rules in [`mod@clean`]; no other text becomes one. The
//! input of `ammonia` is already safe, because [`write`](mod@write) writes each tag itself and escapes all text. So a
//! bug in one of the two alone does no harm.

mod article;
mod clean;
mod depth;
mod link;
mod markup;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use self::article::{Section, article};
pub(crate) use self::markup::Markup;
use crate::highlight::{Budget, Highlighter};
use crate::visible;

/// The size in bytes above which a text is shown without formatting.
const LONGEST_TEXT: usize = 256 * 1024;

/// Renders the only text of a page; see [`html_within`].
#[cfg(test)]
pub(crate) fn html(text: &str, highlighter: &Highlighter) -> Markup {
    html_within(text, highlighter, &mut Budget::page())
}

/// Renders one of several texts on a page, which share one highlighting budget. Call it within `spawn_blocking`.
///
/// Raw HTML is shown as text, images become links, and hidden characters become visible. A text that is too long, or
/// nested deeper than people write, is shown without formatting.
pub(crate) fn html_within(text: &str, highlighter: &Highlighter, budget: &mut Budget) -> Markup {
    let text = visible::lines(text);
    let rendered = if text.len() > LONGEST_TEXT || depth::is_too_deep(&text) {
        None
    } else {
        write::render(write::parse(&text), false, highlighter, budget)
    };
    Markup(clean::clean(&rendered.unwrap_or_else(|| write::preformatted(&text))))
}

/// Renders code as highlighted lines, without the element around it. `language` is its name in Markdown.
pub(crate) fn code(language: &str, text: &str, highlighter: &Highlighter, budget: &mut Budget) -> Markup {
    Markup(clean::clean(&write::highlighted(language, text, highlighter, budget)))
}
