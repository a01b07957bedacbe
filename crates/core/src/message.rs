//! A message: one input to a job. The prompt that creates a job is its first message.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::code_host::PullRepository;
use crate::conversation::{InThread, Permission};
use crate::diff_stat::MessageDiff;
use crate::hook::CommentKind;
use crate::ids::{JobId, KeyId, MessageId, RunId, Sha};
use crate::markdown::cut;
use crate::position::Thread;
use crate::time::Timestamp;
use crate::trace::TraceParent;

/// The maximum length of a stored answer, in characters; longer answers are cut off.
pub const MAX_ANSWER_CHARS: usize = 100_000;

/// The maximum number of queued messages of one job.
pub const MAX_QUEUED: usize = 100;

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The HTTP interface.
    Api,
    /// A person who uses the dashboard.
    Dashboard,
    /// A comment on a pull request of the built-in code host, which an older version accepted.
    PullRequest,
    /// Comments on a pull request.
    Comment,
    /// A submitted review of a pull request.
    Review,
    /// Failed checks of a pull request.
    Check,
    /// An issue.
    Issue,
    /// A message in Slack.
    Slack,
    /// A pull request that conflicts with its base branch, or is behind it.
    Update,
}

impl Origin {
    /// Returns the origin that an older version can read, for the column that it reads. [`MessageSource::origin`] has
    /// the origin itself, or [`Origin::newer`] for messages that came from no code host.
    #[must_use]
    pub const fn known_to_older_versions(self) -> Self {
        match self {
            Self::Api | Self::Dashboard | Self::PullRequest => self,
            Self::Comment | Self::Review | Self::Check | Self::Issue | Self::Update => Self::PullRequest,
            Self::Slack => Self::Api,
        }
    }

    /// Returns the origin itself if it came from no code host and older versions do not know it, for the column that
    /// only newer versions read.
    #[must_use]
    pub const fn newer(self) -> Option<Self> {
        match self {
            Self::Slack => Some(self),
            _ => None,
        }
    }

    /// Returns whether the service sends messages of this origin by itself, without a person.
    #[must_use]
    pub const fn is_automatic(self) -> bool {
        matches!(self, Self::Check | Self::Update)
    }
}

/// The source of a message on a code host: its comment, review, issue, commit or check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSource {
    /// The origin of the message, or the one nearest to it that older versions know.
    pub origin: Origin,
    /// The origin, if older versions do not know it. They would refuse a document with it as `origin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<Origin>,
    /// The repository.
    pub repository: PullRepository,
    /// The number of the pull request or issue.
    pub number: u64,
    /// The ID of the comment, review, issue or commit on its host.
    pub id: String,
    /// The page of it.
    pub url: String,
    /// The person who wrote it; `None` for checks and updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<SourceAuthor>,
    /// The comments that the message contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<SourceComment>,
    /// The events of the inbox that the message was made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbox: Vec<u64>,
    /// The logs of failed checks, which the worker gives to the agent as files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<SourceLog>,
    /// The images and files of the comments, which the worker gives to the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SourceFile>,
}

/// An image or a file that a comment, a description or an issue of a message refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// The name for the agent, without a folder: a number, and a name of letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The address on the code host.
    pub url: String,
    /// The kind of the comment.
    pub kind: CommentKind,
    /// The ID of the comment; empty for a description or an issue.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// The log of a failed check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLog {
    /// The name of the check.
    pub name: String,
    /// The ID of the log, for [`crate::ports::Checks::log`].
    pub log: String,
}

/// The author of a message at its code host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceAuthor {
    /// The ID.
    pub id: String,
    /// The name.
    pub name: String,
    /// The permission on the repository, at the time of the message.
    pub permission: Permission,
}

/// A comment that became part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceComment {
    /// The kind.
    pub kind: CommentKind,
    /// The ID.
    pub id: String,
    /// The page.
    pub url: String,
    /// The first line of the text, at most 120 characters.
    pub title: String,
    /// The thread in which the comment gets a reply; `None` if it is answered in the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Thread>,
    /// The ID of the review that a comment with a thread is part of, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
    /// The path of the file that the comment is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl SourceComment {
    /// Returns the comment as part of its thread; `None` if it gets no reply.
    #[must_use]
    pub fn in_thread(&self) -> Option<InThread> {
        let thread = self.thread.clone()?;
        Some(InThread { kind: self.kind, id: self.id.clone(), thread, review: self.review.clone() })
    }
}

/// The treatment of a message if the job is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    /// The message waits in the queue.
    #[default]
    Queue,
    /// The message stops the current turn and goes before the other queued messages.
    Interrupt,
    /// The message is rejected.
    Reject,
}

/// The status of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// The message was accepted and is in the queue.
    Queued,
    /// A run has taken the message.
    Delivered,
    /// The last run of the message succeeded.
    Finished,
    /// The last run of the message failed.
    Failed,
    /// A cancel, an archive or an interrupting message stopped the message after a run had taken it.
    Cancelled,
    /// The message was withdrawn before a run took it.
    Withdrawn,
}

impl MessageStatus {
    /// Returns whether the status can no longer change.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Delivered => false,
            Self::Finished | Self::Failed | Self::Cancelled | Self::Withdrawn => true,
        }
    }
}

/// A message and its receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The ID of the message.
    pub id: MessageId,
    /// The job of the message.
    pub job: JobId,
    /// The prompt for the agent.
    pub prompt: String,
    /// The origin of the message.
    pub origin: Origin,
    /// The sender: the name of a key, or a person.
    pub author: Option<String>,
    /// The API key that sent the message.
    pub key: Option<KeyId>,
    /// The treatment of the message if the job is active.
    pub delivery: DeliveryMode,
    /// The status of the message.
    pub status: MessageStatus,
    /// The time at which the message was accepted.
    pub created_at: Timestamp,
    /// The time at which a run first took the message.
    pub delivered_at: Option<Timestamp>,
    /// The time at which the status became final.
    pub finished_at: Option<Timestamp>,
    /// The last run that took the message.
    pub run: Option<RunId>,
    /// The commits of the message, oldest first.
    pub commits: Vec<Sha>,
    /// The size of the change, from the end of the turn on; `None` if it changed nothing, or an older version ran it.
    pub diff: Option<MessageDiff>,
    /// The URL of the pull request that contains the commits.
    pub pr_link: Option<String>,
    /// The later message whose push included the commits, if publishing this message was given up.
    pub published_with: Option<MessageId>,
    /// The final text of the agent's turn, at most [`MAX_ANSWER_CHARS`] characters; `None` if there is no text.
    pub answer: Option<String>,
    /// The trace context of the request that sent the message.
    pub traceparent: Option<TraceParent>,
    /// The source of the message on a code host.
    pub source: Option<MessageSource>,
}

impl Message {
    /// Returns the time of the last change of the status.
    #[must_use]
    pub fn updated_at(&self) -> Timestamp {
        self.finished_at.or(self.delivered_at).unwrap_or(self.created_at)
    }
}

/// A message that is sent to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The ID, which the caller has generated.
    pub id: MessageId,
    /// The prompt for the agent: 1 to [`MAX_PROMPT_CHARS`] characters, without NUL.
    pub prompt: String,
    /// The origin of the message.
    pub origin: Origin,
    /// The sender.
    pub author: Option<String>,
    /// The API key that sends the message.
    pub key: Option<KeyId>,
    /// The treatment of the message if the job is active.
    pub delivery: DeliveryMode,
    /// The trace context of the request.
    pub traceparent: Option<TraceParent>,
    /// The source of the message on a code host.
    pub source: Option<Box<MessageSource>>,
}

/// The text of a queued message whose comments were edited on the code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageText {
    /// The prompt for the agent: 1 to [`MAX_PROMPT_CHARS`] characters, without NUL.
    pub prompt: String,
    /// The sender.
    pub author: Option<String>,
    /// The source on the code host, with the comments as they are now.
    pub source: Option<Box<MessageSource>>,
}

/// The maximum length of the text of a step of a plan, in characters.
pub const STEP_CHARS: usize = 120;

/// The progress of an agent's plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanProgress {
    /// The number of completed steps.
    pub done: u64,
    /// The number of steps.
    pub total: u64,
    /// The text of the step that the agent works on: the first one in progress, otherwise the first one that is not
    /// completed. At most [`STEP_CHARS`] characters.
    pub current: Option<String>,
}

impl PlanProgress {
    /// Reads the data of the log entry of a plan; `None` if the plan has no steps.
    #[must_use]
    pub fn of(data: &Value) -> Option<Self> {
        let steps = data["entries"].as_array().filter(|steps| !steps.is_empty())?;
        let done = steps.iter().filter(|step| step["status"] == "completed").count();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let with = |status: &str| steps.iter().find(|step| step["status"] == status);
        let current = with("in_progress").or_else(|| steps.iter().find(|step| step["status"] != "completed"));
        let text = current.and_then(|step| step["content"].as_str()).map(|text| cut(text.trim(), STEP_CHARS));
        Some(Self { done: number(done), total: number(steps.len()), current: text.filter(|text| !text.is_empty()) })
    }
}
