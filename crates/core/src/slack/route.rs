//! The meaning of a message: what it asks the service to do.

use super::text::{first_mention, mentions, to_plain};
use super::{SlackContent, SlackEvent, SlackText};
use crate::user::{TokenHash, is_token};

/// The text of a message whose code was removed.
const HIDDEN_CODE: &str = "link [code]";

/// The options at the beginning of a message that creates a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskOptions {
    /// The model, instead of the project's.
    pub model: Option<String>,
    /// The name of an effort, instead of the project's.
    pub effort: Option<String>,
    /// The agent, instead of the project's.
    pub agent: Option<String>,
    /// The branch to push to, instead of a generated one.
    pub branch: Option<String>,
    /// The ref to start from, instead of the project's.
    pub reference: Option<String>,
    /// The project, which must be that of the channel.
    pub project: Option<String>,
}

/// A request of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The message does not address the service.
    Nothing,
    /// Connects the account with the user who has got the code with this hash.
    Link(TokenHash),
    /// Nothing: the message has a code, but everyone in the channel can read it.
    PublishedCode,
    /// Explains the commands.
    Help,
    /// Shows the status of the job.
    Status,
    /// Cancels the job.
    Stop,
    /// Creates a job, or sends a message to the job of the thread.
    Prompt(String),
}

/// Returns whether an event may ask for something, so that it is stored. Most messages of a channel are neither a mention
/// nor a reply.
#[must_use]
pub fn is_used(event: &SlackEvent, bot: &str) -> bool {
    let is_reply = event.thread != event.ts;
    match &event.content {
        SlackContent::Sent(message) => {
            let is_addressed = message.is_mention || message.is_direct || message.code.is_some();
            message.user != bot && (is_addressed || is_reply)
        }
        SlackContent::Edited(message) => message.user != bot && (is_reply || mentions(&message.text, bot)),
        SlackContent::Deleted => true,
    }
}

/// Replaces the text of a message `link CODE`, so that the code is not stored, and keeps the hash of the code. Outside of
/// direct messages, a word is a code only if it has the form of one, because `link` may begin a prompt.
pub fn hide_code(message: &mut SlackText, bot: &str) {
    let plain = to_plain(&message.text, bot);
    let mut words = plain.split_whitespace().skip_while(|word| word.starts_with('@'));
    let (Some(first), Some(second)) = (words.next(), words.next()) else { return };
    if !first.trim_end_matches(':').eq_ignore_ascii_case("link") {
        return;
    }
    let code = second.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_only_word = words.next().is_none();
    if is_token(code) || (message.is_direct && is_only_word) {
        message.code = Some(TokenHash::of(code));
        HIDDEN_CODE.clone_into(&mut message.text);
    }
}

/// Returns what a message asks for. `is_in_thread` is true if it is in the thread of a job.
///
/// In the thread of a job, each message is for the job, unless it begins with the mention of another person. Elsewhere, a
/// message must mention the bot, or be sent to it directly.
#[must_use]
pub fn ask(message: &SlackText, bot: &str, is_in_thread: bool) -> Ask {
    if let Some(code) = message.code {
        return if message.is_direct { Ask::Link(code) } else { Ask::PublishedCode };
    }
    let is_addressed = message.is_mention || message.is_direct || mentions(&message.text, bot);
    let is_for_other = first_mention(&message.text).is_some_and(|first| first != bot) && !is_addressed;
    if is_for_other || (!is_in_thread && !is_addressed) {
        return Ask::Nothing;
    }
    let plain = to_plain(&message.text, bot);
    match plain.to_lowercase().as_str() {
        "" | "help" => return Ask::Help,
        "status" => return Ask::Status,
        "stop" | "cancel" => return Ask::Stop,
        _ => {}
    }
    Ask::Prompt(plain)
}

/// Splits the options off the beginning of a message. An option that is given twice has its last value.
#[must_use]
pub fn options(text: &str) -> (AskOptions, &str) {
    let mut options = AskOptions::default();
    let mut rest = text.trim_start();
    loop {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let Some((name, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else { break };
        let slot = match name {
            "model" => &mut options.model,
            "effort" => &mut options.effort,
            "agent" => &mut options.agent,
            "branch" => &mut options.branch,
            "ref" => &mut options.reference,
            "project" => &mut options.project,
            _ => break,
        };
        *slot = Some(value.to_owned());
        rest = after.trim_start();
    }
    (options, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOT: &str = "UBOT";

    fn message(text: &str) -> SlackText {
        let is_mention = mentions(text, BOT);
        SlackText { user: "U1".to_owned(), text: text.to_owned(), is_mention, ..SlackText::default() }
    }

    fn prompt(text: &str) -> Ask {
        Ask::Prompt(text.to_owned())
    }

    #[test]
    fn a_message_must_mention_the_bot_outside_of_a_thread() {
        for (text, expected) in [
            ("Fix it.", Ask::Nothing),
            ("<@U2> Fix it.", Ask::Nothing),
            ("<@UBOT> Fix it.", prompt("Fix it.")),
            ("Please <@UBOT|jm> fix it.", prompt("Please  fix it.")),
            ("<@UBOT>", Ask::Help),
            ("<@UBOT> HELP", Ask::Help),
            ("<@UBOT> status", Ask::Status),
            ("<@UBOT> stop", Ask::Stop),
            ("<@UBOT> Cancel", Ask::Stop),
            ("<@UBOT> stop the server", prompt("stop the server")),
            ("<@UBOT> link abc", prompt("link abc")),
        ] {
            assert_eq!(ask(&message(text), BOT, false), expected, "{text}");
        }
    }

    #[test]
    fn a_reply_is_for_the_job_unless_it_begins_with_another_person() {
        for (text, expected) in [
            ("Also the tests.", prompt("Also the tests.")),
            ("<@U2> what do you think?", Ask::Nothing),
            ("<@U2> and <@UBOT> look", prompt("@U2 and  look")),
            ("ask <@U2>", prompt("ask @U2")),
            ("stop", Ask::Stop),
        ] {
            assert_eq!(ask(&message(text), BOT, true), expected, "{text}");
        }
    }

    fn asked(mut message: SlackText) -> (Ask, String) {
        hide_code(&mut message, BOT);
        (ask(&message, BOT, true), message.text)
    }

    #[test]
    fn a_code_is_accepted_only_in_a_direct_message_and_never_kept() {
        let code = "0123456789abcdef".repeat(4);
        let direct = |text: &str| SlackText { is_direct: true, ..message(text) };
        let link = |code: &str| (Ask::Link(TokenHash::of(code)), HIDDEN_CODE.to_owned());
        for text in [format!("link {code}"), format!("LINK `{code}`"), format!("link: {code} please")] {
            assert_eq!(asked(direct(&text)), link(&code), "{text}");
            let published = (Ask::PublishedCode, HIDDEN_CODE.to_owned());
            for text in [text.clone(), format!("<@UBOT> {text}"), format!("<@UBOT|jm> <@U2> {text}")] {
                assert_eq!(asked(message(&text)), published, "{text}");
            }
        }
        assert_eq!(asked(direct("link ab12")), link("ab12"), "a wrong code");
        assert_eq!(asked(direct("link the pages")).0, prompt("link the pages"));
        for text in ["link abc", "link the pages", &format!("revert {code}")] {
            assert_eq!(asked(message(text)), (prompt(text), text.to_owned()));
        }
    }

    #[test]
    fn options_are_read_only_at_the_beginning() {
        let (found, rest) = options("model=a/b  agent=codex\nFix x=1 model=c");
        assert_eq!((found.model.as_deref(), found.agent.as_deref()), (Some("a/b"), Some("codex")));
        assert_eq!(rest, "Fix x=1 model=c");
        assert_eq!(options("effort=high Fix it").0.effort.as_deref(), Some("high"));
        for text in ["x=1 is wrong", "model= is empty", "Fix it."] {
            assert_eq!(options(text), (AskOptions::default(), text), "{text}");
        }
        assert_eq!(options("branch=a ref=main project=shop").1, "");
    }

    #[test]
    fn most_messages_of_a_channel_are_not_stored() {
        let event = |thread: &str, content| SlackEvent {
            event_id: "Ev1".to_owned(),
            team: "T1".to_owned(),
            channel: "C1".to_owned(),
            thread: thread.to_owned(),
            ts: "2.0".to_owned(),
            content,
            installations: Vec::new(),
            author_team: None,
        };
        let sent = |text: &str| SlackContent::Sent(message(text));
        let own = SlackContent::Sent(SlackText { user: BOT.to_owned(), ..message("<@UBOT>") });
        let code = SlackContent::Sent(SlackText { code: Some(TokenHash([1; 32])), ..message(HIDDEN_CODE) });
        for (event, expected) in [
            (event("2.0", sent("Hello.")), false),
            (event("1.0", sent("Hello.")), true),
            (event("2.0", sent("<@UBOT>")), true),
            (event("1.0", own), false),
            (event("2.0", code), true),
            (event("1.0", SlackContent::Deleted), true),
        ] {
            assert_eq!(is_used(&event, BOT), expected, "{event:?}");
        }
    }
}
