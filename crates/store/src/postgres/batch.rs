//! Requests that come at the same time share a transaction, and so its round trips and its fsync.
//!
//! A request is never answered with a guess. If the connection is lost while a transaction commits, the server is asked
//! what became of it; if it did not commit, it is done again.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use journeyman_core::ports::{Accepted, StoreError, UpdateError};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

use super::accept::{Needs, Request, Tables};
use super::error::PgError;
use super::news::News;
use super::pipeline::call;
use super::session::Session;
use crate::ticket::Ticket;

/// Requests that may wait. Beyond that the store is busy and says so.
const QUEUE: usize = 4096;

/// Requests that share a transaction at most.
const BATCH: usize = 256;

/// Transactions at a time: while one waits for the disk the next is decided.
const WRITERS: usize = 2;

/// How long an absent server is waited for before requests are refused: a restart is over sooner.
const OUTAGE: Duration = Duration::from_secs(5);

/// How long it is asked for the fate of a commit.
const INQUIRY: Duration = Duration::from_secs(15);

/// Times that a transaction is begun again because another was in its way.
const CONFLICTS: u32 = 5;

type Answer = Result<Accepted, UpdateError>;

/// Takes requests.
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
    /// Starts the tasks; they end when this is dropped.
    pub(super) fn start(pool: &Pool, news: &Arc<News>) -> Self {
        let (queue, waiting) = mpsc::channel::<Pending>(QUEUE);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..WRITERS {
            let (pool, news, waiting) = (pool.clone(), Arc::clone(news), Arc::clone(&waiting));
            tokio::spawn(async move {
                loop {
                    let mut batch = Vec::new();
                    if waiting.lock().await.recv_many(&mut batch, BATCH).await == 0 {
                        return;
                    }
                    batch.retain(|pending| pending.ticket.begin());
                    if !batch.is_empty() {
                        carry_out(&pool, &news, batch).await;
                    }
                }
            });
        }
        Self { queue }
    }

    /// Carries out a request; what it answers is on disk.
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

/// Why a batch was not answered.
enum Undone {
    /// Nothing was stored.
    Nothing(PgError),
    /// Nobody can tell.
    Unknown(String),
}

async fn carry_out(pool: &Pool, news: &News, mut batch: Vec<Pending>) {
    let (begun, mut conflicts) = (Instant::now(), 0);
    let undone = loop {
        match attempt(pool, &mut batch).await {
            Ok(answers) => {
                for (pending, answer) in batch.into_iter().zip(answers) {
                    if let Ok(accepted) = &answer {
                        news.accepted(accepted);
                    }
                    // Nobody waits any more if the request was dropped; the write stands all the same.
                    let _ = pending.reply.send(answer);
                }
                return;
            }
            Err(Undone::Nothing(error)) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
            Err(Undone::Nothing(error)) if error.is_lost() && begun.elapsed() < OUTAGE => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(undone) => break undone,
        }
    };
    let error = match undone {
        // One request that the server does not take must not take the others with it.
        Undone::Nothing(error) if !error.is_lost() && batch.len() > 1 => {
            for alone in batch {
                Box::pin(carry_out(pool, news, vec![alone])).await;
            }
            return;
        }
        Undone::Nothing(error) => StoreError::from(error),
        Undone::Unknown(text) => StoreError::Unknown(text),
    };
    tracing::error!(%error, requests = batch.len(), "a transaction was not committed");
    for pending in batch {
        let _ = pending.reply.send(Err(error.clone().into()));
    }
}

async fn attempt(pool: &Pool, batch: &mut [Pending]) -> Result<Vec<Answer>, Undone> {
    let session = Session::open(pool).await.map_err(Undone::Nothing)?;
    let needs = Needs::of(batch.iter().map(|pending| &pending.request));
    let read = session.run(&needs.calls()).await.map_err(Undone::Nothing)?;
    let mut tables = Tables::read(&read).map_err(Undone::Nothing)?;
    let answers = batch.iter_mut().map(|pending| pending.request.decide(&mut tables)).collect();
    let mut calls = tables.writes.calls().map_err(|error| Undone::Nothing(error.into()))?;
    calls.push(call!("COMMIT"));
    match session.run(&calls).await {
        Ok(_) => {
            session.release();
            Ok(answers)
        }
        Err(error) if error.is_lost() => {
            drop(session);
            fate(pool, &tables, error).await.map(|()| answers)
        }
        Err(error) => Err(Undone::Nothing(error)),
    }
}

/// Whether a transaction was committed whose answer did not come; `error` is what came instead.
async fn fate(pool: &Pool, tables: &Tables, error: PgError) -> Result<(), Undone> {
    let begun = Instant::now();
    while begun.elapsed() < INQUIRY {
        match ask(pool, tables).await {
            Ok(Some(true)) => return Ok(()),
            Ok(Some(false)) => return Err(Undone::Nothing(error)),
            // Still under way at the other end of a lost connection, or the server is not back yet.
            Ok(None) | Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    Err(Undone::Unknown(StoreError::from(error).to_string()))
}

/// Whether a transaction was committed; `None` while it is under way.
///
/// The server is not asked for that by the transaction's number alone: after a crash it gives the numbers of
/// transactions that were lost to others, and would tell of those.
async fn ask(pool: &Pool, tables: &Tables) -> Result<Option<bool>, PgError> {
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
        // A server that took over from one that is gone has not come to that number yet.
        Err(_) => {}
    }
    // Without a trace that could be found it was a change that may be made twice.
    let Some(evidence) = tables.writes.evidence() else { return Ok(Some(false)) };
    let found = session.run(&[evidence]).await?;
    session.release();
    Ok(Some(found.into_iter().flatten().next().is_some()))
}
