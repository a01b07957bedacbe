//! The error of the database.

/// An error of the store. Nothing was stored, except possibly after [`StoreError::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, or it was closed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The disk of the database is full. Reads work.
    #[error("the disk of the database is full: {0}")]
    Full(String),
    /// Too many writes are waiting.
    #[error("the store is overloaded: too many writes are waiting")]
    Busy,
    /// The store failed during a write. It is not known whether the change was stored; it was stored completely or not
    /// at all.
    #[error("the store failed during a write, and the change may have been stored: {0}")]
    Unknown(String),
    /// A row contains a value that this version cannot read.
    #[error("the row {row} of the table {table} cannot be read: {detail}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The key of the row.
        row: String,
        /// The cause.
        detail: String,
    },
}
