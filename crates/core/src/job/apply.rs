//! Applies events to a job. This cannot fail, because [`super::decide`] rejects the commands that are not allowed.

use crate::checks;
use crate::code_host::PullState;
use crate::job::event::{AfterRun, Counts, Event};
use crate::job::turn::Ending;
use crate::job::{
    Answered, DEFAULT_BRANCH, Ended, InFlightMessage, Job, JobState, Progress, Unpublished, Work, pull_updates,
};
use crate::message::MessageStatus;
use crate::pull::Pull;
use crate::run::{Reason, Usage};
use crate::time::Timestamp;

/// Applies `event`, which happened at `now`, to `job`.
pub fn apply(job: &mut Job, event: &Event, now: Timestamp) {
    match event {
        Event::JobCreated(created) => *job = (**created).clone(),
        Event::MessageAccepted { message, first } => {
            let index = if *first { 0 } else { job.queue.len() };
            job.queue.insert(index, message.id);
            if message.source.is_some() {
                job.to_answer.push(message.id);
            }
            if let Some(checks) = job.checks.as_mut().filter(|_| !message.origin.is_automatic()) {
                checks::person_wrote(checks);
            }
            if let Some(updates) = job.updates.as_mut().filter(|_| !message.origin.is_automatic()) {
                updates.asked = false;
            }
            job.last_message_at = job.last_message_at.max(now);
            if !matches!(job.state, JobState::Active(_)) {
                wait(job, now);
            }
        }
        Event::StopRequested => {
            if let Some(in_flight) = in_flight_mut(job) {
                in_flight.stop = true;
            }
        }
        Event::MessageWithdrawn(message) => {
            job.queue.retain(|queued| queued != message);
            job.to_answer.retain(|waiting| waiting != message);
        }
        Event::MessageChanged { .. } => {}
        Event::RunStarted { lease, message, attempt } => {
            job.queue.retain(|queued| queued != message);
            job.token = lease.token;
            job.preferred_worker = Some(lease.worker);
            let known = in_flight_mut(job).map(|in_flight| in_flight.clone());
            let in_flight = InFlightMessage { attempts: *attempt, ..known.unwrap_or_else(|| first_attempt(*message)) };
            job.state = JobState::Active(Work::Running { in_flight, lease: lease.clone() });
        }
        Event::LeaseRenewed { until } => {
            if let JobState::Active(Work::Running { lease, .. }) = &mut job.state {
                lease.until = *until;
            }
        }
        Event::TurnBegun(turn) => {
            // A job on an existing pull request that has ended begins with its second branch.
            if job.branch.as_ref().map_or(1, |branch| branch.generation) != turn.generation {
                job.pull = None;
                job.diff = None;
            }
            // The next push includes only commits that the turn builds on.
            if job.branch.as_ref().is_none_or(|branch| branch.head != turn.head) {
                job.unpublished.clear();
            }
            job.branch = Some(turn.branch(job.branch.as_ref()));
            if let Some(name) = turn.default_branch.as_ref().filter(|_| job.source.reference == DEFAULT_BRANCH) {
                job.source.reference.clone_from(name);
            }
            // If a turn had ended, its commit was lost with the machine that had it, and the turn is repeated.
            if let Some(in_flight) = in_flight_mut(job) {
                in_flight.progress = Progress::Prompting;
                (in_flight.answered, in_flight.answer) = (None, None);
            }
        }
        Event::Answered { answer, usage } => {
            let JobState::Active(Work::Running { in_flight, lease }) = &mut job.state else { return };
            in_flight.answered = Some(Answered { worker: lease.worker, at: now });
            in_flight.answer = answer.as_deref().map(Into::into);
            lease.usage = Some(Box::new(*usage));
        }
        Event::TurnEnded { head, commits, artifacts, ending } => {
            if artifacts.session.is_some() {
                job.session.clone_from(&artifacts.session);
            }
            if artifacts.archive.is_some() {
                job.archive.clone_from(&artifacts.archive);
            }
            job.bundle.clone_from(&artifacts.bundle);
            if !commits.is_empty() {
                job.diff = artifacts.diff.as_deref().map(|diff| diff.branch);
            }
            if let Some(branch) = &mut job.branch {
                branch.head = head.clone();
            }
            let (head, commits, stopped) = (head.clone(), commits.clone(), *ending == Ending::Stopped);
            let cut_short = match ending {
                Ending::CutShort(reason) => Some(Box::new(reason.clone())),
                Ending::Done | Ending::Stopped => None,
            };
            if let Some(in_flight) = in_flight_mut(job) {
                let is_rebased = matches!(in_flight.progress, Progress::Publishing { .. });
                in_flight.progress = Progress::Publishing { head, commits, stopped, cut_short };
                (in_flight.waiting, in_flight.answered) = (None, None);
                if let Some(answer) = &artifacts.answer {
                    in_flight.answer = Some(answer.as_str().into());
                }
                if is_rebased {
                    // The rebase has changed the hashes of the commits of earlier messages.
                    job.unpublished.iter_mut().for_each(|earlier| earlier.commits.clear());
                }
            }
        }
        Event::CommitPushed { head, .. } => {
            job.bundle = None;
            if let Some(branch) = &mut job.branch {
                branch.pushed = Some(head.clone());
            }
        }
        Event::PullRequestOpened { pull, .. } | Event::PullRequestUpdated { pull, .. } => {
            // The code host may have told of the merge after the worker read the pull request.
            let is_merged = |known: &Pull| known.state == PullState::Merged && known.is_same(pull);
            let known = job.pull.take().filter(is_merged);
            job.pull = Some(match known {
                Some(known) => Pull { state: known.state, archives_job: known.archives_job, ..pull.clone() },
                None => pull.clone(),
            });
        }
        Event::PullRequestState { pull: ended, state, archives_job } => {
            if let Some(pull) = job.pull.as_mut().filter(|pull| pull.is(ended)) {
                pull.state = *state;
                pull.archives_job = *archives_job;
            }
        }
        Event::PullRequestDescribed(summary) => {
            if let Some(pull) = &mut job.pull {
                (pull.title, pull.draft) = (Some(summary.title.clone()), summary.draft);
            }
        }
        Event::ChecksSettled { report, stop } => {
            job.checks = Some(Box::new(checks::settled(job.checks.as_deref(), report, *stop, now)));
        }
        Event::RepairRequested { signature } => {
            if let Some(checks) = &mut job.checks {
                checks::attempt_began(checks, signature, now);
            }
        }
        Event::PullRequestOutdated { comparison, stop, .. } => {
            job.updates = Some(Box::new(pull_updates::decided(job, comparison, *stop, now)));
        }
        Event::RunFinished { next, reason, .. } => after_run(job, *next, reason.as_ref()),
        Event::MessageWaiting { waiting, .. } => {
            if let Some(in_flight) = in_flight_mut(job) {
                in_flight.waiting = Some(Box::new(waiting.clone()));
            }
        }
        Event::RetryRequested => {
            if let JobState::Active(Work::Retrying { not_before, in_flight }) = &mut job.state {
                *not_before = now;
                in_flight.avoid = None;
            }
        }
        Event::PublishedWith { .. } => job.unpublished.clear(),
        Event::MessageEnded { message, status, reason, .. } => {
            if *status == MessageStatus::Failed {
                note_unpublished(job, *message);
            }
            job.to_answer.retain(|waiting| waiting != message);
            job.last = Some(reason.clone().map_or(Ended::Completed, Ended::Failed));
            wait(job, now);
        }
        Event::JobCompleted => {
            job.settled_at = Some(now);
            job.state = JobState::Completed;
        }
        Event::JobFailed(reason) => {
            job.settled_at = Some(now);
            job.last = Some(Ended::Failed(reason.clone()));
            job.state = JobState::Failed(reason.clone());
        }
        Event::ArchiveRequested => {
            if let Some(in_flight) = in_flight_mut(job) {
                in_flight.archive_at = Some(now);
            }
        }
        Event::JobArchived { requested_at } => {
            let before = match &job.state {
                JobState::Failed(reason) => Ended::Failed(reason.clone()),
                _ => Ended::Completed,
            };
            job.settled_at = Some(now);
            if let Some(pull) = &mut job.pull {
                pull.archives_job = false;
            }
            job.state = JobState::Archived { at: requested_at.unwrap_or(now), before };
        }
        Event::JobUnarchived => {
            if let Some(in_flight) = in_flight_mut(job) {
                in_flight.archive_at = None;
                return;
            }
            job.settled_at = Some(now);
            if let JobState::Archived { before, .. } = &job.state {
                job.state = match before {
                    Ended::Completed => JobState::Completed,
                    Ended::Failed(reason) => JobState::Failed(reason.clone()),
                };
            }
        }
        Event::Transcript { run, entry } => {
            if let (Some(usage), JobState::Active(Work::Running { lease, .. })) = (entry.model_call(), &mut job.state)
                && lease.run == *run
            {
                let before = lease.usage.take().map_or_else(Usage::default, |usage| *usage);
                lease.usage = Some(Box::new(before.plus(&usage)));
            }
        }
    }
}

fn wait(job: &mut Job, now: Timestamp) {
    job.state = JobState::Active(Work::Waiting);
    job.waiting_since = now;
}

/// Ends the lease. The message stays in flight until its next attempt, or until the event that ends it, which follows
/// immediately.
fn after_run(job: &mut Job, next: AfterRun, reason: Option<&Reason>) {
    let worker = job.lease().map(|lease| lease.worker);
    let Some(in_flight) = in_flight_mut(job) else { return };
    let mut in_flight = in_flight.clone();
    // No other machine has the work of a turn that is not recorded yet.
    let may_be_the_machines = reason.is_some_and(|reason| reason.code.may_be_the_machines());
    in_flight.avoid = worker.filter(|_| may_be_the_machines && in_flight.answered.is_none());
    let not_before = match next {
        AfterRun::Ends => Timestamp::default(),
        AfterRun::Retry { not_before, counts } => {
            match counts {
                Counts::Failure => {
                    in_flight.failures += 1;
                    in_flight.waiting = None;
                }
                Counts::Loss => in_flight.losses += 1,
                Counts::Nothing => {}
            }
            not_before
        }
    };
    job.state = JobState::Active(Work::Retrying { in_flight, not_before });
}

const fn first_attempt(message: crate::ids::MessageId) -> InFlightMessage {
    InFlightMessage {
        message,
        attempts: 0,
        failures: 0,
        losses: 0,
        progress: Progress::Prompting,
        stop: false,
        waiting: None,
        avoid: None,
        archive_at: None,
        answer: None,
        answered: None,
    }
}

/// Records the commits of a message that ends before they are published.
fn note_unpublished(job: &mut Job, message: crate::ids::MessageId) {
    let pushed = job.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
    let Some(Progress::Publishing { head, commits, .. }) = job.in_flight().map(|in_flight| &in_flight.progress) else {
        return;
    };
    if !commits.is_empty() && pushed != Some(head) {
        let commits = commits.clone();
        job.unpublished.push(Unpublished { message, commits });
    }
}

const fn in_flight_mut(job: &mut Job) -> Option<&mut InFlightMessage> {
    match &mut job.state {
        JobState::Active(Work::Running { in_flight, .. } | Work::Retrying { in_flight, .. }) => Some(in_flight),
        _ => None,
    }
}
