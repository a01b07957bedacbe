//! Writes single lines of plain text.

use super::gfm::{InlineContext, code_span, inline};
use super::hidden::shown;
use super::split::{split_line, split_title};
use super::tree::{Inline, plain_of};

/// Returns a line of text with spaces for its line breaks, and with visible characters only, for readers that interpret
/// nothing.
#[must_use]
pub fn plain_line(text: &str) -> String {
    shown(&text.split_whitespace().collect::<Vec<_>>().join(" "), false).into_owned()
}

/// Returns the title of a pull request, or the subject of a commit, that notifies no one and closes nothing: the names
/// and numbers that would are in backticks.
#[must_use]
pub fn title(text: &str) -> String {
    let mut title = String::new();
    for part in split_title(parts(text)) {
        match part {
            Inline::Code(code) => title.push_str(&code_span(&code, InlineContext::default())),
            Inline::Url(url) if url.contains('#') => title.push_str(&code_span(&url, InlineContext::default())),
            part => title.push_str(&plain_of(&[part])),
        }
    }
    title
}

/// Returns a line of plain text as Markdown of code hosts. Text between backticks is code.
#[must_use]
pub fn gfm_line(text: &str) -> String {
    inline(&split_line(parts(text)), InlineContext::default())
}

/// Returns a line of plain text that is safe between the brackets of a link in Markdown of code hosts.
#[must_use]
pub fn gfm_link_text(text: &str) -> String {
    inline(&split_line(parts(text)), InlineContext { is_link: true, ..InlineContext::default() })
}

/// Returns a text as a span of code in Markdown of code hosts, such as the path of a file. What would act even in code
/// is written as text.
#[must_use]
pub fn gfm_code(text: &str) -> String {
    let code = shown(text, false).into_owned();
    if code.is_empty() {
        return String::new();
    }
    inline(&split_line(vec![Inline::Code(code)]), InlineContext::default())
}

/// Returns a line of plain text in the notation of Slack.
#[must_use]
pub fn slack_line(text: &str) -> String {
    super::slack::inline(&parts(text), None)
}

/// Returns a text as a span of code in the notation of Slack, such as the path of a file.
#[must_use]
pub fn slack_code(text: &str) -> String {
    super::slack::code_span(&shown(text, false))
}

/// Returns a line of plain text as Markdown of Discord.
#[must_use]
pub fn discord_line(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in plain_line(text).chars() {
        if "\\*_~`|>[]()#-@<:+.".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns the parts of a line. What is between backticks remains code, unless it would act in a title, in which hosts
/// know no code.
fn parts(text: &str) -> Vec<Inline> {
    let text = plain_line(text);
    let pieces: Vec<&str> = text.split('`').collect();
    let is_paired = pieces.len() % 2 == 1 && !pieces.iter().skip(1).step_by(2).any(|code| code.trim().is_empty());
    let part = |(index, piece): (usize, &&str)| match index % 2 == 1 && is_paired && !acts(piece) {
        true => Inline::Code((*piece).to_owned()),
        false => Inline::Text((*piece).to_owned()),
    };
    match is_paired {
        true => pieces.iter().enumerate().map(part).collect(),
        false => vec![Inline::Text(text)],
    }
}

/// Returns whether something in a text acts.
fn acts(text: &str) -> bool {
    let line = split_line(vec![Inline::Text(text.to_owned())]);
    line.iter().any(|part| !matches!(part, Inline::Text(_)))
}
