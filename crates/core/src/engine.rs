//! The engine, which is the only writer of jobs. It turns requests into commands; the store loads and locks the job,
//! calls the decision on the command, and writes the result.

use std::sync::Arc;
use std::time::Duration;

use crate::checks::{CheckReport, Reaction};
use crate::code_host::{PullRef, PullState};
use crate::idempotency::Claim as IdempotencyClaim;
use crate::ids::{JobId, KeyId, MessageId, ProjectId, RunId, WorkerId};
use crate::job::change::{create, step, steps};
use crate::job::command::{Claim, Command, Report};
use crate::job::event::TranscriptEntry;
use crate::job::label::{Attribute, Labels, Metadata};
use crate::job::pull_updates::OutdatedPull;
use crate::job::{DEFAULT_BRANCH, Job, JobOptions, Lease, Source, Token};
use crate::message::{DeliveryMode, Message, MessageSource, MessageText, NewMessage, Origin};
use crate::model::Effort;
use crate::ports::{
    AVOIDANCE, Accepted, ClaimQuery, Decide, Guard, Picked, RateCharge, StoreError, UpdateError, WorkStore,
};
use crate::project::Project;
use crate::project::hold::Hold;
use crate::prompt::title_of;
use crate::pull::PullSummary;
use crate::rate::RateKind;
use crate::time::{Clock, IdGen, Timestamp};
use crate::trace::TraceParent;

/// Creates and changes jobs.
#[derive(Clone)]
pub struct Engine {
    store: Arc<dyn WorkStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
    avoidance: Duration,
}

/// A prompt and its properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text, checked by [`crate::prompt::check_prompt`].
    pub text: String,
    /// The origin of the prompt.
    pub origin: Origin,
    /// The sender.
    pub author: Option<String>,
    /// The API key of the request.
    pub key: Option<KeyId>,
    /// The treatment of the message if the job is active.
    pub delivery: DeliveryMode,
    /// The trace context of the request.
    pub traceparent: Option<TraceParent>,
    /// The source of the prompt on a code host.
    pub source: Option<Box<MessageSource>>,
}

/// A job to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The prompt of the first message.
    pub prompt: Prompt,
    /// The branch, tag or commit to start from; `None` means the project's. A job on an existing pull request starts
    /// from its branch.
    pub reference: Option<String>,
    /// The model; `None` means the project's.
    pub model: Option<String>,
    /// The effort of the model; `None` means the project's.
    pub effort: Option<Effort>,
    /// The agent; `None` means the project's.
    pub agent: Option<String>,
    /// The other options.
    pub options: JobOptions,
    /// The labels, by which clients select jobs.
    pub labels: Labels,
    /// Data of the client, which the service only stores and searches.
    pub metadata: Metadata,
}

impl NewJob {
    /// Returns a job of this prompt, with the project's choices.
    #[must_use]
    pub fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            reference: None,
            model: None,
            effort: None,
            agent: None,
            options: JobOptions::default(),
            labels: Labels::default(),
            metadata: Metadata::default(),
        }
    }
}

/// The idempotency key and the rate limit of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// The idempotency key that the client sent.
    pub idempotency: Option<IdempotencyClaim>,
    /// The maximum number of uses in an hour; 0 means no limit.
    pub limit: u32,
}

/// A request of a client that changes the course of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Stops the current run, and withdraws the queued messages.
    Cancel,
    /// Withdraws a message that is queued, or stops its run if no other message waits behind it.
    CancelMessage(MessageId),
    /// Archives the job, after canceling it if it is active.
    Archive,
    /// Restores the status that the job had before it was archived.
    Unarchive,
    /// Makes the job's next attempt due now. If the project is on hold, also makes the next probe due. A job that does
    /// not wait for an attempt is left unchanged.
    Retry,
}

/// A run that a worker has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The job after the claim.
    pub job: Job,
    /// The run's lease.
    pub lease: Lease,
    /// The message that the run carries out.
    pub message: Message,
    /// The hold of the project that this run probes, if there is one.
    pub hold: Option<Hold>,
}

impl Engine {
    /// Creates an engine on a store.
    #[must_use]
    pub const fn new(store: Arc<dyn WorkStore>, clock: Arc<dyn Clock>, ids: Arc<dyn IdGen>) -> Self {
        Self { store, clock, ids, avoidance: AVOIDANCE }
    }

    /// Configures the engine for an installation with one machine: a job that avoids its worker does not wait, because
    /// there is no other worker.
    #[must_use]
    pub const fn for_one_machine(mut self) -> Self {
        self.avoidance = Duration::ZERO;
        self
    }

    /// Returns the engine's clock.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns the current time of the engine's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates a job with its first message.
    ///
    /// # Errors
    /// Returns an error if another job works on the branch, the rate limit is used up, the project was deleted, the
    /// idempotency key belongs to another request, or the store failed. Nothing is stored then, except possibly after
    /// [`StoreError::Unknown`].
    pub async fn create_job(
        &self,
        project: &Project,
        new: NewJob,
        admission: Admission,
    ) -> Result<Accepted, UpdateError> {
        self.create(project, new, admission, false).await
    }

    /// Returns the answer of an earlier [`Engine::create_job`] with the same idempotency key.
    ///
    /// # Errors
    /// [`UpdateError::NotReplayed`] if there was none; otherwise like [`Engine::create_job`]. Nothing is stored.
    pub async fn replay_job(
        &self,
        project: &Project,
        new: NewJob,
        admission: Admission,
    ) -> Result<Accepted, UpdateError> {
        self.create(project, new, admission, true).await
    }

    async fn create(
        &self,
        project: &Project,
        new: NewJob,
        admission: Admission,
        replays_only: bool,
    ) -> Result<Accepted, UpdateError> {
        let now = self.clock.now();
        let title = new.options.title.clone().unwrap_or_else(|| title_of(&new.prompt.text));
        let existing = new.options.pull.as_deref();
        let reference = existing.map(|existing| existing.head.clone()).or(new.reference);
        let reference = reference.or_else(|| project.reference.clone()).unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
        let id = JobId::from_uuid(self.ids.uuid(now));
        let source = Source { repository: project.repository.clone(), reference };
        let agent = new.agent.unwrap_or_else(|| project.agent.clone());
        let attributes = Attribute::of_job(&new.labels, &new.metadata, new.prompt.author.as_deref(), &agent);
        let job = Job {
            title,
            agent,
            model: new.model.unwrap_or_else(|| project.model.clone()),
            effort: new.effort.or(project.settings.effort),
            pull: existing.map(|existing| existing.pull.clone()),
            options: new.options,
            ..Job::new(id, project.id.clone(), source, now)
        };
        let guard = Guard { takes_branch: true, replays_only, ..guard(&project.id, RateKind::Create, admission) };
        self.store.create_job(guard, create(job, self.message(new.prompt, now), attributes, now), now).await
    }

    /// Sends a message to a job. Returns when the message is stored durably, before the agent receives it.
    ///
    /// # Errors
    /// Returns an error if the job does not exist or rejects the message, the rate limit is used up, the idempotency
    /// key belongs to another request, or the store failed.
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

    /// Replaces the text of a queued message.
    ///
    /// # Errors
    /// Returns an error if the message is not in the queue, the job does not exist, or the store failed.
    pub async fn change_message(
        &self,
        project: &ProjectId,
        job: JobId,
        message: MessageId,
        text: MessageText,
    ) -> Result<Accepted, UpdateError> {
        let command = Command::ChangeMessage { message, text };
        self.update(job, Some(project.clone()), Guard::default(), command).await
    }

    /// Records the state of a pull request of a job, and its title if the code host was asked.
    ///
    /// # Errors
    /// Returns an error if the job does not exist, or if the store failed.
    pub async fn record_pull(
        &self,
        project: &ProjectId,
        job: JobId,
        pull: PullRef,
        state: PullState,
        archive_on_merge: bool,
        summary: Option<PullSummary>,
    ) -> Result<Accepted, UpdateError> {
        let command = Command::RecordPull { pull, state, archive_on_merge, summary };
        self.update(job, Some(project.clone()), Guard::default(), command).await
    }

    /// Records the result of the checks of a commit, and sends the message of the report unless a limit prevents it.
    ///
    /// # Errors
    /// Returns an error if the job does not exist, the rate limit is used up, or the store failed.
    pub async fn record_checks(
        &self,
        project: &ProjectId,
        job: JobId,
        report: CheckReport,
        limit: u32,
    ) -> Result<Accepted, UpdateError> {
        let is_message = matches!(report.reaction, Reaction::Fix(_));
        let limit = if is_message { limit } else { 0 };
        let guard = guard(project, RateKind::Message, Admission { idempotency: None, limit });
        self.update(job, Some(project.clone()), guard, Command::RecordChecks(Box::new(report))).await
    }

    /// Sends the message of a report about an outdated pull request, unless a rule prevents it.
    ///
    /// # Errors
    /// Returns an error if the job does not exist, the rate limit is used up, or the store failed.
    pub async fn keep_up_to_date(
        &self,
        project: &ProjectId,
        job: JobId,
        report: OutdatedPull,
        limit: u32,
    ) -> Result<Accepted, UpdateError> {
        let guard = guard(project, RateKind::Message, Admission { idempotency: None, limit });
        self.update(job, Some(project.clone()), guard, Command::KeepUpToDate(Box::new(report))).await
    }

    /// Creates a message with a new ID, for [`Engine::record_checks`] and [`Engine::keep_up_to_date`].
    #[must_use]
    pub fn new_message(&self, prompt: Prompt) -> NewMessage {
        self.message(prompt, self.clock.now())
    }

    /// Withdraws a queued message.
    ///
    /// # Errors
    /// Returns an error if the message is not in the queue, the job does not exist, or the store failed.
    pub async fn withdraw(&self, project: &ProjectId, job: JobId, message: MessageId) -> Result<Accepted, UpdateError> {
        self.update(job, Some(project.clone()), Guard::default(), Command::WithdrawMessage(message)).await
    }

    /// Cancels, archives, unarchives or retries a job. A repeated request has no further effect.
    ///
    /// # Errors
    /// Returns an error if the job does not exist, the job to unarchive works on a branch that another job has taken,
    /// the idempotency key belongs to another request, or the store failed.
    pub async fn control(
        &self,
        project: &ProjectId,
        job: JobId,
        control: Control,
        idempotency: Option<IdempotencyClaim>,
    ) -> Result<Accepted, UpdateError> {
        let command = match control {
            Control::Cancel => Command::Cancel,
            Control::CancelMessage(message) => Command::CancelMessage(message),
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

    /// Cancels a job, like [`Engine::control`].
    ///
    /// # Errors
    /// Returns the errors of [`Engine::control`].
    pub async fn cancel(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Cancel, None).await
    }

    /// Archives a job, like [`Engine::control`].
    ///
    /// # Errors
    /// Returns the errors of [`Engine::control`].
    pub async fn archive(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Archive, None).await
    }

    /// Unarchives a job, like [`Engine::control`].
    ///
    /// # Errors
    /// Returns the errors of [`Engine::control`].
    pub async fn unarchive(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Unarchive, None).await
    }

    /// Retries a job, like [`Engine::control`].
    ///
    /// # Errors
    /// Returns the errors of [`Engine::control`].
    pub async fn retry(&self, project: &ProjectId, job: JobId) -> Result<Accepted, UpdateError> {
        self.control(project, job, Control::Retry, None).await
    }

    /// Ends the leases that a worker held before it restarted, so that their runs are taken over immediately, and
    /// returns their number. Must be called before the worker claims a run, and only if no other process uses the same
    /// ID.
    ///
    /// # Errors
    /// Returns an error if the store failed.
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

    /// Claims a run that is due, in the order of [`ClaimQuery`]. Returns `None` if no run is due. The lease ends after
    /// `lease` if it is not renewed.
    ///
    /// # Errors
    /// Returns an error if the store failed.
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
            // The claim may only have ended a lost run, without a new run: look for the next job.
            let lease = job.lease().filter(|lease| lease.run == run).cloned();
            if let (Some(lease), Some(message)) = (lease, message) {
                return Ok(Some(Claimed { job, lease, message, hold }));
            }
        }
    }

    /// Records a worker's report, and returns the job after it.
    ///
    /// # Errors
    /// Returns an error if the token is stale, the report does not match the progress of the run, or the store failed.
    pub async fn report(&self, job: JobId, token: Token, report: Report) -> Result<Job, UpdateError> {
        self.report_all(job, token, vec![report]).await
    }

    /// Records several reports of a worker: either all of them, or none.
    ///
    /// # Errors
    /// Returns the errors of [`Engine::report`].
    pub async fn report_all(&self, job: JobId, token: Token, reports: Vec<Report>) -> Result<Job, UpdateError> {
        let now = self.clock.now();
        let commands: Vec<_> = reports.into_iter().map(|report| Command::Report { token, report }).collect();
        let decide: Decide = Box::new(move |job| steps(job, &commands, now));
        let accepted = self.store.update_job(job, None, Guard::default(), decide, now).await?;
        // Only a replay has no job, and reports have no idempotency key.
        accepted.job.ok_or(UpdateError::NotFound)
    }

    /// Records model calls that ended after their run. The caller needs no lease.
    ///
    /// # Errors
    /// Returns an error if the job does not exist, or if the store failed.
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
            key: prompt.key,
            delivery: prompt.delivery,
            traceparent: prompt.traceparent,
            source: prompt.source,
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
    Guard {
        idempotency: admission.idempotency,
        rate: (admission.limit > 0).then(charge),
        takes_branch: false,
        replays_only: false,
    }
}

fn decide(command: Command, now: Timestamp) -> Decide {
    Box::new(move |job| step(job, &command, now))
}
