//! The store of money spent on model calls.

use async_trait::async_trait;

use super::error::StoreError;
use crate::ids::{JobId, ProjectId};
use crate::model::budget::{Budgets, Refusal, Scope, Used};
use crate::time::Timestamp;

/// The sums that the cost of a call is added to: of the job, of the project on a day, and of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    /// The project.
    pub project: ProjectId,
    /// The job.
    pub job: JobId,
    /// The day in UTC, as [`crate::model::price::day`] numbers it.
    pub day: i64,
}

impl Sums {
    /// The scopes of the sums, in the order in which their budgets are checked.
    pub const SCOPES: [Scope; 3] = [Scope::Job, Scope::Day, Scope::Project];
}

/// A request to set money aside for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReservation {
    /// The sums that the cost will be added to.
    pub sums: Sums,
    /// The maximum cost of the call, in millionths of a US dollar.
    pub micros: u64,
    /// The cost to count if the service that makes the call stops before the cost is known.
    pub estimate: u64,
    /// The budgets. The store does not check the budget of a run.
    pub budgets: Budgets,
    /// The current time.
    pub now: Timestamp,
    /// The time at which the reservation ends unless it is renewed.
    pub expires_at: Timestamp,
}

/// Money that is set aside for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The number of the reservation, which the store gives.
    pub number: i64,
    /// The estimate of [`NewReservation`].
    pub estimate: u64,
}

/// The reason why no money was set aside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The call does not fit into a budget, or not yet.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Stores the amounts that jobs and projects have spent on model calls, and those that are set aside for calls in
/// progress.
#[async_trait]
pub trait SpendingStore: Send + Sync {
    /// Sets money aside for a call. Before that, the reservations of the project that have expired are replaced with
    /// their estimates. If the project does not exist any more, the reservation has no effect.
    async fn reserve(&self, new: NewReservation) -> Result<Reservation, ReserveError>;

    /// Moves the time at which a reservation ends. A reservation that has ended stays ended.
    async fn renew(&self, reservation: &Reservation, expires_at: Timestamp) -> Result<(), StoreError>;

    /// Adds the cost of a call to the sums, and ends its reservation, if it has one. If the reservation has expired and
    /// was replaced with its estimate, the cost replaces the estimate. If the project does not exist any more, nothing
    /// is recorded.
    async fn settle(&self, sums: &Sums, reservation: Option<&Reservation>, micros: u64) -> Result<(), StoreError>;

    /// Returns what the job, the project on this day, and the project have used.
    async fn used(&self, sums: &Sums) -> Result<[Used; 3], StoreError>;
}
