//! The shutdown of a store whose log can no longer be trusted.
//!
//! After an I/O error at COMMIT, the transaction may or may not be in the write-ahead log. The kernel may also have
//! dropped the pages that it could not write, and report success for the next fsync. Therefore the store stops reading
//! and writing, and the process ends: docs/decisions/0024-io-errors.md.

use std::sync::OnceLock;

use journeyman_core::ports::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio_util::sync::CancellationToken;

/// The first I/O error at COMMIT, if there was one. The writer, the readers and the task that ends the process share
/// it.
#[derive(Debug, Default)]
pub(super) struct Fault {
    reason: OnceLock<String>,
    happened: CancellationToken,
}

impl Fault {
    /// Refuses all requests from now on.
    pub(super) fn set(&self, error: &rusqlite::Error) {
        let reason = format!("COMMIT failed: {error}");
        if self.reason.set(reason).is_ok() {
            tracing::error!(%error, "the database can no longer be trusted; all further reads and writes are refused");
        }
        self.happened.cancel();
    }

    /// Returns an error if the log can no longer be trusted.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.reason.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::Unavailable(format!("the database can no longer be trusted: {reason}"))),
        }
    }

    /// Waits until the log can no longer be trusted, and returns the reason.
    pub(super) async fn happened(&self) -> String {
        self.happened.cancelled().await;
        self.reason.get().cloned().unwrap_or_default()
    }
}

/// Returns whether a COMMIT that failed with `error` has certainly stored nothing and left the log unchanged.
///
/// SQLite returns `SQLITE_FULL` if a write fails with ENOSPC. The commit frame of a transaction is written last, and is
/// invalid unless it is complete (no padding follows it, because SQLite assumes that a torn write on a Unix file does
/// not affect neighboring bytes). An fsync that runs out of space is an `SQLITE_IOERR_FSYNC`. The other errors are
/// refusals before anything is written.
pub(super) fn stored_nothing(error: &rusqlite::Error) -> bool {
    use ErrorCode::{ConstraintViolation, DatabaseBusy, DatabaseLocked, DiskFull};
    matches!(error.sqlite_error_code(), Some(DiskFull | DatabaseBusy | DatabaseLocked | ConstraintViolation))
}

/// Prevents the checkpoint when a connection closes. The next process makes the checkpoint, after it has ensured that
/// the log is on disk.
pub(super) fn leave_as_it_is(connection: &Connection) {
    // If this fails, the checkpoint copies only pages that were synced before.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}
