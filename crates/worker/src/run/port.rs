//! The port between the order of a run's steps ([`crate::run`]) and the steps themselves, so that a simulation
//! (`crate::simulation`) can test the order without git and agents.

use async_trait::async_trait;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::command::Published;
use journeyman_core::job::turn::{TurnArtifacts, TurnBegun};
use journeyman_core::job::{Branch, Job};
use journeyman_core::run::Reason;
use journeyman_core::worker::FreeSpace;
use journeyman_repository::push::Pushed;
use tokio::sync::OwnedMutexGuard;

use crate::claim::assignment::Assignment;
use crate::commit::unfinished::Unfinished;
use crate::error::RunError;
use crate::turn::result::Turn;

/// A machine that carries out the steps of runs.
#[async_trait]
pub(crate) trait Machine: Send + Sync {
    /// Waits for the lock of the job's workspace on this machine.
    async fn lock_workspace(&self, job: JobId) -> OwnedMutexGuard<()>;

    /// Updates the mirror of the job's repository, and returns the steps of the run.
    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Steps + 'a>, RunError>;

    /// Recreates the mirror of the job's repository, which is damaged or missing.
    async fn repair_mirror(&self, assignment: &Assignment) -> Result<(), RunError>;

    /// Returns the free space for workspaces if it is below the reserve.
    fn low_space(&self) -> Option<FreeSpace>;

    /// Removes the job's workspace immediately, after a run that was stopped because of the disk and while its lock is
    /// held.
    async fn discard_workspace(&self, job: JobId);
}

/// The steps of one run, in their order. The machine may crash after any of them; each except [`Steps::prompt`] may
/// then be repeated.
#[async_trait]
pub(crate) trait Steps: Send + Sync {
    /// Fetches the job's last recorded commit from where it can be found. Returns whether the mirror has it now.
    async fn fetch_head(&self) -> Result<bool, RunError>;

    /// Chooses the branch, and brings the workspace and the agent's session into the state of the end of the last turn.
    async fn prepare(&self) -> Result<TurnBegun, RunError>;

    /// Returns the newest commit of the branch and the commits of this message, oldest first, if the branch has them
    /// although no turn of the message is recorded. The record was lost when the database was restored or failed over.
    async fn published_before(&self, begun: &TurnBegun) -> Result<Option<(Sha, Vec<Sha>)>, RunError>;

    /// Carries out the turn. With `more`, continues it with this prompt.
    async fn prompt(&self, more: Option<&str>) -> Result<Turn, RunError>;

    /// Keeps a turn that the agent has ended on this machine, until its work is recorded, so that a later run can
    /// [`Steps::resume`] it even if the process crashes. Returns false if that is not possible: the turn was stopped, or
    /// the disk failed.
    async fn keep_answered(&self, begun: &TurnBegun, turn: &Turn) -> bool;

    /// Stops the agent after its turn: pauses it for a follow-up, or ends it with everything that it started. After this,
    /// the tree does not change.
    async fn stop_agent(&self, turn: &Turn) -> Result<(), RunError>;

    /// Makes the kept turn survive a power failure of this machine, before the run waits for something.
    async fn sync_answered(&self);

    /// Prepares to collect the turn of this message that an earlier run has kept on this machine, and returns it; `None`
    /// if there is none. It begins at `begun`.
    async fn resume(&self, begun: &TurnBegun) -> Result<Option<Turn>, RunError>;

    /// Commits the agent's changes, and stores everything that another machine needs to continue. `job` is the state at
    /// the start of the turn.
    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, RunError>;

    /// Marks the workspace as reusable for a turn that starts at `head` with the session `archive`. If that fails, the
    /// workspace is rebuilt for the next turn.
    async fn keep_workspace(&self, head: &Sha, archive: &str);

    /// Pushes `head` to the branch, never by force. `commits` are the commits of this message.
    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, RunError>;

    /// Ensures that the branch has a pull request.
    async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, RunError>;
}

/// The result of a turn.
pub(crate) struct Collected {
    /// The commit that contains all changes.
    pub(crate) head: Sha,
    /// The commits from the start of the turn to the head, oldest first.
    pub(crate) commits: Vec<Sha>,
    pub(crate) artifacts: TurnArtifacts,
    /// The reason why nothing was published, although the turn changed files. They stay in the workspace.
    pub(crate) refused: Option<Reason>,
    /// Work that is not finished, which `refused` tells too.
    pub(crate) unfinished: Option<Unfinished>,
}
