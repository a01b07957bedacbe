//! The ways out of a sandbox.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;

use crate::egress::Allowlist;
use crate::ids::{JobId, ProjectId};
use crate::model::Dialect;
use crate::model::price::{Budgets, Tokens};
use crate::project::SecretValue;
use crate::run::{Reason, Usage};

/// Opens ways out of sandboxes.
pub trait Gateway: Send + Sync {
    /// A proxy for the destinations of `allowed`, on a socket that listens on the loopback of a sandbox; `told` hears of
    /// each decision. It is closed, with all its connections, when the gate is dropped.
    ///
    /// # Errors
    /// The socket cannot be used.
    fn open_egress(&self, listener: OwnedFd, allowed: Allowlist, told: EgressLog) -> io::Result<Gate>;

    /// How a model is reached, with the keys that a project has for providers, by the names of their variables; `None`
    /// for the test model, which is not called.
    ///
    /// # Errors
    /// It cannot be, in words for whoever reads the run's reason.
    fn route(&self, model: &str, keys: &BTreeMap<String, SecretValue>) -> Result<Option<ModelRoute>, Reason>;

    /// A proxy for calls of models, on a socket like that of the proxy for egress. Nothing is let through before
    /// [`ModelDoor::open`], and nothing by those who do not show the token.
    ///
    /// # Errors
    /// The socket cannot be used.
    fn serve_models(&self, listener: OwnedFd, token: String) -> io::Result<Arc<dyn ModelDoor>>;
}

/// Hears of decisions.
pub type EgressLog = Box<dyn Fn(EgressDecision) + Send + Sync>;

/// Closes what it stands for when it is dropped.
pub struct Gate(
    /// What is dropped.
    pub Box<dyn Send + Sync>,
);

/// What a proxy has done about a wish to reach something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressDecision {
    /// What was asked for, as it was written, cut to a length.
    pub destination: String,
    /// Whether it was reached.
    pub allowed: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// How a model is reached. It holds no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRoute {
    /// What its server speaks.
    pub dialect: Dialect,
    /// Its name there.
    pub name: String,
    /// The size of its context window in tokens, if it is known.
    pub context_tokens: Option<u64>,
}

/// A door of one sandbox to the models. It is closed, with all calls, when it is dropped.
#[async_trait]
pub trait ModelDoor: Send + Sync {
    /// From now on calls are made, and counted on this account.
    ///
    /// # Errors
    /// The model cannot be called, in words for whoever reads the run's reason.
    fn open(&self, account: ModelAccount) -> Result<(), Reason>;

    /// Waits until the provider has refused the key and the agent has had a moment to end its turn by itself. Agents that
    /// retry would go on for minutes, and no retry can succeed.
    async fn refused(&self) -> ModelFailure;

    /// No more calls: those under way are cut. What was used since it was opened.
    async fn close(&self) -> ModelUse;
}

/// On whose account calls are made.
pub struct ModelAccount {
    /// The project.
    pub project: ProjectId,
    /// The job.
    pub job: JobId,
    /// The job's model, as people name it; others are called only as the configuration says.
    pub model: String,
    /// The keys that the project has for providers, by the names of their variables.
    pub keys: BTreeMap<String, SecretValue>,
    /// What may be spent.
    pub budgets: Budgets,
    /// Hears of each call that is over.
    pub told: ModelLog,
}

/// Hears of calls.
pub type ModelLog = Box<dyn Fn(ModelCall) + Send + Sync>;

/// A call of a model that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelCall {
    /// The provider was asked.
    Made {
        /// The model, as its provider calls it.
        model: String,
        /// What the provider told of its tokens.
        tokens: Tokens,
        /// What it cost, in millionths of a US dollar, where the price is known.
        cost_micros: Option<u64>,
        /// How long it took, in milliseconds.
        millis: u64,
        /// How it failed, if it did.
        failure: Option<String>,
    },
    /// The provider was not asked.
    Denied {
        /// Why.
        reason: String,
    },
}

/// What was used while a door was open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelUse {
    /// Tokens and money; `None` where no call was answered.
    pub usage: Option<Usage>,
    /// What the last call came to grief by, if it did.
    pub failure: Option<ModelFailure>,
}

/// What was called since the start, by what stands before the names of models.
pub type ModelTotals = BTreeMap<String, ProviderTotals>;

/// What was called at one provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderTotals {
    /// How often, by outcome: `ok`, or the code of a failure.
    pub calls: BTreeMap<String, u64>,
    /// Tokens.
    pub tokens: Tokens,
    /// Money, in millionths of a US dollar; calls without a price are not in it.
    pub cost_micros: u64,
}

/// Who counts calls.
pub trait ModelMeter: Send + Sync {
    /// What was called since the start.
    fn model_totals(&self) -> ModelTotals;
}

/// How a call came to grief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// As which a run is told that ends by it.
    pub reason: Reason,
    /// Whether another attempt may go better.
    pub may_pass: bool,
}
