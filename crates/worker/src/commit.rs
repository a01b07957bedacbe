//! What the agent has done, as commits in the mirror that the host holds.
//!
//! Git is run in the tree only by the clerk ([`crate::clerk`]), in a sandbox; the host takes a pack from there, has git look
//! through it, and judges what it would push.

use std::collections::BTreeMap;

use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::job::command::TurnBegun;
use journeyman_core::message::Message;
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use journeyman_git::{Failure, GitError};

use crate::clerk::{Clerk, Task, open_pack};
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::mirror::{Change, Changes, Mirror, synced};
use crate::phase;
use crate::recorded::TRAILER;
use crate::room::Room;
use crate::survey::Survey;

/// The mode of a repository inside a repository (git-fast-import(1)).
const GITLINK: &str = "160000";

/// A file in a commit may have so many bytes unless the project says otherwise: what GitHub takes.
pub(crate) const FILE_BYTES: u64 = 100 << 20;

/// What a turn adds is kept as single objects up to this many bytes, and as one pack beyond.
const LOOSE_BYTES: u64 = 4 << 20;

/// The option for git's check of objects. By default git accepts trees with modes that it never writes itself, such as
/// 104755 (setuid). Commits with such trees are rewritten.
const STRICT: &str = "--strict=badFilemode=error";

/// Commits of one turn: all are named in the job's log.
const MOST_COMMITS: usize = 10_000;

/// What a turn has led to in the tree.
pub(crate) struct Work {
    /// The commit that holds all of it.
    pub(crate) head: Sha,
    /// The commits that lead to it from where the turn began, oldest first.
    pub(crate) commits: Vec<Sha>,
    /// Whether the agent's repository stands on it, with nothing to commit.
    pub(crate) settled: bool,
}

/// What a commit says about where it comes from, and what it may hold.
pub(crate) struct About<'a> {
    pub(crate) job: &'a Job,
    pub(crate) message: &'a Message,
    /// A turn that was interrupted: what is not committed stays in the tree for the next.
    pub(crate) only_committed: bool,
    pub(crate) limits: &'a LimitSettings,
}

/// Makes commits of a turn that has changed something; `seen` is how the tree looks now.
pub(crate) async fn collect(
    room: &Room,
    environment: &BTreeMap<String, String>,
    signals: &Signals,
    mirror: &Mirror,
    turn: &TurnBegun,
    about: &About<'_>,
    seen: &Survey,
) -> Result<Work, Stopped> {
    if seen.too_deep {
        let text = "folders are nested more deeply than git can store them; remove them";
        return Err(Stopped::failed(ReasonCode::WorkspaceRefused, text));
    }
    if let Some(path) = &seen.blocking {
        let text = format!(
            "{path:?} is a FIFO or a device, or a link to one, and git would block on it; the changes of the turn are \
             discarded, so say in the next message how to do without it"
        );
        return Err(Stopped::failed(ReasonCode::WorkspaceRefused, text));
    }
    if !seen.repository_is_plain {
        tracing::warn!(
            job = %about.job.id,
            "the agent's commits are ignored: its .git contains links, FIFOs or devices"
        );
    }
    let file_bytes = about.limits.file_bytes.unwrap_or(FILE_BYTES);
    let title = journeyman_core::job::title_of(&about.message.prompt);
    let mut task = Task {
        base: &turn.head,
        snapshot: !about.only_committed,
        message: format!("{title}\n\nJourneyman-Job: {}\n{TRAILER}: {}\n", about.job.id, about.message.id),
        trailer: format!("{TRAILER}: {}", about.message.id),
        normalize: false,
        large_from: (!seen.large.is_empty()).then_some(file_bytes),
        use_repository: seen.repository_is_plain,
        time: phase::commit_time(seen),
        limits: about.limits,
    };
    let folders = mirror.folders().await?;
    let (clerk, head) = loop {
        let mut clerk = Clerk::start(room, environment, signals, &task).await?;
        let head = clerk.found().await?;
        if head == turn.head {
            clerk.end().await;
            return Ok(Work { head, commits: Vec::new(), settled: seen.repository_is_plain });
        }
        match import(room, mirror).await? {
            Ok(()) => break (clerk, head),
            Err(error) if !task.normalize && error.has_odd_modes() => {
                clerk.end().await;
                task.normalize = true;
            }
            Err(error) => return Err(not_taken(error)),
        }
    };
    let judged = judge(mirror, turn, about, &head, seen);
    let commits = phase::within(phase::JUDGE, "checking the commits of the turn", judged).await?;
    // Sync before the end of the turn is recorded: recorded commits must survive a power failure.
    synced(folders).await?;
    let settled = clerk.settle(&head).await?;
    Ok(Work { head, commits, settled })
}

/// Returns the commits up to `head`, oldest first, if they may be pushed.
async fn judge(
    mirror: &Mirror,
    turn: &TurnBegun,
    about: &About<'_>,
    head: &Sha,
    seen: &Survey,
) -> Result<Vec<Sha>, Stopped> {
    let file_bytes = about.limits.file_bytes.unwrap_or(FILE_BYTES);
    let changes = mirror.changes(&turn.head, head).await.map_err(not_taken)?;
    let changes = changes.filter(|changes| changes.commits.last() == Some(head));
    let mut changes = changes.ok_or_else(|| refused(&"they do not follow on those of the branch"))?;
    if changes.commits.len() > MOST_COMMITS {
        return Err(refused(&format!("there are more than {MOST_COMMITS} of them")));
    }
    if changes.merge {
        // What was in a parent from elsewhere is new here all the same.
        changes.files.extend(mirror.difference(&turn.head, head).await?);
    }
    mirror.keep(&format!("{}/head", about.job.id), head).await?;
    // Where all is a commit of files of which none is large, none is in the commit.
    let may_be_large = about.only_committed || !seen.large.is_empty() || changes.commits.len() > 1;
    check(mirror, &changes, may_be_large.then_some(file_bytes)).await?;
    Ok(changes.commits)
}

/// Imports the committer's pack into the mirror: objects that git finds complete, and whose links all lead to existing
/// objects. The inner error contains git's objection.
async fn import(room: &Room, mirror: &Mirror) -> Result<Result<(), GitError>, Stopped> {
    let desk = room.workspace.desk.clone();
    let pack = tokio::task::spawn_blocking(move || open_pack(&desk)).await.map_err(std::io::Error::other)??;
    let bytes = pack.metadata()?.len();
    let large = bytes > LOOSE_BYTES;
    let take: &[&str] =
        if large { &["index-pack", "--stdin", STRICT, "--fix-thin"] } else { &["unpack-objects", "-q", STRICT] };
    let command = mirror.git.at(&mirror.path, take).stdin_file(pack);
    Ok(command.timeout(phase::import_time(bytes)).run().await.map(|_| ()))
}

/// That git does not take a pack is the pack's fault, but where the machine kept it from trying.
fn not_taken(error: GitError) -> Stopped {
    match (&error, error.failure()) {
        (GitError::NotStarted(_), _)
        | (_, Failure::DiskFull | Failure::LockHeld | Failure::NotWritten | Failure::Damaged) => error.into(),
        // The machine or an operator killed git. (Our own limits end git in other ways.)
        _ if error.is_killed() => error.into(),
        _ => refused(&error),
    }
}

fn refused(why: &impl std::fmt::Display) -> Stopped {
    Stopped::failed(ReasonCode::WorkspaceRefused, format!("the agent's commits are refused: {why}"))
}

/// Refuses what must not be pushed, in whichever commit it is: repositories inside the repository, and files that code
/// hosts do not take.
async fn check(mirror: &Mirror, changes: &Changes, file_bytes: Option<u64>) -> Result<(), Stopped> {
    let refuse = |text: String| {
        let text =
            format!("{text}; the changes of the turn are discarded, so say in the next message how to do without it");
        Err(Stopped::failed(ReasonCode::WorkspaceRefused, text))
    };
    for Change { old_mode, new_mode, path, .. } in &changes.files {
        if new_mode == GITLINK && old_mode != GITLINK {
            return refuse(format!("{path:?} is a git repository of its own, which .gitignore does not name"));
        }
        if path == ".gitmodules" {
            return refuse(format!("{path:?} was changed: repositories in the repository are not an agent's to add"));
        }
    }
    let Some(most) = file_bytes else { return Ok(()) };
    let blobs: Vec<&Change> = changes.files.iter().filter(|change| change.new_mode.starts_with("100")).collect();
    let names: String = blobs.iter().map(|change| format!("{}\n", change.object)).collect();
    let sizes = mirror.git.at(&mirror.path, ["cat-file", "--batch-check=%(objectsize)"]).stdin(names);
    let sizes = sizes.run().await?.text()?;
    for (change, size) in blobs.iter().zip(sizes.lines()) {
        if size.parse::<u64>().is_ok_and(|size| size > most) {
            let path = &change.path;
            return refuse(format!(
                "{path:?} has {size} bytes and the most is {most} (limits.fileBytes of the project)"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_kept_git_from_is_not_the_agents_fault() {
        let said =
            |stderr: &str| GitError::Failed { command: "index-pack".into(), code: Some(128), stderr: stderr.into() };
        for (error, code, again) in [
            (said("fatal: write error: No space left on device"), ReasonCode::DiskFull, true),
            (GitError::NotStarted("no prlimit".into()), ReasonCode::Internal, true),
            (
                said("error: unable to write file m.git/objects/0/7: No such file or directory"),
                ReasonCode::Internal,
                true,
            ),
            (said("fatal: early EOF"), ReasonCode::WorkspaceRefused, false),
            (said("error: object fsck failed"), ReasonCode::WorkspaceRefused, false),
            (
                GitError::Failed { command: "index-pack".into(), code: None, stderr: String::new() },
                ReasonCode::Internal,
                true,
            ),
            (GitError::TooMuch { command: "log".into(), bytes: 1 }, ReasonCode::WorkspaceRefused, false),
            (GitError::TimedOut { command: "index-pack".into(), seconds: 1 }, ReasonCode::WorkspaceRefused, false),
        ] {
            let text = error.to_string();
            let Stopped::Failed { reason, retry } = not_taken(error) else { panic!("{text}") };
            assert_eq!((reason.code, retry), (code, again), "{text}");
        }
    }
}
