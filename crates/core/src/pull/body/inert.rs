//! Makes Markdown from an agent inert on code hosts.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

/// Returns the text without effects on a code host, where a comment or description can do more than show text:
///
/// - `@name` notifies people, or starts another bot;
/// - a line that begins with `/` is a command on GitLab, such as `/merge`, with the rights of its author;
/// - HTML comments carry markers, among them our own.
///
/// Code in the text stays as it is, because hosts do not interpret it.
#[must_use]
pub fn inert(markdown: &str) -> String {
    let text = without_comments(markdown);
    let mut inert = String::with_capacity(text.len() + 16);
    let mut at = 0;
    for code in code(&text) {
        if code.start >= at {
            push_text(&mut inert, &text[at..code.start], at == 0 || text[..at].ends_with('\n'));
            inert.push_str(&text[code.clone()]);
            at = code.end;
        }
    }
    push_text(&mut inert, &text[at..], at == 0 || text[..at].ends_with('\n'));
    inert
}

/// Returns the ranges of code blocks and code spans, in order.
fn code(text: &str) -> Vec<Range<usize>> {
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let ranges = parser.filter_map(|(event, range)| match event {
        Event::Code(_) | Event::Start(Tag::CodeBlock(_)) => Some(range),
        _ => None,
    });
    ranges.collect()
}

/// Adds text outside of code, with a zero-width space after each `@` that could mention someone, and a backslash before
/// each command. Both are invisible.
fn push_text(inert: &mut String, text: &str, begins_line: bool) {
    let (mut before, mut begins_line) = (' ', begins_line);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or_default();
        if c == '/' && begins_line && next.is_alphabetic() {
            inert.push('\\');
        }
        inert.push(c);
        // Bitbucket writes names in braces.
        if c == '@' && !before.is_alphanumeric() && (next.is_alphanumeric() || next == '{') {
            inert.push('\u{200b}');
        }
        begins_line = c == '\n' || (begins_line && c.is_whitespace());
        before = c;
    }
}

/// Removes HTML comments. An opening without an end hides the rest of the text, so it is removed too.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(from) = rest.find("<!--") {
        kept.push_str(&rest[..from]);
        rest = match rest[from..].find("-->") {
            Some(to) => &rest[from + to + "-->".len()..],
            None => "",
        };
    }
    kept.push_str(rest);
    // Two halves of an opening may have met.
    if kept.contains("<!--") { without_comments(&kept) } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_and_commands_have_no_effect() {
        for (text, expected) in [
            ("thanks @ada, mail a@b.example", "thanks @\u{200b}ada, mail a@b.example"),
            ("(@acme/team)", "(@\u{200b}acme/team)"),
            ("@{557058:2a63}", "@\u{200b}{557058:2a63}"),
            ("/merge\n  /close now\n/ 2\nand/or", "\\/merge\n  \\/close now\n/ 2\nand/or"),
            ("@", "@"),
        ] {
            assert_eq!(inert(text), expected, "{text}");
        }
    }

    #[test]
    fn only_code_stays_as_it_is() {
        for (text, expected) in [
            ("`@decorator` and @ada", "`@decorator` and @\u{200b}ada"),
            ("```py\n@cached\n/merge\n```\n@ada", "```py\n@cached\n/merge\n```\n@\u{200b}ada"),
            ("````\n```\n@x\n````\n@ada", "````\n```\n@x\n````\n@\u{200b}ada"),
            ("- ```\n  @x\n  ```\n\n/close", "- ```\n  @x\n  ```\n\n\\/close"),
            // These look like code and are none.
            ("` @ada", "` @\u{200b}ada"),
            ("\\`@ada`", "\\`@\u{200b}ada`"),
            ("``` @ada ``", "``` @\u{200b}ada ``"),
            ("x ``` @ada ``", "x ``` @\u{200b}ada ``"),
            ("``` a ```\n@ada", "``` a ```\n@\u{200b}ada"),
        ] {
            assert_eq!(inert(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_are_removed() {
        for (text, expected) in [
            ("a <!-- x --> b", "a  b"),
            ("a <!-- journeyman:end", "a "),
            ("a <!<!-- -->-- x --> b", "a  b"),
            ("a --> b", "a --> b"),
        ] {
            assert_eq!(inert(text), expected, "{text}");
        }
    }
}
