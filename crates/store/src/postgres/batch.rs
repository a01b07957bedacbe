//! Batches: concurrent requests share a transaction, and thus its round trips and its fsync.
//!
//! The store never guesses the outcome of a request. If the connection is lost during a commit, the store asks the
//! server whether the transaction was committed, and repeats it if it was not.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use journeyman_core::ports::{Accepted, StoreError, UpdateError};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

use super::accept::{Needs, Request, Tables};
use super::epoch::Epochs;
use super::error::PgError;
use super::news::News;
use super::pipeline::call;
use super::session::Session;
use crate::ticket::Ticket;

/// The maximum number of waiting requests. Further requests fail with [`StoreError::Busy`].
const QUEUE: usize = 4096;

/// The maximum number of requests that share a transaction.
const BATCH: usize = 256;

/// The number of concurrent transactions: while one waits for the disk, the next one is decided.
const WRITERS: usize = 2;

/// The maximum time for which requests wait for an unreachable server. A restart usually takes less time.
const OUTAGE: Duration = Duration::from_secs(5);

/// The maximum time for finding out whether a transaction was committed.
const INQUIRY: Duration = Duration::from_secs(15);

/// The maximum number of times that a transaction is repeated after a conflict with another transaction.
pub(super) const CONFLICTS: u32 = 5;

type Answer = Result<Accepted, UpdateError>;

/// The queue of requests.
#[derive(Debug)]
pub(super) struct Batches {
    queue: mpsc::Sender<Pending>,
}

struct Pending {
    request: Request,
    ticket: Ticket,
    reply: oneshot::Sender<Answer>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

impl Batches {
    /// Starts the tasks that run batches. They end when the queue is dropped.
    pub(super) fn start(pool: &Pool, news: &Arc<News>, epochs: &Arc<Epochs>) -> Self {
        let (queue, waiting) = mpsc::channel::<Pending>(QUEUE);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..WRITERS {
            let (pool, news, waiting) = (pool.clone(), Arc::clone(news), Arc::clone(&waiting));
            let epochs = Arc::clone(epochs);
            tokio::spawn(async move {
                loop {
                    let mut batch = Vec::new();
                    if waiting.lock().await.recv_many(&mut batch, BATCH).await == 0 {
                        return;
                    }
                    batch.retain(|pending| pending.ticket.begin());
                    if !batch.is_empty() {
                        run_batch(&pool, &news, &epochs, batch).await;
                    }
                }
            });
        }
        Self { queue }
    }

    /// Runs a request. An accepted change is durable when this returns.
    pub(super) async fn add(&self, request: Request) -> Answer {
        let ((reply, answer), ticket) = (oneshot::channel(), Ticket::default());
        self.queue.try_send(Pending { request, ticket: ticket.clone(), reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })?;
        ticket.wait(answer).await
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the store was closed".to_owned())
}

/// The failure of a batch.
enum BatchFailure {
    /// Nothing was stored.
    NotStored(PgError),
    /// It is unknown whether the batch was stored.
    Unknown(String),
}

async fn run_batch(pool: &Pool, news: &News, epochs: &Epochs, mut batch: Vec<Pending>) {
    let (begun, mut conflicts) = (Instant::now(), 0);
    // Each connection of the pool may have a stale plan.
    let mut stale = pool.status().max_size;
    let failure = loop {
        match attempt(pool, epochs, &mut batch).await {
            Ok(answers) => {
                for (pending, answer) in batch.into_iter().zip(answers) {
                    if let Ok(accepted) = &answer {
                        news.accepted(accepted);
                    }
                    // The receiver may have been dropped with its request; the write remains valid.
                    let _ = pending.reply.send(answer);
                }
                return;
            }
            Err(BatchFailure::NotStored(error)) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
            Err(BatchFailure::NotStored(error)) if error.is_stale_plan() && stale > 0 => stale -= 1,
            Err(BatchFailure::NotStored(error)) if error.is_lost() && begun.elapsed() < OUTAGE => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(failure) => break failure,
        }
    };
    let error = match failure {
        // A request that the server rejects must not fail the others.
        BatchFailure::NotStored(error) if !error.is_lost() && batch.len() > 1 => {
            for single in batch {
                Box::pin(run_batch(pool, news, epochs, vec![single])).await;
            }
            return;
        }
        BatchFailure::NotStored(error) => StoreError::from(error),
        BatchFailure::Unknown(text) => StoreError::Unknown(text),
    };
    tracing::error!(%error, requests = batch.len(), "a transaction failed; its requests return this error");
    for pending in batch {
        let _ = pending.reply.send(Err(error.clone().into()));
    }
}

async fn attempt(pool: &Pool, epochs: &Epochs, batch: &mut [Pending]) -> Result<Vec<Answer>, BatchFailure> {
    let session = Session::open(pool).await.map_err(BatchFailure::NotStored)?;
    let needs = Needs::of(batch.iter().map(|pending| &pending.request));
    let read = session.run(&needs.calls()).await.map_err(BatchFailure::NotStored)?;
    let mut tables = Tables::read(&read, epochs.base()).map_err(BatchFailure::NotStored)?;
    let answers = batch.iter_mut().map(|pending| pending.request.decide(&mut tables)).collect();
    let mut calls = tables.writes.calls().map_err(|error| BatchFailure::NotStored(error.into()))?;
    calls.push(call!("COMMIT"));
    match session.run(&calls).await {
        Ok(_) => {
            session.release();
            Ok(answers)
        }
        Err(error) if error.is_lost() => {
            drop(session);
            resolve_commit(pool, &tables, error).await.map(|()| answers)
        }
        Err(error) => Err(BatchFailure::NotStored(error)),
    }
}

/// Finds out whether a transaction was committed after its connection was lost with `error`, and fails if it was not.
async fn resolve_commit(pool: &Pool, tables: &Tables, error: PgError) -> Result<(), BatchFailure> {
    let begun = Instant::now();
    while begun.elapsed() < INQUIRY {
        match is_committed(pool, tables).await {
            Ok(Some(true)) => return Ok(()),
            Ok(Some(false)) => return Err(BatchFailure::NotStored(error)),
            // The server still runs the transaction of the lost connection, or is unreachable.
            Ok(None) | Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    Err(BatchFailure::Unknown(StoreError::from(error).to_string()))
}

/// Returns whether a transaction was committed; `None` while it is in progress.
///
/// The number of the transaction only shows whether it is in progress. It does not prove a commit, because after a
/// crash the server reuses the numbers of lost transactions. The proof is a row that the transaction wrote.
async fn is_committed(pool: &Pool, tables: &Tables) -> Result<Option<bool>, PgError> {
    let session = Session::open(pool).await?;
    let status = call!("SELECT pg_xact_status($1::text::xid8) AS status", tables.transaction.clone());
    match session.run(&[status]).await {
        Ok(rows) => {
            let row = rows.into_iter().flatten().next();
            let status: Option<String> = row.map(|row| row.try_get("status")).transpose()?.flatten();
            if status.is_some_and(|status| status == "in progress") {
                session.release();
                return Ok(None);
            }
        }
        Err(error) if error.is_lost() => return Err(error),
        // A server that replaced a lost one may not have reached that number yet.
        Err(_) => {}
    }
    // Changes without such a row can safely be repeated.
    let Some(evidence) = tables.writes.evidence() else { return Ok(Some(false)) };
    let found = session.run(&[evidence]).await?;
    session.release();
    Ok(Some(found.into_iter().flatten().next().is_some()))
}
