//! The feed: the events that integrations receive, for all jobs of an installation in one order.
//!
//! The log of a job has everything that happens in it, also the agent's texts. The feed has only what other programs react
//! to: created and ended jobs, ended messages, pull requests, and checks. A store writes the events in the transaction of
//! the change, so that no event is lost, and none describes a change that was not stored.

mod cursor;

use std::time::Duration;

use serde_json::Value;

pub use self::cursor::{Expired, FeedCursor};
use crate::epoch::Gap;
use crate::ids::{JobId, ProjectId};
use crate::time::Timestamp;

/// The time for which a store keeps events of the feed.
pub const FEED_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Defines the types of events and their names.
macro_rules! kinds {
    ($(#[doc = $meaning:literal] $kind:ident = $name:literal,)*) => {
        /// The type of an event of the feed. New types may be added.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FeedKind {
            $(#[doc = $meaning] $kind,)*
        }

        impl FeedKind {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns the name that clients see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Returns the description for clients.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$kind => $meaning.trim_ascii(),)*
                }
            }
        }
    };
}

kinds! {
    /// A job was created.
    JobCreated = "job.created",
    /// The last message of a job finished, and its queue is empty.
    JobCompleted = "job.completed",
    /// The last message of a job did not finish, or the job was canceled.
    JobFailed = "job.failed",
    /// A job was archived.
    JobArchived = "job.archived",
    /// A job was unarchived.
    JobUnarchived = "job.unarchived",
    /// A message finished.
    MessageFinished = "message.finished",
    /// A message failed or was canceled after a run had taken it.
    MessageFailed = "message.failed",
    /// A job opened a pull request.
    PullRequestOpened = "pull_request.opened",
    /// A job pushed commits to its pull request.
    PullRequestUpdated = "pull_request.updated",
    /// A pull request of a job was merged.
    PullRequestMerged = "pull_request.merged",
    /// A pull request of a job was closed without being merged.
    PullRequestClosed = "pull_request.closed",
    /// A closed pull request of a job was opened again.
    PullRequestReopened = "pull_request.reopened",
    /// All checks of the newest commit of a pull request have finished.
    ChecksSettled = "checks.settled",
    /// A run failed because a model call could have exceeded a budget.
    BudgetReached = "budget.reached",
}

impl FeedKind {
    /// Finds a type by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// An event of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEvent {
    /// The type.
    pub kind: FeedKind,
    /// The time of the change.
    pub at: Timestamp,
    /// The project of the job.
    pub project: ProjectId,
    /// The job.
    pub job: JobId,
    /// The data that clients receive, as a JSON object.
    pub data: Value,
}

/// A stored event of the feed. Its type is a name, because a newer version may have stored it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// The position in the feed, from 1. Later events have larger numbers, and every event that is stored after one was
    /// read has a larger number than that one. Each epoch of the database begins with a jump ([`crate::epoch`]), so no
    /// two events ever have the same number.
    pub position: u64,
    /// The name of the type.
    pub kind: String,
    /// The time of the change.
    pub at: Timestamp,
    /// The project of the job.
    pub project: ProjectId,
    /// The job.
    pub job: JobId,
    /// The data that clients receive, as a JSON object.
    pub data: Value,
}

/// A selection of events of the feed, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedQuery {
    /// Only events of these projects; `None` means all projects.
    pub projects: Option<Vec<ProjectId>>,
    /// Only events with these types; empty means all types.
    pub kinds: Vec<FeedKind>,
    /// Only events after this position.
    pub after: u64,
    /// The maximum number of events.
    pub limit: usize,
}

/// The ends of the feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedEnds {
    /// The position of the oldest event that is still stored; `None` if there is none.
    pub oldest: Option<u64>,
    /// The position of the newest event that was ever stored; 0 if there was none.
    pub newest: u64,
    /// The positions that no event has, because a history that is lost may have used them.
    pub gaps: Vec<Gap>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_name_of_its_own() {
        for kind in FeedKind::ALL {
            assert_eq!(FeedKind::from_name(kind.name()), Some(*kind));
            assert!(kind.meaning().ends_with('.'), "{kind:?}");
        }
        assert_eq!(FeedKind::from_name("job.exploded"), None);
    }
}
