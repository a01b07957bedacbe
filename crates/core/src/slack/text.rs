//! Conversion between the notation of Slack and plain text or Markdown.

/// Escapes a text, so that Slack shows it as it is.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns a link in the notation of Slack.
#[must_use]
pub fn link(url: &str, text: &str) -> String {
    // In a link, a vertical bar ends the URL.
    format!("<{}|{}>", escape(&url.replace('|', "%7C")), escape(&text.replace(['|', '\n'], " ")))
}

/// Cuts a text to a number of characters.
#[must_use]
pub fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Converts a message of Slack to plain text. The mention of the bot is left out.
#[must_use]
pub fn to_plain(text: &str, bot: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(before);
        let Some((inner, after)) = after.split_once('>') else {
            plain.push('<');
            rest = after;
            continue;
        };
        plain.push_str(&plain_of(inner, bot));
        rest = after;
    }
    plain.push_str(rest);
    let plain = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    plain.trim().to_owned()
}

/// Returns the plain text of what Slack writes between angle brackets.
fn plain_of(inner: &str, bot: &str) -> String {
    let (target, label) = match inner.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (inner, None),
    };
    match (target.chars().next(), label) {
        (Some('@'), _) if target.get(1..) == Some(bot) => String::new(),
        (Some('@'), label) => format!("@{}", label.unwrap_or(target).trim_start_matches('@')),
        (Some('#'), label) => format!("#{}", label.unwrap_or(target).trim_start_matches('#')),
        (Some('!'), Some(label)) => label.to_owned(),
        (Some('!'), None) => format!("@{}", target.trim_start_matches('!')),
        (_, Some(label)) if target == label || target == format!("http://{label}") => target.to_owned(),
        (_, Some(label)) => format!("{label} ({target})"),
        (_, None) => target.trim_start_matches("mailto:").to_owned(),
    }
}

/// Returns the ID of the person that a message mentions first, if it begins with a mention.
#[must_use]
pub fn first_mention(text: &str) -> Option<&str> {
    let (inner, _) = text.trim_start().strip_prefix("<@")?.split_once('>')?;
    Some(inner.split('|').next().unwrap_or(inner))
}

/// Returns whether a message mentions a person.
#[must_use]
pub fn mentions(text: &str, user: &str) -> bool {
    text.contains(&format!("<@{user}>")) || text.contains(&format!("<@{user}|"))
}

/// Converts Markdown to the notation of Slack. Code stays as it is. The result mentions no one: every angle bracket of
/// the text is escaped.
#[must_use]
pub fn from_markdown(markdown: &str) -> String {
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            lines.push("```".to_owned());
        } else if is_code {
            lines.push(escape(line));
        } else {
            lines.push(line_from_markdown(line));
        }
    }
    if is_code {
        lines.push("```".to_owned());
    }
    lines.join("\n")
}

fn line_from_markdown(line: &str) -> String {
    let title = line.trim_start_matches('#');
    let is_title = title.len() < line.len() && line.len() - title.len() <= 6 && title.starts_with(' ');
    if is_title {
        return format!("*{}*", spans(&title.trim().replace("**", "")));
    }
    let indent = line.len() - line.trim_start().len();
    let (spaces, text) = line.split_at(indent);
    match text.strip_prefix("* ").or_else(|| text.strip_prefix("- ")) {
        Some(item) => format!("{spaces}• {}", spans(item)),
        None => format!("{spaces}{}", spans(text)),
    }
}

/// Converts the emphasis, links and code of a line.
fn spans(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    // Every second piece is code. A single backtick begins none.
    let pieces: Vec<&str> = line.split('`').collect();
    let last = pieces.len() - 1;
    for (place, piece) in pieces.iter().enumerate() {
        let is_code = place % 2 == 1 && place < last;
        if place > 0 {
            text.push('`');
        }
        text.push_str(&if is_code { escape(piece) } else { links(piece) });
    }
    text
}

/// Converts links, and the emphasis around them.
fn links(text: &str) -> String {
    let mut converted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, label, url, after)) = next_link(rest) {
        converted.push_str(&emphasis(before));
        converted.push_str(&link(url, label));
        rest = after;
    }
    converted.push_str(&emphasis(rest));
    converted
}

/// Returns the first link of a text: what is before it, its label, its URL, and what is after it.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = text.find("](")?;
    let start = text.get(..middle)?.rfind('[')?;
    let (url, after) = text.get(middle + 2..)?.split_once(')')?;
    let is_link = (url.starts_with("https://") || url.starts_with("http://")) && !url.contains(char::is_whitespace);
    let (before, label) = (text.get(..start)?, text.get(start + 1..middle)?);
    is_link.then_some((before, label, url, after))
}

fn emphasis(text: &str) -> String {
    escape(text).replace("**", "*").replace("__", "*").replace("~~", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_plain_text_without_the_mention_of_the_bot() {
        for (text, plain) in [
            ("<@UBOT> fix it", "fix it"),
            ("<@UBOT|journeyman> fix it", "fix it"),
            ("ask <@U2|ada> or <@U3>", "ask @ada or @U3"),
            ("in <#C1|general> and <#C2>", "in #general and #C2"),
            ("see <https://a.example/x|the page>", "see the page (https://a.example/x)"),
            ("see <https://a.example/x>", "see https://a.example/x"),
            ("see <http://a.example|a.example>", "see http://a.example"),
            ("<mailto:a@b.example|a@b.example>", "a@b.example (mailto:a@b.example)"),
            ("<!here> <!subteam^S1|@team>", "@here @team"),
            ("if a &lt; b &amp;&amp; c &gt; d", "if a < b && c > d"),
            ("&amp;lt;", "&lt;"),
            ("a < b", "a < b"),
        ] {
            assert_eq!(to_plain(text, "UBOT"), plain, "{text}");
        }
    }

    #[test]
    fn markdown_becomes_the_notation_of_slack() {
        for (markdown, expected) in [
            ("# Title", "*Title*"),
            ("####### no title", "####### no title"),
            ("#no title", "#no title"),
            ("**bold** and ~~gone~~", "*bold* and ~gone~"),
            ("- one\n  - two", "• one\n  • two"),
            ("[page](https://a.example/x) here", "<https://a.example/x|page> here"),
            ("[page](javascript:alert)", "[page](javascript:alert)"),
            ("`a < b` **c**", "`a &lt; b` *c*"),
            ("a ` b **c**", "a ` b *c*"),
            ("```rust\nif a < b {}\n**x**\n```", "```\nif a &lt; b {}\n**x**\n```"),
            ("```\nnever closed", "```\nnever closed\n```"),
            ("<!channel> & <@U1>", "&lt;!channel&gt; &amp; &lt;@U1&gt;"),
            ("[<!here>](https://a.example/|x)", "<https://a.example/%7Cx|&lt;!here&gt;>"),
        ] {
            assert_eq!(from_markdown(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn a_mention_is_found_at_the_beginning_and_anywhere() {
        assert_eq!(first_mention(" <@U1|ada> please"), Some("U1"));
        assert_eq!(first_mention("please <@U1>"), None);
        assert!(mentions("please <@U1>", "U1") && mentions("<@U1|ada>", "U1") && !mentions("<@U12>", "U1"));
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!((cut("äöü", 3), cut("äöüß", 3)), ("äöü".to_owned(), "äö…".to_owned()));
    }
}
