//! The proxies through which programs in a sandbox reach the network.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;

use crate::egress::Allowlist;
use crate::ids::{JobId, ProjectId};
use crate::model::Dialect;
use crate::model::budget::Budgets;
use crate::model::price::Tokens;
use crate::run::{Reason, Usage};
use crate::secret::SecretValue;

/// Opens proxies for sandboxes.
pub trait Gateway: Send + Sync {
    /// Starts a proxy to the destinations in `allowed`, on a socket that listens on the loopback interface of a
    /// sandbox. `log` receives each decision. The proxy and all its connections are closed when the gate is dropped.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be used.
    fn open_egress(&self, listener: OwnedFd, allowed: Allowlist, log: EgressLog) -> io::Result<Gate>;

    /// Returns the route to a model; `None` for a test model, which is not called. `keys` are the keys of the project
    /// for providers, by the names of their variables.
    ///
    /// # Errors
    /// Returns the reason why the model cannot be called, which becomes the reason of the run.
    fn route(&self, model: &str, keys: &BTreeMap<String, SecretValue>) -> Result<Option<ModelRoute>, Reason>;

    /// Starts a proxy for calls of models, on a socket like that of [`Self::open_egress`]. The proxy denies all calls
    /// before [`ModelProxy::open`], and all calls without the token.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be used.
    fn serve_models(&self, listener: OwnedFd, token: String) -> io::Result<Arc<dyn ModelProxy>>;
}

/// Receives the decisions of an egress proxy.
pub type EgressLog = Box<dyn Fn(EgressDecision) + Send + Sync>;

/// An open proxy, which is closed when this is dropped.
pub struct Gate(
    /// The value that closes the proxy when it is dropped.
    pub Box<dyn Send + Sync>,
);

/// A decision of an egress proxy about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressDecision {
    /// The requested destination, as the client wrote it, cut to a maximum length.
    pub destination: String,
    /// `true` if the proxy connected to the destination.
    pub allowed: bool,
    /// The reason why not.
    pub reason: Option<String>,
}

/// The route to a model. It contains no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRoute {
    /// The dialect of the model's server.
    pub dialect: Dialect,
    /// The model's name at its provider.
    pub name: String,
    /// The size of the context window in tokens, if it is known.
    pub context_tokens: Option<u64>,
}

/// A proxy through which a sandbox calls models. The proxy and all calls are closed when it is dropped.
#[async_trait]
pub trait ModelProxy: Send + Sync {
    /// Allows calls from now on, and counts them on this account.
    ///
    /// # Errors
    /// Returns the reason why the model cannot be called, which becomes the reason of the run.
    fn open(&self, account: ModelAccount) -> Result<(), Reason>;

    /// Waits until the provider has refused the key, and the agent has had time to end its turn by itself. Agents that
    /// retry would continue for minutes, although no retry can succeed.
    async fn refused(&self) -> ModelFailure;

    /// Denies further calls, cancels the calls in progress, and returns the usage since [`Self::open`].
    async fn close(&self) -> ModelUse;
}

/// The account on which the calls of a turn are counted.
pub struct ModelAccount {
    /// The project.
    pub project: ProjectId,
    /// The job.
    pub job: JobId,
    /// The full name of the job's model. Other models can be called only if the configuration allows it.
    pub model: String,
    /// The project's keys for providers, by the names of their variables.
    pub keys: BTreeMap<String, SecretValue>,
    /// The budgets of the project.
    pub budgets: Budgets,
    /// The log of the calls.
    pub log: ModelLog,
}

/// Receives calls of models when they have ended.
pub type ModelLog = Box<dyn Fn(ModelCall) + Send + Sync>;

/// A call of a model that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelCall {
    /// The proxy called the provider.
    Made {
        /// The model's name at its provider.
        model: String,
        /// The token counts that the provider reported, or an estimate.
        tokens: Tokens,
        /// The cost in millionths of a US dollar, if the price is known.
        cost_micros: Option<u64>,
        /// `true` if the tokens are an estimate, because the provider did not report them.
        is_estimated: bool,
        /// The time in milliseconds that the call waited until a budget had enough left.
        waited_millis: u64,
        /// The duration in milliseconds.
        millis: u64,
        /// The error, if the call failed.
        failure: Option<String>,
    },
    /// The proxy denied the call, or removed a part of it.
    Denied {
        /// The reason.
        reason: String,
    },
}

/// The usage of an account while it was open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelUse {
    /// The tokens and the cost; `None` if no call was answered.
    pub usage: Option<Usage>,
    /// The failure of the last call, if it failed.
    pub failure: Option<ModelFailure>,
}

/// The totals of calls since the start, by the prefixes of the models' names.
pub type ModelTotals = BTreeMap<String, ProviderTotals>;

/// The totals of the calls to one provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderTotals {
    /// The number of calls by outcome: `ok`, or the code of a failure.
    pub calls: BTreeMap<String, u64>,
    /// The token counts.
    pub tokens: Tokens,
    /// The cost in millionths of a US dollar. Calls without a price are not included.
    pub cost_micros: u64,
}

/// A source of [`ModelTotals`].
pub trait ModelMeter: Send + Sync {
    /// Returns the totals since the start.
    fn model_totals(&self) -> ModelTotals;
}

/// The failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// The reason of a run that ends because of this failure.
    pub reason: Reason,
    /// `true` if another attempt may succeed.
    pub may_pass: bool,
}
