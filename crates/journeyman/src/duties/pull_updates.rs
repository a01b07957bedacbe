//! Keeps pull requests up to date with their bases.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_app::UseCases;

use super::{Duty, Scope};

/// Asks the jobs of outdated pull requests to merge their bases. Nothing tells of a push to a base, so the branches are
/// read from time to time: a request of git for each repository, and now and then one of its code host's interface.
pub(super) struct KeepPullsUpToDate(pub(super) UseCases);

#[async_trait]
impl Duty for KeepPullsUpToDate {
    fn name(&self) -> &'static str {
        "keep_pulls_up_to_date"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn scope(&self) -> Scope {
        Scope::Installation(Duration::from_secs(900))
    }

    async fn is_needed(&self) -> anyhow::Result<bool> {
        Ok(self.0.are_updates_wanted().await?)
    }

    async fn carry_out(&self) -> anyhow::Result<()> {
        Ok(self.0.keep_pulls_up_to_date().await?)
    }
}
