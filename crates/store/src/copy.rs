//! Copies a database from SQLite to PostgreSQL: all rows of all tables, in one transaction that is committed only after
//! all rows were read back and compared.

use std::path::{Path, PathBuf};

use bytes::BytesMut;
use rusqlite::types::{FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags};
use tokio_postgres::Transaction;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_util::task::AbortOnDropHandle;

use crate::PostgresOpenError;
use crate::postgres::{Connector, PgError, PostgresStore};
use crate::sqlite::SCHEMA_VERSION;
use crate::tables::{TABLES, Table, numbered};

/// An error from a copy. Nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source cannot be read.
    #[error("the database {0} cannot be read: {1}")]
    Source(PathBuf, rusqlite::Error),
    /// The source does not have the schema of this version.
    #[error(
        "the database {path} has schema version {found}, but the copy needs {known}; start this version of Journeyman \
         with the database once"
    )]
    SourceVersion {
        /// The path of the database.
        path: PathBuf,
        /// The schema version of the source.
        found: i64,
        /// The schema version that can be copied.
        known: i64,
    },
    /// The target cannot be opened.
    #[error(transparent)]
    Target(#[from] PostgresOpenError),
    /// The target is not empty.
    #[error("the table {0} of the target is not empty; copy into a new database")]
    NotEmpty(&'static str),
    /// A row in the target differs from its source.
    #[error("row {row} of the table {table} differs in the target; nothing was copied")]
    Differs {
        /// The table.
        table: &'static str,
        /// The number of the row, from 1, in the order of the table's key.
        row: u64,
    },
}

impl From<PgError> for CopyError {
    fn from(error: PgError) -> Self {
        Self::Target(error.into())
    }
}

impl From<tokio_postgres::Error> for CopyError {
    fn from(error: tokio_postgres::Error) -> Self {
        PgError::from(error).into()
    }
}

/// Copies the SQLite database at `from` to the empty PostgreSQL database at `to`, and returns the number of rows of
/// each table. No other process may use either database meanwhile.
///
/// # Errors
/// A database cannot be read or written; the source has another schema version; the target is not empty; a row differs
/// in the target. Nothing is copied then.
pub async fn copy_to_postgres(from: &Path, to: &str) -> Result<Vec<(&'static str, u64)>, CopyError> {
    let source = Source::open(from)?;
    PostgresStore::migrate(to).await?;
    let connector = Connector::new(to).map_err(PostgresOpenError::from)?;
    let (mut client, connection) = connector.config.connect(connector.tls.clone()).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    client.batch_execute("SET search_path TO journeyman").await?;
    let target = client.transaction().await?;
    let mut copied = Vec::new();
    for Table { name: table, key, .. } in TABLES {
        // No other process may write to the table meanwhile.
        target.batch_execute(&format!("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")).await?;
        if target.query_opt(&format!("SELECT 1 FROM {table} LIMIT 1"), &[]).await?.is_some() {
            return Err(CopyError::NotEmpty(table));
        }
        let rows = write(&source, &target, table, key).await?;
        compare(&source, &target, table, key).await?;
        copied.push((*table, rows));
    }
    for table in numbered() {
        target.query(&next_number(table), &[]).await?;
    }
    target.commit().await?;
    Ok(copied)
}

/// Returns a statement after which the database numbers new rows of a table after the existing ones.
pub(crate) fn next_number(table: &str) -> String {
    format!("SELECT setval(pg_get_serial_sequence('{table}', 'number'), max(number)) FROM {table} HAVING count(*) > 0")
}

struct Source {
    path: PathBuf,
    connection: Connection,
}

impl Source {
    fn open(path: &Path) -> Result<Self, CopyError> {
        let failed = |error| CopyError::Source(path.to_owned(), error);
        let connection =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        let connection = connection.map_err(failed)?;
        let found = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        if found != SCHEMA_VERSION {
            return Err(CopyError::SourceVersion { path: path.to_owned(), found, known: SCHEMA_VERSION });
        }
        // One snapshot for all tables.
        connection.execute_batch("BEGIN").map_err(failed)?;
        Ok(Self { path: path.to_owned(), connection })
    }

    fn failed(&self, error: rusqlite::Error) -> CopyError {
        CopyError::Source(self.path.clone(), error)
    }

    /// Returns the names of a table's columns, without the row number of jobs, which only SQLite has.
    fn columns(&self, table: &str) -> Result<Vec<String>, CopyError> {
        let query = self.connection.prepare(&format!("SELECT * FROM {table}")).map_err(|error| self.failed(error))?;
        let own = |column: &&str| !(table == "jobs" && *column == "number");
        Ok(query.column_names().filter(own).map(str::to_owned).collect())
    }

    /// Returns a query for all rows of a table in the order of its key.
    fn rows(&self, table: &str, columns: &[String], key: &str) -> Result<CachedStatement<'_>, CopyError> {
        let text = format!("SELECT {} FROM {table} ORDER BY {key}", columns.join(", "));
        self.connection.prepare_cached(&text).map_err(|error| self.failed(error))
    }
}

/// The number of rows of the target to hold in memory at a time.
const PAGE: usize = 5000;

async fn write(source: &Source, target: &Transaction<'_>, table: &str, key: &str) -> Result<u64, CopyError> {
    let columns = source.columns(table)?;
    let names = columns.join(", ");
    let shape = target.prepare(&format!("SELECT {names} FROM {table}")).await?;
    let types: Vec<Type> = shape.columns().iter().map(|column| column.type_().clone()).collect();
    let sink = target.copy_in(&format!("COPY {table} ({names}) FROM STDIN BINARY")).await?;
    let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, &types));
    let mut query = source.rows(table, &columns, key)?;
    let mut rows = query.query([]).map_err(|error| source.failed(error))?;
    while let Some(row) = rows.next().map_err(|error| source.failed(error))? {
        let cells = (0..columns.len()).map(|index| row.get::<_, Cell>(index)).collect::<Result<Vec<_>, _>>();
        let cells = cells.map_err(|error| source.failed(error))?;
        let values: Vec<&(dyn ToSql + Sync)> = cells.iter().map(|cell| cell as &(dyn ToSql + Sync)).collect();
        writer.as_mut().write(&values).await?;
    }
    Ok(writer.finish().await?)
}

async fn compare(source: &Source, target: &Transaction<'_>, table: &'static str, key: &str) -> Result<(), CopyError> {
    let columns = source.columns(table)?;
    let text = format!("SELECT {} FROM {table} ORDER BY {key}", columns.join(", "));
    target.batch_execute(&format!("DECLARE copied NO SCROLL CURSOR FOR {text}")).await?;
    let mut query = source.rows(table, &columns, key)?;
    let mut rows = query.query([]).map_err(|error| source.failed(error))?;
    let mut number = 0;
    loop {
        let page = target.query(&format!("FETCH {PAGE} FROM copied"), &[]).await?;
        for copied in &page {
            number += 1;
            let original = rows.next().map_err(|error| source.failed(error))?;
            let differs = || CopyError::Differs { table, row: number };
            let original = original.ok_or_else(differs)?;
            for index in 0..columns.len() {
                let cell: Cell = original.get(index).map_err(|error| source.failed(error))?;
                if cell != copied.try_get::<_, Cell>(index)? {
                    return Err(differs());
                }
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    if rows.next().map_err(|error| source.failed(error))?.is_some() {
        return Err(CopyError::Differs { table, row: number + 1 });
    }
    target.batch_execute("CLOSE copied").await?;
    Ok(())
}

/// A value of a column, in either database.
#[derive(Debug, PartialEq, Eq)]
enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl rusqlite::types::FromSql for Cell {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Number(number),
            ValueRef::Text(_) => Self::Text(value.as_str()?.to_owned()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_owned()),
            ValueRef::Real(_) => return Err(FromSqlError::InvalidType),
        })
    }
}

impl ToSql for Cell {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Number(number) if *kind == Type::INT8 => number.to_sql(kind, out),
            Self::Text(text) if *kind == Type::TEXT => text.to_sql(kind, out),
            Self::Bytes(bytes) if *kind == Type::BYTEA => bytes.to_sql(kind, out),
            // The error does not have the value, which may be secret.
            Self::Number(_) => Err(format!("a number cannot be stored in a column of type {kind}").into()),
            Self::Text(_) => Err(format!("a text cannot be stored in a column of type {kind}").into()),
            Self::Bytes(_) => Err(format!("bytes cannot be stored in a column of type {kind}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> tokio_postgres::types::FromSql<'a> for Cell {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        match *kind {
            Type::INT8 => i64::from_sql(kind, raw).map(Self::Number),
            Type::TEXT => String::from_sql(kind, raw).map(Self::Text),
            Type::BYTEA => Vec::from_sql(kind, raw).map(Self::Bytes),
            _ => Err(format!("unsupported column type {kind}").into()),
        }
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
