//! Jobs, messages, runs and logs.

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use journeyman_core::job::Job;
use journeyman_core::job::change::Change;
use journeyman_core::job::event::LogEntry;
use journeyman_core::message::Message;
use journeyman_core::ports::{
    Accepted, ClaimFn, ClaimQuery, Decide, GONE, Guard, JobStore, JobWatch, PATIENCE, Picked, StoreError, UpdateError,
};
use journeyman_core::retry::LONGEST_BACKOFF;
use journeyman_core::run::Run;
use journeyman_core::time::Timestamp;

use super::{MemoryStore, Tables};
use crate::accept;
use crate::watch::Watch;

#[async_trait]
impl JobStore for MemoryStore {
    async fn create_job(&self, guard: Guard, change: Change, now: Timestamp) -> Result<Accepted, UpdateError> {
        let accepted = accept::create(&mut *self.tables(), &guard, &change, now)?;
        self.wakeups.accepted(&accepted);
        Ok(accepted)
    }

    async fn update_job(
        &self,
        id: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        mut decide: Decide,
        now: Timestamp,
    ) -> Result<Accepted, UpdateError> {
        let accepted = accept::update(&mut *self.tables(), id, project.as_ref(), &guard, &mut decide, now)?;
        self.wakeups.accepted(&accepted);
        Ok(accepted)
    }

    async fn claim_job(&self, query: ClaimQuery, mut claim: ClaimFn) -> Result<Option<Picked>, StoreError> {
        let picked = {
            let mut tables = self.tables();
            let Some(Ok(change)) = tables.pick(query).map(&mut claim) else { return Ok(None) };
            tables.write(&change);
            let hold = tables.begin_probe(&change.job.project, query.now);
            let delivered = change.delivered();
            let message = tables.messages.iter().find(|message| Some(message.id) == delivered).cloned();
            Picked { job: change.job, message, hold }
        };
        self.wakeups.committed(&picked.job);
        Ok(Some(picked))
    }

    async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.tables().jobs.get(&id).cloned())
    }

    async fn leased_jobs(&self, worker: WorkerId) -> Result<Vec<JobId>, StoreError> {
        let leased = |job: &&Job| job.lease().is_some_and(|lease| lease.worker == worker);
        Ok(self.tables().jobs.values().filter(leased).map(|job| job.id).collect())
    }

    async fn messages(&self, job: JobId) -> Result<Vec<Message>, StoreError> {
        Ok(self.tables().messages.iter().filter(|message| message.job == job).cloned().collect())
    }

    async fn message(&self, id: MessageId) -> Result<Option<Message>, StoreError> {
        Ok(self.tables().messages.iter().find(|message| message.id == id).cloned())
    }

    async fn run(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        Ok(self.tables().runs.iter().find(|run| run.id == id).cloned())
    }

    async fn runs(&self, job: JobId) -> Result<Vec<Run>, StoreError> {
        Ok(self.tables().runs.iter().filter(|run| run.job == job).cloned().collect())
    }

    async fn log(&self, job: JobId, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let range = (job, after.saturating_add(1))..=(job, u64::MAX);
        Ok(self.tables().log.range(range).take(limit).map(|(_, entry)| entry.clone()).collect())
    }

    fn watch(&self, job: JobId) -> Box<dyn JobWatch + '_> {
        Box::new(Watch::new(self, &self.wakeups, job, None))
    }

    fn work_version(&self) -> u64 {
        self.wakeups.work_version()
    }

    async fn work_changed(&self, seen: u64) {
        self.wakeups.work_changed(seen).await;
    }
}

impl Tables {
    /// Returns the job that [`ClaimQuery`] describes.
    fn pick(&self, ClaimQuery { now, worker, avoidance }: ClaimQuery) -> Option<&Job> {
        let live = |project: &ProjectId| {
            let live = |job: &&Job| job.project == *project && job.lease().is_some_and(|lease| lease.until > now);
            self.jobs.values().filter(live).count()
        };
        let eligible = |job: &&Job| {
            let preferred = job.prefers().filter(|preferred| *preferred != worker);
            let has_work = |preferred: &WorkerId| {
                let seen = self.workers.get(preferred).map(|(_, report)| report.seen_at);
                job.has_unrecorded_work() && seen.is_some_and(|at| at > now - GONE && at < now + GONE)
            };
            if preferred.as_ref().is_some_and(has_work) && job.due_at().is_some_and(|due| due <= now) {
                return false;
            }
            let others = [(preferred.is_some(), PATIENCE), (job.avoids() == Some(worker), avoidance)];
            let waited =
                |due: Timestamp| others.iter().all(|(waits, time)| !waits || due + *time <= now || due > now + *time);
            let later = now..=now + LONGEST_BACKOFF;
            let on_hold = self
                .holds
                .get(&job.project)
                .is_some_and(|hold| hold.next_probe_at > now && later.contains(&hold.next_probe_at));
            let limit = self.projects.get(&job.project).and_then(|project| project.settings.limits.concurrent_runs);
            job.is_due(now)
                && job.due_at().is_some_and(waited)
                && !on_hold
                && limit.is_none_or(|limit| live(&job.project) < limit as usize)
        };
        self.jobs.values().filter(eligible).min_by_key(|job| (live(&job.project), job.due_at(), job.id))
    }
}
