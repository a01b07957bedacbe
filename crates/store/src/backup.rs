//! Copies a whole database into a backup while the service runs, and restores it into an empty database.
//!
//! A backup of SQLite is a database file. A backup of PostgreSQL is one file per table, in the text format of `COPY`.
//! Each is a consistent snapshot. `docs/decisions/0027-backup.md` explains the order in which the parts of a backup are
//! made.

mod postgres;
mod sqlite;

use std::io;
use std::path::{Path, PathBuf};

use journeyman_core::job::Job;
use journeyman_core::ports::{SealedCensus, StoreError};
use serde::{Deserialize, Serialize};

use crate::postgres::PgError;
use crate::sqlite::ReadError;
use crate::{PostgresOpenError, VaultError};

pub use self::postgres::{check_empty_postgres, export_postgres, import_postgres};
pub use self::sqlite::{check_sqlite, export_sqlite, mark_sqlite};

/// A database in a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The version of the schema.
    pub schema_version: i64,
    /// The files of the tables; empty for SQLite, whose backup is a single file.
    pub tables: Vec<ExportedTable>,
    /// The IDs of the master keys that the database needs, the one that it requires at the start of a service first.
    pub key_ids: Vec<String>,
}

/// A table in a backup of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedTable {
    /// The name of the table; the file is `<name>.copy`.
    pub name: String,
    /// The columns, in the order of the file.
    pub columns: Vec<String>,
    /// The number of rows.
    pub rows: u64,
}

impl ExportedTable {
    /// Returns the path of the table's file in the folder of tables.
    #[must_use]
    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.copy", self.name))
    }
}

/// A job in a backup, for callers that copy the files that the job refers to. The job does not have the size of its
/// change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedJob {
    /// The job.
    pub job: Job,
    /// The repository of the job's project; `None` if the project was deleted.
    pub repository: Option<String>,
}

/// The callback that receives each job of an exported database.
pub type EachJob<'a> = &'a mut (dyn FnMut(ExportedJob) + Send);

/// Selects all jobs with their repositories; works for both databases and all schema versions.
const JOBS: &str = "SELECT jobs.id AS id, jobs.state AS state, projects.repository AS repository \
                    FROM jobs LEFT JOIN projects ON projects.id = jobs.project";

/// Selects the sealed proof of the database's master key.
const PROOF: &str = "SELECT value FROM meta WHERE name = 'master_key'";

/// Returns the IDs of the master keys that a database needs.
fn needed_keys(census: &SealedCensus) -> Vec<String> {
    let of_values = census.counts.values().flat_map(|counts| {
        let current = (counts.current > 0).then_some(&census.current);
        current.into_iter().chain(counts.others.keys())
    });
    let mut ids: Vec<String> = Vec::new();
    // A database from before the proof of its key requires the key that is configured.
    for id in std::iter::once(census.required.as_ref().unwrap_or(&census.current)).chain(of_values) {
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    ids
}

/// An error from a backup or a restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// SQLite returned an error.
    #[error("the database {0} cannot be read: {1}")]
    Sqlite(PathBuf, rusqlite::Error),
    /// The content of the file is damaged.
    #[error("the database {0} is damaged: {1}")]
    Damaged(PathBuf, String),
    /// PostgreSQL is unreachable or returned an error.
    #[error(transparent)]
    Postgres(#[from] PostgresOpenError),
    /// The master key does not belong to the database.
    #[error(transparent)]
    Key(#[from] VaultError),
    /// A file of the backup cannot be written or read.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// A row cannot be decoded.
    #[error(transparent)]
    Row(#[from] StoreError),
    /// The database has never been used.
    #[error("{0} contains no Journeyman data")]
    Unused(String),
    /// A later version of the program created the database.
    #[error(
        "the database has schema version {found}, but this program supports versions up to {known}; use the version of \
         Journeyman that last used the database"
    )]
    Newer {
        /// The version of the schema.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The target is not empty.
    #[error("the table {0} of the database is not empty; restore into a new, empty database")]
    NotEmpty(String),
    /// The schema of the target is newer than that of the backup.
    #[error(
        "the database already has schema version {found}, but the backup has {wanted}; restore into a new, empty \
         database: the restore creates the schema of the backup there and then upgrades it"
    )]
    Ahead {
        /// The schema version of the target.
        found: i64,
        /// The schema version of the backup.
        wanted: i64,
    },
    /// The backup names a table or column that this program does not know.
    #[error("the backup contains the table or column {0:?}, which this program does not know")]
    UnknownTable(String),
    /// The number of rows in a file differs from the number that the backup records.
    #[error("the backup has {found} rows of the table {table}, but its manifest says {wanted}; nothing was restored")]
    Rows {
        /// The table.
        table: String,
        /// The number of rows in the file.
        found: u64,
        /// The number of rows that the backup records.
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

/// Adds the path of a file to an error.
fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    |error| BackupError::File(path, error)
}

/// Adds the path of the database to an error.
fn read_error(path: &Path, error: ReadError) -> BackupError {
    match error {
        ReadError::Sql(error) => BackupError::Sqlite(path.to_owned(), error),
        ReadError::Corrupt(error) => error.into(),
    }
}
