//! Changes of projects, keys and users: each is a decision on locked rows, in one transaction.

use async_trait::async_trait;

use crate::admin::{AdminChange, AdminRefusal, AdminState, Once, Subject};
use crate::idempotency::Claim;
use crate::ports::StoreError;
use crate::time::Timestamp;

/// Decides on a change, given the rows that the store has locked. It is called again if the transaction is retried.
pub type DecideAdmin = Box<dyn FnMut(&AdminState) -> Result<AdminChange, AdminRefusal> + Send>;

/// The result of [`AdminStore::administer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Administered {
    /// The change was stored.
    Done(AdminChange),
    /// An earlier request with the same idempotency key had already made the change; this is its answer.
    Replayed(String),
}

/// Writes projects, keys and users.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Locks and loads the rows of the subject, calls `decide`, and writes the resulting rows and audit entries, all in
    /// one transaction. The change is durable when this returns.
    ///
    /// With `once`, the answer is stored with the change. If an earlier request had the same idempotency key, nothing
    /// is decided or written.
    ///
    /// # Errors
    /// Returns an error if `decide` refuses the change, if the idempotency key belongs to another request, or if the
    /// database fails.
    async fn administer(
        &self,
        subject: Subject,
        once: Option<Once>,
        now: Timestamp,
        decide: DecideAdmin,
    ) -> Result<Administered, AdminError>;

    /// Returns the answer that an earlier change stored for an idempotency key; `None` if there was none.
    ///
    /// # Errors
    /// The idempotency key belongs to another request, or the database failed.
    async fn answered(&self, claim: Claim, now: Timestamp) -> Result<Option<String>, AdminError>;
}

/// An error of [`crate::ports::AdminStore::administer`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The change was refused; nothing was stored.
    #[error(transparent)]
    Refused(#[from] AdminRefusal),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
