//! SQLite: one file, one writer thread that shares an fsync among all waiting requests, and readers that never wait for
//! the writer.
//!
//! `docs/decisions/0002-sqlite-writer.md` explains why this uses `rusqlite` on separate threads instead of an async
//! driver.

mod cache;
mod compact;
mod connection;
mod epoch;
mod error;
mod fault;
mod feed;
mod folder;
mod holds;
mod jobs;
mod ledger;
mod migrate;
mod read;
mod recover;
mod rows;
mod temporary;
mod tx;
mod usage;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::epoch::Epoch;
use journeyman_core::ports::{Retention, Store, StoreError, Swept};
use journeyman_core::time::{IdGen, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use self::cache::JobCache;
pub(crate) use self::cache::{Extras, Newest, Part};
pub(crate) use self::connection::BUSY_TIMEOUT;
use self::connection::keep_statements;
use self::connection::open_reader;
pub(crate) use self::epoch::mark;
pub use self::error::OpenError;
pub(crate) use self::error::ReadError;
use self::fault::Fault;
use self::folder::TemporaryFolder;
pub(crate) use self::migrate::SCHEMA_VERSION;
#[cfg(test)]
pub(crate) use self::migrate::migrate;
use self::read::Readers;
pub(crate) use self::tx::run;
use self::write::Writer;
use crate::retention::Ends;
use crate::sql::SqlStore;
use crate::sql::sweep::sweep;
use crate::vault::{MasterKeys, NONCE_BYTES, VaultError};
use crate::wakeups::Wakeups;

/// The number of 4 KiB pages in the write-ahead log that triggers a checkpoint: 16 MiB.
const CHECKPOINT_PAGES: i64 = 4096;

/// The size in bytes to which SQLite truncates a larger write-ahead log when it starts to reuse the log.
const LOG_BYTES: i64 = 64 << 20;

/// The maximum size of the writer's page cache in KiB.
const WRITER_CACHE_KIB: i64 = 8192;

/// The size in bytes of the row that a check of writes replaces: a request needs about as much space.
const WRITE_CHECK_BYTES: i64 = 16 << 10;

/// A store in one SQLite file.
pub type SqliteStore = SqlStore<Sqlite>;

/// A database in one SQLite file.
pub struct Sqlite {
    path: PathBuf,
    writer: Writer,
    epoch: Arc<Epoch>,
    readers: Readers,
    cache: Arc<JobCache>,
    fault: Arc<Fault>,
    wakeups: Arc<Wakeups>,
    /// Dropped last: the folder is removed after the database is closed.
    temporary: Option<TemporaryFolder>,
}

impl SqliteStore {
    /// Ensures that the content of the write-ahead log of the database at `path` is on disk. A service does this before
    /// it opens the database, because the previous process may have failed to do so. Does nothing if there is no log.
    ///
    /// # Errors
    /// The file cannot be opened or is not a database; the log cannot be written.
    pub fn recover(path: &Path) -> Result<(), OpenError> {
        recover::recover(path)
    }

    /// Rewrites the database at `path` without its free pages, and lets it return free pages to the disk from then on.
    /// No other program may use the database meanwhile, and the disk needs space for two more copies of it. Returns the
    /// sizes before and after, in bytes.
    ///
    /// # Errors
    /// The file cannot be opened or is not a database; the disk is full; another process uses the database.
    pub fn compact(path: &Path) -> Result<[u64; 2], OpenError> {
        compact::compact(path)
    }

    /// Returns true if [`open`](Self::open) would migrate the schema of the database at `path`. Changes no data.
    ///
    /// # Errors
    /// The file cannot be opened or is not a database.
    pub fn needs_migration(path: &Path) -> Result<bool, OpenError> {
        let version = || {
            // A read-only connection would leave the files of the write-ahead log behind.
            open_reader(path)?.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
        };
        let version = version().map_err(|source| OpenError::Database { path: path.to_owned(), source })?;
        Ok(version < SCHEMA_VERSION)
    }

    /// Opens or creates the database at `path`, and migrates its schema to the current version.
    ///
    /// # Errors
    /// The file cannot be opened or is not a database; its schema is newer than this program; no master key belongs
    /// to it.
    pub fn open(path: &Path, master_keys: impl Into<MasterKeys>, ids: Arc<dyn IdGen>) -> Result<Self, OpenError> {
        let master_keys = master_keys.into();
        let failed = |source| OpenError::Database { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).map_err(failed)?;
        if pages == 0 {
            // Lets the file return free pages to the disk. Has no effect after the first table was created.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(failed)?;
        }
        // WAL lets readers run concurrently with the writer. FULL syncs the log at each commit, so that a 2xx response
        // means that the change is on disk.
        connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        // A large log lets SQLite copy a page that changes often into the database only once.
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
        // After a large transaction, SQLite truncates the log when it starts to reuse it.
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES).map_err(failed)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB).map_err(failed)?;
        keep_statements(&connection).map_err(failed)?;
        migrate::migrate(&mut connection, path)?;
        check_master_key(&connection, &master_keys, &*ids).map_err(failed)??;
        let epoch = Arc::new(epoch::enter(&mut connection, path, &*ids)?);
        let (cache, fault) = (Arc::new(JobCache::default()), Arc::new(Fault::default()));
        let writer = Writer::start(connection, Arc::clone(&cache), Arc::clone(&fault), Arc::clone(&epoch))
            .map_err(|error| failed(rusqlite::Error::ToSqlConversionFailure(Box::new(error))))?;
        let readers = Readers::new(path.to_owned(), Arc::clone(&fault));
        let (path, wakeups) = (path.to_owned(), Arc::new(Wakeups::new()));
        let database = Sqlite { path, writer, epoch, readers, cache, fault, wakeups, temporary: None };
        Ok(Self { database, master_keys, ids })
    }
}

/// Checks that one of `keys` is the master key that the installation requires. The first key that is used becomes it.
fn check_master_key(
    connection: &Connection,
    keys: &MasterKeys,
    ids: &dyn IdGen,
) -> rusqlite::Result<Result<(), VaultError>> {
    let read = || {
        let text = "SELECT value FROM meta WHERE name = 'master_key'";
        connection.query_row(text, [], |row| row.get::<_, Vec<u8>>(0)).optional()
    };
    if let Some(proof) = read()? {
        return Ok(if keys.sealed_the_proof(&proof) { Ok(()) } else { Err(VaultError::OtherKey) });
    }
    let mut nonce = [0; NONCE_BYTES];
    ids.fill(&mut nonce);
    let proof = match keys.proof(nonce) {
        Ok(proof) => proof,
        Err(error) => return Ok(Err(error)),
    };
    connection.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('master_key', ?1)", [proof])?;
    // Another process may have stored another key in the meantime.
    Ok(if read()?.is_some_and(|proof| keys.sealed_the_proof(&proof)) { Ok(()) } else { Err(VaultError::OtherKey) })
}

#[async_trait]
impl Store for SqliteStore {
    async fn ready(&self) -> Result<(), StoreError> {
        // A transaction without writes shows that the writer runs and can lock the file, and costs no fsync.
        self.writer.write(|_| Ok::<(), error::OpError<StoreError>>(())).await
    }

    async fn failed(&self) -> String {
        self.fault.happened().await
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        let write = |db: &mut write::Session<'_>| {
            let text = "INSERT OR REPLACE INTO meta (name, value) VALUES ('write_check', zeroblob(?1))";
            db.prepare_cached(text)?.execute([WRITE_CHECK_BYTES])?;
            Ok::<_, error::OpError<StoreError>>(())
        };
        self.writer.write(write).await
    }

    async fn note_start(&self) -> Result<(), StoreError> {
        let failed =
            |path: &Path, error: std::io::Error| StoreError::Unavailable(format!("{}-start: {error}", path.display()));
        let (path, ids) = (self.path.clone(), Arc::clone(&self.ids));
        let note = move |db: &mut write::Session<'_>| {
            let noted = epoch::note_start(db, &path, &*ids).map_err(|error| failed(&path, error));
            Ok::<_, error::OpError<StoreError>>(noted??)
        };
        let start = self.writer.write(note).await?;
        epoch::settle_start(&self.path, &start).map_err(|error| failed(&self.path, error))
    }

    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError> {
        let ends = Ends::new(now, retention);
        let swept = sweep(&self.database, ends, limit).await?;
        // The last batch of a sweep returns the pages that all of its batches have freed.
        if swept.most() < limit {
            self.give_back().await?;
        }
        Ok(swept)
    }
}
