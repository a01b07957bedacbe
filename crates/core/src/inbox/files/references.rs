//! Finds the references to images and files in Markdown and HTML.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd, TextMergeStream};

/// The maximum number of references that are read in a text.
pub(super) const REFERENCES: usize = 200;

/// A reference in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The alternative text of an image, or the text of a link.
    pub(super) text: String,
    pub(super) url: String,
    pub(super) is_image: bool,
}

/// Returns the references to images and files in a text, in their order, outside of code.
pub(super) fn references(text: &str) -> Vec<Reference> {
    let (mut found, mut open) = (Vec::new(), Vec::<Reference>::new());
    let (mut is_code, mut html) = (false, String::new());
    // The parser splits texts at characters such as `_`, and blocks of HTML into lines.
    for event in TextMergeStream::new(Parser::new(text)).chain([Event::SoftBreak]) {
        if let Event::Html(piece) = &event {
            html.push_str(piece);
            continue;
        }
        found.extend(images_of(&std::mem::take(&mut html)));
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Start(Tag::Image { dest_url, .. }) => {
                open.push(Reference { text: String::new(), url: dest_url.into_string(), is_image: true });
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                open.push(Reference { text: String::new(), url: dest_url.into_string(), is_image: false });
            }
            Event::End(TagEnd::Image | TagEnd::Link) => found.extend(open.pop()),
            Event::InlineHtml(html) => found.extend(images_of(&html)),
            Event::Text(piece) if !is_code && open.is_empty() => found.extend(bare(&piece)),
            Event::Text(piece) => {
                if let Some(reference) = open.last_mut() {
                    reference.text.push_str(&piece);
                }
            }
            _ => {}
        }
        if found.len() >= REFERENCES {
            break;
        }
    }
    found
}

/// Returns the addresses that stand in a text without markup. Hosts make links of them.
fn bare(text: &str) -> Vec<Reference> {
    let is_address = |word: &&str| word.starts_with("https://") || word.starts_with("http://");
    let words = text.split_whitespace().filter(is_address);
    let trimmed = words.map(|word| word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '>']));
    trimmed.map(|url| Reference { text: String::new(), url: url.to_owned(), is_image: false }).collect()
}

/// Returns the images in a piece of HTML.
fn images_of(html: &str) -> Vec<Reference> {
    let lower = html.to_ascii_lowercase();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = lower[at..].find("<img").map(|next| at + next + "<img".len()) {
        let end = tag_end(&html[next..]).map_or(html.len(), |end| next + end);
        if html[next..].starts_with(|c: char| c.is_ascii_whitespace() || c == '/') {
            let attribute =
                |name: &str| attribute(&html[next..end], name).map(|range| html[next..end][range].to_owned());
            if let Some(url) = attribute("src") {
                let text = attribute("alt").unwrap_or_default();
                found.push(Reference { text: unescaped(&text), url: unescaped(&url), is_image: true });
            }
        }
        at = end;
    }
    found
}

/// Returns the offset of the `>` that ends a tag: one that is not in the value of an attribute.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in tag.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

/// Returns the range of the value of an attribute in a tag.
fn attribute(tag: &str, wanted: &str) -> Option<Range<usize>> {
    let bytes = tag.as_bytes();
    let is_space = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/');
    let mut at = 0;
    while at < bytes.len() {
        while is_space(at) {
            at += 1;
        }
        let name = at;
        while at < bytes.len() && !is_space(at) && bytes[at] != b'=' {
            at += 1;
        }
        let name = name..at;
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        let value = if bytes.get(at) == Some(&b'=') {
            at += 1;
            while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
                at += 1;
            }
            match bytes.get(at) {
                Some(quote @ (b'"' | b'\'')) => {
                    let start = at + 1;
                    let end =
                        bytes[start..].iter().position(|byte| byte == quote).map_or(bytes.len(), |end| start + end);
                    at = end + 1;
                    start..end
                }
                _ => {
                    let start = at;
                    while at < bytes.len() && !bytes[at].is_ascii_whitespace() {
                        at += 1;
                    }
                    start..at
                }
            }
        } else {
            at..at
        };
        if tag.get(name.clone()).is_some_and(|name| name.eq_ignore_ascii_case(wanted)) {
            return Some(value);
        }
        if name.is_empty() && value.is_empty() {
            at += 1;
        }
    }
    None
}

/// Decodes the characters that are written as entities in the addresses of HTML.
fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

/// Returns the addresses of the images in a piece of HTML, in their order. GitHub writes addresses that are valid for some
/// minutes into the HTML of a comment.
#[must_use]
pub fn image_addresses(html: &str) -> Vec<String> {
    images_of(html).into_iter().map(|image| image.url).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_in_markdown_and_html_and_not_in_code() {
        let text = "![Screen shot.png](https://h/1 \"t\")\n\n<img width=\"7\" alt='a>b' src=\"https://h/2?a=1&amp;b=2\" />\n\n\
                    [log](https://h/3) [![x](https://h/4)](https://h/5)\nhttps://h/6.\n\n`![no](https://h/7)`\n\n```\n\
                    ![no](https://h/8) https://h/9\n```\n![ref][r]\n\n[r]: https://h/10\n<IMG SRC=https://h/11>";
        let found: Vec<_> = references(text).into_iter().map(|one| (one.text, one.url, one.is_image)).collect();
        let expected = [
            ("Screen shot.png", "https://h/1", true),
            ("a>b", "https://h/2?a=1&b=2", true),
            ("log", "https://h/3", false),
            ("x", "https://h/4", true),
            ("", "https://h/5", false),
            ("", "https://h/6", false),
            ("ref", "https://h/10", true),
            ("", "https://h/11", true),
        ];
        let expected: Vec<_> = expected.map(|(text, url, is)| (text.to_owned(), url.to_owned(), is)).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn broken_html_has_no_images_and_no_panic() {
        for html in
            ["<img", "<img src", "<img src=", "<img src='", "<imgx src=a>", "<img =a src>", "<img ä=ö src=\"ü\"", "<"]
        {
            let _ = images_of(html);
        }
        assert_eq!(image_addresses("<img alt=x src='a'><img src=b>"), ["a", "b"]);
        assert!(image_addresses("<imgx src=a>").is_empty());
    }
}
