//! The epoch of a database file, and the signs that an earlier state of the file was put back.
//!
//! Two things show it:
//!
//! - The database of a backup has a mark, and so does one that `journeyman restore` writes ([`mark`]).
//! - A file next to the database, `journeyman.db-start`, has the ID of the last start of the service, which is also in
//!   the database. If somebody copies an older file over the database, they differ.
//!
//! A copy of both files together is not noticed.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use journeyman_core::epoch::Epoch;
use journeyman_core::time::{IdGen, Timestamp};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::OpenError;
use crate::tables::counted;

/// The mark of a database that was turned back, in the table `meta`.
const DUE: &str = "epoch_due";

/// The ID of the last start of a service, in the table `meta`.
const START: &str = "start";

/// The current epoch as JSON, in the table `meta`.
const EPOCH: &str = "epoch";

/// The first schema version that has the table `meta`. An older database has no feed, and so no epochs.
const META_SINCE: i64 = 3;

/// Marks the database file at `path`, which no process uses: whoever opens it next begins a new epoch. Does nothing if
/// the database is too old to have epochs.
///
/// # Errors
/// The file cannot be written, or is not a database.
pub(crate) fn mark(path: &Path) -> rusqlite::Result<()> {
    let db = Connection::open(path)?;
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version >= META_SINCE {
        db.pragma_update(None, "synchronous", "FULL")?;
        put(&db, DUE, b"1")?;
    }
    Ok(())
}

/// Returns the current epoch of an open database. Begins a new one if the database was turned back.
pub(super) fn enter(db: &mut Connection, path: &Path, ids: &dyn IdGen) -> Result<Epoch, OpenError> {
    let failed = |source| OpenError::Database { path: path.to_owned(), source };
    // Nothing is written in the usual case, because the disk may be full.
    if !is_back(db, path)? {
        return current(db).map_err(failed);
    }
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another process may have begun the epoch in the meantime.
    if !is_back(&change, path)? {
        return current(&change).map_err(failed);
    }
    let epoch = begin(&change, ids).map_err(failed)?;
    let noted = note_start(&change, path, ids).map_err(|source| OpenError::Start { path: starts_of(path), source })?;
    let start = noted.map_err(failed)?;
    change.commit().map_err(failed)?;
    settle_start(path, &start).map_err(|source| OpenError::Start { path: starts_of(path), source })?;
    tracing::warn!(
        base = epoch.base,
        "the database was restored from an earlier state: a new epoch begins, and new events, versions and cursors have \
         numbers after its base"
    );
    Ok(epoch)
}

/// Returns whether the database has the mark, or a start that the file next to it does not name.
fn is_back(db: &Connection, path: &Path) -> Result<bool, OpenError> {
    let failed = |source| OpenError::Database { path: path.to_owned(), source };
    if text(db, DUE).map_err(failed)?.is_some() {
        return Ok(true);
    }
    let Some(start) = text(db, START).map_err(failed)? else { return Ok(false) };
    let known = starts(path).map_err(|source| OpenError::Start { path: starts_of(path), source })?;
    Ok(!known.contains(&start))
}

/// Notes the start of a service in the database and in the file next to it, and returns its ID. The file then names the
/// previous start too, so that it fits whether or not the transaction is committed. After the commit, the caller calls
/// [`settle_start`].
pub(super) fn note_start(db: &Connection, path: &Path, ids: &dyn IdGen) -> io::Result<rusqlite::Result<String>> {
    let (known, fresh) = (text(db, START), new_start(ids));
    let known = match known {
        Ok(known) => known,
        Err(error) => return Ok(Err(error)),
    };
    let both: Vec<&str> = known.iter().map(String::as_str).chain([fresh.as_str()]).collect();
    write_starts(path, &both)?;
    Ok(put(db, START, fresh.as_bytes()).map(|()| fresh))
}

/// Lets the file next to the database name only this start, which the database has.
pub(super) fn settle_start(path: &Path, start: &str) -> io::Result<()> {
    write_starts(path, &[start])
}

/// Begins an epoch: the counters continue after its base.
fn begin(db: &Connection, ids: &dyn IdGen) -> rusqlite::Result<Epoch> {
    let mut random = [0; 4];
    ids.fill(&mut random);
    let last: Option<i64> = db.query_row("SELECT last FROM feed_position", [], |row| row.get(0)).optional()?;
    let now: i64 = db.query_row("SELECT unixepoch() * 1000000", [], |row| row.get(0))?;
    let last = u64::try_from(last.unwrap_or(0)).unwrap_or(0);
    let epoch = current(db)?.next(last, Timestamp::from_micros(now), u32::from_le_bytes(random));
    let base = i64::try_from(epoch.base).unwrap_or(i64::MAX);
    let position =
        "INSERT INTO feed_position (one, last) VALUES (1, ?1) ON CONFLICT DO UPDATE SET last = excluded.last";
    db.execute(position, [base])?;
    // The numbers of rows are cursors of lists, and the tokens of those who carry out tasks.
    db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?1)", [base])?;
    // A table that never had a row has no sequence yet, but the lost history may have used its numbers.
    db.execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT name, ?1 FROM sqlite_schema
         WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%' AND name NOT IN (SELECT name FROM sqlite_sequence)",
        [base],
    )?;
    for (table, column) in counted() {
        db.execute(&format!("UPDATE {table} SET {column} = max({column}, ?1)"), [base])?;
    }
    let text = serde_json::to_vec(&epoch).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    put(db, EPOCH, &text)?;
    db.execute("DELETE FROM meta WHERE name = ?1", [DUE])?;
    Ok(epoch)
}

fn current(db: &Connection) -> rusqlite::Result<Epoch> {
    let Some(text) = text(db, EPOCH)? else { return Ok(Epoch::default()) };
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error)))
}

fn text(db: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let read = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
    let value = db.query_row("SELECT value FROM meta WHERE name = ?1", [name], read).optional()?;
    Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

fn put(db: &Connection, name: &str, value: &[u8]) -> rusqlite::Result<()> {
    db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", params![name, value]).map(drop)
}

fn new_start(ids: &dyn IdGen) -> String {
    let mut random = [0; 12];
    ids.fill(&mut random);
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the path of the file with the IDs of starts.
fn starts_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-start");
    name.into()
}

/// Reads the IDs in the file; none if there is no file.
fn starts(path: &Path) -> io::Result<Vec<String>> {
    match std::fs::read_to_string(starts_of(path)) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Replaces the file durably.
fn write_starts(path: &Path, starts: &[&str]) -> io::Result<()> {
    let to = starts_of(path);
    let mut draft = OsString::from(&to);
    draft.push(format!(".{}.draft", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(format!("{}\n", starts.join("\n")).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, &to)?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}
