//! The upkeep of the pull request.

use super::Plan;
use crate::job::event::Event;
use crate::upkeep::{Upkeep, UpkeepReport, upkeep};

impl Plan {
    /// Sends the message that has the pull request updated, or tells why not. While the job is active nothing is
    /// decided, because the agent may push another commit.
    pub(super) fn keep_up_to_date(&mut self, report: &UpkeepReport) {
        let stop = match upkeep(&self.job, &report.pull, &report.standing, report.most_per_day, self.now) {
            Upkeep::Nothing => return,
            Upkeep::Stop(stop) => Some(stop),
            Upkeep::Ask => None,
        };
        self.emit(Event::PullRequestOutdated {
            number: report.pull.number,
            standing: Box::new(report.standing.clone()),
            stop,
        });
        if stop.is_none() {
            self.emit(Event::MessageAccepted { message: report.message.clone(), first: false });
        }
    }
}
