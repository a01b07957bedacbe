//! The writer: a thread that takes everything that waits as one transaction, so that many requests share one fsync.
//!
//! A write that SQLite refuses takes nothing of its neighbours with it: the transaction is taken back, and each is done
//! again in one of its own. (Savepoints would do it too, and copy every page that is about to change: a sixth of the
//! writer's time.) Nobody is answered before the commit.

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
use crate::ticket::Ticket;

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
    /// Runs it; false if what it did must be undone. May be called again after that.
    fn run(&mut self, session: &Session<'_>) -> bool;
    /// Answers whoever waits. An error is that of the commit.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Pending<F, T, E> {
    operation: F,
    ticket: Ticket,
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
        if !self.ticket.begin() {
            return true;
        }
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
        let file = File { connection, cache, version: None };
        thread.spawn(move || run(file, &waiting))?;
        Ok(Self { queue })
    }

    /// Runs `operation` in a transaction. What it returns is on disk when this returns.
    pub(super) async fn write<F, T, E>(&self, operation: F) -> Result<T, E>
    where
        F: FnMut(&Session<'_>) -> Result<T, OpError<E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let ((reply, answer), ticket) = (oneshot::channel(), Ticket::default());
        match self.queue.try_send(Box::new(Pending { operation, ticket: ticket.clone(), result: None, reply })) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(E::from(StoreError::Busy)),
            Err(TrySendError::Disconnected(_)) => return Err(E::from(stopped())),
        }
        ticket.wait(answer).await
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the writer has stopped".to_owned())
}

/// The connection inside a batch, with the jobs that the batch has written so far.
pub(super) struct Session<'a> {
    connection: &'a Connection,
    cache: &'a JobCache,
    written: RefCell<HashMap<JobId, Job>>,
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
        self.written.borrow().get(&id).cloned().or_else(|| self.cache.committed(id))
    }

    /// The job was written.
    pub(super) fn wrote(&self, job: Job) {
        self.written.borrow_mut().insert(job.id, job);
    }

    /// Jobs were removed.
    pub(super) fn removed_jobs(&self) {
        self.removed.set(true);
    }
}

/// The file, as its one writer sees it.
struct File {
    connection: Connection,
    cache: Arc<JobCache>,
    /// SQLite's number of the last change by somebody else.
    version: Option<i64>,
}

/// How a batch ended that was not committed.
enum Undone {
    /// By one of several writes; without it the others may go through.
    ByOne,
    All(StoreError),
}

impl File {
    fn carry_out(&mut self, mut batch: Vec<Box<dyn Write>>) {
        let committed = match self.commit(&mut batch) {
            Ok(()) => Ok(()),
            Err(Undone::All(error)) => Err(error),
            Err(Undone::ByOne) => {
                for one in batch {
                    self.carry_out(vec![one]);
                }
                return;
            }
        };
        if let Err(error) = &committed {
            tracing::error!(%error, writes = batch.len(), "a transaction was not committed");
        }
        for write in batch {
            write.answer(committed.clone());
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Write>]) -> Result<(), Undone> {
        let result = self.transact(batch);
        if !self.connection.is_autocommit() {
            // Where even this fails the next BEGIN will, and say so.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        match result {
            Ok(true) => Ok(()),
            Ok(false) if batch.len() > 1 => Err(Undone::ByOne),
            // It has its own error to answer with.
            Ok(false) => Ok(()),
            Err(error) => Err(Undone::All(unavailable(&error))),
        }
    }

    /// Whether all writes went through and are committed.
    fn transact(&mut self, batch: &mut [Box<dyn Write>]) -> rusqlite::Result<bool> {
        let Self { connection, cache, version } = self;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // Differs from before if, and only if, another connection has written.
        let found = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version.replace(found) != Some(found) {
            cache.forget();
        }
        let (written, removed) = (RefCell::default(), Cell::new(false));
        let session = Session { connection, cache, written, removed };
        for write in batch {
            if !write.run(&session) {
                return Ok(false);
            }
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        if session.removed.get() {
            cache.forget();
        } else {
            cache.commit(session.written.take().into_values(), Instant::now());
        }
        Ok(true)
    }
}

fn run(mut file: File, waiting: &Receiver<Box<dyn Write>>) {
    // Ends when the store is dropped and the last write is done.
    while let Ok(first) = waiting.recv() {
        let mut batch = vec![first];
        batch.extend(waiting.try_iter().take(BATCH - 1));
        file.carry_out(batch);
    }
}
