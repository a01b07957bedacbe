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
pub(super) struct Part<'a> {
    row: &'a Row,
    first: usize,
}

impl<'a> Part<'a> {
    /// Returns the columns after the column `marker`, or all if the row has no such column.
    pub(super) fn after(row: &'a Row, marker: &str) -> Self {
        let place = row.columns().iter().position(|column| column.name() == marker);
        Self { row, first: place.unwrap_or(0) }
    }

    fn get<T: FromSql<'a>>(&self, column: &str) -> Result<T, PgError> {
        let mut part = self.row.columns().iter().enumerate().skip(self.first);
        let place = part.find(|(_, one)| one.name() == column).map(|(place, _)| place);
        // The number is past the last column, and thus an error, if there is no such column.
        Ok(self.row.try_get(place.unwrap_or(self.row.len()))?)
    }
}

impl Columns for Part<'_> {
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
