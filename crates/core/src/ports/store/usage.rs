//! The store of the sums of usage.

use async_trait::async_trait;

use super::error::StoreError;
use crate::usage::{UsageLine, UsageQuery};

/// Reads the sums of the usage of models. [`super::JobStore`] adds up each run when it ends.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Returns the lines of a report, sorted by day, project, model, author and key, at most as many as the query allows.
    async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageLine>, StoreError>;
}
