//! The world around a job, and what can happen in it.

use std::hash::{Hash, Hasher};

use journeyman_core::ids::{MessageId, RunId, Sha, WorkerId};
use journeyman_core::job::change::{Change, Row, step};
use journeyman_core::job::command::{Claim, Command, Outcome, Published, Report, TurnBegun};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::{Job, JobState, Progress, Pull, Token, Work};
use journeyman_core::message::{DeliveryMode, MessageStatus};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use uuid::Uuid;

use crate::job::given::{LEASE, START as NOW, created, message, msg};

/// How much may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Bounds {
    /// Messages, the first with the job.
    pub(super) messages: u8,
    /// Crashes, takeovers, failures and hand-backs together.
    pub(super) mishaps: u8,
    /// Withdrawals, cancellations and archivings together.
    pub(super) interventions: u8,
}

/// A branch as the numbers of the messages whose commits are on it, oldest first.
type Commits = Vec<u8>;

/// What a worker believes it is doing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Hand {
    Idle,
    /// It was given a run.
    Claimed {
        token: Token,
    },
    /// The agent works on top of `base`.
    Begun {
        token: Token,
        base: Commits,
    },
    /// The turn is over, its head is recorded.
    Ended {
        token: Token,
        head: Commits,
    },
    /// The head is on the code host.
    Pushed {
        token: Token,
        head: Commits,
    },
    /// The pull request is there; `opened` by this worker.
    Ensured {
        token: Token,
        head: Commits,
        opened: bool,
    },
}

/// What is on the code host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct CodeHost {
    pub(super) branch: Commits,
    pub(super) pulls: u8,
}

/// A job without what only counts up, so that states that behave alike are one.
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
    pub(super) hands: [Hand; 2],
    pub(super) host: CodeHost,
    left: Bounds,
    /// Messages accepted so far.
    pub(super) sent: u8,
    /// Messages in the order in which runs first took them.
    pub(super) delivered: Vec<u8>,
    /// Messages whose turn ended with a commit.
    pub(super) committed: Vec<u8>,
    /// How each message ended.
    pub(super) finals: [Option<MessageStatus>; 3],
    /// Whether the last step was a report with a stale token.
    pub(super) stale_refused: bool,
    /// Whether the last step began to publish what another worker had ended.
    pub(super) published_for_another: bool,
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
    /// The turn ends, with a commit or without.
    End(usize, bool),
    Push(usize),
    Ensure(usize),
    Finish(usize),
    /// The run fails; whether it may be tried again.
    Fail(usize, bool),
    HandBack(usize),
    Crash(usize),
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            job: Normal(normal(created().job)),
            hands: [Hand::Idle, Hand::Idle],
            host: CodeHost::default(),
            left: Bounds { messages: bounds.messages - 1, ..bounds },
            sent: 1,
            delivered: vec![],
            committed: vec![],
            finals: [None; 3],
            stale_refused: false,
            published_for_another: false,
            broken: None,
        }
    }

    /// What may happen next; an action that is refused leads back to the same state.
    pub(super) fn actions(&self, actions: &mut Vec<Action>) {
        if self.left.messages > 0 {
            actions.extend([Action::Send(DeliveryMode::Queue), Action::Send(DeliveryMode::Interrupt)]);
        }
        if self.left.interventions > 0 {
            actions.extend((1..=self.sent).map(Action::Withdraw));
            actions.extend([Action::Cancel, Action::Archive]);
        }
        actions.extend([Action::Unarchive, Action::Wait]);
        for (worker, hand) in self.hands.iter().enumerate() {
            match hand {
                Hand::Idle => actions.push(Action::Claim(worker)),
                Hand::Claimed { .. } => actions.push(Action::Begin(worker)),
                Hand::Begun { .. } => actions.extend([Action::End(worker, true), Action::End(worker, false)]),
                Hand::Ended { .. } => actions.push(Action::Push(worker)),
                Hand::Pushed { .. } => actions.push(Action::Ensure(worker)),
                Hand::Ensured { .. } => actions.push(Action::Finish(worker)),
            }
            if *hand != Hand::Idle {
                actions.push(Action::Heartbeat(worker));
            }
            if *hand != Hand::Idle && self.left.mishaps > 0 {
                actions.extend([Action::Crash(worker), Action::HandBack(worker)]);
                actions.extend([Action::Fail(worker, true), Action::Fail(worker, false)]);
            }
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        (self.stale_refused, self.published_for_another) = (false, false);
        self.carry_out(action);
        // Workers are alike: which of them does a thing makes no difference.
        self.hands.sort_unstable();
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
                self.require(done.is_ok(), "unarchive is never refused");
            }
            Action::Wait => self.wait(),
            Action::Claim(worker) => self.claim(worker),
            Action::Heartbeat(worker) => {
                // One that is refused shows in the worker's hand.
                let _ = self.report(worker, Report::Heartbeat { lease_until: NOW + LEASE });
            }
            Action::Begin(worker) => self.begin(worker),
            Action::End(worker, commit) => self.end(worker, commit),
            Action::Push(worker) => self.push(worker),
            Action::Ensure(worker) => self.ensure(worker),
            Action::Finish(worker) => self.finish(worker),
            Action::Fail(worker, again) => self.fail(worker, again),
            Action::HandBack(worker) => self.hand_back(worker),
            Action::Crash(worker) => self.crash(worker),
        }
    }

    fn send(&mut self, delivery: DeliveryMode) {
        let number = self.sent + 1;
        let archived = matches!(self.job.0.state, JobState::Archived { .. });
        match self.command(&Command::AddMessage(message(u128::from(number), delivery))) {
            Ok(()) => {
                self.sent = number;
                self.left.messages -= 1;
                self.require(!archived, "an archived job takes no message");
            }
            Err(rejected) => self.require(archived && rejected == Rejected::Archived, "only an archived job refuses"),
        }
    }

    /// A command that is idempotent: what changes nothing uses nothing up.
    fn intervene(&mut self, command: &Command) {
        let before = self.job.clone();
        let done = self.command(command);
        self.require(done.is_ok(), "cancel and archive are never refused");
        if self.job != before {
            self.left.interventions -= 1;
        }
    }

    fn wait(&mut self) {
        match &mut self.job.0.state {
            JobState::Active(Work::Running { lease, .. }) => lease.until = NOW,
            JobState::Active(Work::Retrying { not_before, .. }) => *not_before = NOW,
            _ => {}
        }
    }

    fn claim(&mut self, worker: usize) {
        let takes_over = matches!(self.job.0.state, JobState::Active(Work::Running { .. }));
        if takes_over && self.left.mishaps == 0 {
            return;
        }
        let next = Token(self.job.0.token.0 + 1);
        let number = u128::from(next.0);
        let claim = Claim {
            run: RunId::from_uuid(Uuid::from_u128(number)),
            worker: WorkerId::from_uuid(Uuid::from_u128(worker as u128)),
            lease_until: NOW + LEASE,
        };
        let first = self.job.0.queue.first().copied();
        let due = self.job.0.due_at().is_some_and(|at| at <= NOW);
        let taken = self.command(&Command::Claim(claim)).is_ok();
        self.require(taken == due, "a job is claimed when it is due, and only then");
        if !taken {
            return;
        }
        self.left.mishaps -= u8::from(takes_over);
        let JobState::Active(Work::Running { delivery, lease }) = &self.job.0.state else { return };
        let (message, progress, token) = (delivery.message, delivery.progress.clone(), lease.token);
        if let Some(place) = first.filter(|first| *first == message).map(number_of) {
            self.delivered.push(place);
        }
        let known = self.delivered.contains(&number_of(message));
        self.require(known, "messages are delivered in the order of the queue");
        self.hands[worker] = match progress {
            Progress::Prompting => Hand::Claimed { token },
            Progress::Publishing { head, .. } => {
                self.published_for_another = true;
                Hand::Ended { token, head: commits(&head) }
            }
        };
    }

    fn begin(&mut self, worker: usize) {
        let Hand::Claimed { token } = self.hands[worker] else { return };
        // What was recorded and not pushed is built upon, as `choose_branch` of the worker does.
        let recorded = self.job.0.branch.as_ref().map(|branch| commits(&branch.head)).unwrap_or_default();
        let on_host = self.host.branch.clone();
        let base = if recorded.starts_with(&on_host) { recorded } else { on_host.clone() };
        let pushed = (!on_host.is_empty()).then(|| sha_of(&on_host));
        let head = sha_of(&base);
        let turn = TurnBegun { branch: "b".into(), generation: 1, base: sha_of(&[]), head, pushed };
        if self.report(worker, Report::TurnBegun(turn)).is_ok() {
            self.hands[worker] = Hand::Begun { token, base };
        }
    }

    fn end(&mut self, worker: usize, commit: bool) {
        let Hand::Begun { token, base } = self.hands[worker].clone() else { return };
        let delivery = self.job.0.delivery().filter(|_| self.holds(token)).cloned();
        let mut head = base;
        let mut new = Vec::new();
        let number = delivery.as_ref().map_or(0, |delivery| number_of(delivery.message));
        if commit {
            head.push(number);
            new.push(sha_of(&head));
        }
        let stopped = delivery.is_some_and(|delivery| delivery.stop);
        let ended = Report::TurnEnded { head: sha_of(&head), commits: new, session: Some("s".into()), stopped };
        if self.report(worker, ended).is_ok() {
            if commit && !self.committed.contains(&number) {
                self.committed.push(number);
            }
            self.hands[worker] = Hand::Ended { token, head };
        }
    }

    /// On the code host alone: nobody is told. Never by force, so a branch only grows.
    fn push(&mut self, worker: usize) {
        let Hand::Ended { token, head } = self.hands[worker].clone() else { return };
        if head.starts_with(&self.host.branch) {
            self.host.branch.clone_from(&head);
        } else {
            let contained = self.host.branch.starts_with(&head);
            self.require(contained, "two workers never build different histories");
        }
        self.hands[worker] = Hand::Pushed { token, head };
    }

    /// Looks first, then opens; a code host refuses a second one for the same branch.
    fn ensure(&mut self, worker: usize) {
        let Hand::Pushed { token, head } = self.hands[worker].clone() else { return };
        let opened = self.host.pulls == 0 && !head.is_empty();
        self.host.pulls += u8::from(opened);
        self.hands[worker] = Hand::Ensured { token, head, opened };
    }

    fn finish(&mut self, worker: usize) {
        let Hand::Ensured { head, opened, .. } = self.hands[worker].clone() else { return };
        let pull = Pull { number: 1, url: "http://pull/1".into() };
        let outcome = match (head.is_empty(), opened) {
            (true, _) => Outcome::Published { pushed: None, pull: Published::Nothing },
            (false, true) => Outcome::Published { pushed: Some(sha_of(&head)), pull: Published::Opened(pull) },
            (false, false) => Outcome::Published { pushed: Some(sha_of(&head)), pull: Published::Updated(pull) },
        };
        self.last_report(worker, outcome);
    }

    fn fail(&mut self, worker: usize, again: bool) {
        let reason = Reason::new(ReasonCode::AgentExited, "it died");
        self.left.mishaps -= 1;
        self.last_report(worker, Outcome::Failed { reason, retry: again.then_some(0) });
    }

    fn hand_back(&mut self, worker: usize) {
        self.left.mishaps -= 1;
        self.last_report(worker, Outcome::HandedBack);
    }

    fn crash(&mut self, worker: usize) {
        self.left.mishaps -= 1;
        self.hands[worker] = Hand::Idle;
    }

    fn last_report(&mut self, worker: usize, outcome: Outcome) {
        let done = self.report(worker, Report::Finished { outcome, usage: Usage::default() });
        self.require(done != Err(Rejected::OutOfOrder), "a report that fits is taken");
        self.hands[worker] = Hand::Idle;
    }

    /// A worker's report; one that is refused ends what the worker does.
    fn report(&mut self, worker: usize, report: Report) -> Result<(), Rejected> {
        let Some(token) = token_of(&self.hands[worker]) else { return Err(Rejected::StaleToken) };
        let holds = self.holds(token);
        let done = self.command(&Command::Report { token, report });
        self.require(holds || done == Err(Rejected::StaleToken), "a stale token is refused");
        self.require(!holds || done != Err(Rejected::StaleToken), "the newest token is taken");
        if done == Err(Rejected::StaleToken) {
            self.stale_refused = true;
            self.hands[worker] = Hand::Idle;
        }
        done
    }

    fn holds(&self, token: Token) -> bool {
        self.job.0.lease().is_some_and(|lease| lease.token == token)
    }

    /// A command to the real core, and the rules that hold for every step.
    fn command(&mut self, command: &Command) -> Result<(), Rejected> {
        let Change { job, rows, log } = step(&self.job.0, command, NOW)?;
        let expected = (1..).take(log.len()).map(|more| self.job.0.last_seq + more);
        self.require(log.iter().map(|entry| entry.seq).eq(expected), "the log has no gaps");
        self.require(job.token >= self.job.0.token, "tokens grow");
        for row in rows {
            if let Row::MessageEnded { id, status, .. } = row {
                let place = usize::from(number_of(id)) - 1;
                self.require(self.finals[place].is_none(), "a message becomes final once");
                self.finals[place] = Some(status);
            }
        }
        self.job = Normal(normal(job));
        Ok(())
    }

    fn require(&mut self, holds: bool, rule: &'static str) {
        if !holds && self.broken.is_none() {
            self.broken = Some(rule);
        }
    }

    /// Gives tokens their rank: only which is newest and which are equal matters.
    fn forget_old_tokens(&mut self) {
        let mut known: Vec<Token> = self.hands.iter().filter_map(token_of).collect();
        known.push(self.job.0.token);
        known.sort_unstable();
        known.dedup();
        let rank = |token: Token| Token(known.iter().position(|one| *one == token).map_or(0, |place| place as u64));
        let job_token = rank(self.job.0.token);
        self.job.0.token = job_token;
        if let JobState::Active(Work::Running { lease, .. }) = &mut self.job.0.state {
            lease.token = job_token;
            lease.run = RunId::from_uuid(Uuid::from_u128(u128::from(job_token.0)));
        }
        for hand in &mut self.hands {
            match hand {
                Hand::Idle => {}
                Hand::Claimed { token }
                | Hand::Begun { token, .. }
                | Hand::Ended { token, .. }
                | Hand::Pushed { token, .. }
                | Hand::Ensured { token, .. } => *token = rank(*token),
            }
        }
    }
}

fn token_of(hand: &Hand) -> Option<Token> {
    match hand {
        Hand::Idle => None,
        Hand::Claimed { token }
        | Hand::Begun { token, .. }
        | Hand::Ended { token, .. }
        | Hand::Pushed { token, .. }
        | Hand::Ensured { token, .. } => Some(*token),
    }
}

/// Without counters that no decision within the bounds depends on, and with times as "now" or "later".
fn normal(mut job: Job) -> Job {
    job.last_seq = 0;
    match &mut job.state {
        JobState::Active(Work::Running { delivery, lease }) => {
            delivery.attempts = 0;
            lease.worker = WorkerId::from_uuid(Uuid::nil());
            lease.until = if lease.until > NOW { NOW + LEASE } else { NOW };
        }
        JobState::Active(Work::Retrying { delivery, not_before }) => {
            delivery.attempts = 0;
            *not_before = if *not_before > NOW { NOW + LEASE } else { NOW };
        }
        _ => {}
    }
    job
}

fn id(number: u8) -> MessageId {
    msg(u128::from(number))
}

fn number_of(message: MessageId) -> u8 {
    u8::try_from(message.uuid().as_u128()).unwrap_or(u8::MAX)
}

/// A commit's name tells what is on the branch up to it: `12000…` has the commits of the messages 1 and 2.
fn sha_of(branch: &[u8]) -> Sha {
    let digits: String = branch.iter().map(ToString::to_string).collect();
    match format!("{digits:0<40}").parse() {
        Ok(sha) => sha,
        Err(error) => panic!("{error}"),
    }
}

fn commits(sha: &Sha) -> Commits {
    let digits = sha.as_str().trim_end_matches('0').bytes();
    digits.map(|digit| digit - b'0').collect()
}
