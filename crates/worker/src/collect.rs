//! What the agent has done, as commits in the mirror that the host holds.
//!
//! Git is run in the tree only inside the sandbox; there it makes a bundle of the agent's own commits. What was not
//! committed is read by the host's git with the host's git directory and index, so that nothing in the tree configures it.

use std::collections::BTreeMap;
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::job::Job;
use journeyman_core::job::command::TurnBegun;
use journeyman_core::message::Message;
use journeyman_core::ports::{Exit, Sandbox, Spawn};
use journeyman_core::run::ReasonCode;
use journeyman_git::GitError;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::failure::Stopped;
use crate::lease::Signals;
use crate::mirror::{History, Mirror};
use crate::workspace::Workspace;

/// A file in a commit may have so many bytes unless the project says otherwise: what GitHub takes.
const FILE_BYTES: u64 = 100 << 20;

/// A bundle of the agent's commits may have so many bytes.
const BUNDLE_BYTES: usize = 1 << 30;

/// What is kept of a program's stderr.
const COMPLAINT_BYTES: usize = 64 << 10;

/// How long git may take in a tree.
const GIT_TIME: Duration = Duration::from_secs(600);

/// How long it may take when the worker shuts down.
const LAST_TIME: Duration = Duration::from_secs(5);

/// Where programs run beside the agent, in its sandbox.
pub(crate) struct Inside<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) workspace: &'a Workspace,
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) signals: &'a Signals,
}

impl Inside<'_> {
    /// How a program ended, and what it printed.
    pub(crate) async fn run(&self, argv: &[&str], limit: usize) -> Result<(Exit, Printed), Stopped> {
        let argv = argv.iter().map(|part| (*part).to_owned()).collect();
        let (workspace, home) = (self.workspace.tree.clone(), self.workspace.home.clone());
        let spawn = Spawn { argv, environment: self.environment.clone(), workspace, home };
        let mut spawned = self.sandbox.spawn(spawn).await?;
        drop(spawned.stdin);
        let (stdout, stderr) = (Receiver::from_owned_fd(spawned.stdout)?, Receiver::from_owned_fd(spawned.stderr)?);
        let (stdout, stderr) = tokio::try_join!(Printed::read(stdout, limit), Printed::read(stderr, COMPLAINT_BYTES))?;
        let exit = spawned.process.wait().await;
        spawned.process.end().await;
        Ok((exit, if exit == Exit::Code(0) { stdout } else { stdout.and(stderr) }))
    }

    /// Git in the tree, as the agent would run it: it may have been configured to do anything.
    async fn git(&self, argv: &[&str], limit: usize) -> Result<(Exit, Vec<u8>), Stopped> {
        let shutdown = async {
            self.signals.shutdown.cancelled().await;
            // The turn is over: what it was worth is given a moment to be kept.
            tokio::time::sleep(LAST_TIME).await;
        };
        tokio::select! {
            ran = self.run(argv, limit) => match ran? {
                (exit, Printed { last, cut: false }) => Ok((exit, last)),
                (_, Printed { cut: true, .. }) => {
                    let text = format!("{} prints more than {limit} bytes in the workspace", argv.join(" "));
                    Err(Stopped::failed(ReasonCode::WorkspaceRefused, text))
                }
            },
            () = self.signals.lost.cancelled() => Err(Stopped::LeaseLost),
            () = shutdown => Err(Stopped::HandedBack),
            () = tokio::time::sleep(GIT_TIME) => {
                let text = format!("{} does not end in the workspace as the agent has left it", argv.join(" "));
                Err(Stopped::failed(ReasonCode::WorkspaceRefused, text))
            }
        }
    }

    /// Makes the agent's repository what a fresh one would be: at `head`, with nothing to commit. False if the agent has
    /// broken it.
    pub(crate) async fn settle(&self, head: &Sha) -> Result<bool, Stopped> {
        let (exit, _) = self.git(&["git", "reset", "--quiet", head.as_str()], 200).await?;
        Ok(exit == Exit::Code(0))
    }
}

/// What a program printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// The last of it.
    pub(crate) last: Vec<u8>,
    /// Whether there was more.
    pub(crate) cut: bool,
}

impl Printed {
    /// Reads to the end, so that nobody waits for us, and keeps the last `limit` bytes.
    async fn read(mut stream: Receiver, limit: usize) -> std::io::Result<Self> {
        let (mut printed, mut piece) = (Self::default(), vec![0; 64 << 10]);
        while let count @ 1.. = stream.read(&mut piece).await? {
            printed.last.extend_from_slice(&piece[..count]);
            // Twice as many, so that what is kept is not moved for each piece.
            if printed.last.len() > limit.saturating_mul(2) {
                printed.cut_to(limit);
            }
        }
        printed.cut_to(limit);
        Ok(printed)
    }

    fn cut_to(&mut self, limit: usize) {
        let excess = self.last.len().saturating_sub(limit);
        self.cut |= excess > 0;
        self.last.drain(..excess);
    }

    fn and(mut self, other: Self) -> Self {
        self.last.extend(other.last);
        Self { last: self.last, cut: self.cut }
    }
}

/// The commit that holds all of the turn's work, and the commits that lead to it from where the turn began.
pub(crate) async fn collect(
    inside: &Inside<'_>,
    mirror: &Mirror,
    turn: &TurnBegun,
    about: &About<'_>,
) -> Result<(Sha, Vec<Sha>), Stopped> {
    let own = agent_commits(inside, mirror, turn, about).await?;
    let snapshot = if about.only_committed { None } else { snapshot(inside.workspace, mirror, &own, about).await? };
    let head = snapshot.clone().unwrap_or_else(|| own.clone());
    if head == turn.head {
        return Ok((head, Vec::new()));
    }
    check(mirror, &turn.head, &head, about.file_bytes.unwrap_or(FILE_BYTES)).await?;
    let commits = match snapshot {
        // The only one, on top of where the turn began.
        Some(commit) if own == turn.head => vec![commit],
        _ => mirror.between(&turn.head, &head).await?,
    };
    mirror.keep(&format!("{}/head", about.job.id), &head).await?;
    Ok((head, commits))
}

/// What a commit says about where it comes from.
pub(crate) struct About<'a> {
    pub(crate) job: &'a Job,
    pub(crate) message: &'a Message,
    /// A turn that was interrupted: what is not committed stays in the tree for the next.
    pub(crate) only_committed: bool,
    pub(crate) file_bytes: Option<u64>,
}

/// Imports the agent's own commits; the newest of them, or where the turn began.
async fn agent_commits(
    inside: &Inside<'_>,
    mirror: &Mirror,
    turn: &TurnBegun,
    about: &About<'_>,
) -> Result<Sha, Stopped> {
    let (exit, printed) = inside.git(&["git", "rev-parse", "--verify", "HEAD"], 200).await?;
    let head = String::from_utf8_lossy(&printed).trim().parse::<Sha>();
    // A tree whose git was broken by the agent has no commits to take; its files are taken all the same.
    let (Exit::Code(0), Ok(head)) = (exit, head) else { return Ok(turn.head.clone()) };
    if head == turn.head || mirror.has(&head).await && mirror.contains(&turn.head, &head).await {
        return Ok(turn.head.clone());
    }
    let not = format!("^{}", turn.head);
    let argv = ["git", "bundle", "create", "--quiet", "-", "HEAD", &not];
    let (exit, bundle) = inside.git(&argv, BUNDLE_BYTES).await?;
    if exit != Exit::Code(0) {
        return Ok(turn.head.clone());
    }
    let file = inside.workspace.root.join("bundle");
    tokio::fs::write(&file, bundle).await?;
    let target = format!("+HEAD:refs/jobs/{}/agent", about.job.id);
    let arguments = ["-c", "transfer.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
    let path = file.to_string_lossy().into_owned();
    let fetch = mirror.git.at(&mirror.path, arguments.into_iter().chain(["--no-recurse-submodules", &path, &target]));
    let imported = fetch.run().await;
    tokio::fs::remove_file(&file).await?;
    imported.map_err(|error| {
        let text = format!("the agent's commits are refused, because git finds them damaged: {error}");
        Stopped::failed(ReasonCode::WorkspaceRefused, text)
    })?;
    // History that was rewritten cannot be pushed without force: then the files count, and become one commit.
    if mirror.contains(&head, &turn.head).await { Ok(head) } else { Ok(turn.head.clone()) }
}

/// A commit of everything in the tree on top of `parent`; `None` where nothing differs.
async fn snapshot(
    workspace: &Workspace,
    mirror: &Mirror,
    parent: &Sha,
    about: &About<'_>,
) -> Result<Option<Sha>, Stopped> {
    let over_tree =
        |arguments: &[&str]| mirror.git.at(&mirror.path, arguments).work_tree(&workspace.tree, &workspace.index);
    over_tree(&["add", "--all"]).run().await.map_err(|error| match Stopped::from(error) {
        Stopped::Failed { reason, .. } if reason.code == ReasonCode::Internal => {
            Stopped::failed(ReasonCode::WorkspaceRefused, format!("the files cannot be committed: {}", reason.text))
        }
        other => other,
    })?;
    match over_tree(&["diff-index", "--cached", "--quiet", parent.as_str(), "--"]).run().await {
        Ok(_) => return Ok(None),
        Err(GitError::Failed { code: Some(1), .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let tree = over_tree(&["write-tree"]).run().await?.sha()?;
    let title = journeyman_core::job::title_of(&about.message.prompt);
    let text = format!("{title}\n\nJourneyman-Job: {}\nJourneyman-Message: {}\n", about.job.id, about.message.id);
    let commit =
        mirror.git.at(&mirror.path, ["commit-tree", tree.as_str(), "-p", parent.as_str(), "-F", "-"]).stdin(text);
    Ok(Some(commit.run().await?.sha()?))
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
