//! What the agent has done, as commits in the mirror that the host holds.
//!
//! Git is run in the tree only by the clerk ([`crate::clerk`]), in a sandbox; the host takes a bundle from there, has git
//! look through it, and judges what it would push.

use std::collections::BTreeMap;

use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::job::command::TurnBegun;
use journeyman_core::message::Message;
use journeyman_core::run::ReasonCode;

use crate::clerk::{Clerk, Found, Task, take_bundle};
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::mirror::{History, Mirror};
use crate::room::Room;
use crate::survey::Survey;

/// A file in a commit may have so many bytes unless the project says otherwise: what GitHub takes.
pub(crate) const FILE_BYTES: u64 = 100 << 20;

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
    pub(crate) file_bytes: Option<u64>,
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
    let file_bytes = about.file_bytes.unwrap_or(FILE_BYTES);
    let title = journeyman_core::job::title_of(&about.message.prompt);
    let task = Task {
        base: &turn.head,
        snapshot: !about.only_committed,
        message: format!("{title}\n\nJourneyman-Job: {}\nJourneyman-Message: {}\n", about.job.id, about.message.id),
        large_from: (!seen.large.is_empty()).then_some(file_bytes),
    };
    let mut clerk = Clerk::start(room, environment, signals, &task).await?;
    let Found { own, head } = clerk.found().await?;
    if head == turn.head {
        clerk.end().await;
        return Ok(Work { head, commits: Vec::new(), settled: true });
    }
    import(room, mirror, turn, about, &head).await?;
    check(mirror, &turn.head, &head, file_bytes).await?;
    let commits = if own == turn.head {
        // The only one, on top of where the turn began.
        vec![head.clone()]
    } else {
        mirror.between(&turn.head, &head).await?
    };
    let settled = clerk.settle(&head).await?;
    Ok(Work { head, commits, settled })
}

/// Takes what the clerk has made into the mirror, where the job's name for it keeps it.
async fn import(room: &Room, mirror: &Mirror, turn: &TurnBegun, about: &About<'_>, head: &Sha) -> Result<(), Stopped> {
    let file = room.workspace.scratch("clerk").await?;
    let (desk, bundle) = (room.workspace.desk.clone(), file.clone());
    tokio::task::spawn_blocking(move || take_bundle(&desk, &bundle)).await.map_err(std::io::Error::other)??;
    let target = format!("+refs/journeyman/head:refs/jobs/{}/head", about.job.id);
    let arguments = ["-c", "transfer.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
    let path = file.to_string_lossy().into_owned();
    let fetch = mirror.git.at(&mirror.path, arguments.into_iter().chain(["--no-recurse-submodules", &path, &target]));
    let imported = fetch.run().await;
    tokio::fs::remove_file(&file).await?;
    imported.map_err(|error| {
        let text = format!("the agent's commits are refused, because git finds them damaged: {error}");
        Stopped::failed(ReasonCode::WorkspaceRefused, text)
    })?;
    if mirror.contains(head, &turn.head).await {
        return Ok(());
    }
    let text = "the agent's commits are refused, because they do not follow on those of the branch";
    Err(Stopped::failed(ReasonCode::WorkspaceRefused, text))
}

/// Refuses what must not be pushed: repositories inside the repository, and files that code hosts do not take.
async fn check(mirror: &Mirror, from: &Sha, to: &Sha, file_bytes: u64) -> Result<(), Stopped> {
    if from == to {
        return Ok(());
    }
    let arguments = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--abbrev=64", from.as_str(), to.as_str()];
    let changed = mirror.git.at(&mirror.path, arguments).run().await?;
    let text = String::from_utf8_lossy(&changed.stdout);
    let fields: Vec<&str> = text.split('\0').collect();
    let mut blobs = Vec::new();
    for pair in fields.chunks_exact(2) {
        let (meta, path) = (pair[0], pair[1]);
        let mut words = meta.split(' ');
        let (old_mode, new_mode) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if new_mode == "160000" && old_mode != ":160000" {
            let text = format!("{path:?} is a git repository of its own; remove it, or name it in .gitignore");
            return Err(Stopped::failed(ReasonCode::WorkspaceRefused, text));
        }
        if path == ".gitmodules" {
            let text = "\".gitmodules\" was changed: repositories inside the repository are not an agent's to add";
            return Err(Stopped::failed(ReasonCode::WorkspaceRefused, text));
        }
        if let Some(blob) = words.nth(1).filter(|_| new_mode.starts_with("100")) {
            blobs.push((blob, path));
        }
    }
    let names: String = blobs.iter().map(|(blob, _)| format!("{blob}\n")).collect();
    let sizes =
        mirror.git.at(&mirror.path, ["cat-file", "--batch-check=%(objectsize)"]).stdin(names).run().await?.text()?;
    for ((_, path), size) in blobs.iter().zip(sizes.lines()) {
        if size.parse::<u64>().is_ok_and(|size| size > file_bytes) {
            let text = format!(
                "{path:?} has {size} bytes and the most is {file_bytes}; remove it, or raise limits.fileBytes of the project"
            );
            return Err(Stopped::failed(ReasonCode::WorkspaceRefused, text));
        }
    }
    Ok(())
}
