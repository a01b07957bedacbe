//! Readers: connections that only read, on the runtime's blocking threads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

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
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Arc::default(), permits: Arc::new(Semaphore::new(READERS)) }
    }

    /// Runs a query.
    pub(super) async fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
        T: Send + 'static,
    {
        let closed = |_| StoreError::Unavailable("the store was closed".to_owned());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let (idle, path) = (Arc::clone(&self.idle), self.path.clone());
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let known = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match known {
                Some(connection) => connection,
                None => open_reader(&path).map_err(|error| unavailable(&error))?,
            };
            let result = query(&connection).map_err(StoreError::from);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            result
        });
        task.await.map_err(|error| StoreError::Unavailable(format!("a read was not finished: {error}")))?
    }
}
