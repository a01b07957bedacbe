//! The checks of the newest commit.

use super::Plan;
use crate::checks::{Attempt, CheckReport, CheckStop, Reaction, refusal};
use crate::code_host::PullState;
use crate::job::JobState;
use crate::job::event::Event;

impl Plan {
    /// Records the result of the checks of the newest commit, and sends a message if they are to be repaired. While the
    /// job is active, failed checks to repair are not recorded, because the agent may push another commit.
    pub(super) fn record_checks(&mut self, report: &CheckReport) {
        let pushed = self.job.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
        let is_open = self.job.pull.as_ref().is_some_and(|pull| pull.state == PullState::Open);
        if pushed != Some(&report.sha) || !is_open {
            return;
        }
        match &report.reaction {
            Reaction::Report => self.settle_checks(report, None),
            Reaction::Stop(stop) => self.settle_checks(report, Some(*stop)),
            Reaction::Fix(attempt) => self.repair(report, attempt),
        }
    }

    fn repair(&mut self, report: &CheckReport, attempt: &Attempt) {
        let known = self.job.checks.as_deref();
        // One attempt is made for each commit.
        if known.is_some_and(|known| known.sha == report.sha && known.attempted) {
            return self.settle_checks(report, None);
        }
        let stop = match self.job.state {
            JobState::Archived { .. } => Some(CheckStop::Archived),
            JobState::Active(_) => return,
            JobState::Completed | JobState::Failed(_) => refusal(known, attempt, self.job.automatic_messages(self.now)),
        };
        self.settle_checks(report, stop);
        if stop.is_none() {
            self.emit(Event::RepairRequested { signature: attempt.signature.clone() });
            self.emit(Event::MessageAccepted { message: attempt.message.clone(), first: false });
        }
    }

    fn settle_checks(&mut self, report: &CheckReport, stop: Option<CheckStop>) {
        let is_known = self
            .job
            .checks
            .as_deref()
            .is_some_and(|known| (&known.sha, known.result, known.stop) == (&report.sha, report.result, stop));
        if !is_known {
            self.emit(Event::ChecksSettled { report: Box::new(report.clone()), stop });
        }
    }
}
