//! The account of a run: counts what its calls use, and enforces its budgets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::model::matches;
use journeyman_core::model::price::{Budgets, Price, Scope, Tokens, check, day};
use journeyman_core::ports::{ModelAccount, ModelCall, ModelFailure, ModelUse, Spend, SpendError, SpendingStore};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Span;

use super::provider::Provider;

/// The maximum cost that is counted, in millionths of a US dollar: a billion dollars. Keeps sums far from an overflow.
const MAX_MICROS: u64 = 1_000_000_000_000_000;

/// The time that canceled calls may take to be counted.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// The time that an agent has to end its turn by itself after the provider has refused the key.
const REFUSED_TIME: Duration = Duration::from_secs(3);

fn is_refusal(failure: Option<&ModelFailure>) -> bool {
    failure.is_some_and(|failure| failure.reason.code == ReasonCode::ModelUnauthorized)
}

/// An open account.
pub(crate) struct Account {
    pub(crate) given: ModelAccount,
    pub(crate) provider: Provider,
    /// The prefix of the model's name, which names the provider.
    pub(crate) prefix: String,
    /// The model's name at its provider.
    pub(crate) name: String,
    /// Canceled when the account is closed.
    pub(crate) closed: CancellationToken,
    pub(crate) calls: TaskTracker,
    /// The span of the turn, which the calls belong to.
    pub(crate) turn: Span,
    /// Notified when the provider refuses the key.
    refused: Notify,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    usage: Option<Usage>,
    /// The money that the run has spent, in millionths of a US dollar, including what is set aside.
    spent: u64,
    failure: Option<ModelFailure>,
    /// `true` if a call with tools was made. Such calls advance the turn; others, such as for a title or a summary, say
    /// nothing about its outcome.
    has_main: bool,
}

/// Money that is set aside for a call.
#[derive(Debug)]
pub(crate) struct Reserved {
    micros: u64,
    /// The day whose budget the money comes from.
    day: i64,
    /// The most that the call can cost, if its model has a price.
    most: Option<u64>,
}

impl Account {
    pub(crate) fn new(given: ModelAccount, provider: Provider, prefix: &str, name: &str) -> Self {
        let (prefix, name) = (prefix.to_owned(), name.to_owned());
        let (closed, calls, used) = (CancellationToken::new(), TaskTracker::new(), Mutex::default());
        Self { given, provider, prefix, name, closed, calls, turn: Span::current(), refused: Notify::new(), used }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the run may call a model.
    pub(crate) fn may_call(&self, model: &str) -> bool {
        let plain = without_effort(&self.name);
        [&*self.name, plain].contains(&model) || self.provider.also.iter().any(|pattern| matches(pattern, model))
    }

    /// Returns the full name of a model, with its provider.
    pub(crate) fn whole_name(&self, model: &str) -> String {
        format!("{}/{model}", self.prefix)
    }

    /// Sets aside the most that a call can cost.
    ///
    /// # Errors
    /// A budget has less left, the cost is unknown although there is a budget, or the budget could not be read.
    pub(crate) async fn reserve(
        &self,
        spending: &dyn SpendingStore,
        now: Timestamp,
        model: &str,
        price: Option<&Price>,
        (input, output): (u64, u64),
    ) -> Result<Reserved, ModelFailure> {
        let budgets = self.given.budgets;
        let most = price.map(|price| price.at_most(input, output).min(MAX_MICROS));
        let day = day(now);
        if budgets.are_open() {
            return Ok(Reserved { micros: 0, day, most });
        }
        let Some(micros) = most else {
            let name = self.whole_name(model);
            return Err(over_budget(format!(
                "the model {name} has no price, so its budget cannot be enforced; the operator can set a price as \
                 [prices.\"{name}\"] in the configuration"
            )));
        };
        {
            let mut used = self.used();
            check(Scope::Run, budgets.run, used.spent, micros).map_err(|error| over_budget(error.to_string()))?;
            used.spent = used.spent.saturating_add(micros);
        }
        match spending.spend(self.spend(micros.cast_signed(), day, budgets)).await {
            Ok(()) => Ok(Reserved { micros, day, most }),
            Err(error) => {
                let mut used = self.used();
                used.spent = used.spent.saturating_sub(micros);
                drop(used);
                Err(match error {
                    SpendError::OverBudget(error) => over_budget(error.to_string()),
                    SpendError::Store(error) => ModelFailure {
                        reason: Reason::new(ReasonCode::Internal, format!("the budget could not be read: {error}")),
                        may_pass: true,
                    },
                })
            }
        }
    }

    /// Replaces the money that was set aside for a call with what the call has cost.
    pub(crate) async fn settle(&self, spending: &dyn SpendingStore, reserved: Reserved, cost: Option<u64>) {
        let cost = cost.unwrap_or(0).min(MAX_MICROS);
        {
            let mut used = self.used();
            used.spent = used.spent.saturating_add(cost).saturating_sub(reserved.micros);
        }
        let change = cost.cast_signed() - reserved.micros.cast_signed();
        if change != 0 {
            let spend = self.spend(change, reserved.day, Budgets::default());
            if let Err(error) = spending.spend(spend).await {
                // The money stays set aside: too much is better than too little.
                tracing::warn!(job = %self.given.job, %error, "the cost of a model call was not stored");
            }
        }
    }

    fn spend(&self, micros: i64, day: i64, budgets: Budgets) -> Spend {
        Spend { project: self.given.project.clone(), job: self.given.job, day, micros, budgets }
    }

    /// Counts a call that was sent to the provider. `is_whole` is true if the provider's answer is complete.
    pub(crate) fn count(
        &self,
        tokens: &Tokens,
        cost: Option<u64>,
        failure: Option<&ModelFailure>,
        (is_whole, has_tools): (bool, bool),
    ) {
        let mut used = self.used();
        if failure.is_none() || *tokens != Tokens::default() {
            used.usage = Some(used.usage.unwrap_or_default().plus(&Usage::of_call(tokens, cost)));
        }
        let counts = has_tools || !used.has_main;
        used.has_main |= has_tools;
        // A call that its caller has canceled says nothing about the provider.
        if counts && (failure.is_some() || is_whole) {
            used.failure = failure.cloned();
            if is_refusal(failure) {
                self.refused.notify_one();
            }
        }
    }

    /// Waits until the provider has refused the key, and has not accepted it within [`REFUSED_TIME`] afterwards.
    pub(crate) async fn refused(&self) -> ModelFailure {
        loop {
            self.refused.notified().await;
            tokio::time::sleep(REFUSED_TIME).await;
            if let Some(failure) = self.used().failure.clone().filter(|failure| is_refusal(Some(failure))) {
                return failure;
            }
        }
    }

    /// Records the failure of a call that was not sent. The run ends with it.
    pub(crate) fn fail(&self, failure: ModelFailure) {
        self.used().failure = Some(failure);
    }

    pub(crate) fn log(&self, call: ModelCall) {
        (self.given.log)(call);
    }

    /// Cancels all calls, waits for them, and returns what was used.
    pub(crate) async fn close(self: Arc<Self>) -> ModelUse {
        self.closed.cancel();
        self.calls.close();
        if timeout(CLOSE_TIME, self.calls.wait()).await.is_err() {
            tracing::warn!(job = %self.given.job, "a canceled model call did not end in time");
        }
        let mut used = self.used();
        ModelUse { usage: used.usage.take(), failure: used.failure.take() }
    }
}

impl Reserved {
    /// Returns the most that the call can cost, if its model has a price.
    pub(crate) const fn most(&self) -> Option<u64> {
        self.most
    }
}

/// Removes a reasoning effort from the end of a name. Agents send it separately.
fn without_effort(name: &str) -> &str {
    const EFFORTS: [&str; 8] = ["none", "zero", "minimal", "low", "medium", "high", "xhigh", "max"];
    name.rsplit_once('-').filter(|(_, effort)| EFFORTS.contains(effort)).map_or(name, |(plain, _)| plain)
}

fn over_budget(text: String) -> ModelFailure {
    ModelFailure { reason: Reason::new(ReasonCode::OverBudget, text), may_pass: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reasoning_effort_is_removed_from_a_name() {
        for (name, plain) in [("gpt-5-high", "gpt-5"), ("gpt-5", "gpt-5"), ("high", "high"), ("o4-mini", "o4-mini")] {
            assert_eq!(without_effort(name), plain);
        }
    }
}
