//! The data of the page.

use std::collections::BTreeMap;

use journeyman_core::ids::ProjectId;
use journeyman_core::outbox::Backlog;
use journeyman_core::ports::{DeliveryBacklog, JobCounts, StoreError};
use journeyman_core::project::Project;
use journeyman_core::project::hold::Hold;
use journeyman_core::time::Timestamp;
use journeyman_core::worker::WorkerReport;

use crate::Shared;
use crate::pages::refresh;

pub(super) struct Found {
    /// Sorted by the names of the machines.
    pub(super) workers: Vec<WorkerReport>,
    pub(super) jobs: JobCounts,
    /// The number of jobs that wait for something outside them, by the code of the cause.
    pub(super) waiting: BTreeMap<String, u64>,
    pub(super) outbox: Backlog,
    pub(super) inbox: Backlog,
    pub(super) deliveries: DeliveryBacklog,
    pub(super) holds: BTreeMap<ProjectId, Hold>,
    pub(super) projects: Vec<Project>,
}

impl Found {
    pub(super) async fn read(shared: &Shared, now: Timestamp) -> Result<Self, StoreError> {
        let store = &shared.services.store;
        let mut workers = store.workers().await?;
        workers.sort_by(|one, other| (&one.state.host, one.id).cmp(&(&other.state.host, other.id)));
        Ok(Self {
            workers,
            jobs: store.job_counts(now).await?,
            waiting: store.waiting_jobs().await?,
            outbox: store.backlog().await?,
            inbox: store.inbox_backlog().await?,
            deliveries: store.delivery_backlog().await?,
            holds: store.holds().await?,
            projects: store.projects().await?,
        })
    }

    /// Returns the workers that have reported recently.
    pub(super) fn reporting(&self, now: Timestamp) -> impl Iterator<Item = &WorkerReport> {
        self.workers.iter().filter(move |worker| !worker.is_silent(now))
    }

    /// Returns a digest that changes with each report of a worker, and whenever a number or a hold changes.
    pub(super) fn digest(&self, now: Timestamp) -> String {
        let workers: Vec<_> =
            self.workers.iter().map(|worker| (worker.id, worker.seen_at, worker.is_silent(now))).collect();
        let Self { jobs, outbox, inbox, deliveries, .. } = self;
        let holds: Vec<_> = self.holds.iter().map(|(project, hold)| (project, hold.seen_at, hold.attempts)).collect();
        refresh::digest(&(
            workers,
            (jobs.active, jobs.running, jobs.due, &self.waiting),
            (outbox.tasks, outbox.retried, inbox.tasks, inbox.retried),
            (deliveries.pending, deliveries.failing),
            holds,
        ))
    }
}
