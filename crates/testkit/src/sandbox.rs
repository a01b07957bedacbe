//! A fake sandbox with configurable answers.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use journeyman_core::ports::{Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::worker::Guarantee;

type Probe = dyn Fn() -> Vec<Guarantee> + Send + Sync;
type Available = dyn Fn() -> Result<(), SandboxError> + Send + Sync;
type Start = dyn Fn(Spawn) -> Result<Spawned, SandboxError> + Send + Sync;

/// A sandbox whose methods are closures. By default ([`FakeSandbox::new`]) it promises nothing, is always available,
/// counts no bytes and starts no program.
pub struct FakeSandbox {
    probe: Box<Probe>,
    available: Box<Available>,
    start: Box<Start>,
    disk_usage: Option<u64>,
}

impl FakeSandbox {
    /// Returns a sandbox in which every program is missing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            probe: Box::new(Vec::new),
            available: Box::new(|| Ok(())),
            start: Box::new(|_| Err(SandboxError::NotFound("anything".to_owned()))),
            disk_usage: None,
        }
    }

    /// Sets the answer of [`Sandbox::probe`].
    #[must_use]
    pub fn on_probe(mut self, probe: impl Fn() -> Vec<Guarantee> + Send + Sync + 'static) -> Self {
        self.probe = Box::new(probe);
        self
    }

    /// Sets the answer of [`Sandbox::available`].
    #[must_use]
    pub fn on_available(mut self, available: impl Fn() -> Result<(), SandboxError> + Send + Sync + 'static) -> Self {
        self.available = Box::new(available);
        self
    }

    /// Sets the answer of [`Sandbox::spawn`].
    #[must_use]
    pub fn on_spawn(mut self, start: impl Fn(Spawn) -> Result<Spawned, SandboxError> + Send + Sync + 'static) -> Self {
        self.start = Box::new(start);
        self
    }

    /// Sets the bytes that the kernel counts for each workspace.
    #[must_use]
    pub fn with_disk_usage(mut self, bytes: Option<u64>) -> Self {
        self.disk_usage = bytes;
        self
    }
}

impl Default for FakeSandbox {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Sandbox for FakeSandbox {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn probe(&self) -> Vec<Guarantee> {
        (self.probe)()
    }

    fn has_own_network(&self) -> bool {
        false
    }

    async fn adopt(&self, _folders: &[PathBuf]) -> Result<(), SandboxError> {
        Ok(())
    }

    async fn available(&self) -> Result<(), SandboxError> {
        (self.available)()
    }

    async fn disk_usage(&self, _workspace: &Path) -> Option<u64> {
        self.disk_usage
    }

    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError> {
        (self.start)(spawn)
    }
}
