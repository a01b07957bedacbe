//! Errors of reads and of writes.

use std::path::PathBuf;

use journeyman_core::ports::{StoreError, UpdateError};
use rusqlite::ErrorCode;

use crate::vault::VaultError;

/// An error from a query.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// SQLite returned an error.
    Sql(rusqlite::Error),
    /// A row cannot be decoded.
    Corrupt(StoreError),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Corrupt(error)
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sql(error) => unavailable(&error),
            ReadError::Corrupt(error) => error,
        }
    }
}

impl<E: From<StoreError>> From<ReadError> for OpError<E> {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sql(error) => Self::Sql(error),
            ReadError::Corrupt(error) => Self::Refused(E::from(error)),
        }
    }
}

/// The reason why a write failed.
#[derive(Debug)]
pub(super) enum OpError<E> {
    /// SQLite returned an error.
    Sql(rusqlite::Error),
    /// The operation refused the write, without having written anything.
    Refused(E),
    /// The operation failed, and what it has written must be undone.
    Failed(E),
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

/// Converts an error of SQLite. Its text appears in the log.
pub(super) fn unavailable(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.to_string()),
        _ => StoreError::Unavailable(error.to_string()),
    }
}

/// An error from opening or rewriting a SQLite database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or is not a database.
    #[error("the database {path} cannot be opened: {source}")]
    Database {
        /// The path of the database.
        path: PathBuf,
        /// The error from SQLite.
        source: rusqlite::Error,
    },
    /// The write-ahead log cannot be written to disk.
    #[error(
        "the write-ahead log {path} of the database cannot be synced to disk: {source}; check the disk (dmesg lists \
         its errors), copy the database with its -wal file to another disk if this one is failing, and start the \
         service again"
    )]
    Log {
        /// The path of the log.
        path: PathBuf,
        /// The error from the operating system.
        source: std::io::Error,
    },
    /// The database cannot be rewritten.
    #[error(
        "the database {path} cannot be rewritten: {source}; it is unchanged. A rewrite needs disk space for two more \
         copies of the database, and no other program may use the database"
    )]
    Compact {
        /// The path of the database.
        path: PathBuf,
        /// The error from SQLite.
        source: rusqlite::Error,
    },
    /// The file with the ID of the last start cannot be read or written.
    #[error("the file {path}, which belongs to the database, cannot be read or written: {source}")]
    Start {
        /// The path of the file.
        path: PathBuf,
        /// The error from the operating system.
        source: std::io::Error,
    },
    /// The master key does not belong to the database.
    #[error(transparent)]
    Key(#[from] VaultError),
    /// A later version has changed the schema.
    #[error(
        "the database {path} has schema version {found}, but this program supports versions up to {known}; start the \
         newer Journeyman that last used it, or restore a backup from before the upgrade"
    )]
    Newer {
        /// The path of the database.
        path: PathBuf,
        /// The version of the schema.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
}
