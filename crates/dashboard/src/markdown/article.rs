//! Articles: Markdown of this project, which is compiled in. Its sections have IDs, and its links lead to other pages.

use std::collections::HashMap;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Tag, TagEnd};

use super::markup::Markup;
use super::{clean, write};
use crate::highlight::{Budget, Highlighter};

/// A rendered article.
#[derive(Debug, Clone)]
pub(crate) struct Article {
    /// The text without the heading of level 1, which the page shows.
    pub(crate) markup: Markup,
    /// The sections, in their order.
    pub(crate) sections: Vec<Section>,
}

/// A section of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// The level of its heading: 2 or more.
    pub(crate) level: u8,
    /// The ID of its heading.
    pub(crate) id: String,
    /// The text of its heading.
    pub(crate) title: String,
}

/// Renders an article. `target` returns the URL for the destination of a link. Call it within `spawn_blocking`.
pub(crate) fn article(
    text: &str,
    target: &dyn Fn(&str) -> String,
    highlighter: &Highlighter,
    budget: &mut Budget,
) -> Article {
    let mut sections: Vec<Section> = Vec::new();
    let mut used: HashMap<String, usize> = HashMap::new();
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut parsed = write::parse(text);
    while let Some(event) = parsed.next() {
        match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let inside: Vec<Event<'_>> =
                    parsed.by_ref().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_)))).collect();
                let words = plain_text(&inside);
                if level == HeadingLevel::H1 {
                    continue;
                }
                let id = unique(slug(&words), &mut used);
                sections.push(Section { level: level as u8, id: id.clone(), title: words });
                events.push(Event::Start(Tag::Heading { level, id: Some(CowStr::from(id)), classes, attrs }));
                events.extend(inside);
                events.push(Event::End(TagEnd::Heading(level)));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = CowStr::from(target(&dest_url));
                events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            event => events.push(event),
        }
    }
    let html = write::render(events.into_iter(), true, highlighter, budget);
    let markup = Markup(clean::clean_article(&html.unwrap_or_else(|| write::preformatted(text))));
    Article { markup, sections }
}

fn plain_text(events: &[Event<'_>]) -> String {
    let text = |event: &Event<'_>| match event {
        Event::Text(text) | Event::Code(text) => text.to_string(),
        Event::SoftBreak | Event::HardBreak => " ".to_owned(),
        _ => String::new(),
    };
    events.iter().map(text).collect()
}

/// Returns the ID of a heading, as code hosts make it: lower case, without punctuation, with hyphens for spaces.
pub(super) fn slug(title: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    title.chars().filter_map(kept).collect()
}

/// Returns the ID, with a number if it was used before.
fn unique(slug: String, used: &mut HashMap<String, usize>) -> String {
    let count = used.entry(slug.clone()).or_default();
    *count += 1;
    if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_get_ids_and_links_get_targets() {
        let text = "# Title\n\nSee [this](other.md#x).\n\n## Get `it`, now\n\n### Get it now\n\na";
        let target = |_: &str| "/docs/guides/other#x".to_owned();
        let found = article(text, &target, &Highlighter::new(), &mut Budget::page());
        let ids: Vec<(u8, &str)> = found.sections.iter().map(|section| (section.level, section.id.as_str())).collect();
        assert_eq!(ids, [(2, "get-it-now"), (3, "get-it-now-1")]);
        let html = found.markup.to_string();
        assert!(html.contains("<a href=\"/docs/guides/other#x\">this</a>"), "{html}");
        assert!(html.contains("<h2 id=\"get-it-now\">Get <code>it</code>, now</h2>"), "{html}");
        assert!(!html.contains("Title"), "the page has the title: {html}");
    }
}
