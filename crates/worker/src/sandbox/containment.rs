//! Checks whether the machine's sandbox provides the guarantees that agents require.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journeyman_core::job::Job;
use journeyman_core::ports::{Sandbox, SandboxError};
use journeyman_core::project::DEFAULT_AGENT;
use journeyman_core::run::ReasonCode;
use journeyman_core::worker::Containment;
use tokio::time::Instant;

use crate::error::RunError;

/// Failed checks are retried after this interval at the earliest, because the cause may have passed.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The longest pause between two checks of a sandbox that lacks a required guarantee.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The time for which an answer of [`ContainmentCheck::available`] is cached, because any client can request it, and
/// each run does.
const AVAILABLE_TIME: Duration = Duration::from_secs(1);

/// The prefix of the models that the built-in agent simulates.
const TEST_MODELS: &str = "test/";

/// The sandbox of a machine, and the results of the last checks.
pub struct ContainmentCheck {
    pub(crate) sandbox: Arc<dyn Sandbox>,
    given_up: Vec<String>,
    /// The last result and its time; without a time if the next check must not reuse it.
    seen: Mutex<Option<(Option<Instant>, Containment)>>,
    /// Held during a check, so that checks do not run in parallel.
    checking: tokio::sync::Mutex<()>,
    /// The last answer of the sandbox and its time.
    answer: tokio::sync::Mutex<Option<(Instant, Result<(), SandboxError>)>>,
}

impl ContainmentCheck {
    /// Returns a check of a sandbox. `given_up` has the names of guarantees that the configuration does not require.
    #[must_use]
    pub fn new(sandbox: Arc<dyn Sandbox>, given_up: Vec<String>) -> Self {
        let (seen, checking, answer) = (Mutex::default(), tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        Self { sandbox, given_up, seen, checking, answer }
    }

    /// Checks whether sandboxes can be created now, and logs a change.
    ///
    /// # Errors
    /// The reason why sandboxes cannot be created, such as [`SandboxError::EngineUnreachable`].
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
            Err(error) if was_available => tracing::error!(%error, "no sandbox can be created; runs wait"),
            Ok(()) if !was_available => tracing::info!("sandboxes can be created again"),
            _ => {}
        }
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Returns the guarantees of the sandbox. Probes it once, and again if a guarantee was missing or the sandbox was
    /// unavailable.
    pub async fn containment(&self) -> Containment {
        let _checking = self.checking.lock().await;
        let is_available = self.available().await.is_ok();
        if let Some((at, containment)) = self.last()
            && is_available
            && (containment.is_enough() || at.is_some_and(|at| at.elapsed() < RETRY_INTERVAL))
        {
            return containment;
        }
        let guarantees = self.sandbox.probe().await;
        let containment = Containment { sandbox: self.sandbox.name(), guarantees, given_up: self.given_up.clone() };
        // The engine may have become unreachable during the probe.
        let is_available = is_available && (containment.is_enough() || self.sandbox.available().await.is_ok());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Some((is_available.then(Instant::now), containment.clone()));
        containment
    }

    /// Checks the sandbox until agents may be run, with increasing pauses, and passes each new result to `report`.
    /// Without this, a machine without jobs would keep reporting a failure that has passed.
    pub async fn watch(&self, mut report: impl FnMut(&Containment) + Send) {
        let (mut last, mut pause) = (None, RETRY_INTERVAL);
        loop {
            let found = self.containment().await;
            if last.as_ref() != Some(&found) {
                report(&found);
            }
            if found.is_enough() {
                return;
            }
            last = Some(found);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns the last result.
    pub(crate) fn seen(&self) -> Option<Containment> {
        self.last().map(|(_, containment)| containment)
    }

    fn last(&self) -> Option<(Option<Instant>, Containment)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses a job whose agent must not run on this machine. The test model does what its prompt says and no more, so
    /// it may run in a sandbox that lacks guarantees.
    pub(crate) async fn check(&self, job: &Job) -> Result<(), RunError> {
        self.available().await?;
        if job.agent == DEFAULT_AGENT && job.model.starts_with(TEST_MODELS) {
            return Ok(());
        }
        let containment = self.containment().await;
        match missing(&containment) {
            Some(text) => Err(RunError::may_pass(ReasonCode::SandboxUnsafe, text)),
            None => Ok(()),
        }
    }
}

/// Describes all missing guarantees, the remedy for each cause, and the setting to run agents without them.
fn missing(containment: &Containment) -> Option<String> {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let mut causes: Vec<(&str, Vec<&str>)> = Vec::new();
    for guarantee in containment.missing() {
        match causes.iter_mut().find(|(note, _)| *note == guarantee.note) {
            Some((_, names)) => names.push(guarantee.name),
            None => causes.push((&guarantee.note, vec![guarantee.name])),
        }
    }
    if causes.is_empty() {
        return None;
    }
    let described: Vec<String> = causes.iter().map(|(note, names)| format!("{}: {note}", quoted(names))).collect();
    let all: Vec<&str> = containment.missing().map(|guarantee| guarantee.name).collect();
    Some(format!(
        "the sandbox of this machine ({}) does not guarantee {}. Agents other than the test model do not run until it \
         does. {}. To run them without these guarantees, set sandbox-allow-degraded = [{}]",
        containment.sandbox,
        quoted(&all),
        described.join(". "),
        quoted(&all)
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use journeyman_core::worker::Guarantee;
    use journeyman_testkit::FakeSandbox;

    use super::*;

    /// A container engine that can be unreachable, with the number of calls that reached it.
    #[derive(Default)]
    struct FakeEngine {
        is_unreachable: AtomicBool,
        pings: AtomicUsize,
        probes: AtomicUsize,
    }

    /// Returns the check of a sandbox whose probe succeeds while the engine is reachable.
    fn with_engine(engine: &Arc<FakeEngine>) -> ContainmentCheck {
        let (probed, pinged) = (Arc::clone(engine), Arc::clone(engine));
        let probe = move || {
            probed.probes.fetch_add(1, Ordering::SeqCst);
            let holds = !probed.is_unreachable.load(Ordering::SeqCst);
            vec![Guarantee { name: "files", holds, note: String::new() }]
        };
        let available = move || {
            pinged.pings.fetch_add(1, Ordering::SeqCst);
            match pinged.is_unreachable.load(Ordering::SeqCst) {
                true => Err(SandboxError::EngineUnreachable("the container engine at /x does not answer".into())),
                false => Ok(()),
            }
        };
        ContainmentCheck::new(Arc::new(FakeSandbox::new().on_probe(probe).on_available(available)), Vec::new())
    }

    /// Returns the check of a sandbox whose first `times` probes fail, and the number of probes.
    fn failing(times: usize) -> (ContainmentCheck, Arc<AtomicUsize>) {
        let probes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&probes);
        let sandbox = FakeSandbox::new().on_probe(move || {
            let holds = counted.fetch_add(1, Ordering::SeqCst) >= times;
            vec![Guarantee { name: "files", holds, note: "No space left on device".to_owned() }]
        });
        (ContainmentCheck::new(Arc::new(sandbox), Vec::new()), probes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_result_is_confirmed_by_a_ping_and_a_bad_one_is_replaced_once_the_engine_answers() {
        let engine = Arc::new(FakeEngine::default());
        let check = with_engine(&engine);
        let count = || (engine.pings.load(Ordering::SeqCst), engine.probes.load(Ordering::SeqCst));
        assert!(check.containment().await.is_enough() && check.containment().await.is_enough());
        assert_eq!(count(), (1, 1), "both results are cached");
        tokio::time::advance(AVAILABLE_TIME).await;
        assert!(check.containment().await.is_enough());
        assert_eq!(count(), (2, 1), "a ping is enough");

        engine.is_unreachable.store(true, Ordering::SeqCst);
        tokio::time::advance(AVAILABLE_TIME).await;
        assert!(!check.containment().await.is_enough() && check.seen().is_some_and(|seen| !seen.is_enough()));
        assert!(matches!(check.available().await, Err(SandboxError::EngineUnreachable(_))));

        engine.is_unreachable.store(false, Ordering::SeqCst);
        tokio::time::advance(AVAILABLE_TIME).await;
        assert!(check.containment().await.is_enough(), "the earlier result is not reused");
        assert!(check.available().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_probe_is_retried() {
        let (check, probes) = failing(1);
        assert!(!check.containment().await.is_enough());
        assert!(!check.containment().await.is_enough(), "the probe is not repeated immediately");
        assert_eq!(probes.load(Ordering::SeqCst), 1);
        tokio::time::advance(RETRY_INTERVAL).await;
        assert!(check.containment().await.is_enough());
        tokio::time::advance(LONGEST_PAUSE).await;
        assert!(check.containment().await.is_enough());
        assert_eq!(probes.load(Ordering::SeqCst), 2, "a successful probe is not repeated");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_has_passed_is_no_longer_reported_even_without_a_job() {
        let (check, probes) = failing(3);
        let mut reports = Vec::new();
        check.watch(|found| reports.push(found.is_enough())).await;
        assert_eq!(reports, [false, true], "each result is reported once");
        assert_eq!(probes.load(Ordering::SeqCst), 4);
        assert!(check.seen().is_some_and(|found| found.is_enough()));
    }
}
