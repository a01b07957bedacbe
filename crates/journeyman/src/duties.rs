//! Duties: the periodic work of the service.
//!
//! A duty of the whole installation is carried out by one process at a time, which holds a lease in the database. A
//! duty of a machine is carried out by each process. A duty that fails or takes longer than its lease is repeated, so
//! duties work in small pieces and continue where they are interrupted.

mod blobs;
mod checks;
mod comparisons;
mod credentials;
mod duty;
mod git;
mod outbox;
mod polls;
mod progress;
mod retention;
mod workspaces;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use journeyman_app::{Deliverer, HostEffects, Poller, ProgressReporter, UseCases};
use journeyman_core::ports::{CredentialTotals, DutyMeter, DutyTotals, PollTotals, Store};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_worker::Host;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use self::blobs::SweepBlobs;
use self::checks::ReadChecks;
use self::comparisons::{ComparePulls, PlanComparisons};
use self::credentials::WatchCredentials;
use self::duty::{Duty, Scope};
use self::git::MaintainGit;
pub(crate) use self::git::Repositories;
use self::outbox::CarryOutEffects;
use self::polls::PollCodeHosts;
use self::progress::ReportProgress;
use self::retention::ApplyRetention;
use self::workspaces::RemoveIdleWorkspaces;
use crate::config::Settings;
use crate::system::Machine;

/// The longest interval at which a process checks whether a duty of the installation is due.
const CHECK: Duration = Duration::from_secs(60);

/// The time limit of a duty of a machine. Duties work in small pieces, so one that takes longer is stuck.
const MACHINE_LIMIT: Duration = Duration::from_secs(1800);

/// The largest difference between the clocks of two processes at which only one of them can hold the lease of a duty.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(300);

/// The longest delay until a failed duty is repeated.
const RETRY: Duration = Duration::from_secs(60);

/// The duties of this process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Duties {
    store: Arc<dyn Store>,
    duties: Arc<[Box<dyn Duty>]>,
    totals: Arc<Mutex<BTreeMap<&'static str, DutyTotals>>>,
    poller: Option<Arc<Poller>>,
    deliverer: Option<Deliverer>,
    cases: Option<UseCases>,
}

impl Duties {
    /// Returns the duties of a process; `host` is `None` if the process does not carry out runs.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        cases: UseCases,
        effects: HostEffects,
        repositories: Repositories,
        host: Option<Arc<Host>>,
        settings: &Settings,
    ) -> Self {
        let mut duties: Vec<Box<dyn Duty>> =
            vec![Box::new(ApplyRetention { store: Arc::clone(&store), retention: settings.retention })];
        duties.push(Box::new(MaintainGit { store: Arc::clone(&store), repositories }));
        duties.push(Box::new(ReadChecks(cases.clone())));
        duties.push(Box::new(PlanComparisons(cases.clone())));
        duties.push(Box::new(ComparePulls(cases.clone())));
        duties.push(Box::new(ReportProgress(ProgressReporter::new(cases.clone()))));
        let poller = Arc::new(Poller::new(cases.clone()));
        duties.push(Box::new(PollCodeHosts { poller: Arc::clone(&poller) }));
        duties.push(Box::new(WatchCredentials(cases.clone())));
        let deliverer = cases.deliverer(Arc::new(Machine));
        duties.push(Box::new(CarryOutEffects::new("code_host_effects", Arc::clone(&store), Arc::new(effects))));
        if let Some(host) = host {
            duties.push(Box::new(CarryOutEffects::new("outbox", Arc::clone(&store), host.clone())));
            duties.push(Box::new(SweepBlobs::new(Arc::clone(&host), settings.session_keep)));
            duties.push(Box::new(RemoveIdleWorkspaces { host, idle: settings.workspace_idle }));
        }
        Self { poller: Some(poller), deliverer: Some(deliverer), cases: Some(cases), ..Self::with(store, duties) }
    }

    fn with(store: Arc<dyn Store>, duties: Vec<Box<dyn Duty>>) -> Self {
        Self { store, duties: duties.into(), totals: Arc::default(), poller: None, deliverer: None, cases: None }
    }

    /// Carries out the duties until the future is dropped.
    pub(crate) async fn run(&self) {
        let mut tasks = JoinSet::new();
        for index in 0..self.duties.len() {
            let all = self.clone();
            tasks.spawn(async move {
                if let Some(duty) = all.duties.get(index) {
                    all.repeat(&**duty).await;
                }
            });
        }
        if let Some(deliverer) = self.deliverer.clone() {
            tasks.spawn(async move { deliverer.run().await });
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn repeat(&self, duty: &dyn Duty) {
        let check = match duty.scope() {
            Scope::Installation(_) => duty.period().min(CHECK),
            Scope::Machine => duty.period(),
        };
        let mut timer = tokio::time::interval_at(tokio::time::Instant::now() + duty.delay(), check);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            match duty.scope() {
                Scope::Machine => {
                    self.carry_out(duty, MACHINE_LIMIT).await;
                }
                Scope::Installation(lease) => self.carry_out_if_due(duty, lease).await,
            }
        }
    }

    /// Carries out a duty of the installation if it is due and no other process has begun it.
    async fn carry_out_if_due(&self, duty: &dyn Duty, lease: Duration) {
        let (name, longest) = (duty.name(), duty.period().max(lease) + CLOCK_DIFFERENCE);
        match duty.is_needed().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tracing::warn!(duty = name, %error, "a duty could not be started"),
        }
        let token = match self.store.begin_duty(name, Machine.now(), lease, longest).await {
            Ok(Some(token)) => token,
            Ok(None) => return,
            Err(error) => return tracing::warn!(duty = name, %error, "a duty could not be started"),
        };
        let succeeded = self.carry_out(duty, lease).await;
        let next = if succeeded { duty.period() } else { duty.period().min(RETRY) };
        if let Err(error) = self.store.end_duty(name, token, Machine.now() + next).await {
            tracing::warn!(duty = name, %error, "the end of a duty could not be stored; the lease must expire first");
        }
    }

    /// Carries out a duty, for at most `limit`. Returns whether it succeeded.
    async fn carry_out(&self, duty: &dyn Duty, limit: Duration) -> bool {
        let (name, begun) = (duty.name(), Instant::now());
        // After a panic, the duty is repeated as after an error.
        let work = AssertUnwindSafe(duty.carry_out()).catch_unwind();
        let done = match tokio::time::timeout(limit, work).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(anyhow::anyhow!("the duty panicked; the log has the panic message")),
            Err(_) => Err(anyhow::anyhow!("the duty took longer than {} s", limit.as_secs())),
        };
        if let Err(error) = &done {
            tracing::warn!(duty = name, error = %format_args!("{error:#}"), "a duty failed and will be repeated");
        }
        self.count(name, done.is_ok(), begun.elapsed(), Machine.now());
        done.is_ok()
    }

    fn count(&self, name: &'static str, succeeded: bool, took: Duration, now: Timestamp) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let none = DutyTotals { name, runs: 0, failures: 0, last_success: None, last_duration: Duration::ZERO };
        let total = totals.entry(name).or_insert(none);
        total.runs += 1;
        total.failures += u64::from(!succeeded);
        total.last_duration = took;
        if succeeded {
            total.last_success = Some(now);
        }
    }
}

impl DutyMeter for Duties {
    fn duties(&self) -> Vec<DutyTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }

    fn polls(&self) -> Vec<PollTotals> {
        self.poller.as_ref().map_or_else(Vec::new, |poller| poller.totals())
    }

    fn credentials(&self) -> Vec<CredentialTotals> {
        self.cases.as_ref().map_or_else(Vec::new, UseCases::credential_totals)
    }
}

#[cfg(test)]
mod tests;
