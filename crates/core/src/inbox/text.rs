//! Turns texts of code hosts into what a person sees on the host's page.
//!
//! The agent must read what a person reads, character by character. So the text is parsed as Markdown in the dialect of
//! the host, and only what the host's page does not show is removed from the source; all else stays byte for byte:
//!
//! - HTML comments, declarations, processing instructions and CDATA sections, outside of code. They are read as the
//!   renderer and the HTML parser behind it read them: a comment in a block that has no end hides all that follows, one
//!   within a paragraph is text.
//! - The contents of elements that the host's sanitizer drops, such as `<script>` on GitLab.
//! - Definitions of links that nothing refers to, such as `[//]: # (a comment)`, definitions of footnotes that nothing
//!   refers to, and cells of a table beyond its head.
//!
//! Code, suggestions, text that opens on a click (`<details>`), and the markup of visible text stay, with the address
//! and title of a link, the alternative text of an image, tags with their attributes, and the language of a code block.
//! A tag that the host drops stays too: people who write `Vec<String>` without backticks mean it.
//!
//! Removal changes no other part of the text: the result is parsed again, and if it would be shown differently, an
//! empty comment `<!-- -->` remains in place of each comment, and likewise for the others.
//!
//! Of the characters without a shape, only those that can mislead are removed, and a note says so ([`characters`]).

mod characters;
mod cut;
mod events;
mod hidden;
mod html;
mod same;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::Options;

pub(super) use self::events::is_within;

use self::characters::Treatment;
use self::html::Element;
use crate::code_host::HostKind;

/// The Markdown of a code host, as far as hosts hide different parts of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// GitHub: cmark-gfm, which passes HTML on to a sanitizer. The extension `tagfilter` (GFM 0.29, section 6.11) shows
    /// the tags of `<script>`, `<style>`, `<title>` and six others as text, so their contents are visible.
    Github,
    /// GitLab: comrak without `tagfilter` (`lib/banzai/filter/markdown_engines/glfm_markdown.rb`), then the sanitizer
    /// of html-pipeline, which removes `<script>` with its contents (`remove_contents`), and of other elements the tags
    /// only.
    Gitlab,
    /// Gitea and Forgejo: goldmark, then bluemonday (`modules/markup/sanitizer_default.go`), which drops the contents
    /// of the elements that its function `addDefaultSkipElementContent` lists.
    Gitea,
    /// Both Bitbucket products and the built-in code host show HTML as text, comments too. Bitbucket Cloud uses
    /// Python-Markdown in its safe mode (the tutorial `markdowndemo`: no arbitrary HTML). The syntax guide of Bitbucket
    /// Data Center says that it uses CommonMark and escapes all HTML tags.
    Escaped,
}

impl Dialect {
    /// Returns the dialect of a code host; `None` is the built-in one.
    #[must_use]
    pub const fn of(kind: Option<HostKind>) -> Self {
        match kind {
            Some(HostKind::Github) => Self::Github,
            Some(HostKind::Gitlab) => Self::Gitlab,
            Some(HostKind::Gitea | HostKind::Forgejo) => Self::Gitea,
            Some(HostKind::Bitbucket | HostKind::BitbucketDataCenter) | None => Self::Escaped,
        }
    }

    const fn shows_html(self) -> bool {
        matches!(self, Self::Escaped)
    }

    /// Returns the elements whose contents the sanitizer drops.
    const fn dropped(self) -> &'static [Element] {
        match self {
            Self::Github | Self::Escaped => &[],
            Self::Gitlab => &[Element { name: "script", emptied: "<script></script>" }],
            Self::Gitea => DROPPED_BY_BLUEMONDAY,
        }
    }

    fn options(self) -> Options {
        let all = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        if self.shows_html() { all } else { all | Options::ENABLE_FOOTNOTES }
    }
}

const DROPPED_BY_BLUEMONDAY: &[Element] = &[
    Element { name: "frame", emptied: "<frame></frame>" },
    Element { name: "frameset", emptied: "<frameset></frameset>" },
    Element { name: "iframe", emptied: "<iframe></iframe>" },
    Element { name: "noembed", emptied: "<noembed></noembed>" },
    Element { name: "noframes", emptied: "<noframes></noframes>" },
    Element { name: "noscript", emptied: "<noscript></noscript>" },
    Element { name: "nostyle", emptied: "<nostyle></nostyle>" },
    Element { name: "object", emptied: "<object></object>" },
    Element { name: "script", emptied: "<script></script>" },
    Element { name: "style", emptied: "<style></style>" },
    Element { name: "title", emptied: "<title></title>" },
];

/// The number of characters that are left for the notes about a text.
const NOTES_CHARS: usize = 1_000;

/// A text as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The text.
    pub text: String,
    /// What was changed, in sentences for the agent.
    pub notes: Vec<String>,
}

impl Shown {
    /// Returns a comment, or the text of an issue or a review, without what the host's page does not show.
    #[must_use]
    pub fn markdown(text: &str, dialect: Dialect) -> Self {
        let (text, removed) = characters::checked(&visible(text, dialect), Treatment::Remove);
        Self { text, notes: removed.note("from this text").into_iter().collect() }
    }

    /// Returns a text that no host reads as Markdown, such as a title or the name of a check.
    #[must_use]
    pub fn plain(text: &str) -> Self {
        let (text, removed) = characters::checked(text, Treatment::Remove);
        Self { text, notes: removed.note("from this text").into_iter().collect() }
    }

    /// Returns a part of a file or a diff. Control characters that can mislead are written as `⟨U+202E⟩`, because the
    /// file has them.
    #[must_use]
    pub fn code(text: &str) -> Self {
        let (text, changed) = characters::checked(text, Treatment::Show);
        Self { text, notes: changed.note_of_code().into_iter().collect() }
    }

    /// Removes blank lines at the beginning, and space at the end. An indentation that makes code of the first line
    /// stays.
    #[must_use]
    pub fn trimmed(self) -> Self {
        let text = self.text.trim_end();
        let first = text.len() - text.trim_start().len();
        let indent = text[..first].rfind(['\n', '\r']).map_or(0, |newline| newline + 1);
        let is_code = text[indent..first].contains('\t') || text[indent..first].len() >= 4;
        let text = if is_code { &text[indent..] } else { &text[first..] };
        Self { text: text.to_owned(), ..self }
    }

    /// Cuts a text to its first `chars` characters. `url` is the page that has all of it.
    #[must_use]
    pub fn beginning(mut self, chars: usize, url: &str) -> Self {
        if let Some((kept, note)) = cut::beginning(&self.text, chars, url) {
            self.text = kept;
            self.notes.push(note);
        }
        self
    }

    /// Cuts a text that is longer than `most` characters, so that it is not longer with its notes.
    #[must_use]
    pub fn within(self, most: usize, url: &str) -> Self {
        let is_long = self.text.chars().nth(most).is_some();
        if is_long { self.beginning(most.saturating_sub(NOTES_CHARS), url) } else { self }
    }

    /// Cuts a text to its last lines, with at most `chars` characters.
    #[must_use]
    pub fn end(mut self, chars: usize) -> Self {
        if let Some((kept, note)) = cut::end(&self.text, chars) {
            self.text = kept;
            self.notes.push(note);
        }
        self
    }

    /// Returns the text with the notes in a paragraph below it.
    #[must_use]
    pub fn with_notes(self) -> String {
        match self.notes.as_slice() {
            [] => self.text,
            notes => format!("{}\n\n({})", self.text, notes.join(" ")),
        }
    }
}

/// Returns a text without what the host's page does not show, with all characters of the rest.
#[must_use]
pub fn visible(text: &str, dialect: Dialect) -> Cow<'_, str> {
    let may_hide = text.contains("]:") || text.contains('|') || (!dialect.shows_html() && text.contains('<'));
    if !may_hide {
        return Cow::Borrowed(text);
    }
    let lines = with_line_feeds(text);
    let Some(hidden) = hidden::find(&lines, dialect) else { return Cow::Borrowed(text) };
    if hidden.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(without(text, &hidden, ways(&lines, &hidden, dialect).unwrap_or([Way::Emptied, Way::Kept])))
}

/// Returns the ways to remove hidden parts with which the rest is shown as before; `None` if there are none. That needs
/// a comment that begins in one paragraph or list and ends in another.
fn ways(text: &str, hidden: &[hidden::Part], dialect: Dialect) -> Option<[Way; 2]> {
    let before = same::outline(text, hidden, dialect);
    let is_same = |ways: &[Way; 2]| {
        let text = without(text, hidden, *ways);
        hidden::find(&text, dialect).is_some_and(|hidden| same::outline(&text, &hidden, dialect) == before)
    };
    [[Way::Removed, Way::Removed], [Way::Emptied, Way::Removed], [Way::Emptied, Way::Kept]].into_iter().find(is_same)
}

/// Returns the parts of a text that are code.
pub(super) fn code(text: &str) -> Vec<Range<usize>> {
    events::code(&with_line_feeds(text))
}

/// Returns a text of the same length in which each line ends with a line feed: the parser does not end all blocks at a
/// carriage return alone, as CommonMark does.
fn with_line_feeds(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_alone = |at: usize| bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    if !(0..bytes.len()).any(is_alone) {
        return Cow::Borrowed(text);
    }
    let line_fed = text.char_indices().map(|(at, c)| if c == '\r' && is_alone(at) { '\n' } else { c });
    Cow::Owned(line_fed.collect())
}

/// A way to remove a part that is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Removed,
    /// The same without content takes its place, such as an empty comment.
    Emptied,
    Kept,
}

/// Removes hidden parts: the first way is that for HTML, the second that for definitions and cells.
fn without(text: &str, hidden: &[hidden::Part], [html, other]: [Way; 2]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for part in hidden {
        let way = if part.emptied.is_some() { html } else { other };
        if way == Way::Kept {
            continue;
        }
        kept.push_str(&text[at..part.range.start]);
        // What is around the part must not become a mention or a tag.
        if way == Way::Emptied || ["@", "<", "</", "<!", "<!-", "<?"].iter().any(|begin| kept.ends_with(begin)) {
            kept.push_str(part.emptied.unwrap_or_default());
        }
        at = part.range.end;
        if kept.ends_with('\r') && text[at..].starts_with('\n') {
            // Two ends of lines must not become one.
            kept.push(' ');
        }
    }
    kept.push_str(&text[at..]);
    kept
}
