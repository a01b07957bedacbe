//! Changes of projects, keys and users: a decision over locked rows, in one transaction.

use async_trait::async_trait;

use crate::admin::{AdminChange, AdminError, AdminRefusal, AdminState, Once, Subject};
use crate::time::Timestamp;

/// Decides on the rows as the store holds them, under the store's lock. It may be called again if the transaction is
/// retried.
pub type DecideAdmin = Box<dyn FnMut(&AdminState) -> Result<AdminChange, AdminRefusal> + Send>;

/// The result of [`AdminStore::administer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Administered {
    /// The change was stored.
    Done(AdminChange),
    /// An earlier request with the same idempotency key had done it; this is its answer.
    Replayed(String),
}

/// Writes projects, keys and users.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Locks the rows of the subject, loads them, lets `decide` say what to write, and writes that with its audit
    /// entries, all in one transaction. The change is durable when this returns.
    ///
    /// With `once`, the answer is stored with the change. If an earlier request had the same idempotency key, nothing is
    /// decided or written.
    ///
    /// # Errors
    /// `decide` refused, the idempotency key belongs to another request, or the database failed.
    async fn administer(
        &self,
        subject: Subject,
        once: Option<Once>,
        now: Timestamp,
        decide: DecideAdmin,
    ) -> Result<Administered, AdminError>;
}
