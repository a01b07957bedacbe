//! The epoch of a PostgreSQL database, and the signs that its history was turned back.
//!
//! A database has an identity: the identifier of its cluster, its own number in it, and the timeline of the server. A
//! restored backup is in another database, and a promoted standby and a point-in-time recovery begin a timeline. The
//! table `meta` has the identity under which the database was last used. Each new connection compares both before it is
//! used, so no process writes to a promoted server with the numbers of the lost history.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use journeyman_core::epoch::Epoch;
use journeyman_core::time::{IdGen, Timestamp};
use tokio_postgres::Client;

use super::error::PgError;
use crate::tables::{counted, numbered};

/// Selects the identity of the database. Every role may call these functions, unless an administrator has revoked it.
const IDENTITY: &str = "
    SELECT (SELECT system_identifier FROM pg_control_system())::text || '/'
        || (SELECT oid FROM pg_database WHERE datname = current_database())::text || '/'
        || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AS identity";

/// Lets one process at a time begin an epoch.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('journeyman/epoch', 0))";

/// Takes the lock of the positions of the feed, and returns the last one.
const LAST: &str = "INSERT INTO feed_position (one, last) VALUES (1, 0)
    ON CONFLICT (one) DO UPDATE SET last = feed_position.last RETURNING last";

const PUT: &str = "INSERT INTO meta (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// Marks a database that was turned back: whoever opens it next begins a new epoch.
pub(crate) const MARK: &str = "INSERT INTO meta (name, value) VALUES ('epoch_due', '1') ON CONFLICT (name) DO NOTHING";

/// The epoch of the database, as this process knows it.
pub(super) struct Epochs {
    ids: Arc<dyn IdGen>,
    base: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The identity of the database; `None` until the store is open.
    identity: Option<String>,
    epoch: Epoch,
}

impl Epochs {
    pub(super) fn new(ids: Arc<dyn IdGen>) -> Arc<Self> {
        Arc::new(Self { ids, base: AtomicU64::new(0), known: Mutex::default() })
    }

    /// Returns the base of the current epoch.
    pub(super) fn base(&self) -> u64 {
        self.base.load(Ordering::SeqCst)
    }

    /// Returns the current epoch.
    pub(super) fn current(&self) -> Epoch {
        self.known().epoch.clone()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a new connection before it is used. Does nothing until the store is open.
    pub(super) async fn check(&self, client: &Client) -> Result<(), PgError> {
        let Some(known) = self.known().identity.clone() else { return Ok(()) };
        let identity = identity(client).await?;
        if identity == known { Ok(()) } else { self.enter(client, identity).await }
    }

    /// Reads the epoch of a database that is being opened.
    pub(super) async fn open(&self, client: &Client) -> Result<(), PgError> {
        let identity = identity(client).await?;
        self.enter(client, identity).await
    }

    /// Reads the epoch, and begins a new one if the database was turned back. After an error, the connection must be
    /// closed.
    async fn enter(&self, client: &Client, identity: String) -> Result<(), PgError> {
        client.batch_execute("BEGIN").await?;
        client.query(LOCK, &[]).await?;
        let (mut epoch, mut before, mut is_due) = (Epoch::default(), None, false);
        for row in client.query("SELECT name, value FROM meta", &[]).await? {
            let value: Vec<u8> = row.try_get("value")?;
            match row.try_get::<_, String>("name")?.as_str() {
                "epoch" => epoch = parse(&value)?,
                "place" => before = Some(String::from_utf8_lossy(&value).into_owned()),
                "epoch_due" => is_due = true,
                _ => {}
            }
        }
        let is_back = is_due || before.as_ref().is_some_and(|before| *before != identity);
        if is_back {
            epoch = self.begin(client, &epoch).await?;
        }
        if is_back || before.is_none() {
            client.execute(PUT, &[&"place", &identity.as_bytes()]).await?;
        }
        client.batch_execute("COMMIT").await?;
        if is_back {
            tracing::warn!(
                base = epoch.base,
                identity,
                "the database was restored, or its standby was promoted: a new epoch begins, and new events, versions \
                 and cursors have numbers after its base"
            );
        }
        self.base.store(epoch.base, Ordering::SeqCst);
        *self.known() = Known { identity: Some(identity), epoch };
        Ok(())
    }

    /// Begins an epoch: the counters continue after its base.
    async fn begin(&self, client: &Client, before: &Epoch) -> Result<Epoch, PgError> {
        let mut random = [0; 4];
        self.ids.fill(&mut random);
        let last: i64 = client.query_one(LAST, &[]).await?.try_get("last")?;
        let now = "SELECT (extract(epoch FROM now()) * 1000000)::bigint AS now";
        let now = Timestamp::from_micros(client.query_one(now, &[]).await?.try_get("now")?);
        let epoch = before.next(u64::try_from(last).unwrap_or(0), now, u32::from_le_bytes(random));
        let base = i64::try_from(epoch.base).unwrap_or(i64::MAX);
        client.execute("UPDATE feed_position SET last = $1", &[&base]).await?;
        // The numbers of rows are cursors of lists.
        for table in numbered() {
            let text = format!(
                "SELECT setval(own, GREATEST($1, nextval(own)))
                 FROM (SELECT pg_get_serial_sequence('{table}', 'number')::regclass AS own) AS sequence"
            );
            client.query(&text, &[&base]).await?;
        }
        for (table, column) in counted() {
            let text = format!("UPDATE {table} SET {column} = $1 WHERE {column} < $1");
            client.execute(&text, &[&base]).await?;
        }
        let text = serde_json::to_vec(&epoch).map_err(|error| corrupt(&error))?;
        client.execute(PUT, &[&"epoch", &text.as_slice()]).await?;
        client.execute("DELETE FROM meta WHERE name = 'epoch_due'", &[]).await?;
        Ok(epoch)
    }
}

async fn identity(client: &Client) -> Result<String, PgError> {
    Ok(client.query_one(IDENTITY, &[]).await?.try_get("identity")?)
}

fn parse(value: &[u8]) -> Result<Epoch, PgError> {
    serde_json::from_slice(value).map_err(|error| corrupt(&error))
}

fn corrupt(error: &serde_json::Error) -> PgError {
    let (table, row, detail) = ("meta", "epoch".to_owned(), error.to_string());
    PgError::Corrupt(journeyman_core::ports::StoreError::Corrupt { table, row, detail })
}
