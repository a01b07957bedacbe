//! The answer to a person whose comment led to nothing: a reaction, and the reason in the thread.

use super::Outcome;
use super::route::MARKER;
use crate::hook::HostUser;
use crate::markdown::gfm_line;
use crate::rate::RateState;

/// Returns the marker of an answer, by which a person gets it once in a conversation for each kind of reason: the name of
/// an outcome, or `waits`.
#[must_use]
pub fn marker(kind: &str, person: &HostUser) -> String {
    // An ID has no character that could end the comment on any host.
    let id: String = person.id.chars().filter(|c| c.is_ascii_alphanumeric() || "-_{}:".contains(*c)).collect();
    format!("{MARKER}refusal:{kind}:{id} -->")
}

/// Returns the answer to a person whose comment waits, because the messages of an hour are used up.
#[must_use]
pub fn waits(state: &RateState) -> String {
    let minutes = state.resets_in.as_secs().div_ceil(60).max(1);
    let (limit, plural) = (state.limit, if minutes == 1 { "" } else { "s" });
    format!(
        "This waits: the hourly limit of messages of the project ({limit}) is used up. Comments that wait are sent in about \
         {minutes} minute{plural}."
    )
}

/// Returns the reason for an outcome in Markdown of code hosts; `None` if the person did not ask for anything, or got what
/// they asked for. `detail` is the reason as a part of a sentence, if there is one.
#[must_use]
pub fn text(outcome: Outcome, detail: Option<&str>) -> Option<String> {
    let (usual, remedy) = match outcome {
        // Without a reason, the comment did not ask for anything.
        Outcome::NoJob | Outcome::NotAddressed if detail.is_some() => ("", ""),
        Outcome::NotPermitted => ("the author may not push to the repository", "Someone who may push can ask instead."),
        Outcome::TooLate => (
            "the agent had received the comment before it was changed",
            "Write another comment to correct it, or `@journeyman stop`.",
        ),
        Outcome::JobArchived => ("the job is archived", "Unarchive it on its page, and comment again."),
        Outcome::RateLimited => ("the limit of messages is used up", "Comment again later."),
        _ => return None,
    };
    // A detail says what to do itself. Text of the code host about its permissions is not for everyone who may read the
    // conversation.
    Some(match detail {
        Some(detail) if outcome != Outcome::NotPermitted => {
            format!("Nothing was done: {}.", gfm_line(detail.trim_end_matches('.')))
        }
        Some(detail) if !detail.ends_with(MAY_NOT_PUSH) => {
            "Nothing was done: it is not known whether everyone who has written or edited this may push to the repository. \
             The inbox of the project says why."
                .to_owned()
        }
        _ => format!("Nothing was done: {usual}. {remedy}"),
    })
}

/// The end of the detail for a person whose permission is known.
pub const MAY_NOT_PUSH: &str = "may not push to the repository";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_why_nothing_was_done() {
        for (outcome, detail, expected) in [
            (
                Outcome::NotPermitted,
                Some("eve may not push to the repository"),
                Some(
                    "Nothing was done: the author may not push to the repository. Someone who may push can ask instead.",
                ),
            ),
            (
                Outcome::NotPermitted,
                Some("the service does not know whether eve may push to the repository, so it did nothing: a secret"),
                Some(
                    "Nothing was done: it is not known whether everyone who has written or edited this may push to the \
                     repository. The inbox of the project says why.",
                ),
            ),
            (
                Outcome::JobArchived,
                None,
                Some("Nothing was done: the job is archived. Unarchive it on its page, and comment again."),
            ),
            (Outcome::RateLimited, Some("ask @team"), Some("Nothing was done: ask @`team`.")),
            (Outcome::NotAddressed, None, None),
            (Outcome::NoJob, None, None),
            (Outcome::NoJob, Some("it is merged."), Some("Nothing was done: it is merged.")),
            (Outcome::IgnoredBot, None, None),
            (Outcome::Message, None, None),
            (Outcome::Duplicate, None, None),
        ] {
            assert_eq!(text(outcome, detail).as_deref(), expected, "{outcome:?}");
        }
    }

    #[test]
    fn a_marker_is_one_comment() {
        let person = HostUser { id: "{a-b}--> x".to_owned(), name: "eve".to_owned(), is_bot: false };
        assert_eq!(marker("too_late", &person), "<!-- journeyman:refusal:too_late:{a-b}--x -->");
    }

    #[test]
    fn a_person_is_told_how_long_a_comment_waits() {
        for (seconds, expected) in [(0, "in about 1 minute."), (61, "in about 2 minutes.")] {
            let resets_in = std::time::Duration::from_secs(seconds);
            let text = waits(&RateState { limit: 100, remaining: 0, resets_in });
            assert!(text.contains("(100)") && text.contains(expected), "{text}");
        }
    }
}
