//! Returns free pages of the file to the disk: a few at a time after a sweep, or all at once by a command.
//!
//! A file from an earlier version ([`gives_back`] detects it) reuses its free pages, but does not shrink until it has
//! been rewritten once: docs/decisions/0025-disk.md.

use std::path::Path;

use journeyman_core::ports::StoreError;
use rusqlite::{Connection, OpenFlags};

use super::error::OpError;
use super::{BUSY_TIMEOUT, OpenError, SqliteStore};

/// The number of pages to release in one transaction: 256 KiB. Requests wait while SQLite moves them.
const PIECE: i64 = 64;

/// The number of free pages to keep for new data, so that the file does not shrink and grow all the time: 4 MiB.
const KEPT: i64 = 1024;

impl SqliteStore {
    /// Releases the free pages beyond [`KEPT`]. Waiting requests run between two pieces.
    pub(super) async fn give_back(&self) -> Result<(), StoreError> {
        let mut given = 0;
        loop {
            let piece = self.writer.write(|db| Ok::<_, OpError<StoreError>>(give_back_piece(db)?)).await?;
            given += piece;
            if piece == 0 {
                break;
            }
        }
        if given > 0 {
            // The checkpoint truncates the file; otherwise the next automatic checkpoint would, which comes only after
            // enough writes.
            self.readers.read(|db| Ok(checkpoint(db)?)).await?;
            tracing::info!(pages = given, "free space in the database was returned to the disk");
        }
        Ok(())
    }
}

/// Releases one piece, and returns its number of pages.
fn give_back_piece(db: &Connection) -> rusqlite::Result<i64> {
    if !gives_back(db)? {
        return Ok(0);
    }
    let free = free_pages(db)?;
    let pages = (free - KEPT).min(PIECE);
    if pages <= 0 {
        return Ok(0);
    }
    let mut vacuum = db.prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    // Each step moves one page.
    while rows.next()?.is_some() {}
    Ok(free - free_pages(db)?)
}

fn free_pages(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| row.get(0))
}

/// Returns whether the file can release free pages piece by piece.
fn gives_back(db: &Connection) -> rusqlite::Result<bool> {
    Ok(db.prepare_cached("PRAGMA auto_vacuum")?.query_row([], |row| row.get::<_, i64>(0))? == 2)
}

fn checkpoint(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Rewrites the whole file, and returns its sizes before and after.
pub(super) fn compact(path: &Path) -> Result<[u64; 2], OpenError> {
    let rewrite = || {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let empty_log = || connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let size = || std::fs::metadata(path).map_or(0, |file| file.len());
        empty_log()?;
        let before = size();
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.execute_batch("VACUUM")?;
        empty_log()?;
        Ok([before, size()])
    };
    rewrite().map_err(|source| OpenError::Compact { path: path.to_owned(), source })
}
