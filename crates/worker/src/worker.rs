//! Claims runs and carries them out concurrently, each with its lease kept alive.

use std::sync::Arc;
use std::time::Duration;

use journeyman_core::engine::{Claimed, Engine};
use journeyman_core::ids::WorkerId;
use journeyman_core::job::command::{Outcome, Report};
use journeyman_core::ports::{UpdateError, WorkStore};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::IdGen;
use journeyman_core::worker::FreeSpace;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{Instrument as _, Span};

use crate::claim::assignment::Stage;
use crate::claim::lease::{self, Reporter, Signals};
use crate::error::RunError;
use crate::host::Host;
use crate::run::outcome::{Patience, outcome};
use crate::run::port::Machine;
use crate::run::{Done, assign, carry_out};
use crate::sandbox::disk_limit::is_for_the_disk;

/// The limits of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of concurrent runs.
    pub runs: usize,
    /// The time after which a lease expires without a heartbeat.
    pub lease: Duration,
    /// The interval at which the worker looks for work without a notification.
    pub poll: Duration,
    /// The time for which messages wait for causes outside them.
    pub patience: Patience,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runs: 2,
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(500),
            patience: Patience::default(),
        }
    }
}

/// Claims runs and carries them out concurrently.
pub struct Worker {
    deps: WorkerDeps,
    id: WorkerId,
    limits: Limits,
    runs: TaskTracker,
}

/// Counts the runs that a worker carries out. Clones count the same runs.
#[derive(Debug, Clone, Default)]
pub struct ActiveRuns(TaskTracker);

impl ActiveRuns {
    /// Returns the current number.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The dependencies of a worker's runs.
#[derive(Clone)]
pub(crate) struct WorkerDeps {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn WorkStore>,
    /// The source of jitter.
    pub(crate) ids: Arc<dyn IdGen>,
    pub(crate) machine: Arc<dyn Machine>,
}

impl Worker {
    /// Returns a worker with this ID.
    #[must_use]
    pub fn new(host: Arc<Host>, id: WorkerId, limits: Limits) -> Self {
        let (engine, store, ids) = (host.engine.clone(), Arc::clone(&host.store), Arc::clone(&host.ids));
        Self::with_deps(WorkerDeps { engine, store, ids, machine: host }, id, limits)
    }

    pub(crate) fn with_deps(deps: WorkerDeps, id: WorkerId, limits: Limits) -> Self {
        Self { deps, id, limits, runs: TaskTracker::new() }
    }

    /// Returns a counter of the runs that this worker carries out.
    #[must_use]
    pub fn active_runs(&self) -> ActiveRuns {
        ActiveRuns(self.runs.clone())
    }

    /// Ends the leases that this worker held before its process restarted, so that their runs continue immediately.
    /// Call this before [`Worker::work`], and only if no other process uses this ID.
    ///
    /// # Errors
    /// The store failed. The leases then expire by themselves.
    pub async fn release_leases(&self) -> Result<usize, UpdateError> {
        self.deps.engine.release_leases(self.id).await
    }

    /// Works until `drain` is cancelled; then claims nothing more and waits for the current runs. When `stop` is
    /// cancelled, these are handed back.
    pub async fn work(&self, drain: CancellationToken, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(self.limits.runs));
        loop {
            let slot = tokio::select! {
                biased;
                () = drain.cancelled() => break,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            let Ok(slot) = slot else { break };
            let Some(claimed) = self.next(&drain).await else { break };
            let (deps, limits, stop) = (self.deps.clone(), self.limits, stop.clone());
            self.runs.spawn(async move {
                let _slot = slot;
                let span = run_span(&claimed);
                run(&deps, claimed, limits, stop).instrument(span).await;
            });
        }
        self.runs.close();
        self.runs.wait().await;
    }

    /// Claims the next run; `None` when draining.
    async fn next(&self, drain: &CancellationToken) -> Option<Claimed> {
        loop {
            self.wait_for_space(drain).await;
            if drain.is_cancelled() {
                return None;
            }
            // Read the version before claiming, so that work that arrives in between wakes the worker.
            let seen = self.deps.store.work_version();
            match self.deps.engine.claim(self.id, self.limits.lease).await {
                Ok(Some(claimed)) => return Some(claimed),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "no run could be claimed"),
            }
            tokio::select! {
                biased;
                () = drain.cancelled() => return None,
                () = self.deps.store.work_changed(seen) => {}
                () = tokio::time::sleep(self.limits.poll) => {}
            }
        }
    }
}

impl Worker {
    /// Waits, without claiming a run, while the free space of the disk is below the reserve.
    async fn wait_for_space(&self, drain: &CancellationToken) {
        let Some(FreeSpace { free_bytes, reserve_bytes }) = self.deps.machine.low_space() else { return };
        tracing::warn!(
            free_bytes,
            reserve_bytes,
            "no run is claimed: the disk has less free space than disk-reserve; free space in the data directory"
        );
        while self.deps.machine.low_space().is_some() {
            tokio::select! {
                () = drain.cancelled() => return,
                () = tokio::time::sleep(self.limits.poll) => {}
            }
        }
        tracing::info!("runs are claimed again: the disk has enough free space");
    }
}

/// Returns the span of a run, which is linked to the request that sent the message. The trace of that request has ended
/// long before the run does, and a run may be repeated.
fn run_span(claimed: &Claimed) -> Span {
    let Claimed { job, message, lease, .. } = claimed;
    let span = tracing::info_span!(parent: None, "run", project = %job.project, job = %job.id, message = %message.id, run = %lease.run);
    if let Some(cause) = &message.traceparent {
        journeyman_trace::link(&span, cause);
    }
    span
}

async fn run(deps: &WorkerDeps, claimed: Claimed, Limits { lease, patience, .. }: Limits, shutdown: CancellationToken) {
    let job = claimed.job.id;
    tracing::info!("a run begins");
    let signals = Signals { stop: CancellationToken::new(), lost: CancellationToken::new(), shutdown };
    let reporter = Reporter::new(deps.engine.clone(), &claimed, signals.clone());
    let keeper = lease::keep(reporter.clone(), Arc::clone(&deps.store), lease, signals.clone());
    let _keeper = AbortOnDropHandle::new(tokio::spawn(keeper));
    let _workspace = deps.machine.lock_workspace(job).await;
    let assignment = match assign(&*deps.store, &claimed, &reporter, &signals).await {
        Ok(assignment) => assignment,
        // The store is unavailable. The lease expires, and the run is taken over.
        Err(error) => return tracing::warn!(%job, %error, "a run could not start"),
    };
    let done = carry_out(&*deps.store, &*deps.machine, &assignment).await;
    let failed = |reason: Reason, retry| {
        tracing::info!(%job, run = %claimed.lease.run, code = ?reason.code, retry, "a run failed");
        outcome(&*deps.store, &*deps.ids, patience, &assignment, (reason, retry))
    };
    let outcome = match done {
        Ok(Done::Recorded(job)) => return tracing::info!(status = job.status().name(), "a run has ended"),
        Ok(Done::Reaches(outcome)) => outcome,
        Err(RunError::LeaseLost) => return,
        Err(RunError::HandedBack) => Outcome::HandedBack,
        Err(damaged @ RunError::MirrorDamaged(_)) => {
            failed(Reason::new(ReasonCode::Internal, damaged.to_string()), true).await
        }
        Err(RunError::Failed { reason, retry }) => {
            // The work of an ended turn is kept as long as the message may succeed.
            let keeps_work = retry && assignment.stage() == Stage::Answered;
            if is_for_the_disk(reason.code) && !keeps_work {
                deps.machine.discard_workspace(job).await;
            }
            failed(reason, retry).await
        }
    };
    let finished = Report::Finished { outcome, usage: reporter.usage() };
    match reporter.report_until_lost(vec![finished]).await {
        Err(error) => tracing::info!(%job, %error, "the store refused the outcome of a run"),
        Ok(job) => tracing::info!(status = job.status().name(), "a run has ended"),
    }
}
