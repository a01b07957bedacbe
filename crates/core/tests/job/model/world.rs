//! The world outside a job, and the actions that are possible in it.

use std::hash::{Hash, Hasher};

use journeyman_core::job::change::{Change, Row, step};
use journeyman_core::job::command::{Command, Report};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::effect::Effect;
use journeyman_core::job::turn::Ending;
use journeyman_core::job::{Job, Token};
use journeyman_core::message::{DeliveryMode, MessageStatus};

use super::normal::{LAST_SEQ, id, normal, number_of};
use crate::job::fixtures::{LEASE, START as NOW, created};

/// The limits on what may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    /// The number of messages, including the first one, which creates the job.
    pub(super) messages: u8,
    /// The number of crashes, takeovers, failures, outages and hand-backs together.
    pub(super) mishaps: u8,
    /// The number of withdrawals, cancels and archives together.
    pub(super) interventions: u8,
}

/// A branch, as the numbers of the messages whose commits are on it, oldest first.
pub(super) type Commits = Vec<u8>;

/// The state of a worker, as the worker knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum WorkerState {
    Idle,
    /// The worker has a run.
    Claimed {
        token: Token,
    },
    /// The agent works on top of `base`.
    Begun {
        token: Token,
        base: Commits,
    },
    /// The turn has ended, and its head is recorded.
    Ended {
        token: Token,
        head: Commits,
    },
    /// The head is on the code host.
    Pushed {
        token: Token,
        head: Commits,
    },
    /// The pull request exists; `opened` is true if this worker opened it.
    Ensured {
        token: Token,
        head: Commits,
        opened: bool,
    },
}

/// The content of the code host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct CodeHost {
    pub(super) branch: Commits,
    pub(super) pulls: u8,
}

/// A job without counters, so that states that behave alike are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Normal(pub(super) Job);

impl Hash for Normal {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let job = &self.0;
        (&job.state, &job.last, &job.queue, &job.branch, &job.pull, &job.session, job.token).hash(hasher);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) job: Normal,
    pub(super) workers: [WorkerState; 2],
    pub(super) host: CodeHost,
    pub(super) left: Bounds,
    /// The number of accepted messages.
    pub(super) sent: u8,
    /// The messages in the order in which runs first took them.
    pub(super) delivered: Vec<u8>,
    /// The messages whose turn ended with a commit.
    pub(super) committed: Vec<u8>,
    /// The final status of each message.
    pub(super) finals: [Option<MessageStatus>; 3],
    /// `true` if the last step was a report with a stale token.
    pub(super) stale_refused: bool,
    /// `true` if the last step was a claim of a job whose turn another worker had ended.
    pub(super) published_for_another: bool,
    /// The messages whose receipt says that they had no effect.
    pub(super) denied: Vec<u8>,
    /// The first rule that a step has broken.
    pub(super) broken: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Send(DeliveryMode),
    Withdraw(u8),
    Cancel,
    Archive,
    Unarchive,
    /// Time passes until the job is due.
    Wait,
    Claim(usize),
    Heartbeat(usize),
    Begin(usize),
    /// The agent has ended its turn, and its work is not recorded yet.
    Answer(usize),
    /// The worker continues with the work of a turn that has ended in an earlier run.
    Resume(usize),
    /// The turn ends, with or without a commit, by request or by itself.
    End {
        worker: usize,
        commit: bool,
        asked: bool,
    },
    Push(usize),
    Ensure(usize),
    Finish(usize),
    /// The run fails; `true` if it may be retried.
    Fail(usize, bool),
    HandBack(usize),
    /// The run encounters a cause outside its message. (At the deadline it fails like [`Action::Fail`].)
    Hold(usize),
    Crash(usize),
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            job: Normal(normal(created().job)),
            workers: [WorkerState::Idle, WorkerState::Idle],
            host: CodeHost::default(),
            left: Bounds { messages: bounds.messages - 1, ..bounds },
            sent: 1,
            delivered: vec![],
            committed: vec![],
            finals: [None; 3],
            stale_refused: false,
            published_for_another: false,
            denied: vec![],
            broken: None,
        }
    }

    /// Lists the actions that may happen next. A rejected action leads to the same state.
    pub(super) fn actions(&self, actions: &mut Vec<Action>) {
        if self.left.messages > 0 {
            let modes = [DeliveryMode::Queue, DeliveryMode::Interrupt, DeliveryMode::Reject];
            actions.extend(modes.map(Action::Send));
        }
        if self.left.interventions > 0 {
            actions.extend((1..=self.sent).map(Action::Withdraw));
            actions.extend([Action::Cancel, Action::Archive]);
        }
        actions.extend([Action::Unarchive, Action::Wait]);
        let is_answered = self.job.0.in_flight().is_some_and(|message| message.answered.is_some());
        let asked_to_stop = self.job.0.in_flight().is_some_and(|message| message.stop);
        for (worker, state) in self.workers.iter().enumerate() {
            match state {
                WorkerState::Idle => actions.push(Action::Claim(worker)),
                WorkerState::Claimed { .. } => {
                    actions.push(Action::Begin(worker));
                    if is_answered {
                        actions.push(Action::Resume(worker));
                    }
                }
                WorkerState::Begun { .. } => {
                    if !is_answered {
                        actions.push(Action::Answer(worker));
                    }
                    let end = |asked| [true, false].map(|commit| Action::End { worker, commit, asked });
                    actions.extend(end(false));
                    if asked_to_stop {
                        actions.extend(end(true));
                    }
                }
                WorkerState::Ended { .. } => actions.push(Action::Push(worker)),
                WorkerState::Pushed { .. } => actions.push(Action::Ensure(worker)),
                WorkerState::Ensured { .. } => actions.push(Action::Finish(worker)),
            }
            if *state != WorkerState::Idle {
                actions.push(Action::Heartbeat(worker));
            }
            if *state != WorkerState::Idle && self.left.mishaps > 0 {
                actions.extend([Action::Crash(worker), Action::HandBack(worker)]);
                actions.extend([Action::Fail(worker, true), Action::Fail(worker, false)]);
                actions.push(Action::Hold(worker));
            }
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        (self.stale_refused, self.published_for_another) = (false, false);
        self.carry_out(action);
        // Workers are interchangeable, so their order does not matter.
        self.workers.sort_unstable();
        self.forget_old_tokens();
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Send(delivery) => self.send(delivery),
            Action::Withdraw(number) => {
                if self.command(&Command::WithdrawMessage(id(number))).is_ok() {
                    self.left.interventions -= 1;
                }
            }
            Action::Cancel => self.intervene(&Command::Cancel),
            Action::Archive => self.intervene(&Command::Archive),
            Action::Unarchive => {
                let done = self.command(&Command::Unarchive);
                self.require(done.is_ok(), "unarchive is never rejected");
            }
            Action::Wait => self.wait(),
            Action::Claim(worker) => self.claim(worker),
            Action::Heartbeat(worker) => {
                // A rejected report changes the worker's state.
                let _ = self.report(worker, Report::Heartbeat { lease_until: NOW + LEASE });
            }
            Action::Begin(worker) => self.begin(worker),
            Action::Answer(worker) => self.answer(worker),
            Action::Resume(worker) => self.resume(worker),
            Action::End { worker, commit, asked } => {
                self.end(worker, commit, if asked { Ending::Stopped } else { Ending::Done })
            }
            Action::Push(worker) => self.push(worker),
            Action::Ensure(worker) => self.ensure(worker),
            Action::Finish(worker) => self.finish(worker),
            Action::Fail(worker, again) => self.fail(worker, again),
            Action::HandBack(worker) => self.hand_back(worker),
            Action::Hold(worker) => self.hold(worker),
            Action::Crash(worker) => self.crash(worker),
        }
    }

    /// Sends a command to the real core, and checks the rules that hold for every step.
    pub(super) fn command(&mut self, command: &Command) -> Result<(), Rejected> {
        let Change { job, rows, log } = step(&self.job.0, command, NOW)?;
        let gapless = log.iter().map(|entry| entry.seq).eq(LAST_SEQ + 1..=job.last_seq);
        self.require(gapless, "the log has no gaps");
        self.require(job.token >= self.job.0.token, "tokens never decrease");
        for row in rows {
            match row {
                Row::MessageDelivered { id, .. } => {
                    let index = usize::from(number_of(id)) - 1;
                    self.require(self.finals[index].is_none(), "a final message is not delivered again");
                }
                Row::MessageEnded { id, status, commits, .. } => {
                    let index = usize::from(number_of(id)) - 1;
                    self.require(self.finals[index].is_none(), "a message becomes final once");
                    self.finals[index] = Some(status);
                    if status == MessageStatus::Cancelled && commits.is_empty() {
                        self.denied.push(number_of(id));
                    }
                }
                Row::MessagePublishedWith { id, with, .. } => {
                    let index = usize::from(number_of(id)) - 1;
                    self.require(
                        self.finals[index] == Some(MessageStatus::Failed),
                        "only failed messages are published later",
                    );
                    self.require(self.finals[usize::from(number_of(with)) - 1].is_none(), "the later one is active");
                    let is_there = self.host.branch.contains(&number_of(id));
                    self.require(is_there, "commits that are published with a later message are on the branch");
                }
                Row::InsertTask { effect: Effect::RemoveBlobs { up_to, .. }, .. } => {
                    let has_ended = job.lease().is_none_or(|lease| up_to.is_some_and(|ended| ended < lease.token));
                    self.require(has_ended, "blobs of the current lease are not removed");
                }
                Row::Attributes(_)
                | Row::Feed(_)
                | Row::InsertMessage(_)
                | Row::MessageChanged { .. }
                | Row::MessageDiff { .. }
                | Row::InboxDone { .. }
                | Row::IssueJob { .. }
                | Row::InsertTask { .. }
                | Row::InsertRun(_)
                | Row::RunEnded { .. }
                | Row::RunUsed { .. }
                | Row::Pull(_)
                | Row::PullState(..)
                | Row::WatchChecks { .. } => {}
            }
        }
        self.job = Normal(normal(job));
        Ok(())
    }

    pub(super) fn require(&mut self, holds: bool, rule: &'static str) {
        if !holds && self.broken.is_none() {
            self.broken = Some(rule);
        }
    }
}
