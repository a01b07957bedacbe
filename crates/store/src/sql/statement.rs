//! The text of a statement in the forms of both databases, and its parameters.

use std::error::Error;

use bytes::BytesMut;
use journeyman_core::time::Timestamp;
use rusqlite::types::{ToSqlOutput, Value as SqliteValue};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// The text of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text {
    pub(crate) postgres: &'static str,
    /// Empty if there is nothing to do.
    pub(crate) sqlite: &'static str,
}

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) text: Text,
    pub(crate) values: Vec<Value>,
}

/// Creates a [`Statement`] from a text in the form of PostgreSQL, and parameters ([`Value`]).
///
/// The text for SQLite is derived when the program is compiled ([`for_sqlite`]). Where the databases need different
/// texts, both are given: `sql!(sqlite: "…", postgres: "…"; values)`.
macro_rules! sql {
    (sqlite: $sqlite:expr, postgres: $postgres:expr $(; $($value:expr),* $(,)?)?) => {
        $crate::sql::Statement {
            text: $crate::sql::Text { postgres: $postgres, sqlite: $sqlite },
            values: vec![$($($crate::sql::Value::from($value)),*)?],
        }
    };
    ($text:expr $(, $value:expr)* $(,)?) => {
        $crate::sql::Statement {
            text: $crate::sql::text!($text),
            values: vec![$($crate::sql::Value::from($value)),*],
        }
    };
}
pub(crate) use sql;

/// Creates a [`Text`] from a text in the form of PostgreSQL, when the program is compiled ([`for_sqlite`]).
macro_rules! text {
    ($text:expr) => {{
        const POSTGRES: &str = $text;
        const BYTES: ([u8; 2 * POSTGRES.len() + 1], usize) = $crate::sql::for_sqlite(POSTGRES);
        const SQLITE: &str = $crate::sql::as_text(&BYTES.0, BYTES.1);
        $crate::sql::Text { postgres: POSTGRES, sqlite: SQLITE }
    }};
}
pub(crate) use text;

/// What PostgreSQL and SQLite write in different ways: a text for PostgreSQL and the one for SQLite.
///
/// SQLite has one writer at a time, so its rows need no locks. It has no types of parameters. A list of texts or numbers is
/// a JSON array: the double parentheses of `= ANY (($1))` close those of `json_each`. `/*sqlite … */` is only for SQLite,
/// such as an index by name.
const FORMS: [(&str, &str); 21] = [
    ("$", "?"),
    ("/*sqlite", ""),
    ("*/", ""),
    ("= ANY ((", "IN (SELECT value FROM json_each("),
    ("unnest(", "json_each("),
    ("AS wanted (value)", "AS wanted"),
    ("SELECT json_array_elements_text(", "SELECT value FROM json_each("),
    ("FOR UPDATE SKIP LOCKED", ""),
    ("FOR NO KEY UPDATE", ""),
    ("FOR UPDATE", ""),
    (" COLLATE \"C\"", ""),
    (" COLLATE \"default\"", ""),
    ("::text[]", ""),
    ("::text", ""),
    ("::json", ""),
    ("::bytea", ""),
    ("::bigint[]", ""),
    ("::bigint", ""),
    ("json_build_object(", "json_object("),
    ("least(", "min("),
    ("greatest(", "max("),
];

/// Returns the text for SQLite of a text for PostgreSQL, and its length.
pub(crate) const fn for_sqlite<const MOST: usize>(text: &str) -> ([u8; MOST], usize) {
    let (text, mut written, mut length, mut at) = (text.as_bytes(), [b' '; MOST], 0, 0);
    while at < text.len() {
        let (mut form, mut copied) = (0, 0);
        while form < FORMS.len() {
            let (postgres, sqlite) = (FORMS[form].0.as_bytes(), FORMS[form].1.as_bytes());
            if begins_with(text, at, postgres) {
                while copied < sqlite.len() {
                    written[length] = sqlite[copied];
                    (length, copied) = (length + 1, copied + 1);
                }
                at += postgres.len();
                break;
            }
            form += 1;
        }
        if form == FORMS.len() {
            written[length] = text[at];
            (length, at) = (length + 1, at + 1);
        }
    }
    (written, length)
}

const fn begins_with(text: &[u8], at: usize, part: &[u8]) -> bool {
    let mut index = 0;
    while index < part.len() {
        if at + index >= text.len() || text[at + index] != part[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Returns the first bytes as a text, which they are: only whole parts of texts were replaced by texts.
pub(crate) const fn as_text(bytes: &'static [u8], length: usize) -> &'static str {
    match std::str::from_utf8(bytes.split_at(length).0) {
        Ok(text) => text,
        Err(_) => "",
    }
}

/// A parameter of a statement, or the value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
    /// Only as a parameter, for `= ANY (($1))`.
    Texts(Vec<String>),
    /// Only as a parameter, for `= ANY (($1))`.
    Numbers(Vec<i64>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// A larger number than the databases have becomes their largest one.
impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(is_set: bool) -> Self {
        Self::Number(is_set.into())
    }
}

impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Number(time.as_micros())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<[u8; 32]> for Value {
    fn from(bytes: [u8; 32]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl From<&[&str]> for Value {
    fn from(texts: &[&str]) -> Self {
        Self::Texts(texts.iter().map(|text| (*text).to_owned()).collect())
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

impl From<&[u64]> for Value {
    fn from(numbers: &[u64]) -> Self {
        Self::Numbers(numbers.iter().map(|number| i64::try_from(*number).unwrap_or(i64::MAX)).collect())
    }
}

impl From<Vec<i64>> for Value {
    fn from(numbers: Vec<i64>) -> Self {
        Self::Numbers(numbers)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = |list: serde_json::Result<String>| match list {
            Ok(text) => Ok(ToSqlOutput::Owned(SqliteValue::Text(text))),
            Err(error) => Err(rusqlite::Error::ToSqlConversionFailure(Box::new(error))),
        };
        match self {
            Self::Null => Ok(ToSqlOutput::Owned(SqliteValue::Null)),
            Self::Number(number) => Ok((*number).into()),
            Self::Text(text) => Ok(text.as_str().into()),
            Self::Bytes(bytes) => Ok(bytes.as_slice().into()),
            Self::Texts(texts) => json(serde_json::to_string(texts)),
            Self::Numbers(numbers) => json(serde_json::to_string(numbers)),
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Number(number) => match *kind {
                Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
                Type::BOOL => (*number != 0).to_sql(kind, out),
                _ => number.to_sql(&Type::INT8, out),
            },
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
            Self::Texts(texts) => texts.to_sql(kind, out),
            Self::Numbers(numbers) => numbers.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_for_sqlite_is_derived() {
        for (statement, sqlite) in [
            (sql!("SELECT 1"), "SELECT 1"),
            (sql!("SELECT $1, $12"), "SELECT ?1, ?12"),
            (
                sql!("UPDATE a SET b = least(b, $2) WHERE c IN (SELECT c FROM a LIMIT $1 FOR UPDATE SKIP LOCKED)"),
                "UPDATE a SET b = min(b, ?2) WHERE c IN (SELECT c FROM a LIMIT ?1 )",
            ),
            (sql!("SELECT greatest($1::bigint, a) FOR UPDATE"), "SELECT max(?1, a) "),
            (sql!("a = ANY (($1)) AND $2::text IS NULL"), "a IN (SELECT value FROM json_each(?1)) AND ?2 IS NULL"),
            (sql!("$1::text[] IS NULL OR a::json ->> 'b' = $2"), "?1 IS NULL OR a ->> 'b' = ?2"),
            (
                sql!("FROM a /*sqlite INDEXED BY b */, unnest($1::text[]) AS wanted (value)"),
                "FROM a  INDEXED BY b , json_each(?1) AS wanted",
            ),
            (
                sql!("a IN (SELECT json_array_elements_text(b::json -> 'c'))"),
                "a IN (SELECT value FROM json_each(b -> 'c'))",
            ),
            (sql!("'ä' = $1"), "'ä' = ?1"),
        ] {
            assert_eq!(statement.text.sqlite, sqlite);
        }
    }

    #[test]
    fn a_statement_may_have_a_text_for_each_database() {
        let statement = sql!(sqlite: "SELECT ?1", postgres: "SELECT $1::json"; 7_u64, None::<String>, "a");
        assert_eq!((statement.text.sqlite, statement.text.postgres), ("SELECT ?1", "SELECT $1::json"));
        assert_eq!(statement.values, [Value::Number(7), Value::Null, Value::Text("a".to_owned())]);
        assert_eq!(Value::from(u64::MAX), Value::Number(i64::MAX));
    }
}
