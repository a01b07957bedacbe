//! Jobs in every state, produced by the commands that lead to it.

use std::time::Duration;

use journeyman_core::code_host::{HostName, PullRepository};
use journeyman_core::ids::{JobId, MessageId, RunId, Sha, WorkerId};
use journeyman_core::job::change::{Change, create, step};
use journeyman_core::job::command::{Claim, Command, NextAttempt, Outcome, Published, Report};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::job::{DEFAULT_BRANCH, Job, Source, Token};
use journeyman_core::message::{DeliveryMode, NewMessage, Origin};
use journeyman_core::pull::Pull;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Timestamp;
use uuid::Uuid;

pub(crate) const START: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A job, the current time, the last change, and the types of all its log entries.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) job: Job,
    pub(crate) now: Timestamp,
    pub(crate) last: Change,
    pub(crate) kinds: Vec<String>,
}

pub(crate) fn message(number: u128, delivery: DeliveryMode) -> NewMessage {
    let id = MessageId::from_uuid(Uuid::from_u128(number));
    NewMessage {
        id,
        prompt: format!("prompt {number}"),
        origin: Origin::Api,
        author: None,
        key: None,
        delivery,
        traceparent: None,
        source: None,
    }
}

pub(crate) fn msg(number: u128) -> MessageId {
    MessageId::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn sha(digit: char) -> Sha {
    match String::from(digit).repeat(40).parse() {
        Ok(sha) => sha,
        Err(error) => panic!("{error}"),
    }
}

/// Returns a repository on a remote host.
pub(crate) fn repository() -> PullRepository {
    PullRepository { host: HostName("github.com".to_owned()), id: "17".to_owned() }
}

/// Returns a job that was just created with message 1.
pub(crate) fn created() -> Case {
    let id = JobId::from_uuid(Uuid::from_u128(100));
    let project = match "shop".parse() {
        Ok(project) => project,
        Err(error) => panic!("{error}"),
    };
    let source = Source { repository: "local:shop".into(), reference: DEFAULT_BRANCH.into() };
    let job = Job {
        title: "prompt 1".into(),
        agent: "journeyman".into(),
        model: "test/scripted".into(),
        ..Job::new(id, project, source, START)
    };
    let last = create(job, message(1, DeliveryMode::Queue), Vec::new(), START);
    let kinds = last.log.iter().map(|entry| entry.kind.clone()).collect();
    Case { job: last.job.clone(), now: START, last, kinds }
}

impl Case {
    pub(crate) fn attempt(&self, command: &Command) -> Result<Change, Rejected> {
        step(&self.job, command, self.now)
    }

    /// Applies a command. The test fails if the command is rejected or leaves a gap in the log.
    pub(crate) fn then(mut self, command: &Command) -> Self {
        let change = match self.attempt(command) {
            Ok(change) => change,
            Err(rejected) => panic!("{command:?} was rejected: {rejected}"),
        };
        let expected: Vec<u64> = (self.job.last_seq + 1..=change.job.last_seq).collect();
        assert_eq!(change.log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), expected, "the log has no gaps");
        self.kinds.extend(change.log.iter().map(|entry| entry.kind.clone()));
        self.job = change.job.clone();
        self.last = change;
        self
    }

    pub(crate) fn after(mut self, time: Duration) -> Self {
        self.now = self.now + time;
        self
    }

    pub(crate) fn send(self, number: u128) -> Self {
        self.then(&Command::AddMessage(message(number, DeliveryMode::Queue)))
    }

    pub(crate) fn interrupt(self, number: u128) -> Self {
        self.then(&Command::AddMessage(message(number, DeliveryMode::Interrupt)))
    }

    pub(crate) fn claim(self) -> Self {
        let command = claim(&self);
        self.then(&command)
    }

    pub(crate) fn token(&self) -> Token {
        self.job.token
    }

    pub(crate) fn report(self, report: Report) -> Self {
        let token = self.token();
        self.then(&Command::Report { token, report })
    }

    /// Begins a turn, and ends it with the commit `digit`.
    pub(crate) fn turn(self, digit: char, ending: Ending) -> Self {
        let known = self.job.branch.as_ref();
        let head = known.map_or_else(|| sha('0'), |branch| branch.head.clone());
        let pushed = known.and_then(|branch| branch.pushed.clone());
        let begun = TurnBegun {
            branch: "b".into(),
            generation: 1,
            base: sha('0'),
            head,
            pushed,
            default_branch: None,
            repository: None,
        };
        let ended =
            Report::TurnEnded { head: sha(digit), commits: vec![sha(digit)], artifacts: artifacts("s"), ending };
        self.report(Report::TurnBegun(begun)).report(ended)
    }

    pub(crate) fn publish(self, digit: char) -> Self {
        let pull = Pull::new(1, "http://pull/1");
        let pull = if self.job.pull.is_some() { Published::Updated(pull) } else { Published::Opened(pull, None) };
        let outcome = Outcome::Published { pushed: Some(sha(digit)), pull };
        self.report(Report::Finished { outcome, usage: Usage::default() })
    }

    pub(crate) fn fail(self, retry: Option<u32>) -> Self {
        let reason = Reason::new(ReasonCode::AgentExited, "it died");
        self.report(Report::Finished { outcome: Outcome::Failed { reason, retry }, usage: Usage::default() })
    }
}

impl Case {
    /// Publishes a commit in pull request 1 of a remote host.
    pub(crate) fn publish_there(self, digit: char) -> Self {
        let pull = Pull { repository: Some(repository()), ..Pull::new(1, "https://github.com/a/b/pull/1") };
        let pull = if self.job.pull.is_some() { Published::Updated(pull) } else { Published::Opened(pull, None) };
        let outcome = Outcome::Published { pushed: Some(sha(digit)), pull };
        self.report(Report::Finished { outcome, usage: Usage::default() })
    }

    /// Carries out the next message, which makes a commit.
    pub(crate) fn carry_out(self, digit: char) -> Self {
        self.claim().turn(digit, Ending::Done).publish_there(digit)
    }

    pub(crate) fn last_kinds(&self) -> Vec<&str> {
        self.last.log.iter().map(|entry| entry.kind.as_str()).collect()
    }

    /// Reports a cause outside the message; `patience` is the time for which the message waits for it to pass.
    pub(crate) fn wait(self, code: ReasonCode, patience: Duration) -> Self {
        let (reason, since) = (Reason::new(code, "away"), self.now);
        let outcome = Outcome::Waiting { reason, since, patience, next: NextAttempt::Backoff(999) };
        self.report(Report::Finished { outcome, usage: Usage::default() })
    }
}

pub(crate) fn artifacts(session: &str) -> TurnArtifacts {
    TurnArtifacts { session: Some(session.into()), ..TurnArtifacts::default() }
}

pub(crate) fn claim(case: &Case) -> Command {
    let number = u128::from(case.job.token.0) + 1;
    Command::Claim(Claim {
        run: RunId::from_uuid(Uuid::from_u128(number)),
        worker: WorkerId::from_uuid(Uuid::from_u128(1)),
        lease_until: case.now + LEASE,
    })
}

pub(crate) fn running() -> Case {
    created().claim()
}

pub(crate) fn completed() -> Case {
    running().turn('a', Ending::Done).publish('a')
}

pub(crate) fn failed() -> Case {
    running().fail(None)
}

pub(crate) fn archived() -> Case {
    completed().then(&Command::Archive)
}
