//! The ports of the database, one for each group of consumers. [`WorkStore`] combines those of the work on jobs, and
//! [`Store`] all of them.

mod admin;
mod checks;
mod code_hosts;
mod comparisons;
mod error;
mod feed;
mod imports;
mod inbox;
mod job_lists;
mod jobs;
mod keys;
mod outbox;
mod polls;
mod projects;
mod pulls;
mod resources;
mod sealed;
mod slack;
mod spending;
mod sweep;
mod usage;
mod users;
mod webhooks;
mod workers;

use async_trait::async_trait;

use crate::template::Template;
use crate::time::Timestamp;
use crate::trust::Trust;

pub use self::admin::{AdminError, AdminStore, Administered};
pub use self::checks::CheckStore;
pub use self::code_hosts::{CodeHostStore, PullCounts, PullCursor, PullFilter, PullIndex};
pub use self::comparisons::ComparisonStore;
pub use self::error::StoreError;
pub use self::feed::FeedStore;
pub use self::imports::ImportStore;
pub use self::inbox::{Decided, InboxFilter, InboxStore, RECENT_EVENTS};
pub use self::job_lists::{
    Cursor, JobCounts, JobExtras, JobFilter, JobLists, JobOverview, MessageFilter, ProjectJobs, StatusCounts,
};
pub use self::jobs::{
    AVOIDANCE, Accepted, Answer, ClaimFn, ClaimQuery, Decide, GONE, Guard, JobStore, JobWatch, PATIENCE, PROBE_TIME,
    Picked, RateCharge, UpdateError,
};
pub use self::keys::KeyStore;
pub use self::outbox::{DutyStore, LockStore, OutboxStore, TaskQuery};
pub use self::polls::PollStore;
pub use self::projects::{HoldStore, ProjectStore};
pub use self::pulls::PullStore;
pub use self::resources::ResourceStore;
pub use self::sealed::{
    Resealed, SealedCensus, SealedCounts, SealedKind, SealedPage, SealedRow, SealedStore, UNREADABLE_ROWS,
};
pub use self::slack::{SlackEventFilter, SlackStore};
pub use self::spending::{NewReservation, Reservation, ReserveError, SpendingStore, Sums};
pub use self::sweep::{Retention, Swept};
pub use self::usage::UsageStore;
pub use self::users::UserStore;
pub use self::webhooks::{DeliveryBacklog, DeliveryFilter, WebhookStore};
pub use self::workers::WorkerStore;

/// The connections of a store to its database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolState {
    /// The maximum number of connections.
    pub limit: u64,
    /// The number of open connections.
    pub open: u64,
    /// The number of open connections that are not in use.
    pub idle: u64,
    /// The number of requests that wait for a connection.
    pub waiting: u64,
}

/// The ports that are needed to accept messages and to carry them out: those of the engine, the outbox and the worker.
pub trait WorkStore: JobStore + ProjectStore + HoldStore + OutboxStore + LockStore + WorkerStore {}

impl<T: JobStore + ProjectStore + HoldStore + OutboxStore + LockStore + WorkerStore + ?Sized> WorkStore for T {}

/// The database: all ports together.
#[async_trait]
pub trait Store:
    WorkStore
    + JobLists
    + KeyStore
    + UserStore
    + AdminStore
    + PullStore
    + SpendingStore
    + DutyStore
    + CodeHostStore
    + PullIndex
    + InboxStore
    + CheckStore
    + ComparisonStore
    + PollStore
    + UsageStore
    + FeedStore
    + WebhookStore
    + ResourceStore<Template>
    + ResourceStore<Trust>
    + SlackStore
    + ImportStore
    + SealedStore
{
    /// Checks whether the database answers.
    ///
    /// # Errors
    /// Returns an error if the database cannot be reached.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Waits until the store can no longer trust its files, and returns the reason. From then on every request fails,
    /// and the process must end: only a new process can find out what was stored. Most stores never return.
    async fn failed(&self) -> String {
        std::future::pending().await
    }

    /// Checks whether the store can write, with a small transaction that is as durable as any other.
    ///
    /// # Errors
    /// Returns the error that a request which writes would get.
    async fn check_writes(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Notes that a service starts, so that a later start notices if an earlier state of the database was put back.
    ///
    /// # Errors
    /// Returns an error if it could not be noted. The service can run nevertheless.
    async fn note_start(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the state of the connections; `None` if the store has none.
    fn pool(&self) -> Option<PoolState> {
        None
    }

    /// Removes expired rows, at most `limit` of each kind that [`Swept`] counts, and returns their numbers. If `limit`
    /// rows of a kind were removed, more may have expired. Idempotency keys, rate windows, sessions, sign-in links and
    /// keys of trusts have fixed lifetimes; those of jobs, transcripts and audit entries follow `retention`.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError>;
}
