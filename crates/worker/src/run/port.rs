//! The port between the order of a run's steps ([`crate::run`]) and the steps themselves, so that the order can be tried
//! in a simulation ([`crate::simulation`]) without git and agents.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use journeyman_core::engine::Claimed;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::command::{Kept, Published, TurnBegun};
use journeyman_core::job::{Branch, Job, Token};
use journeyman_core::ports::{BlobError, FreeSpace};
use journeyman_core::project::Project;
use journeyman_core::time::Timestamp;
use tokio::sync::OwnedMutexGuard;

use crate::agent::Turn;
use crate::failure::Stopped;
use crate::lease::{Reporter, Signals};
use crate::publish::Pushed;

/// What a run has to do, and how it learns that it should stop.
pub(crate) struct Assignment {
    pub(crate) claimed: Claimed,
    pub(crate) project: Project,
    pub(crate) reporter: Reporter,
    pub(crate) signals: Signals,
    /// The time at which the run began.
    pub(crate) started_at: Timestamp,
    /// The progress of the run.
    stage: Mutex<Stage>,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The agent has not been prompted yet.
    Preparing,
    /// The agent has been prompted.
    Prompting,
    /// The turn is over and recorded.
    Publishing,
}

impl Assignment {
    pub(crate) fn new(claimed: Claimed, project: Project, reporter: Reporter, signals: Signals) -> Self {
        let started_at = reporter.now();
        Self { claimed, project, reporter, signals, started_at, stage: Mutex::new(Stage::Preparing) }
    }

    pub(crate) fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reach(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}

/// A machine's hands: carries out steps of runs.
#[async_trait]
pub(crate) trait Executor: Send + Sync {
    /// Waits until the run before has left the job's workspace on this machine.
    async fn enter(&self, job: JobId) -> OwnedMutexGuard<()>;

    /// Brings the job's repository up to date.
    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Execution + 'a>, Stopped>;

    /// Recreates the mirror of the job's repository, which is damaged or missing.
    async fn repair(&self, assignment: &Assignment) -> Result<(), Stopped>;
    /// Returns the free space for workspaces if it is below the reserve.
    fn low_space(&self) -> Option<FreeSpace>;

    /// Removes the job's workspace immediately, after a run that was stopped because of the disk and while its lock is
    /// held.
    async fn discard(&self, job: JobId);

    /// Removes what the job's leases up to `token` have left in the blob store and nobody needs.
    async fn tidy(&self, job: &Job, token: Token) -> Result<(), BlobError>;
}

/// The steps of one run, in the order in which they are taken. Each may be the last before the machine dies; each but
/// [`Execution::prompt`] may then be taken again.
#[async_trait]
pub(crate) trait Execution: Send + Sync {
    /// Whether the job's last recorded commit is here, from wherever it can be had.
    async fn has_head(&self) -> Result<bool, Stopped>;

    /// Chooses the branch, and makes the workspace and the agent's session what they were when the last turn ended.
    async fn prepare(&self) -> Result<TurnBegun, Stopped>;

    /// Returns the newest commit of the branch and the commits of this message, oldest first, if the branch has them
    /// although no turn of the message is recorded. The record was lost when the database was restored or failed over.
    async fn published_before(&self, begun: &TurnBegun) -> Result<Option<(Sha, Vec<Sha>)>, Stopped>;

    /// The turn.
    async fn prompt(&self) -> Result<Turn, Stopped>;

    /// Makes commits of what the agent has done, and keeps what another machine would need to go on; `job` as it was
    /// when the turn began.
    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, Stopped>;

    /// The turn has ended at `head` with the session `archive`: a turn that begins with these may use the
    /// workspace as it is. Where that fails it is built anew then.
    async fn release(&self, head: &Sha, archive: &str);

    /// Pushes `head` to the branch, never by force; `commits` are those of this message.
    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, Stopped>;

    /// Makes sure that the branch has its pull request.
    async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, Stopped>;
}

/// What a turn has led to.
pub(crate) struct Collected {
    /// The commit that holds all of it.
    pub(crate) head: Sha,
    /// The commits that lead to it from where the turn began, oldest first.
    pub(crate) commits: Vec<Sha>,
    pub(crate) kept: Kept,
}
