//! The account of a run: counts what its calls use, and enforces its budgets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use journeyman_core::model::budget::{Refusal, Scope, Used as Sum, check};
use journeyman_core::model::matches;
use journeyman_core::model::price::{Tokens, day};
use journeyman_core::ports::{
    ModelAccount, ModelCall, ModelFailure, ModelUse, NewReservation, Reservation, ReserveError, Sums,
};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Span;

use super::Models;
use super::provider::Provider;

/// The maximum cost that is counted, in millionths of a US dollar: a billion dollars. Keeps sums far from an overflow.
const MAX_MICROS: u64 = 1_000_000_000_000_000;

/// The time that canceled calls may take to be counted.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// The time that an agent has to end its turn by itself after the provider has refused the key.
const REFUSED_TIME: Duration = Duration::from_secs(3);

/// The time after which a reservation ends if the service that holds it has stopped.
const RESERVED_TIME: Duration = Duration::from_secs(60);

/// The interval at which reservations are renewed.
pub(crate) const RENEWAL: Duration = Duration::from_secs(20);

/// The interval at which a call that waits for a budget looks whether calls on other machines have ended.
const LOOK: Duration = Duration::from_secs(1);

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
    /// The money that the run has spent and set aside.
    sum: Sum,
    /// The input tokens that the provider reported for the last complete call of a model, and their estimate.
    measured: BTreeMap<String, (u64, u64)>,
    failure: Option<ModelFailure>,
    /// `true` if a call with tools was made. Such calls advance the turn; others, such as for a title or a summary, say
    /// nothing about its outcome.
    has_main: bool,
}

/// A call that needs money.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// The most that it can cost, if its model has a price.
    pub(crate) most: Option<u64>,
    /// An estimate of its cost, if its model has a price.
    pub(crate) estimate: Option<u64>,
}

/// Money that is set aside for a call.
#[derive(Debug)]
pub(crate) struct Reserved {
    /// The amount that is set aside in the budget of the run.
    micros: u64,
    /// The sums that the cost will be added to.
    sums: Sums,
    /// The reservation in the store; `None` without a budget.
    stored: Option<Reservation>,
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
        self.name == model || self.provider.also.iter().any(|pattern| matches(pattern, model))
    }

    /// Returns the full name of a model, with its provider.
    pub(crate) fn whole_name(&self, model: &str) -> String {
        format!("{}/{model}", self.prefix)
    }

    /// Sets aside the most that a call can cost. If calls in progress have set aside what is left of a budget, waits until
    /// they have ended: they may cost less. Returns `None` if `gone` ends before.
    ///
    /// # Errors
    /// A budget is spent, the cost is unknown although there is a budget, or the budget could not be read.
    pub(crate) async fn reserve(
        &self,
        models: &Models,
        model: &str,
        asked: Asked,
        gone: impl Future<Output = ()>,
    ) -> Result<Option<Reserved>, ModelFailure> {
        let mut gone = std::pin::pin!(gone);
        loop {
            // Before the attempt, so that no end of a call is missed.
            let mut ended = std::pin::pin!(models.settled.notified());
            ended.as_mut().enable();
            match self.try_reserve(models, model, asked).await {
                Ok(reserved) => return Ok(Some(reserved)),
                Err(NotReserved::Failed(failure)) => return Err(failure),
                Err(NotReserved::NotYet) => {}
            }
            tokio::select! {
                () = &mut gone => return Ok(None),
                () = self.closed.cancelled() => return Ok(None),
                () = ended => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn try_reserve(&self, models: &Models, model: &str, asked: Asked) -> Result<Reserved, NotReserved> {
        let (budgets, now) = (self.given.budgets, models.clock.now());
        let sums = Sums { project: self.given.project.clone(), job: self.given.job, day: day(now) };
        if budgets.are_open() {
            return Ok(Reserved { micros: 0, sums, stored: None });
        }
        let (Some(micros), Some(estimate)) = (asked.most, asked.estimate) else {
            let name = self.whole_name(model);
            return Err(NotReserved::Failed(over_budget(format!(
                "the model {name} has no price, so its budget cannot be enforced; the operator can set a price as \
                 [prices.\"{name}\"] in the configuration, or in the table of prices-file"
            ))));
        };
        let micros = micros.min(MAX_MICROS);
        {
            let mut used = self.used();
            check(Scope::Run, budgets.run, used.sum, micros)?;
            used.sum.set_aside = used.sum.set_aside.saturating_add(micros);
        }
        let new = NewReservation {
            sums: sums.clone(),
            micros,
            estimate: estimate.min(micros),
            budgets,
            now,
            expires_at: now + RESERVED_TIME,
        };
        match models.spending.reserve(new).await {
            Ok(stored) => Ok(Reserved { micros, sums, stored: Some(stored) }),
            Err(error) => {
                self.end_reservation(micros, 0);
                Err(match error {
                    ReserveError::Refused(refusal) => refusal.into(),
                    ReserveError::Store(error) => NotReserved::Failed(ModelFailure {
                        reason: Reason::new(ReasonCode::Internal, format!("the budget could not be read: {error}")),
                        may_pass: true,
                    }),
                })
            }
        }
    }

    /// Ends a reservation in the budget of the run, and adds a cost.
    fn end_reservation(&self, micros: u64, cost: u64) {
        let mut used = self.used();
        used.sum.set_aside = used.sum.set_aside.saturating_sub(micros);
        used.sum.spent = used.sum.spent.saturating_add(cost);
    }

    /// Renews a reservation, so that it does not end while the call is in progress.
    pub(crate) async fn renew(&self, models: &Models, reserved: &Reserved) {
        let Some(stored) = &reserved.stored else { return };
        if let Err(error) = models.spending.renew(stored, models.clock.now() + RESERVED_TIME).await {
            // It is tried again. If the reservation ends, its estimate counts until the cost is known.
            tracing::warn!(job = %self.given.job, %error, "the money for a model call could not be kept aside");
        }
    }

    /// Replaces the money that was set aside for a call with what the call has cost.
    pub(crate) async fn settle(&self, models: &Models, reserved: Reserved, cost: Option<u64>) {
        let cost = cost.unwrap_or(0).min(MAX_MICROS);
        self.end_reservation(reserved.micros, cost);
        if cost > 0 || reserved.stored.is_some() {
            let settled = models.spending.settle(&reserved.sums, reserved.stored.as_ref(), cost).await;
            if let Err(error) = settled {
                // The reservation ends by itself, and its estimate is counted.
                tracing::warn!(job = %self.given.job, %error, "the cost of a model call was not stored");
            }
        }
        models.settled.notify_waiters();
    }

    /// Returns an estimate of the input tokens of a call, corrected by what the provider reported for the last call of the
    /// model.
    pub(crate) fn corrected(&self, model: &str, estimate: u64) -> u64 {
        match self.used().measured.get(model) {
            Some((reported, estimated)) if *estimated > 0 => {
                let corrected = u128::from(estimate) * u128::from(*reported) / u128::from(*estimated);
                u64::try_from(corrected).unwrap_or(u64::MAX)
            }
            _ => estimate,
        }
    }

    /// Records the input tokens that the provider reported for a call, and their estimate.
    pub(crate) fn measure(&self, model: &str, reported: u64, estimate: u64) {
        self.used().measured.insert(model.to_owned(), (reported, estimate));
    }

    /// Counts a call that was sent to the provider.
    pub(crate) fn count(
        &self,
        tokens: &Tokens,
        cost: Option<u64>,
        failure: Option<&ModelFailure>,
        Counting { is_estimated, is_whole, has_tools }: Counting,
    ) {
        let mut used = self.used();
        if failure.is_none() || *tokens != Tokens::default() {
            used.usage = Some(used.usage.unwrap_or_default().plus(&Usage::of_call(tokens, cost, is_estimated)));
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

/// How a call is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counting {
    /// `true` if the tokens are an estimate.
    pub(crate) is_estimated: bool,
    /// `true` if the provider's answer is complete.
    pub(crate) is_whole: bool,
    /// `true` if the model could call tools.
    pub(crate) has_tools: bool,
}

/// The reason why no money was set aside.
enum NotReserved {
    /// Calls in progress have set aside what is left.
    NotYet,
    /// The call cannot be made.
    Failed(ModelFailure),
}

impl From<Refusal> for NotReserved {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::SetAside(_) => Self::NotYet,
            Refusal::OverBudget(over) => Self::Failed(over_budget(over.to_string())),
        }
    }
}

fn over_budget(text: String) -> ModelFailure {
    ModelFailure { reason: Reason::new(ReasonCode::OverBudget, text), may_pass: false }
}
