//! Changes by people with rights: each is a decision on locked rows ([`crate::decision`]), in one transaction.

use async_trait::async_trait;

use super::error::StoreError;
use crate::decision::{AnyDecision, Change, Once};
use crate::idempotency::Claim;
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// The result of [`AdminStore::administer`].
#[derive(Debug, Clone, PartialEq)]
pub enum Administered {
    /// The change was stored.
    Done(Change),
    /// An earlier request with the same idempotency key had already made the change; this is its answer.
    Replayed(String),
}

/// Carries out decisions on resources, projects, keys, users, and pull requests of the built-in code host.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Locks and loads the rows of the subject, calls the function of the decision, and writes the resulting rows and
    /// audit entries, all in one transaction. The change is durable when this returns.
    ///
    /// With `once`, the answer is stored with the change. If an earlier request had the same idempotency key, nothing
    /// is decided or written.
    ///
    /// # Errors
    /// Returns an error if the function refuses the change, if the idempotency key belongs to another request, or if the
    /// database fails.
    async fn administer(
        &self,
        decision: AnyDecision,
        once: Option<Once>,
        now: Timestamp,
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
    Refused(#[from] Refusal),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
