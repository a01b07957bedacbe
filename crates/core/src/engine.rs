//! Load, decide, commit: the only writer of jobs.

use std::sync::Arc;
use std::time::Duration;

use crate::idempotency::Claim as IdempotencyClaim;
use crate::ids::{JobId, MessageId, ProjectId, RunId, WorkerId};
use crate::job::change::{create, step, steps};
use crate::job::command::{Claim, Command, Report};
use crate::job::event::TranscriptEntry;
use crate::job::{DEFAULT_BRANCH, Job, JobOptions, JobState, Lease, Source, Token, Work, title_of};
use crate::message::{DeliveryMode, Message, NewMessage, Origin};
use crate::ports::{
    AVOIDANCE, Accepted, ClaimQuery, Decide, Guard, Picked, RateCharge, Store, StoreError, UpdateError,
};
use crate::project::Project;
use crate::project::hold::Hold;
use crate::rate::RateKind;
use crate::time::{Clock, IdGen, Timestamp};

/// Moves jobs.
#[derive(Clone)]
pub struct Engine {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
    avoidance: Duration,
}

/// What a prompt comes with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text, checked by [`crate::message::check_prompt`].
    pub text: String,
    /// Where it came from.
    pub origin: Origin,
    /// Who sent it.
    pub author: Option<String>,
    /// How it treats a busy job.
    pub delivery: DeliveryMode,
}

/// A job that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Its first message.
    pub prompt: Prompt,
    /// Where to start from, instead of the project's ref.
    pub reference: Option<String>,
    /// The model, instead of the project's.
    pub model: Option<String>,
    /// The agent, instead of the project's.
    pub agent: Option<String>,
    /// Branch, draft and title.
    pub options: JobOptions,
}

/// How a request is counted and remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// The client's key.
    pub idempotency: Option<IdempotencyClaim>,
    /// Uses in an hour; 0: no limit.
    pub limit: u32,
}

/// A request of a client that changes the course of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Stops the current run, and withdraws the queued messages.
    Cancel,
    /// Archives the job, after cancelling it if it is active.
    Archive,
    /// Gives the job back the status that it had before it was archived.
    Unarchive,
    /// Makes the next attempt due now, and the next probe of the job's project if that is on hold. A job that does not
    /// wait for an attempt is left unchanged.
    Retry,
}

/// A run that a worker was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The job as it is now.
    pub job: Job,
    /// The run's lease.
    pub lease: Lease,
    /// What the run has to carry out.
    pub message: Message,
    /// The hold of the project that this run probes, if there is one.
    pub hold: Option<Hold>,
}

impl Engine {
    /// An engine over a store.
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, ids: Arc<dyn IdGen>) -> Self {
        Self { store, clock, ids, avoidance: AVOIDANCE }
    }

    /// Returns the engine for an installation with one machine: a job that avoids its worker cannot wait for another one.
    #[must_use]
    pub const fn for_one_machine(mut self) -> Self {
        self.avoidance = Duration::ZERO;
        self
    }

    /// The present moment, by the engine's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates a job with its first message.
    ///
    /// # Errors
    /// The limit is used up, the idempotency key belongs to another request, or the store failed; nothing is stored.
    pub async fn create_job(
        &self,
        project: &Project,
        new: NewJob,
        admission: Admission,
    ) -> Result<Accepted, UpdateError> {
        let now = self.clock.now();
        let title = new.options.title.clone().unwrap_or_else(|| title_of(&new.prompt.text));
        let reference =
            new.reference.or_else(|| project.reference.clone()).unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
        let job = Job {
            id: JobId::from_uuid(self.ids.uuid(now)),
            project: project.id.clone(),
            title,
            source: Source { repository: project.repository.clone(), reference },
            agent: new.agent.unwrap_or_else(|| project.agent.clone()),
            model: new.model.unwrap_or_else(|| project.model.clone()),
            options: new.options,
            created_at: now,
            state: JobState::Active(Work::Waiting),
            waiting_since: now,
            preferred_worker: None,
            settled_at: None,
            last: None,
            queue: Vec::new(),
            last_message_at: now,
            branch: None,
            pull: None,
            session: None,
            archive: None,
            bundle: None,
            unpublished: Vec::new(),
            token: Token(0),
            last_seq: 0,
        };
        let guard = Guard { takes_branch: true, ..guard(&project.id, RateKind::Create, admission) };
        self.store.create_job(guard, create(job, self.message(new.prompt, now), now), now).await
    }

    /// Sends a message to a job. Returns when it is on disk, long before the agent hears of it.
    ///
    /// # Errors
    /// The job is unknown, archived, busy or full; or as [`Engine::create_job`].
    pub async fn add_message(
        &self,
        project: &ProjectId,
        job: JobId,
        prompt: Prompt,
        admission: Admission,
    ) -> Result<Accepted, UpdateError> {
        let message = self.message(prompt, self.clock.now());
        let guard = guard(project, RateKind::Message, admission);
        self.update(job, Some(project.clone()), guard, Command::AddMessage(message)).await
    }

    /// Withdraws a message that still waits.
    ///
    /// # Errors
    /// It does not wait any more; the job is unknown; the store failed.
    pub async fn withdraw(&self, project: &ProjectId, job: JobId, message: MessageId) -> Result<Accepted, UpdateError> {
        self.update(job, Some(project.clone()), Guard::default(), Command::WithdrawMessage(message)).await
    }

    /// Cancels, archives, unarchives or retries a job. Doing it twice has the same result as doing it once.
    ///
    /// # Errors
    /// The job does not exist; unarchiving: another job has taken its branch; or the store failed.
    pub async fn control(
        &self,
        project: &ProjectId,
        job: JobId,
        control: Control,
        idempotency: Option<IdempotencyClaim>,
    ) -> Result<Accepted, UpdateError> {
        let command = match control {
            Control::Cancel => Command::Cancel,
            Control::Archive => Command::Archive,
            Control::Unarchive => Command::Unarchive,
            Control::Retry => {
                self.store.probe_project(project.clone(), self.clock.now()).await?;
                Command::Retry
            }
        };
        let guard = Guard { idempotency, takes_branch: control == Control::Unarchive, ..Guard::default() };
        self.update(job, Some(project.clone()), guard, command).await
    }

    /// Cancels a job, as [`Engine::control`].
    ///
    /// # Errors
    /// As [`Engine::control`].
    pub async fn cancel(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Cancel, None).await
    }

    /// Archives a job, as [`Engine::control`].
    ///
    /// # Errors
    /// As [`Engine::control`].
    pub async fn archive(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Archive, None).await
    }

    /// Unarchives a job, as [`Engine::control`].
    ///
    /// # Errors
    /// As [`Engine::control`].
    pub async fn unarchive(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Unarchive, None).await
    }

    /// Retries a job, as [`Engine::control`].
    ///
    /// # Errors
    /// As [`Engine::control`].
    pub async fn retry(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Retry, None).await
    }

    /// Ends the leases that a worker held before it restarted, so that their runs are taken over immediately, and
    /// returns their number. Must be called before the worker claims anything, and only if no other process works under
    /// the same id.
    ///
    /// # Errors
    /// The store failed.
    pub async fn release_leases(&self, worker: WorkerId) -> Result<usize, UpdateError> {
        let mut released = 0;
        for job in self.store.leased_jobs(worker).await? {
            match self.update(job, None, Guard::default(), Command::ReleaseLease(worker)).await {
                Ok(_) => released += 1,
                Err(UpdateError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(released)
    }

    /// Takes a run that is due, if one is, in the order of [`ClaimQuery`]; the lease lasts `lease` unless it is renewed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn claim(&self, worker: WorkerId, lease: Duration) -> Result<Option<Claimed>, StoreError> {
        loop {
            let now = self.clock.now();
            let run = RunId::from_uuid(self.ids.uuid(now));
            let command = Command::Claim(Claim { run, worker, lease_until: now + lease });
            let picked = self
                .store
                .claim_job(ClaimQuery { now, worker, avoidance: self.avoidance }, decide(command, now))
                .await?;
            let Some(Picked { job, message, hold }) = picked else { return Ok(None) };
            // A job that was due only to have a lost run cleared away gives no run: look for the next.
            let lease = job.lease().filter(|lease| lease.run == run).cloned();
            if let (Some(lease), Some(message)) = (lease, message) {
                return Ok(Some(Claimed { job, lease, message, hold }));
            }
        }
    }

    /// Takes a worker's report.
    ///
    /// # Errors
    /// The token is stale; the store failed.
    pub async fn report(&self, job: JobId, token: Token, report: Report) -> Result<Job, UpdateError> {
        self.report_all(job, token, vec![report]).await
    }

    /// Takes several reports of a worker, all of them or none.
    ///
    /// # Errors
    /// As [`Engine::report`].
    pub async fn report_all(&self, job: JobId, token: Token, reports: Vec<Report>) -> Result<Job, UpdateError> {
        let now = self.clock.now();
        let commands: Vec<_> = reports.into_iter().map(|report| Command::Report { token, report }).collect();
        let decide: Decide = Box::new(move |job| steps(job, &commands, now));
        let accepted = self.store.update_job(job, None, Guard::default(), decide, now).await?;
        // Only a replay has no job, and a report bears no idempotency key.
        accepted.job.ok_or(UpdateError::NotFound)
    }

    /// Records model calls that ended after their run. The caller needs no lease.
    ///
    /// # Errors
    /// The job is unknown; the store failed.
    pub async fn record_late_calls(
        &self,
        job: JobId,
        run: RunId,
        calls: Vec<TranscriptEntry>,
    ) -> Result<(), UpdateError> {
        self.update(job, None, Guard::default(), Command::RecordLateCalls { run, calls }).await.map(drop)
    }

    fn message(&self, prompt: Prompt, now: Timestamp) -> NewMessage {
        NewMessage {
            id: MessageId::from_uuid(self.ids.uuid(now)),
            prompt: prompt.text,
            origin: prompt.origin,
            author: prompt.author,
            delivery: prompt.delivery,
        }
    }

    async fn update(
        &self,
        job: JobId,
        project: Option<ProjectId>,
        guard: Guard,
        command: Command,
    ) -> Result<Accepted, UpdateError> {
        let now = self.clock.now();
        self.store.update_job(job, project, guard, decide(command, now), now).await
    }
}

fn guard(project: &ProjectId, kind: RateKind, admission: Admission) -> Guard {
    let charge = || RateCharge { project: project.clone(), kind, limit: admission.limit };
    Guard { idempotency: admission.idempotency, rate: (admission.limit > 0).then(charge), takes_branch: false }
}

fn decide(command: Command, now: Timestamp) -> Decide {
    Box::new(move |job| step(job, &command, now))
}
