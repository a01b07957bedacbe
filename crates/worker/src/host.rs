//! The resources of one machine for its runs.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::agent::Agents;
use journeyman_core::engine::Engine;
use journeyman_core::job::effect::Effect;
use journeyman_core::ports::{
    BlobError, Blobs, Containing, EffectError, EffectHandler, Forges, Gateway, LfsObjects, SandboxError, Store,
};
use journeyman_core::time::IdGen;
use journeyman_core::worker::{Containment, FreeSpace};
use journeyman_repository::Mirrors;
use tokio::sync::Semaphore;

use crate::acp::Tap;
use crate::cleanup::blobs::{SweepPositions, remove_blobs, sweep_blobs};
use crate::cleanup::workspaces::IdleWorkspaces;
use crate::sandbox::containment::ContainmentCheck;
use crate::turn::idle_agents::{IdleAgentLimits, IdleAgents};
use crate::turn::prepare::PreparedHomes;
use crate::workspace::free_space::Space;
use crate::workspace::lock::WorkspaceLocks;
use crate::workspace::prebuilt::PrebuiltTrees;

/// The ports and settings that a [`Host`] is made of.
pub struct Resources {
    /// Changes jobs.
    pub engine: Engine,
    /// Reads jobs and projects.
    pub store: Arc<dyn Store>,
    /// Finds the code host of a project.
    pub forges: Arc<dyn Forges>,
    /// The sandbox, with the check of its guarantees.
    pub containment: ContainmentCheck,
    /// The proxies through which a sandbox reaches the network.
    pub gateway: Arc<dyn Gateway>,
    /// Stores files that outlive this machine.
    pub blobs: Arc<dyn Blobs>,
    /// Fetches and stores the objects of Git LFS.
    pub lfs: Arc<dyn LfsObjects>,
    /// The configured agents.
    pub agents: Agents,
    /// The source of randomness.
    pub ids: Arc<dyn IdGen>,
    /// The mirrors of repositories.
    pub mirrors: Arc<Mirrors>,
    /// The URL of the service, without a slash at its end.
    pub public_url: String,
    /// The data directory.
    pub data: PathBuf,
    /// The variables of every program in a sandbox: `PATH`, `LANG`.
    pub environment: BTreeMap<String, String>,
    /// The limits of idle agents.
    pub idle_agent_limits: IdleAgentLimits,
    /// The bytes to keep free on the disk of the data directory; `None`: a fraction of the disk.
    pub disk_reserve: Option<u64>,
}

/// The resources of one machine for its runs.
pub struct Host {
    resources: Resources,
    pub(crate) idle_agents: IdleAgents,
    /// Permits for agents that start.
    pub(crate) starting: Semaphore,
    pub(crate) prepared: PreparedHomes,
    pub(crate) prebuilt: PrebuiltTrees,
    pub(crate) locks: WorkspaceLocks,
    pub(crate) space: Arc<Space>,
    /// The callback that gets the lines of the protocol between this program and agents.
    pub(crate) tap: OnceLock<Tap>,
    /// The ID of this process. Files that other processes left in workspaces are not trusted, because a power failure
    /// may have removed some of them.
    pub(crate) instance: Arc<str>,
}

impl Deref for Host {
    type Target = Resources;

    fn deref(&self) -> &Resources {
        &self.resources
    }
}

impl Host {
    /// Returns a host with these resources.
    #[must_use]
    pub fn new(resources: Resources) -> Self {
        Self {
            prebuilt: PrebuiltTrees::new(resources.data.join("spares")),
            locks: WorkspaceLocks::default(),
            space: Space::new(resources.data.clone(), resources.disk_reserve),
            idle_agents: IdleAgents::new(resources.idle_agent_limits),
            prepared: PreparedHomes::new(
                Arc::clone(&resources.containment.sandbox),
                resources.environment.clone(),
                resources.data.clone(),
            ),
            starting: Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)),
            instance: resources.ids.uuid(resources.engine.now()).simple().to_string().into(),
            tap: OnceLock::new(),
            resources,
        }
    }

    /// Sets the callback that gets the lines of the protocol between this program and agents, without secrets. Call
    /// this once, before the first turn.
    pub fn set_tap(&self, tap: Tap) {
        drop(self.tap.set(tap));
    }

    /// Checks the sandbox until agents may run in it, and passes each new result to `report`.
    pub async fn watch_containment(&self, report: impl FnMut(&Containment) + Send) {
        self.containment.watch(report).await;
    }

    /// Stops the idle agents.
    pub async fn end_idle_agents(&self) {
        self.idle_agents.end().await;
    }

    /// Removes the workspaces of jobs that have been idle for `idle`, or for ten minutes if their pull request has ended,
    /// and workspaces that would be rebuilt in any case. Returns their number.
    ///
    /// # Errors
    /// A folder cannot be read or removed, or the store failed.
    pub async fn remove_idle_workspaces(&self, idle: Duration) -> io::Result<usize> {
        let Self { resources, prebuilt, locks, idle_agents, .. } = self;
        let (store, data) = (&*resources.store, &resources.data);
        IdleWorkspaces { store, prebuilt, locks, idle_agents, folder: data.join("workspaces") }
            .remove(idle, self.engine.now())
            .await
    }

    /// Removes blobs that no job needs, and sessions of jobs that have been inactive for `keep`. Checks up to `limit`
    /// blobs of each kind after `positions`, and advances them. Returns the number of removed blobs.
    ///
    /// # Errors
    /// The blob store or the store failed.
    pub async fn sweep_blobs(
        &self,
        positions: &mut SweepPositions,
        keep: Duration,
        limit: usize,
    ) -> Result<usize, BlobError> {
        sweep_blobs(&*self.blobs, &*self.store, self.engine.now(), positions, keep, limit).await
    }
}

#[async_trait]
impl EffectHandler for Host {
    fn kinds(&self) -> &'static [&'static str] {
        &[Effect::REMOVE_BLOBS]
    }

    /// Carries out an effect. If machines do not share their blobs, this removes only the blobs on this machine; each
    /// other machine removes its own in its next sweep.
    async fn carry_out(&self, effect: &Effect) -> Result<(), EffectError> {
        match effect {
            Effect::Acknowledge { .. }
            | Effect::Answer { .. }
            | Effect::ReportChecks { .. }
            | Effect::ReportOutdated { .. }
            | Effect::SetStatus { .. }
            | Effect::RemoveRepository { .. } => {
                Err(EffectError("this part of the service has no code hosts".to_owned()))
            }
            Effect::RemoveBlobs { job, up_to } => {
                let removed = remove_blobs(&*self.blobs, &*self.store, *job, *up_to).await;
                removed.map_err(|error| EffectError(error.to_string()))
            }
        }
    }
}

#[async_trait]
impl Containing for Host {
    async fn containment(&self) -> Containment {
        self.containment.containment().await
    }

    fn seen(&self) -> Option<Containment> {
        self.containment.seen()
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.space.free()
    }

    async fn available(&self) -> Result<(), SandboxError> {
        self.containment.available().await
    }
}
