//! The wire format of messages and their receipts.

use journeyman_core::checks::{CheckWatch, receipt};
use journeyman_core::conversation::Permission;
use journeyman_core::left_out;
use journeyman_core::message::{self, DeliveryMode, Origin};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The treatment of a message if the job is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Delivery {
    /// The message waits in the queue.
    #[default]
    Queue,
    /// The message stops the running turn, whose commits are kept, and goes before the other queued messages.
    Interrupt,
    /// The message is refused with 409 `job_busy`.
    Reject,
}

impl From<Delivery> for DeliveryMode {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Queue => Self::Queue,
            Delivery::Interrupt => Self::Interrupt,
            Delivery::Reject => Self::Reject,
        }
    }
}

impl From<DeliveryMode> for Delivery {
    fn from(delivery: DeliveryMode) -> Self {
        match delivery {
            DeliveryMode::Queue => Self::Queue,
            DeliveryMode::Interrupt => Self::Interrupt,
            DeliveryMode::Reject => Self::Reject,
        }
    }
}

/// A follow-up message.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SendMessage {
    /// The prompt for the agent.
    #[schema(min_length = 1, max_length = 100_000)]
    pub(crate) prompt: String,
    /// The treatment of the message if the job is active; by default, `queue`.
    pub(crate) delivery: Option<Delivery>,
}

/// The origin of a message. New origins may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageOrigin {
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

impl From<Origin> for MessageOrigin {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Api => Self::Api,
            Origin::Dashboard => Self::Dashboard,
            Origin::PullRequest => Self::PullRequest,
            Origin::Comment => Self::Comment,
            Origin::Review => Self::Review,
            Origin::Check => Self::Check,
            Origin::Issue => Self::Issue,
            Origin::Slack => Self::Slack,
            Origin::Update => Self::Update,
        }
    }
}

/// The place on a code host that a message came from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageSource {
    /// The code host, such as `github.com`; `local:` is the built-in one.
    pub(crate) host: String,
    /// The page of the comment, review, issue or commit.
    pub(crate) url: String,
    /// The ID of it on the code host.
    pub(crate) id: String,
    /// The person who wrote it; `null` for checks and updates.
    #[schema(required)]
    pub(crate) author: Option<SourceAuthor>,
}

/// The author of a message on its code host.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SourceAuthor {
    /// The ID of the user on the code host.
    pub(crate) id: String,
    /// The name of the user on the code host.
    pub(crate) name: String,
    /// The permission of the user on the repository, at the time of the message.
    pub(crate) permission: SourcePermission,
}

/// The permission of a user of a code host on a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SourcePermission {
    /// No permission beyond that of everyone.
    None,
    /// The user may read.
    Read,
    /// The user may push.
    Write,
    /// The user may change the settings.
    Admin,
}

impl From<message::MessageSource> for MessageSource {
    fn from(source: message::MessageSource) -> Self {
        let author = source.author.map(|author| SourceAuthor {
            id: author.id,
            name: author.name,
            permission: match author.permission {
                Permission::None => SourcePermission::None,
                Permission::Read => SourcePermission::Read,
                Permission::Write => SourcePermission::Write,
                Permission::Admin => SourcePermission::Admin,
            },
        });
        Self { host: source.repository.host.0, url: source.url, id: source.id, author }
    }
}

/// The status of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageStatus {
    /// The message was accepted and is in the queue.
    Queued,
    /// A run has taken the message.
    Delivered,
    /// The last run of the message succeeded.
    Finished,
    /// The last run of the message failed.
    Failed,
    /// The message was stopped after a run had taken it.
    Cancelled,
    /// The message was withdrawn before a run took it.
    Withdrawn,
}

impl From<message::MessageStatus> for MessageStatus {
    fn from(status: message::MessageStatus) -> Self {
        match status {
            message::MessageStatus::Queued => Self::Queued,
            message::MessageStatus::Delivered => Self::Delivered,
            message::MessageStatus::Finished => Self::Finished,
            message::MessageStatus::Failed => Self::Failed,
            message::MessageStatus::Cancelled => Self::Cancelled,
            message::MessageStatus::Withdrawn => Self::Withdrawn,
        }
    }
}

/// A message and its receipt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    #[schema(example = "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    pub(crate) id: String,
    /// The prompt for the agent.
    pub(crate) prompt: String,
    pub(crate) origin: MessageOrigin,
    /// The sender: the name of a key, or a person.
    #[schema(required)]
    pub(crate) author: Option<String>,
    pub(crate) delivery: Delivery,
    pub(crate) status: MessageStatus,
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
    /// The time at which a run first took the message.
    #[schema(required, format = DateTime)]
    pub(crate) delivered_at: Option<String>,
    /// The time at which the status became final.
    #[schema(required, format = DateTime)]
    pub(crate) finished_at: Option<String>,
    /// The last run that took the message.
    #[schema(required)]
    pub(crate) run_id: Option<String>,
    /// The commits of the message, oldest first.
    pub(crate) commits: Vec<String>,
    /// The URL of the pull request that contains the commits.
    #[schema(required)]
    pub(crate) pr_link: Option<String>,
    /// The later message whose push included these commits, if publishing this message failed.
    #[schema(required)]
    pub(crate) published_with: Option<String>,
    /// The final text of the agent's turn, at most 100,000 characters; `null` if the turn has not ended or has no text.
    #[schema(required)]
    pub(crate) answer: Option<String>,
    /// What the turn changed or committed, but the published commits do not have, with the reasons; at most 100 paths.
    pub(crate) left_out: Vec<LeftOut>,
    /// The number of further paths that were left out.
    pub(crate) left_out_more: u64,
    /// The earlier branch of the job whose commits are published again with those of this message, because its pull
    /// request was closed.
    #[schema(required)]
    pub(crate) carried_over: Option<String>,
    /// The place on a code host that the message came from; `null` for other messages.
    #[schema(required)]
    pub(crate) source: Option<MessageSource>,
    /// A line for each check of the last commit, such as `unit passed`; `null` if the checks are not known: the message has
    /// no commits, they were not read yet, or a later message has pushed. `GET …/job/{id}/checks` has more.
    #[schema(required)]
    pub(crate) checks: Option<Vec<String>>,
}

impl Message {
    /// Returns a message with the checks of its last commit, if that is the watched one.
    pub(crate) fn with_checks(message: message::Message, watch: Option<&CheckWatch>) -> Self {
        let watch = watch.filter(|watch| message.commits.last() == Some(&watch.sha) && !watch.checks.is_empty());
        let checks = watch.map(|watch| receipt(&watch.checks));
        Self { checks, ..message.into() }
    }
}

/// A changed file or folder, or commits of the agent, that were not published.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeftOut {
    /// The path in the repository; for commits, the name of the ref that leads to them, or the ID of the last one. Bytes that
    /// are not UTF-8 are written as `\xNN`, with two hexadecimal digits.
    #[schema(example = "vendor/lib")]
    path: String,
    reason: LeftOutReason,
    /// The reason in words, and what to do about it.
    #[schema(
        example = "It is a git repository of its own. Move its files out of the repository, remove its .git, or ignore the folder."
    )]
    detail: String,
    /// True if the service stores it, so that the job keeps it until it can be committed. Otherwise, it is lost if the
    /// workspace is rebuilt, such as after a restart of the service.
    kept: bool,
}

/// The reason why a change was left out. Later versions may add reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeftOutReason {
    /// The folder is a git repository or working tree of its own.
    RepositoryInside,
    /// It is in a submodule, which is another repository.
    Submodule,
    /// The pointer of the submodule names a commit that was not found in the submodule's own repository.
    SubmoduleCommit,
    /// It cannot be read.
    Unreadable,
    /// It is a FIFO, a socket or a device.
    Special,
    /// The file is larger than `limits.fileBytes` of the project.
    TooLarge,
    /// The agent marked the file as local (`git update-index --skip-worktree` or `--assume-unchanged`).
    MarkedLocal,
    /// The file cannot be converted to the encoding that `.gitattributes` names.
    NotEncodable,
    /// The path is longer than git can store.
    PathTooLong,
    /// The file names a submodule that could not be checked.
    SubmoduleSettings,
    /// The repository keeps the file in Git LFS, and its content is not a pointer.
    LfsContent,
    /// Git refuses the path.
    RefusedByGit,
    /// The commits are on another branch or in a stash, or the agent had them checked out without a branch.
    OtherCommits,
    /// It is a tag, and only the branch of the job is pushed.
    Tag,
    /// Git refuses the agent's commits. One commit of the service has their changes.
    ReplacedCommits,
    /// The agent's commits do not continue the branch, which is never pushed with force. One commit on top of the branch has
    /// their changes.
    RewrittenHistory,
}

impl From<&left_out::LeftOut> for LeftOut {
    fn from(one: &left_out::LeftOut) -> Self {
        let detail = format!("It {}. {}", one.reason.text(), one.advice());
        Self { path: one.path.clone(), reason: one.reason.into(), detail, kept: one.is_kept }
    }
}

impl From<left_out::LeftOutReason> for LeftOutReason {
    fn from(reason: left_out::LeftOutReason) -> Self {
        match reason {
            left_out::LeftOutReason::RepositoryInside => Self::RepositoryInside,
            left_out::LeftOutReason::Submodule => Self::Submodule,
            left_out::LeftOutReason::SubmoduleCommit => Self::SubmoduleCommit,
            left_out::LeftOutReason::Unreadable => Self::Unreadable,
            left_out::LeftOutReason::Special => Self::Special,
            left_out::LeftOutReason::TooLarge { .. } => Self::TooLarge,
            left_out::LeftOutReason::MarkedLocal => Self::MarkedLocal,
            left_out::LeftOutReason::NotEncodable => Self::NotEncodable,
            left_out::LeftOutReason::PathTooLong => Self::PathTooLong,
            left_out::LeftOutReason::SubmoduleSettings => Self::SubmoduleSettings,
            left_out::LeftOutReason::LfsContent => Self::LfsContent,
            left_out::LeftOutReason::RefusedByGit => Self::RefusedByGit,
            left_out::LeftOutReason::OtherCommits { .. } => Self::OtherCommits,
            left_out::LeftOutReason::Tag => Self::Tag,
            left_out::LeftOutReason::ReplacedCommits => Self::ReplacedCommits,
            left_out::LeftOutReason::RewrittenHistory => Self::RewrittenHistory,
        }
    }
}

impl From<message::Message> for Message {
    fn from(message: message::Message) -> Self {
        let diff = message.diff.unwrap_or_default();
        Self {
            id: message.id.to_string(),
            prompt: message.prompt,
            origin: message.origin.into(),
            author: message.author,
            delivery: message.delivery.into(),
            status: message.status.into(),
            created_at: message.created_at.to_string(),
            delivered_at: message.delivered_at.map(|at| at.to_string()),
            finished_at: message.finished_at.map(|at| at.to_string()),
            run_id: message.run.map(|run| run.to_string()),
            commits: message.commits.into_iter().map(String::from).collect(),
            pr_link: message.pr_link,
            published_with: message.published_with.map(|id| id.to_string()),
            answer: message.answer,
            left_out: diff.left_out.iter().map(LeftOut::from).collect(),
            left_out_more: diff.left_out_more,
            carried_over: diff.carried_over,
            source: message.source.map(MessageSource::from),
            checks: None,
        }
    }
}

/// A page of the messages of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageList {
    /// The messages, in the order in which they were accepted.
    pub(crate) messages: Vec<Message>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}
