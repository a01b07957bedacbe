//! The store of Slack workspaces, their events, threads and posts.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use super::resources::ResourceStore;
use crate::ids::{SlackWorkspaceId, UserId};
use crate::slack::{
    NewSlackEvent, SlackDecision, SlackInboxEvent, SlackPost, SlackPosted, SlackSecrets, SlackThread, SlackThreadId,
    SlackWorkspace,
};
use crate::time::Timestamp;
use crate::user::TokenHash;

/// A selection of events, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackEventFilter {
    /// The workspace.
    pub workspace: SlackWorkspaceId,
    /// Only events of this thread.
    pub thread: Option<SlackThreadId>,
    /// Only events with smaller numbers.
    pub before: Option<u64>,
    /// The maximum number of events.
    pub limit: usize,
}

/// Stores Slack workspaces, their events, threads and posts. Workspaces are changed through
/// [`super::AdminStore::administer`].
#[async_trait]
pub trait SlackStore: ResourceStore<SlackWorkspace> {
    /// Returns the secrets of a workspace.
    async fn slack_secrets(&self, id: SlackWorkspaceId) -> Result<SlackSecrets, StoreError>;

    /// Finds the user of a code that has not expired.
    async fn slack_code(&self, hash: TokenHash, now: Timestamp) -> Result<Option<UserId>, StoreError>;

    /// Stores an event, which is due at once. Returns false if the workspace has an event with this ID, or does not exist.
    async fn receive_slack(&self, event: NewSlackEvent) -> Result<bool, StoreError>;

    /// Claims events that are due, for the time `lease`. Of each thread, only the event with the earliest timestamp that
    /// is not final is claimed, so that events of a thread are decided in their order.
    async fn claim_slack_events(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackInboxEvent>, StoreError>;

    /// Stores the decision about an event, with its thread and its posts. Returns false, and stores nothing, if the event
    /// is no longer claimed by this attempt.
    async fn decide_slack_event(&self, number: u64, attempt: u32, decision: SlackDecision) -> Result<bool, StoreError>;

    /// Returns events, newest first.
    async fn slack_events(&self, filter: SlackEventFilter) -> Result<Vec<SlackInboxEvent>, StoreError>;

    /// Finds the job of a thread.
    async fn slack_thread(&self, id: SlackThreadId) -> Result<Option<SlackThread>, StoreError>;

    /// Claims posts that are due, for the time `lease`. Of each channel, at most one post is claimed at a time, and none
    /// while the channel accepts no message.
    async fn claim_slack_posts(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError>;

    /// Stores the result of an attempt at a post. Returns false if the post is no longer claimed by this attempt.
    async fn finish_slack_post(&self, posted: SlackPosted) -> Result<bool, StoreError>;

    /// Returns the posts of a workspace with numbers below `before`, newest first.
    async fn slack_posts(
        &self,
        workspace: SlackWorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SlackPost>, StoreError>;

    /// Removes final events and posts, and codes, that are older than these times. Returns the number of removed rows.
    async fn sweep_slack(&self, before: Timestamp, codes_before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}
