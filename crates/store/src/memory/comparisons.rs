//! The comparisons of pull requests with their bases.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{HostName, PullRef, PullState};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ComparisonStore, StoreError};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::pull::compared::{
    ComparedPull, DueComparison, EndedComparison, LONGEST_COMPARISON_DELAY, MovedBranch,
};
use journeyman_core::time::Timestamp;

use super::{MemoryStore, Tables};

/// A row of the schedule.
#[derive(Debug, Clone, Default)]
pub(super) struct ScheduleRow {
    /// The time from which it is due; the default is at once.
    due_at: Timestamp,
    /// The end of the lease, or of the pause after a comparison.
    held_until: Timestamp,
    claims: u64,
}

#[async_trait]
impl ComparisonStore for MemoryStore {
    async fn plan_comparisons(&self) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let indexed = tables.job_pulls.iter().filter(|pull| pull.state == PullState::Open);
        let mut found: BTreeSet<ProjectId> = indexed.map(|pull| pull.project.clone()).collect();
        found.extend(tables.projects.values().filter(|one| tables.has_open_local(one)).map(|one| one.id.clone()));
        found.retain(|project| tables.projects.contains_key(project));
        for project in found {
            tables.comparison_schedule.entry(project).or_default();
        }
        Ok(())
    }

    async fn wake_comparisons(&self, moved: MovedBranch) -> Result<Vec<ProjectId>, StoreError> {
        let mut tables = self.tables();
        let is_local = moved.repository.host == HostName::local();
        let concerns = |pull: PullRef, head: &str| {
            let known = tables.comparisons.iter().find(|(_, known)| known.pull == pull);
            let base = known.and_then(|(_, known)| known.result.as_ref().ok()).map(|found| found.base.as_str());
            moved.branch.as_deref().is_none_or(|branch| branch == head || base.is_none_or(|base| base == branch))
        };
        let open = tables.job_pulls.iter().filter(|pull| {
            let reference = PullRef { repository: pull.repository.clone(), number: pull.number };
            let is_there = pull.state == PullState::Open && pull.repository == moved.repository;
            is_there && (is_local || concerns(reference, &pull.head))
        });
        let mut found: BTreeSet<ProjectId> = open.map(|pull| pull.project.clone()).collect();
        let address = format!("local:{}", moved.repository.id);
        let hosted = tables.projects.values().filter(|one| is_local && one.repository == address);
        found.extend(hosted.filter(|one| tables.has_open_local(one)).map(|one| one.id.clone()));
        found.retain(|project| moved.project.as_ref().is_none_or(|only| only == project));
        for project in &found {
            tables.wake_comparison(project);
        }
        Ok(found.into_iter().collect())
    }

    async fn refresh_comparison(&self, project: ProjectId, before: Timestamp) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let is_old = |row: &&mut ScheduleRow| row.held_until < before;
        if let Some(row) = tables.comparison_schedule.get_mut(&project).filter(is_old) {
            row.due_at = Timestamp::default();
        }
        Ok(())
    }

    async fn claim_comparisons(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<DueComparison>, StoreError> {
        let is_past = |at: Timestamp| at <= now || at > now + LONGEST_COMPARISON_DELAY;
        let mut tables = self.tables();
        let mut due: Vec<_> = tables.comparison_schedule.iter_mut().collect();
        due.retain(|(_, row)| is_past(row.due_at) && is_past(row.held_until));
        due.sort_by_key(|(project, row)| (row.due_at, (*project).clone()));
        let claimed = due.into_iter().take(limit).map(|(project, row)| {
            (row.due_at, row.held_until, row.claims) = (now + lease, now + lease, row.claims + 1);
            DueComparison { project: project.clone(), held_until: row.held_until, claims: row.claims }
        });
        Ok(claimed.collect())
    }

    async fn end_comparison(&self, due: &DueComparison, end: EndedComparison) -> Result<bool, StoreError> {
        let mut tables = self.tables();
        let is_own = |row: &&mut ScheduleRow| row.claims == due.claims;
        let Some(row) = tables.comparison_schedule.get_mut(&due.project).filter(is_own) else { return Ok(false) };
        row.held_until = end.held_until;
        let was_woken = row.due_at < due.held_until;
        match end.next {
            _ if was_woken => {}
            Some(next) => row.due_at = next,
            None => drop(tables.comparison_schedule.remove(&due.project)),
        }
        let is_replaced =
            |pull: &PullRef| end.changed.iter().any(|one| one.pull == *pull) || end.removed.contains(pull);
        tables.comparisons.retain(|(_, known)| !is_replaced(&known.pull));
        tables.comparisons.extend(end.changed.iter().map(|one| (due.project.clone(), one.clone())));
        Ok(true)
    }

    async fn comparisons(&self, pulls: Vec<PullRef>) -> Result<Vec<ComparedPull>, StoreError> {
        let tables = self.tables();
        let found = tables.comparisons.iter().map(|(_, known)| known).filter(|known| pulls.contains(&known.pull));
        Ok(found.cloned().collect())
    }

    async fn comparisons_in(&self, project: ProjectId) -> Result<Vec<ComparedPull>, StoreError> {
        let tables = self.tables();
        let found = tables.comparisons.iter().filter(|(of, _)| *of == project).map(|(_, known)| known.clone());
        Ok(found.collect())
    }
}

impl Tables {
    /// Makes the project of an open pull request due at once.
    pub(super) fn wake_comparison(&mut self, project: &ProjectId) {
        self.comparison_schedule.entry(project.clone()).or_default().due_at = Timestamp::default();
    }

    /// Returns whether the project's repository is on the built-in code host and has an open pull request.
    fn has_open_local(&self, project: &Project) -> bool {
        let Ok(Address::Local(name)) = parse_address(&project.repository) else { return false };
        self.pulls.values().any(|pull| pull.repository == name && pull.state == PullState::Open)
    }
}
