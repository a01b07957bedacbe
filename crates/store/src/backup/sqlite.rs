//! Copies a SQLite database with SQLite itself, in one read transaction, while the writer continues.

use std::path::Path;

use journeyman_core::ports::{SealedCensus, SealedKind, StoreError};
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::{BackupError, EachJob, Exported, ExportedJob, JOBS, PROOF, needed_keys, read_error};
use crate::rows::{self, Columns};
use crate::sealed::{Census, all_keys, page};
use crate::sqlite::{ReadError, SCHEMA_VERSION, mark, run};
use crate::vault::{MasterKeys, VaultError};

/// The first schema version with a proof of the master key.
const PROVEN_SINCE: i64 = 3;

/// Copies the database at `from`, which may be in use, to the new file `to`, and passes each of its jobs to `each`. The
/// caller syncs the file.
///
/// # Errors
/// The database cannot be read or is not a Journeyman database; none of `keys` is its master key; the file already exists.
pub fn export_sqlite(from: &Path, to: &Path, keys: &MasterKeys, each: EachJob<'_>) -> Result<Exported, BackupError> {
    if !from.exists() {
        return Err(BackupError::Unused(from.display().to_string()));
    }
    let failed = |error| BackupError::Sqlite(from.to_owned(), error);
    // Not read-only: after a service was killed, the first process that opens the database recovers its log.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(failed)?;
    source.busy_timeout(crate::sqlite::BUSY_TIMEOUT).map_err(failed)?;
    // A single read transaction, which neither waits for the writer nor blocks it.
    source.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map_err(failed)?;
    drop(source);
    mark_sqlite(to)?;
    let schema_version = check_sqlite(to)?;
    let copy = open_copy(to)?;
    let proof = check_key(&copy, to, schema_version, keys)?;
    let key_ids = if schema_version == SCHEMA_VERSION {
        needed_keys(&census(&copy, keys, proof.as_deref()).map_err(|error| read_error(to, error))?)
    } else {
        // The tables of another version are not known, so each configured key may be needed.
        all_keys(keys)?
    };
    each_job(&copy, each).map_err(|error| read_error(to, error))?;
    Ok(Exported { schema_version, tables: Vec::new(), key_ids })
}

/// Marks a copy of a database, which no process uses, as an earlier state: the service that opens it begins a new epoch.
///
/// # Errors
/// The file cannot be written, or is not a database.
pub fn mark_sqlite(path: &Path) -> Result<(), BackupError> {
    mark(path).map_err(|error| BackupError::Sqlite(path.to_owned(), error))
}

/// Checks the database file of a backup, and returns its schema version.
///
/// # Errors
/// The file is damaged, has a newer schema, or is not a Journeyman database.
pub fn check_sqlite(path: &Path) -> Result<i64, BackupError> {
    let failed = |error| BackupError::Sqlite(path.to_owned(), error);
    let copy = open_copy(path)?;
    let found: i64 = copy.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    if found > SCHEMA_VERSION {
        return Err(BackupError::Newer { found, known: SCHEMA_VERSION });
    }
    if found < 1 {
        return Err(BackupError::Unused(path.display().to_string()));
    }
    let verdict: String = copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if verdict == "ok" { Ok(found) } else { Err(BackupError::Damaged(path.to_owned(), verdict)) }
}

/// Opens a file that no process writes to, without creating other files next to it.
fn open_copy(path: &Path) -> Result<Connection, BackupError> {
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let opened = Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags);
    opened.map_err(|error| BackupError::Sqlite(path.to_owned(), error))
}

/// Checks that one of `keys` has encrypted the proof of the database, and returns the proof if there is one.
fn check_key(copy: &Connection, path: &Path, version: i64, keys: &MasterKeys) -> Result<Option<Vec<u8>>, BackupError> {
    if version < PROVEN_SINCE {
        return Ok(None);
    }
    let proof = copy.query_row(PROOF, [], |row| row.get::<_, Vec<u8>>(0)).optional();
    match proof.map_err(|error| BackupError::Sqlite(path.to_owned(), error))? {
        Some(proof) if !keys.sealed_the_proof(&proof) => Err(VaultError::OtherKey.into()),
        proof => Ok(proof),
    }
}

/// Counts the encrypted values of the copy.
fn census(copy: &Connection, keys: &MasterKeys, proof: Option<&[u8]>) -> Result<SealedCensus, ReadError> {
    let mut census = Census::new(keys, &SealedKind::ALL, proof)?;
    while let Some(next) = census.page() {
        let values = run(copy, &page(&next))?;
        census.add(values.iter().map(|row| rows::sealed(row, next.kind)).collect::<Result<_, StoreError>>()?)?;
    }
    Ok(census.finish())
}

fn each_job(copy: &Connection, each: EachJob<'_>) -> Result<(), ReadError> {
    let mut query = copy.prepare(JOBS)?;
    let mut found = query.query([])?;
    while let Some(row) = found.next()? {
        each(ExportedJob { job: rows::job_document(row)?, repository: Columns::text(row, "repository")? });
    }
    Ok(())
}
