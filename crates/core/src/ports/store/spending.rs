//! The store of money spent on model calls.

use async_trait::async_trait;

use super::StoreError;
use crate::ids::{JobId, ProjectId};
use crate::model::price::{Budgets, OverBudget};

/// An amount that a model call costs or may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    /// The project.
    pub project: ProjectId,
    /// The job.
    pub job: JobId,
    /// The day in UTC, as [`crate::model::price::day`] numbers it.
    pub day: i64,
    /// The amount in millionths of a US dollar. A negative amount returns what was added before.
    pub micros: i64,
    /// The budgets. The store does not check the budget of a run.
    pub budgets: Budgets,
}

/// The reason why an amount was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpendError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The amount exceeds a budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

/// Stores the amounts that jobs and projects have spent on model calls.
#[async_trait]
pub trait SpendingStore: Send + Sync {
    /// Adds an amount to three totals: of the job, of the project on this day, and of the project. If a total would
    /// exceed its budget, nothing is added, and the error names the first such budget, in this order. If the project
    /// does not exist any more, nothing is recorded.
    async fn spend(&self, spend: Spend) -> Result<(), SpendError>;

    /// Returns the totals of a job, of the project on this day, and of the project.
    async fn spent(&self, project: ProjectId, job: JobId, day: i64) -> Result<[u64; 3], StoreError>;
}
