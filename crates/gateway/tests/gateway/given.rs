//! Things that tests begin with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_core::model::Dialect;
use journeyman_core::model::price::{Budgets, Price, day};
use journeyman_core::ports::{
    Gateway, ModelAccount, ModelCall, ModelDoor, ModelMeter, ModelUse, ProjectStore, ProviderTotals, SpendingStore,
};
use journeyman_core::project::{Project, SecretValue, Settings};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_gateway::{Doors, ModelSettings, Models, Provider, SystemResolver};
use journeyman_store::MemoryStore;
use journeyman_testkit::ModelServer;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) const TOKEN: &str = "t0ken-of-the-run";
pub(crate) const KEY: &str = "sk-the-real-key";

/// Three dollars for a million tokens read, fifteen for a million written, a tenth for what the cache has.
pub(crate) const PRICE: Price =
    Price { input: 3_000_000, output: 15_000_000, cached: 300_000, cache_written: 3_000_000 };

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }
}

/// A door to a server.
pub(crate) struct House {
    pub(crate) door: Arc<dyn ModelDoor>,
    pub(crate) doors: Doors,
    pub(crate) url: String,
    pub(crate) told: Arc<Mutex<Vec<ModelCall>>>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) client: Client,
    model: String,
}

/// A provider of that dialect at the server.
pub(crate) fn provider(dialect: Dialect, server: &str) -> Provider {
    Provider {
        dialect,
        base_url: dialect.base_url(server).unwrap().parse().unwrap(),
        key: Some(SecretValue(KEY.to_owned())),
        key_variable: Some("MODEL_KEY".to_owned()),
        also: vec!["small-*".to_owned()],
        max_output: None,
        context_tokens: None,
        hosted_tools: false,
    }
}

/// A door to `server`, closed, with the model `p/m`; and `p/free`, which has no price.
pub(crate) async fn house(dialect: Dialect, server: &str) -> House {
    house_with(provider(dialect, server)).await
}

pub(crate) async fn house_with(provider: Provider) -> House {
    let store = Arc::new(MemoryStore::default());
    let project = Project {
        id: "shop".parse().unwrap(),
        repository: "local:shop".to_owned(),
        reference: None,
        agent: "journeyman".to_owned(),
        model: "p/m".to_owned(),
        created_at: Timestamp::default(),
        settings: Settings::default(),
        secret_names: Vec::new(),
    };
    store.create_project(project, BTreeMap::new()).await.unwrap();
    let settings = ModelSettings {
        providers: [("p".to_owned(), provider)].into(),
        prices: vec![("p/m*".to_owned(), PRICE), ("p/small-*".to_owned(), PRICE)],
        silence: Some(Duration::from_millis(300)),
    };
    let models = Models::new(settings, store.clone(), Arc::new(Noon)).unwrap();
    let doors = Doors::new(Arc::new(SystemResolver), Vec::new(), models);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let door = doors.serve_models(listener.into(), TOKEN.to_owned()).unwrap();
    let client = Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    House { door, doors, url, told: Arc::default(), store, client, model: "p/m".to_owned() }
}

/// The same, open.
pub(crate) async fn open(dialect: Dialect, server: &ModelServer) -> House {
    let house = house(dialect, &server.url).await;
    house.open(Budgets::default());
    house
}

pub(crate) fn job() -> JobId {
    JobId::from_uuid(Uuid::from_u128(1))
}

impl House {
    pub(crate) fn with_model(mut self, model: &str) -> Self {
        self.model = model.to_owned();
        self
    }

    pub(crate) fn open(&self, budgets: Budgets) {
        self.open_with(budgets, BTreeMap::new());
    }

    pub(crate) fn open_with(&self, budgets: Budgets, keys: BTreeMap<String, SecretValue>) {
        let told = Arc::clone(&self.told);
        let account = ModelAccount {
            project: "shop".parse().unwrap(),
            job: job(),
            model: self.model.clone(),
            keys,
            budgets,
            told: Box::new(move |call| told.lock().unwrap().push(call)),
        };
        self.door.open(account).unwrap();
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).bearer_auth(TOKEN).json(body)
    }

    /// A call of the model with at most `most` tokens of answer.
    pub(crate) async fn call(&self, most: u64) -> Response {
        let body = json!({"model": "m", "max_tokens": most, "messages": [{"role": "user", "content": "hi"}]});
        self.post("/v1/messages", &body).send().await.unwrap()
    }

    pub(crate) async fn close(&self) -> ModelUse {
        self.door.close().await
    }

    pub(crate) fn told(&self) -> Vec<ModelCall> {
        self.told.lock().unwrap().clone()
    }

    /// The reasons of what was denied.
    pub(crate) fn denied(&self) -> Vec<String> {
        let denied = |call| match call {
            ModelCall::Denied { reason } => Some(reason),
            ModelCall::Made { .. } => None,
        };
        self.told().into_iter().filter_map(denied).collect()
    }

    pub(crate) fn totals(&self) -> ProviderTotals {
        self.doors.model_totals().remove("p").unwrap_or_default()
    }

    /// What job, day and project have spent.
    pub(crate) async fn spent(&self) -> [u64; 3] {
        self.store.spent("shop".parse().unwrap(), job(), day(Noon.now())).await.unwrap()
    }
}
