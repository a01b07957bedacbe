//! Turns the changes of an agent into commits in the mirror.
//!
//! Only the [`committer`] runs git on the tree, in a sandbox. The host takes a pack from it, and checks the commits
//! that it would push ([`journeyman_repository::import`]).

pub(crate) mod committer;

use std::collections::BTreeMap;

use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::message::Message;
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use journeyman_repository::Mirror;
use journeyman_repository::import::{self, FILE_BYTES, ImportError, Rules};
use journeyman_repository::published::TRAILER;

use self::committer::{Committer, Task, open_pack};
use crate::claim::deadline;
use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::job_sandbox::JobSandbox;
use crate::workspace::scan::TreeScan;

/// The commits of a turn.
pub(crate) struct CollectedCommits {
    /// The commit that contains all changes.
    pub(crate) head: Sha,
    /// The commits from the start of the turn to the head, oldest first.
    pub(crate) commits: Vec<Sha>,
    /// True if the agent's repository has the head checked out, with nothing to commit.
    pub(crate) settled: bool,
}

/// The origin of a commit, and the rules for it.
pub(crate) struct CommitContext<'a> {
    pub(crate) job: &'a Job,
    pub(crate) message: &'a Message,
    /// True if the turn was interrupted: changes that are not committed then stay in the tree for the next turn.
    pub(crate) only_committed: bool,
    pub(crate) limits: &'a LimitSettings,
}

/// Commits the changes of a turn. `scan` is the current state of the tree.
pub(crate) async fn collect(
    sandbox: &JobSandbox,
    environment: &BTreeMap<String, String>,
    signals: &Signals,
    mirror: &Mirror,
    turn: &TurnBegun,
    context: &CommitContext<'_>,
    scan: &TreeScan,
) -> Result<CollectedCommits, RunError> {
    check_tree(scan)?;
    if !scan.repository_is_plain {
        tracing::warn!(
            job = %context.job.id,
            "the agent's commits are ignored: its .git contains links, FIFOs or devices"
        );
    }
    let file_bytes = context.limits.file_bytes.unwrap_or(FILE_BYTES);
    let title = journeyman_core::job::title_of(&context.message.prompt);
    let mut task = Task {
        base: &turn.head,
        snapshot: !context.only_committed,
        message: format!("{title}\n\nJourneyman-Job: {}\n{TRAILER}: {}\n", context.job.id, context.message.id),
        trailer: format!("{TRAILER}: {}", context.message.id),
        normalize: false,
        large_from: (!scan.large.is_empty()).then_some(file_bytes),
        use_repository: scan.repository_is_plain,
        time: deadline::commit_time(scan.bytes, scan.entries),
        limits: context.limits,
    };
    let folders = mirror.folders().await?;
    let (committer, head) = loop {
        let mut committer = Committer::start(sandbox, environment, signals, &task).await?;
        let head = committer.head().await?;
        if head == turn.head {
            committer.end().await;
            return Ok(CollectedCommits { head, commits: Vec::new(), settled: scan.repository_is_plain });
        }
        match import(sandbox, mirror).await? {
            Ok(()) => break (committer, head),
            Err(ImportError::OddModes) if !task.normalize => {
                committer.end().await;
                task.normalize = true;
            }
            Err(ImportError::OddModes) => {
                let text = "the agent's commits are refused: they have file modes that git does not support";
                return Err(RunError::failed(ReasonCode::WorkspaceRefused, text));
            }
            Err(ImportError::Other(error)) => return Err(error.into()),
        }
    };
    let rules = Rules {
        job: context.job.id,
        base: &turn.head,
        file_bytes,
        large: &scan.large,
        only_committed: context.only_committed,
    };
    let checked = import::check(mirror, &head, &rules);
    let commits = deadline::within(deadline::CHECK, "checking the commits of the turn", checked).await?;
    let (head, commits) = sign(mirror, turn, context.job, head, commits).await?;
    // Sync before the end of the turn is recorded: recorded commits must survive a power failure.
    mirror.sync(folders).await?;
    let settled = committer.settle(&head).await?;
    Ok(CollectedCommits { head, commits, settled })
}

/// Signs the commits of the turn, if the server signs commits. Returns the head and the commits as they are pushed.
async fn sign(
    mirror: &Mirror,
    turn: &TurnBegun,
    job: &Job,
    head: Sha,
    commits: Vec<Sha>,
) -> Result<(Sha, Vec<Sha>), RunError> {
    let signed = mirror.sign(&turn.head, &head).await?;
    if signed.replaced.is_empty() {
        return Ok((head, commits));
    }
    let head = signed.commit(&head);
    mirror.keep(&format!("{}/head", job.id), &head).await?;
    Ok((head, commits.iter().map(|commit| signed.commit(commit)).collect()))
}

/// Refuses a tree that git cannot store, or that would block git.
fn check_tree(scan: &TreeScan) -> Result<(), RunError> {
    if scan.too_deep {
        let text = "folders are nested more deeply than git can store them; remove them";
        return Err(RunError::failed(ReasonCode::WorkspaceRefused, text));
    }
    if let Some(path) = &scan.blocking {
        let text = format!(
            "{path:?} is a FIFO or a device, or a link to one, and git would block on it; the changes of the turn are \
             discarded, so say in the next message how to do without it"
        );
        return Err(RunError::failed(ReasonCode::WorkspaceRefused, text));
    }
    Ok(())
}

/// Imports the committer's pack into the mirror.
async fn import(sandbox: &JobSandbox, mirror: &Mirror) -> Result<Result<(), ImportError>, RunError> {
    let folder = sandbox.workspace.commit_dir.clone();
    let pack = tokio::task::spawn_blocking(move || open_pack(&folder)).await.map_err(std::io::Error::other)??;
    let bytes = pack.metadata()?.len();
    Ok(import::import(mirror, pack, deadline::import_time(bytes)).await)
}
