//! Writes text that others wrote for readers outside of the service: code hosts, Slack, Teams and Discord.
//!
//! What an agent, a repository or a prompt wrote must not act where it is shown: notify people, start other bots, close
//! issues, run commands of a host, load resources from servers, or hide something from the reader. So the text is parsed
//! as Markdown, and only what is on a list is written again: paragraphs, emphasis, code, lists, quotes, headings,
//! tables, thematic breaks, and http(s) links with a visible address. All else is written as visible text. Nothing is
//! dropped.
//!
//! - [`gfm`] and the functions that begin with `gfm_` write Markdown of code hosts.
//! - [`title`] writes titles of pull requests and subjects of commits, which are no Markdown.
//! - [`slack`] and [`slack_line`] write the notation of Slack, [`discord_line`] that of Discord.
//! - [`plain_line`] writes text that nothing interprets.
//!
//! Links and markers that the service writes itself do not pass through here.

mod active;
mod cut;
mod gfm;
mod hidden;
mod line;
mod slack;
mod split;
#[cfg(test)]
mod tests;
mod tree;

pub use cut::cut;
pub use line::{discord_line, gfm_code, gfm_line, gfm_link_text, plain_line, slack_code, slack_line, title};

use tree::Source;

/// Returns the text of an agent or a person as Markdown that has no effects on a code host, with at most `most`
/// characters. A longer text is cut, so that its code and lists still end, and ends with `…`.
#[must_use]
pub fn gfm(markdown: &str, most: usize) -> String {
    fitting(markdown, most, |text| gfm::write(&split::split(tree::parse(text, Source::Author)), Source::Author))
}

/// Returns a template for pull requests from a repository as [`gfm`] does. Its boxes to check remain, and so do its
/// comments, which hosts do not show.
#[must_use]
pub fn gfm_template(markdown: &str, most: usize) -> String {
    fitting(markdown, most, |text| gfm::write(&split::split(tree::parse(text, Source::Template)), Source::Template))
}

/// Returns the text of an agent or a person in the notation of Slack, with at most `most` characters. It mentions no
/// one: every angle bracket of the text is escaped.
#[must_use]
pub fn slack(markdown: &str, most: usize) -> String {
    fitting(markdown, most, |text| slack::write(&tree::parse(text, Source::Author)))
}

/// Writes a text, cut so that the result has at most `most` characters. The source is cut, because a cut in the result
/// could leave code open.
fn fitting(text: &str, most: usize, write: impl Fn(&str) -> String) -> String {
    let mut chars = most.min(text.chars().count());
    let mut written = write(&cut(text, chars));
    loop {
        let length = written.chars().count();
        if length <= most {
            return written;
        }
        if chars == 0 {
            return String::new();
        }
        chars = (chars * most / length).min(chars - 1);
        written = if chars == 0 { String::new() } else { write(&cut(text, chars)) };
    }
}
