//! Access to the columns of a SQLite row, and errors from queries.

use journeyman_core::ports::StoreError;
use rusqlite::Row;

use crate::rows::Columns;

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

impl<E: From<StoreError>> From<ReadError> for super::write::OpError<E> {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sql(error) => Self::Sql(error),
            ReadError::Corrupt(error) => Self::Refused(E::from(error)),
        }
    }
}

impl Columns for Row<'_> {
    type Error = ReadError;

    fn text(&self, column: &str) -> Result<Option<String>, ReadError> {
        Ok(self.get(column)?)
    }

    fn number(&self, column: &str) -> Result<Option<i64>, ReadError> {
        Ok(self.get(column)?)
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.get(column)?)
    }
}

/// Decodes all rows of a query.
pub(super) fn collect<T>(
    rows: &mut rusqlite::Rows<'_>,
    read: impl Fn(&Row<'_>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Converts an error of SQLite. Its text appears in the log and in `/readyz`.
pub(super) fn unavailable(error: &rusqlite::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
