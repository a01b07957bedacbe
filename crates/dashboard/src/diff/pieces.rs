//! Division of lines into pieces by token and by changed words, with hidden characters made visible.

use std::borrow::Cow;
use std::ops::Range;

use super::blocks::{Block, blocks};
use super::words;
use super::{FileDiff, Line, LineClass};
use crate::highlight::{Budget, Highlighter, Span, Token};
use crate::visible;

/// The maximum number of removed lines, and of added lines, in a block whose words are compared.
const LONGEST_RUN: usize = 50;

/// The maximum length of a line on a page, in bytes. Browsers take seconds for a line of megabytes.
const LONGEST_SHOWN: usize = 5_000;

/// A part of a line with the same style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    token: Option<Token>,
    changed: bool,
    /// The text with hidden characters made visible. The template escapes it.
    pub(crate) text: Cow<'a, str>,
}

impl Piece<'_> {
    /// Returns the classes in the stylesheet, if any.
    pub(crate) fn class(&self) -> Option<Cow<'static, str>> {
        match (self.token, self.changed) {
            (None, false) => None,
            (None, true) => Some("word".into()),
            (Some(token), false) => Some(token.class().into()),
            (Some(token), true) => Some(format!("{} word", token.class()).into()),
        }
    }
}

/// Returns the pieces of lines of a file.
pub(super) fn of_file<'a>(
    file: &FileDiff<'a>,
    lines: &[Line<'a>],
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> Vec<Vec<Piece<'a>>> {
    let hunks = lines.chunk_by(|_, next| next.class != LineClass::Hunk);
    hunks.flat_map(|hunk| of_hunk(file, hunk, highlighter, budget)).collect()
}

/// Returns the pieces of consecutive unchanged lines of a file.
pub(crate) fn of_lines<'a>(
    path: &str,
    lines: &[&'a str],
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> Vec<Vec<Piece<'a>>> {
    let spans = highlighter.file(path, lines, budget);
    lines.iter().zip(&spans).map(|(line, spans)| pieces(line, spans, &[])).collect()
}

fn of_hunk<'a>(
    file: &FileDiff<'a>,
    hunk: &[Line<'a>],
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> Vec<Vec<Piece<'a>>> {
    let spans = highlight(file, hunk, highlighter, budget);
    let words = changed_words(hunk, budget);
    let lines = hunk.iter().zip(&spans).zip(&words);
    lines.map(|((line, spans), words)| pieces(line.content(), spans, words)).collect()
}

/// Returns the spans of each line. Each side is highlighted separately, because both together are not valid code. A
/// side without changed lines is skipped if the other one has some.
fn highlight<'a>(
    file: &FileDiff<'a>,
    hunk: &[Line<'a>],
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> Vec<Vec<Span<'a>>> {
    let has = |class: LineClass| hunk.iter().any(|line| line.class == class);
    let mut side = |class: LineClass, path: &str, wanted: bool| {
        let is_there = |line: &&Line<'a>| {
            wanted && (line.class == class || matches!(line.class, LineClass::Context | LineClass::WhitespaceOnly))
        };
        let lines: Vec<&'a str> = hunk.iter().filter(is_there).map(Line::content).collect();
        if lines.is_empty() { Vec::new() } else { highlighter.file(path, &lines, budget) }
    };
    let (removes, adds) = (has(LineClass::Removed), has(LineClass::Added));
    let mut old = side(LineClass::Removed, file.old_path.as_deref().unwrap_or(&file.path), removes).into_iter();
    let mut new = side(LineClass::Added, &file.path, adds || !removes).into_iter();
    let spans = hunk.iter().map(|line| match line.class {
        LineClass::Removed => old.next(),
        LineClass::Added => new.next(),
        LineClass::Context | LineClass::WhitespaceOnly => {
            // The line is on both sides, so both iterators must advance.
            let (in_old, in_new) = (old.next(), new.next());
            in_new.or(in_old)
        }
        LineClass::Hunk | LineClass::Note => Some(vec![Span { token: None, text: line.content() }]),
    });
    spans.map(Option::unwrap_or_default).collect()
}

/// Returns for each line the ranges of the words that its counterpart does not have.
fn changed_words(hunk: &[Line<'_>], budget: &Budget) -> Vec<Vec<Range<usize>>> {
    let mut changed = vec![Vec::new(); hunk.len()];
    for block in blocks(hunk) {
        let Block::Changed { removed, added } = block else { continue };
        let (removed, added) = (numbered(hunk, removed, LineClass::Removed), numbered(hunk, added, LineClass::Added));
        if removed.len() > LONGEST_RUN || added.len() > LONGEST_RUN || budget.is_late() {
            continue;
        }
        for ((old_at, old), (new_at, new)) in removed.into_iter().zip(added) {
            let words = words::changed(old.content(), new.content());
            for (at, ranges) in [(old_at, words.old), (new_at, words.new)] {
                if let Some(entry) = changed.get_mut(at) {
                    *entry = ranges;
                }
            }
        }
    }
    changed
}

/// Returns the lines of a run with their indexes, without the notes between them.
fn numbered<'l, 'a>(hunk: &'l [Line<'a>], run: Range<usize>, class: LineClass) -> Vec<(usize, &'l Line<'a>)> {
    let lines = hunk.iter().enumerate().take(run.end).skip(run.start);
    lines.filter(|(_, line)| line.class == class).collect()
}

/// Splits a line at the ends of its spans and of its changed words. Of a longer line than [`LONGEST_SHOWN`], it returns
/// the beginning, and says how much is missing.
fn pieces<'a>(line: &'a str, spans: &[Span<'a>], changed: &[Range<usize>]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let (line, rest) = line.split_at(line.floor_char_boundary(LONGEST_SHOWN));
    let mut changed = changed.iter().peekable();
    let mut at = 0;
    for span in spans {
        let end = (at + span.text.len()).min(line.len());
        while at < end {
            while changed.next_if(|range| range.end <= at).is_some() {}
            let (until, is_changed) = match changed.peek() {
                Some(range) if range.start <= at => (range.end.min(end), true),
                Some(range) => (range.start.min(end), false),
                None => (end, false),
            };
            let text = visible::line(line.get(at..until).unwrap_or_default());
            pieces.push(Piece { token: span.token, changed: is_changed, text });
            at = until;
        }
    }
    if !rest.is_empty() {
        let text = format!(" … {} more characters are not shown", rest.chars().count()).into();
        pieces.push(Piece { token: None, changed: false, text });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_spans_and_changed_words() {
        let spans = [
            Span { token: Some(Token::Keyword), text: "let" },
            Span { token: None, text: " x = " },
            Span { token: Some(Token::Number), text: "123" },
        ];
        for (changed, expected) in [
            (&[] as &[(usize, usize)], vec![("let", Some("hl-keyword")), (" x = ", None), ("123", Some("hl-number"))]),
            (&[(8, 11)], vec![("let", Some("hl-keyword")), (" x = ", None), ("123", Some("hl-number word"))]),
            (
                &[(4, 5)],
                vec![
                    ("let", Some("hl-keyword")),
                    (" ", None),
                    ("x", Some("word")),
                    (" = ", None),
                    ("123", Some("hl-number")),
                ],
            ),
            // Ranges across the end of a span, and beyond the end of the line.
            (
                &[(0, 1), (2, 5), (10, 99)],
                vec![
                    ("l", Some("hl-keyword word")),
                    ("e", Some("hl-keyword")),
                    ("t", Some("hl-keyword word")),
                    (" x", Some("word")),
                    (" = ", None),
                    ("12", Some("hl-number")),
                    ("3", Some("hl-number word")),
                ],
            ),
        ] {
            let ranges: Vec<_> = changed.iter().map(|&(start, end)| start..end).collect();
            let pieces = pieces("let x = 123", &spans, &ranges);
            let shown: Vec<_> = pieces.iter().map(|piece| (&*piece.text, piece.class())).collect();
            let expected: Vec<_> = expected.into_iter().map(|(text, class)| (text, class.map(Cow::Borrowed))).collect();
            assert_eq!(shown, expected, "{changed:?}");
        }
    }

    #[test]
    fn hidden_characters_are_shown_in_every_piece() {
        let spans = [Span { token: None, text: "a\u{202e}" }, Span { token: Some(Token::String), text: "\u{200b}b" }];
        let changed = [1..4, 4..7];
        let pieces = pieces("a\u{202e}\u{200b}b", &spans, &changed);
        let shown: Vec<_> = pieces.iter().map(|piece| &*piece.text).collect();
        assert_eq!(shown, ["a", "⟨U+202E⟩", "⟨U+200B⟩", "b"]);
    }

    #[test]
    fn a_long_line_is_cut_and_says_how_much_is_missing() {
        // The limit is within a character.
        let line = format!("{}éxyz", "a".repeat(LONGEST_SHOWN - 1));
        let spans = [Span { token: Some(Token::String), text: &line }];
        let shown = pieces(&line, &spans, &[0..1, 4990..line.len()]);
        let texts: Vec<&str> = shown.iter().map(|piece| &*piece.text).collect();
        assert_eq!(texts, ["a", &"a".repeat(4989), &"a".repeat(9), " … 4 more characters are not shown"]);
        assert_eq!((shown[3].token, shown[3].changed), (None, false));
        let whole = "a".repeat(LONGEST_SHOWN);
        let shown = pieces(&whole, &[Span { token: None, text: &whole }], &[]);
        assert_eq!(shown.iter().map(|piece| &*piece.text).collect::<Vec<_>>(), [whole.as_str()]);
    }
}
