//! Calls of models out of a sandbox: a proxy that puts the key in, lets nothing through but the provider's paths for
//! models, counts what is used and keeps it in its budgets.
//!
//! Invariants: a key is only in the request to its provider; nothing is called unless a run's account is open and the
//! token was shown; money is set aside before a call is made, and corrected when its cost is known.

mod account;
mod call;
mod door;
mod failure;
mod key;
mod path;
mod provider;
mod refusal;
mod request;
mod totals;
mod usage;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::model::price::Price;
use journeyman_core::model::{TEST, matches, split};
use journeyman_core::ports::{ModelDoor, ModelRoute, ModelTotals, SpendingStore};
use journeyman_core::project::SecretValue;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::Clock;
use tokio::sync::Semaphore;

pub use provider::Provider;
use totals::Totals;

/// How long a provider may take to accept a connection.
const CONNECT_TIME: Duration = Duration::from_secs(30);

/// Large bodies that are read at a time, in the whole process.
const READING: usize = 2;

/// What an operator says about models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// Where models are served, by what stands before their names.
    pub providers: BTreeMap<String, Provider>,
    /// What they cost, by whole name (`anthropic/claude-x`) or its beginning and `*`.
    pub prices: Vec<(String, Price)>,
    /// How long a provider may be silent; `None`: ten minutes. Local models may take minutes to load.
    pub silence: Option<Duration>,
}

/// The models that can be called.
pub struct Models {
    settings: ModelSettings,
    client: reqwest::Client,
    /// Why there is no https, if there is none.
    no_tls: Option<String>,
    spending: Arc<dyn SpendingStore>,
    clock: Arc<dyn Clock>,
    totals: Totals,
    /// Large bodies that are read at a time: each takes many times its size.
    reading: Semaphore,
}

/// The HTTP client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client for models could not be made: {0}")]
pub struct NoClient(#[from] reqwest::Error);

impl Models {
    /// With these settings.
    ///
    /// # Errors
    /// The HTTP client could not be made.
    pub fn new(
        settings: ModelSettings,
        spending: Arc<dyn SpendingStore>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NoClient> {
        let client = || {
            reqwest::Client::builder()
                // A provider that sends us elsewhere would be sent the key there.
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(CONNECT_TIME)
                // Calls share no connection: one that its caller does not read would stop the others.
                .http1_only()
        };
        // A machine without certificates can still call models of its own.
        let (client, no_tls) = match client().build() {
            Ok(client) => (client, None),
            Err(error) => (client().tls_certs_only([]).build()?, Some(format!("{error:?}"))),
        };
        Ok(Self {
            settings,
            client,
            no_tls,
            spending,
            clock,
            totals: Totals::default(),
            reading: Semaphore::new(READING),
        })
    }

    /// What was called so far.
    #[must_use]
    pub fn totals(&self) -> ModelTotals {
        self.totals.read()
    }

    pub(crate) fn route(
        &self,
        model: &str,
        keys: &BTreeMap<String, SecretValue>,
    ) -> Result<Option<ModelRoute>, Reason> {
        if split(model).is_some_and(|(prefix, _)| prefix == TEST) {
            return Ok(None);
        }
        let (_, name, provider) = self.provider(model)?;
        provider.key(keys).map_err(|variable| no_key(model, &variable))?;
        Ok(Some(ModelRoute {
            dialect: provider.dialect,
            name: name.to_owned(),
            context_tokens: provider.context_tokens,
        }))
    }

    pub(crate) fn serve(self: &Arc<Self>, listener: OwnedFd, token: String) -> io::Result<Arc<dyn ModelDoor>> {
        Ok(Arc::new(door::ServedDoor::new(Arc::clone(self), listener, token)?))
    }

    fn provider<'a>(&self, model: &'a str) -> Result<(&'a str, &'a str, &Provider), Reason> {
        let found = split(model).and_then(|(prefix, name)| Some((prefix, name, self.settings.providers.get(prefix)?)));
        found.ok_or_else(|| {
            let known: Vec<&str> = self.settings.providers.keys().map(String::as_str).collect();
            let text = format!(
                "the model {model:?} has no provider on this server: a model's name begins with one of {}, then / and its \
                 name there; the operator can add another as [models.<name>] of the configuration",
                known.join(", ")
            );
            Reason::new(ReasonCode::ModelNotConfigured, text)
        })
    }

    fn price(&self, model: &str) -> Option<&Price> {
        let fitting = self.settings.prices.iter().filter(|(pattern, _)| matches(pattern, model));
        // The closest: the longest beginning, and the name itself before all.
        fitting.max_by_key(|(pattern, _)| (!pattern.ends_with('*'), pattern.len())).map(|(_, price)| price)
    }

    fn silence(&self) -> Duration {
        self.settings.silence.unwrap_or(Duration::from_secs(600))
    }
}

fn no_key(model: &str, variable: &str) -> Reason {
    let text = format!(
        "there is no key for the model {model:?}: the operator sets the variable {variable} of the service, or the project \
         has a secret of that name with the use \"model\""
    );
    Reason::new(ReasonCode::ModelNotConfigured, text)
}
