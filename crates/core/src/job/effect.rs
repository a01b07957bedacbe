//! Effects: work outside the database that follows from a change of a job.
//!
//! A store writes each effect to the outbox in the transaction of the change. An effect is therefore neither lost nor
//! carried out for a change that was not stored. [`crate::outbox`] describes how effects are carried out.

use serde::{Deserialize, Serialize};

use crate::checks::StatusState;
use crate::code_host::{HostName, PullState};
use crate::ids::{JobId, MessageId, Sha};
use crate::job::event::Event;
use crate::job::{Job, Token};
use crate::message::Origin;

/// An effect. It may be carried out more than once, so it must be idempotent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Removes blobs of a job that are no longer needed.
    RemoveBlobs {
        /// The job.
        job: JobId,
        /// The newest lease whose blobs are considered; it has ended. `None` if the job was deleted: all of its blobs are
        /// removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        up_to: Option<Token>,
    },
    /// Reacts on the code host to the comments of a message that was accepted, or links the job on its issue.
    Acknowledge {
        /// The job.
        job: JobId,
        /// The message.
        message: MessageId,
    },
    /// Answers a message on the code host that it came from.
    Answer {
        /// The job.
        job: JobId,
        /// The message, which has ended.
        message: MessageId,
    },
    /// Comments on the code host why failed checks are not repaired.
    ReportChecks {
        /// The job.
        job: JobId,
        /// The commit.
        sha: Sha,
    },
    /// Comments on the code host why the pull request is not updated with its base.
    ReportOutdated {
        /// The job.
        job: JobId,
        /// The newest commit of the base.
        base: Sha,
    },
    /// Sets the status of a commit on the code host.
    SetStatus {
        /// The job.
        job: JobId,
        /// The commit.
        sha: Sha,
        /// The state.
        state: StatusState,
    },
    /// Removes a repository of the built-in code host with its pull requests and objects, unless a project uses it. A
    /// project that used it was deleted.
    RemoveRepository {
        /// The name of the repository.
        repository: String,
    },
}

impl Effect {
    /// The kind of [`Effect::RemoveBlobs`].
    pub const REMOVE_BLOBS: &str = "remove_blobs";

    /// The kind of [`Effect::Acknowledge`].
    pub const ACKNOWLEDGE: &str = "acknowledge";

    /// The kind of [`Effect::Answer`].
    pub const ANSWER: &str = "answer";

    /// The kind of [`Effect::ReportChecks`].
    pub const REPORT_CHECKS: &str = "report_checks";

    /// The kind of [`Effect::ReportOutdated`].
    pub const REPORT_OUTDATED: &str = "report_outdated";

    /// The kind of [`Effect::SetStatus`].
    pub const SET_STATUS: &str = "set_status";

    /// The kind of [`Effect::RemoveRepository`].
    pub const REMOVE_REPOSITORY: &str = "remove_repository";

    /// Returns the kind. A process claims only effects of kinds that it knows, so a process of an older version leaves
    /// new kinds to newer processes.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RemoveBlobs { .. } => Self::REMOVE_BLOBS,
            Self::Acknowledge { .. } => Self::ACKNOWLEDGE,
            Self::Answer { .. } => Self::ANSWER,
            Self::ReportChecks { .. } => Self::REPORT_CHECKS,
            Self::ReportOutdated { .. } => Self::REPORT_OUTDATED,
            Self::SetStatus { .. } => Self::SET_STATUS,
            Self::RemoveRepository { .. } => Self::REMOVE_REPOSITORY,
        }
    }
}

/// Returns the effect of an event; `job` is the state after the event.
#[must_use]
pub fn of_event(job: &Job, event: &Event) -> Option<Effect> {
    match event {
        // The run has stored the home of the agent and unpublished commits, which replace those of earlier runs.
        Event::RunFinished { .. } => Some(Effect::RemoveBlobs { job: job.id, up_to: Some(job.token) }),
        Event::MessageAccepted { message, .. } => {
            let source = message.source.as_ref();
            let is_on_host = source.is_some_and(|source| !source.comments.is_empty() || source.origin == Origin::Issue);
            is_on_host.then_some(Effect::Acknowledge { job: job.id, message: message.id })
        }
        Event::MessageEnded { message, is_answered: true, .. } => {
            Some(Effect::Answer { job: job.id, message: *message })
        }
        Event::ChecksSettled { report, stop: Some(_) } => {
            Some(Effect::ReportChecks { job: job.id, sha: report.sha.clone() })
        }
        Event::PullRequestOutdated { comparison, stop: Some(_), .. } => {
            Some(Effect::ReportOutdated { job: job.id, base: comparison.base_sha.clone() })
        }
        Event::RunStarted { .. } => {
            let is_open = job.pull.as_ref().is_some_and(|pull| pull.state == PullState::Open);
            status(job, StatusState::Pending).filter(|_| is_open)
        }
        Event::JobCompleted => status(job, StatusState::Success),
        Event::JobFailed(_) => status(job, StatusState::Failure),
        // The pull request may end while the agent works.
        Event::PullRequestState { pull, .. } => {
            let is_current = job.pull.as_ref().is_some_and(|known| known.is(pull));
            status(job, StatusState::Success).filter(|_| is_current)
        }
        Event::JobCreated(_)
        | Event::StopRequested
        | Event::MessageWithdrawn(_)
        | Event::MessageChanged { .. }
        | Event::LeaseRenewed { .. }
        | Event::TurnBegun(_)
        | Event::Answered { .. }
        | Event::Transcript { .. }
        | Event::TurnEnded { .. }
        | Event::CommitPushed { .. }
        | Event::PullRequestOpened { .. }
        | Event::PullRequestUpdated { .. }
        | Event::PullRequestDescribed(_)
        | Event::ChecksSettled { .. }
        | Event::RepairRequested { .. }
        | Event::PullRequestOutdated { .. }
        | Event::MessageEnded { .. }
        | Event::MessageWaiting { .. }
        | Event::RetryRequested
        | Event::PublishedWith { .. }
        | Event::ArchiveRequested
        | Event::JobArchived { .. }
        | Event::JobUnarchived => None,
    }
}

/// Returns the effect that sets the status of the newest commit on a code host.
fn status(job: &Job, state: StatusState) -> Option<Effect> {
    newest(job).map(|sha| Effect::SetStatus { job: job.id, sha: sha.clone(), state })
}

/// Returns the newest commit of the pull request on a code host; the built-in host has no statuses.
pub(super) fn newest(job: &Job) -> Option<&Sha> {
    let host = &job.pull.as_ref()?.repository.as_ref()?.host;
    job.branch.as_ref()?.pushed.as_ref().filter(|_| *host != HostName::local())
}

/// Returns the effect that completes the status of a commit, if an event has pushed a newer one; `job` is the state
/// after the event, and `before` was the newest commit before it.
#[must_use]
pub(super) fn of_older(before: Option<Sha>, job: &Job, event: &Event) -> Option<Effect> {
    let is_push = matches!(event, Event::CommitPushed { .. });
    let older = before.filter(|sha| is_push && newest(job) != Some(sha))?;
    Some(Effect::SetStatus { job: job.id, sha: older, state: StatusState::Success })
}

/// Returns the effect that says on the code host that a message was withdrawn; `job` is the state before the event.
#[must_use]
pub(super) fn of_withdrawn(job: &Job, event: &Event) -> Option<Effect> {
    let Event::MessageWithdrawn(message) = event else { return None };
    job.to_answer.contains(message).then_some(Effect::Answer { job: job.id, message: *message })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn stored_effects_stay_readable() {
        let job = JobId::from_uuid(Uuid::from_u128(7));
        let message = MessageId::from_uuid(Uuid::from_u128(8));
        let sha: Sha = "a".repeat(40).parse().unwrap();
        for (text, effect) in [
            (
                r#"{"kind":"remove_blobs","job":"job_00000000000000000000000000000007","up_to":3}"#,
                Effect::RemoveBlobs { job, up_to: Some(Token(3)) },
            ),
            (
                r#"{"kind":"remove_blobs","job":"job_00000000000000000000000000000007"}"#,
                Effect::RemoveBlobs { job, up_to: None },
            ),
            (
                r#"{"kind":"acknowledge","job":"job_00000000000000000000000000000007","message":"msg_00000000000000000000000000000008"}"#,
                Effect::Acknowledge { job, message },
            ),
            (
                r#"{"kind":"answer","job":"job_00000000000000000000000000000007","message":"msg_00000000000000000000000000000008"}"#,
                Effect::Answer { job, message },
            ),
            (
                r#"{"kind":"report_checks","job":"job_00000000000000000000000000000007","sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#,
                Effect::ReportChecks { job, sha: sha.clone() },
            ),
            (
                r#"{"kind":"report_outdated","job":"job_00000000000000000000000000000007","base":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#,
                Effect::ReportOutdated { job, base: sha.clone() },
            ),
            (
                r#"{"kind":"set_status","job":"job_00000000000000000000000000000007","sha":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","state":"pending"}"#,
                Effect::SetStatus { job, sha, state: StatusState::Pending },
            ),
            (
                r#"{"kind":"remove_repository","repository":"shop"}"#,
                Effect::RemoveRepository { repository: "shop".to_owned() },
            ),
        ] {
            assert_eq!(serde_json::from_str::<Effect>(text).unwrap(), effect);
            assert_eq!(serde_json::to_string(&effect).unwrap(), text);
            assert!(text.contains(&format!("\"kind\":\"{}\"", effect.kind())));
        }
    }
}
