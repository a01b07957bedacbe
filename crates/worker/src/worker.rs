//! Claims runs and carries them out side by side, each with its lease kept alive.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::agent::Agents;
use journeyman_core::engine::{Claimed, Engine};
use journeyman_core::ids::WorkerId;
use journeyman_core::job::command::{Outcome, Report};
use journeyman_core::ports::{
    Blobs, Containing, Containment, Forges, FreeSpace, Gateway, SandboxError, Store, UpdateError,
};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::IdGen;
use journeyman_git::Git;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::acp::Tap;
use crate::discard::is_for_the_disk;
use crate::doors::Doors;
use crate::executor::Executor;
use crate::failure::Stopped;
use crate::lease::{self, Reporter, Signals};
use crate::mirror::Mirrors;
use crate::outage::{Patience, outcome};
use crate::run::{Done, assign, carry_out};
use crate::space::Space;
use crate::spare::Spares;
use crate::walls::Walls;
use crate::warm::{Warm, WarmAgents};

/// How a worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Runs at a time.
    pub runs: usize,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// How long to wait for a wake-up before looking for work anyway.
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

/// Everything that runs need of the machine.
pub struct Host {
    /// Moves jobs.
    pub engine: Engine,
    /// Where they are read.
    pub store: Arc<dyn Store>,
    /// Finds a project's code host.
    pub forges: Arc<dyn Forges>,
    /// Where agents run.
    pub walls: Walls,
    /// The ways out of there.
    pub gateway: Arc<dyn Gateway>,
    /// Where files are kept that outlive this machine.
    pub blobs: Arc<dyn Blobs>,
    /// The agents that are configured.
    pub agents: Agents,
    /// Jitter.
    pub ids: Arc<dyn IdGen>,
    /// The data directory.
    pub data: PathBuf,
    /// What every program in a sandbox gets: `PATH`, `LANG`.
    pub environment: BTreeMap<String, String>,
    /// The callback that gets the lines of the protocol between this program and agents.
    pub(crate) tap: OnceLock<Tap>,
    pub(crate) mirrors: Mirrors,
    pub(crate) doors: Doors,
    pub(crate) warm: WarmAgents,
    pub(crate) spares: Spares,
    /// Identifies this process. Files that other processes left in workspaces are not trusted, because a power failure
    /// may have removed some of them.
    pub(crate) instance: Arc<str>,
    pub(crate) space: Arc<Space>,
}

impl Host {
    /// A host that keeps mirrors and workspaces in `data`.
    #[expect(clippy::too_many_arguments, reason = "each is a port or a setting that only the binary knows")]
    #[must_use]
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        forges: Arc<dyn Forges>,
        walls: Walls,
        gateway: Arc<dyn Gateway>,
        blobs: Arc<dyn Blobs>,
        agents: Agents,
        ids: Arc<dyn IdGen>,
        git: Git,
        data: PathBuf,
        environment: BTreeMap<String, String>,
        warm: Warm,
    ) -> Self {
        let mirrors = Mirrors::new(git, data.join("mirrors"));
        let space = Space::new(data.clone(), None);
        let (doors, warm, spares) = (Doors::default(), WarmAgents::new(warm), Spares::new(data.join("spares")));
        let instance = ids.uuid(engine.now()).simple().to_string().into();
        Self {
            engine,
            store,
            forges,
            walls,
            gateway,
            blobs,
            agents,
            ids,
            data,
            environment,
            tap: OnceLock::new(),
            mirrors,
            doors,
            warm,
            spares,
            instance,
            space,
        }
    }

    /// Sets the callback that gets the lines of the protocol between this program and agents, without secrets. Call
    /// this once, before the first turn.
    pub fn set_tap(&self, tap: Tap) {
        drop(self.tap.set(tap));
    }

    /// Sets the bytes to keep free on the disk of the data directory; `None`: a fraction of the disk.
    #[must_use]
    pub fn with_disk_reserve(mut self, bytes: Option<u64>) -> Self {
        self.space = Space::new(self.data.clone(), bytes);
        self
    }

    /// Ends the agents that wait for a follow-up.
    pub async fn end_warm_agents(&self) {
        self.warm.end().await;
    }
}

#[async_trait]
impl Containing for Host {
    async fn containment(&self) -> Containment {
        self.walls.containment().await
    }

    fn seen(&self) -> Option<Containment> {
        self.walls.seen()
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.space.free()
    }

    async fn available(&self) -> Result<(), SandboxError> {
        self.walls.available().await
    }
}

/// Claims runs and carries them out.
pub struct Worker {
    desk: Desk,
    id: WorkerId,
    limits: Limits,
}

/// What every run of a worker needs.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    /// Jitter.
    pub(crate) ids: Arc<dyn IdGen>,
    pub(crate) executor: Arc<dyn Executor>,
}

impl Worker {
    /// A worker with an id of its own.
    #[must_use]
    pub fn new(host: Arc<Host>, id: WorkerId, limits: Limits) -> Self {
        let (engine, store, ids) = (host.engine.clone(), Arc::clone(&host.store), Arc::clone(&host.ids));
        Self::at(Desk { engine, store, ids, executor: host }, id, limits)
    }

    pub(crate) const fn at(desk: Desk, id: WorkerId, limits: Limits) -> Self {
        Self { desk, id, limits }
    }

    /// Ends the leases that this worker held before its process restarted, so that their runs continue immediately.
    /// Must be called before [`Worker::work`], and only if no other process works under this id.
    ///
    /// # Errors
    /// The store failed; the leases then expire by themselves.
    pub async fn release_leases(&self) -> Result<usize, UpdateError> {
        self.desk.engine.release_leases(self.id).await
    }

    /// Works until `drain` fires; then claims nothing more and waits for the runs that are under way. When `stop` fires,
    /// those are handed back.
    pub async fn work(&self, drain: CancellationToken, stop: CancellationToken) {
        let (slots, runs) = (Arc::new(Semaphore::new(self.limits.runs)), TaskTracker::new());
        loop {
            let slot = tokio::select! {
                biased;
                () = drain.cancelled() => break,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            let Ok(slot) = slot else { break };
            let Some(claimed) = self.next(&drain).await else { break };
            let (desk, limits, stop) = (self.desk.clone(), self.limits, stop.clone());
            runs.spawn(async move {
                let _slot = slot;
                run(&desk, claimed, limits, stop).await;
            });
        }
        runs.close();
        runs.wait().await;
    }

    /// The next run; `None` when draining.
    async fn next(&self, drain: &CancellationToken) -> Option<Claimed> {
        loop {
            self.wait_for_space(drain).await;
            if drain.is_cancelled() {
                return None;
            }
            // The version is read before the store is asked: work that comes between is not slept through.
            let seen = self.desk.store.work_version();
            match self.desk.engine.claim(self.id, self.limits.lease).await {
                Ok(Some(claimed)) => return Some(claimed),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "no run could be claimed"),
            }
            tokio::select! {
                biased;
                () = drain.cancelled() => return None,
                () = self.desk.store.work_changed(seen) => {}
                () = tokio::time::sleep(self.limits.poll) => {}
            }
        }
    }
}

impl Worker {
    /// Waits, without claiming a run, while the free space of the disk is below the reserve.
    async fn wait_for_space(&self, drain: &CancellationToken) {
        let Some(FreeSpace { free_bytes, reserve_bytes }) = self.desk.executor.low_space() else { return };
        tracing::warn!(
            free_bytes,
            reserve_bytes,
            "no run is claimed: the disk has less free space than disk-reserve; free space in the data directory"
        );
        while self.desk.executor.low_space().is_some() {
            tokio::select! {
                () = drain.cancelled() => return,
                () = tokio::time::sleep(self.limits.poll) => {}
            }
        }
        tracing::info!("runs are claimed again: the disk has enough free space");
    }
}

async fn run(desk: &Desk, claimed: Claimed, Limits { lease, patience, .. }: Limits, shutdown: CancellationToken) {
    let (job, token) = (claimed.job.id, claimed.lease.token);
    let signals = Signals { stop: CancellationToken::new(), lost: CancellationToken::new(), shutdown };
    let reporter = Reporter::new(desk.engine.clone(), &claimed, signals.clone());
    let keeper = lease::keep(reporter.clone(), Arc::clone(&desk.store), lease, signals.clone());
    let _keeper = AbortOnDropHandle::new(tokio::spawn(keeper));
    let _place = desk.executor.enter(job).await;
    let assignment = match assign(&*desk.store, &claimed, &reporter, &signals).await {
        Ok(assignment) => assignment,
        // The store is unavailable: the lease expires, and the run is taken over.
        Err(stopped) => return tracing::warn!(%job, %stopped, "a run could not start"),
    };
    let done = carry_out(&*desk.store, &*desk.executor, &assignment).await;
    let failed = |reason: Reason, retry| {
        tracing::info!(%job, run = %claimed.lease.run, code = ?reason.code, retry, "a run failed");
        outcome(&*desk.store, &*desk.ids, patience, &assignment, (reason, retry))
    };
    let (ended, outcome) = match done {
        Ok(Done { ended, outcome }) => (ended, outcome),
        Err(Stopped::LeaseLost) => return,
        Err(Stopped::HandedBack) => (None, Outcome::HandedBack),
        Err(damaged @ Stopped::MirrorDamaged(_)) => {
            (None, failed(Reason::new(ReasonCode::Internal, damaged.to_string()), true).await)
        }
        Err(Stopped::Failed { reason, retry }) => {
            if is_for_the_disk(reason.code) {
                desk.executor.discard(job).await;
            }
            (None, failed(reason, retry).await)
        }
    };
    // While the store is away the outcome is held; when the lease has run out meanwhile, it is refused.
    loop {
        let finished = Report::Finished { outcome: outcome.clone(), usage: reporter.usage() };
        let reports = ended.clone().into_iter().chain([finished]).collect();
        match reporter.report_all(reports).await {
            Err(UpdateError::Store(error)) if !signals.lost.is_cancelled() => {
                tracing::warn!(%job, %error, "an outcome was not taken; it is tried again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => {
                tracing::info!(%job, %error, "an outcome was refused");
                return;
            }
            Ok(job) => {
                if let Err(error) = desk.executor.tidy(&job, token).await {
                    tracing::warn!(job = %job.id, %error, "blobs that nobody needs could not be removed");
                }
                return;
            }
        }
    }
}
