//! The commits whose checks are watched.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::checks::{Check, CheckWatch, LONGEST_DELAY};
use journeyman_core::ids::{JobId, ProjectId, Sha};
use journeyman_core::ports::{CheckStore, StoreError};
use journeyman_core::time::Timestamp;

use super::MemoryStore;

#[async_trait]
impl CheckStore for MemoryStore {
    async fn claim_watches(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<CheckWatch>, StoreError> {
        let is_due = |at: Timestamp| at <= now || at > now + LONGEST_DELAY;
        let mut tables = self.tables();
        let mut due: Vec<_> = tables.watches.values_mut().filter(|watch| watch.due_at.is_some_and(is_due)).collect();
        due.sort_by_key(|watch| (watch.due_at, watch.job));
        let claimed = due.into_iter().take(limit).map(|watch| {
            watch.due_at = Some(now + lease);
            watch.looks += 1;
            watch.clone()
        });
        Ok(claimed.collect())
    }

    async fn end_look(
        &self,
        watch: &CheckWatch,
        checks: Option<Vec<Check>>,
        next: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let is_it = |known: &&mut CheckWatch| known.sha == watch.sha && known.looks == watch.looks;
        let Some(known) = tables.watches.get_mut(&watch.job).filter(is_it) else { return Ok(false) };
        if let Some(checks) = checks {
            known.checks = checks;
        }
        let was_woken = known.due_at < watch.due_at;
        known.due_at = match (known.due_at.filter(|_| was_woken), next) {
            (Some(woken), Some(next)) => Some(woken.min(next)),
            (woken, next) => woken.or(next),
        };
        Ok(true)
    }

    async fn wake_watches(&self, sha: Sha, at: Timestamp) -> Result<Vec<(JobId, ProjectId)>, StoreError> {
        let mut tables = self.tables();
        let woken = tables.watches.values_mut().filter(|watch| watch.sha == sha).map(|watch| {
            watch.due_at = Some(watch.due_at.map_or(at, |due| due.min(at)));
            (watch.job, watch.project.clone())
        });
        Ok(woken.collect())
    }

    async fn watch_of(&self, job: JobId) -> Result<Option<CheckWatch>, StoreError> {
        Ok(self.tables().watches.get(&job).cloned())
    }
}

/// Returns a new watch.
pub(super) fn watch(job: JobId, project: &ProjectId, sha: &Sha, since: Timestamp, due_at: Timestamp) -> CheckWatch {
    let (project, sha) = (project.clone(), sha.clone());
    CheckWatch { job, project, sha, since, due_at: Some(due_at), looks: 0, checks: Vec::new() }
}
