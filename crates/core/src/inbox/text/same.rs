//! Says whether two texts are shown alike.

use std::fmt::Write;
use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::Dialect;
use super::events::parse;
use super::hidden::Part;

/// Returns what a page shows of a text: its visible words, and the elements that they are in. Two texts with the same
/// outline look alike, but for where a line or a paragraph ends.
pub(super) fn outline(text: &str, hidden: &[Part], dialect: Dialect) -> String {
    let mut outline = Outline { written: String::with_capacity(text.len()), has_space: false };
    let Some(parsed) = parse(text, dialect) else { return text.to_owned() };
    let mut is_code_block = false;
    for (event, range) in parsed.events {
        match event {
            Event::Start(Tag::Paragraph | Tag::HtmlBlock) | Event::End(TagEnd::Paragraph | TagEnd::HtmlBlock) => {
                outline.has_space = true;
            }
            Event::Html(_) | Event::InlineHtml(_) => {
                for shown in shown(&range, hidden) {
                    outline.text(&text[shown], dialect.shows_html());
                }
            }
            _ if is_hidden(&range, hidden) => {}
            Event::Start(tag) => {
                is_code_block |= matches!(tag, Tag::CodeBlock(_));
                outline.element(&format!("<{tag:?}"));
            }
            Event::End(tag) => {
                is_code_block &= tag != TagEnd::CodeBlock;
                outline.element("/");
            }
            Event::Text(text) if is_code_block => outline.written.push_str(&text),
            Event::Text(text) => outline.text(&text, true),
            Event::SoftBreak => outline.has_space = true,
            other => outline.element(&format!("{other:?}")),
        }
    }
    outline.written
}

/// The marks around the names of elements in an outline.
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';

/// Stands for a `<` that begins no tag.
const SIGN: char = '\u{3}';

struct Outline {
    written: String,
    /// True if space or the edge of a paragraph stands before the next word.
    has_space: bool,
}

impl Outline {
    /// Adds words. A `<` is a sign if it `is_text`, and otherwise may begin a tag.
    fn text(&mut self, text: &str, is_text: bool) {
        for c in text.chars() {
            if c.is_whitespace() {
                self.has_space = true;
                continue;
            }
            let is_edge = self.written.is_empty() || self.written.ends_with(END);
            if std::mem::take(&mut self.has_space) && !is_edge {
                self.written.push(' ');
            }
            self.written.push(if c == '<' && is_text { SIGN } else { c });
        }
    }

    /// Adds an element. Space at its edges does not count.
    fn element(&mut self, name: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.written, "{BEGIN}{name}{END}");
        self.has_space = false;
    }
}

fn is_hidden(range: &Range<usize>, hidden: &[Part]) -> bool {
    let next = hidden.partition_point(|part| part.range.end <= range.start);
    hidden.get(next).is_some_and(|part| part.range.start <= range.start && !range.is_empty())
}

/// Returns the parts of a range that are not hidden.
fn shown(range: &Range<usize>, hidden: &[Part]) -> Vec<Range<usize>> {
    let next = hidden.partition_point(|part| part.range.end <= range.start);
    let (mut shown, mut at) = (Vec::new(), range.start);
    for part in hidden[next..].iter().take_while(|part| part.range.start < range.end) {
        shown.push(at..part.range.start.max(at));
        at = part.range.end.min(range.end);
    }
    shown.push(at..range.end);
    shown
}
