//! SQLite: one file, one writer that shares an fsync among all requests that wait, readers that wait for nobody.
//!
//! Why `rusqlite` on threads of its own, and not an async driver, is in `docs/decisions/0002-sqlite-writer.md`.

mod cache;
mod jobs;
mod keys;
mod ledger;
mod migrate;
mod projects;
mod pulls;
mod read;
mod rows;
mod spending;
mod sweep;
mod users;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Retention, Store, StoreError, Swept};
use journeyman_core::time::{IdGen, Timestamp};
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use self::cache::JobCache;
pub(crate) use self::migrate::SCHEMA_VERSION;
use self::read::Readers;
pub(crate) use self::rows::ReadError;
use self::write::Writer;
use crate::retention::Ends;
use crate::vault::{MasterKey, VaultError};
use crate::wakeups::Wakeups;

/// How long a connection waits for a lock that another process holds, such as the command line beside a server.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pages of 4 KiB that the write-ahead log may have before they are copied to their places: 16 MiB.
const CHECKPOINT_PAGES: i64 = 4096;

/// Memory for the pages that the writer touches, at most.
const WRITER_CACHE_KIB: i64 = 8192;

/// A store in one SQLite file.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    cache: Arc<JobCache>,
    wakeups: Arc<Wakeups>,
    master_key: MasterKey,
    ids: Arc<dyn IdGen>,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or is no database.
    #[error("the database {path} cannot be opened: {source}")]
    Database {
        /// Which file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The secrets in it cannot be opened with this key.
    #[error(transparent)]
    Key(#[from] VaultError),
    /// A later version has changed the schema.
    #[error(
        "the database {path} has schema version {found}, and this program knows {known}: it was used by a newer \
         Journeyman; start that one, or restore a backup from before the upgrade"
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// The schema's version.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
}

impl SqliteStore {
    /// Opens or makes the database at `path` and brings its schema up to date.
    ///
    /// # Errors
    /// The file cannot be opened, is no database of ours, or is of a newer version.
    pub fn open(path: &Path, master_key: MasterKey, ids: Arc<dyn IdGen>) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Database { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        // WAL lets readers go on beside the writer; FULL syncs the log at each commit: a 2xx means on disk.
        connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        // Pages of a job that is written many times are copied from the log to their place once and not each time.
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(64);
        migrate::migrate(&mut connection, path)?;
        check_master_key(&connection, &master_key, &*ids).map_err(failed)??;
        let cache = Arc::new(JobCache::default());
        let writer = Writer::start(connection, Arc::clone(&cache))
            .map_err(|error| failed(rusqlite::Error::ToSqlConversionFailure(Box::new(error))))?;
        let readers = Readers::new(path.to_owned());
        Ok(Self { writer, readers, cache, wakeups: Arc::new(Wakeups::new()), master_key, ids })
    }
}

/// Whether it is the installation's key; the first one becomes it.
fn check_master_key(
    connection: &Connection,
    key: &MasterKey,
    ids: &dyn IdGen,
) -> rusqlite::Result<Result<(), VaultError>> {
    let read = || {
        let text = "SELECT value FROM meta WHERE name = 'master_key'";
        connection.query_row(text, [], |row| row.get::<_, Vec<u8>>(0)).optional()
    };
    if let Some(proof) = read()? {
        return Ok(if key.sealed_the_proof(&proof) { Ok(()) } else { Err(VaultError::OtherKey) });
    }
    let mut nonce = [0; 12];
    ids.fill(&mut nonce);
    let proof = match key.proof(nonce) {
        Ok(proof) => proof,
        Err(error) => return Ok(Err(error)),
    };
    connection.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('master_key', ?1)", [proof])?;
    // Another process may have been first, with another key.
    Ok(if read()?.is_some_and(|proof| key.sealed_the_proof(&proof)) { Ok(()) } else { Err(VaultError::OtherKey) })
}

/// A connection that only reads.
fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

#[async_trait]
impl Store for SqliteStore {
    async fn ready(&self) -> Result<(), StoreError> {
        // A transaction without writes: it shows that the writer lives and can lock the file, and costs no fsync.
        self.writer.write(|_| Ok::<(), write::OpError<StoreError>>(())).await
    }

    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError> {
        let ends = Ends::new(now, retention);
        self.writer.write(move |db| Ok::<_, write::OpError<StoreError>>(sweep::sweep(db, ends, limit)?)).await
    }
}
