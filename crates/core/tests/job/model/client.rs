//! The actions of clients and of the clock.

use journeyman_core::job::command::Command;
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::{JobState, Work};
use journeyman_core::message::DeliveryMode;

use super::normal::id;
use super::world::World;
use crate::job::fixtures::{START as NOW, message};

impl World {
    pub(super) fn send(&mut self, delivery: DeliveryMode) {
        let number = self.sent + 1;
        let refusal = match self.job.0.state {
            JobState::Archived { .. } => Some(Rejected::Archived),
            _ if self.job.0.archive_requested_at().is_some() => Some(Rejected::Archived),
            JobState::Active(_) if delivery == DeliveryMode::Reject => Some(Rejected::Busy),
            _ => None,
        };
        let mut queue = self.job.0.queue.clone();
        let index = if delivery == DeliveryMode::Interrupt { 0 } else { queue.len() };
        queue.insert(index, id(number));
        let done = self.command(&Command::AddMessage(message(u128::from(number), delivery)));
        self.require(done.err() == refusal, "only archived jobs, and busy jobs on request, reject");
        if done.is_ok() {
            self.sent = number;
            self.left.messages -= 1;
            self.require(self.job.0.queue == queue, "a message goes last, an interrupting one first");
        }
    }

    /// Executes an idempotent command. It counts as an intervention only if it changes the job.
    pub(super) fn intervene(&mut self, command: &Command) {
        let before = self.job.clone();
        let done = self.command(command);
        self.require(done.is_ok(), "cancel and archive are never rejected");
        if self.job != before {
            self.left.interventions -= 1;
        }
    }

    pub(super) fn wait(&mut self) {
        match &mut self.job.0.state {
            JobState::Active(Work::Running { lease, .. }) => lease.until = NOW,
            JobState::Active(Work::Retrying { not_before, .. }) => *not_before = NOW,
            _ => {}
        }
    }
}
