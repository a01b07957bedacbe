//! The writer: a thread that takes everything that waits as one transaction, so that many requests share one fsync.
//!
//! Each write runs inside a savepoint of its own: one that fails takes nothing of its neighbours with it. Nobody is
//! answered before the commit.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Instant;

use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::ports::{StoreError, UpdateError};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::cache::JobCache;
use super::rows::unavailable;

/// Writes that may wait. Beyond that the store is busy and says so.
const QUEUE: usize = 4096;

/// Writes that share a transaction at most: bounds how long the first waits for the last.
const BATCH: usize = 256;

/// Why a write did not happen.
#[derive(Debug)]
pub(super) enum OpError<E> {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// It was refused by what it found, and had not written anything.
    Refused(E),
}

impl<E: From<StoreError>> From<StoreError> for OpError<E> {
    fn from(error: StoreError) -> Self {
        Self::Refused(E::from(error))
    }
}

impl From<UpdateError> for OpError<UpdateError> {
    fn from(error: UpdateError) -> Self {
        Self::Refused(error)
    }
}

impl<E> From<rusqlite::Error> for OpError<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Sends writes to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: SyncSender<Box<dyn Write>>,
}

/// A write whose types the thread need not know.
trait Write: Send {
    /// Runs it; false if what it did must be undone.
    fn run(&mut self, session: &Session<'_>) -> bool;
    /// Answers whoever waits. An error is that of the commit.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Pending<F, T, E> {
    operation: F,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Write for Pending<F, T, E>
where
    F: FnMut(&Session<'_>) -> Result<T, OpError<E>> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, session: &Session<'_>) -> bool {
        let (result, keep) = match (self.operation)(session) {
            Ok(value) => (Ok(value), true),
            Err(OpError::Refused(error)) => (Err(error), true),
            Err(OpError::Sql(error)) => (Err(E::from(unavailable(&error))), false),
        };
        self.result = Some(result);
        keep
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let stopped = || Err(E::from(StoreError::Unavailable("the write was not run".to_owned())));
        let result = match committed {
            Ok(()) => self.result.unwrap_or_else(stopped),
            Err(error) => Err(E::from(error)),
        };
        // Nobody waits any more if the request was dropped; the write stands all the same.
        let _ = self.reply.send(result);
    }
}

impl Writer {
    pub(super) fn start(connection: Connection, cache: Arc<JobCache>) -> std::io::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("sqlite-writer".to_owned());
        thread.spawn(move || run(&connection, &cache, &waiting))?;
        Ok(Self { queue })
    }

    /// Runs `operation` in a transaction. What it returns is on disk when this returns.
    pub(super) async fn write<F, T, E>(&self, operation: F) -> Result<T, E>
    where
        F: FnMut(&Session<'_>) -> Result<T, OpError<E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        match self.queue.try_send(Box::new(Pending { operation, result: None, reply })) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(E::from(StoreError::Busy)),
            Err(TrySendError::Disconnected(_)) => return Err(E::from(stopped())),
        }
        answer.await.unwrap_or_else(|_| Err(E::from(stopped())))
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".to_owned())
}

/// The connection inside a batch, with the jobs that the batch has written so far.
pub(super) struct Session<'a> {
    connection: &'a Connection,
    cache: &'a JobCache,
    /// By writes of this batch that are done.
    batch: RefCell<HashMap<JobId, Job>>,
    /// By the write that is being done.
    one: RefCell<Vec<Job>>,
    /// Whether jobs were removed.
    removed: Cell<bool>,
}

impl Deref for Session<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Session<'_> {
    /// The job as it is now, if it is known without looking into the file.
    pub(super) fn known(&self, id: JobId) -> Option<Job> {
        let of_this = self.one.borrow().iter().rev().find(|job| job.id == id).cloned();
        of_this.or_else(|| self.batch.borrow().get(&id).cloned()).or_else(|| self.cache.committed(id))
    }

    /// The job was written.
    pub(super) fn wrote(&self, job: Job) {
        self.one.borrow_mut().push(job);
    }

    /// Jobs were removed.
    pub(super) fn removed_jobs(&self) {
        self.removed.set(true);
    }

    /// The write is done, or undone.
    fn end_one(&self, keep: bool) {
        let jobs = self.one.take();
        if keep {
            self.batch.borrow_mut().extend(jobs.into_iter().map(|job| (job.id, job)));
        }
    }
}

fn run(connection: &Connection, cache: &JobCache, waiting: &Receiver<Box<dyn Write>>) {
    let mut seen_version = None;
    // Ends when the store is dropped and the last write is done.
    while let Ok(first) = waiting.recv() {
        let mut batch = vec![first];
        batch.extend(waiting.try_iter().take(BATCH - 1));
        let committed = commit(connection, cache, &mut seen_version, &mut batch);
        if let Err(error) = &committed {
            tracing::error!(%error, writes = batch.len(), "a transaction was not committed");
        }
        for write in batch {
            write.answer(committed.clone());
        }
    }
}

fn commit(
    connection: &Connection,
    cache: &JobCache,
    seen_version: &mut Option<i64>,
    batch: &mut [Box<dyn Write>],
) -> Result<(), StoreError> {
    let result = run_batch(connection, cache, seen_version, batch).map_err(|error| unavailable(&error));
    if result.is_err() && !connection.is_autocommit() {
        // Where even this fails the next BEGIN will, and say so.
        let _ = connection.execute_batch("ROLLBACK");
    }
    result
}

fn run_batch(
    connection: &Connection,
    cache: &JobCache,
    seen_version: &mut Option<i64>,
    batch: &mut [Box<dyn Write>],
) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    // Differs from before if, and only if, another connection has written.
    let version = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    if seen_version.replace(version) != Some(version) {
        cache.forget();
    }
    let (one, removed) = (RefCell::default(), Cell::new(false));
    let session = Session { connection, cache, batch: RefCell::default(), one, removed };
    for write in batch {
        connection.prepare_cached("SAVEPOINT one")?.execute([])?;
        let keep = write.run(&session);
        if !keep {
            // Some errors, such as a full disk, end the whole transaction: then this fails, and all are told.
            connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
        }
        session.end_one(keep);
        connection.prepare_cached("RELEASE one")?.execute([])?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    if session.removed.get() {
        cache.forget();
    } else {
        cache.commit(session.batch.take().into_values(), Instant::now());
    }
    Ok(())
}
