//! Events of the inbox in words.

use journeyman_core::hook::{CommentAction, CommentKind, HookContent, IssueAction};
use journeyman_core::inbox::{InboxState, Outcome};

/// Returns what became of an event, and what a person can do about it; an empty text if nothing needs to be done.
pub(in crate::pages) const fn outcome(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Message => ("Sent to the job", ""),
        Outcome::MessageChanged => ("The queued message was changed", ""),
        Outcome::MessageWithdrawn => ("The queued message was withdrawn", ""),
        Outcome::JobCreated => ("A job was created", ""),
        Outcome::Cancelled => ("The job was stopped", ""),
        Outcome::Helped => ("The list of commands was written", ""),
        Outcome::PullRecorded => ("The state of the pull request was recorded", ""),
        Outcome::ChecksQueued => ("The checks of the commit are read again", ""),
        Outcome::ComparisonQueued => ("Pull requests are compared with their bases again", ""),
        Outcome::NoProject => ("No project has this repository", "Create a project for it, if jobs should work on it."),
        Outcome::NoJob => ("No job belongs to it", ""),
        Outcome::NotAddressed => ("It does not address the service", "Mention the service, if it should act."),
        Outcome::NotPermitted => ("It is not permitted", "The author needs write access to the repository."),
        Outcome::IgnoredSelf => ("The service wrote it", ""),
        Outcome::IgnoredBot => {
            ("A bot wrote it", "Add the ID of the bot to trusted-bots, if its comments should count.")
        }
        Outcome::PartOfReview => ("Part of a review, which is a separate event", ""),
        Outcome::Duplicate => ("The same version is known", ""),
        Outcome::TooLate => ("The agent already had the message", "Comment again."),
        Outcome::Empty => ("It was deleted, has no text, or no longer mentions the service", ""),
        Outcome::JobArchived => ("The job is archived", "Unarchive the job, and comment again."),
        Outcome::RateLimited => ("The project's limit is used up", "Wait, or raise the limits of the project."),
        Outcome::NotUsed => ("Events of this kind are not used", ""),
        Outcome::Unreadable => {
            ("It could not be read", "Report it, with the version of the code host, as a bug of Journeyman.")
        }
        Outcome::GivenUp => ("All attempts failed for about a day", "Remove the cause, and comment again."),
        Outcome::Unknown => ("A newer version of Journeyman handled it", ""),
    }
}

/// Returns the text for an event that has no outcome yet.
pub(super) const fn pending(state: InboxState) -> &'static str {
    match state {
        InboxState::Waiting => "Waits for other comments, to become one message with them",
        _ => "Not read yet",
    }
}

/// Returns the class of a state's badge.
pub(super) const fn badge(state: InboxState) -> &'static str {
    match state {
        InboxState::Received => "queued",
        InboxState::Waiting => "waiting",
        InboxState::Done => "completed",
        InboxState::Ignored => "archived",
        InboxState::Failed => "failed",
    }
}

/// Returns what happened on the code host.
pub(super) fn kind(content: &HookContent) -> String {
    match content {
        HookContent::Comment { number, action, comment } => {
            let subject = match comment.kind {
                CommentKind::Issue => format!("issue #{number}"),
                CommentKind::Line => format!("a line of #{number}"),
                CommentKind::Pull | CommentKind::Review => format!("#{number}"),
            };
            format!("{} on {subject}", done(*action, "Comment", "Edited comment", "Deleted comment"))
        }
        HookContent::Review { number, action, .. } => {
            format!("{} of #{number}", done(*action, "Review", "Edited review", "Dismissed review"))
        }
        HookContent::Pull { number, state, .. } => format!("Pull request #{number} is {}", state.name()),
        HookContent::Issue { action, issue } => {
            let what = match action {
                IssueAction::Opened => "was opened".to_owned(),
                IssueAction::Labeled(label) => format!("got the label {label}"),
                IssueAction::Assigned(user) => format!("was assigned to {}", user.name),
                IssueAction::Changed { .. } => "got labels or was assigned".to_owned(),
                IssueAction::Updated | IssueAction::Other => "was changed".to_owned(),
            };
            format!("Issue #{} {what}", issue.number)
        }
        HookContent::Checks { sha, .. } => format!("Checks of {}", sha.as_str().get(..8).unwrap_or_default()),
        HookContent::Push { branches } => format!("Push to {}", branches.join(", ")),
        HookContent::Repository => "The repository was changed".to_owned(),
        HookContent::Access { .. } => "The service was given access".to_owned(),
        HookContent::Ping => "Test of the webhook".to_owned(),
        HookContent::Other => "Another event".to_owned(),
    }
}

const fn done(
    action: CommentAction,
    created: &'static str,
    edited: &'static str,
    deleted: &'static str,
) -> &'static str {
    match action {
        CommentAction::Created => created,
        CommentAction::Edited => edited,
        CommentAction::Deleted => deleted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_that_documents_name_has_its_own_words() {
        let all: std::collections::BTreeSet<&str> = Outcome::ALL.into_iter().map(|one| outcome(one).0).collect();
        assert_eq!(all.len(), Outcome::ALL.len());
    }
}
