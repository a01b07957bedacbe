//! The outcomes of Slack events.

use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::inbox::InboxState;
use journeyman_core::ports::{Accepted, UpdateError};
use journeyman_core::slack::status::refused;
use journeyman_core::slack::{SlackInboxEvent, SlackOutcome, SlackPostContent, SlackThread};

use crate::inbox::Problem;
use crate::{Error, RefusalKind};

/// The outcome of a Slack event.
pub(super) struct Outcome {
    pub(super) state: InboxState,
    pub(super) outcome: SlackOutcome,
    pub(super) detail: Option<String>,
    pub(super) job: Option<(JobId, Option<MessageId>)>,
    pub(super) thread: Option<SlackThread>,
    pub(super) posts: Vec<(String, SlackPostContent)>,
}

impl Outcome {
    pub(super) const fn new(state: InboxState, outcome: SlackOutcome) -> Self {
        Self { state, outcome, detail: None, job: None, thread: None, posts: Vec::new() }
    }

    pub(super) const fn ignored(outcome: SlackOutcome) -> Self {
        Self::new(InboxState::Ignored, outcome)
    }

    pub(super) fn because(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Adds a reply for a purpose, which is posted once in a thread.
    pub(super) fn replying(mut self, purpose: impl Into<String>, text: String) -> Self {
        self.posts.push((purpose.into(), SlackPostContent::Text(text)));
        self
    }
}

/// The reason why an event has no outcome now.
pub(super) enum Delay {
    /// A failure that may pass.
    Failed(Problem),
    /// The event of the first message of the thread may arrive later.
    Early,
}

impl<E: std::error::Error> From<E> for Delay {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Returns the outcome of an accepted message: it gets a reaction, and its status is shown in the thread.
pub(super) fn done(
    event: &SlackInboxEvent,
    outcome: SlackOutcome,
    project: &ProjectId,
    accepted: &Accepted,
) -> Outcome {
    let job = accepted.record.id;
    let mut posts = vec![(
        "seen/".to_owned() + &event.ts,
        SlackPostContent::Reaction { ts: event.ts.clone(), name: "eyes".to_owned() },
    )];
    if let Some(message) = accepted.message {
        let status = SlackPostContent::Status { project: project.clone(), job, message };
        posts.push((format!("status/{message}"), status));
    }
    Outcome { job: Some((job, accepted.message)), posts, ..Outcome::new(InboxState::Done, outcome) }
}

/// Returns the outcome of a request that was refused, with a reply.
pub(super) fn not_done(event: &SlackInboxEvent, outcome: SlackOutcome, reason: String) -> Outcome {
    let reply = refused(&reason);
    Outcome::new(InboxState::Failed, outcome).because(reason).replying(format!("reply/{}", event.ts), reply)
}

/// Returns the outcome of an error, or that the event is carried out again because the error may pass.
pub(super) fn failed(event: &SlackInboxEvent, error: Error) -> Result<Outcome, Delay> {
    let outcome = match &error {
        Error::Store(_) | Error::Internal(_) | Error::Pull(_) | Error::Update(UpdateError::Store(_)) => {
            return Err(Delay::Failed(Problem(error.to_string())));
        }
        Error::Refused(refusal) => match refusal.kind {
            RefusalKind::CodeHostUnavailable => return Err(Delay::Failed(Problem(error.to_string()))),
            RefusalKind::ScopeMissing | RefusalKind::NotAdministrator => SlackOutcome::NotPermitted,
            _ => SlackOutcome::Refused,
        },
        Error::Update(UpdateError::RateLimited(..)) => SlackOutcome::RateLimited,
        Error::Update(_) | Error::Admin(_) => SlackOutcome::Refused,
    };
    Ok(not_done(event, outcome, error.to_string()))
}
