//! A machine that crashes at a chosen moment of a run: from then on, its calls of the store and the code host never
//! return, as if it had been switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use journeyman_core::code_host::{CodeHost, HostName, HostRepository};
use journeyman_core::finding::Finding;
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::{Job, Progress};
use journeyman_core::ports::{Checks, CreatedPull, Discussion, Forge, ForgeError, Forges, Remote, StoreError};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::run::Reason;
use journeyman_forge::CodeHosts;
use journeyman_testkit::{StoreCall, Tap, until_async};

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// After the run was claimed, before any other work.
    Claimed,
    /// After the start of the turn was stored, before the agent is prompted.
    TurnBegun,
    /// While the agent works.
    Prompted,
    /// After the work of the turn was collected, before the end of the turn is stored.
    Collected,
    /// After the end of the turn was stored, before the push.
    TurnEnded,
    /// After the push, before the search for an open pull request.
    Pushed,
    /// After the pull request was opened, before that is stored.
    Opened,
    /// After all work, before the end of the run is stored.
    Published,
    /// After the end of the run was stored, before the machine gets the answer.
    Finished,
}

/// A machine's access to the store and the code host, which ends when the machine crashes.
pub(crate) struct CrashingMachine {
    hosts: CodeHosts,
    at: Moment,
    crashed: AtomicBool,
}

impl CrashingMachine {
    pub(crate) fn new(hosts: CodeHosts, at: Moment) -> Arc<Self> {
        Arc::new(Self { hosts, at, crashed: AtomicBool::new(false) })
    }

    fn has_crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    pub(crate) async fn until_crashed(&self) {
        until_async(&format!("the machine reaches {:?}", self.at), async || self.has_crashed().then_some(())).await;
    }

    /// Returns at once until the machine has crashed, and never after that.
    async fn wait_if_crashed(&self) {
        if self.has_crashed() {
            std::future::pending::<()>().await;
        }
    }

    /// Crashes the machine, and never returns, if `moment` is the chosen one.
    async fn crash_at(&self, moment: Option<Moment>) {
        if moment == Some(self.at) {
            self.crashed.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the moment before a change is stored, and the one after it.
fn moments(before: &Job, change: &Change) -> (Option<Moment>, Option<Moment>) {
    let publishing = |job: &Job| job.in_flight().is_some_and(|now| matches!(now.progress, Progress::Publishing { .. }));
    if change.rows.iter().any(|row| matches!(row, Row::RunEnded { .. })) {
        return (Some(Moment::Published), Some(Moment::Finished));
    }
    // The agent opens its session before it is prompted.
    if change.log.iter().any(|line| line.kind.starts_with("agent.") && line.kind != "agent.session") {
        return (None, Some(Moment::Prompted));
    }
    if publishing(&change.job) && !publishing(before) {
        return (Some(Moment::Collected), Some(Moment::TurnEnded));
    }
    // A heartbeat changes the lease, so it is no start of a turn.
    let quiet = change.rows.is_empty() && change.log.is_empty() && change.job.lease() == before.lease();
    (None, quiet.then_some(Moment::TurnBegun))
}

#[async_trait]
impl Tap for CrashingMachine {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), StoreError> {
        self.wait_if_crashed().await;
        if let StoreCall::Update { before, change: Some(change) } = call {
            self.crash_at(moments(before, change).0).await;
        }
        Ok(())
    }

    async fn after(&self, call: StoreCall<'_>) -> Result<(), StoreError> {
        let moment = match call {
            StoreCall::Update { before, change: Some(change) } => moments(before, change).1,
            StoreCall::Claim { taken: true } => Some(Moment::Claimed),
            _ => None,
        };
        self.crash_at(moment).await;
        Ok(())
    }

    async fn woken(&self) {
        self.wait_if_crashed().await;
    }
}

/// The code hosts, as a machine that may crash reaches them.
pub(crate) struct CrashingForges(pub(crate) Arc<CrashingMachine>);

#[async_trait]
impl Forges for CrashingForges {
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        Ok(Arc::new(CrashingForge { machine: Arc::clone(&self.0), forge: self.0.hosts.of(project).await? }))
    }

    async fn check(&self, project: &Project, secrets: &SecretChanges) -> Result<Vec<Finding>, Reason> {
        self.0.hosts.check(project, secrets).await
    }

    async fn prepare(&self, project: &Project) -> Result<(), ForgeError> {
        self.0.hosts.prepare(project).await
    }

    async fn code_host(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError> {
        self.0.hosts.code_host(project).await
    }

    async fn addresses(&self, name: &str) -> Vec<std::net::IpAddr> {
        self.0.hosts.addresses(name).await
    }
}

struct CrashingForge {
    machine: Arc<CrashingMachine>,
    forge: Arc<dyn Forge>,
}

#[async_trait]
impl Forge for CrashingForge {
    fn host(&self) -> HostName {
        self.forge.host()
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        self.machine.wait_if_crashed().await;
        self.forge.remote().await
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        self.machine.wait_if_crashed().await;
        self.forge.repository().await
    }

    async fn find_pulls(&self, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        self.machine.wait_if_crashed().await;
        self.machine.crash_at(Some(Moment::Pushed)).await;
        self.forge.find_pulls(head).await
    }

    async fn create_pull(&self, new: &NewPull) -> Result<CreatedPull, ForgeError> {
        self.machine.wait_if_crashed().await;
        let opened = self.forge.create_pull(new).await;
        self.machine.crash_at(Some(Moment::Opened)).await;
        opened
    }

    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError> {
        self.machine.wait_if_crashed().await;
        self.forge.pull(number).await
    }

    async fn update_pull(&self, number: u64, change: &PullChange) -> Result<(), ForgeError> {
        self.machine.wait_if_crashed().await;
        self.forge.update_pull(number, change).await
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        self.forge.discussion()
    }

    fn checks(&self) -> Option<&dyn Checks> {
        self.forge.checks()
    }
}
