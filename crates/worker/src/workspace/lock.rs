//! One run at a time in a job's workspace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::ids::JobId;
use tokio::sync::OwnedMutexGuard;

/// The doors of this machine's workspaces.
#[derive(Debug, Default)]
pub(crate) struct Doors(Mutex<HashMap<JobId, Arc<tokio::sync::Mutex<()>>>>);

impl Doors {
    /// Waits until nobody else is in the job's workspace.
    pub(crate) async fn enter(&self, job: JobId) -> OwnedMutexGuard<()> {
        let door = {
            let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Doors that nobody holds or waits at are forgotten.
            doors.retain(|_, door| Arc::strong_count(door) > 1);
            Arc::clone(doors.entry(job).or_default())
        };
        door.lock_owned().await
    }
}
