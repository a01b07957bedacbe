//! The updates of the pull request.

use super::Plan;
use crate::job::event::Event;
use crate::job::pull_updates::{OutdatedPull, UpdateDecision, decide_update};

impl Plan {
    /// Sends the message that has the pull request updated, or tells why not. While the job is active nothing is
    /// decided, because the agent may push another commit.
    pub(super) fn keep_up_to_date(&mut self, report: &OutdatedPull) {
        let stop = match decide_update(&self.job, &report.pull, &report.comparison, report.most_per_day, self.now) {
            UpdateDecision::Nothing => return,
            UpdateDecision::Stop(stop) => Some(stop),
            UpdateDecision::Ask => None,
        };
        self.emit(Event::PullRequestOutdated {
            number: report.pull.number,
            comparison: Box::new(report.comparison.clone()),
            stop,
        });
        if stop.is_none() {
            self.emit(Event::MessageAccepted { message: report.message.clone(), first: false });
        }
    }
}
