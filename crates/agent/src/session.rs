//! An open session and the right to run a turn in it.
//!
//! Invariant: at most one [`Running`] exists for a session; it is created in the dispatch loop, before the turn is
//! spawned, so a `session/cancel` that follows a prompt always finds the turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::store::{SessionFile, SessionKey};
use crate::workspace::Workspace;

/// An open session.
pub(crate) struct Session {
    /// The identifier of the session, which also names its file.
    pub(crate) key: SessionKey,
    /// The directory that the session works in.
    pub(crate) workspace: Workspace,
    /// The stored state; a turn locks it from its start to its end.
    pub(crate) file: tokio::sync::Mutex<SessionFile>,
    running: Mutex<Option<CancellationToken>>,
}

impl Session {
    /// Opens a session with its stored state.
    pub(crate) fn new(key: SessionKey, workspace: Workspace, file: SessionFile) -> Self {
        Self { key, workspace, file: tokio::sync::Mutex::new(file), running: Mutex::new(None) }
    }

    /// Claims the right to run a turn; returns `None` if a turn is running.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Running> {
        let mut running = lock(&self.running);
        if running.is_some() {
            return None;
        }
        let cancel = CancellationToken::new();
        *running = Some(cancel.clone());
        Some(Running { session: Arc::clone(self), cancel })
    }

    /// Returns whether a turn is running.
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.running).is_some()
    }

    /// Asks the running turn to stop; does nothing if no turn is running.
    pub(crate) fn cancel(&self) {
        if let Some(cancel) = lock(&self.running).as_ref() {
            cancel.cancel();
        }
    }
}

/// The right to run a turn in a session; dropping it releases the right.
pub(crate) struct Running {
    /// The session of the turn.
    pub(crate) session: Arc<Session>,
    /// Cancels the turn.
    pub(crate) cancel: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        *lock(&self.session.running) = None;
    }
}

/// Locks a mutex. The data behind these locks is consistent after every statement, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_turn_at_a_time_and_cancel_reaches_it() {
        let directory = tempfile::tempdir().unwrap();
        let session = Arc::new(Session::new(
            SessionKey::parse("s").unwrap(),
            Workspace::open(directory.path()).unwrap(),
            SessionFile::new("test/scripted"),
        ));
        session.cancel();
        let running = session.begin().unwrap();
        assert!(session.begin().is_none());
        assert!(!running.cancel.is_cancelled());
        session.cancel();
        assert!(running.cancel.is_cancelled());
        drop(running);
        assert!(!session.is_running());
        assert!(!session.begin().unwrap().cancel.is_cancelled());
    }
}
