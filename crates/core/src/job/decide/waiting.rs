//! Messages that wait for something outside them, and commits that are published with a later message.

use std::time::Duration;

use super::Plan;
use crate::job::command::NextAttempt;
use crate::job::event::{AfterRun, Counts, Event};
use crate::job::turn::TurnBegun;
use crate::job::{InFlightMessage, Waiting};
use crate::message::MessageStatus;
use crate::retry::backoff;
use crate::run::{Reason, RunStatus, Usage};
use crate::time::Timestamp;

/// A cause that may be temporary.
pub(super) struct Cause<'a> {
    pub(super) reason: &'a Reason,
    /// The time since which the cause is known.
    pub(super) since: Timestamp,
    /// The time for which the cause is retried before the message fails.
    pub(super) patience: Duration,
}

impl Plan {
    /// Ends the attempt and makes the message wait, or fails the message at its deadline.
    pub(super) fn wait(&mut self, in_flight: &InFlightMessage, cause: &Cause<'_>, next: NextAttempt, usage: Usage) {
        let Cause { reason, since, patience } = *cause;
        let before = in_flight.waiting.as_ref().filter(|before| before.reason.code == reason.code);
        // If the clock was set back, the cause must not begin in the future.
        let since = before.map_or(since, |before| before.since).min(self.now);
        let deadline = since + patience;
        if deadline <= self.now {
            let text = format!("{} (retried for {})", reason.text, in_words(patience));
            let reason = Reason::new(reason.code, text);
            self.finish_run(RunStatus::Failed, Some(reason.clone()), usage, AfterRun::Ends);
            self.conclude(in_flight.message, MessageStatus::Failed, Some(reason));
            return;
        }
        let attempts = before.map_or(0, |before| before.attempts).saturating_add(1);
        let next_attempt_at = match next {
            // The last attempt is made at the deadline, not after it.
            NextAttempt::Backoff(permille) => (self.now + backoff(attempts, permille)).min(deadline),
            NextAttempt::AfterHold => self.now,
        };
        let retry = AfterRun::Retry { not_before: next_attempt_at, counts: Counts::Nothing };
        self.finish_run(RunStatus::Failed, Some(reason.clone()), usage, retry);
        let waiting = Waiting { reason: reason.clone(), since, deadline, attempts };
        self.emit(Event::MessageWaiting { message: in_flight.message, waiting, next_attempt_at });
    }

    /// Records an earlier push whose response was lost: the turn begins on a branch that already has the job's
    /// unpublished commits.
    pub(super) fn note_published(&mut self, turn: &TurnBegun) {
        if turn.pushed.as_ref() == Some(&turn.head) {
            self.publish_earlier();
        }
    }

    /// Records that the commits of earlier messages were pushed together with those of the current message.
    pub(super) fn publish_earlier(&mut self) {
        let Some(message) = self.job.in_flight().map(|in_flight| in_flight.message) else { return };
        if !self.job.unpublished.is_empty() {
            let earlier = self.job.unpublished.clone();
            let pr_link = self.job.pull.as_ref().map(|pull| pull.url.clone());
            self.emit(Event::PublishedWith { message, earlier, pr_link });
        }
    }
}

/// Formats a duration for people.
fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..=119 => format!("{seconds} seconds"),
        seconds @ 120..=7199 => format!("{} minutes", seconds / 60),
        seconds => format!("{} hours", seconds / 3600),
    }
}
