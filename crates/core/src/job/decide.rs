//! Decides which events follow from a command. This is a pure function: the same job, command and time give the same
//! events.

mod checks;
mod pull_updates;
mod waiting;

use crate::code_host::{PullRef, PullState};
use crate::ids::{MessageId, RunId, Sha, WorkerId};
use crate::job::apply::apply;
use crate::job::command::{Claim, Command, Outcome, Published, Report};
use crate::job::event::{AfterRun, Counts, Event, TranscriptEntry};
use crate::job::turn::{Ending, TurnArtifacts};
use crate::job::{Ended, InFlightMessage, Job, JobState, Lease, Progress, Token, Work};
use crate::message::{DeliveryMode, MAX_QUEUED, MessageStatus, MessageText, NewMessage};
use crate::pull::{Pull, PullSummary};
use crate::retry::{MAX_FAILURES, MAX_LOSSES, backoff, takeover_delay};
use crate::run::{Reason, ReasonCode, RunStatus, Usage};
use crate::time::Timestamp;

/// The reason why a command was rejected. Nothing is stored then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Rejected {
    /// The message is for an archived job.
    #[error("the job is archived; unarchive it first")]
    Archived,
    /// The message has `delivery: "reject"`, and the job is active.
    #[error("the job is busy; wait until it is done, or use delivery \"queue\" or \"interrupt\"")]
    Busy,
    /// The queue already has [`MAX_QUEUED`] messages.
    #[error("the queue of this job is full ({MAX_QUEUED} messages); try again when some messages are done")]
    QueueFull,
    /// The message to withdraw is not in the queue.
    #[error("the message was already delivered; cancel the job to stop it")]
    AlreadyDelivered,
    /// The token is not that of the current lease: the run was taken over or canceled, or has ended.
    #[error("the lease is no longer valid: the run was taken over or canceled, or has ended")]
    StaleToken,
    /// The report does not match the progress of the run, which is a bug in the worker.
    #[error("the report does not match the progress of the run")]
    OutOfOrder,
    /// The job is not due.
    #[error("the job is not due")]
    NotDue,
}

/// Returns the events that follow from `command` at `now`. The list is empty if there is nothing to do, such as for a
/// second cancel.
///
/// # Errors
/// Returns an error if the command is not allowed in the state of the job.
pub fn decide(job: &Job, command: &Command, now: Timestamp) -> Result<Vec<Event>, Rejected> {
    let mut plan = Plan { job: job.clone(), events: Vec::new(), now };
    match command {
        Command::AddMessage(message) => plan.add_message(message)?,
        Command::WithdrawMessage(message) => plan.withdraw(*message)?,
        Command::ChangeMessage { message, text } => plan.change_message(*message, text)?,
        Command::RecordPull { pull, state, archive_on_merge, summary } => {
            plan.record_pull(pull, *state, *archive_on_merge, summary.as_ref());
        }
        Command::RecordChecks(report) => plan.record_checks(report),
        Command::KeepUpToDate(report) => plan.keep_up_to_date(report),
        Command::Cancel => plan.cancel("the job was canceled"),
        Command::CancelMessage(message) => plan.cancel_message(*message)?,
        Command::Archive => plan.archive(),
        Command::Unarchive => plan.unarchive(),
        Command::Retry => plan.retry(),
        Command::ReleaseLease(worker) => plan.release_lease(*worker),
        Command::Claim(claim) => plan.claim(claim)?,
        Command::RecordLateCalls { run, calls } => plan.record_late_calls(*run, calls),
        Command::Report { token, report } => plan.report(*token, report)?,
    }
    Ok(plan.events)
}

/// The events so far, and the job after these events.
struct Plan {
    job: Job,
    events: Vec<Event>,
    now: Timestamp,
}

impl Plan {
    fn emit(&mut self, event: Event) {
        apply(&mut self.job, &event, self.now);
        self.events.push(event);
    }

    fn add_message(&mut self, message: &NewMessage) -> Result<(), Rejected> {
        let active = match &self.job.state {
            JobState::Archived { .. } => return Err(Rejected::Archived),
            JobState::Active(_) if self.job.archive_requested_at().is_some() => return Err(Rejected::Archived),
            JobState::Active(_) if message.delivery == DeliveryMode::Reject => return Err(Rejected::Busy),
            JobState::Active(_) => true,
            JobState::Completed | JobState::Failed(_) => false,
        };
        if self.job.queue.len() >= MAX_QUEUED {
            return Err(Rejected::QueueFull);
        }
        let first = active && message.delivery == DeliveryMode::Interrupt;
        self.emit(Event::MessageAccepted { message: message.clone(), first });
        if first {
            self.interrupt();
        }
        Ok(())
    }

    /// Ends the message in flight: immediately if no worker carries it out, otherwise by a request to stop. A turn that
    /// the agent has ended is not stopped: its work is recorded and published.
    fn interrupt(&mut self) {
        let prompting = InFlightMessage::awaits_agent;
        match &self.job.state {
            JobState::Active(Work::Running { in_flight, .. }) if prompting(in_flight) && !in_flight.stop => {
                self.emit(Event::StopRequested);
            }
            JobState::Active(Work::Retrying { in_flight, .. }) if prompting(in_flight) => {
                let message = in_flight.message;
                self.end_message(message, MessageStatus::Cancelled, Some(interrupted()));
            }
            _ => {}
        }
    }

    fn withdraw(&mut self, message: MessageId) -> Result<(), Rejected> {
        if !self.job.queue.contains(&message) {
            return Err(Rejected::AlreadyDelivered);
        }
        self.emit(Event::MessageWithdrawn(message));
        self.settle(None);
        Ok(())
    }

    fn change_message(&mut self, message: MessageId, text: &MessageText) -> Result<(), Rejected> {
        if !self.job.queue.contains(&message) {
            return Err(Rejected::AlreadyDelivered);
        }
        self.emit(Event::MessageChanged { message, text: text.clone() });
        Ok(())
    }

    fn record_pull(&mut self, pull: &PullRef, state: PullState, archive_on_merge: bool, summary: Option<&PullSummary>) {
        let is_current =
            |known: &&Pull| known.number == pull.number && known.repository.as_ref() == Some(&pull.repository);
        let current = self.job.pull.as_ref().filter(is_current);
        let is_current = current.is_some();
        // A merge is final. Hosts deliver events in any order, so what happened before may arrive after it.
        if state != PullState::Merged && current.is_some_and(|known| known.state == PullState::Merged) {
            return;
        }
        let is_active = matches!(self.job.state, JobState::Active(_));
        let archives_job = archive_on_merge && is_current && state == PullState::Merged;
        let is_new = |summary: &&PullSummary| {
            current.is_some_and(|known| known.title.as_ref() != Some(&summary.title) || known.draft != summary.draft)
        };
        let summary = summary.filter(is_new).cloned();
        // The index may lack the state of an earlier pull request.
        if current.is_none_or(|known| known.state != state) {
            let archives_job = archives_job && is_active;
            self.emit(Event::PullRequestState { pull: pull.clone(), state, archives_job });
        }
        if let Some(summary) = summary {
            self.emit(Event::PullRequestDescribed(summary));
        }
        if archives_job && !is_active {
            self.archive();
        }
    }

    /// Stops the current run and withdraws the queued messages. A turn that has already ended is not stopped, because
    /// its work may already be on the code host: the work is published and its message finishes. If publishing is
    /// waiting for something, it is given up; the commits are kept, and the next message's push includes them.
    fn cancel(&mut self, text: &str) {
        let reason = Reason::new(ReasonCode::Cancelled, text);
        match &self.job.state {
            JobState::Active(Work::Running { in_flight, .. }) if is_publishing(in_flight) => {
                self.withdraw_queue();
                return;
            }
            JobState::Active(Work::Running { in_flight, .. }) => {
                let message = in_flight.message;
                self.finish_run(RunStatus::Cancelled, Some(reason.clone()), Usage::default(), AfterRun::Ends);
                self.end_message(message, MessageStatus::Cancelled, Some(reason.clone()));
            }
            JobState::Active(Work::Retrying { in_flight, .. }) => {
                let (message, publishing) = (in_flight.message, is_publishing(in_flight));
                if publishing {
                    let text = format!(
                        "{text} while the work of its last message waited to be published; the commits are kept and \
                         will be pushed with the next message"
                    );
                    let given_up = Reason::new(ReasonCode::Cancelled, text);
                    self.end_message(message, MessageStatus::Failed, Some(given_up));
                } else {
                    self.end_message(message, MessageStatus::Cancelled, Some(reason.clone()));
                }
            }
            JobState::Active(Work::Waiting) => {}
            JobState::Completed | JobState::Failed(_) | JobState::Archived { .. } => return,
        }
        self.withdraw_queue();
        self.emit(Event::JobFailed(reason));
    }

    /// Cancels a message and no other: a run is stopped only if it works on the message and no other one is queued, because
    /// the end of the job would withdraw those. A message that is final does not change.
    fn cancel_message(&mut self, message: MessageId) -> Result<(), Rejected> {
        if self.job.queue.contains(&message) {
            return self.withdraw(message);
        }
        if self.job.queue.is_empty() && self.job.in_flight().is_some_and(|in_flight| in_flight.message == message) {
            self.cancel("the message was canceled");
        }
        Ok(())
    }

    fn withdraw_queue(&mut self) {
        for message in self.job.queue.clone() {
            self.emit(Event::MessageWithdrawn(message));
        }
    }

    /// Archives the job, canceling it first. If a turn's work is being published, publishing finishes first, but
    /// clients see the job as archived from now on.
    fn archive(&mut self) {
        if matches!(self.job.state, JobState::Archived { .. }) || self.job.archive_requested_at().is_some() {
            return;
        }
        self.cancel("the job was archived while it was active");
        if matches!(self.job.state, JobState::Active(_)) {
            self.emit(Event::ArchiveRequested);
        } else {
            self.emit(Event::JobArchived { requested_at: None });
        }
    }

    fn unarchive(&mut self) {
        if matches!(self.job.state, JobState::Archived { .. }) || self.job.archive_requested_at().is_some() {
            self.emit(Event::JobUnarchived);
        }
    }

    fn retry(&mut self) {
        let now = self.now;
        if matches!(&self.job.state, JobState::Active(Work::Retrying { not_before, .. }) if *not_before > now) {
            self.emit(Event::RetryRequested);
        }
    }

    fn release_lease(&mut self, worker: WorkerId) {
        if self.job.lease().is_some_and(|lease| lease.worker == worker && lease.until > self.now) {
            self.emit(Event::LeaseRenewed { until: self.now });
        }
    }

    fn claim(&mut self, claim: &Claim) -> Result<(), Rejected> {
        if !self.job.is_due(self.now) {
            return Err(Rejected::NotDue);
        }
        self.take_over();
        // After repeated losses the next attempt is delayed.
        if self.job.due_at().is_some() && !self.job.is_due(self.now) {
            return Ok(());
        }
        let (message, attempt) = match &self.job.state {
            JobState::Active(Work::Retrying { in_flight, .. }) => (in_flight.message, in_flight.attempts + 1),
            JobState::Active(Work::Waiting) => match self.job.queue.first() {
                Some(message) => (*message, 1),
                // The message that was taken over has ended, and the queue is empty.
                None => {
                    self.settle(None);
                    return Ok(());
                }
            },
            _ => return Ok(()),
        };
        let token = Token(self.job.token.0 + 1);
        let lease = Lease { run: claim.run, token, worker: claim.worker, until: claim.lease_until, usage: None };
        self.emit(Event::RunStarted { lease, message, attempt });
        Ok(())
    }

    /// Ends the run of a worker whose lease has expired.
    fn take_over(&mut self) {
        let JobState::Active(Work::Running { in_flight, .. }) = &self.job.state else { return };
        let in_flight = in_flight.clone();
        let lost = Reason::new(
            ReasonCode::WorkerLost,
            "the worker that carried out this run stopped or no longer reports; another run continues the work",
        );
        if in_flight.stop && in_flight.awaits_agent() {
            self.finish_run(RunStatus::Cancelled, Some(lost), Usage::default(), AfterRun::Ends);
            self.conclude(in_flight.message, MessageStatus::Cancelled, Some(interrupted()));
        } else if in_flight.losses + 1 > MAX_LOSSES {
            let text = format!("{} workers died while processing this message; it is not retried", MAX_LOSSES + 1);
            let given_up = Reason::new(ReasonCode::WorkerLost, text);
            self.finish_run(RunStatus::Failed, Some(given_up.clone()), Usage::default(), AfterRun::Ends);
            self.conclude(in_flight.message, MessageStatus::Failed, Some(given_up));
        } else {
            let not_before = self.now + takeover_delay(in_flight.losses + 1);
            let next = AfterRun::Retry { not_before, counts: Counts::Loss };
            self.finish_run(RunStatus::Failed, Some(lost), Usage::default(), next);
        }
    }

    fn record_late_calls(&mut self, run: RunId, calls: &[TranscriptEntry]) {
        for entry in calls.iter().filter(|entry| entry.model_call().is_some()) {
            self.emit(Event::Transcript { run, entry: entry.clone() });
        }
    }

    fn report(&mut self, token: Token, report: &Report) -> Result<(), Rejected> {
        let (in_flight, lease) = match &self.job.state {
            JobState::Active(Work::Running { in_flight, lease }) if lease.token == token => (in_flight.clone(), lease),
            _ => return Err(Rejected::StaleToken),
        };
        let run = lease.run;
        match report {
            Report::Heartbeat { lease_until } => self.emit(Event::LeaseRenewed { until: *lease_until }),
            // A follow-up usually continues from the job's current state. There is nothing to store then.
            Report::TurnBegun(turn) if self.job.is_ready_for(turn) => {}
            // The turn had ended and the job was archived, but the machine and the commit on it were lost: do not
            // repeat the turn.
            Report::TurnBegun(turn) if in_flight.archive_at.is_some() => {
                self.emit(Event::TurnBegun(turn.clone()));
                let reason = Reason::new(ReasonCode::Cancelled, "the job was archived before its work was published");
                self.finish_run(RunStatus::Cancelled, Some(reason.clone()), Usage::default(), AfterRun::Ends);
                self.conclude(in_flight.message, MessageStatus::Cancelled, Some(reason));
            }
            Report::TurnBegun(turn) => {
                self.emit(Event::TurnBegun(turn.clone()));
                self.note_published(turn);
            }
            Report::Transcript(entries) => {
                for entry in entries {
                    self.emit(Event::Transcript { run, entry: entry.clone() });
                }
            }
            Report::Answered { answer, usage } => {
                if self.job.branch.is_none() || is_publishing(&in_flight) {
                    return Err(Rejected::OutOfOrder);
                }
                self.emit(Event::Answered { answer: answer.clone(), usage: *usage });
            }
            // The worker repeats a report whose answer was lost.
            Report::TurnEnded { head, commits, artifacts, ending }
                if self.is_recorded(&in_flight, (head, commits), artifacts, ending) => {}
            Report::TurnEnded { head, commits, artifacts, ending } => {
                if self.job.branch.is_none() {
                    return Err(Rejected::OutOfOrder);
                }
                self.emit(Event::TurnEnded {
                    head: head.clone(),
                    commits: commits.clone(),
                    artifacts: artifacts.clone(),
                    ending: ending.clone(),
                });
            }
            Report::Finished { outcome, usage } => self.finished(&in_flight, outcome, *usage)?,
        }
        Ok(())
    }

    /// Returns whether the end of the turn is recorded already.
    fn is_recorded(
        &self,
        in_flight: &InFlightMessage,
        (head, commits): (&Sha, &[Sha]),
        artifacts: &TurnArtifacts,
        ending: &Ending,
    ) -> bool {
        let known = matches!(&in_flight.progress, Progress::Publishing { head: known, commits: of_turn, .. }
            if known == head && of_turn == commits);
        known && in_flight.progress.ending().as_ref() == Some(ending) && self.job.bundle == artifacts.bundle
    }

    fn finished(&mut self, in_flight: &InFlightMessage, outcome: &Outcome, usage: Usage) -> Result<(), Rejected> {
        let stopping = in_flight.stop && in_flight.awaits_agent();
        match outcome {
            Outcome::Published { .. } if in_flight.progress == Progress::Prompting => Err(Rejected::OutOfOrder),
            Outcome::Published { pushed, pull } => {
                self.published(in_flight, pushed.as_ref(), pull, usage);
                Ok(())
            }
            Outcome::Failed { .. } | Outcome::Waiting { .. } | Outcome::HandedBack if stopping => {
                self.finish_run(RunStatus::Cancelled, Some(interrupted()), usage, AfterRun::Ends);
                self.conclude(in_flight.message, MessageStatus::Cancelled, Some(interrupted()));
                Ok(())
            }
            Outcome::Waiting { reason, since, patience, next } => {
                self.wait(in_flight, &waiting::Cause { reason, since: *since, patience: *patience }, *next, usage);
                Ok(())
            }
            Outcome::Failed { reason, retry } => {
                self.failed(in_flight, reason, *retry, usage);
                Ok(())
            }
            Outcome::HandedBack => {
                let reason = Reason::new(ReasonCode::HandedBack, "the worker shut down and handed the run back");
                let next = AfterRun::Retry { not_before: self.now, counts: Counts::Nothing };
                self.finish_run(RunStatus::Cancelled, Some(reason), usage, next);
                Ok(())
            }
        }
    }

    fn published(&mut self, in_flight: &InFlightMessage, pushed: Option<&Sha>, pull: &Published, usage: Usage) {
        let (Progress::Publishing { commits, .. }, Some(ending)) = (&in_flight.progress, in_flight.progress.ending())
        else {
            return;
        };
        let commits = commits.clone();
        let Some(run) = self.job.lease().map(|lease| lease.run) else { return };
        if let (Some(head), Some(branch)) = (pushed, self.job.branch.clone()) {
            let (branch, head, commits) = (branch.name, head.clone(), commits.clone());
            self.emit(Event::CommitPushed { run, branch, head, commits });
        }
        let all_published = self.job.branch.as_ref().is_some_and(|branch| branch.pushed.as_ref() == Some(&branch.head));
        let (run_status, status, why) = match ending {
            Ending::Done => (RunStatus::Succeeded, MessageStatus::Finished, None),
            Ending::Stopped => (RunStatus::Cancelled, MessageStatus::Cancelled, Some(interrupted())),
            Ending::CutShort(reason) => (RunStatus::Failed, MessageStatus::Failed, Some(reason)),
        };
        let mut reason = why.clone();
        match pull {
            Published::Nothing => {}
            Published::Opened(pull, notice) => {
                self.emit(Event::PullRequestOpened { run, pull: pull.clone() });
                reason = reason.or_else(|| notice.clone());
            }
            Published::Updated(pull) => self.emit(Event::PullRequestUpdated { run, pull: pull.clone() }),
            Published::NotPossible(why) => reason = reason.or_else(|| Some(why.clone())),
        }
        if all_published {
            self.publish_earlier();
        }
        self.finish_run(run_status, reason, usage, AfterRun::Ends);
        self.conclude(in_flight.message, status, why);
    }

    fn failed(&mut self, in_flight: &InFlightMessage, reason: &Reason, retry: Option<u32>, usage: Usage) {
        let failures = in_flight.failures + 1;
        if let Some(permille) = retry.filter(|_| failures < MAX_FAILURES) {
            let not_before = self.now + backoff(failures, permille);
            let next = AfterRun::Retry { not_before, counts: Counts::Failure };
            self.finish_run(RunStatus::Failed, Some(reason.clone()), usage, next);
        } else {
            self.finish_run(RunStatus::Failed, Some(reason.clone()), usage, AfterRun::Ends);
            self.conclude(in_flight.message, MessageStatus::Failed, Some(reason.clone()));
        }
    }

    /// Ends the current message, and the job if nothing is left to do.
    fn conclude(&mut self, message: MessageId, status: MessageStatus, reason: Option<Reason>) {
        let requested_at = self.job.archive_requested_at();
        self.end_message(message, status, reason);
        self.settle(requested_at);
    }

    fn finish_run(&mut self, status: RunStatus, reason: Option<Reason>, usage: Usage, next: AfterRun) {
        let Some((run, recorded)) = self.job.lease().map(|lease| (lease.run, lease.usage.clone())) else { return };
        // The worker's report also includes the usage that the agent reports if it calls its model directly.
        let usage = if usage == Usage::default() { recorded.map_or(usage, |recorded| *recorded) } else { usage };
        let commits = self.commits_pushed();
        self.emit(Event::RunFinished { run, status, reason, usage, commits, next });
    }

    fn end_message(&mut self, message: MessageId, status: MessageStatus, reason: Option<Reason>) {
        let commits = self.commits_pushed();
        let pr_link = self.job.pull.as_ref().filter(|_| !commits.is_empty()).map(|pull| pull.url.clone());
        let answer = self.job.in_flight().and_then(|in_flight| in_flight.answer.as_deref()).map(str::to_owned);
        let is_answered = self.job.to_answer.contains(&message);
        self.emit(Event::MessageEnded { message, status, commits, pr_link, reason, answer, is_answered });
    }

    /// Returns the commits of the message in flight that are known to be on the code host.
    fn commits_pushed(&self) -> Vec<Sha> {
        let pushed = self.job.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
        match self.job.in_flight().map(|in_flight| &in_flight.progress) {
            Some(Progress::Publishing { head, commits, .. }) if pushed == Some(head) => commits.clone(),
            _ => Vec::new(),
        }
    }

    /// Ends an active job that has nothing left to do, and archives it if that was requested or its pull request was
    /// merged. The last message that a run took determines the result.
    fn settle(&mut self, requested_at: Option<Timestamp>) {
        if self.job.state != JobState::Active(Work::Waiting) || !self.job.queue.is_empty() {
            return;
        }
        let event = match &self.job.last {
            Some(Ended::Completed) => Event::JobCompleted,
            Some(Ended::Failed(reason)) => Event::JobFailed(reason.clone()),
            None => {
                let text = "the only message was withdrawn before a run took it";
                Event::JobFailed(Reason::new(ReasonCode::Cancelled, text))
            }
        };
        self.emit(event);
        if requested_at.is_some() || self.job.pull.as_ref().is_some_and(|pull| pull.archives_job) {
            self.emit(Event::JobArchived { requested_at });
        }
    }
}

fn is_publishing(in_flight: &InFlightMessage) -> bool {
    in_flight.progress != Progress::Prompting
}

fn interrupted() -> Reason {
    Reason::new(ReasonCode::Interrupted, "a message with delivery \"interrupt\" replaced this message")
}
