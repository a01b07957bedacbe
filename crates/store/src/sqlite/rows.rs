//! Access to the columns of a SQLite row.

use rusqlite::Row;

use super::error::ReadError;
use crate::rows::Columns;

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
