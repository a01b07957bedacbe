//! Where the programs of a job run: its folders, in a sandbox, with its limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::egress::Allowlist;
use journeyman_core::ports::{Image, Layout, Resources, Sandbox, SandboxError, Spawn, Spawned};
use tokio::time::Instant;

use crate::failure::Stopped;
use crate::lease::Signals;
use crate::space::Space;
use crate::ways;
use crate::workspace::Workspace;

/// The first pause before an unreachable engine is asked again, and the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The time for which a start waits for a container engine that does not answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The time after which the start fails.
    time: Duration,
    /// The time that remains once the worker shuts down.
    after_shutdown: Duration,
}

impl Patience {
    /// Before the turn, nothing is lost: the message waits as well.
    pub(crate) const BEFORE_TURN: Self = Self { time: Duration::from_secs(60), after_shutdown: Duration::ZERO };
    /// After the turn, which has cost time and money: its tree is kept for this long.
    pub(crate) const AFTER_TURN: Self = Self { time: Duration::from_secs(600), after_shutdown: Duration::from_secs(5) };
}

/// A job's room.
pub(crate) struct Room {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) workspace: Workspace,
    /// What programs may read beside their own folders: the objects of the mirror.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) resources: Resources,
    /// What they may reach.
    pub(crate) egress: Allowlist,
    /// What they find as their system, where sandboxes have images.
    pub(crate) image: Option<Image>,
    /// The disk that the programs write to.
    pub(crate) space: Arc<Space>,
}

impl Room {
    /// How a program is started here, with the agent's home.
    pub(crate) fn spawn(&self, argv: Vec<String>, environment: BTreeMap<String, String>) -> Spawn {
        Spawn {
            argv,
            environment,
            workspace: self.workspace.tree.clone(),
            home: self.workspace.home.clone(),
            readable: self.readable.clone(),
            writable: Vec::new(),
            listen: Vec::new(),
            resources: self.resources,
            image: self.image.clone(),
        }
    }

    /// Starts a program; if the container engine does not answer, waits until it does.
    pub(crate) async fn start(&self, spawn: Spawn, signals: &Signals, patience: Patience) -> Result<Spawned, Stopped> {
        start(&*self.sandbox, spawn, signals, patience).await
    }

    /// The same for a program that may reach out; where it finds the way is among its variables.
    pub(crate) fn spawn_with_egress(&self, argv: Vec<String>, mut environment: BTreeMap<String, String>) -> Spawn {
        if !self.sandbox.has_own_network() {
            return self.spawn(argv, environment);
        }
        for (name, value) in ways::variables() {
            environment.entry(name).or_insert(value);
        }
        Spawn { listen: vec![ways::EGRESS_PORT], ..self.spawn(argv, environment) }
    }

    /// Whether programs have a loopback of their own.
    pub(crate) fn has_own_network(&self) -> bool {
        self.sandbox.has_own_network()
    }

    /// The folders as the agent sees them.
    pub(crate) fn layout(&self) -> Layout {
        self.sandbox.layout(&self.workspace.tree, &self.workspace.home)
    }

    /// Gives the job's folders, as the host has made them, to those who run here.
    pub(crate) async fn furnish(&self) -> Result<(), Stopped> {
        let Workspace { tree, home, desk, .. } = &self.workspace;
        Ok(self.sandbox.adopt(&[tree.clone(), home.clone(), desk.clone()]).await?)
    }
}

async fn start(sandbox: &dyn Sandbox, spawn: Spawn, signals: &Signals, patience: Patience) -> Result<Spawned, Stopped> {
    let shutdown = async {
        signals.shutdown.cancelled().await;
        tokio::time::sleep(patience.after_shutdown).await;
    };
    tokio::pin!(shutdown);
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let error = match sandbox.spawn(spawn.clone()).await {
            Err(error @ SandboxError::EngineUnreachable(_)) => error,
            other => return Ok(other?),
        };
        let left = patience.time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(error.into());
        }
        tracing::warn!(workspace = %spawn.workspace.display(), %error, "a program waits for the container engine");
        tokio::select! {
            () = tokio::time::sleep(pause.min(left)) => pause = (pause * 2).min(LONGEST_PAUSE),
            () = signals.lost.cancelled() => return Err(Stopped::LeaseLost),
            () = &mut shutdown => return Err(Stopped::HandedBack),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use journeyman_core::run::ReasonCode;
    use journeyman_testkit::FakeSandbox;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Returns a sandbox whose engine does not answer the first `calls` starts, and then lacks the image.
    fn unreachable_for(calls: u32) -> FakeSandbox {
        let left = AtomicU32::new(calls);
        FakeSandbox::new().on_spawn(move |_| {
            let is_away = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            Err(match is_away {
                true => SandboxError::EngineUnreachable("the engine at /x does not answer".into()),
                false => SandboxError::ImageMissing("it answers".into()),
            })
        })
    }

    fn signals() -> Signals {
        let [stop, lost, shutdown] = std::array::from_fn(|_| CancellationToken::new());
        Signals { stop, lost, shutdown }
    }

    /// Returns the result of a start whose engine does not answer the first `calls` starts, and its duration in
    /// seconds.
    async fn start(calls: u32, signals: &Signals, patience: Patience) -> (Stopped, u64) {
        let begun = Instant::now();
        let started = super::start(&unreachable_for(calls), Spawn::default(), signals, patience).await;
        let Err(stopped) = started else { panic!("nothing starts") };
        (stopped, begun.elapsed().as_secs())
    }

    fn failed(stopped: &Stopped) -> (ReasonCode, bool) {
        let Stopped::Failed { reason, retry } = stopped else { panic!("{stopped}") };
        (reason.code, *retry)
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_waits_for_an_engine_that_comes_back_and_for_nothing_else() {
        let signals = signals();
        let (stopped, seconds) = start(10, &signals, Patience::AFTER_TURN).await;
        assert_eq!(failed(&stopped), (ReasonCode::ImageRefused, false), "{stopped}");
        assert!((30..60).contains(&seconds), "{seconds}");
        let (stopped, seconds) = start(0, &signals, Patience::AFTER_TURN).await;
        assert_eq!((failed(&stopped), seconds), ((ReasonCode::ImageRefused, false), 0), "{stopped}");
        for patience in [Patience::BEFORE_TURN, Patience::AFTER_TURN] {
            let (stopped, seconds) = start(u32::MAX, &signals, patience).await;
            assert_eq!(failed(&stopped), (ReasonCode::SandboxUnavailable, true), "{stopped}");
            assert_eq!(seconds, patience.time.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_waits_ends_with_its_run() {
        let lost = signals();
        lost.lost.cancel();
        assert!(matches!(start(u32::MAX, &lost, Patience::AFTER_TURN).await, (Stopped::LeaseLost, 0)));
        let shutdown = signals();
        shutdown.shutdown.cancel();
        assert!(matches!(start(u32::MAX, &shutdown, Patience::BEFORE_TURN).await, (Stopped::HandedBack, 0)));
        assert!(matches!(start(u32::MAX, &shutdown, Patience::AFTER_TURN).await, (Stopped::HandedBack, 5)));
    }
}
