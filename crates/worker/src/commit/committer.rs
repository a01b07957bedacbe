//! The committer runs git on a job's tree, in a separate sandbox without network, secrets and the agent's home, because
//! the agent may have prepared the tree to attack git. Its result is a pack of objects, which the host checks like a
//! push from an untrusted client.
//!
//! The committer's folder contains a git directory and an index. The host creates it before a program has run next to
//! it. Programs may change it later, so the host then writes nothing to it, and reads only one regular file from it.

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

use crate::claim::lease::Signals;
use crate::error::RunError;
use crate::sandbox::disk_limit::Disk;
use crate::sandbox::job_sandbox::{JobSandbox, StartTimeout};
use crate::sandbox::limits;
use crate::sandbox::output::last_output;
use crate::workspace::Workspace;
use crate::workspace::git_dirs::COMMITTER_CONFIG;
use crate::workspace::scan::first_odd_entry;

const SCRIPT: &str = include_str!("committer.sh");

/// The maximum size of the pack of a turn's commits, in bytes.
const PACK_BYTES: u64 = 1 << 30;

/// The maximum output on stdout in bytes: two commits, or a path.
const STDOUT_BYTES: u64 = 16 << 10;

/// The bytes of stderr that are kept.
const STDERR_BYTES: usize = 4096;

/// The time limit for resetting the agent's repository.
const SETTLE_TIME: Duration = Duration::from_secs(10);

/// The time that remains once the worker shuts down, so that the work of the turn can still be committed.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);

/// The exit code of a shell whose program was killed: 128 plus the signal number.
const KILLED: i32 = 128 + 9;

/// The parameters of a commit.
pub(crate) struct Task<'a> {
    /// The commit that the turn started from.
    pub(crate) base: &'a Sha,
    /// True if changes that the agent has not committed are committed too.
    pub(crate) snapshot: bool,
    /// The message of that commit.
    pub(crate) message: String,
    /// The trailer for the last commit of the turn, even if the agent made that commit.
    pub(crate) trailer: String,
    /// True if the agent's commits are rewritten with the file modes that git itself writes.
    pub(crate) normalize: bool,
    /// The maximum size of a file in bytes, if the tree contains larger files; some of them may be ignored.
    pub(crate) large_from: Option<u64>,
    /// True if git may run in the agent's own repository; if not, its commits are lost, but its files are not.
    pub(crate) use_repository: bool,
    /// The time limit for making the commits.
    pub(crate) time: Duration,
    /// The limits of the project.
    pub(crate) limits: &'a LimitSettings,
}

/// A running committer. Dropping it kills it.
pub(crate) struct Committer<'a> {
    signals: &'a Signals,
    sandbox: &'a JobSandbox,
    limits: LimitSettings,
    large_from: Option<u64>,
    time: Duration,
    process: Box<dyn Process>,
    stdin: Sender,
    stdout: BufReader<tokio::io::Take<Receiver>>,
    stderr: JoinHandle<String>,
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

impl<'a> Committer<'a> {
    /// Starts the committer.
    pub(crate) async fn start(
        sandbox: &'a JobSandbox,
        environment: &BTreeMap<String, String>,
        signals: &'a Signals,
        task: &Task<'_>,
    ) -> Result<Self, RunError> {
        let workspace = &sandbox.workspace;
        check_folder(workspace).await?;
        let inside = sandbox.sandbox.layout(&workspace.tree, &workspace.commit_dir);
        let (tree, dir) = (inside.workspace.to_string_lossy(), inside.home.to_string_lossy());
        let argv = ["/bin/sh", "-c", SCRIPT, "committer", &tree, &dir].map(str::to_owned).to_vec();
        let mut environment = with_plain_git(environment, &dir);
        let own = [
            ("BASE", task.base.to_string()),
            ("CONFIG", COMMITTER_CONFIG.to_owned()),
            ("REPOSITORY", if task.use_repository { "yes" } else { "no" }.to_owned()),
            ("SNAPSHOT", if task.snapshot { "yes" } else { "no" }.to_owned()),
            ("NORMALIZE", if task.normalize { "yes" } else { "no" }.to_owned()),
            ("LARGE_FROM", task.large_from.map_or_else(String::new, |bytes| bytes.to_string())),
            ("MESSAGE", task.message.clone()),
            ("TRAILER", task.trailer.clone()),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let mut resources = sandbox.resources;
        resources.file_bytes = Some(resources.file_bytes.unwrap_or_default().max(PACK_BYTES));
        let home = workspace.commit_dir.clone();
        let spawn = Spawn { home, resources, ..sandbox.spawn(argv, environment) };
        let spawned = sandbox.start(spawn, signals, StartTimeout::AFTER_TURN).await?;
        let stdout = Receiver::from_owned_fd(spawned.stdout)?.take(STDOUT_BYTES);
        Ok(Self {
            signals,
            sandbox,
            limits: task.limits.clone(),
            large_from: task.large_from,
            time: task.time,
            process: spawned.process,
            stdin: Sender::from_owned_fd(spawned.stdin)?,
            stdout: BufReader::new(stdout),
            stderr: tokio::spawn(last_output(Receiver::from_owned_fd(spawned.stderr)?, STDERR_BYTES)),
        })
    }

    /// Waits for the commit that contains all changes.
    pub(crate) async fn head(&mut self) -> Result<Sha, RunError> {
        let line = match self.line(self.time).await {
            Ok(line) => line,
            Err(error) => {
                self.process.pause().await;
                self.process.end().await;
                return Err(error);
            }
        };
        if let Some(path) = line.as_deref().and_then(|line| line.strip_prefix("large ")) {
            let most = self.large_from.unwrap_or_default();
            let text = format!(
                "{path:?} is larger than the limit of {most} bytes (limits.fileBytes of the project); the changes of the \
                 turn are discarded, so say in the next message how to do without the file"
            );
            return Err(RunError::failed(ReasonCode::WorkspaceRefused, text));
        }
        let head = line.as_deref().and_then(|line| line.strip_prefix("head ")?.trim().parse().ok());
        match head {
            Some(head) => Ok(head),
            None => Err(self.failed().await),
        }
    }

    /// Resets the agent's repository to `head`, with nothing to commit. Returns false if the agent has broken the
    /// repository, or configured it to be slow.
    pub(crate) async fn settle(mut self, head: &Sha) -> Result<bool, RunError> {
        // If the process has ended, reading its answer fails too.
        let _ = self.stdin.write_all(format!("settle {head}\n").as_bytes()).await;
        // The outer timeout ends the wait: taking too long is not a failure.
        let line = tokio::time::timeout(SETTLE_TIME, self.line(SETTLE_TIME * 2)).await;
        self.process.end().await;
        match line {
            // The commits of the turn are stored, whether this step succeeds or not.
            Ok(Err(RunError::HandedBack)) | Err(_) => Ok(false),
            Ok(line) => Ok(line?.as_deref() == Some("settled")),
        }
    }

    /// Stops the committer.
    pub(crate) async fn end(mut self) {
        drop(self.stdin);
        self.process.end().await;
    }

    /// Reads the next line of the committer's output; `None` at end of stream.
    async fn line(&mut self, time: Duration) -> Result<Option<String>, RunError> {
        let shutdown = async {
            self.signals.shutdown.cancelled().await;
            tokio::time::sleep(SHUTDOWN_TIME).await;
        };
        let mut line = Vec::new();
        tokio::select! {
            read = self.stdout.read_until(b'\n', &mut line) => {
                // A path may contain bytes that are not UTF-8.
                Ok((read? > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned()))
            }
            exceeded = limits::watch(&*self.process, self.sandbox, &self.limits) => Err(exceeded),
            () = self.signals.lost.cancelled() => Err(RunError::LeaseLost),
            () = shutdown => Err(RunError::HandedBack),
            () = tokio::time::sleep(time) => {
                let text = format!(
                    "committing the files took longer than {} seconds; something in the workspace blocks git",
                    time.as_secs()
                );
                Err(RunError::failed(ReasonCode::WorkspaceRefused, text))
            }
        }
    }

    async fn failed(&mut self) -> RunError {
        let exit = self.process.end().await;
        let exhausted = self.process.exhausted();
        if let Some(error) = exhausted.map(|exhausted| limits::reached(exhausted, &self.limits)) {
            return error;
        }
        let stderr = tokio::time::timeout(Duration::from_secs(1), &mut self.stderr).await;
        let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
        let stderr = if stderr.is_empty() { format!("it ended with {exit:?}") } else { stderr };
        if let Some(error) = Disk::of(self.sandbox, &self.limits).failure(&stderr).await {
            return error;
        }
        match exit {
            // The machine or an operator killed the committer's git or its shell.
            Exit::Signal(_) | Exit::Code(KILLED) => {
                let text = format!("git was killed while it committed the files: {stderr}");
                RunError::may_pass(ReasonCode::Internal, text)
            }
            _ => {
                let text = format!("the files cannot be committed: {stderr}");
                RunError::failed(ReasonCode::WorkspaceRefused, text)
            }
        }
    }
}

/// Refuses the committer's folder if a program that ran next to it has left an entry that blocks git or leads it
/// elsewhere.
async fn check_folder(workspace: &Workspace) -> Result<(), RunError> {
    let folder = workspace.commit_dir.clone();
    let odd = tokio::task::spawn_blocking(move || first_odd_entry(&folder)).await.map_err(io::Error::other)??;
    let Some(path) = odd else { return Ok(()) };
    let text = format!(
        "a program of the repository created a link, a FIFO or a device among the files that commits are made with: \
         {path:?}; the workspace is rebuilt for the next message"
    );
    Err(RunError::failed(ReasonCode::WorkspaceRefused, text))
}

/// Opens the pack in the committer's folder. No link is followed, nothing blocks, and the result is a regular file of
/// limited size, even if a program has replaced the pack. The committer no longer writes to it; if another program
/// changes it, git finds that it is damaged.
pub(crate) fn open_pack(folder: &Path) -> Result<File, RunError> {
    let path = folder.join("pack");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let refused = |detail: &str| {
        RunError::failed(ReasonCode::WorkspaceRefused, format!("the agent's commits cannot be taken: {detail}"))
    };
    let pack = File::from(openat(CWD, &path, flags, Mode::empty()).map_err(|error| refused(&error.to_string()))?);
    let metadata = pack.metadata()?;
    if !metadata.is_file() {
        return Err(refused("their pack is not a regular file"));
    }
    if metadata.len() > PACK_BYTES {
        return Err(refused(&format!("they have {} bytes, but the limit is {PACK_BYTES}", metadata.len())));
    }
    Ok(pack)
}
