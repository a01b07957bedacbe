//! Statements that are written once for SQLite and PostgreSQL, and the store that runs them.
//!
//! The tables that are not needed to accept and carry out a message are in this module: each port of the database is
//! implemented once, with statements ([`sql!`]) and functions on transactions ([`Tx`]). Accepting, claiming, heartbeats,
//! the log and receipts have an implementation for each database instead.

mod admin;
pub(crate) mod audit;
pub(crate) mod checks;
pub(crate) mod code_hosts;
pub(crate) mod comparisons;
mod deliveries;
pub(crate) mod feed;
pub(crate) mod holds;
mod imports;
pub(crate) mod inbox;
pub(crate) mod jobs;
pub(crate) mod keys;
mod lock;
pub(crate) mod outbox;
mod polls;
pub(crate) mod projects;
pub(crate) mod pulls;
pub(crate) mod resource;
mod row;
mod sealed;
pub(crate) mod slack;
mod spending;
mod statement;
pub(crate) mod sweep;
mod templates;
mod trusts;
mod tx;
mod usage;
pub(crate) mod users;
pub(crate) mod webhooks;
mod workers;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::epoch::Epoch;
use journeyman_core::ports::StoreError;
use journeyman_core::time::IdGen;

pub(crate) use self::lock::{lock, lock_number};
pub(crate) use self::row::{Cells, Read, Row, Sum};
pub(crate) use self::statement::{Statement, Text, Value, as_text, for_sqlite, sql, text};
pub(crate) use self::tx::{DbError, Step, Tx};
use crate::vault::MasterKeys;
use crate::wakeups::Wakeups;

/// A store in the database `B`.
pub struct SqlStore<B> {
    pub(crate) database: B,
    pub(crate) master_keys: MasterKeys,
    pub(crate) ids: Arc<dyn IdGen>,
}

impl<B> Deref for SqlStore<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.database
    }
}

/// A database that runs statements and transactions.
#[async_trait]
pub(crate) trait Database: Send + Sync + 'static {
    /// Returns the wake-ups of this process.
    fn wakeups(&self) -> &Wakeups;

    /// Returns the current epoch.
    fn epoch(&self) -> Epoch;

    /// Returns the time after which a waiter looks at the database again, because a notification may have been lost; `None`
    /// if none can be lost.
    fn recheck(&self) -> Option<Duration> {
        None
    }

    /// Gives the events of the feed that have no position the next ones. With SQLite, an event gets its position when it
    /// is stored.
    async fn assign_positions(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Runs a short query by key. With SQLite, it runs on the calling thread (docs/decisions/0008-point-reads.md).
    async fn look_up(&self, query: Statement) -> Result<Vec<Row>, StoreError>;

    /// Runs a query that may take long.
    async fn query(&self, query: Statement) -> Result<Vec<Row>, StoreError>;

    /// Runs queries, and returns the rows of each. SQLite reads all of them from one snapshot. PostgreSQL gets them in one
    /// round trip, and each sees everything that was committed before it began.
    async fn query_all(&self, queries: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError>;

    /// Runs short queries by key like [`Database::query_all`]. With SQLite, they run on the calling thread.
    async fn look_up_all(&self, queries: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError>;

    /// Runs a query that may read many rows, and adds each of them to `sum`. SQLite does not keep the rows, and PostgreSQL
    /// plans the query for its values: a plan for any values may be much slower.
    async fn add_up<S: Sum>(&self, query: Statement, sum: S) -> Result<S, StoreError>;

    /// Claims rows that are due in a transaction. With SQLite, a transaction that finds none holds up the writer, so the
    /// query `due` looks first whether there are any.
    async fn claim(&self, due: Statement, claim: Statement) -> Result<Vec<Row>, StoreError>;

    /// Runs statements in one transaction, and returns the rows of each. PostgreSQL gets all of them at once, with the
    /// commit.
    async fn run_all(&self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, StoreError>;

    /// Runs a transaction. What it has written is on disk when this returns; if it fails, nothing is written. The function
    /// runs again after a conflict with another transaction, which has undone everything.
    async fn transact<T, F>(&self, operation: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'t> FnMut(&'t mut (dyn Tx + 't)) -> Step<'t, T> + Send + 'static;

    /// Looks up a row by its key.
    async fn find<T: Send>(&self, query: Statement, read: Read<T>) -> Result<Option<T>, StoreError> {
        self.look_up(query).await?.first().map(read).transpose()
    }

    /// Runs a query, and decodes its rows.
    async fn all<T: Send>(&self, query: Statement, read: Read<T>) -> Result<Vec<T>, StoreError> {
        self.query(query).await?.iter().map(read).collect()
    }

    /// Runs a statement, and returns whether it has returned rows.
    async fn changes(&self, statement: Statement) -> Result<bool, StoreError> {
        Ok(!self.run(vec![statement]).await?.is_empty())
    }

    /// Runs statements in one transaction, and returns the rows of the last one.
    async fn run(&self, statements: Vec<Statement>) -> Result<Vec<Row>, StoreError> {
        Ok(self.run_all(statements).await?.pop().unwrap_or_default())
    }
}

/// Decodes rows.
pub(crate) fn decoded<T>(rows: &[Row], read: Read<T>) -> Result<Vec<T>, StoreError> {
    rows.iter().map(read).collect()
}
