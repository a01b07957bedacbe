//! Readers: connections that only read; lookups by key where they are asked, the rest on the runtime's blocking threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::fault::{Fault, leave_as_it_is};
use super::open_reader;
use super::rows::{ReadError, unavailable};

/// Reads at a time; each has a connection, with about 2 MB of cache at most.
const READERS: usize = 8;

/// Connections that only read.
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

    /// Looks up one thing by its key, where it is asked: so short a read that a hop to another thread and back would be a
    /// good part of it (docs/decisions/0008-point-reads.md).
    pub(super) fn find<T>(&self, query: impl FnOnce(&Connection) -> Result<T, ReadError>) -> Result<T, StoreError> {
        self.fault.check()?;
        let found = with_connection(&self.idle, &self.path, query)?;
        self.fault.check().map(|()| found)
    }

    /// Runs a query that may take long.
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
            task.await.map_err(|error| StoreError::Unavailable(format!("a read was not finished: {error}")))??;
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
