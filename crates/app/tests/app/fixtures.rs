//! Fixtures: the use cases over each kind of store.

use std::sync::Arc;

use journeyman_app::{Actor, Caller, Error, Idempotency, Parts, UseCases};
use journeyman_core::agent::{AgentSpec, Agents};
use journeyman_core::engine::Engine;
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::message::Origin;
use journeyman_core::ports::{Forges, Hooks, Slack, Store};
use journeyman_core::project::Project;
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::time::Timestamp;
use journeyman_store::{MasterKey, PostgresStore, Schema, SqliteStore};
use journeyman_testkit::{FakeComparisons, FakeForges, FakeHosts, FakeSlack, Postgres, Tap, Tapped, World};

/// The use cases over one store.
pub(crate) struct Fixture {
    pub(crate) name: &'static str,
    pub(crate) cases: UseCases,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
    pub(crate) world: Arc<World>,
    pub(crate) slack: Arc<FakeSlack>,
    pub(crate) comparisons: FakeComparisons,
}

/// A store, with the clock of its test.
pub(crate) struct Stored {
    name: &'static str,
    world: Arc<World>,
    pub(crate) store: Arc<dyn Store>,
}

impl Stored {
    /// Returns a temporary store in SQLite.
    pub(crate) fn sqlite() -> Self {
        let world = World::new();
        let store = Arc::new(SqliteStore::temporary(world.clone()).unwrap());
        Self { name: "sqlite", world, store }
    }

    async fn postgres() -> Self {
        let world = World::new();
        let url = Postgres::shared().migrated(async |url| assert!(PostgresStore::migrate(url).await.is_ok())).await;
        let key = MasterKey::new([9; 32]);
        let store = PostgresStore::open(&url, 8, Schema::Migrate, key, world.clone()).await.unwrap();
        Self { name: "postgres", world, store: Arc::new(store) }
    }

    /// Returns a store in each database.
    pub(crate) async fn all() -> [Self; 2] {
        [Self::sqlite(), Self::postgres().await]
    }

    /// Returns the same store with an observer of its calls.
    pub(crate) fn tapped<T: Tap + 'static>(self, tap: Arc<T>) -> Self {
        Self { store: Arc::new(Tapped::new(self.store, tap)), ..self }
    }
}

/// Returns the use cases over each kind of store.
pub(crate) async fn all() -> Vec<Fixture> {
    Stored::all().await.map(|stored| fixture(stored, &FakeForges)).into()
}

/// Returns the use cases over each kind of store, with a code host that sends no webhooks.
pub(crate) async fn all_with(forges: &Arc<dyn Forges>) -> Vec<Fixture> {
    Stored::all().await.map(|stored| over(stored, Arc::clone(forges), Arc::new(FakeForges))).into()
}

/// Returns the use cases over a store, with a code host.
pub(crate) fn fixture<H: Forges + Hooks + Clone + 'static>(stored: Stored, host: &H) -> Fixture {
    over(stored, Arc::new(host.clone()), Arc::new(host.clone()))
}

fn over(stored: Stored, forges: Arc<dyn Forges>, hooks: Arc<dyn Hooks>) -> Fixture {
    let Stored { name, world, store } = stored;
    let engine = Engine::new(store.clone(), world.clone(), world.clone());
    let agent: AgentSpec = serde_json::from_str(r#"{"command": ["journeyman"]}"#).unwrap();
    let asks = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];
    let asking = serde_json::json!({ "command": ["asking"], "asks": asks });
    let asking: AgentSpec = serde_json::from_value(asking).unwrap();
    let (slack, comparisons) = (Arc::new(FakeSlack::default()), FakeComparisons::default());
    let cases = UseCases::new(Parts {
        store: Arc::clone(&store),
        engine: engine.clone(),
        forges,
        pulls: Arc::new(FakeForges),
        code_hosts: Arc::new(FakeHosts(store.clone())),
        hooks,
        comparisons: Arc::new(comparisons.clone()),
        webhooks: Arc::new(journeyman_testkit::FakeEndpoints::default()),
        tokens: Arc::new(journeyman_testkit::FakeTokens::default()),
        slack: Arc::clone(&slack) as Arc<dyn Slack>,
        public_url: "http://localhost:8080".to_owned(),
        ids: world.clone(),
        agents: Arc::new(Agents::from([("journeyman".to_owned(), agent), ("asking".to_owned(), asking)])),
        create_per_hour: 0,
        message_per_hour: 0,
    });
    Fixture { name, cases, store, engine, world, slack, comparisons }
}

pub(crate) fn shop() -> Project {
    Project::new("shop".parse().unwrap(), "local:shop", Timestamp::from_micros(1))
}

/// Returns the caller of the command line.
pub(crate) const fn operator() -> Caller {
    Caller::command_line()
}

pub(crate) fn once(key: &str, request: &str) -> Option<Idempotency> {
    Some(Idempotency { key: key.to_owned(), fingerprint: Fingerprint::of("test", request.as_bytes()) })
}

pub(crate) fn new_key() -> NewKey {
    NewKey { name: "ci".to_owned(), scopes: vec![Scope::Write], projects: None, expires_at: None, allowed_ips: None }
}

/// Returns what a transaction has refused, and why.
pub(crate) fn reason(error: &Error) -> (RefusalKind, ResourceKind) {
    match error {
        Error::Admin(refusal) => (refusal.kind, refusal.resource),
        other => unreachable!("{other}"),
    }
}

impl Fixture {
    /// Creates the project `shop`.
    pub(crate) async fn create_shop(&self) {
        self.cases.create_project(&operator(), (shop(), [].into()), None, |_| String::new()).await.unwrap();
    }

    /// Returns a caller with a new key.
    pub(crate) async fn key(&self, scope: Scope) -> Caller {
        let new = NewKey { scopes: vec![scope], ..new_key() };
        let created = self.cases.create_key(&operator(), new, None, |_| String::new()).await.unwrap();
        let journeyman_app::Answered::New(created) = created else { unreachable!("there is no idempotency key") };
        Caller { actor: Actor::Key(Arc::new(created.key)), address: None, origin: Origin::Api, traceparent: None }
    }

    /// Returns a caller with a new key for the project `shop`.
    pub(crate) async fn limited_key(&self) -> Caller {
        let new = NewKey { projects: Some(vec![shop().id]), ..new_key() };
        let created = self.cases.create_key(&operator(), new, None, |_| String::new()).await.unwrap();
        let journeyman_app::Answered::New(created) = created else { unreachable!("there is no idempotency key") };
        Caller { actor: Actor::Key(Arc::new(created.key)), address: None, origin: Origin::Api, traceparent: None }
    }

    /// Carries out the events of the inbox that are due.
    pub(crate) async fn carry_out(&self) {
        while self.cases.carry_out_due_events().await.unwrap() > 0 {}
    }

    /// Returns the actions in the audit log, oldest first.
    pub(crate) async fn audited(&self) -> Vec<String> {
        let mut lines = self.store.audit(None, 1000).await.unwrap();
        lines.reverse();
        lines
            .into_iter()
            .map(|line| format!("{} {} {}", line.entry.actor, line.entry.action, line.entry.subject))
            .collect()
    }
}
