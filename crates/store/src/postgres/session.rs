//! A connection for a transaction. It returns to the pool only after the transaction has ended. If the transaction was
//! abandoned, because of an error or because its request was dropped, the connection is closed, and the server rolls
//! the transaction back.

use std::time::Duration;

use deadpool_postgres::{Client, Pool};
use tokio_postgres::Row;

use super::error::PgError;
use super::pipeline::{self, Query};

/// The timeout for a response, slightly longer than the server's statement timeout. Exceeding it indicates a network
/// failure.
const ANSWER: Duration = Duration::from_secs(12);

/// A connection that is closed unless it is [released](Session::release).
pub(super) struct Session(Option<Client>);

impl Session {
    pub(super) async fn open(pool: &Pool) -> Result<Self, PgError> {
        Ok(Self(Some(pool.get().await?)))
    }

    /// Runs statements in one round trip; see [`pipeline::run`].
    pub(super) async fn run(&self, calls: &[Query]) -> Result<Vec<Vec<Row>>, PgError> {
        let Some(client) = &self.0 else { return Err(released()) };
        let silent = |_| PgError::Lost("the server did not answer in time".to_owned());
        tokio::time::timeout(ANSWER, pipeline::run(client, calls)).await.map_err(silent)?
    }

    /// Runs statements like [`Session::run`], without a timeout for the response.
    pub(super) async fn run_long(&self, calls: &[Query]) -> Result<Vec<Vec<Row>>, PgError> {
        let Some(client) = &self.0 else { return Err(released()) };
        pipeline::run(client, calls).await
    }

    /// Returns the connection to the pool. No transaction may be open.
    pub(super) fn release(mut self) {
        self.0 = None;
    }
}

fn released() -> PgError {
    PgError::Lost("the connection was already released".to_owned())
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Client::take(client));
        }
    }
}
