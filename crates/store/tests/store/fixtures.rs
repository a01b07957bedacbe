//! Initial data and helpers for the tests.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::engine::{Admission, Engine, NewJob, Prompt};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::{JobId, ProjectId, WorkerId};
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::{Store, WorkStore};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;
use journeyman_store::{MasterKey, MemoryStore, PostgresStore, Schema, SqliteStore};
use journeyman_testkit::{Postgres, Seeds as _, World, within};
use uuid::Uuid;

/// The time after which the waiters of a PostgreSQL store wake up without a notification. No test waits for it, so each
/// wake-up is a notification.
pub(crate) const RECHECK: Duration = Duration::from_hours(1);

/// A store with an engine on top of it.
pub(crate) struct Fixture<S: ?Sized = dyn Store> {
    pub(crate) name: &'static str,
    pub(crate) world: Arc<World>,
    pub(crate) store: Arc<S>,
    pub(crate) engine: Engine,
    pub(crate) dir: Option<tempfile::TempDir>,
}

impl Fixture {
    /// Wraps a store without changing it.
    pub(crate) fn over(name: &'static str, world: Arc<World>, store: Arc<dyn Store>) -> Self {
        let engine = Engine::new(store.clone(), world.clone(), world.clone());
        Self { name, world, store, engine, dir: None }
    }

    /// Wraps a store, and creates the project [`shop`] in it.
    async fn new(name: &'static str, world: Arc<World>, store: Arc<dyn Store>, dir: Option<tempfile::TempDir>) -> Self {
        store.create_project(project("shop"), [].into()).await.unwrap();
        Self { dir, ..Self::over(name, world, store) }
    }

    /// Adds projects, in place of those with the same IDs, and keeps only the ports of the work on jobs.
    async fn for_work(self, projects: &[Project]) -> Fixture<dyn WorkStore> {
        let Self { name, world, store, engine, dir } = self;
        for project in projects {
            match store.project(project.id.clone()).await.unwrap() {
                Some(_) => store.update_project(project.clone(), [].into()).await.unwrap(),
                None => store.create_project(project.clone(), [].into()).await.unwrap(),
            };
        }
        Fixture { name, world, store, engine, dir }
    }
}

impl<S: ?Sized> Fixture<S> {
    /// Creates a job in [`shop`].
    pub(crate) async fn job(&self) -> JobId {
        self.engine.create_job(&project("shop"), new_job("x"), free()).await.unwrap().record.id
    }
}

/// Returns the store in memory with [`shop`] and other projects, which may replace it.
fn memory(projects: &[Project]) -> Fixture<dyn WorkStore> {
    let (world, store) = (World::new(), Arc::new(MemoryStore::default()));
    store.put_project(project("shop"));
    projects.iter().for_each(|project| store.put_project(project.clone()));
    let engine = Engine::new(store.clone(), world.clone(), world.clone());
    Fixture { name: "memory", world, store, engine, dir: None }
}

pub(crate) async fn sqlite() -> Fixture {
    let (dir, world) = (tempfile::tempdir().unwrap(), World::new());
    let path = dir.path().join("journeyman.db");
    SqliteStore::write_new(&path).unwrap();
    let store = SqliteStore::open(&path, master_key(), world.clone()).unwrap();
    Fixture::new("sqlite", world, Arc::new(store), Some(dir)).await
}

pub(crate) async fn postgres_at(url: &str) -> Fixture {
    let world = World::new();
    let store = PostgresStore::open(url, 8, Schema::Migrate, master_key(), world.clone()).await.unwrap();
    let fixture = Fixture::new("postgres", world, Arc::new(store.with_recheck(RECHECK)), None).await;
    listening(&*fixture.store).await;
    fixture
}

/// Waits until a new PostgreSQL store listens for notifications. It then wakes its waiters once, because it may have missed
/// some.
pub(crate) async fn listening(store: &dyn Store) {
    within("the store listens for notifications", store.work_changed(0)).await;
}

/// Returns the URL of a new PostgreSQL database with the current schema.
pub(crate) async fn migrated() -> String {
    Postgres::shared().migrated(async |url| assert!(PostgresStore::migrate(url).await.is_ok())).await
}

/// Opens another store over the same database, as another process does.
pub(crate) async fn open_again(url: &str, known: &Fixture) -> Arc<dyn Store> {
    Arc::new(PostgresStore::open(url, 8, Schema::Check, master_key(), known.world.clone()).await.unwrap())
}

/// Returns a store in each database.
pub(crate) async fn all() -> Vec<Fixture> {
    vec![sqlite().await, postgres_at(&migrated().await).await]
}

/// Returns each store that can do the work on jobs: the one in memory, and those of [`all`].
pub(crate) async fn all_for_work() -> Vec<Fixture<dyn WorkStore>> {
    all_for_work_in(&[]).await
}

/// Like [`all_for_work`], with other projects besides [`shop`], which may replace it.
pub(crate) async fn all_for_work_in(projects: &[Project]) -> Vec<Fixture<dyn WorkStore>> {
    let mut fixtures = vec![memory(projects)];
    for fixture in all().await {
        fixtures.push(fixture.for_work(projects).await);
    }
    fixtures
}

pub(crate) fn master_key() -> MasterKey {
    MasterKey::new([9; 32])
}

pub(crate) fn project(id: &str) -> Project {
    Project::new(id.parse().unwrap(), format!("local:{id}"), Timestamp::from_micros(1))
}

pub(crate) fn shop() -> ProjectId {
    "shop".parse().unwrap()
}

pub(crate) fn prompt(text: &str) -> Prompt {
    Prompt {
        text: text.to_owned(),
        origin: Origin::Api,
        author: Some("ci".to_owned()),
        key: None,
        delivery: DeliveryMode::Queue,
        traceparent: None,
        source: None,
    }
}

pub(crate) fn new_job(text: &str) -> NewJob {
    NewJob::new(prompt(text))
}

pub(crate) fn worker(number: u128) -> WorkerId {
    WorkerId::from_uuid(Uuid::from_u128(number))
}

/// Returns an admission without an idempotency key or a rate limit.
pub(crate) fn free() -> Admission {
    Admission::default()
}

pub(crate) fn keyed(key: &str, body: &str) -> Admission {
    let fingerprint = Fingerprint::of("POST", body.as_bytes());
    Admission {
        idempotency: Some(Claim { project: Some(shop()), caller: "ci".to_owned(), key: key.to_owned(), fingerprint }),
        limit: 0,
    }
}
