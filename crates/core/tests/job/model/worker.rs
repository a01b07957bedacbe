//! The steps of workers. A worker may pause or die after each step.

use journeyman_core::ids::{RunId, WorkerId};
use journeyman_core::job::change::step;
use journeyman_core::job::command::{Claim, Command, NextAttempt, Outcome, Published, Report};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::job::{JobState, Progress, Token, Work};
use journeyman_core::pull::Pull;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use uuid::Uuid;

use super::normal::{commits, number_of, sha_of, token_of};
use super::world::{Commits, WorkerState, World};
use crate::job::fixtures::{LEASE, START as NOW, artifacts};

impl World {
    pub(super) fn claim(&mut self, worker: usize) {
        let takes_over = matches!(self.job.0.state, JobState::Active(Work::Running { .. }));
        if takes_over && self.left.mishaps == 0 {
            return;
        }
        let before = self.job.0.token;
        let first = self.job.0.queue.first().copied();
        let due = self.job.0.due_at().is_some_and(|at| at <= NOW);
        let taken = self.command(&self.claim_of(worker)).is_ok();
        self.require(taken == due, "a job can be claimed exactly when it is due");
        if !taken {
            return;
        }
        self.left.mishaps -= u8::from(takes_over);
        let JobState::Active(Work::Running { in_flight, lease }) = &self.job.0.state else { return };
        let (message, progress, token) = (in_flight.message, in_flight.progress.clone(), lease.token);
        self.require(token > before && token == self.job.0.token, "each lease has a newer token");
        if let Some(first) = first.filter(|first| *first == message).map(number_of) {
            self.delivered.push(first);
        }
        let known = self.delivered.contains(&number_of(message));
        self.require(known, "messages are delivered in the order of the queue");
        self.workers[worker] = match progress {
            Progress::Prompting => WorkerState::Claimed { token },
            Progress::Publishing { head, .. } => {
                self.published_for_another = true;
                WorkerState::Ended { token, head: commits(&head) }
            }
        };
    }

    pub(super) fn claim_of(&self, worker: usize) -> Command {
        let number = u128::from(self.job.0.token.0) + 1;
        Command::Claim(Claim {
            run: RunId::from_uuid(Uuid::from_u128(number)),
            worker: WorkerId::from_uuid(Uuid::from_u128(worker as u128)),
            lease_until: NOW + LEASE,
        })
    }

    /// Returns whether a worker that claims the job when it is due advances it: to a newer lease, or to its end. The
    /// bounds do not apply, so a world whose mishaps are used up and whose workers are both dead is no exception.
    pub(super) fn can_continue(&self) -> bool {
        let Some(due) = self.job.0.due_at() else { return false };
        step(&self.job.0, &self.claim_of(0), due.max(NOW)).is_ok_and(|change| match change.job.state {
            JobState::Active(_) => change.job.lease().is_some_and(|lease| lease.token > self.job.0.token),
            _ => true,
        })
    }

    pub(super) fn begin(&mut self, worker: usize) {
        let WorkerState::Claimed { token } = self.workers[worker] else { return };
        // As in `choose_branch` of the worker, recorded commits that were not pushed are the base.
        let recorded = self.job.0.branch.as_ref().map(|branch| commits(&branch.head)).unwrap_or_default();
        let on_host = self.host.branch.clone();
        let base = if recorded.starts_with(&on_host) { recorded } else { on_host.clone() };
        let pushed = (!on_host.is_empty()).then(|| sha_of(&on_host));
        let head = sha_of(&base);
        let turn = TurnBegun {
            branch: "b".into(),
            generation: 1,
            base: sha_of(&[]),
            head,
            pushed,
            default_branch: None,
            repository: None,
        };
        if self.report(worker, Report::TurnBegun(turn)).is_ok() {
            self.workers[worker] = WorkerState::Begun { token, base };
        }
    }

    pub(super) fn answer(&mut self, worker: usize) {
        let WorkerState::Begun { token, .. } = self.workers[worker] else { return };
        let holds = self.holds(token);
        let done = self.report(worker, Report::Answered { answer: None, usage: Usage::default() });
        self.require(!holds || done.is_ok(), "the end of a turn is accepted from the worker that has the lease");
        self.require(done.is_err() || self.is_answered(), "the end of a turn is recorded");
    }

    pub(super) fn resume(&mut self, worker: usize) {
        let WorkerState::Claimed { token } = self.workers[worker] else { return };
        // The work is in the workspace of the worker, whose lease may have been taken over.
        let base = self.job.0.branch.as_ref().map(|branch| commits(&branch.head)).unwrap_or_default();
        self.workers[worker] = WorkerState::Begun { token, base };
    }

    fn is_answered(&self) -> bool {
        self.job.0.in_flight().is_some_and(|message| message.answered.is_some())
    }

    pub(super) fn end(&mut self, worker: usize, commit: bool, ending: Ending) {
        let WorkerState::Begun { token, base } = self.workers[worker].clone() else { return };
        let in_flight = self.job.0.in_flight().filter(|_| self.holds(token)).cloned();
        let mut head = base;
        let mut new = Vec::new();
        let number = in_flight.as_ref().map_or(0, |in_flight| number_of(in_flight.message));
        if commit {
            head.push(number);
            new.push(sha_of(&head));
        }
        let ended = Report::TurnEnded { head: sha_of(&head), commits: new, artifacts: artifacts("s"), ending };
        if self.report(worker, ended).is_ok() {
            if commit && !self.committed.contains(&number) {
                self.committed.push(number);
            }
            self.workers[worker] = WorkerState::Ended { token, head };
        }
    }

    /// Pushes to the code host without a report to the core. The push is never forced, so the branch only grows.
    pub(super) fn push(&mut self, worker: usize) {
        let WorkerState::Ended { token, head } = self.workers[worker].clone() else { return };
        if head.starts_with(&self.host.branch) {
            self.host.branch.clone_from(&head);
        } else {
            let new = head.iter().copied().filter(|commit| !self.host.branch.contains(commit));
            let on_top: Commits = self.host.branch.iter().copied().chain(new).collect();
            if on_top != self.host.branch {
                // The push is refused because the branch has other commits. Put the missing commits on top of them,
                // record the result, and push again.
                self.rebase(worker, on_top);
                return;
            }
        }
        self.workers[worker] = WorkerState::Pushed { token, head };
    }

    pub(super) fn rebase(&mut self, worker: usize, head: Commits) {
        let Some(token) = token_of(&self.workers[worker]) else { return };
        let ending = self.job.0.in_flight().and_then(|message| message.progress.ending()).unwrap_or_default();
        let ended = Report::TurnEnded {
            head: sha_of(&head),
            commits: vec![sha_of(&head)],
            artifacts: TurnArtifacts::default(),
            ending,
        };
        if self.report(worker, ended).is_ok() {
            self.workers[worker] = WorkerState::Ended { token, head };
        }
    }

    /// Opens a pull request if there is none; a code host refuses a second one for the same branch.
    pub(super) fn ensure(&mut self, worker: usize) {
        let WorkerState::Pushed { token, head } = self.workers[worker].clone() else { return };
        let opened = self.host.pulls == 0 && !head.is_empty();
        self.host.pulls += u8::from(opened);
        self.workers[worker] = WorkerState::Ensured { token, head, opened };
    }

    pub(super) fn finish(&mut self, worker: usize) {
        let WorkerState::Ensured { head, opened, .. } = self.workers[worker].clone() else { return };
        let pull = Pull::new(1, "http://pull/1");
        let known = self.job.0.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
        // As the worker's `publish` does: a turn that changed nothing pushes nothing, but still ensures a pull request
        // that an earlier run failed to report.
        let changed = !head.is_empty() && known != Some(&sha_of(&head));
        let pull = if head.is_empty() || (!changed && self.job.0.pull.is_some()) {
            Published::Nothing
        } else if opened {
            Published::Opened(pull, None)
        } else {
            Published::Updated(pull)
        };
        self.last_report(worker, Outcome::Published { pushed: changed.then(|| sha_of(&head)), pull });
    }

    pub(super) fn fail(&mut self, worker: usize, again: bool) {
        let reason = Reason::new(ReasonCode::AgentExited, "it died");
        self.left.mishaps -= 1;
        self.last_report(worker, Outcome::Failed { reason, retry: again.then_some(0) });
    }

    pub(super) fn hold(&mut self, worker: usize) {
        let reason = Reason::new(ReasonCode::RepositoryUnreachable, "away");
        self.left.mishaps -= 1;
        let next = NextAttempt::Backoff(0);
        let holds = token_of(&self.workers[worker]).is_some_and(|token| self.holds(token));
        let was_answered = holds && self.is_answered();
        self.last_report(worker, Outcome::Waiting { reason, since: NOW, patience: LEASE, next });
        let waits = matches!(self.job.0.state, JobState::Active(Work::Retrying { .. }));
        self.require(!was_answered || !waits || self.is_answered(), "a turn that has ended stays so while it waits");
    }

    pub(super) fn hand_back(&mut self, worker: usize) {
        self.left.mishaps -= 1;
        self.last_report(worker, Outcome::HandedBack);
    }

    pub(super) fn crash(&mut self, worker: usize) {
        self.left.mishaps -= 1;
        self.workers[worker] = WorkerState::Idle;
    }

    pub(super) fn last_report(&mut self, worker: usize, outcome: Outcome) {
        let done = self.report(worker, Report::Finished { outcome, usage: Usage::default() });
        self.require(done != Err(Rejected::OutOfOrder), "a report that matches the progress is accepted");
        self.workers[worker] = WorkerState::Idle;
    }

    /// Sends a report. A rejected report ends the work of the worker.
    pub(super) fn report(&mut self, worker: usize, report: Report) -> Result<(), Rejected> {
        let Some(token) = token_of(&self.workers[worker]) else { return Err(Rejected::StaleToken) };
        let holds = self.holds(token);
        let done = self.command(&Command::Report { token, report });
        self.require(holds || done == Err(Rejected::StaleToken), "a stale token is rejected");
        self.require(!holds || done != Err(Rejected::StaleToken), "the newest token is accepted");
        if done == Err(Rejected::StaleToken) {
            self.stale_refused = true;
            self.workers[worker] = WorkerState::Idle;
        }
        done
    }

    pub(super) fn holds(&self, token: Token) -> bool {
        self.job.0.lease().is_some_and(|lease| lease.token == token)
    }
}
