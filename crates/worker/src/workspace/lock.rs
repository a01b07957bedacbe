//! Locks on workspaces: at most one run at a time uses a job's workspace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ids::JobId;
use tokio::sync::OwnedMutexGuard;

/// The locks of this machine's workspaces.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceLocks(Mutex<HashMap<JobId, Arc<tokio::sync::Mutex<()>>>>);

impl WorkspaceLocks {
    /// Waits for the lock of the job's workspace.
    pub(crate) async fn lock(&self, job: JobId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Remove locks that have neither a holder nor a waiter.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(job).or_default())
        };
        lock.lock_owned().await
    }
}
