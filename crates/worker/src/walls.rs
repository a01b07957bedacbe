//! Whether the machine's sandbox is what agents may be run in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::job::Job;
use journeyman_core::ports::{Containment, Sandbox, SandboxError};
use journeyman_core::project::DEFAULT_AGENT;
use journeyman_core::run::ReasonCode;
use tokio::time::Instant;

use crate::failure::Stopped;

/// What was found wanting is looked at again after this: somebody may have mended it.
const AGAIN: Duration = Duration::from_secs(10);

/// How long an answer to [`Walls::available`] counts: it is asked for by whoever likes, and by each run.
const AVAILABLE_TIME: Duration = Duration::from_secs(1);

/// What the names of models begin with that the built-in agent plays itself.
const TEST_MODELS: &str = "test/";

/// The sandbox of a machine, and what is known of it.
pub struct Walls {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    given_up: Vec<String>,
    /// The last look, and when it was; without a time if it says nothing about the next.
    seen: Mutex<Option<(Option<Instant>, Containment)>>,
    /// One looks at a time.
    looking: tokio::sync::Mutex<()>,
    /// The last answer of the sandbox, and when it was asked.
    answer: tokio::sync::Mutex<Option<(Instant, Result<(), SandboxError>)>>,
}

impl Walls {
    /// A sandbox, and the names of guarantees that the configuration does without.
    #[must_use]
    pub fn new(sandbox: Arc<dyn Sandbox>, given_up: Vec<String>) -> Self {
        let (seen, looking, answer) = (Mutex::default(), tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        Self { sandbox, given_up, seen, looking, answer }
    }

    /// Asks whether sandboxes can be made at this moment; a change is logged.
    ///
    /// # Errors
    /// Why they cannot be made, such as [`SandboxError::EngineUnreachable`].
    pub async fn available(&self) -> Result<(), SandboxError> {
        let mut last = self.answer.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < AVAILABLE_TIME
        {
            return answer.clone();
        }
        let answer = self.sandbox.available().await;
        let was_available = last.as_ref().is_none_or(|(_, answer)| answer.is_ok());
        match &answer {
            Err(error) if was_available => tracing::error!(%error, "no sandbox can be made; runs wait for it"),
            Ok(()) if !was_available => tracing::info!("sandboxes can be made again"),
            _ => {}
        }
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// What holds of it: tried once, and again where it was not enough, or is not available.
    pub async fn containment(&self) -> Containment {
        let _looking = self.looking.lock().await;
        let is_available = self.available().await.is_ok();
        if let Some((at, containment)) = self.last()
            && is_available
            && (containment.is_enough() || at.is_some_and(|at| at.elapsed() < AGAIN))
        {
            return containment;
        }
        let guarantees = self.sandbox.probe().await;
        let containment = Containment { sandbox: self.sandbox.name(), guarantees, given_up: self.given_up.clone() };
        // The engine may have gone in the middle of it.
        let is_available = is_available && (containment.is_enough() || self.sandbox.available().await.is_ok());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Some((is_available.then(Instant::now), containment.clone()));
        containment
    }

    /// What was found last.
    pub(crate) fn seen(&self) -> Option<Containment> {
        self.last().map(|(_, containment)| containment)
    }

    fn last(&self) -> Option<(Option<Instant>, Containment)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses a job whose agent may not be run here. The test model, which does what its prompt says and no more, may
    /// do so in a sandbox that lacks something.
    pub(crate) async fn check(&self, job: &Job) -> Result<(), Stopped> {
        self.available().await?;
        if job.agent == DEFAULT_AGENT && job.model.starts_with(TEST_MODELS) {
            return Ok(());
        }
        let containment = self.containment().await;
        let Some(missing) = containment.missing().next() else { return Ok(()) };
        let text = format!(
            "the sandbox of this machine ({}) does not hold \"{}\", and no agent but the test model is run without: {}. \
             Mend it, or give it up in the configuration: sandbox-allow-degraded = [\"{}\"]; journeyman doctor shows all",
            containment.sandbox, missing.name, missing.note, missing.name
        );
        Err(Stopped::may_pass(ReasonCode::SandboxUnsafe, text))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use async_trait::async_trait;
    use journeyman_core::ports::{Guarantee, Layout, Spawn, Spawned};

    use super::*;

    /// A sandbox whose engine may be away.
    #[derive(Default)]
    struct Moody {
        is_away: AtomicBool,
        pings: AtomicU32,
        probes: AtomicU32,
    }

    #[async_trait]
    impl Sandbox for Moody {
        fn name(&self) -> &'static str {
            "moody"
        }

        async fn probe(&self) -> Vec<Guarantee> {
            self.probes.fetch_add(1, Ordering::SeqCst);
            let holds = !self.is_away.load(Ordering::SeqCst);
            vec![Guarantee { name: "files", holds, note: String::new() }]
        }

        fn layout(&self, workspace: &Path, home: &Path) -> Layout {
            Layout { workspace: workspace.into(), home: home.into() }
        }

        fn search_path(&self, host: &str) -> String {
            host.to_owned()
        }

        fn has_own_network(&self) -> bool {
            true
        }

        async fn adopt(&self, _: &[PathBuf]) -> Result<(), SandboxError> {
            Ok(())
        }

        async fn available(&self) -> Result<(), SandboxError> {
            self.pings.fetch_add(1, Ordering::SeqCst);
            if self.is_away.load(Ordering::SeqCst) {
                return Err(SandboxError::EngineUnreachable("the container engine at /x does not answer".into()));
            }
            Ok(())
        }

        async fn spawn(&self, _: Spawn) -> Result<Spawned, SandboxError> {
            Err(SandboxError::NotFound("anything".into()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_look_is_renewed_by_a_ping_and_a_bad_one_as_soon_as_the_engine_is_back() {
        let sandbox = Arc::new(Moody::default());
        let walls = Walls::new(sandbox.clone(), Vec::new());
        let count = || (sandbox.pings.load(Ordering::SeqCst), sandbox.probes.load(Ordering::SeqCst));
        assert!(walls.containment().await.is_enough() && walls.containment().await.is_enough());
        assert_eq!(count(), (1, 1), "both are kept for a moment");
        tokio::time::advance(AVAILABLE_TIME).await;
        assert!(walls.containment().await.is_enough());
        assert_eq!(count(), (2, 1), "a ping is enough");

        sandbox.is_away.store(true, Ordering::SeqCst);
        tokio::time::advance(AVAILABLE_TIME).await;
        assert!(!walls.containment().await.is_enough() && walls.seen().is_some_and(|seen| !seen.is_enough()));
        assert!(matches!(walls.available().await, Err(SandboxError::EngineUnreachable(_))));

        sandbox.is_away.store(false, Ordering::SeqCst);
        tokio::time::advance(AVAILABLE_TIME).await;
        assert!(walls.containment().await.is_enough(), "what it was without an engine says nothing now");
        assert!(walls.available().await.is_ok());
    }
}
