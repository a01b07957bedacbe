//! Messages, their receipts, and runs.

use serde::{Deserialize, Serialize};

use super::job::{Reason, Usage};

open_enum! {
    /// The treatment of a message if the job is active.
    Delivery {
        /// The message waits for the end of the run.
        Queue = "queue",
        /// The run is interrupted for the message.
        Interrupt = "interrupt",
        /// The message is rejected if the job is active.
        Reject = "reject",
    }
}

open_enum! {
    /// The status of a message.
    MessageStatus {
        /// The message waits.
        Queued = "queued",
        /// The agent works on the message.
        Delivered = "delivered",
        /// The result is published.
        Finished = "finished",
        /// The message failed.
        Failed = "failed",
        /// The message was canceled while it was in work.
        Cancelled = "cancelled",
        /// The message was withdrawn before it was delivered.
        Withdrawn = "withdrawn",
    }
}

open_enum! {
    /// The origin of a message. New origins may be added.
    MessageOrigin {
        /// The value `api`.
        Api = "api",
        /// The value `dashboard`.
        Dashboard = "dashboard",
        /// The value `pull_request`.
        PullRequest = "pull_request",
        /// The value `comment`.
        Comment = "comment",
        /// The value `review`.
        Review = "review",
        /// The value `check`.
        Check = "check",
        /// The value `issue`.
        Issue = "issue",
        /// The value `update`.
        Update = "update",
    }
}

/// A message and its receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Message {
    /// The ID.
    pub id: String,
    /// The prompt for the agent.
    pub prompt: String,
    /// The origin.
    pub origin: MessageOrigin,
    /// The sender: the name of a key, or a person.
    pub author: Option<String>,
    /// The treatment of the message if the job was active.
    pub delivery: Delivery,
    /// The status.
    pub status: MessageStatus,
    /// The time of the creation.
    pub created_at: String,
    /// The time at which a run first took the message.
    pub delivered_at: Option<String>,
    /// The time at which the status became final.
    pub finished_at: Option<String>,
    /// The last run that took the message.
    pub run_id: Option<String>,
    /// The commits of the message, oldest first.
    pub commits: Vec<String>,
    /// The URL of the pull request that contains the commits.
    pub pr_link: Option<String>,
    /// The later message whose push included these commits, if publishing this message failed.
    pub published_with: Option<String>,
    /// The final text of the agent's turn, at most 100,000 characters; `None` if the turn has not ended or has no
    /// text.
    pub answer: Option<String>,
    /// What the turn changed, but no commit has, with the reasons; at most 100 paths.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The number of further paths that were left out.
    #[serde(default)]
    pub left_out_more: u64,
    /// The earlier branch of the job whose commits are published again with those of this message, because its pull
    /// request was closed.
    pub carried_over: Option<String>,
    /// The source of the message on a code host; `None` for other messages.
    pub source: Option<MessageSource>,
    /// A line for each check of the last commit, such as `unit passed`; `None` if the checks are not known: the message
    /// has no commits, they were not read yet, or a later message has pushed.
    pub checks: Option<Vec<String>>,
}

/// A changed file or folder, or commits of the agent, that were not published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeftOut {
    /// The path in the repository; for commits, the name of the ref that leads to them, or the ID of the last one. Bytes that
    /// are not UTF-8 are written as `\xNN`, with two hexadecimal digits.
    pub path: String,
    /// The reason.
    pub reason: LeftOutReason,
    /// The reason in words, and what to do about it.
    pub detail: String,
    /// True if the service stores it, so that the job keeps it until it can be committed.
    #[serde(default)]
    pub kept: bool,
}

open_enum! {
    /// The reason why a change was left out.
    LeftOutReason {
        /// The folder is a git repository or working tree of its own.
        RepositoryInside = "repository_inside",
        /// It is in a submodule, which is another repository.
        Submodule = "submodule",
        /// The pointer of the submodule names a commit that was not found in the submodule's own repository.
        SubmoduleCommit = "submodule_commit",
        /// It cannot be read.
        Unreadable = "unreadable",
        /// It is a FIFO, a socket or a device.
        Special = "special",
        /// The file is larger than `limits.fileBytes` of the project.
        TooLarge = "too_large",
        /// The agent marked the file as local (`git update-index --skip-worktree` or `--assume-unchanged`).
        MarkedLocal = "marked_local",
        /// The file cannot be converted to the encoding that `.gitattributes` names.
        NotEncodable = "not_encodable",
        /// The path is longer than git can store.
        PathTooLong = "path_too_long",
        /// The file names a submodule that could not be checked.
        SubmoduleSettings = "submodule_settings",
        /// The repository keeps the file in Git LFS, and its content is not a pointer.
        LfsContent = "lfs_content",
        /// Git refuses the path.
        RefusedByGit = "refused_by_git",
        /// The commits are on another branch or in a stash, or the agent had them checked out without a branch.
        OtherCommits = "other_commits",
        /// It is a tag, and only the branch of the job is pushed.
        Tag = "tag",
        /// Git refuses the agent's commits. One commit of the service has their changes.
        ReplacedCommits = "replaced_commits",
        /// The agent's commits do not continue the branch. One commit on top of the branch has their changes.
        RewrittenHistory = "rewritten_history",
    }
}

/// The source of a message on a code host: its comment, review, issue, commit or check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageSource {
    /// The code host, such as `github.com`; `local:` is the built-in one.
    pub host: String,
    /// The page of the comment, review, issue or commit.
    pub url: String,
    /// The ID of it on the code host.
    pub id: String,
    /// The person who wrote it; `None` for checks.
    pub author: Option<SourceAuthor>,
}

/// The author of a message on its code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourceAuthor {
    /// The ID of the user on the code host.
    pub id: String,
    /// The name of the user on the code host.
    pub name: String,
    /// The permission of the user on the repository, at the time of the message.
    pub permission: SourcePermission,
}

open_enum! {
    /// The permission of a user of a code host on a repository.
    SourcePermission {
        /// The author has no permission.
        None = "none",
        /// The author may read.
        Read = "read",
        /// The author may write.
        Write = "write",
        /// The author may administer.
        Admin = "admin",
    }
}

/// A run: one attempt at one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Run {
    /// The ID.
    pub id: String,
    /// The message that the run carries out.
    pub message_id: String,
    /// The number of the attempt at the message, starting at 1.
    pub attempt: u32,
    /// The status.
    pub status: RunStatus,
    /// The reason why the run failed or was stopped, or why a successful run opened no pull request; otherwise
    /// `None`.
    pub reason: Option<Reason>,
    /// The ID of the worker that carries out the run.
    pub worker: String,
    /// The time of the start.
    pub started_at: String,
    /// The time of the end; `None` before.
    pub finished_at: Option<String>,
    /// The tokens and the cost.
    pub usage: Usage,
    /// The commits that the run published, oldest first.
    pub commits: Vec<String>,
    /// What the turn changed, but no commit has, with the reasons; at most 100 paths.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The number of further paths that were left out.
    #[serde(default)]
    pub left_out_more: u64,
}

open_enum! {
    /// The status of a run.
    RunStatus {
        /// The run is in progress.
        Running = "running",
        /// The run succeeded.
        Succeeded = "succeeded",
        /// The run failed.
        Failed = "failed",
        /// The run was canceled.
        Cancelled = "cancelled",
    }
}

/// A follow-up message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SendMessage {
    /// The prompt for the agent.
    pub prompt: String,
    /// The treatment of the message if the job is active; by default, `queue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

impl SendMessage {
    /// Returns the request with its required fields.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), delivery: None }
    }

    /// Sets `delivery`.
    #[must_use]
    pub fn delivery(mut self, value: Delivery) -> Self {
        self.delivery = Some(value);
        self
    }
}
