//! The sandbox of the test harness.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Exhausted, Exit, Layout, Process, Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::worker::Guarantee;
use journeyman_sandbox::{Bubblewrap, BubblewrapSettings, CommonSettings, UserRange};
use journeyman_testkit::until_async;

use super::fixtures::PATH;
use crate::binary::program;

/// While a file with this name is in the shared folder, programs are neither paused nor ended, as if their container
/// engine had gone away.
pub(super) const STAYS: &str = "stays";

/// A sandbox in which programs can also write to a folder that they share with the test.
pub(super) struct SharingSandbox {
    inner: Bubblewrap,
    shared_dir: PathBuf,
}

impl SharingSandbox {
    /// Returns the sandbox of a machine with a data directory.
    pub(super) fn new(data: &Path, shared_dir: PathBuf) -> Self {
        Self { inner: sandbox(data), shared_dir }
    }
}

#[async_trait]
impl Sandbox for SharingSandbox {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn probe(&self) -> Vec<Guarantee> {
        self.inner.probe().await
    }

    fn layout(&self, workspace: &Path, home: &Path) -> Layout {
        self.inner.layout(workspace, home)
    }

    fn search_path(&self, host: &str) -> String {
        self.inner.search_path(host)
    }

    fn has_own_network(&self) -> bool {
        self.inner.has_own_network()
    }

    async fn restrict(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        self.inner.restrict(folders).await
    }

    async fn adopt(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        self.inner.adopt(folders).await
    }

    async fn disk_usage(&self, workspace: &Path) -> Option<u64> {
        self.inner.disk_usage(workspace).await
    }

    async fn spawn(&self, mut spawn: Spawn) -> Result<Spawned, SandboxError> {
        spawn.writable.push(self.shared_dir.clone());
        let mut spawned = self.inner.spawn(spawn).await?;
        let stays = self.shared_dir.join(STAYS);
        spawned.process = Box::new(StayingProcess { inner: spawned.process, stays });
        Ok(spawned)
    }
}

/// Returns the sandbox of a machine with a data directory.
fn sandbox(data: &Path) -> Bubblewrap {
    let users = UserRange::default();
    let roots = vec![data.join("workspaces"), data.join("spares")];
    for dir in roots.iter().map(PathBuf::as_path).chain([data]) {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::set_permissions(dir, Permissions::from_mode(0o711)).unwrap();
    }
    let settings = BubblewrapSettings {
        program: "bwrap".into(),
        path: PATH.to_owned(),
        shim: program().into(),
        own_program: program().into(),
        common: CommonSettings {
            readable: Vec::new(),
            data: data.to_owned(),
            folder: data.join("sandbox"),
            renew: true,
            roots,
            users,
            name: format!("test{}", data.display().to_string().replace('/', "-")),
        },
    };
    Bubblewrap::new(settings).unwrap()
}

struct StayingProcess {
    inner: Box<dyn Process>,
    /// The path of the file [`STAYS`].
    stays: PathBuf,
}

#[async_trait]
impl Process for StayingProcess {
    async fn wait(&mut self) -> Exit {
        self.inner.wait().await
    }

    async fn pause(&mut self) -> bool {
        !self.stays.exists() && self.inner.pause().await
    }

    async fn resume(&mut self) -> bool {
        self.inner.resume().await
    }

    fn exhausted(&self) -> Option<Exhausted> {
        self.inner.exhausted()
    }

    async fn deleted_bytes(&self, device: u64) -> u64 {
        self.inner.deleted_bytes(device).await
    }

    async fn processor_time(&self) -> Option<Duration> {
        self.inner.processor_time().await
    }

    async fn end(&mut self) -> Exit {
        if self.stays.exists() {
            std::fs::write(self.stays.with_extension("asked"), "").unwrap();
            let stays = self.stays.clone();
            until_async("programs can be ended", move || std::future::ready((!stays.exists()).then_some(()))).await;
        }
        self.inner.end().await
    }
}
