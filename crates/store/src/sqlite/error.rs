//! Errors of reads and of writes.

use journeyman_core::ports::{StoreError, UpdateError};
use rusqlite::ErrorCode;

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
