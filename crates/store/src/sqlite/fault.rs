//! The end of a store whose log cannot be trusted any more.
//!
//! After an I/O error at COMMIT the transaction may or may not be in the write-ahead log, and the kernel may have dropped
//! the pages that it could not write while it says of the next fsync that all is well. So nothing is written or read any
//! more, and the process ends: docs/decisions/0024-io-errors.md.

use std::sync::OnceLock;

use journeyman_core::ports::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio_util::sync::CancellationToken;

/// The first I/O error at COMMIT, once there was one. Shared by the writer, the readers and whoever ends the process.
#[derive(Debug, Default)]
pub(super) struct Fault {
    reason: OnceLock<String>,
    happened: CancellationToken,
}

impl Fault {
    /// Refuses everything from now on.
    pub(super) fn set(&self, error: &rusqlite::Error) {
        let reason = format!("COMMIT failed: {error}");
        if self.reason.set(reason).is_ok() {
            tracing::error!(%error, "the database can no longer be trusted; nothing more is read from it or stored in it");
        }
        self.happened.cancel();
    }

    /// Refuses, if the log cannot be trusted.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.reason.get() {
            None => Ok(()),
            Some(reason) => Err(StoreError::Unavailable(format!("the database can no longer be trusted: {reason}"))),
        }
    }

    /// Returns when the log cannot be trusted any more, with the reason.
    pub(super) async fn happened(&self) -> String {
        self.happened.cancelled().await;
        self.reason.get().cloned().unwrap_or_default()
    }
}

/// Returns whether a COMMIT that failed with `error` has certainly stored nothing, and whether the log is as it was.
///
/// `SQLITE_FULL` is returned where a write ended with ENOSPC. The frame that commits a transaction is the last that is
/// written, and does not count without all of its bytes (no padding follows it: unix files are said to be safe against
/// torn writes of their neighbors). An fsync that finds no space is an `SQLITE_IOERR_FSYNC`. The others are refusals
/// before anything is written.
pub(super) fn stored_nothing(error: &rusqlite::Error) -> bool {
    use ErrorCode::{ConstraintViolation, DatabaseBusy, DatabaseLocked, DiskFull};
    matches!(error.sqlite_error_code(), Some(DiskFull | DatabaseBusy | DatabaseLocked | ConstraintViolation))
}

/// Keeps the end of a connection from copying what is in the log to its place: that is for the next process to do, once it
/// has made sure of the log.
pub(super) fn leave_as_it_is(connection: &Connection) {
    // Where this fails, what SQLite copies is what it had synced before.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}
