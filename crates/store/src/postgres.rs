//! PostgreSQL, 14 or later: many processes on many machines over one database.
//!
//! `docs/decisions/0009-postgresql.md` explains the choice of `tokio-postgres` and the cost of a request. All tables
//! are in the schema `journeyman`.

mod accept;
mod batch;
mod connect;
mod durability;
mod epoch;
mod error;
mod feed;
mod holds;
mod jobs;
mod migrate;
mod news;
mod overview;
mod pipeline;
mod positions;
mod reach;
mod rows;
mod session;
mod tx;
mod usage;
mod write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Pool;
use journeyman_core::ports::{PoolState, Retention, Store, StoreError, Swept};
use journeyman_core::time::{IdGen, Timestamp};
use tokio_postgres::Row;
use tracing::Instrument as _;

use self::batch::{Batches, CONFLICTS};
pub(crate) use self::connect::Connector;
pub(crate) use self::connect::DURABLE;
#[cfg(test)]
pub(crate) use self::connect::SET_UP;
pub use self::connect::UrlError;
use self::epoch::Epochs;
pub(crate) use self::epoch::MARK;
pub(crate) use self::error::PgError;
pub(crate) use self::migrate::newest as newest_migration;
use self::news::{Messenger, News};
use self::pipeline::{Query, call};
use self::session::Session;
use crate::retention::Ends;
use crate::spans::transaction;
use crate::sql::SqlStore;
use crate::sql::sweep::sweep;
use crate::vault::{MasterKeys, NONCE_BYTES, VaultError};

/// A store in a PostgreSQL database.
pub type PostgresStore = SqlStore<Postgres>;

/// A PostgreSQL database.
pub struct Postgres {
    pool: Pool,
    epochs: Arc<Epochs>,
    batches: Batches,
    news: Arc<News>,
    _messenger: Messenger,
    recheck: Duration,
}

/// The time after which a waiter wakes up without a notification, because notifications may be lost with a connection.
const RECHECK: Duration = Duration::from_secs(5);

/// An error from opening a PostgreSQL store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The server cannot be reached or returned an error.
    #[error("the database cannot be opened: {0}")]
    Database(StoreError),
    /// The master key does not belong to the database.
    #[error(transparent)]
    Key(#[from] VaultError),
    /// A later version has changed the schema incompatibly.
    #[error(
        "the database has schema version {found}, which requires support for version {needs}, but this program \
         supports versions up to {known}; start a newer Journeyman"
    )]
    Newer {
        /// The version of the schema.
        found: i64,
        /// The oldest program version that can use the schema, as a schema version.
        needs: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
    /// The schema must be migrated.
    #[error("the database has schema version {found}, but this program needs {known}; run: journeyman migrate")]
    Older {
        /// The version of the schema; 0 if there is none.
        found: i64,
        /// The schema version that this program needs.
        known: i64,
    },
    /// Other transactions hold locks that a migration needs.
    #[error(
        "migration {number} of the schema needs locks that other transactions have held for {} s; it was not applied, \
         and the processes of the previous version can continue. Let these transactions end (SELECT pid, xact_start, \
         query FROM pg_stat_activity WHERE xact_start IS NOT NULL lists them; a backup is one), then start the service \
         or journeyman migrate again",
        .waited.as_secs()
    )]
    Locked {
        /// The number of the migration.
        number: i64,
        /// The time of all attempts.
        waited: Duration,
    },
}

impl From<PgError> for OpenError {
    fn from(error: PgError) -> Self {
        Self::Database(error.into())
    }
}

/// The treatment of an outdated schema when a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// Migrates the schema to the current version.
    Migrate,
    /// Fails with [`OpenError::Older`].
    Check,
}

impl PostgresStore {
    /// Connects to the database at `url`, with at most `connections` connections and one more for notifications.
    ///
    /// # Errors
    /// The server cannot be reached or returned an error; the schema is not compatible with this program; the master
    /// key does not belong to the database.
    pub async fn open(
        url: &str,
        connections: usize,
        schema: Schema,
        master_keys: impl Into<MasterKeys>,
        ids: Arc<dyn IdGen>,
    ) -> Result<Self, OpenError> {
        let connector = Connector::new(url)?;
        let epochs = Epochs::new(Arc::clone(&ids));
        let pool = connector.pool(connections, Some(&epochs))?;
        match schema {
            Schema::Migrate => {
                migrate::migrate(&connector, None).await?;
            }
            Schema::Check => migrate::check(&*pool.get().await.map_err(PgError::from)?).await?,
        }
        let master_keys = master_keys.into();
        check_master_key(&pool, &master_keys, &*ids).await?;
        durability::warn(&pool).await?;
        enter_epoch(&pool, &epochs).await?;
        let news = News::new();
        let batches = Batches::start(&pool, &news, &epochs);
        let messenger = Messenger::start(&news, pool.clone(), connector);
        let database = Postgres { pool, epochs, batches, news, _messenger: messenger, recheck: RECHECK };
        Ok(Self { database, master_keys, ids })
    }

    /// Sets the time after which a waiter wakes up without a notification; by default, 5 s.
    #[must_use]
    pub fn with_recheck(mut self, time: Duration) -> Self {
        self.database.recheck = time;
        self
    }

    /// Migrates the schema of the database at `url` to the current version, and returns the number of applied
    /// migrations.
    ///
    /// # Errors
    /// The server cannot be reached or returned an error; the schema is too new for this program.
    pub async fn migrate(url: &str) -> Result<usize, OpenError> {
        migrate::migrate(&Connector::new(url)?, None).await
    }

    /// Returns the current schema version.
    #[must_use]
    pub fn schema_version() -> i64 {
        migrate::known()
    }

    /// Migrates the schema up to `version` only, to restore a backup with that schema version.
    ///
    /// # Errors
    /// The same errors as [`PostgresStore::migrate`]; [`OpenError::Newer`] if the schema is newer than `version`.
    pub(crate) async fn migrate_to(url: &str, version: i64) -> Result<usize, OpenError> {
        migrate::migrate(&Connector::new(url)?, Some(version)).await
    }
}

impl Postgres {
    /// Runs one query.
    async fn read(&self, call: Query) -> Result<Vec<Row>, PgError> {
        Ok(self.read_all(&[call]).await?.pop().unwrap_or_default())
    }

    /// Runs a query with a plan for its values. The plan for any values, which the server prefers after some calls, may be
    /// much slower.
    async fn read_planned(&self, call: Query) -> Result<Vec<Row>, PgError> {
        let plan = call!("SET LOCAL plan_cache_mode = force_custom_plan");
        let mut answers = self.read_all(&[call!("BEGIN"), plan, call, call!("COMMIT")]).await?;
        answers.pop();
        Ok(answers.pop().unwrap_or_default())
    }

    /// Runs queries in one round trip. Each query sees everything that was committed before it started.
    async fn read_all(&self, calls: &[Query]) -> Result<Vec<Vec<Row>>, PgError> {
        let mut may_retry = true;
        // Each connection of the pool may have a stale plan.
        let mut stale = self.pool.status().max_size;
        loop {
            match self.try_read(calls).await {
                // The server may have been restarted while the connection was idle.
                Err(error) if error.is_lost() && may_retry => may_retry = false,
                Err(error) if error.is_stale_plan() && stale > 0 => stale -= 1,
                done => return done,
            }
        }
    }

    async fn try_read(&self, calls: &[Query]) -> Result<Vec<Vec<Row>>, PgError> {
        let session = Session::open(&self.pool).await?;
        let read = session.run(calls).await?;
        session.release();
        Ok(read)
    }

    /// Runs statements in one transaction.
    async fn write(&self, mut calls: Vec<Query>) -> Result<Vec<Vec<Row>>, PgError> {
        calls.insert(0, call!("BEGIN"));
        calls.push(call!("COMMIT"));
        let mut stale = self.pool.status().max_size;
        let mut conflicts = 0;
        let mut answers = loop {
            match self.try_write(&calls).instrument(transaction("postgresql")).await {
                Err(error) if error.is_stale_plan() && stale > 0 => stale -= 1,
                // The server has undone the transaction.
                Err(error) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
                done => break done?,
            }
        };
        answers.remove(0);
        answers.pop();
        Ok(answers)
    }

    async fn try_write(&self, calls: &[Query]) -> Result<Vec<Vec<Row>>, PgError> {
        let session = Session::open(&self.pool).await?;
        let answers = session.run(calls).await.map_err(PgError::of_commit)?;
        session.release();
        Ok(answers)
    }
}

/// Reads the epoch of the database, and begins a new one if the database was turned back.
async fn enter_epoch(pool: &Pool, epochs: &Epochs) -> Result<(), PgError> {
    let client = pool.get().await?;
    let entered = epochs.open(&client).await;
    if entered.is_err() {
        // Its transaction may be open.
        drop(deadpool_postgres::Client::take(client));
    }
    entered
}

/// Checks that one of `keys` is the master key that the installation requires. The first key that is used becomes it.
async fn check_master_key(pool: &Pool, keys: &MasterKeys, ids: &dyn IdGen) -> Result<(), OpenError> {
    let mut nonce = [0; NONCE_BYTES];
    ids.fill(&mut nonce);
    let calls = [
        call!(
            "INSERT INTO meta (name, value) VALUES ('master_key', $1) ON CONFLICT (name) DO NOTHING",
            keys.proof(nonce)?
        ),
        call!("SELECT value FROM meta WHERE name = 'master_key'"),
    ];
    let session = Session::open(pool).await?;
    let rows = session.run(&calls).await?;
    session.release();
    let proof = rows.iter().flatten().next().map(|row| row.try_get::<_, Vec<u8>>("value")).transpose();
    match proof.map_err(PgError::from)? {
        Some(proof) if keys.sealed_the_proof(&proof) => Ok(()),
        _ => Err(VaultError::OtherKey.into()),
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn ready(&self) -> Result<(), StoreError> {
        self.read(call!("SELECT 1")).await?;
        Ok(())
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        let text = "INSERT INTO meta (name, value) VALUES ('write_check', $1)
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.write(vec![call!(text, vec![0_u8; 16])]).await?;
        Ok(())
    }

    fn pool(&self) -> Option<PoolState> {
        let state = self.pool.status();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Some(PoolState {
            limit: number(state.max_size),
            open: number(state.size),
            idle: number(state.available),
            waiting: number(state.waiting),
        })
    }

    async fn sweep(&self, now: Timestamp, retention: Retention, limit: usize) -> Result<Swept, StoreError> {
        // A removed event must have had a position, so that readers who missed it notice.
        self.assign_all_positions().await?;
        sweep(&self.database, Ends::new(now, retention), limit).await
    }
}
