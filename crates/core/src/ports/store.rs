//! The ports of the database, one for each group of consumers. [`Store`] combines them.

mod admin;
mod jobs;
mod keys;
mod projects;
mod pulls;
mod spending;
mod sweep;
mod users;

use async_trait::async_trait;

use crate::time::Timestamp;

pub use self::admin::{AdminStore, Administered, DecideAdmin};
pub use self::jobs::{
    AVOIDANCE, Accepted, ClaimFn, ClaimQuery, Cursor, Decide, Guard, JobFilter, JobStore, JobWatch, PATIENCE,
    PROBE_TIME, Picked, RateCharge, UpdateError,
};
pub use self::keys::{AuditEntry, AuditLine, KeyStore};
pub use self::projects::{HoldStore, ProjectStore};
pub use self::pulls::PullStore;
pub use self::spending::{Spend, SpendError, SpendingStore};
pub use self::sweep::{Retention, Swept};
pub use self::users::{SessionsToEnd, UserStore};

/// Why a store could not do its work. Nothing was stored then, except where the error says that this is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, its disk is full, it was closed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// More writes wait than it can take.
    #[error("the store has too much to do")]
    Busy,
    /// It was lost in the moment of storing: it is not known whether the change was stored, all of it or nothing.
    #[error("the store was lost while it stored a change, which it may have done: {0}")]
    Unknown(String),
    /// A row holds what this version does not know.
    #[error("the table {table} holds an unreadable row {row}: {detail}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// Its key.
        row: String,
        /// What is wrong.
        detail: String,
    },
}

/// The database: all ports together.
#[async_trait]
pub trait Store:
    JobStore + ProjectStore + HoldStore + KeyStore + UserStore + AdminStore + PullStore + SpendingStore
{
    /// Checks whether the database answers.
    ///
    /// # Errors
    /// The database cannot be reached.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Returns, with the reason, when the store can no longer trust its files. From then on every request fails, and
    /// the process must end: only a new process can find out what was stored. Most stores never return.
    async fn failed(&self) -> String {
        std::future::pending().await
    }

    /// Removes expired rows, at most `limit` of each kind, and returns the numbers. A kind of which `limit` rows were
    /// removed may have more. Idempotency keys and rate windows have a fixed lifetime; the rest follows `retention`.
    ///
    /// # Errors
    /// The database failed.
    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError>;
}
