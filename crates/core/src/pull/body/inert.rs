//! Makes Markdown from an agent inert on code hosts.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

/// Returns the text without effects on a code host, where a comment or description can do more than show text:
///
/// - `@name` notifies people, or starts another bot;
/// - a line that begins with `/` is a command on GitLab, such as `/merge`, with the rights of its author;
/// - HTML comments carry markers, among them our own.
///
/// Code in the text stays as it is, because hosts do not interpret it, except of lines that are commands: GitLab
/// recognizes less as code than CommonMark does, and a text that is cut or joined to others may no longer be code.
#[must_use]
pub fn inert(markdown: &str) -> String {
    let text = without_comments(markdown);
    let mut inert = String::with_capacity(text.len() + 16);
    let mut at = 0;
    for code in code(&text) {
        if code.start >= at {
            push_text(&mut inert, &text[at..code.start]);
            inert.push_str(&text[code.clone()]);
            at = code.end;
        }
    }
    push_text(&mut inert, &text[at..]);
    without_commands(&inert)
}

/// Adds a zero-width space before each line that is a command, which has one word of letters and `_`. A path such as
/// `/usr/bin` is none.
fn without_commands(text: &str) -> String {
    let is_command = |line: &str| {
        let Some(rest) = line.trim_start().strip_prefix('/') else { return false };
        let word = rest.split(char::is_whitespace).next().unwrap_or_default();
        word.starts_with(char::is_alphabetic) && word.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if is_command(line) {
            let command = line.trim_start();
            kept.push_str(&line[..line.len() - command.len()]);
            kept.push('\u{200b}');
            kept.push_str(command);
        } else {
            kept.push_str(line);
        }
    }
    kept
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

/// Adds text outside of code, with a zero-width space after each `@` that could mention someone.
fn push_text(inert: &mut String, text: &str) {
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or_default();
        inert.push(c);
        // Bitbucket writes names in braces.
        if c == '@' && !before.is_alphanumeric() && (next.is_alphanumeric() || next == '{') {
            inert.push('\u{200b}');
        }
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
    kept.replace("<!--", "&lt;!--")
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
            ("/merge\n  /close now\n/ 2\nand/or", "\u{200b}/merge\n  \u{200b}/close now\n/ 2\nand/or"),
            (
                "/usr/bin/env\n/tmp is full\n/re_open\r\n/a-b",
                "/usr/bin/env\n\u{200b}/tmp is full\n\u{200b}/re_open\r\n/a-b",
            ),
            // GitLab ends the quote at the second >>>, so the last command is not code there.
            (">>>\n```\n>>>\n/close\n```", ">>>\n```\n>>>\n\u{200b}/close\n```"),
            ("~~~\n/merge\n~~~", "~~~\n\u{200b}/merge\n~~~"),
            ("@", "@"),
        ] {
            assert_eq!(inert(text), expected, "{text}");
        }
    }

    #[test]
    fn only_code_stays_as_it_is() {
        for (text, expected) in [
            ("`@decorator` and @ada", "`@decorator` and @\u{200b}ada"),
            ("```py\n@cached\n/merge\n```\n@ada", "```py\n@cached\n\u{200b}/merge\n```\n@\u{200b}ada"),
            ("````\n```\n@x\n````\n@ada", "````\n```\n@x\n````\n@\u{200b}ada"),
            ("- ```\n  @x\n  ```\n\n/close", "- ```\n  @x\n  ```\n\n\u{200b}/close"),
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
            ("a <!<!-- -->-- x --> b", "a &lt;!-- x --> b"),
            ("a --> b", "a --> b"),
        ] {
            assert_eq!(inert(text), expected, "{text}");
        }
    }

    #[test]
    fn many_nested_comments_are_removed_in_one_pass() {
        let nested = format!("{}<!---->{}", "<!".repeat(50_000), "-->".repeat(50_000));
        assert!(!inert(&nested).contains("<!--"));
    }
}
