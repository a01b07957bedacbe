//! Recovery of a database that a failed process may have left, before a service uses it.
//!
//! After a failed fsync, the kernel may mark pages as clean that are not on disk. A new process would still read them
//! from memory, and build on transactions that a power failure removes, together with all later ones. Therefore the log
//! is rewritten byte for byte and synced before SQLite relies on it: docs/decisions/0024-io-errors.md.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::{BUSY_TIMEOUT, OpenError};

/// The number of bytes of the log to rewrite at a time.
const PIECE: usize = 1 << 20;

/// Ensures that all transactions that SQLite finds in the log of the database at `path` are on disk.
pub(super) fn recover(path: &Path) -> Result<(), OpenError> {
    let log = log_of(path);
    match std::fs::metadata(&log) {
        Ok(found) if found.len() > 0 => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(unwritable(path, error)),
        // The database was closed properly, or is new.
        _ => return Ok(()),
    }
    rewrite_log(path, &log)?;
    // If no other process has the database open, SQLite now reads the log from its beginning; the checkpoint copies its
    // content into the database.
    let connection = open(path)?;
    let failed = |source| OpenError::Database { path: path.to_owned(), source };
    let busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    if busy {
        tracing::info!("another program uses the database; its log, which is synced to disk, stays in place");
    }
    drop(connection);
    let synced = File::open(path).and_then(|file| file.sync_all()).and_then(|()| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    });
    synced.map_err(|error| unwritable(path, error))
}

/// Rewrites the log while holding the lock that prevents other processes from appending to it and from truncating it.
fn rewrite_log(path: &Path, log: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Database { path: path.to_owned(), source };
    let connection = open(path)?;
    // Closing the connection must not make a checkpoint: the content read so far may differ from the content on disk.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let written = OpenOptions::new().read(true).write(true).open(log).and_then(|file| rewrite(&file));
    connection.execute_batch("ROLLBACK").map_err(failed)?;
    written.map_err(|error| unwritable(path, error))
}

/// Rewrites the content of a file in place. This makes pages dirty that the kernel considers clean, so that the result
/// of the fsync is reliable.
fn rewrite(file: &File) -> io::Result<()> {
    let (mut piece, mut offset) = (vec![0; PIECE], 0);
    loop {
        let count = match file.read_at(&mut piece, offset) {
            Ok(0) => return file.sync_all(),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        file.write_all_at(&piece[..count], offset)?;
        offset += count as u64;
    }
}

fn open(path: &Path) -> Result<Connection, OpenError> {
    let open = || {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    };
    open().map_err(|source| OpenError::Database { path: path.to_owned(), source })
}

/// Returns the path of the database's write-ahead log.
fn log_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-wal");
    name.into()
}

fn unwritable(path: &Path, source: io::Error) -> OpenError {
    OpenError::Log { path: log_of(path), source }
}
