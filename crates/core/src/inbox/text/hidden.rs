//! Finds the parts of a Markdown text that a host's page does not show.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::Dialect;
use super::events::{Parsed, is_within, label, parse};
use super::html::{Hidden, Piece, Scanner, is_read_by_github};

/// A part of a text that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<usize>,
    /// A comment or an element without content, in place of HTML; `None` for a definition or cells.
    pub(super) emptied: Option<&'static str>,
}

/// Returns what is not shown, in order and without overlap; `None` if the text has too many parts to be read.
pub(super) fn find(text: &str, dialect: Dialect) -> Option<Vec<Part>> {
    let parsed = parse(text, dialect)?;
    let footnotes = footnotes(text, &parsed);
    let html = if dialect.shows_html() { Vec::new() } else { html(text, &parsed, &footnotes, dialect) };
    let others = [definitions(text, &parsed), footnotes, cells(text, &parsed)].into_iter().flatten();
    let html = html.into_iter().map(|Hidden { range, emptied }| Part { range, emptied: Some(emptied) });
    let mut all: Vec<Part> = others.map(|range| Part { range, emptied: None }).chain(html).collect();
    all.retain(|part| !part.range.is_empty());
    // An element may be within a footnote, and a footnote in what an open comment hides.
    all.sort_unstable_by_key(|part| (part.range.start, usize::MAX - part.range.end));
    let mut merged: Vec<Part> = Vec::with_capacity(all.len());
    for part in all {
        match merged.last_mut() {
            Some(last) if part.range.start < last.range.end => {
                if part.range.end > last.range.end {
                    last.range.end = part.range.end;
                    last.emptied = last.emptied.or(part.emptied);
                }
            }
            _ => merged.push(part),
        }
    }
    Some(merged)
}

/// Returns the HTML that is not shown. What is in a footnote that is not shown opens nothing.
fn html(text: &str, parsed: &Parsed<'_>, footnotes: &[Range<usize>], dialect: Dialect) -> Vec<Hidden> {
    let mut scanner = Scanner::new(dialect.dropped());
    let (mut block, mut line) = (Piece::default(), 0..0);
    for (event, range) in &parsed.events {
        if is_within(footnotes, range.start) {
            continue;
        }
        match event {
            Event::Html(line) => block.push(line, range.start),
            Event::End(TagEnd::HtmlBlock) => scanner.read(&std::mem::take(&mut block)),
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::TableCell | Tag::Item) => line = range.clone(),
            Event::InlineHtml(_)
                if dialect == Dialect::Github
                    && !is_read_by_github(
                        &text[line.start.min(range.start)..range.start],
                        &text[range.start..line.end.max(range.end)],
                    ) => {}
            Event::InlineHtml(span) => scanner.read(&Piece::of_span(span, &text[range.clone()], range.start)),
            _ => {}
        }
    }
    scanner.finish(text.len())
}

/// Returns the definitions of links that are not used: what no block covers, and is no mark of a quote or a list. The
/// parser does not report the ranges of repeated definitions, which count nowhere.
fn definitions(text: &str, parsed: &Parsed<'_>) -> Vec<Range<usize>> {
    let mut covered = covered(text, &parsed.events);
    covered.push(text.len()..text.len());
    covered.sort_unstable_by_key(|range| range.start);
    let (mut found, mut end) = (Vec::new(), 0);
    for range in covered {
        if range.start > end {
            uncovered(text, end..range.start, &parsed.used, &mut found);
        }
        end = end.max(range.end);
    }
    found
}

/// Returns the ranges of blocks, and of the marks of lists.
fn covered(text: &str, events: &[(Event<'_>, Range<usize>)]) -> Vec<Range<usize>> {
    let mut covered: Vec<Range<usize>> = Vec::new();
    // In a tight list, the parts of a line are not in a paragraph, and do not cover it without gaps.
    let mut line: Option<Range<usize>> = None;
    let mut depth = 0;
    for (event, range) in events {
        let mark = match event {
            Event::Start(Tag::BlockQuote(_) | Tag::List(_)) => Some(0),
            Event::Start(Tag::Item) => text[range.clone()].find(['-', '+', '*', '.', ')']).map(|mark| mark + 1),
            Event::Start(Tag::FootnoteDefinition(_)) => text[range.clone()].find("]:").map(|mark| mark + 2),
            Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item | TagEnd::FootnoteDefinition) => Some(0),
            _ => None,
        };
        match (mark, event) {
            (Some(mark), _) => {
                covered.extend(line.take());
                covered.push(range.start..range.start + mark);
            }
            (None, Event::Start(tag)) => {
                if depth == 0 && is_block(tag) {
                    covered.extend(line.take());
                    covered.push(range.clone());
                } else if depth == 0 {
                    line = Some(joined(line, range));
                }
                depth += 1;
            }
            (None, Event::End(_)) => depth -= 1,
            (None, Event::Rule) => covered.push(range.clone()),
            (None, _) if depth == 0 => line = Some(joined(line, range)),
            (None, _) => {}
        }
    }
    covered.extend(line);
    covered
}

fn is_block(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Paragraph | Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::HtmlBlock | Tag::Table(_))
}

fn joined(line: Option<Range<usize>>, range: &Range<usize>) -> Range<usize> {
    line.map_or_else(|| range.clone(), |line| line.start..line.end.max(range.end))
}

/// Adds the lines of definitions that are not used in a part of the text that no block covers.
fn uncovered(text: &str, gap: Range<usize>, used: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    let (mut is_definition, mut before) = (false, found.len());
    let next = text[gap.end..].lines().next().unwrap_or_default();
    let mut at = gap.start;
    for line in text[gap].split_inclusive('\n') {
        let content = line.trim_start_matches(|c: char| c == '>' || c.is_whitespace());
        let start = at + line.len() - content.len();
        at += line.len();
        is_definition = !content.is_empty() && (is_definition || content.starts_with('['));
        if !is_definition {
            before = found.len();
        }
        if is_definition && !is_within(used, start) {
            found.push(start..start + content.trim_end().len());
        }
    }
    // cmark-gfm reads no definitions in a paragraph that ends as the head of a table, or with a line below a heading.
    let is_underline = |line: &str| !line.trim().is_empty() && line.trim().chars().all(|c| c == '-' || c == '=');
    let is_head = next.contains('|') || is_underline(next);
    if is_definition && is_head {
        found.truncate(before);
    }
}

/// Returns the definitions of footnotes that nothing refers to, or that are repeated.
fn footnotes(text: &str, parsed: &Parsed<'_>) -> Vec<Range<usize>> {
    let mut used = BTreeSet::new();
    for (event, _) in &parsed.events {
        if let Event::FootnoteReference(name) = event {
            used.insert(label(name));
        }
    }
    // The parser reads `[^1][a]` as a link, and hosts as a footnote.
    for (at, _) in text.match_indices("[^") {
        let name = &text[at + 2..];
        if let Some(end) = name.find(['[', ']', '\n'])
            && name[end..].starts_with(']')
            && !name[end..].starts_with("]:")
        {
            used.insert(label(&name[..end]));
        }
    }
    let (mut found, mut defined) = (Vec::new(), BTreeSet::new());
    for (event, range) in &parsed.events {
        if let Event::Start(Tag::FootnoteDefinition(name)) = event
            && (!defined.insert(label(name)) || !used.contains(&label(name)))
        {
            found.push(range.clone());
        }
    }
    found
}

/// Returns the cells beyond the head of their table. Parsers agree on what is a table if it stands alone.
fn cells(text: &str, parsed: &Parsed<'_>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut last, mut is_alone) = (None, false);
    for (event, range) in &parsed.events {
        match event {
            Event::Start(Tag::Table(_)) => {
                let before = text[..range.start].trim_end_matches([' ', '\t']);
                is_alone = before.is_empty() || before.ends_with("\n\n") || before.ends_with("\n\r\n");
            }
            Event::Start(Tag::TableRow) if !text[range.clone()].starts_with('|') => is_alone = false,
            Event::End(TagEnd::TableRow) if !is_alone => last = None,
            Event::End(TagEnd::TableCell) => last = Some(range.end),
            Event::End(TagEnd::TableRow) => {
                let Some(end) = last.take().filter(|end| *end < range.end) else { continue };
                let rest = text[end..range.end].trim_end();
                let Some(rest) = rest.strip_prefix('|').filter(|rest| rest.contains(|c| !" \t|".contains(c))) else {
                    continue;
                };
                found.push(end + 1..end + 1 + rest.len());
            }
            _ => {}
        }
    }
    found
}
