//! Things that tests begin with.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use journeyman_core::engine::{Admission, Engine, NewJob, Prompt};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::{ProjectId, WorkerId};
use journeyman_core::job::JobOptions;
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::Store;
use journeyman_core::project::{DEFAULT_AGENT, DEFAULT_MODEL, Project, Settings};
use journeyman_core::time::{Clock, IdGen, Timestamp};
use journeyman_store::{MasterKey, MemoryStore, PostgresStore, Schema, SqliteStore};
use journeyman_testkit::Postgres;
use uuid::Uuid;

/// A clock that is set by hand and ids that count.
pub(crate) struct World {
    micros: AtomicI64,
    count: AtomicU64,
    bytes: AtomicU64,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            micros: AtomicI64::new(1_800_000_000_000_000),
            count: AtomicU64::new(1),
            bytes: AtomicU64::new(1),
        })
    }

    /// Sets the clock back.
    pub(crate) fn set_back(&self, time: Duration) {
        self.micros.fetch_sub(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.micros.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}

impl IdGen for World {
    fn uuid(&self, _: Timestamp) -> Uuid {
        Uuid::from_u128(u128::from(self.count.fetch_add(1, Ordering::SeqCst)))
    }

    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.bytes.fetch_add(1, Ordering::SeqCst).to_le_bytes()[0];
        }
    }
}

/// A store with the engine over it.
pub(crate) struct House {
    pub(crate) name: &'static str,
    pub(crate) world: Arc<World>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) dir: Option<tempfile::TempDir>,
}

impl House {
    /// Over a store as it is.
    pub(crate) fn over(name: &'static str, world: Arc<World>, store: Arc<dyn Store>) -> Self {
        let engine = Engine::new(Arc::clone(&store), world.clone(), world.clone());
        Self { name, world, store, engine, dir: None }
    }

    /// With the project [`shop`] in it.
    async fn new(name: &'static str, world: Arc<World>, store: Arc<dyn Store>, dir: Option<tempfile::TempDir>) -> Self {
        store.create_project(project("shop"), [].into()).await.unwrap();
        Self { dir, ..Self::over(name, world, store) }
    }
}

pub(crate) async fn memory() -> House {
    House::new("memory", World::new(), Arc::new(MemoryStore::default()), None).await
}

pub(crate) async fn sqlite() -> House {
    let (dir, world) = (tempfile::tempdir().unwrap(), World::new());
    let store = SqliteStore::open(&dir.path().join("journeyman.db"), master_key(), world.clone()).unwrap();
    House::new("sqlite", world, Arc::new(store), Some(dir)).await
}

pub(crate) async fn postgres_at(url: &str) -> House {
    let world = World::new();
    let store = PostgresStore::open(url, 8, Schema::Migrate, master_key(), world.clone()).await.unwrap();
    House::new("postgres", world, Arc::new(store), None).await
}

/// One of each kind.
pub(crate) async fn all() -> Vec<House> {
    vec![memory().await, sqlite().await, postgres_at(&Postgres::shared().database()).await]
}

pub(crate) fn master_key() -> MasterKey {
    MasterKey::new([9; 32])
}

pub(crate) fn project(id: &str) -> Project {
    Project {
        id: id.parse().unwrap(),
        repository: format!("local:{id}"),
        reference: None,
        agent: DEFAULT_AGENT.to_owned(),
        model: DEFAULT_MODEL.to_owned(),
        created_at: Timestamp::from_micros(1),
        settings: Settings::default(),
        secret_names: Vec::new(),
    }
}

pub(crate) fn shop() -> ProjectId {
    "shop".parse().unwrap()
}

pub(crate) fn prompt(text: &str) -> Prompt {
    Prompt { text: text.to_owned(), origin: Origin::Api, author: Some("ci".to_owned()), delivery: DeliveryMode::Queue }
}

pub(crate) fn new_job(text: &str) -> NewJob {
    NewJob { prompt: prompt(text), reference: None, model: None, agent: None, options: JobOptions::default() }
}

pub(crate) fn worker(number: u128) -> WorkerId {
    WorkerId::from_uuid(Uuid::from_u128(number))
}

/// No idempotency key, no limit.
pub(crate) fn free() -> Admission {
    Admission::default()
}

pub(crate) fn keyed(key: &str, body: &str) -> Admission {
    let fingerprint = Fingerprint::of("POST", body.as_bytes());
    Admission {
        idempotency: Some(Claim { project: shop(), caller: "ci".to_owned(), key: key.to_owned(), fingerprint }),
        limit: 0,
    }
}
