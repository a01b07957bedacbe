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
            if let Err(error) = self.store.report_worker(self.report(), FORGOTTEN).await {
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use journeyman_core::ports::{SandboxError, WorkerStore as _};
    use journeyman_core::worker::{Containment, FreeSpace, Guarantee};
    use journeyman_store::SqliteStore;
    use journeyman_testkit::World;
    use uuid::Uuid;

    use super::*;

    struct Here;

    #[async_trait]
    impl Containing for Here {
        async fn containment(&self) -> Containment {
            let guarantees = vec![Guarantee { name: "network", holds: true, note: String::new() }];
            Containment { sandbox: "none", guarantees, given_up: Vec::new() }
        }

        fn seen(&self) -> Option<Containment> {
            None
        }

        fn free_space(&self) -> Option<FreeSpace> {
            Some(FreeSpace { free_bytes: 10, reserve_bytes: 20 })
        }

        async fn available(&self) -> Result<(), SandboxError> {
            Ok(())
        }
    }

    impl InstalledAgents for Here {
        fn is_installed(&self, id: &str) -> bool {
            id == "codex"
        }
    }

    #[tokio::test]
    async fn a_worker_reports_itself_until_its_process_stops() {
        let (store, dir) =
            (Arc::new(SqliteStore::temporary(World::new()).expect("a store")), tempfile::tempdir().expect("a folder"));
        let id = WorkerId::from_uuid(Uuid::from_u128(1));
        let presence = Arc::new(Presence {
            store: Arc::clone(&store) as Arc<dyn Store>,
            id,
            machine: Arc::new(Here),
            runs: ActiveRuns::default(),
            installed: Arc::new(Here),
            agents: vec!["claude-code".to_owned(), "codex".to_owned()],
            data_dir: dir.path().to_owned(),
            host: "forge-1".to_owned(),
            slots: 2,
            serves: true,
            started_at: Machine.now(),
        });
        let reports = Arc::clone(&presence);
        let reporting = tokio::spawn(async move { reports.run().await });
        while store.workers().await.expect("the reports").is_empty() {
            tokio::task::yield_now().await;
        }
        reporting.abort();
        let _ = reporting.await;
        let report = store.workers().await.expect("the reports").remove(0);
        assert_eq!(report.id, id);
        let WorkerState { host, slots, busy, disk, sandbox, agents, .. } = report.state;
        assert_eq!((host.as_str(), slots, busy, agents), ("forge-1", 2, 0, vec!["codex".to_owned()]));
        assert_eq!(disk.map(|disk| (disk.free_bytes, disk.reserve_bytes, disk.total_bytes > 0)), Some((10, 20, true)));
        assert_eq!(sandbox, None, "the guarantees were not checked yet");

        presence.end().await;
        assert!(store.workers().await.expect("the reports").is_empty());
    }
}
