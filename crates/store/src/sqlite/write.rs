//! The writer: a thread that runs all waiting writes in one transaction, so that many requests share one fsync.
//!
//! If SQLite rejects a write, the transaction is rolled back, and each of its writes runs again in a separate
//! transaction, so that the others succeed. (Savepoints would serve the same purpose, but they copy every page that is
//! about to change, which took a sixth of the writer's time.) No request is answered before the commit.
//!
//! A COMMIT that fails with an I/O error may still have stored the transaction. Its requests then fail with
//! [`StoreError::Unknown`], and the process makes no further transaction: see [`Fault`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use journeyman_core::epoch::Epoch;
use journeyman_core::ids::JobId;
use journeyman_core::job::Job;
use journeyman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::cache::JobCache;
use super::error::{OpError, unavailable};
use super::fault::{Fault, leave_as_it_is, stored_nothing};
use crate::spans::transaction;
use crate::ticket::Ticket;

/// The maximum number of waiting writes. Further writes fail with [`StoreError::Busy`].
const QUEUE: usize = 4096;

/// The maximum number of writes that share a transaction, which limits how long the first one waits for the last.
const BATCH: usize = 256;

/// The queue of writes for the writer thread.
#[derive(Debug)]
pub(super) struct Writer {
    queue: SyncSender<Box<dyn Write>>,
    /// The thread, which closes the database when the queue is dropped; `None` if somebody else waits for it.
    pub(super) thread: Option<JoinHandle<()>>,
}

/// A queued write, independent of its result type.
trait Write: Send {
    /// Runs the write. Returns false if the transaction must be rolled back; the write may then run again.
    fn run(&mut self, session: &mut Session<'_>) -> bool;
    /// Sends the result to the caller, or the error of the commit.
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
    F: FnMut(&mut Session<'_>) -> Result<T, OpError<E>> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, session: &mut Session<'_>) -> bool {
        if !self.ticket.begin() {
            return true;
        }
        let (result, keep) = match (self.operation)(session) {
            Ok(value) => (Ok(value), true),
            Err(OpError::Refused(error)) => (Err(error), true),
            Err(OpError::Failed(error)) => (Err(error), false),
            Err(OpError::Sql(error)) => (Err(E::from(unavailable(&error))), false),
        };
        self.result = Some(result);
        keep
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let stopped = || Err(E::from(StoreError::Unavailable("the write was not executed".to_owned())));
        let result = match committed {
            Ok(()) => self.result.unwrap_or_else(stopped),
            Err(error) => Err(E::from(error)),
        };
        // The receiver may have been dropped with its request; the write remains valid.
        let _ = self.reply.send(result);
    }
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        cache: Arc<JobCache>,
        fault: Arc<Fault>,
        epoch: Arc<Epoch>,
    ) -> std::io::Result<Self> {
        Self::with_commit(connection, cache, fault, epoch, commit)
    }

    fn with_commit(
        connection: Connection,
        cache: Arc<JobCache>,
        fault: Arc<Fault>,
        epoch: Arc<Epoch>,
        commit: Commit,
    ) -> std::io::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("sqlite-writer".to_owned());
        let file = File { connection, cache, fault, epoch, commit, version: None };
        let thread = thread.spawn(move || run(file, &waiting))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Runs `operation` in a transaction. Its changes are on disk when this returns.
    pub(super) async fn write<F, T, E>(&self, operation: F) -> Result<T, E>
    where
        F: FnMut(&mut Session<'_>) -> Result<T, OpError<E>> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let ((reply, answer), ticket) = (oneshot::channel(), Ticket::default());
        match self.queue.try_send(Box::new(Pending { operation, ticket: ticket.clone(), result: None, reply })) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(E::from(StoreError::Busy)),
            Err(TrySendError::Disconnected(_)) => return Err(E::from(stopped())),
        }
        ticket.wait(answer).instrument(transaction("sqlite")).await
    }
}

/// A function that commits a transaction. Tests replace it to simulate a failing disk.
type Commit = fn(&Connection) -> rusqlite::Result<()>;

fn commit(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the writer thread has stopped".to_owned())
}

/// The connection inside a batch, with the jobs that the batch has written so far.
pub(super) struct Session<'a> {
    /// Exclusive, so that the session can be sent between threads.
    connection: &'a mut Connection,
    /// The current epoch, which does not change while the database is open.
    pub(super) epoch: &'a Epoch,
    cache: &'a JobCache,
    written: RefCell<HashMap<JobId, Job>>,
    /// Set if jobs were deleted.
    removed: Cell<bool>,
    /// Set if data about other jobs was changed.
    related: Cell<bool>,
}

impl Deref for Session<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Session<'_> {
    /// Returns the current state of a job, if it is known without reading the database.
    pub(super) fn known(&self, id: JobId) -> Option<Job> {
        if self.removed.get() {
            return None;
        }
        self.written.borrow().get(&id).cloned().or_else(|| self.cache.committed(id))
    }

    /// Records the new state of a job.
    pub(super) fn wrote(&self, job: Job) {
        self.written.borrow_mut().insert(job.id, job);
    }

    /// Records that data which is not in the documents of jobs was changed, and may be about jobs that were not written.
    pub(super) fn changed_related(&self) {
        self.related.set(true);
    }

    /// Records that jobs were deleted. The rest of the batch reads jobs from the database.
    pub(super) fn removed_jobs(&self) {
        self.removed.set(true);
        self.written.borrow_mut().clear();
    }
}

/// The database file, with the state of its writer.
struct File {
    connection: Connection,
    cache: Arc<JobCache>,
    fault: Arc<Fault>,
    epoch: Arc<Epoch>,
    commit: Commit,
    /// The last `data_version`, which SQLite changes when another connection writes.
    version: Option<i64>,
}

/// The failure of a batch.
enum BatchFailure {
    /// One of several writes failed; the others may succeed without it.
    OneWrite,
    /// The whole transaction failed.
    All(StoreError),
}

impl From<rusqlite::Error> for BatchFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::All(unavailable(&error))
    }
}

impl File {
    fn run_batch(&mut self, mut batch: Vec<Box<dyn Write>>) {
        let committed = match self.fault.check().map_err(BatchFailure::All).and_then(|()| self.commit(&mut batch)) {
            Ok(()) => Ok(()),
            Err(BatchFailure::All(error)) => Err(error),
            Err(BatchFailure::OneWrite) => {
                for one in batch {
                    self.run_batch(vec![one]);
                }
                return;
            }
        };
        if let Err(error) = &committed {
            tracing::error!(%error, writes = batch.len(), "a transaction failed; its requests return this error");
        }
        for write in batch {
            write.answer(committed.clone());
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Write>]) -> Result<(), BatchFailure> {
        let result = self.transact(batch);
        if !self.connection.is_autocommit() {
            // If this fails, the next BEGIN fails too and reports it.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        match result {
            // A single failed write has its own error as its result.
            Ok(complete) if complete || batch.len() == 1 => Ok(()),
            Ok(_) => Err(BatchFailure::OneWrite),
            Err(error) => Err(error),
        }
    }

    /// Runs the writes and commits them. Returns false, without a commit, if one of them failed.
    fn transact(&mut self, batch: &mut [Box<dyn Write>]) -> Result<bool, BatchFailure> {
        let Self { connection, cache, fault, epoch, commit, version } = self;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // The number changes if and only if another connection has written.
        let found = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if version.replace(found) != Some(found) {
            cache.clear();
        }
        let (written, removed, related) = (RefCell::default(), Cell::new(false), Cell::new(false));
        let mut session = Session { connection, epoch, cache, written, removed, related };
        for write in batch {
            if !write.run(&mut session) {
                return Ok(false);
            }
        }
        if let Err(error) = commit(session.connection) {
            if stored_nothing(&error) {
                return Err(error.into());
            }
            // Set the fault before answering any request: a client that then checks whether its request was stored must
            // not find that it was not.
            fault.set(&error);
            leave_as_it_is(session.connection);
            return Err(BatchFailure::All(StoreError::Unknown(error.to_string())));
        }
        if session.removed.get() {
            cache.clear();
        } else {
            if session.related.get() {
                cache.forget_related();
            }
            cache.commit(session.written.take().into_values(), Instant::now());
        }
        Ok(true)
    }
}

fn run(mut file: File, waiting: &Receiver<Box<dyn Write>>) {
    // Ends after the store was dropped and the last write has finished.
    while let Ok(first) = waiting.recv() {
        let mut batch = vec![first];
        batch.extend(waiting.try_iter().take(BATCH - 1));
        file.run_batch(batch);
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    fn writer(commit: Commit) -> (Writer, Arc<Fault>) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE numbers (number INTEGER PRIMARY KEY)").unwrap();
        let fault = Arc::new(Fault::default());
        (Writer::with_commit(connection, Arc::default(), Arc::clone(&fault), Arc::default(), commit).unwrap(), fault)
    }

    async fn insert(writer: &Writer, number: i64) -> Result<(), StoreError> {
        let insert = move |db: &mut Session<'_>| {
            db.execute("INSERT INTO numbers VALUES (?1)", [number])?;
            Ok(())
        };
        writer.write(insert).await
    }

    async fn count(writer: &Writer) -> Result<i64, StoreError> {
        writer.write(|db| Ok(db.query_row("SELECT count(*) FROM numbers", [], |row| row.get(0))?)).await
    }

    #[tokio::test]
    async fn an_io_error_at_commit_has_an_unknown_outcome_and_stops_the_store() {
        let commits: [Commit; 4] = [
            |_| Err(failure(ffi::SQLITE_IOERR_FSYNC)),
            |_| Err(failure(ffi::SQLITE_IOERR_WRITE)),
            |_| Err(failure(ffi::SQLITE_CORRUPT)),
            |_| Err(failure(ffi::SQLITE_NOMEM)),
        ];
        for (code, commit) in commits.into_iter().enumerate() {
            let (writer, fault) = writer(commit);
            let both = tokio::join!(insert(&writer, 1), insert(&writer, 2));
            assert!(matches!(both.0, Err(StoreError::Unknown(_))), "{code}: {both:?}");
            assert!(both.1.is_err(), "{code}: {both:?}");
            fault.happened().await;
            let Err(StoreError::Unavailable(text)) = insert(&writer, 3).await else { panic!("{code}: not refused") };
            assert!(text.contains("no longer be trusted"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_full_disk_at_commit_stores_nothing_and_later_writes_succeed() {
        let (writer, fault) = writer(|db| {
            // Reports a full disk for only one transaction, which contains the number 7.
            if db.query_row("SELECT count(*) FROM numbers WHERE number = 7", [], |row| row.get::<_, i64>(0))? == 0 {
                return commit(db);
            }
            Err(failure(ffi::SQLITE_FULL))
        });
        insert(&writer, 1).await.unwrap();
        assert!(matches!(insert(&writer, 7).await, Err(StoreError::Full(_))));
        insert(&writer, 2).await.unwrap();
        assert_eq!(count(&writer).await, Ok(2));
        assert_eq!(fault.check(), Ok(()));
    }

    #[tokio::test]
    async fn a_failure_before_commit_stores_nothing_and_does_not_stop_the_store() {
        let (writer, fault) = writer(commit);
        let full = |db: &mut Session<'_>| -> Result<(), OpError<StoreError>> {
            db.execute("INSERT INTO numbers VALUES (1)", [])?;
            Err(OpError::Sql(failure(ffi::SQLITE_IOERR_WRITE)))
        };
        assert!(matches!(writer.write(full).await, Err(StoreError::Unavailable(_))));
        assert_eq!(count(&writer).await, Ok(0));
        assert_eq!(fault.check(), Ok(()));
    }
}
