//! Access to the columns of a PostgreSQL row.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::error::PgError;
use crate::rows::Columns;

impl Columns for Row {
    type Error = PgError;

    fn text(&self, column: &str) -> Result<Option<String>, PgError> {
        Ok(self.try_get(column)?)
    }

    fn number(&self, column: &str) -> Result<Option<i64>, PgError> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, PgError> {
        Ok(self.try_get(column)?)
    }
}

/// The columns of a row after one of them, for a row of joined tables whose columns have the same names.
pub(super) struct ColumnsAfter<'a> {
    row: &'a Row,
    first: usize,
}

impl<'a> ColumnsAfter<'a> {
    /// Returns the columns after the column `marker`.
    pub(super) fn new(row: &'a Row, marker: &str) -> Self {
        let index = row.columns().iter().position(|column| column.name() == marker);
        // Without the column, there are none after it, and each read is an error.
        Self { row, first: index.map_or(row.len(), |index| index + 1) }
    }

    fn get<T: FromSql<'a>>(&self, column: &str) -> Result<T, PgError> {
        let mut columns = self.row.columns().iter().enumerate().skip(self.first);
        let index = columns.find(|(_, one)| one.name() == column).map(|(index, _)| index);
        // An index past the last column makes `try_get` return an error.
        Ok(self.row.try_get(index.unwrap_or(self.row.len()))?)
    }
}

impl Columns for ColumnsAfter<'_> {
    type Error = PgError;

    fn text(&self, column: &str) -> Result<Option<String>, PgError> {
        self.get(column)
    }

    fn number(&self, column: &str) -> Result<Option<i64>, PgError> {
        self.get(column)
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, PgError> {
        self.get(column)
    }
}
