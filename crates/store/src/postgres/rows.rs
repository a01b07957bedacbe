//! Access to the columns of a PostgreSQL row.

use tokio_postgres::Row;

use super::error::PgError;
use crate::rows::Columns;
use crate::sql::Cells;

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

impl Cells for Row {
    fn text_at(&self, index: usize) -> Result<Option<&str>, PgError> {
        Ok(self.try_get(index)?)
    }

    fn number_at(&self, index: usize) -> Result<Option<i64>, PgError> {
        Ok(self.try_get(index)?)
    }
}
