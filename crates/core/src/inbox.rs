//! The inbox: events of code hosts, which are stored before they are answered and become messages later.
//!
//! An event passes through these states:
//!
//! 1. **received**: the event is stored as it arrived. A process claims it, reads it, and decides what it means
//!    ([`route`]).
//! 2. **waiting**: the event belongs to a job, and waits for others of the same job. When nothing more arrives for some
//!    time ([`due_at`]), the events of the job become one message ([`batch`]).
//! 3. **done**, **ignored** or **failed**: the event led to something, to nothing, or could not be carried out. The
//!    outcome says why.
//!
//! A message and the states of its events are stored in one transaction.

pub mod answer;
pub mod around;
pub mod batch;
pub mod earlier;
pub mod files;
pub mod form;
pub mod issue;
pub mod part;
pub mod quoted;
pub mod refusal;
pub mod review;
pub mod route;
pub mod sections;
mod suggested;
pub mod text;
pub mod threads;
pub mod version;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::code_host::{CodeHostId, HostName};
use crate::hook::HookEvent;
use crate::ids::{JobId, MessageId, ProjectId};
use crate::project::LONGEST_SETTLE_SECONDS;
use crate::time::Timestamp;

/// The time for which a claimed event is hidden from other processes: the delay after the death of a process.
pub const INBOX_LEASE: Duration = Duration::from_secs(30);

/// The time limit of a decision about an event, and of making a message. It is shorter than the lease.
pub const INBOX_LIMIT: Duration = Duration::from_secs(25);

/// The time for which an event is kept after its arrival. Code hosts redeliver webhooks for at most 30 days (GitLab).
pub const INBOX_LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// The number of failed attempts after which an event is given up: about a day.
pub const MAX_ATTEMPTS: u32 = 300;

/// The largest body of a webhook, in bytes. GitHub sends at most 25 MB.
pub const MOST_BYTES: usize = 25 << 20;

/// The content of an event that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The body of a webhook, which was not read yet.
    Raw(Vec<u8>),
    /// An event in the form of all hosts.
    Read(Box<HookEvent>),
}

/// An event to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// The code host.
    pub host: HostName,
    /// The ID of the code host; `None` for the built-in one.
    pub code_host: Option<CodeHostId>,
    /// The project that the URL of the webhook names.
    pub project: Option<ProjectId>,
    /// The ID of the delivery, unique for the host. A redelivery has the same.
    pub delivery: String,
    /// The name of the event, as the host writes it.
    pub event: String,
    /// The content.
    pub content: Content,
    /// The time of the arrival.
    pub at: Timestamp,
}

/// The state of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxState {
    /// The event was not read yet.
    Received,
    /// The event waits for others of the same job.
    Waiting,
    /// The event led to something.
    Done,
    /// The event led to nothing.
    Ignored,
    /// The event could not be carried out.
    Failed,
}

impl InboxState {
    /// Returns the name in the store and in the HTTP interface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Ignored => "ignored",
            Self::Failed => "failed",
        }
    }
}

/// The outcome of an event, as a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The event became part of a message to a job.
    Message,
    /// A job was created.
    JobCreated,
    /// A queued message was changed, because one of its comments was edited.
    MessageChanged,
    /// A queued message was withdrawn, because its comments were deleted.
    MessageWithdrawn,
    /// The job was canceled on request.
    Cancelled,
    /// A comment with the commands was written.
    Helped,
    /// The state of a pull request was recorded.
    PullRecorded,
    /// The checks of a commit are read again.
    ChecksQueued,
    /// The pull requests of the repository are compared with their bases again.
    ComparisonQueued,
    /// The service itself caused the event.
    IgnoredSelf,
    /// A bot that is not trusted caused the event.
    IgnoredBot,
    /// No project has the repository.
    NoProject,
    /// No job works on the pull request or issue.
    NoJob,
    /// The comment does not address the service.
    NotAddressed,
    /// The author may not push to the repository.
    NotPermitted,
    /// The comment is part of a review, which is reported separately.
    PartOfReview,
    /// The same comment in the same version was handled before.
    Duplicate,
    /// The comment was edited or deleted after the agent had received it.
    TooLate,
    /// The comment was deleted before it became a message, is empty, or no longer mentions the service.
    Empty,
    /// The job is archived.
    JobArchived,
    /// The limit of messages is used up.
    RateLimited,
    /// The event is of a kind that the service does not use.
    NotUsed,
    /// The body could not be read.
    Unreadable,
    /// The code host or the store failed in all attempts.
    GivenUp,
    /// An outcome that a newer version has stored and this version does not know.
    #[serde(other)]
    Unknown,
}

impl Outcome {
    /// All outcomes that this version knows, without [`Outcome::Unknown`].
    pub const ALL: [Self; 24] = [
        Self::Message,
        Self::MessageChanged,
        Self::MessageWithdrawn,
        Self::JobCreated,
        Self::Cancelled,
        Self::Helped,
        Self::PullRecorded,
        Self::ChecksQueued,
        Self::ComparisonQueued,
        Self::NoProject,
        Self::NoJob,
        Self::NotAddressed,
        Self::NotPermitted,
        Self::IgnoredSelf,
        Self::IgnoredBot,
        Self::PartOfReview,
        Self::Duplicate,
        Self::TooLate,
        Self::Empty,
        Self::JobArchived,
        Self::RateLimited,
        Self::NotUsed,
        Self::Unreadable,
        Self::GivenUp,
    ];

    /// Returns the name in the store, in the HTTP interface and in URLs.
    #[must_use]
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.as_ref().and_then(|name| name.as_str()).unwrap_or_default().to_owned()
    }

    /// Finds an outcome by its [`Outcome::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// An event in the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEvent {
    /// The number, in the order of arrival.
    pub number: u64,
    /// The code host.
    pub host: HostName,
    /// The ID of the code host; `None` for the built-in one.
    pub code_host: Option<CodeHostId>,
    /// The project, if it is known.
    pub project: Option<ProjectId>,
    /// The ID of the delivery.
    pub delivery: String,
    /// The name of the event, as the host writes it.
    pub event: String,
    /// The time of the arrival.
    pub received_at: Timestamp,
    /// The state.
    pub state: InboxState,
    /// The outcome of the event; `None` while it is received or waiting.
    pub outcome: Option<Outcome>,
    /// The explanation of the outcome, for people.
    pub detail: Option<String>,
    /// The content; `None` if a body was removed because it could not be read or is not used.
    pub content: Option<Content>,
    /// The job.
    pub job: Option<JobId>,
    /// The message that the event became part of.
    pub message: Option<MessageId>,
    /// The number of attempts: the fencing token of a claim.
    pub attempts: u32,
}

impl InboxEvent {
    /// Returns the event, if it was read.
    #[must_use]
    pub fn read(&self) -> Option<&HookEvent> {
        match &self.content {
            Some(Content::Read(event)) => Some(event),
            _ => None,
        }
    }
}

/// The decision about a claimed event, to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The project, if it is known.
    pub project: Option<ProjectId>,
    /// The job, if it is known.
    pub job: Option<JobId>,
    /// The event, if it was read.
    pub event: Option<Box<HookEvent>>,
    /// The key of the comment or review in its version, by which duplicates are found.
    pub subject: Option<String>,
    /// The next step.
    pub next: Next,
}

/// The next step for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The event is final.
    Ends {
        /// The state.
        state: InboxState,
        /// The outcome.
        outcome: Outcome,
        /// The explanation, for people.
        detail: Option<String>,
    },
    /// The event waits for others of its job, until this time.
    Waits(Timestamp),
    /// The event is read again at this time, because the code host or the store failed.
    Retries(Timestamp),
}

/// Returns the time at which the waiting events of a job become a message. A submitted review is complete, so it does not
/// wait; other comments wait until nothing more has arrived for `settle`, at most [`LONGEST_SETTLE_SECONDS`] after the
/// first.
#[must_use]
pub fn due_at(first: Timestamp, now: Timestamp, is_review: bool, settle: Duration) -> Timestamp {
    let longest = first + Duration::from_secs(LONGEST_SETTLE_SECONDS.into());
    if is_review { now } else { (now + settle).min(longest.max(now)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_found_by_its_name() {
        assert_eq!(Outcome::IgnoredSelf.name(), "ignored_self");
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(&outcome.name()), Some(outcome));
        }
        for name in ["", "unknown", "Message", "lost"] {
            assert_eq!(Outcome::parse(name), None, "{name}");
        }
    }

    #[test]
    fn comments_wait_for_others_but_not_for_ever() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let settle = Duration::from_secs(20);
        for (first, now, is_review, expected) in
            [(0, 0, false, 20), (0, 15, false, 35), (0, 110, false, 120), (0, 130, false, 130), (0, 15, true, 15)]
        {
            assert_eq!(due_at(at(first), at(now), is_review, settle), at(expected), "{first} {now}");
        }
    }
}
