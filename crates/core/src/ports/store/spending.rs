//! The store of money spent on model calls.

use async_trait::async_trait;

use super::StoreError;
use crate::ids::{JobId, ProjectId};
use crate::model::price::{Budgets, OverBudget};

/// Money that calls of models cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    /// Whose.
    pub project: ProjectId,
    /// For what.
    pub job: JobId,
    /// The day of UTC, as [`crate::model::price::day`] counts them.
    pub day: i64,
    /// Millionths of a US dollar; less than nothing gives back what was taken before.
    pub micros: i64,
    /// What may be spent; that of a run is not looked at here.
    pub budgets: Budgets,
}

/// Why nothing was spent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpendError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is not enough.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

/// What projects and jobs have spent.
#[async_trait]
pub trait SpendingStore: Send + Sync {
    /// Adds to what the job, the project and the project's day have spent, all or none: none where one would then have
    /// more than it may, of which the first of job, day and project is told.
    async fn spend(&self, spend: Spend) -> Result<(), SpendError>;

    /// What a job, a project's day and the project have spent.
    async fn spent(&self, project: ProjectId, job: JobId, day: i64) -> Result<[u64; 3], StoreError>;
}
