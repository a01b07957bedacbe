//! Copies a whole database into a backup while the service runs, and back into an empty database.
//!
//! A backup of SQLite is a database file; one of PostgreSQL is a file for each table, in the text format of `COPY`. Both
//! are one state of the database. Why the parts of a backup are made in which order is in
//! `docs/decisions/0027-backup.md`.

mod postgres;
mod sqlite;

use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::job::Job;
use journeyman_core::ports::StoreError;
use serde::{Deserialize, Serialize};

use crate::postgres::PgError;
use crate::sqlite::ReadError;
use crate::{PostgresOpenError, VaultError};

pub use self::postgres::{check_empty_postgres, export_postgres, import_postgres};
pub use self::sqlite::{check_sqlite, export_sqlite};

/// A database in a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The version of its schema.
    pub schema_version: i64,
    /// The files of its tables; none where it is one file.
    pub tables: Vec<ExportedTable>,
}

/// A table in a backup of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedTable {
    /// Its name; the file is `<name>.copy`.
    pub name: String,
    /// Its columns, in the order in which the file has them.
    pub columns: Vec<String>,
    /// The number of its rows.
    pub rows: u64,
}

impl ExportedTable {
    /// The file of the table in the folder of tables.
    #[must_use]
    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.copy", self.name))
    }
}

/// A job in a backup, for those who copy the files that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedJob {
    /// The job.
    pub job: Job,
    /// The repository of its project; `None` if the project was deleted.
    pub repository: Option<String>,
}

/// Receives each job of an exported database.
pub type EachJob<'a> = &'a mut (dyn FnMut(ExportedJob) + Send);

/// All jobs with their repositories; the same text for both databases and all versions of the schema.
const JOBS: &str = "SELECT jobs.id AS id, jobs.state AS state, projects.repository AS repository \
                    FROM jobs LEFT JOIN projects ON projects.id = jobs.project";

/// The sealed text that proves which master key the database has.
const PROOF: &str = "SELECT value FROM meta WHERE name = 'master_key'";

/// Why a database was not backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// SQLite refused.
    #[error("the database {0} cannot be read: {1}")]
    Sqlite(PathBuf, rusqlite::Error),
    /// The content of the file is damaged.
    #[error("the database {0} is damaged: {1}")]
    Damaged(PathBuf, String),
    /// PostgreSQL cannot be reached, or refused.
    #[error(transparent)]
    Postgres(#[from] PostgresOpenError),
    /// The master key is not the database's.
    #[error(transparent)]
    Key(#[from] VaultError),
    /// A file of the backup cannot be written or read.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// A row cannot be understood.
    #[error(transparent)]
    Row(#[from] StoreError),
    /// The database was never used.
    #[error("{0} holds no database of Journeyman")]
    Unused(String),
    /// A later version of the program made it.
    #[error(
        "the database has schema version {found}, and this program knows {known}: use the Journeyman that it was used \
         with last"
    )]
    Newer {
        /// The schema's version.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// The target holds something.
    #[error("the table {0} of the database is not empty; restore into a new, empty database")]
    NotEmpty(String),
    /// The schema of the target is later than that of the backup.
    #[error(
        "the database has schema version {found} already, and the backup has {wanted}; restore into a new, empty \
         database, whose schema is made as the backup needs it and then brought up to date"
    )]
    Ahead {
        /// The target's version.
        found: i64,
        /// The backup's version.
        wanted: i64,
    },
    /// The backup names a table or column that this program does not know.
    #[error("the backup holds {0:?}, which this program does not know")]
    UnknownTable(String),
    /// A file has another number of rows than the backup says.
    #[error("the table {table} has {found} rows and not {wanted} as the backup says; nothing was restored")]
    Rows {
        /// The table.
        table: String,
        /// Rows in the file.
        found: u64,
        /// Rows that the backup says.
        wanted: u64,
    },
}

impl From<PgError> for BackupError {
    fn from(error: PgError) -> Self {
        Self::Postgres(error.into())
    }
}

impl From<tokio_postgres::Error> for BackupError {
    fn from(error: tokio_postgres::Error) -> Self {
        PgError::from(error).into()
    }
}

/// Names the file with an error.
fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    |error| BackupError::File(path, error)
}

/// Names the database with an error.
fn read_error(path: &Path, error: ReadError) -> BackupError {
    match error {
        ReadError::Sql(error) => BackupError::Sqlite(path.to_owned(), error),
        ReadError::Corrupt(error) => error.into(),
    }
}
