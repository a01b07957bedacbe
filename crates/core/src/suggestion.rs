//! Suggestions in comments on lines: blocks of code that replace the lines, as patches.
//!
//! On all code hosts, a suggestion is a fenced block of code in the comment whose language is `suggestion`. It replaces
//! the lines of the comment. On GitLab it replaces the last line and as many lines before and after it as the language
//! says: `suggestion:-2+1`. An empty block deletes the lines.

mod hunk;
mod patch;
#[cfg(test)]
mod tests;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use crate::position::{LineRange, Position};

pub use hunk::{diff_lines, excerpt};
pub use patch::Patch;

/// The lines that a suggestion replaces if it does not say which.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replaces {
    /// All lines of the comment.
    #[default]
    Range,
    /// The last line of the comment, as on GitLab.
    LastLine,
}

/// A suggestion in a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The lines of the new version of the file that the suggestion replaces; `None` if the comment is not on such lines.
    pub lines: Option<LineRange>,
    /// The suggestion as a patch; `None` if the part of the diff does not have all the lines.
    pub patch: Option<Patch>,
}

/// A block of a comment.
struct Block {
    /// The number of lines before and after the last line of the comment that the block replaces too, if it says so.
    around: Option<(u64, u64)>,
    /// The lines, without line endings.
    lines: Vec<String>,
}

/// Returns the suggestions in the text of a comment, in their order. `hunk` is a part of the diff of the file, or all of
/// it. Blocks in quotes are none: they repeat those of other comments.
#[must_use]
pub fn suggestions(body: &str, replaces: Replaces, position: &Position, hunk: Option<&str>) -> Vec<Suggestion> {
    let hunks = hunk::parse(hunk.unwrap_or_default());
    let of_block = |block: Block| {
        let lines = position.replaceable().and_then(|range| match (block.around, replaces) {
            (Some((before, after)), _) => around(range.end, before, after),
            (None, Replaces::Range) => Some(range),
            (None, Replaces::LastLine) => Some(LineRange::line(range.end)),
        });
        let patch = lines.and_then(|lines| patch::patch(&position.path, lines, &block.lines, &hunks));
        Suggestion { lines, patch }
    };
    blocks(body).into_iter().map(of_block).collect()
}

/// Returns a line with lines before and after it. Lines before the first one do not count, as on GitLab.
fn around(line: u64, before: u64, after: u64) -> Option<LineRange> {
    Some(LineRange { start: line.saturating_sub(before).max(1), end: line.checked_add(after)? })
}

/// Returns the blocks of code with suggestions.
fn blocks(body: &str) -> Vec<Block> {
    let body = body.replace("\r\n", "\n");
    let (mut found, mut quotes, mut open) = (Vec::new(), 0_u32, None);
    for event in Parser::new(&body) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => quotes += 1,
            Event::End(TagEnd::BlockQuote(_)) => quotes = quotes.saturating_sub(1),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) if quotes == 0 => {
                open = offsets(&info).map(|around| (around, String::new()));
            }
            Event::Text(piece) => {
                if let Some((_, text)) = &mut open {
                    text.push_str(&piece);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                found.extend(open.take().map(|(around, text)| Block { around, lines: lines_of(&text) }));
            }
            _ => {}
        }
    }
    found
}

/// Returns the lines of the content of a block. A block without lines has no content.
fn lines_of(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.strip_suffix('\n').unwrap_or(text).split('\n').map(str::to_owned).collect()
}

/// Reads the language of a block: `suggestion`, or `suggestion:-2+1` with the numbers of lines before and after.
#[expect(clippy::option_option, reason = "a block that is no suggestion, and one that says no numbers")]
fn offsets(info: &str) -> Option<Option<(u64, u64)>> {
    let language = info.split([' ', '\t', ',']).next()?;
    let rest = language.strip_prefix("suggestion")?;
    if rest.is_empty() {
        return Some(None);
    }
    let (before, after) = rest.strip_prefix(":-")?.split_once('+')?;
    Some(Some((before.parse().ok()?, after.parse().ok()?)))
}
