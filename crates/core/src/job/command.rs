//! All that may be asked of a job.

use std::time::Duration;

use crate::ids::{MessageId, RunId, Sha, WorkerId};
use crate::job::event::TranscriptEntry;
use crate::job::{Branch, Pull, Token};
use crate::message::NewMessage;
use crate::run::{Reason, Usage};
use crate::time::Timestamp;

/// A request to a job that exists; what it makes of it is decided in [`super::decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Say something more.
    AddMessage(NewMessage),
    /// Take a queued message back.
    WithdrawMessage(MessageId),
    /// Stop what runs and withdraw what waits.
    Cancel,
    /// Put the job away.
    Archive,
    /// Take it out again.
    Unarchive,
    /// Make the next attempt due now.
    Retry,
    /// End the lease of a worker that has restarted; its run no longer exists.
    ReleaseLease(WorkerId),
    /// Give the job to a worker, if it is due.
    Claim(Claim),
    /// Record model calls that ended after their run: they were in flight when it was cancelled or lost its lease.
    RecordLateCalls {
        /// The run that made them.
        run: RunId,
        /// The calls. Entries of other kinds are ignored.
        calls: Vec<TranscriptEntry>,
    },
    /// Report of the worker that holds the token.
    Report {
        /// Of the lease.
        token: Token,
        /// What it has to say.
        report: Report,
    },
}

/// A worker's wish for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The id of the run that this may begin.
    pub run: RunId,
    /// The worker.
    pub worker: WorkerId,
    /// When the lease shall end unless it is renewed.
    pub lease_until: Timestamp,
}

/// What a worker has to say about its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// It lives.
    Heartbeat {
        /// The lease's new end.
        lease_until: Timestamp,
    },
    /// The workspace is ready; the agent is about to be prompted.
    TurnBegun(TurnBegun),
    /// What the agent said and did.
    Transcript(Vec<TranscriptEntry>),
    /// The agent is done, and its work is in the repository that the host holds. May be reported again where a refused
    /// push made the worker put the commits on top of other people's.
    TurnEnded {
        /// The commit that the branch shall have.
        head: Sha,
        /// The commits of this message, oldest first.
        commits: Vec<Sha>,
        /// What is kept for whoever goes on from here.
        kept: Kept,
        /// The end of the turn.
        ending: Ending,
    },
    /// The run is over.
    Finished {
        /// How.
        outcome: Outcome,
        /// What the model used.
        usage: Usage,
    },
}

/// The end of an agent's turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ending {
    /// The agent was done.
    #[default]
    Done,
    /// An interrupting message stopped the turn.
    Stopped,
    /// The model, the agent, or a limit ended the turn before the agent was done. The work is published, and the message
    /// fails with this reason.
    CutShort(Reason),
}

/// What is kept of a turn that has ended, for a follow-up or for another machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The agent's session, to be resumed; `None`: the one that is known goes on.
    pub session: Option<String>,
    /// The blob with the agent's home; `None`: the one that is known stays.
    pub archive: Option<String>,
    /// The blob with the commits; `None`: they are only here.
    pub bundle: Option<String>,
    /// The final text of the turn; `None`: the one that is known stays.
    pub answer: Option<String>,
}

/// Which branch a turn works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TurnBegun {
    /// The branch's name.
    pub branch: String,
    /// 1 for the job's first branch.
    pub generation: u32,
    /// The commit that the branch started from.
    pub base: Sha,
    /// The commit that the workspace is at.
    pub head: Sha,
    /// The branch's commit on the code host, if it is there.
    pub pushed: Option<Sha>,
    /// The repository's default branch, if the job started from it.
    pub default_branch: Option<String>,
}

impl TurnBegun {
    /// The job's branch from then on.
    #[must_use]
    pub fn branch(&self) -> Branch {
        let Self { branch, generation, base, head, pushed, default_branch: _ } = self.clone();
        Branch { name: branch, generation, base, head, pushed }
    }
}

/// How a run ended, as its worker saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The turn's effect is published.
    Published {
        /// The commit now on the branch; `None` where nothing was pushed.
        pushed: Option<Sha>,
        /// What became of the pull request.
        pull: Published,
    },
    /// It failed.
    Failed {
        /// Why.
        reason: Reason,
        /// `Some`: it may pass, so try again; the number (0 to 999) is the jitter of the wait.
        retry: Option<u32>,
    },
    /// A cause outside the message prevents it from being carried out. Attempts continue until the cause has passed or
    /// the message's patience is used up.
    Waiting {
        /// The cause.
        reason: Reason,
        /// The time since which the cause is known, which may be before this message's first attempt.
        since: Timestamp,
        /// The time for which such a cause is retried before the message fails.
        patience: Duration,
        /// The schedule of the next attempt.
        next: NextAttempt,
    },
    /// The worker shuts down and gives the run back.
    HandedBack,
}

/// The schedule of the next attempt of a waiting message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// After a backoff with this jitter (0 to 999).
    Backoff(u32),
    /// As soon as its project is no longer on hold ([`crate::project::hold`]), or this job probes the project.
    AfterHold,
}

/// What became of the pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// Nothing was changed, so there is nothing to show.
    Nothing,
    /// A new one was opened.
    Opened(Pull),
    /// The one that exists carries the new commits.
    Updated(Pull),
    /// The branch is pushed, but the remote opens no pull requests; the reason says why.
    NotPossible(Reason),
}
