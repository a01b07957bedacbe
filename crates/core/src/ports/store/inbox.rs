//! The store of the inbox.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::code_host::{CodeHostId, HostName, PullRepository};
use crate::ids::{JobId, MessageId, ProjectId};
use crate::inbox::{Decision, InboxEvent, InboxState, NewEvent, Outcome};
use crate::outbox::Backlog;
use crate::time::Timestamp;

/// The number of the newest events that are searched for pages about code hosts. It limits the time of the search.
pub const RECENT_EVENTS: u64 = 20_000;

/// Selects events of the inbox for a page, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxFilter {
    /// Only events of this project; `None` means events of no project too.
    pub project: Option<ProjectId>,
    /// Only events in this state.
    pub state: Option<InboxState>,
    /// Only events with this outcome.
    pub outcome: Option<Outcome>,
    /// Only events with a smaller number.
    pub before: Option<u64>,
    /// The maximum number of events.
    pub limit: usize,
}

impl InboxFilter {
    /// Returns a filter for the newest events, of a project or of all.
    #[must_use]
    pub fn newest(project: Option<ProjectId>, limit: usize) -> Self {
        Self { project, limit, ..Self::default() }
    }
}

/// The result of [`InboxStore::decide_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// The decision was stored.
    Stored,
    /// Another event about the same comment in the same version was stored before, so this one is a duplicate.
    Duplicate,
    /// Another process has claimed the event, because the lease had expired.
    Lost,
}

/// Stores events of code hosts, gives each to one process at a time, and remembers what became of them. Changes of jobs
/// end the events that they are made of ([`crate::job::change::Row::InboxDone`]).
#[async_trait]
pub trait InboxStore: Send + Sync {
    /// Stores an event, which is due at once. Returns false if the delivery is known.
    ///
    /// # Errors
    /// The database failed.
    async fn receive(&self, event: NewEvent) -> Result<bool, StoreError>;

    /// Claims events that were received and are due, oldest first, until `now` plus `lease`.
    ///
    /// # Errors
    /// The database failed.
    async fn claim_events(&self, now: Timestamp, lease: Duration, limit: usize) -> Result<Vec<InboxEvent>, StoreError>;

    /// Stores the decision about a claimed event. If it waits, the other waiting events of its job wait as long. An event
    /// that is decided again later can be found by its subject until then.
    ///
    /// # Errors
    /// The database failed.
    async fn decide_event(&self, number: u64, attempt: u32, decision: Decision) -> Result<Decided, StoreError>;

    /// Returns jobs whose waiting events are due.
    ///
    /// # Errors
    /// The database failed.
    async fn jobs_with_due_events(&self, now: Timestamp, limit: usize) -> Result<Vec<JobId>, StoreError>;

    /// Returns the waiting events of a job, oldest first.
    ///
    /// # Errors
    /// The database failed.
    async fn waiting_events(&self, job: JobId) -> Result<Vec<InboxEvent>, StoreError>;

    /// Lets the waiting events of a job wait until another time.
    ///
    /// # Errors
    /// The database failed.
    async fn postpone_events(&self, job: JobId, until: Timestamp) -> Result<(), StoreError>;

    /// Ends events that wait.
    ///
    /// # Errors
    /// The database failed.
    async fn end_events(
        &self,
        numbers: Vec<u64>,
        state: InboxState,
        outcome: Outcome,
        detail: Option<String>,
    ) -> Result<(), StoreError>;

    /// Returns the events about a comment or review in all versions, oldest first. `key` is without the version.
    ///
    /// # Errors
    /// The database failed.
    async fn events_about(&self, host: HostName, key: String) -> Result<Vec<InboxEvent>, StoreError>;

    /// Returns the events that a message was made of, oldest first.
    ///
    /// # Errors
    /// The database failed.
    async fn inbox_of_message(&self, message: MessageId) -> Result<Vec<InboxEvent>, StoreError>;

    /// Returns events, newest first.
    ///
    /// # Errors
    /// The database failed.
    async fn inbox(&self, filter: InboxFilter) -> Result<Vec<InboxEvent>, StoreError>;

    /// Returns events with the outcome [`Outcome::NoProject`] among the newest [`RECENT_EVENTS`], newest first.
    ///
    /// # Errors
    /// The database failed.
    async fn unclaimed_events(&self, limit: usize) -> Result<Vec<InboxEvent>, StoreError>;

    /// Returns the time of the newest event that a webhook of a code host has reported, among the newest
    /// [`RECENT_EVENTS`].
    ///
    /// # Errors
    /// The database failed.
    async fn last_event_of(&self, host: CodeHostId) -> Result<Option<Timestamp>, StoreError>;

    /// Returns the time at which the next event is due, if there is one.
    ///
    /// # Errors
    /// The database failed.
    async fn next_event_at(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Counts the events that are received or waiting.
    ///
    /// # Errors
    /// The database failed.
    async fn inbox_backlog(&self) -> Result<Backlog, StoreError>;

    /// Returns the job of an issue.
    ///
    /// # Errors
    /// The database failed.
    async fn job_of_issue(&self, repository: PullRepository, number: u64) -> Result<Option<JobId>, StoreError>;
}
