//! A connection for a transaction. It goes back to the pool only when the transaction is known to be over: one that was
//! left in the middle, by an error or because whoever waited has gone, is closed, and the server undoes what it had done.

use std::time::Duration;

use deadpool_postgres::{Client, Pool};
use tokio_postgres::Row;

use super::error::PgError;
use super::pipeline::{self, Call};

/// A little longer than the server lets a statement run: after that it is the network that does not answer.
const ANSWER: Duration = Duration::from_secs(12);

/// A connection that is closed unless it is [released](Session::release).
pub(super) struct Session(Option<Client>);

impl Session {
    pub(super) async fn open(pool: &Pool) -> Result<Self, PgError> {
        Ok(Self(Some(pool.get().await?)))
    }

    /// Runs statements in one go; see [`pipeline::run`].
    pub(super) async fn run(&self, calls: &[Call]) -> Result<Vec<Vec<Row>>, PgError> {
        let Some(client) = &self.0 else { return Err(given_back()) };
        let silent = |_| PgError::Lost("the server did not answer in time".to_owned());
        tokio::time::timeout(ANSWER, pipeline::run(client, calls)).await.map_err(silent)?
    }

    /// As [`Session::run`], for what takes as long as it takes.
    pub(super) async fn run_long(&self, calls: &[Call]) -> Result<Vec<Vec<Row>>, PgError> {
        let Some(client) = &self.0 else { return Err(given_back()) };
        pipeline::run(client, calls).await
    }

    /// No transaction is open: the connection may be used by others.
    pub(super) fn release(mut self) {
        self.0 = None;
    }
}

fn given_back() -> PgError {
    PgError::Lost("the connection was given back".to_owned())
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Client::take(client));
        }
    }
}
