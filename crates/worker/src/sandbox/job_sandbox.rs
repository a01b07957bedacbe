//! The sandbox of a job: its folders, limits and outbound rules, with which its programs are started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::egress::Allowlist;
use journeyman_core::ports::{Image, Layout, Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::project::Resources;
use tokio::time::Instant;

use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::outbound;
use crate::workspace::Workspace;
use crate::workspace::free_space::Space;

/// The first pause before an unreachable engine is asked again, and the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The time for which a start waits for a container engine that does not answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartTimeout {
    /// The time after which the start fails.
    time: Duration,
    /// The time that remains once the worker shuts down.
    after_shutdown: Duration,
}

impl StartTimeout {
    /// The timeout before the turn. A failed start loses nothing then: the message waits, and is retried.
    pub(crate) const BEFORE_TURN: Self = Self { time: Duration::from_secs(60), after_shutdown: Duration::ZERO };
    /// The timeout after the turn. It is longer, because a failed start would lose the work of the turn, which has cost
    /// time and money.
    pub(crate) const AFTER_TURN: Self = Self { time: Duration::from_secs(600), after_shutdown: Duration::from_secs(5) };
}

/// The sandbox of a job.
pub(crate) struct JobSandbox {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    pub(crate) workspace: Workspace,
    /// The paths that programs may read in addition to their own folders.
    pub(crate) readable: Readable,
    pub(crate) resources: Resources,
    /// The destinations that programs may reach.
    pub(crate) egress: Allowlist,
    /// The container image, if the back end uses images.
    pub(crate) image: Option<Image>,
    /// The disk that the programs write to.
    pub(crate) space: Arc<Space>,
}

/// The paths that programs may read: the objects of mirrors. More are known once the submodules of a commit are.
#[derive(Debug, Default)]
pub(crate) struct Readable(Mutex<Vec<PathBuf>>);

impl Readable {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(Mutex::new(vec![path]))
    }

    /// Adds paths for programs that are started later.
    fn extend(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            if !all.contains(&path) {
                all.push(path);
            }
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl JobSandbox {
    /// Lets programs that are started later read the objects of these mirrors, and no one else.
    pub(crate) async fn read_objects(&self, objects: Vec<PathBuf>) -> Result<(), RunError> {
        let mirrors: Vec<PathBuf> = objects.iter().filter_map(|folder| Some(folder.parent()?.to_owned())).collect();
        self.sandbox.restrict(&mirrors).await?;
        self.readable.extend(objects);
        Ok(())
    }

    /// Returns the same sandbox for another workspace.
    pub(crate) fn with_workspace(&self, workspace: Workspace, readable: Readable) -> Self {
        Self {
            sandbox: Arc::clone(&self.sandbox),
            workspace,
            readable,
            resources: self.resources,
            egress: self.egress.clone(),
            image: self.image.clone(),
            space: Arc::clone(&self.space),
        }
    }

    /// Returns the parameters for starting a program with the agent's home.
    pub(crate) fn spawn(&self, argv: Vec<String>, environment: BTreeMap<String, String>) -> Spawn {
        Spawn {
            argv,
            environment,
            workspace: self.workspace.tree.clone(),
            home: self.workspace.home.clone(),
            readable: self.readable.paths(),
            writable: Vec::new(),
            listen: Vec::new(),
            resources: self.resources,
            image: self.image.clone(),
        }
    }

    /// Starts a program; if the container engine does not answer, waits until it does.
    pub(crate) async fn start(
        &self,
        spawn: Spawn,
        signals: &Signals,
        timeout: StartTimeout,
    ) -> Result<Spawned, RunError> {
        start(&*self.sandbox, spawn, signals, timeout).await
    }

    /// Returns the parameters for starting a program that may use the egress proxy, which its variables name.
    pub(crate) fn spawn_with_egress(&self, argv: Vec<String>, mut environment: BTreeMap<String, String>) -> Spawn {
        if !self.sandbox.has_own_network() {
            return self.spawn(argv, environment);
        }
        for (name, value) in outbound::variables() {
            environment.entry(name).or_insert(value);
        }
        Spawn { listen: vec![outbound::EGRESS_PORT], ..self.spawn(argv, environment) }
    }

    /// Returns whether programs have a separate loopback.
    pub(crate) fn has_own_network(&self) -> bool {
        self.sandbox.has_own_network()
    }

    /// Returns the paths of the folders inside the sandbox.
    pub(crate) fn layout(&self) -> Layout {
        self.sandbox.layout(&self.workspace.tree, &self.workspace.home)
    }

    /// Makes the sandbox's user the owner of the job's folders, which the host has created.
    pub(crate) async fn adopt_folders(&self) -> Result<(), RunError> {
        Ok(self.sandbox.adopt(&self.workspace.folders()).await?)
    }
}

async fn start(
    sandbox: &dyn Sandbox,
    spawn: Spawn,
    signals: &Signals,
    timeout: StartTimeout,
) -> Result<Spawned, RunError> {
    let shutdown = async {
        signals.shutdown.cancelled().await;
        tokio::time::sleep(timeout.after_shutdown).await;
    };
    tokio::pin!(shutdown);
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let error = match sandbox.spawn(spawn.clone()).await {
            Err(error @ SandboxError::EngineUnreachable(_)) => error,
            other => return Ok(other?),
        };
        let left = timeout.time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(error.into());
        }
        tracing::warn!(workspace = %spawn.workspace.display(), %error, "a program waits for the container engine");
        tokio::select! {
            () = tokio::time::sleep(pause.min(left)) => pause = (pause * 2).min(LONGEST_PAUSE),
            () = signals.lost.cancelled() => return Err(RunError::LeaseLost),
            () = &mut shutdown => return Err(RunError::HandedBack),
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
    async fn start(calls: u32, signals: &Signals, timeout: StartTimeout) -> (RunError, u64) {
        let begun = Instant::now();
        let started = super::start(&unreachable_for(calls), Spawn::default(), signals, timeout).await;
        let Err(error) = started else { panic!("nothing starts") };
        (error, begun.elapsed().as_secs())
    }

    fn failed(error: &RunError) -> (ReasonCode, bool) {
        let RunError::Failed { reason, retry } = error else { panic!("{error}") };
        (reason.code, *retry)
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_waits_for_an_engine_that_comes_back_and_for_nothing_else() {
        let signals = signals();
        let (error, seconds) = start(10, &signals, StartTimeout::AFTER_TURN).await;
        assert_eq!(failed(&error), (ReasonCode::ImageRefused, false), "{error}");
        assert!((30..60).contains(&seconds), "{seconds}");
        let (error, seconds) = start(0, &signals, StartTimeout::AFTER_TURN).await;
        assert_eq!((failed(&error), seconds), ((ReasonCode::ImageRefused, false), 0), "{error}");
        for timeout in [StartTimeout::BEFORE_TURN, StartTimeout::AFTER_TURN] {
            let (error, seconds) = start(u32::MAX, &signals, timeout).await;
            assert_eq!(failed(&error), (ReasonCode::SandboxUnavailable, true), "{error}");
            assert_eq!(seconds, timeout.time.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_waits_ends_with_its_run() {
        let lost = signals();
        lost.lost.cancel();
        assert!(matches!(start(u32::MAX, &lost, StartTimeout::AFTER_TURN).await, (RunError::LeaseLost, 0)));
        let shutdown = signals();
        shutdown.shutdown.cancel();
        assert!(matches!(start(u32::MAX, &shutdown, StartTimeout::BEFORE_TURN).await, (RunError::HandedBack, 0)));
        assert!(matches!(start(u32::MAX, &shutdown, StartTimeout::AFTER_TURN).await, (RunError::HandedBack, 5)));
    }
}
