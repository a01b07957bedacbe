//! A transaction on either database.

use async_trait::async_trait;
use futures::future::BoxFuture;
use journeyman_core::ports::StoreError;

use super::row::{Read, Row};
use super::statement::Statement;
use crate::postgres::PgError;

/// A transaction that writes.
#[async_trait]
pub(crate) trait Tx: Send {
    /// Runs a statement, and returns its rows.
    async fn query(&mut self, statement: Statement) -> Result<Vec<Row>, DbError>;

    /// Runs statements in one round trip, and returns the rows of each.
    async fn query_all(&mut self, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, DbError>;

    /// Runs a statement whose rows are not needed. PostgreSQL gets it together with the next query, or with the commit,
    /// which then returns its error.
    async fn execute(&mut self, statement: Statement) -> Result<(), DbError>;

    /// Records that data which is not in the documents of jobs was changed, and may be about jobs that were not written.
    /// SQLite has a cache of such data; PostgreSQL has none.
    fn changed_related(&mut self) {}

    /// Records that jobs were deleted. SQLite has a cache of them; PostgreSQL has none.
    fn removed_jobs(&mut self) {}

    /// Allows the statements from now on to take long, because they may concern many rows. SQLite has no limit.
    fn take_long(&mut self) {}
}

impl dyn Tx + '_ {
    /// Runs a query, and decodes its first row, if there is one.
    pub(crate) async fn one<T>(&mut self, statement: Statement, read: Read<T>) -> Result<Option<T>, DbError> {
        Ok(self.query(statement).await?.first().map(read).transpose()?)
    }

    /// Runs queries in one round trip, and returns the rows of each in their order.
    pub(crate) async fn all<const N: usize>(&mut self, queries: [Statement; N]) -> Result<[Vec<Row>; N], DbError> {
        let mut answers = self.query_all(Vec::from(queries)).await?.into_iter();
        Ok(std::array::from_fn(|_| answers.next().unwrap_or_default()))
    }

    /// Runs a query, and returns whether it has rows.
    pub(crate) async fn exists(&mut self, statement: Statement) -> Result<bool, DbError> {
        Ok(!self.query(statement).await?.is_empty())
    }
}

/// An error of a database.
#[derive(Debug)]
pub(crate) enum DbError {
    /// SQLite returned an error.
    Sqlite(rusqlite::Error),
    /// PostgreSQL returned an error, or was not reached.
    Postgres(PgError),
    /// A row cannot be decoded, or a value not be encoded.
    Store(StoreError),
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<PgError> for DbError {
    fn from(error: PgError) -> Self {
        Self::Postgres(error)
    }
}

impl From<StoreError> for DbError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The future of a function on a transaction.
pub(crate) type Step<'t, T> = BoxFuture<'t, Result<T, DbError>>;
