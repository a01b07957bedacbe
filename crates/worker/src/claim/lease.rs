//! Keeps a run's lease alive, and watches for causes that end the run early: cancellation, interruption, takeover,
//! shutdown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use journeyman_core::engine::{Claimed, Engine};
use journeyman_core::ids::{JobId, RunId};
use journeyman_core::job::command::{Outcome, Report};
use journeyman_core::job::event::TranscriptEntry;
use journeyman_core::job::turn::Ending;
use journeyman_core::job::{Job, Token};
use journeyman_core::ports::{StoreError, UpdateError, WorkStore};
use journeyman_core::run::{Reason, Usage};
use journeyman_core::time::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::claim::redaction::Redactor;

/// The interval at which a report is repeated while the store is unavailable.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// The signals that end a run early.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    /// An interrupting message waits: end the turn, and keep what is committed.
    pub(crate) stop: CancellationToken,
    /// The lease is lost: end everything, and report nothing.
    pub(crate) lost: CancellationToken,
    /// The worker is shutting down: hand the run back.
    pub(crate) shutdown: CancellationToken,
}

/// Sends the reports of one run, under its lease.
#[derive(Clone)]
pub(crate) struct Reporter {
    engine: Engine,
    job: JobId,
    run: RunId,
    token: Token,
    signals: Signals,
    /// The redactor of the project's secrets, once these are known.
    redactor: Arc<OnceLock<Redactor>>,
    /// The model usage of the run.
    usage: Arc<Mutex<Usage>>,
    /// The sequence number of the newest event in the job's log that an answer to one of this run's reports has
    /// covered. This event and earlier ones need no action.
    seen: Arc<AtomicU64>,
}

impl Reporter {
    pub(crate) fn new(engine: Engine, claimed: &Claimed, signals: Signals) -> Self {
        let seen = Arc::new(AtomicU64::new(claimed.job.last_seq));
        let (redactor, usage) = (Arc::default(), Arc::default());
        Self {
            engine,
            job: claimed.job.id,
            run: claimed.lease.run,
            token: claimed.lease.token,
            signals,
            redactor,
            usage,
            seen,
        }
    }

    /// Sends a report, and returns the updated job.
    pub(crate) async fn report(&self, report: Report) -> Result<Job, UpdateError> {
        self.report_all(vec![report]).await
    }

    /// Sends several reports, of which the store accepts all or none, and returns the updated job.
    pub(crate) async fn report_all(&self, reports: Vec<Report>) -> Result<Job, UpdateError> {
        let reports = reports.into_iter().map(|report| self.redacted(report)).collect();
        let span = tracing::debug_span!("command", otel.name = "report", job = %self.job, run = %self.run);
        let job = self.engine.report_all(self.job, self.token, reports).instrument(span).await?;
        self.update_signals(&job);
        self.seen.fetch_max(job.last_seq, Ordering::SeqCst);
        Ok(job)
    }

    /// Sends reports that are made after the agent's turn, when an error would lose work: while the store is unavailable,
    /// they are repeated until the lease is lost. If the lease expires meanwhile, the store refuses them.
    pub(crate) async fn report_until_lost(&self, reports: Vec<Report>) -> Result<Job, UpdateError> {
        loop {
            match self.report_all(reports.clone()).await {
                Err(UpdateError::Store(error)) if !self.signals.lost.is_cancelled() => {
                    tracing::warn!(job = %self.job, %error, "a report of a run could not be stored; retrying");
                    tokio::time::sleep(RETRY_PERIOD).await;
                }
                done => return done,
            }
        }
    }

    /// Adds entries to the log. While the store is unavailable, this waits until the lease is lost, because the turn would
    /// have to be repeated without them. If it is not known whether they were stored, they are not sent twice: an entry
    /// about a model call would be charged twice.
    pub(crate) async fn transcript(&self, entries: Vec<TranscriptEntry>) -> Result<(), UpdateError> {
        loop {
            match self.report(Report::Transcript(entries.clone())).await {
                Err(UpdateError::Store(StoreError::Unknown(detail))) => {
                    tracing::warn!(job = %self.job, detail, "entries may be missing from the log of a job");
                    return Ok(());
                }
                Err(UpdateError::Store(error)) if !self.signals.lost.is_cancelled() => {
                    tracing::warn!(job = %self.job, %error, "entries of a log could not be stored; retrying");
                    tokio::time::sleep(RETRY_PERIOD).await;
                }
                done => return done.map(drop),
            }
        }
    }

    /// Records model calls that ended after the run lost its lease, because they have a cost.
    pub(crate) async fn late_calls(&self, calls: Vec<TranscriptEntry>) {
        if let Err(error) = self.engine.record_late_calls(self.job, self.run, calls).await {
            tracing::warn!(%error, job = %self.job, "the last model calls of a run are missing from its log and its usage");
        }
    }

    /// Adds to the model usage of the run. It is reported with the outcome, whether the run succeeds or fails.
    pub(crate) fn add_usage(&self, usage: Usage) {
        let mut sum = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let cost_micros = match (sum.cost_micros, usage.cost_micros) {
            (Some(before), Some(more)) => Some(before.saturating_add(more)),
            (before, more) => before.or(more),
        };
        *sum = Usage { cost_micros, ..sum.and(&usage) };
    }

    pub(crate) fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the redactor for all later reports.
    pub(crate) fn hide(&self, redactor: Redactor) {
        // A run sets this only once.
        drop(self.redactor.set(redactor));
    }

    pub(crate) fn redactor(&self) -> Option<&Redactor> {
        self.redactor.get()
    }

    /// Returns a report without secret values. All output of programs passes through this method on its way to the
    /// store.
    fn redacted(&self, report: Report) -> Report {
        let Some(redactor) = self.redactor.get() else { return report };
        match report {
            Report::Transcript(entries) => Report::Transcript(
                entries
                    .into_iter()
                    .map(|entry| TranscriptEntry { data: redactor.document(entry.data), ..entry })
                    .collect(),
            ),
            Report::Finished { outcome: Outcome::Failed { reason, retry }, usage } => {
                Report::Finished { outcome: Outcome::Failed { reason: self.redact(&reason), retry }, usage }
            }
            Report::Finished { outcome: Outcome::Waiting { reason, since, patience, next }, usage } => {
                let reason = self.redact(&reason);
                Report::Finished { outcome: Outcome::Waiting { reason, since, patience, next }, usage }
            }
            Report::TurnEnded { head, commits, artifacts, ending: Ending::CutShort(reason) } => {
                let ending = Ending::CutShort(self.redact(&reason));
                Report::TurnEnded { head, commits, artifacts, ending }
            }
            other => other,
        }
    }

    /// Returns a reason without the secret values, which must not be stored.
    pub(crate) fn redact(&self, reason: &Reason) -> Reason {
        let hidden = self.redactor.get().map(|redactor| redactor.text(&reason.text));
        let text = hidden.map_or_else(|| reason.text.clone(), std::borrow::Cow::into_owned);
        Reason::new(reason.code, text)
    }

    /// Signals the run if the job shows that the lease is lost or that an interrupting message waits.
    fn update_signals(&self, job: &Job) {
        // After the last report, the job has no lease, but then nothing listens to the signals.
        if job.lease().is_none_or(|lease| lease.token != self.token) {
            self.signals.lost.cancel();
        } else if job.in_flight().is_some_and(|message| message.stop) {
            self.signals.stop.cancel();
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.now()
    }
}

/// Keeps the lease alive, and watches the job, until this future is dropped with the run.
pub(crate) async fn keep(reporter: Reporter, store: Arc<dyn WorkStore>, lease: Duration, signals: Signals) {
    tokio::join!(send_heartbeats(&reporter, lease, &signals), listen(store, &reporter, &signals));
}

async fn send_heartbeats(reporter: &Reporter, lease: Duration, signals: &Signals) {
    let mut ticks = tokio::time::interval(lease / 3);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        match reporter.report(Report::Heartbeat { lease_until: reporter.now() + lease }).await {
            Ok(_) => {}
            Err(UpdateError::Rejected(_) | UpdateError::NotFound | UpdateError::NoProject) => {
                return signals.lost.cancel();
            }
            // The store is unavailable. The lease is still valid for a while; if it expires, the next heartbeat is
            // rejected.
            Err(error) => tracing::warn!(job = %reporter.job, %error, "a heartbeat could not be stored"),
        }
    }
}

/// Reads the job whenever others add to its log, so that it is cancelled, archived or interrupted immediately, not at
/// the next heartbeat.
async fn listen(store: Arc<dyn WorkStore>, reporter: &Reporter, signals: &Signals) {
    let (id, mut seen) = (reporter.job, 0);
    let mut watch = store.watch(id);
    loop {
        let own = reporter.seen.load(Ordering::SeqCst);
        if own > seen {
            seen = own;
        } else {
            match store.job(id).await {
                Ok(Some(job)) => {
                    seen = job.last_seq;
                    reporter.update_signals(&job);
                }
                Ok(None) => return signals.lost.cancel(),
                Err(error) => {
                    tracing::warn!(job = %id, %error, "the job could not be read");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        watch.changed(seen).await;
    }
}
