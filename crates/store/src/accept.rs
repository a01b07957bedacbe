//! The acceptance of a request, the same for every store: first check the idempotency key, then the command, then the
//! rate limit, then write everything. A store supplies its tables; the rules are only here.

use journeyman_core::idempotency::{self, Claim, Remembered};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::job::change::Change;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::{Accepted, Answer, Guard, RateCharge, UpdateError};
use journeyman_core::rate::{self, RateState, Window};
use journeyman_core::time::Timestamp;

/// The tables that the acceptance of a request reads and writes, under the store's lock.
pub(crate) trait Ledger {
    /// A refusal, or an error of the store.
    type Error: From<UpdateError>;

    /// Returns the base of the current epoch ([`journeyman_core::epoch`]).
    fn epoch(&self) -> u64;

    /// Returns the stored request and answer of an idempotency key.
    fn remembered(&mut self, scope: &str, key: &str) -> Result<Option<Remembered<Answer>>, Self::Error>;
    fn window(&mut self, charge: &RateCharge) -> Result<Option<Window>, Self::Error>;
    fn has_project(&mut self, project: &ProjectId) -> Result<bool, Self::Error>;
    fn job(&mut self, id: JobId) -> Result<Option<Job>, Self::Error>;
    /// Returns another job of the same project that works on the same branch and is not archived.
    fn branch_holder(&mut self, job: &Job) -> Result<Option<JobId>, Self::Error>;

    fn remember(&mut self, claim: &Claim, known: Remembered<Answer>) -> Result<(), Self::Error>;
    fn count(&mut self, charge: &RateCharge, window: Window) -> Result<(), Self::Error>;
    /// Inserts a new job with its rows and log entries.
    fn insert(&mut self, change: &Change) -> Result<(), Self::Error>;
    /// Writes the new state of an existing job, with the rows and log entries of the change.
    fn update(&mut self, change: &Change) -> Result<(), Self::Error>;
}

/// Stores a new job.
pub(crate) fn create<L: Ledger>(
    ledger: &mut L,
    guard: &Guard,
    change: &Change,
    now: Timestamp,
) -> Result<Accepted, L::Error> {
    if let Some(replay) = replay(ledger, guard, now)? {
        return Ok(replay);
    }
    if guard.replays_only {
        return Err(UpdateError::NotReplayed.into());
    }
    if !ledger.has_project(&change.job.project)? {
        return Err(UpdateError::NoProject.into());
    }
    // A generated name contains the ID of the job, so no other job has it yet.
    if change.job.options.names_branch() {
        take_branch(ledger, guard, &change.job)?;
    }
    let rate = charge(ledger, guard, now)?;
    let epoch = ledger.epoch();
    if epoch == change.job.numbering.epoch {
        ledger.insert(change)?;
        return accept(ledger, guard, rate, change, now);
    }
    // A new job has used no numbers, so its numbers begin at 1 in every epoch.
    let mut change = change.clone();
    change.job.numbering.epoch = epoch;
    ledger.insert(&change)?;
    accept(ledger, guard, rate, &change, now)
}

/// Applies the change that `decide` returns to a job.
pub(crate) fn update<L: Ledger>(
    ledger: &mut L,
    id: JobId,
    project: Option<&ProjectId>,
    guard: &Guard,
    decide: &mut journeyman_core::ports::Decide,
    now: Timestamp,
) -> Result<Accepted, L::Error> {
    if let Some(replay) = replay(ledger, guard, now)? {
        return Ok(replay);
    }
    let job = ledger.job(id)?.filter(|job| project.is_none_or(|own| *own == job.project));
    let stored = job.ok_or(UpdateError::NotFound)?;
    let moved = (stored.numbering.epoch != ledger.epoch()).then(|| stored.clone().in_epoch(ledger.epoch()));
    let job = moved.as_ref().unwrap_or(&stored);
    let mut change = decide(job).map_err(UpdateError::Rejected)?;
    if job.status() == JobStatus::Archived {
        take_branch(ledger, guard, &change.job)?;
    }
    let rate = charge(ledger, guard, now)?;
    if change.is_empty(job) {
        // Nothing is stored, so the numbers of the job have not moved either.
        change.job = stored;
    } else {
        ledger.update(&change)?;
    }
    accept(ledger, guard, rate, &change, now)
}

/// Refuses a job whose branch another job works on.
fn take_branch<L: Ledger>(ledger: &mut L, guard: &Guard, job: &Job) -> Result<(), L::Error> {
    if !guard.takes_branch {
        return Ok(());
    }
    match ledger.branch_holder(job)? {
        Some(holder) => Err(UpdateError::BranchTaken(job.branch_name(), holder).into()),
        None => Ok(()),
    }
}

/// Returns the stored answer if the request was accepted before.
fn replay<L: Ledger>(ledger: &mut L, guard: &Guard, now: Timestamp) -> Result<Option<Accepted>, L::Error> {
    let Some(claim) = &guard.idempotency else { return Ok(None) };
    let known = match ledger.remembered(claim.scope(), &claim.stored_key())? {
        Some(known) => Some(known),
        // The previous version, which may still run on other machines, stores keys without their callers.
        None => ledger.remembered(claim.scope(), &claim.key)?.filter(|known| known.fingerprint == claim.fingerprint),
    };
    let answer = idempotency::check(claim, known, now).map_err(UpdateError::KeyReused)?;
    Ok(answer.map(|Answer { record, message }| Accepted { record, message, replayed: true, rate: None, job: None }))
}

/// Charges the request to its rate limit, and returns what remains of the limit.
fn charge<L: Ledger>(ledger: &mut L, guard: &Guard, now: Timestamp) -> Result<Option<RateState>, L::Error> {
    let Some(charge) = &guard.rate else { return Ok(None) };
    let refused = |state| UpdateError::RateLimited(charge.kind, state);
    let (window, state) = rate::charge(ledger.window(charge)?, charge.limit, now).map_err(refused)?;
    ledger.count(charge, window)?;
    Ok(Some(state))
}

fn accept<L: Ledger>(
    ledger: &mut L,
    guard: &Guard,
    rate: Option<RateState>,
    change: &Change,
    now: Timestamp,
) -> Result<Accepted, L::Error> {
    let (record, message) = (change.job.record(), change.accepted().next().map(|(_, message)| message.id));
    if let Some(claim) = &guard.idempotency {
        let known =
            Remembered { fingerprint: claim.fingerprint, at: now, answer: Answer { record: record.clone(), message } };
        ledger.remember(claim, known)?;
    }
    Ok(Accepted { record, message, replayed: false, rate, job: Some(change.job.clone()) })
}
