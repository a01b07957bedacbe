//! Posts: the texts, reactions and statuses that the service sends to Slack.

use serde::{Deserialize, Serialize};

use super::thread::SlackThreadId;
use crate::ids::{JobId, MessageId, ProjectId};
use crate::time::Timestamp;

/// The content of a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlackPostContent {
    /// A text, in the notation of Slack.
    Text(String),
    /// A reaction to a message.
    Reaction {
        /// The timestamp of the message.
        ts: String,
        /// The name of the emoji.
        name: String,
    },
    /// The status of a message to a job. It changes until the message is final.
    Status {
        /// The project of the job.
        project: ProjectId,
        /// The job.
        job: JobId,
        /// The message.
        message: MessageId,
    },
}

/// A post to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSlackPost {
    /// The thread.
    pub thread: SlackThreadId,
    /// The purpose, unique in the thread: a second post for it is not stored.
    pub purpose: String,
    /// The content.
    pub content: SlackPostContent,
}

/// The state of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlackPostState {
    /// The post was not sent yet, or its status may still change.
    Open,
    /// Slack has accepted the final text.
    Done,
    /// Slack has refused the post, or failed in all attempts.
    Failed,
}

impl SlackPostState {
    /// Returns the name in the store and in the HTTP interface.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// A stored post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackPost {
    /// The number, in the order of creation.
    pub number: u64,
    /// The thread.
    pub thread: SlackThreadId,
    /// The purpose, unique in the thread.
    pub purpose: String,
    /// The content.
    pub content: SlackPostContent,
    /// The timestamp that Slack has given the message; `None` if it is not known to be posted.
    pub ts: Option<String>,
    /// The text that Slack shows.
    pub shown: Option<String>,
    /// The state.
    pub state: SlackPostState,
    /// The error of the last attempt, for people; `None` if it succeeded.
    pub detail: Option<String>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The number of claims: the fencing token.
    pub claims: u64,
    /// The number of failed attempts since the last success.
    pub failures: u32,
}

impl SlackPost {
    /// Returns the marker in the metadata of the message, by which a repeated attempt finds it.
    #[must_use]
    pub fn marker(&self) -> String {
        format!("{}/{}", self.thread.workspace, self.number)
    }

    /// Returns the error because of which Slack does not show the newest text: the post has failed, or is sent again.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self.state {
            SlackPostState::Done => None,
            SlackPostState::Open => self.detail.as_deref(),
            SlackPostState::Failed => Some(self.detail.as_deref().unwrap_or("it failed")),
        }
    }

    /// Returns whether an attempt before this one may have posted the message without storing it.
    #[must_use]
    pub const fn may_be_posted(&self) -> bool {
        self.ts.is_none() && self.claims > 1
    }
}

/// The result of an attempt at a post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackPosted {
    /// The number of the post.
    pub number: u64,
    /// The fencing token of the claim.
    pub claim: u64,
    /// The timestamp of the message, if it is known.
    pub ts: Option<String>,
    /// The text that Slack shows.
    pub shown: Option<String>,
    /// The state.
    pub state: SlackPostState,
    /// The error, for people.
    pub detail: Option<String>,
    /// The number of failed attempts since the last success.
    pub failures: u32,
    /// The time of the next attempt or status check; `None` if there is none.
    pub due_at: Option<Timestamp>,
    /// The time from which the channel accepts another message.
    pub free_at: Timestamp,
}
