//! Read-only connections. Lookups by key run on the calling thread, other queries on the blocking threads of the
//! runtime.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection::open_reader;
use super::error::{ReadError, unavailable};
use super::fault::{Fault, leave_as_it_is};

/// The maximum number of concurrent reads. Each has a connection, with a cache of at most 2 MB or so.
const READERS: usize = 8;

/// The pool of read-only connections.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
    fault: Arc<Fault>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, fault: Arc<Fault>) -> Self {
        Self { path, idle: Arc::default(), permits: Arc::new(Semaphore::new(READERS)), fault }
    }

    /// Looks up a row by its key, on the calling thread: a switch to another thread and back would make up a large part
    /// of such a short read (docs/decisions/0008-point-reads.md).
    pub(super) fn find<T>(&self, query: impl FnOnce(&Connection) -> Result<T, ReadError>) -> Result<T, StoreError> {
        self.fault.check()?;
        let found = with_connection(&self.idle, &self.path, query)?;
        self.fault.check().map(|()| found)
    }

    /// Runs a query that may take long, on a blocking thread.
    pub(super) async fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
        T: Send + 'static,
    {
        self.fault.check()?;
        let closed = |_| StoreError::Unavailable("the store was closed".to_owned());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let (idle, path) = (Arc::clone(&self.idle), self.path.clone());
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            with_connection(&idle, &path, query)
        });
        let found =
            task.await.map_err(|error| StoreError::Unavailable(format!("a read did not finish: {error}")))??;
        self.fault.check().map(|()| found)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        if self.fault.check().is_err() {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.iter().for_each(leave_as_it_is);
        }
    }
}

fn with_connection<T>(
    idle: &Mutex<Vec<Connection>>,
    path: &Path,
    query: impl FnOnce(&Connection) -> Result<T, ReadError>,
) -> Result<T, StoreError> {
    let known = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let connection = match known {
        Some(connection) => connection,
        None => open_reader(path).map_err(|error| unavailable(&error))?,
    };
    let result = query(&connection).map_err(StoreError::from);
    idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    result
}
