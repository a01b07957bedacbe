//! Values in rows: ids, times, JSON, and names of enums. An unknown value is an error that names table and row.

use std::str::FromStr;

use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;
use rusqlite::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a query gave nothing.
#[derive(Debug)]
pub(super) enum ReadError {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// A row holds what this version does not know.
    Corrupt(StoreError),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
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

/// What SQLite said, for the log and for `/readyz`.
pub(super) fn unavailable(error: &rusqlite::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// A row of a known table, for reading with errors that say where.
pub(super) struct At<'a, 'b> {
    pub(super) table: &'static str,
    pub(super) key: String,
    pub(super) row: &'a Row<'b>,
}

impl<'a, 'b> At<'a, 'b> {
    /// The row's key is in column `key`.
    pub(super) fn new(table: &'static str, row: &'a Row<'b>, key: &str) -> Result<Self, ReadError> {
        Ok(Self { table, key: row.get(key)?, row })
    }

    pub(super) fn corrupt(&self, detail: impl std::fmt::Display) -> ReadError {
        let (table, row) = (self.table, self.key.clone());
        ReadError::Corrupt(StoreError::Corrupt { table, row, detail: detail.to_string() })
    }

    pub(super) fn get<T: rusqlite::types::FromSql>(&self, column: &str) -> Result<T, ReadError> {
        Ok(self.row.get(column)?)
    }

    /// An id or slug.
    pub(super) fn parsed<T: FromStr>(&self, column: &str) -> Result<T, ReadError>
    where
        T::Err: std::fmt::Display,
    {
        self.get::<String>(column)?.parse().map_err(|error| self.corrupt(format!("{column}: {error}")))
    }

    pub(super) fn parsed_or_null<T: FromStr>(&self, column: &str) -> Result<Option<T>, ReadError>
    where
        T::Err: std::fmt::Display,
    {
        let text = self.get::<Option<String>>(column)?;
        text.map(|text| text.parse().map_err(|error| self.corrupt(format!("{column}: {error}")))).transpose()
    }

    pub(super) fn time(&self, column: &str) -> Result<Timestamp, ReadError> {
        Ok(Timestamp::from_micros(self.get(column)?))
    }

    pub(super) fn time_or_null(&self, column: &str) -> Result<Option<Timestamp>, ReadError> {
        Ok(self.get::<Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, ReadError> {
        let text = self.get::<String>(column)?;
        serde_json::from_str(&text).map_err(|error| self.corrupt(format!("{column}: {error}")))
    }

    pub(super) fn json_or_null<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, ReadError> {
        let text = self.get::<Option<String>>(column)?;
        let parse =
            |text: String| serde_json::from_str(&text).map_err(|error| self.corrupt(format!("{column}: {error}")));
        text.map(parse).transpose()
    }

    /// An enum that serde names, such as `queued`.
    pub(super) fn named<T: DeserializeOwned>(&self, column: &str) -> Result<T, ReadError> {
        let text = self.get::<String>(column)?;
        let value = serde_json::Value::String(text);
        serde_json::from_value(value).map_err(|error| self.corrupt(format!("{column}: {error}")))
    }
}

/// A value as JSON text.
pub(super) fn to_json<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// The name that serde gives to an enum's variant.
pub(super) fn name_of<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    let json = to_json(value)?;
    Ok(json.trim_matches('"').to_owned())
}
