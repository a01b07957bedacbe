//! The messages of a job and their runs, from which the parts of its page are rendered.

use std::time::Duration;

use journeyman_core::ids::{JobId, MessageId};
use journeyman_core::job::{Ended, Job, JobState};
use journeyman_core::message::{Message, MessageStatus};
use journeyman_core::ports::StoreError;
use journeyman_core::run::{Reason, ReasonCode, Run, RunStatus, Usage};
use journeyman_core::time::Timestamp;

use crate::Shared;

/// The messages and the runs of a job.
#[derive(Debug, Clone, Default)]
pub(super) struct MessagesAndRuns {
    /// The messages, in the order in which they were accepted.
    pub(super) messages: Vec<Message>,
    /// The runs, oldest first.
    pub(super) runs: Vec<Run>,
}

impl MessagesAndRuns {
    /// Reads the messages and the runs.
    pub(super) async fn read(shared: &Shared, job: JobId) -> Result<Self, StoreError> {
        let messages = shared.services.store.messages(job).await?;
        Self::with(shared, job, messages).await
    }

    /// Reads the runs of a job whose messages are known.
    pub(super) async fn with(shared: &Shared, job: JobId, messages: Vec<Message>) -> Result<Self, StoreError> {
        Ok(Self { messages, runs: shared.services.store.runs(job).await? })
    }

    /// Finds a message, and returns it with its number from 1.
    pub(super) fn message(&self, id: MessageId) -> Option<(usize, &Message)> {
        let index = self.messages.iter().position(|message| message.id == id)?;
        Some((index + 1, &self.messages[index]))
    }

    /// Returns the last message that a run had taken by this time.
    pub(super) fn message_at(&self, at: Timestamp) -> Option<MessageId> {
        let taken = self.messages.iter().filter_map(|message| Some((message.delivered_at?, message.id)));
        taken
            .filter(|(delivered_at, _)| *delivered_at <= at)
            .max_by_key(|(delivered_at, _)| *delivered_at)
            .map(|one| one.1)
    }

    /// Returns the last message that a run has taken.
    pub(super) fn last_delivered(&self) -> Option<&Message> {
        last_delivered(&self.messages)
    }

    /// Returns the runs of a message, oldest first.
    pub(super) fn runs_of(&self, message: MessageId) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.message == message)
    }

    /// Returns the run that is in progress.
    pub(super) fn running(&self) -> Option<&Run> {
        self.runs.last().filter(|run| run.status == RunStatus::Running)
    }

    /// Returns the sum of the durations of all finished runs, without the time that people take.
    pub(super) fn worked(&self) -> Duration {
        worked(self.runs.iter())
    }

    /// Returns the sum of the durations of the finished runs of a message.
    pub(super) fn worked_on(&self, message: MessageId) -> Duration {
        worked(self.runs_of(message))
    }

    /// Returns the cost of the runs of a message, if the price is known.
    pub(super) fn cost_of(&self, message: MessageId) -> Option<u64> {
        self.runs_of(message)
            .filter_map(|run| run.usage.cost_micros)
            .reduce(u64::saturating_add)
            .filter(|cost| *cost > 0)
    }

    /// Returns the usage of all runs.
    pub(super) fn usage(&self) -> Usage {
        self.runs.iter().fold(Usage::default(), |sum, run| sum.and(&run.usage))
    }

    /// Returns true if the turn of the message is over, so that only its result matters. The last message of a job that
    /// failed stays open: its steps show why.
    pub(super) fn is_over(&self, job: &Job, message: &Message) -> bool {
        let is_last = || self.last_delivered().is_some_and(|last| last.id == message.id);
        message.status.is_final() && !(message.status == MessageStatus::Failed && failure(job).is_some() && is_last())
    }
}

/// Returns the last message that a run has taken.
pub(super) fn last_delivered(messages: &[Message]) -> Option<&Message> {
    messages.iter().filter(|message| message.delivered_at.is_some()).max_by_key(|message| message.delivered_at)
}

fn worked<'a>(runs: impl Iterator<Item = &'a Run>) -> Duration {
    runs.filter_map(|run| Some(run.finished_at?.since(run.started_at))).fold(Duration::ZERO, Duration::saturating_add)
}

/// Returns the reason why the job failed; `None` if it did not, or was canceled.
pub(super) fn failure(job: &Job) -> Option<&Reason> {
    ended(job).filter(|reason| reason.code != ReasonCode::Cancelled)
}

/// Returns the reason why the job did not complete, also if it is archived.
pub(super) fn ended(job: &Job) -> Option<&Reason> {
    match &job.state {
        JobState::Failed(reason) | JobState::Archived { before: Ended::Failed(reason), .. } => Some(reason),
        JobState::Active(_) | JobState::Completed | JobState::Archived { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::ids::{RunId, WorkerId};
    use uuid::Uuid;

    use super::*;

    fn run(message: u128, started: u64, finished: Option<u64>) -> Run {
        let at = |seconds| Timestamp::default() + Duration::from_secs(seconds);
        Run {
            id: RunId::from_uuid(Uuid::from_u128(u128::from(started))),
            job: JobId::from_uuid(Uuid::nil()),
            message: MessageId::from_uuid(Uuid::from_u128(message)),
            attempt: 1,
            status: if finished.is_some() { RunStatus::Succeeded } else { RunStatus::Running },
            reason: None,
            worker: WorkerId::from_uuid(Uuid::nil()),
            started_at: at(started),
            finished_at: finished.map(at),
            usage: Usage { cost_micros: (message == 1).then_some(7), ..Usage::default() },
            commits: Vec::new(),
        }
    }

    #[test]
    fn the_time_of_a_message_is_that_of_its_runs() {
        let runs = vec![run(1, 0, Some(10)), run(1, 20, Some(25)), run(2, 5000, Some(5001)), run(2, 6000, None)];
        let history = MessagesAndRuns { messages: Vec::new(), runs };
        let message = |number| MessageId::from_uuid(Uuid::from_u128(number));
        assert_eq!(history.worked(), Duration::from_secs(16));
        assert_eq!([1, 2, 3].map(|one| history.worked_on(message(one)).as_secs()), [15, 1, 0]);
        assert_eq!([1, 2, 3].map(|one| history.cost_of(message(one))), [Some(14), None, None]);
        assert_eq!(history.running().map(|run| run.started_at), Some(run(2, 6000, None).started_at));
    }
}
