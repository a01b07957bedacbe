//! The data of the page.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use journeyman_core::ids::ProjectId;
use journeyman_core::outbox::Backlog;
use journeyman_core::ports::{DeliveryBacklog, JobCounts, StoreError};
use journeyman_core::project::Project;
use journeyman_core::project::hold::Hold;
use journeyman_core::time::Timestamp;
use journeyman_core::worker::{WorkerReport, WorkerState};

use crate::pages::refresh;
use crate::{Shared, words};

pub(super) struct SystemData {
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

impl SystemData {
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

    /// Returns the time since the oldest of the processes that report started; `None` if none reports.
    pub(super) fn up_for(&self, now: Timestamp) -> Option<Duration> {
        self.reporting(now).map(|worker| worker.state.started_at).min().map(|started| now.since(started))
    }

    /// Returns a digest of the data on the page. A report with the same content as the previous one does not change it.
    /// Times are rounded as on the page, so that they change the digest at most once a minute.
    pub(super) fn digest(&self, now: Timestamp) -> String {
        let workers: Vec<_> = self.workers.iter().map(|worker| shown(worker, now)).collect();
        let Self { jobs, outbox, inbox, deliveries, .. } = self;
        let holds: Vec<_> = self.holds.iter().map(|(project, hold)| (project, hold.seen_at, hold.attempts)).collect();
        let projects: Vec<_> = self.projects.iter().map(|project| (&project.id, project.version)).collect();
        let oldest = [jobs.oldest_due, outbox.oldest, inbox.oldest, deliveries.oldest];
        let ages = oldest.map(|oldest| oldest.map(|oldest| now.since(oldest))).map(|age| age.map(words::coarse));
        refresh::digest(&(
            (workers, self.up_for(now).map(words::coarse), ages),
            (jobs.active, jobs.running, jobs.due, &self.waiting),
            (outbox.tasks, outbox.retried, inbox.tasks, inbox.retried),
            (deliveries.pending, deliveries.failing),
            (holds, projects),
        ))
    }
}

/// Returns the data about a worker that the page shows.
fn shown(worker: &WorkerReport, now: Timestamp) -> impl Hash {
    let WorkerState { host, version, started_at, slots, busy, serves, disk, sandbox, agents } = &worker.state;
    let silent_for = worker.is_silent(now).then(|| words::coarse(now.since(worker.seen_at)));
    let disk = disk.map(|disk| {
        let sizes = [disk.total_bytes, disk.free_bytes, disk.reserve_bytes].map(words::bytes);
        (sizes, disk.space().is_enough(), disk.is_low())
    });
    let sandbox = sandbox.as_ref().map(|sandbox| (&sandbox.kind, sandbox.holds, &sandbox.missing, &sandbox.given_up));
    ((worker.id, silent_for), (host, version, started_at), (slots, busy, serves), (disk, sandbox, agents))
}
