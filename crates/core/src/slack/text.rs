//! The notation of Slack: links, and the conversion of messages to plain text. [`crate::markdown`] writes texts of
//! others in it.

use crate::markdown::slack_line;

/// Returns a link in the notation of Slack.
#[must_use]
pub fn link(url: &str, text: &str) -> String {
    // In a link, a vertical bar ends the URL.
    format!("<{}|{}>", slack_line(&url.replace('|', "%7C")), slack_line(&text.replace('|', "/")))
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
    fn a_mention_is_found_at_the_beginning_and_anywhere() {
        assert_eq!(first_mention(" <@U1|ada> please"), Some("U1"));
        assert_eq!(first_mention("please <@U1>"), None);
        assert!(mentions("please <@U1>", "U1") && mentions("<@U1|ada>", "U1") && !mentions("<@U12>", "U1"));
    }
}
