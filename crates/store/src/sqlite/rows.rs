//! Access to the columns of a SQLite row.

use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};

use super::error::ReadError;
use crate::rows::Columns;
use crate::sql::Cells;

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

impl Cells for Row<'_> {
    fn text_at(&self, index: usize) -> Result<Option<&str>, ReadError> {
        let value = self.get_ref(index)?;
        if value == ValueRef::Null {
            return Ok(None);
        }
        let other = |error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error));
        Ok(Some(value.as_str().map_err(other)?))
    }

    fn number_at(&self, index: usize) -> Result<Option<i64>, ReadError> {
        Ok(self.get(index)?)
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
