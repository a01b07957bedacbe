//! Access to the columns of a row, with errors that name the table and the row.

use std::str::FromStr;

use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Access to the columns of a database row; NULL is `None`.
pub(crate) trait Columns {
    /// An error from reading a column.
    type Error: From<StoreError>;

    fn text(&self, column: &str) -> Result<Option<String>, Self::Error>;
    fn number(&self, column: &str) -> Result<Option<i64>, Self::Error>;
    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// A row of a known table; its errors name the table and the row.
pub(super) struct At<'a, R: Columns> {
    pub(super) table: &'static str,
    pub(super) key: String,
    pub(super) row: &'a R,
}

pub(super) type Read<T, R> = Result<T, <R as Columns>::Error>;

impl<'a, R: Columns> At<'a, R> {
    /// Wraps a row. Its key in errors consists of the columns `key`.
    pub(super) fn new(table: &'static str, row: &'a R, key: &[&'static str]) -> Read<Self, R> {
        let mut at = Self { table, key: String::new(), row };
        for column in key {
            if !at.key.is_empty() {
                at.key.push('/');
            }
            let part = at.text(column)?;
            at.key.push_str(&part);
        }
        Ok(at)
    }

    pub(super) fn corrupt(&self, detail: impl std::fmt::Display) -> R::Error {
        let (table, row) = (self.table, self.key.clone());
        StoreError::Corrupt { table, row, detail: detail.to_string() }.into()
    }

    pub(super) fn not_null<T>(&self, column: &str, value: Option<T>) -> Read<T, R> {
        value.ok_or_else(|| self.corrupt(format!("{column} is null")))
    }

    pub(super) fn text(&self, column: &str) -> Read<String, R> {
        self.not_null(column, self.row.text(column)?)
    }

    pub(super) fn number<T: TryFrom<i64>>(&self, column: &str) -> Read<T, R> {
        let number = self.not_null(column, self.row.number(column)?)?;
        T::try_from(number).map_err(|_| self.corrupt(format!("{column} is out of range: {number}")))
    }

    pub(super) fn number_or_null<T: TryFrom<i64>>(&self, column: &str) -> Read<Option<T>, R> {
        match self.row.number(column)? {
            Some(_) => self.number(column).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn hash(&self, column: &str) -> Read<[u8; 32], R> {
        let bytes = self.not_null(column, self.row.bytes(column)?)?;
        bytes.try_into().map_err(|_| self.corrupt(format!("{column} does not have 32 bytes")))
    }

    pub(super) fn parse<T: FromStr>(&self, column: &str, text: &str) -> Read<T, R>
    where
        T::Err: std::fmt::Display,
    {
        text.parse().map_err(|error| self.corrupt(format!("{column}: {error}")))
    }

    /// Parses an ID, slug or commit.
    pub(super) fn parsed<T: FromStr>(&self, column: &str) -> Read<T, R>
    where
        T::Err: std::fmt::Display,
    {
        self.parse(column, &self.text(column)?)
    }

    pub(super) fn parsed_or_null<T: FromStr>(&self, column: &str) -> Read<Option<T>, R>
    where
        T::Err: std::fmt::Display,
    {
        self.row.text(column)?.map(|text| self.parse(column, &text)).transpose()
    }

    pub(super) fn time(&self, column: &str) -> Read<Timestamp, R> {
        self.number(column).map(Timestamp::from_micros)
    }

    pub(super) fn time_or_null(&self, column: &str) -> Read<Option<Timestamp>, R> {
        Ok(self.row.number(column)?.map(Timestamp::from_micros))
    }

    pub(super) fn read_json<T: DeserializeOwned>(&self, column: &str, text: &str) -> Read<T, R> {
        serde_json::from_str(text).map_err(|error| self.corrupt(format!("{column}: {error}")))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &str) -> Read<T, R> {
        self.read_json(column, &self.text(column)?)
    }

    pub(super) fn json_or_null<T: DeserializeOwned>(&self, column: &str) -> Read<Option<T>, R> {
        self.row.text(column)?.map(|text| self.read_json(column, &text)).transpose()
    }

    /// Decodes an enum as [`At::named`] does; `None` for null.
    pub(super) fn named_or_null<T: DeserializeOwned>(&self, column: &str) -> Read<Option<T>, R> {
        match self.row.text(column)? {
            Some(_) => self.named(column).map(Some),
            None => Ok(None),
        }
    }

    /// Decodes an enum from serde's name of the variant, such as `queued`.
    pub(super) fn named<T: DeserializeOwned>(&self, column: &str) -> Read<T, R> {
        let value = serde_json::Value::String(self.text(column)?);
        serde_json::from_value(value).map_err(|error| self.corrupt(format!("{column}: {error}")))
    }
}

/// Encodes a value as JSON text.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unavailable(format!("cannot encode as JSON: {error}")))
}
