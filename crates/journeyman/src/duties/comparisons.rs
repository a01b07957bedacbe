//! Compares pull requests with their bases, and keeps them up to date where the project wants it.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::UseCases;

use super::duty::{Duty, Scope};

/// Compares the pull requests of the projects that are due. Webhooks, pushes and merges make a project due at once; each
/// comparison sets the time of the next. Processes share the work, because each claims different projects.
pub(super) struct ComparePulls(pub(super) UseCases);

#[async_trait]
impl Duty for ComparePulls {
    fn name(&self) -> &'static str {
        "compare_pulls"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        Ok(self.0.carry_out_due_comparisons().await?)
    }
}

/// Adds projects to the schedule whose pull requests an older version has stored.
pub(super) struct PlanComparisons(pub(super) UseCases);

#[async_trait]
impl Duty for PlanComparisons {
    fn name(&self) -> &'static str {
        "plan_comparisons"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        Ok(self.0.plan_comparisons().await?)
    }
}
