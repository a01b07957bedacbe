//! Threads of Slack.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, ProjectId, SlackWorkspaceId};

/// The thread of a message: the channel and the timestamp of the first message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlackThreadId {
    /// The workspace.
    pub workspace: SlackWorkspaceId,
    /// The ID of the channel.
    pub channel: String,
    /// The timestamp of the first message of the thread.
    pub thread: String,
}

/// The thread of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackThread {
    /// The channel and the timestamp of the first message.
    pub id: SlackThreadId,
    /// The project of the job.
    pub project: ProjectId,
    /// The job.
    pub job: JobId,
}
