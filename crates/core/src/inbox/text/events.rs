//! Reads the parts of a Markdown text with their ranges in the source.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::Dialect;

/// The maximum number of parts that are read. A small table can have very many cells. Hosts do not show such a text
/// formatted either.
const MAX_EVENTS: usize = 400_000;

/// A text that was parsed.
pub(super) struct Parsed<'a> {
    /// The parts with their ranges.
    pub(super) events: Vec<(Event<'a>, Range<usize>)>,
    /// The ranges of the definitions of links that are used.
    pub(super) used: Vec<Range<usize>>,
}

/// Parses a text; `None` if it has too many parts.
pub(super) fn parse(text: &str, dialect: Dialect) -> Option<Parsed<'_>> {
    let mut parser = Parser::new_ext(text, dialect.options()).into_offset_iter();
    let events: Vec<_> = parser.by_ref().take(MAX_EVENTS + 1).collect();
    if events.len() > MAX_EVENTS {
        return None;
    }
    let mut ids = BTreeSet::new();
    for (event, _) in &events {
        if let Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) = event {
            ids.insert(label(id));
        }
    }
    let definitions = parser.reference_definitions().iter();
    let mut used: Vec<_> =
        definitions.filter(|(id, _)| ids.contains(&label(id))).map(|(_, one)| one.span.clone()).collect();
    used.sort_unstable_by_key(|span| span.start);
    Some(Parsed { events, used })
}

/// Returns whether an offset is in one of these ranges, which are in order and do not overlap.
pub(in crate::inbox) fn is_within(ranges: &[Range<usize>], at: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= at);
    ranges.get(next).is_some_and(|range| range.contains(&at))
}

/// Returns a label as labels are compared.
pub(super) fn label(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns the ranges of code spans and code blocks.
pub(super) fn code(text: &str) -> Vec<Range<usize>> {
    let is_code = |event: &Event<'_>| matches!(event, Event::Code(_) | Event::Start(Tag::CodeBlock(_)));
    let events = Parser::new_ext(text, Options::empty()).into_offset_iter();
    events.filter(|(event, _)| is_code(event)).map(|(_, range)| range).collect()
}
