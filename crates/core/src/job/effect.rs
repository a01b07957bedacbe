//! Effects: work outside the database that follows from a change of a job.
//!
//! A store writes each effect into the outbox in the transaction of the change. An effect is therefore neither lost, nor
//! carried out for a change that was not stored. [`crate::outbox`] describes what happens to it then.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::job::event::Event;
use crate::job::{Job, Token};

/// An effect. It may be carried out more than once, and must then have the same result as once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Remove the blobs of a job that nothing needs any more.
    RemoveBlobs {
        /// The job.
        job: JobId,
        /// Only blobs that were written by leases up to this one, which have ended. `None` if the job was deleted: all
        /// blobs are removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        up_to: Option<Token>,
    },
}

impl Effect {
    /// The kind of [`Effect::RemoveBlobs`].
    pub const REMOVE_BLOBS: &str = "remove_blobs";

    /// Returns the kind. A process takes only effects of kinds that it knows, so that a process of an older version
    /// leaves the others to newer ones.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RemoveBlobs { .. } => Self::REMOVE_BLOBS,
        }
    }
}

/// Returns the effect of an event; `job` is the state after the event.
#[must_use]
pub fn of_event(job: &Job, event: &Event) -> Option<Effect> {
    match event {
        // The run has stored the home of the agent and unpublished commits, which replace those of earlier runs.
        Event::RunFinished { .. } => Some(Effect::RemoveBlobs { job: job.id, up_to: Some(job.token) }),
        Event::JobCreated(_)
        | Event::MessageAccepted { .. }
        | Event::StopRequested
        | Event::MessageWithdrawn(_)
        | Event::RunStarted { .. }
        | Event::LeaseRenewed { .. }
        | Event::TurnBegun(_)
        | Event::Transcript { .. }
        | Event::TurnEnded { .. }
        | Event::CommitPushed { .. }
        | Event::PullRequestOpened { .. }
        | Event::PullRequestUpdated { .. }
        | Event::MessageEnded { .. }
        | Event::MessageWaiting { .. }
        | Event::RetryRequested
        | Event::PublishedWith { .. }
        | Event::ArchiveRequested
        | Event::JobCompleted
        | Event::JobFailed(_)
        | Event::JobArchived { .. }
        | Event::JobUnarchived => None,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn stored_effects_stay_readable() {
        let job = JobId::from_uuid(Uuid::from_u128(7));
        for (text, effect) in [
            (
                r#"{"kind":"remove_blobs","job":"job_00000000000000000000000000000007","up_to":3}"#,
                Effect::RemoveBlobs { job, up_to: Some(Token(3)) },
            ),
            (
                r#"{"kind":"remove_blobs","job":"job_00000000000000000000000000000007"}"#,
                Effect::RemoveBlobs { job, up_to: None },
            ),
        ] {
            assert_eq!(serde_json::from_str::<Effect>(text).unwrap(), effect);
            assert_eq!(serde_json::to_string(&effect).unwrap(), text);
            assert!(text.contains(&format!("\"kind\":\"{}\"", effect.kind())));
        }
    }
}
