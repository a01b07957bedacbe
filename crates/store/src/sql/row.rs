//! A row of a query, in the same form for both databases.

use std::sync::Arc;

use journeyman_core::ports::StoreError;

use super::statement::Value;
use crate::rows::Columns;

/// A row with its values.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The names of the columns, which the rows of a query share.
    columns: Arc<[String]>,
    values: Vec<Value>,
}

impl Row {
    /// Returns a row. There is a value for each column.
    pub(crate) fn new(columns: &Arc<[String]>, values: Vec<Value>) -> Self {
        Self { columns: Arc::clone(columns), values }
    }

    fn value(&self, column: &str) -> Result<&Value, StoreError> {
        let index = self.columns.iter().position(|name| name == column);
        let value = index.and_then(|index| self.values.get(index));
        value.ok_or_else(|| StoreError::Unavailable(format!("a query has no column {column}")))
    }
}

fn other_type(column: &str) -> StoreError {
    StoreError::Unavailable(format!("the column {column} of a query has another type"))
}

impl Columns for Row {
    type Error = StoreError;

    fn text(&self, column: &str) -> Result<Option<String>, StoreError> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text.clone())),
            _ => Err(other_type(column)),
        }
    }

    fn number(&self, column: &str) -> Result<Option<i64>, StoreError> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Number(number) => Ok(Some(*number)),
            _ => Err(other_type(column)),
        }
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes.clone())),
            _ => Err(other_type(column)),
        }
    }
}

/// A function that decodes a row.
pub(crate) type Read<T> = fn(&Row) -> Result<T, StoreError>;

/// Access to the values of a row by the index of their columns, without copies; NULL is `None`.
pub(crate) trait Cells: Columns {
    fn text_at(&self, index: usize) -> Result<Option<&str>, Self::Error>;
    fn number_at(&self, index: usize) -> Result<Option<i64>, Self::Error>;
}

/// A sum over the rows of a query.
pub(crate) trait Sum: Send + 'static {
    /// Adds a row.
    fn add<R: Cells>(&mut self, row: &R) -> Result<(), R::Error>;
}
