//! The clerk makes commits of what is in a tree: git in a sandbox of its own, without network, secrets and the agent's
//! home, because both git and what it reads there may be turned against us. What comes out is a pack of objects, which
//! the host checks as it would check a stranger's.
//!
//! Its desk is a folder beside the tree, made by the host before anything has run in it: a git directory and an index. It
//! may be turned against us too, so the host writes nothing there any more, and reads no more than one plain file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::ports::{Exit, Process, Spawn};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;

use crate::disk_limit::Disk;
use crate::failure::Stopped;
use crate::lease::Signals;
use crate::limits;
use crate::mirror::Mirror;
use crate::room::{Patience, Room};
use crate::survey::first_odd_entry;
use crate::workspace::Workspace;

const SCRIPT: &str = include_str!("clerk.sh");

/// A pack of a turn's commits may have so many bytes.
const PACK_BYTES: u64 = 1 << 30;

/// What it says on stdout has so many at most: two commits, or a path.
const WORD_BYTES: u64 = 16 << 10;

/// What is kept of its complaints.
const COMPLAINT_BYTES: usize = 4096;

/// How long the agent's own git may take at the end.
const SETTLE_TIME: Duration = Duration::from_secs(10);

/// How long it may take when the worker shuts down: the turn is over, and what it was worth is given a moment to be kept.
const LAST_TIME: Duration = Duration::from_secs(5);

/// The exit code of a shell whose program was killed: 128 plus the signal number.
const KILLED: i32 = 128 + 9;

/// What it is to do.
pub(crate) struct Task<'a> {
    /// Where the turn began.
    pub(crate) base: &'a Sha,
    /// Whether what the agent has not committed is committed.
    pub(crate) snapshot: bool,
    /// Of that commit.
    pub(crate) message: String,
    /// The trailer for the last commit of the turn, even if the agent made that commit.
    pub(crate) trailer: String,
    /// Whether to rewrite the agent's commits with the file modes that git writes itself.
    pub(crate) normalize: bool,
    /// There are files with more bytes than this, which is the most that one may have.
    pub(crate) large_from: Option<u64>,
    /// Whether git may run in the agent's own repository; if not, its commits are lost, but its files are not.
    pub(crate) use_repository: bool,
    /// The time limit for making the commits.
    pub(crate) time: Duration,
    /// Those of the project.
    pub(crate) limits: &'a LimitSettings,
}

/// One at work. Dropped, it is killed.
pub(crate) struct Clerk<'a> {
    signals: &'a Signals,
    room: &'a Room,
    limits: LimitSettings,
    large_from: Option<u64>,
    time: Duration,
    process: Box<dyn Process>,
    stdin: Sender,
    stdout: BufReader<tokio::io::Take<Receiver>>,
    complaints: JoinHandle<String>,
}

/// The settings of the desk's repository: hooks and helpers are none.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
                      \thooksPath = /dev/null\n\tfsmonitor = false\n\texcludesFile = /dev/null\n\tattributesFile = \
                      /dev/null\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";

/// Prepares the desk of a tree that stands on a commit with nothing to commit.
pub(crate) async fn set_desk(workspace: &Workspace, mirror: &Mirror, head: &Sha) -> io::Result<()> {
    let git = workspace.desk.join("git");
    for dir in ["objects/info", "objects/pack", "refs"] {
        tokio::fs::create_dir_all(git.join(dir)).await?;
    }
    let alternates = format!("{}\n", mirror.objects().display());
    // Its HEAD is the commit that its index is of.
    let head = format!("{head}\n");
    for (name, text) in [("HEAD", head.as_str()), ("config", CONFIG), ("objects/info/alternates", &alternates)] {
        tokio::fs::write(git.join(name), text).await?;
    }
    tokio::fs::copy(workspace.tree.join(".git/index"), workspace.index()).await?;
    Ok(())
}

/// Returns an environment in which git reads only the configuration of its repository, with another home.
pub(crate) fn with_plain_git(environment: &BTreeMap<String, String>, home: &str) -> BTreeMap<String, String> {
    let nothing = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].map(|name| (name, "/dev/null"));
    let yes = ["GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM", "GIT_NO_REPLACE_OBJECTS"].map(|name| (name, "1"));
    let mut environment = environment.clone();
    let all = nothing.into_iter().chain(yes).chain([("HOME", home)]);
    environment.extend(all.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment
}

impl<'a> Clerk<'a> {
    /// Sets one to work.
    pub(crate) async fn start(
        room: &'a Room,
        environment: &BTreeMap<String, String>,
        signals: &'a Signals,
        task: &Task<'_>,
    ) -> Result<Self, Stopped> {
        let workspace = &room.workspace;
        check_desk(workspace).await?;
        let inside = room.sandbox.layout(&workspace.tree, &workspace.desk);
        let (tree, desk) = (inside.workspace.to_string_lossy(), inside.home.to_string_lossy());
        let argv = ["/bin/sh", "-c", SCRIPT, "clerk", &tree, &desk].map(str::to_owned).to_vec();
        let mut environment = with_plain_git(environment, &desk);
        let own = [
            ("BASE", task.base.to_string()),
            ("CONFIG", CONFIG.to_owned()),
            ("REPOSITORY", if task.use_repository { "yes" } else { "no" }.to_owned()),
            ("SNAPSHOT", if task.snapshot { "yes" } else { "no" }.to_owned()),
            ("NORMALIZE", if task.normalize { "yes" } else { "no" }.to_owned()),
            ("LARGE_FROM", task.large_from.map_or_else(String::new, |bytes| bytes.to_string())),
            ("MESSAGE", task.message.clone()),
            ("TRAILER", task.trailer.clone()),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let mut resources = room.resources;
        resources.file_bytes = Some(resources.file_bytes.unwrap_or_default().max(PACK_BYTES));
        let home = workspace.desk.clone();
        let spawn = Spawn { home, resources, ..room.spawn(argv, environment) };
        let spawned = room.start(spawn, signals, Patience::AFTER_TURN).await?;
        let stdout = Receiver::from_owned_fd(spawned.stdout)?.take(WORD_BYTES);
        Ok(Self {
            signals,
            room,
            limits: task.limits.clone(),
            large_from: task.large_from,
            time: task.time,
            process: spawned.process,
            stdin: Sender::from_owned_fd(spawned.stdin)?,
            stdout: BufReader::new(stdout),
            complaints: tokio::spawn(crate::agent::last_words(
                Receiver::from_owned_fd(spawned.stderr)?,
                COMPLAINT_BYTES,
            )),
        })
    }

    /// The commit that holds everything.
    pub(crate) async fn found(&mut self) -> Result<Sha, Stopped> {
        let line = match self.line(self.time).await {
            Ok(line) => line,
            Err(stopped) => {
                self.process.pause().await;
                self.process.end().await;
                return Err(stopped);
            }
        };
        if let Some(path) = line.as_deref().and_then(|line| line.strip_prefix("large ")) {
            let most = self.large_from.unwrap_or_default();
            let text = format!(
                "{path:?} has more bytes than the most, {most} (limits.fileBytes of the project); what the turn has done is taken \
                 back, so say in the next message how to do without"
            );
            return Err(Stopped::failed(ReasonCode::WorkspaceRefused, text));
        }
        let head = line.as_deref().and_then(|line| line.strip_prefix("head ")?.trim().parse().ok());
        match head {
            Some(head) => Ok(head),
            None => Err(self.failed().await),
        }
    }

    /// Makes the agent's repository what a fresh one would be: at `head`, with nothing to commit. False if the agent has
    /// broken it, or configured it to take its time.
    pub(crate) async fn settle(mut self, head: &Sha) -> Result<bool, Stopped> {
        // Where it is gone, it says nothing either.
        let _ = self.stdin.write_all(format!("settle {head}\n").as_bytes()).await;
        // The outer timeout ends the wait: taking too long is not a failure.
        let line = tokio::time::timeout(SETTLE_TIME, self.line(SETTLE_TIME * 2)).await;
        self.process.end().await;
        match line {
            // The turn has ended and its work is kept, whether this step succeeds or not.
            Ok(Err(Stopped::HandedBack)) | Err(_) => Ok(false),
            Ok(line) => Ok(line?.as_deref() == Some("settled")),
        }
    }

    /// Sends it home.
    pub(crate) async fn end(mut self) {
        drop(self.stdin);
        self.process.end().await;
    }

    /// Its next word; `None` when it says no more.
    async fn line(&mut self, time: Duration) -> Result<Option<String>, Stopped> {
        let shutdown = async {
            self.signals.shutdown.cancelled().await;
            tokio::time::sleep(LAST_TIME).await;
        };
        let mut line = Vec::new();
        tokio::select! {
            read = self.stdout.read_until(b'\n', &mut line) => {
                // A path need not be text.
                Ok((read? > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned()))
            }
            stopped = limits::watch(&*self.process, self.room, &self.limits) => Err(stopped),
            () = self.signals.lost.cancelled() => Err(Stopped::LeaseLost),
            () = shutdown => Err(Stopped::HandedBack),
            () = tokio::time::sleep(time) => {
                let text = format!(
                    "committing the files took longer than {} seconds; something in the workspace blocks git",
                    time.as_secs()
                );
                Err(Stopped::failed(ReasonCode::WorkspaceRefused, text))
            }
        }
    }

    async fn failed(&mut self) -> Stopped {
        let exit = self.process.end().await;
        let exhausted = self.process.exhausted();
        if let Some(stopped) = exhausted.map(|exhausted| limits::reached(exhausted, &self.limits)) {
            return stopped;
        }
        let complaints = tokio::time::timeout(Duration::from_secs(1), &mut self.complaints).await;
        let complaints = complaints.ok().and_then(Result::ok).unwrap_or_default();
        let complaints = if complaints.is_empty() { format!("it ended with {exit:?}") } else { complaints };
        if let Some(stopped) = Disk::of(self.room, &self.limits).failure(&complaints).await {
            return stopped;
        }
        match exit {
            // The machine or an operator killed the committer's git or its shell.
            Exit::Signal(_) | Exit::Code(KILLED) => {
                let text = format!("git was killed while it committed the files: {complaints}");
                Stopped::may_pass(ReasonCode::Internal, text)
            }
            _ => {
                let text = format!("the files cannot be committed: {complaints}");
                Stopped::failed(ReasonCode::WorkspaceRefused, text)
            }
        }
    }
}

/// Refuses the committer's folder if a program that ran next to it has left an entry that blocks git or leads it
/// elsewhere.
async fn check_desk(workspace: &Workspace) -> Result<(), Stopped> {
    let desk = workspace.desk.clone();
    let odd = tokio::task::spawn_blocking(move || first_odd_entry(&desk)).await.map_err(io::Error::other)??;
    let Some(path) = odd else { return Ok(()) };
    let text = format!(
        "a program of the repository created a link, a FIFO or a device among the files that commits are made with: \
         {path:?}; the workspace is rebuilt for the next message"
    );
    Err(Stopped::failed(ReasonCode::WorkspaceRefused, text))
}

/// Opens the pack that lies on the desk: whatever lies there, no link is followed, nothing is waited for, and it is a file
/// that is no larger than a pack may be. It has no other reader and no writer any more once the clerk has spoken; if it
/// changes all the same, git finds it damaged.
pub(crate) fn open_pack(desk: &Path) -> Result<File, Stopped> {
    let path = desk.join("pack");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let refused = |detail: &str| {
        Stopped::failed(ReasonCode::WorkspaceRefused, format!("the agent's commits cannot be taken: {detail}"))
    };
    let pack = File::from(openat(CWD, &path, flags, Mode::empty()).map_err(|error| refused(&error.to_string()))?);
    let note = pack.metadata()?;
    if !note.is_file() {
        return Err(refused("their pack is no file"));
    }
    if note.len() > PACK_BYTES {
        return Err(refused(&format!("they have {} bytes and the most is {PACK_BYTES}", note.len())));
    }
    Ok(pack)
}
