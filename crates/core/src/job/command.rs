//! The commands on a job.

use std::time::Duration;

use crate::checks::CheckReport;
use crate::code_host::PullRef;
use crate::code_host::PullState;
use crate::ids::{MessageId, RunId, Sha, WorkerId};
use crate::job::Token;
use crate::job::event::TranscriptEntry;
use crate::job::pull_updates::OutdatedPull;
use crate::job::turn::{Ending, TurnArtifacts, TurnBegun};
use crate::message::{MessageText, NewMessage};
use crate::pull::{Pull, PullSummary};
use crate::run::{Reason, Usage};
use crate::time::Timestamp;

/// A request to an existing job. [`super::decide`] decides its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Add a message.
    AddMessage(NewMessage),
    /// Withdraw a queued message.
    WithdrawMessage(MessageId),
    /// Replace the text of a queued message, whose comments were edited on the code host.
    ChangeMessage {
        /// The message.
        message: MessageId,
        /// The new text.
        text: MessageText,
    },
    /// Record the state and the title of a pull request of the job, which the code host has told.
    RecordPull {
        /// The pull request.
        pull: PullRef,
        /// The state.
        state: PullState,
        /// `true` if the job is archived when the pull request is merged, unless it is active.
        archive_on_merge: bool,
        /// The title and whether it is a draft, if the code host was asked.
        summary: Option<PullSummary>,
    },
    /// Record the result of the checks of a commit, and send a message if they are to be repaired.
    RecordChecks(Box<CheckReport>),
    /// Send a message that has the pull request updated, unless a rule prevents it.
    KeepUpToDate(Box<OutdatedPull>),
    /// Stop the current run and withdraw the queued messages.
    Cancel,
    /// Withdraw a message that is queued, or stop its run if no other message waits behind it.
    CancelMessage(MessageId),
    /// Archive the job.
    Archive,
    /// Unarchive the job.
    Unarchive,
    /// Make the next attempt due now.
    Retry,
    /// End the lease of a worker that has restarted; its run no longer exists.
    ReleaseLease(WorkerId),
    /// Give the job to a worker, if it is due.
    Claim(Claim),
    /// Record model calls that ended after their run: they were in flight when it was canceled or lost its lease.
    RecordLateCalls {
        /// The run that made them.
        run: RunId,
        /// The calls. Entries of other kinds are ignored.
        calls: Vec<TranscriptEntry>,
    },
    /// Record a report of the worker that holds the token.
    Report {
        /// The token of the lease.
        token: Token,
        /// The report.
        report: Report,
    },
}

/// A worker's request for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The ID of the run that may begin.
    pub run: RunId,
    /// The worker.
    pub worker: WorkerId,
    /// The time at which the lease ends if it is not renewed.
    pub lease_until: Timestamp,
}

/// A worker's report about its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The worker is alive.
    Heartbeat {
        /// The new end of the lease.
        lease_until: Timestamp,
    },
    /// The workspace is ready; the agent is about to be prompted.
    TurnBegun(TurnBegun),
    /// The agent and the proxies of its sandbox have produced entries for the log.
    Transcript(Vec<TranscriptEntry>),
    /// The agent has ended its turn. Only the worker's machine has the work; [`Report::TurnEnded`] follows once it is
    /// stored. The worker reports this again if the agent was asked to continue.
    Answered {
        /// The final text of the agent.
        answer: Option<String>,
        /// The run's usage of models so far.
        usage: Usage,
    },
    /// The turn has ended, and its commits are in the host's mirror of the repository. The worker reports this again if
    /// a push was refused and the worker has rebased the commits onto other people's commits.
    TurnEnded {
        /// The commit that the branch must point to.
        head: Sha,
        /// The commits of this message, oldest first.
        commits: Vec<Sha>,
        /// The artifacts from which a later run continues.
        artifacts: TurnArtifacts,
        /// The end of the turn.
        ending: Ending,
    },
    /// The run has ended.
    Finished {
        /// The outcome.
        outcome: Outcome,
        /// The usage of models.
        usage: Usage,
    },
}

/// The outcome of a run, as its worker reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The result of the turn was published.
    Published {
        /// The commit that the branch now points to; `None` if nothing was pushed.
        pushed: Option<Sha>,
        /// The effect on the pull request.
        pull: Published,
    },
    /// The run failed.
    Failed {
        /// The reason.
        reason: Reason,
        /// The jitter of the delay before the next attempt (0 to 999), if the cause may be temporary; `None` if no
        /// attempt follows.
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
    /// The worker is shutting down and hands the run back.
    HandedBack,
}

/// The schedule of the next attempt of a waiting message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// The next attempt begins after a backoff with this jitter (0 to 999).
    Backoff(u32),
    /// The next attempt begins as soon as the project is no longer on hold ([`crate::project::hold`]), or as soon as
    /// this job probes the project.
    AfterHold,
}

/// The effect of a run on the pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The run changed nothing, so no pull request was opened or updated.
    Nothing,
    /// A pull request was opened. The reason says what could not be set on it.
    Opened(Pull, Option<Reason>),
    /// The existing pull request contains the new commits.
    Updated(Pull),
    /// The branch was pushed, but the remote does not support pull requests. The reason explains why.
    NotPossible(Reason),
}
