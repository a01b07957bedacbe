//! A machine that dies at a chosen moment of a run: from then on nothing that it asks of the store or the code host is
//! answered, as if it had been switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use journeyman_core::job::change::{Change, Row};
use journeyman_core::job::{Job, Progress, Pull};
use journeyman_core::ports::{Forge, ForgeError, Forges, Remote, StoreError};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::pull::{NewPull, PullState};
use journeyman_core::run::Reason;
use journeyman_forge::CodeHosts;
use journeyman_testkit::{Call, Tap};

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The run was claimed; nothing was done for it yet.
    Claimed,
    /// The turn was noted as begun; the agent has not been prompted.
    TurnBegun,
    /// The agent is at work.
    Prompted,
    /// The turn was collected, and is about to be noted as ended.
    Collected,
    /// The turn was noted as ended; nothing was pushed.
    TurnEnded,
    /// The branch was pushed; no pull request was looked for.
    Pushed,
    /// The pull request was opened; nobody knows.
    Opened,
    /// Everything was done, and is about to be noted.
    Published,
    /// Everything was noted, and the answer is lost.
    Finished,
}

/// What a machine asks of the world, until it dies.
pub(crate) struct Dying {
    hosts: CodeHosts,
    at: Moment,
    dead: AtomicBool,
}

impl Dying {
    pub(crate) fn new(hosts: CodeHosts, at: Moment) -> Arc<Self> {
        Arc::new(Self { hosts, at, dead: AtomicBool::new(false) })
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub(crate) async fn until_dead(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.is_dead() {
            assert!(Instant::now() < end, "{:?} does not come", self.at);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns while the machine lives.
    async fn live(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    /// Dies, if it is that moment.
    async fn may_die(&self, moment: Option<Moment>) {
        if moment == Some(self.at) {
            self.dead.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
    }
}

/// The moment before a change is stored, and the one after.
fn moments(before: &Job, change: &Change) -> (Option<Moment>, Option<Moment>) {
    let publishing = |job: &Job| job.delivery().is_some_and(|now| matches!(now.progress, Progress::Publishing { .. }));
    if change.rows.iter().any(|row| matches!(row, Row::RunEnded { .. })) {
        return (Some(Moment::Published), Some(Moment::Finished));
    }
    // What it says of its session comes before.
    if change.log.iter().any(|line| line.kind.starts_with("agent.") && line.kind != "agent.session") {
        return (None, Some(Moment::Prompted));
    }
    if publishing(&change.job) && !publishing(before) {
        return (Some(Moment::Collected), Some(Moment::TurnEnded));
    }
    // A heartbeat moves the lease.
    let quiet = change.rows.is_empty() && change.log.is_empty() && change.job.lease() == before.lease();
    (None, quiet.then_some(Moment::TurnBegun))
}

#[async_trait]
impl Tap for Dying {
    async fn before(&self, call: Call<'_>) -> Result<(), StoreError> {
        self.live().await;
        if let Call::Update { before, change: Some(change) } = call {
            self.may_die(moments(before, change).0).await;
        }
        Ok(())
    }

    async fn after(&self, call: Call<'_>) -> Result<(), StoreError> {
        let moment = match call {
            Call::Update { before, change: Some(change) } => moments(before, change).1,
            Call::Claim { taken: true } => Some(Moment::Claimed),
            _ => None,
        };
        self.may_die(moment).await;
        Ok(())
    }

    async fn woken(&self) {
        self.live().await;
    }
}

/// The code host, as the machine reaches it.
pub(crate) struct Wire(pub(crate) Arc<Dying>);

#[async_trait]
impl Forges for Wire {
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        Ok(Arc::new(Line { machine: Arc::clone(&self.0), forge: self.0.hosts.of(project).await? }))
    }

    async fn check(&self, project: &Project, secrets: &SecretChanges) -> Result<(), Reason> {
        self.0.hosts.check(project, secrets).await
    }

    async fn prepare(&self, project: &Project) -> Result<(), ForgeError> {
        self.0.hosts.prepare(project).await
    }

    async fn addresses(&self, name: &str) -> Vec<std::net::IpAddr> {
        self.0.hosts.addresses(name).await
    }
}

struct Line {
    machine: Arc<Dying>,
    forge: Arc<dyn Forge>,
}

#[async_trait]
impl Forge for Line {
    async fn remote(&self) -> Result<Remote, ForgeError> {
        self.machine.live().await;
        self.forge.remote().await
    }

    async fn find_open_pull(&self, head: &str) -> Result<Option<Pull>, ForgeError> {
        self.machine.live().await;
        self.machine.may_die(Some(Moment::Pushed)).await;
        self.forge.find_open_pull(head).await
    }

    async fn open_pull(&self, new: &NewPull) -> Result<Option<Pull>, ForgeError> {
        self.machine.live().await;
        let opened = self.forge.open_pull(new).await;
        self.machine.may_die(Some(Moment::Opened)).await;
        opened
    }

    async fn pull_state(&self, number: u64) -> Result<Option<PullState>, ForgeError> {
        self.machine.live().await;
        self.forge.pull_state(number).await
    }
}
