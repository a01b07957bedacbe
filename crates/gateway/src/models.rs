//! The proxy through which agents in sandboxes call models. It adds the key, allows only the provider's paths for
//! models, counts usage, and enforces budgets.
//!
//! Invariants:
//!
//! - A key is only in the request to its provider.
//! - Nothing is called unless a run's account is open and the caller has sent the token.
//! - Money is set aside before a call is made, and what the call has cost replaces it when it is known. What is not
//!   reported is estimated by what arrived, and said to be an estimate.

mod account;
mod call;
mod cost;
mod estimate;
mod failure;
mod fields;
mod key;
mod path;
mod prices;
mod provider;
mod proxy;
mod refusal;
mod request;
mod totals;
mod usage;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::model::price::{ModelPrices, Price};
use journeyman_core::model::{ProviderInfo, TEST, matches, split};
use journeyman_core::ports::{ModelProxy, ModelRoute, ModelTotals, SpendingStore};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Clock;
use journeyman_net::Client;
use tokio::sync::{Notify, Semaphore};

pub use fields::FieldGroup;
pub use prices::{Listed, PriceTable, PriceTableError};
pub use provider::Provider;
use totals::Totals;

/// The time limit for connecting to a provider.
const CONNECT_TIME: Duration = Duration::from_secs(30);

/// The maximum number of large bodies that are parsed at a time, in the whole process.
const READING: usize = 2;

/// The operator's settings for models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// The providers, by the prefix of their models' names.
    pub providers: BTreeMap<String, Provider>,
    /// The prices of models, by full name (`anthropic/claude-x`) or by a prefix and `*`. They take precedence over the
    /// table.
    pub prices: Vec<(String, Price)>,
    /// The table of prices and context windows.
    pub table: PriceTable,
    /// The time that a provider may send nothing; `None` means ten minutes. Local models may take minutes to load.
    pub silence: Option<Duration>,
}

impl ModelSettings {
    /// Returns what clients may know about the providers, by prefix.
    #[must_use]
    pub fn infos(&self) -> Vec<ProviderInfo> {
        let info = |(prefix, provider): (&String, &Provider)| {
            let own = self.prices.iter().filter(|(model, _)| model.split_once('/').is_some_and(|(of, _)| of == prefix));
            let listed = self.table.of(prefix).map(|(model, listed)| (model, listed.prices.standard.base));
            // The operator's own prices take precedence.
            let own: Vec<(String, Price)> = own.cloned().collect();
            let listed = listed.filter(|(model, _)| !own.iter().any(|(pattern, _)| matches(pattern, model)));
            let prices = own.iter().cloned().chain(listed).collect();
            ProviderInfo {
                prefix: prefix.clone(),
                dialect: provider.dialect,
                is_ready: provider.key(&BTreeMap::new()).is_ok(),
                key_variable: provider.key_variable.clone(),
                context_tokens: provider.context_tokens,
                prices,
                prices_date: self.table.date.clone(),
            }
        };
        self.providers.iter().map(info).collect()
    }
}

/// The models that can be called.
pub struct Models {
    settings: ModelSettings,
    client: Client,
    spending: Arc<dyn SpendingStore>,
    clock: Arc<dyn Clock>,
    totals: Totals,
    /// Notified when a call has ended, so that its money is not set aside any more.
    settled: Notify,
    /// Limits the large bodies that are parsed at a time: each takes many times its size in memory.
    reading: Semaphore,
}

impl Models {
    /// Creates the models of these settings.
    #[must_use]
    pub fn new(settings: ModelSettings, spending: Arc<dyn SpendingStore>, clock: Arc<dyn Clock>) -> Self {
        // Each call needs a separate connection: on a shared one, a call that its caller does not read would block the
        // others.
        let client = Client::new(journeyman_net::Settings {
            connect_time: CONNECT_TIME,
            http1_only: true,
            ..journeyman_net::Settings::default()
        });
        Self {
            settings,
            client,
            spending,
            clock,
            totals: Totals::default(),
            settled: Notify::new(),
            reading: Semaphore::new(READING),
        }
    }

    /// Returns the totals of all calls since the start.
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
        let (prefix, name, provider) = self.provider(model)?;
        provider.key(keys).map_err(|variable| no_key(model, &variable))?;
        Ok(Some(ModelRoute {
            dialect: provider.dialect,
            name: name.to_owned(),
            context_tokens: provider.context_tokens.or_else(|| self.settings.table.find(prefix, name)?.window),
        }))
    }

    pub(crate) fn serve(self: &Arc<Self>, listener: OwnedFd, token: String) -> io::Result<Arc<dyn ModelProxy>> {
        Ok(Arc::new(proxy::ServedProxy::new(Arc::clone(self), listener, token)?))
    }

    fn provider<'a>(&self, model: &'a str) -> Result<(&'a str, &'a str, &Provider), Reason> {
        let found = split(model).and_then(|(prefix, name)| Some((prefix, name, self.settings.providers.get(prefix)?)));
        found.ok_or_else(|| {
            let known: Vec<&str> = self.settings.providers.keys().map(String::as_str).collect();
            let text = format!(
                "the model {model:?} has no provider on this server; model names have the form provider/name, \
                 and the provider must be one of {}; the operator can add a provider as [models.<name>] in the \
                 configuration",
                known.join(", ")
            );
            Reason::new(ReasonCode::ModelNotConfigured, text)
        })
    }

    /// Returns the prices of a model: those of the configuration, or else those of the table.
    fn prices(&self, prefix: &str, name: &str) -> Option<ModelPrices> {
        let model = format!("{prefix}/{name}");
        let fitting = self.settings.prices.iter().filter(|(pattern, _)| matches(pattern, &model));
        // The full name takes precedence, then the longest prefix.
        let own = fitting.max_by_key(|(pattern, _)| (!pattern.ends_with('*'), pattern.len()));
        own.map(|(_, price)| (*price).into()).or_else(|| Some(self.settings.table.find(prefix, name)?.prices.clone()))
    }

    fn silence(&self) -> Duration {
        self.settings.silence.unwrap_or(Duration::from_secs(600))
    }
}

fn no_key(model: &str, variable: &str) -> Reason {
    let text = format!(
        "there is no key for the model {model:?}; set the variable {variable} of the service, or add a secret of that \
         name with the use \"model\" to the project"
    );
    Reason::new(ReasonCode::ModelNotConfigured, text)
}
