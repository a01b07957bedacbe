//! The reports of this process as a worker, which the system page of the dashboard shows.

use std::path::PathBuf;
use std::sync::Arc;

use journeyman_core::ids::WorkerId;
use journeyman_core::ports::{Containing, InstalledAgents, Store};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_core::worker::{DiskState, FORGOTTEN, REPORT_PERIOD, SandboxState, WorkerReport, WorkerState};
use journeyman_worker::ActiveRuns;
use rustix::fs::statvfs;
use rustix::system::uname;
use tokio::time::MissedTickBehavior;

use crate::config::{Role, Settings};
use crate::system::Machine;

/// Reports the state of a worker.
pub(crate) struct Presence {
    store: Arc<dyn Store>,
    id: WorkerId,
    machine: Arc<dyn Containing>,
    runs: ActiveRuns,
    installed: Arc<dyn InstalledAgents>,
    agents: Vec<String>,
    data_dir: PathBuf,
    host: String,
    slots: usize,
    serves: bool,
    started_at: Timestamp,
}

impl Presence {
    /// Returns the reports of the worker with this ID. The process started now.
    pub(crate) fn new(
        (store, id): (Arc<dyn Store>, WorkerId),
        machine: Arc<dyn Containing>,
        runs: ActiveRuns,
        installed: Arc<dyn InstalledAgents>,
        settings: &Settings,
    ) -> Self {
        Self {
            store,
            id,
            machine,
            runs,
            installed,
            agents: settings.agents.keys().cloned().collect(),
            data_dir: settings.data_dir.clone(),
            host: uname().nodename().to_string_lossy().into_owned(),
            slots: settings.workers,
            serves: settings.roles.contains(&Role::Api),
            started_at: Machine.now(),
        }
    }

    /// Reports periodically until the future is dropped. A report that cannot be stored is left out: the next one says
    /// more.
    pub(crate) async fn run(&self) {
        let mut timer = tokio::time::interval(REPORT_PERIOD);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            let report = self.report();
            let forget_before = report.seen_at - FORGOTTEN;
            if let Err(error) = self.store.report_worker(report, forget_before).await {
                tracing::debug!(%error, "the state of this worker could not be stored");
            }
        }
    }

    /// Removes the report, because the process stops. Otherwise, the system page would show a worker that is gone.
    pub(crate) async fn end(&self) {
        if let Err(error) = self.store.forget_worker(self.id).await {
            tracing::debug!(%error, "the last report of this worker could not be removed");
        }
    }

    fn report(&self) -> WorkerReport {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let state = WorkerState {
            host: self.host.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            slots: number(self.slots),
            busy: number(self.runs.count()),
            serves: self.serves,
            disk: self.disk(),
            sandbox: self.machine.seen().as_ref().map(SandboxState::from),
            agents: self.agents.iter().filter(|id| self.installed.is_installed(id)).cloned().collect(),
        };
        WorkerReport { id: self.id, seen_at: Machine.now(), state }
    }

    fn disk(&self) -> Option<DiskState> {
        let space = self.machine.free_space()?;
        let disk = statvfs(&self.data_dir).ok()?;
        Some(DiskState {
            total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            free_bytes: space.free_bytes,
            reserve_bytes: space.reserve_bytes,
        })
    }
}
