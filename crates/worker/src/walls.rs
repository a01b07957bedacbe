//! Whether the machine's sandbox is what agents may be run in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use journeyman_core::job::Job;
use journeyman_core::ports::{Containment, Sandbox};
use journeyman_core::project::DEFAULT_AGENT;
use journeyman_core::run::ReasonCode;

use crate::failure::Stopped;

/// What was found wanting is looked at again after this: somebody may have mended it.
const AGAIN: Duration = Duration::from_secs(10);

/// What the names of models begin with that the built-in agent plays itself.
const TEST_MODELS: &str = "test/";

/// The sandbox of a machine, and what is known of it.
pub struct Walls {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    given_up: Vec<String>,
    /// The last look, and when it was.
    seen: Mutex<Option<(Instant, Containment)>>,
    /// One looks at a time.
    looking: tokio::sync::Mutex<()>,
}

impl Walls {
    /// A sandbox, and the names of guarantees that the configuration does without.
    #[must_use]
    pub fn new(sandbox: Arc<dyn Sandbox>, given_up: Vec<String>) -> Self {
        Self { sandbox, given_up, seen: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// What holds of it: tried once, and again where it was not enough.
    pub async fn containment(&self) -> Containment {
        let _looking = self.looking.lock().await;
        if let Some((at, containment)) = self.last()
            && (containment.is_enough() || at.elapsed() < AGAIN)
        {
            return containment;
        }
        let guarantees = self.sandbox.probe().await;
        let containment = Containment { sandbox: self.sandbox.name(), guarantees, given_up: self.given_up.clone() };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Some((Instant::now(), containment.clone()));
        containment
    }

    /// What was found last.
    pub(crate) fn seen(&self) -> Option<Containment> {
        self.last().map(|(_, containment)| containment)
    }

    fn last(&self) -> Option<(Instant, Containment)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses a job whose agent may not be run here. The test model, which does what its prompt says and no more, may
    /// do so in a sandbox that lacks something.
    pub(crate) async fn check(&self, job: &Job) -> Result<(), Stopped> {
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
