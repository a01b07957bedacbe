//! Fixtures of the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_core::ids::JobId;
use journeyman_core::model::Dialect;
use journeyman_core::model::budget::{Budgets, Used};
use journeyman_core::model::price::{Price, day};
use journeyman_core::ports::{
    Gateway, ModelAccount, ModelCall, ModelMeter, ModelProxy, ModelUse, ProviderTotals, SpendingStore, Sums,
};
use journeyman_core::project::Project;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use journeyman_gateway::{FieldGroup, ModelSettings, Models, PriceTable, Provider, SandboxGateway};
use journeyman_net::{Policy, SystemResolver};
use journeyman_store::SqliteStore;
use journeyman_testkit::{Fault, ModelServer, PATIENCE, Seeds as _, World, until_async};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) const TOKEN: &str = "t0ken-of-the-run";
pub(crate) const KEY: &str = "sk-the-real-key";

/// The time that a provider may send nothing. No test waits for it: see [`skip_silence`].
const SILENCE: Duration = Duration::from_secs(300);

/// Returns the time of the tests.
fn noon() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// A price of three dollars for a million input tokens, fifteen for a million output tokens, and a tenth of the input
/// price for cached ones.
pub(crate) const PRICE: Price = Price {
    input: 3_000_000,
    output: 15_000_000,
    cached: 300_000,
    cache_written: 3_000_000,
    cache_written_long: 3_000_000,
};

/// A proxy to a model server, with what tests need around it.
pub(crate) struct Fixture {
    pub(crate) proxy: Arc<dyn ModelProxy>,
    pub(crate) gateway: SandboxGateway,
    pub(crate) url: String,
    pub(crate) calls: Arc<Mutex<Vec<ModelCall>>>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) client: Client,
    model: String,
}

/// Returns a provider of this dialect at the server.
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
        groups: FieldGroup::usual(),
        fields: BTreeSet::new(),
    }
}

/// Starts a proxy to `server` without an open account. The model is `p/m`; `p/free` has no price.
pub(crate) async fn fixture(dialect: Dialect, server: &str) -> Fixture {
    fixture_with(provider(dialect, server), PriceTable::default()).await
}

/// Starts a proxy with a table of prices, which replaces those of the tests.
pub(crate) async fn fixture_with(provider: Provider, table: PriceTable) -> Fixture {
    let store = Arc::new(SqliteStore::temporary(World::new()).unwrap());
    let project = Project {
        model: "p/m".to_owned(),
        ..Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default())
    };
    store.create_project(project, BTreeMap::new()).await.unwrap();
    let settings = ModelSettings {
        providers: [("p".to_owned(), provider)].into(),
        prices: if table == PriceTable::default() {
            vec![("p/m*".to_owned(), PRICE), ("p/small-*".to_owned(), PRICE)]
        } else {
            Vec::new()
        },
        table,
        silence: Some(SILENCE),
    };
    let models = Models::new(settings, store.clone(), World::at(noon()));
    let gateway = SandboxGateway::new(Arc::new(SystemResolver), Policy::Public(Arc::default()), models);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let proxy = gateway.serve_models(listener.into(), TOKEN.to_owned()).unwrap();
    let client = Client::builder().timeout(PATIENCE).build().unwrap();
    Fixture { proxy, gateway, url, calls: Arc::default(), store, client, model: "p/m".to_owned() }
}

/// Starts a proxy to `server` with an open account.
pub(crate) async fn open(dialect: Dialect, server: &ModelServer) -> Fixture {
    let fixture = fixture(dialect, &server.url).await;
    fixture.open(Budgets::default());
    fixture
}

/// Advances the clock by the time that a provider may send nothing.
pub(crate) async fn skip_silence() {
    tokio::time::pause();
    tokio::time::advance(SILENCE).await;
    tokio::time::resume();
}

/// Reads the part of an answer that arrives before the server of [`Fault::SilenceInStream`] falls silent.
pub(crate) async fn read_beginning(answer: &mut Response) {
    let mut text = String::new();
    while !text.contains("content_block_start") {
        text.push_str(&String::from_utf8_lossy(&answer.chunk().await.unwrap().unwrap()));
    }
}

pub(crate) fn job() -> JobId {
    JobId::from_uuid(Uuid::from_u128(1))
}

impl Fixture {
    pub(crate) fn with_model(mut self, model: &str) -> Self {
        self.model = model.to_owned();
        self
    }

    pub(crate) fn open(&self, budgets: Budgets) {
        self.open_with(budgets, BTreeMap::new());
    }

    pub(crate) fn open_with(&self, budgets: Budgets, keys: BTreeMap<String, SecretValue>) {
        let calls = Arc::clone(&self.calls);
        let account = ModelAccount {
            project: "shop".parse().unwrap(),
            job: job(),
            model: self.model.clone(),
            keys,
            budgets,
            log: Box::new(move |call| calls.lock().unwrap().push(call)),
        };
        self.proxy.open(account).unwrap();
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).bearer_auth(TOKEN).json(body)
    }

    /// Calls the model with at most `most` tokens of output.
    pub(crate) async fn call(&self, most: u64) -> Response {
        let body = json!({"model": "m", "max_tokens": most, "messages": [{"role": "user", "content": "hi"}]});
        self.post("/v1/messages", &body).send().await.unwrap()
    }

    /// Sends a streamed call to a server that fails with `fault`. If the server falls silent, the clock skips the time until
    /// the proxy gives up.
    pub(crate) async fn call_with_fault(&self, server: &ModelServer, fault: Fault, body: &Value) -> Response {
        let silence = async {
            if fault == Fault::Silence {
                until_async("the provider is asked", async || server.asked().pop()).await;
                skip_silence().await;
            }
        };
        let (answer, ()) = tokio::join!(self.post("/v1/messages", body).send(), silence);
        let mut answer = answer.unwrap();
        if fault == Fault::SilenceInStream {
            read_beginning(&mut answer).await;
            skip_silence().await;
        }
        answer
    }

    pub(crate) async fn close(&self) -> ModelUse {
        self.proxy.close().await
    }

    pub(crate) fn calls(&self) -> Vec<ModelCall> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the reasons of all denied calls.
    pub(crate) fn denied(&self) -> Vec<String> {
        let denied = |call| match call {
            ModelCall::Denied { reason } => Some(reason),
            ModelCall::Made { .. } => None,
        };
        self.calls().into_iter().filter_map(denied).collect()
    }

    pub(crate) fn totals(&self) -> ProviderTotals {
        self.gateway.model_totals().remove("p").unwrap_or_default()
    }

    /// Returns the money that the job, the day and the project have spent.
    pub(crate) async fn spent(&self) -> [u64; 3] {
        self.used().await.map(|used| used.spent)
    }

    /// Returns what is spent and set aside for the job, the day and the project.
    pub(crate) async fn used(&self) -> [Used; 3] {
        let sums = Sums { project: "shop".parse().unwrap(), job: job(), day: day(noon()) };
        self.store.used(&sums).await.unwrap()
    }
}
