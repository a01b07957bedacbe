//! The committer runs git on a job's tree, in a separate sandbox without network, secrets and the agent's home, because
//! the agent may have prepared the tree to attack git. The host sends it requests, and decides by the answers what is
//! committed ([`super::exact`]). The result is a pack of objects, which the host checks like a push from an untrusted
//! client.
//!
//! The committer's folder contains a git directory and an index. The host creates it before a program has run next to
//! it. Programs may change it later, so the host then writes nothing to it, and reads only regular files from it. Lists
//! for the committer are in another folder, to which only the host writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::left_out::LeftOutReason;
use journeyman_core::ports::{Exit, Process, Spawn};
use journeyman_core::project::LimitSettings;
use journeyman_core::run::ReasonCode;
use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;

use super::agent_settings::AgentSettings;
use super::differences::{Differences, IndexEntry};
use super::lfs_objects::Converted;
use super::paths::{path_of, paths_in};
use crate::claim::deadline::{self, Overdue, WorkLimits};
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

/// The maximum size of an answer in bytes. A list has a path of at most 4096 bytes for each file.
const ANSWER_BYTES: usize = 256 << 20;

/// The maximum length of the first line of an answer, in bytes.
const LINE_BYTES: u64 = 256;

/// The mode of the pointer of a submodule.
const GITLINK: &[u8] = b"160000";

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
    /// The newest commit of the branch that the work is merged into. Its history is not the agent's work.
    pub(crate) upstream: Option<&'a Sha>,
    /// True if changes that the agent has not committed are committed too.
    pub(crate) snapshot: bool,
    /// The trailer for the last commit of the turn, even if the agent made that commit.
    pub(crate) trailer: String,
    /// The trailer for the person who asked for the work, in the same commit.
    pub(crate) co_author: Option<String>,
    /// True if the agent's commits are rewritten with the file modes that git itself writes.
    pub(crate) normalize: bool,
    /// The agent's own configuration.
    pub(crate) settings: &'a AgentSettings,
    /// True if git may run in the agent's own repository; if not, its commits are lost, but its files are not.
    pub(crate) use_repository: bool,
    /// True if the agent's commits are taken; if not, one commit has all changes of the tree.
    pub(crate) take_commits: bool,
    /// The processor time limit for each step.
    pub(crate) time: Duration,
    /// The limits of the project.
    pub(crate) limits: &'a LimitSettings,
}

/// A running committer. Dropping it kills it.
pub(crate) struct Committer<'a> {
    signals: &'a Signals,
    sandbox: &'a JobSandbox,
    limits: LimitSettings,
    time: Duration,
    /// The folder of the lists.
    lists: PathBuf,
    /// The agent's newest commit that is taken.
    pub(crate) own: Sha,
    /// The agent's newest commit, if it cannot be taken, and the reason.
    pub(crate) replaced: Option<(Sha, LeftOutReason)>,
    process: Box<dyn Process>,
    stdin: Sender,
    stdout: BufReader<Receiver>,
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
        let lists = workspace.lists();
        tokio::fs::create_dir_all(&lists).await?;
        let rules = lists.join("ignore");
        tokio::fs::write(&rules, &task.settings.ignore_rules).await?;
        let inside = sandbox.sandbox.layout(&workspace.tree, &workspace.commit_dir);
        let (tree, dir) = (inside.workspace.to_string_lossy(), inside.home.to_string_lossy());
        let argv = ["/bin/sh", "-c", SCRIPT, "committer", &tree, &dir, &lists.to_string_lossy()];
        let argv = argv.map(str::to_owned).to_vec();
        let mut environment = with_plain_git(environment, &dir);
        let rules = rules.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        let line_endings = task.settings.line_endings.setting();
        let config = format!("{COMMITTER_CONFIG}[core]\n\texcludesFile = \"{rules}\"\n\tautocrlf = {line_endings}\n");
        let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let own = [
            ("BASE", task.base.to_string()),
            ("UPSTREAM", task.upstream.map_or_else(String::new, Sha::to_string)),
            ("CONFIG", config),
            ("REPOSITORY", yes_or_no(task.use_repository)),
            ("COMMITS", yes_or_no(task.use_repository && task.take_commits)),
            ("SNAPSHOT", yes_or_no(task.snapshot)),
            ("NORMALIZE", yes_or_no(task.normalize)),
            ("TRAILER", task.trailer.clone()),
            ("CO_AUTHOR", task.co_author.clone().unwrap_or_default()),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let mut resources = sandbox.resources;
        resources.file_bytes = Some(resources.file_bytes.unwrap_or_default().max(PACK_BYTES));
        let home = workspace.commit_dir.clone();
        let spawn = Spawn { home, resources, ..sandbox.spawn(argv, environment) };
        let readable = spawn.readable.iter().cloned().chain([lists.clone()]).collect();
        let spawned = sandbox.start(Spawn { readable, ..spawn }, signals, StartTimeout::AFTER_TURN).await?;
        let mut committer = Self {
            signals,
            sandbox,
            limits: task.limits.clone(),
            time: task.time,
            lists,
            own: task.base.clone(),
            replaced: None,
            process: spawned.process,
            stdin: Sender::from_owned_fd(spawned.stdin)?,
            stdout: BufReader::new(Receiver::from_owned_fd(spawned.stdout)?),
            stderr: tokio::spawn(last_output(Receiver::from_owned_fd(spawned.stderr)?, STDERR_BYTES)),
        };
        let line = committer.line(committer.time).await?.unwrap_or_default();
        let mut words = line.strip_prefix("own ").unwrap_or_default().split_whitespace();
        let Some(Ok(own)) = words.next().map(str::parse) else { return Err(committer.failed().await) };
        committer.own = own;
        let replaced = words.next().and_then(|commit| commit.parse().ok());
        committer.replaced = replaced.zip(words.next().map(|why| match why {
            "rewritten" => LeftOutReason::RewrittenHistory,
            _ => LeftOutReason::ReplacedCommits,
        }));
        Ok(committer)
    }

    /// Returns the files that the agent's index marks: not in the working tree, not merged, or assumed to be unchanged.
    pub(crate) async fn marks(&mut self) -> Result<Vec<Mark>, RunError> {
        let text = self.list("marks", None).await?;
        Ok(paths_in(&text).filter_map(|entry| Mark::parse(entry.as_os_str().as_bytes())).collect())
    }

    /// Returns how the index differs from the agent's newest commit: the files, each with the letter of git-diff(1) for what
    /// became of it.
    pub(crate) async fn changes(&mut self) -> Result<Vec<(char, String)>, RunError> {
        let text = self.list("changes", None).await?;
        let parts: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
        let (pairs, _) = parts.as_chunks::<2>();
        let change = |[letter, path]: &[&[u8]; 2]| {
            (letter.first().map_or('M', |letter| char::from(*letter)), String::from_utf8_lossy(path).into_owned())
        };
        Ok(pairs.iter().map(change).collect())
    }

    /// Returns the pointers of submodules in the index, by path. At first, they are those of the agent's newest commit.
    pub(crate) async fn pointers(&mut self) -> Result<BTreeMap<PathBuf, Sha>, RunError> {
        let text = self.list("submodules", None).await?;
        let pointer = |entry: &[u8]| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let commit = std::str::from_utf8(entry.get(..tab)?).ok()?.split(' ').nth(1)?.parse().ok()?;
            Some((path_of(entry.get(tab + 1..)?), commit))
        };
        Ok(text.split(|byte| *byte == 0).filter_map(pointer).collect())
    }

    /// Sets pointers of submodules in the index, or removes them. If git refuses any of them, the error is returned.
    pub(crate) async fn set_pointers(
        &mut self,
        pointers: &BTreeMap<String, Option<Sha>>,
    ) -> Result<Result<(), String>, RunError> {
        let line = |(path, commit): (&String, &Option<Sha>)| match commit {
            Some(commit) => PathBuf::from(format!("160000 {commit}\t{path}")),
            None => PathBuf::from(format!("0 {}\t{path}", "0".repeat(40))),
        };
        let lines: Vec<PathBuf> = pointers.iter().map(line).collect();
        Ok(self.ask("index", Some(&lines)).await?.map(drop))
    }

    /// Returns whether the folder of a submodule has exactly the files of a commit, as the objects of its repository say.
    /// Files that its own rules ignore are no change.
    pub(crate) async fn is_clean(&mut self, path: &str, commit: &Sha) -> Result<bool, RunError> {
        let line = PathBuf::from(format!("{commit}\n{path}\n"));
        Ok(self.ask("clean", Some(&[line])).await?.is_ok())
    }

    /// Returns those of the paths that the sparse patterns of the agent's repository include.
    pub(crate) async fn sparse(&mut self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, RunError> {
        let text = self.list("sparse", Some(paths)).await?;
        Ok(paths_in(&text).collect())
    }

    /// Returns those of the paths that git ignores. The error is git's, for example if a path is in a submodule.
    pub(crate) async fn ignored(&mut self, paths: &[PathBuf]) -> Result<Result<Vec<PathBuf>, String>, RunError> {
        let answer = self.ask("ignored", Some(paths)).await?;
        Ok(answer.map(|text| paths_in(&text).collect()))
    }

    /// Like [`Self::ignored`], but says of tracked files, too, whether the rules match them.
    pub(crate) async fn matched(&mut self, paths: &[PathBuf]) -> Result<Result<Vec<PathBuf>, String>, RunError> {
        let answer = self.ask("ignored --no-index", Some(paths)).await?;
        Ok(answer.map(|text| paths_in(&text).collect()))
    }

    /// Returns how the agent's index differs from its newest commit.
    pub(crate) async fn differences(&mut self) -> Result<Differences, RunError> {
        Ok(Differences::parse(&self.list("differences", None).await?))
    }

    /// Returns the files that the agent's commits have added.
    pub(crate) async fn added(&mut self) -> Result<Vec<PathBuf>, RunError> {
        let text = self.list("added", None).await?;
        let fields: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
        let is_link = |header: &[u8]| header.split(|byte| *byte == b' ').nth(1) == Some(GITLINK);
        let file = |pair: &[&[u8]]| match pair {
            [header, path] if !is_link(header) => Some(path_of(path)),
            _ => None,
        };
        Ok(fields.chunks_exact(2).filter_map(file).collect())
    }

    /// Returns the entries of the index for these files, by path.
    pub(crate) async fn entries(&mut self, paths: &[PathBuf]) -> Result<BTreeMap<PathBuf, IndexEntry>, RunError> {
        let text = self.list("entries", Some(paths)).await?;
        Ok(text.split(|byte| *byte == 0).filter_map(IndexEntry::parse).collect())
    }

    /// Adds entries to the index. Returns the paths that git has accepted.
    pub(crate) async fn set_entries(
        &mut self,
        entries: &BTreeMap<PathBuf, IndexEntry>,
    ) -> Result<Vec<PathBuf>, RunError> {
        let lines: Vec<Vec<u8>> = entries.iter().map(|(path, entry)| entry.line(path)).collect();
        if self.ask_with("index", Some(lines.concat())).await?.is_ok() {
            return Ok(entries.keys().cloned().collect());
        }
        let mut accepted = Vec::new();
        for (line, path) in lines.into_iter().zip(entries.keys()) {
            if self.ask_with("index", Some(line)).await?.is_ok() {
                accepted.push(path.clone());
            }
        }
        Ok(accepted)
    }

    /// Returns the paths of objects in a commit.
    pub(crate) async fn paths_of(&mut self, commit: &Sha, objects: &BTreeSet<Sha>) -> Result<Vec<PathBuf>, RunError> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let list: String = objects.iter().map(|object| format!("{object}\n")).collect();
        let Ok(text) = self.ask_with(&format!("objects {commit}"), Some(list.into_bytes())).await? else {
            return Err(self.failed().await);
        };
        // An entry is a mode, a type, an object, a tab, and a path, which may look like the name of an object.
        let path = |entry: &[u8]| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let object: Sha = std::str::from_utf8(entry.get(..tab)?).ok()?.split(' ').nth(2)?.parse().ok()?;
            objects.contains(&object).then_some(path_of(entry.get(tab + 1..)?))
        };
        Ok(text.split(|byte| *byte == 0).filter_map(path).collect())
    }

    /// Returns those of the paths that the repository keeps in Git LFS, by the attributes in the tree.
    pub(crate) async fn in_lfs(&mut self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, RunError> {
        let text = self.list("filters", Some(paths)).await?;
        // Each answer is a path, the name of the attribute, and its value.
        let fields: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
        let answers = fields.chunks_exact(3).filter(|answer| answer.get(2) == Some(&b"lfs".as_slice()));
        Ok(answers.filter_map(|answer| answer.first().map(|path| path_of(path))).collect())
    }

    /// Writes the committed content of files to [`OLD`] in the committer's folder, as a checkout does.
    pub(crate) async fn check_out(&mut self, paths: &[PathBuf]) -> Result<(), RunError> {
        self.list("checkout", Some(paths)).await.map(drop)
    }

    /// Changes entries of the index. If git refuses any of the paths, none is changed, and the error is returned.
    pub(crate) async fn update(&mut self, how: Update, paths: &[PathBuf]) -> Result<Result<(), String>, RunError> {
        let request = match how {
            Update::Remove => "remove",
            Update::Add => "add",
            Update::SetExecutable(true) => "executable",
            Update::SetExecutable(false) => "plain",
        };
        Ok(self.ask(request, Some(paths)).await?.map(drop))
    }

    /// Adds files whose content is committed as pointers of Git LFS. Returns those that git refuses, with its errors.
    pub(crate) async fn add_pointers(&mut self, files: &[Converted]) -> Result<Vec<(PathBuf, String)>, RunError> {
        let folder = self.lists.join("pointers");
        tokio::fs::create_dir_all(&folder).await?;
        let mut list = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let path = folder.join(number.to_string());
            tokio::fs::write(&path, file.pointer.text()).await?;
            list.extend_from_slice(path.as_os_str().as_bytes());
            list.push(b'\n');
        }
        let ids = match self.ask_with("pointers", Some(list)).await? {
            Ok(ids) => String::from_utf8_lossy(&ids).into_owned(),
            Err(_) => return Err(self.failed().await),
        };
        tokio::fs::remove_dir_all(&folder).await?;
        let entry = |(file, id): (&Converted, &str)| {
            let mode = if file.is_executable { "100755" } else { "100644" };
            [format!("{mode} {id}\t").as_bytes(), file.path.as_os_str().as_bytes(), b"\0"].concat()
        };
        let entries: Vec<Vec<u8>> = files.iter().zip(ids.lines()).map(entry).collect();
        if entries.len() != files.len() {
            return Err(self.failed().await);
        }
        if self.ask_with("index", Some(entries.concat())).await?.is_ok() {
            return Ok(Vec::new());
        }
        let mut refused = Vec::new();
        for (file, entry) in files.iter().zip(entries) {
            if let Err(error) = self.ask_with("index", Some(entry)).await? {
                refused.push((file.path.clone(), error));
            }
        }
        Ok(refused)
    }

    /// Makes the commit and its pack, and returns the commit that contains all changes. `message` is that of a commit of the
    /// service.
    pub(crate) async fn commit(&mut self, message: &str) -> Result<Sha, RunError> {
        tokio::fs::write(self.lists.join("message"), message).await?;
        self.send("commit").await;
        let line = self.line(self.time).await?;
        let commit = line.as_deref().and_then(|line| line.strip_prefix("head")?.trim().parse().ok());
        match commit {
            Some(commit) => Ok(commit),
            None => Err(self.failed().await),
        }
    }

    /// Sends a request whose answer is a list.
    pub(super) async fn list(&mut self, request: &str, paths: Option<&[PathBuf]>) -> Result<Vec<u8>, RunError> {
        match self.ask(request, paths).await? {
            Ok(text) => Ok(text),
            Err(_) => Err(self.failed().await),
        }
    }

    /// Sends a request, with a list of paths, and returns the answer, or the error of git.
    async fn ask(&mut self, request: &str, paths: Option<&[PathBuf]>) -> Result<Result<Vec<u8>, String>, RunError> {
        let list = paths.map(|paths| {
            let mut list = Vec::new();
            for path in paths {
                list.extend_from_slice(path.as_os_str().as_bytes());
                list.push(0);
            }
            list
        });
        self.ask_with(request, list).await
    }

    /// Sends a request, with the content of its list, and returns the answer, or the error of git.
    pub(super) async fn ask_with(
        &mut self,
        request: &str,
        list: Option<Vec<u8>>,
    ) -> Result<Result<Vec<u8>, String>, RunError> {
        if let Some(list) = list {
            tokio::fs::write(self.lists.join("paths"), list).await?;
        }
        self.send(request).await;
        let line = self.line(self.time).await?.unwrap_or_default();
        let (answer, bytes) = line.split_once(' ').unwrap_or_default();
        let bytes = bytes.trim().parse().ok().filter(|bytes| *bytes <= ANSWER_BYTES);
        let (Some(bytes), "out" | "refused") = (bytes, answer) else { return Err(self.failed().await) };
        let text = self.bytes(bytes).await?;
        Ok(if answer == "out" { Ok(text) } else { Err(String::from_utf8_lossy(&text).trim().to_owned()) })
    }

    /// Sends a line. If the process has ended, reading its answer fails too.
    async fn send(&mut self, line: &str) {
        let _ = self.stdin.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Resets the agent's repository to `head`, with nothing to commit. Returns false if the agent has broken the
    /// repository, or configured it to be slow.
    pub(crate) async fn settle(mut self, head: &Sha) -> Result<bool, RunError> {
        self.send(&format!("settle {head}")).await;
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
        let mut line = Vec::new();
        let mut stdout = (&mut self.stdout).take(LINE_BYTES);
        let read = stdout.read_until(b'\n', &mut line);
        let wait = Wait { signals: self.signals, sandbox: self.sandbox, limits: &self.limits, time };
        match wait.until(&mut *self.process, read).await {
            Ok(read) => Ok((read > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())),
            Err(error) => Err(self.abandon(error).await),
        }
    }

    /// Reads that many bytes of the committer's output.
    async fn bytes(&mut self, bytes: usize) -> Result<Vec<u8>, RunError> {
        let mut text = vec![0; bytes];
        let read = self.stdout.read_exact(&mut text);
        let wait = Wait { signals: self.signals, sandbox: self.sandbox, limits: &self.limits, time: self.time };
        match wait.until(&mut *self.process, read).await {
            Ok(_) => Ok(text),
            Err(error) => Err(self.abandon(error).await),
        }
    }

    /// Kills the committer without a grace period, so that it writes nothing while its files are removed.
    async fn abandon(&mut self, error: RunError) -> RunError {
        self.process.pause().await;
        self.process.end().await;
        error
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

/// The end of a wait for output.
struct Wait<'a> {
    signals: &'a Signals,
    sandbox: &'a JobSandbox,
    limits: &'a LimitSettings,
    time: Duration,
}

impl Wait<'_> {
    /// Waits for output, while the process stays within its limits and the run goes on.
    async fn until<T>(
        &self,
        process: &mut dyn Process,
        read: impl Future<Output = io::Result<T>>,
    ) -> Result<T, RunError> {
        let shutdown = async {
            self.signals.shutdown.cancelled().await;
            tokio::time::sleep(SHUTDOWN_TIME).await;
        };
        tokio::select! {
            read = read => Ok(read?),
            exceeded = limits::watch(process, self.sandbox, self.limits) => Err(exceeded),
            () = self.signals.lost.cancelled() => Err(RunError::LeaseLost),
            () = shutdown => Err(RunError::HandedBack),
            overdue = deadline::overdue(process, WorkLimits::of_git(self.time)) => Err(self.stopped(overdue)),
        }
    }

    /// Returns the error for a git that was stopped.
    fn stopped(&self, overdue: Overdue) -> RunError {
        let text = match overdue {
            Overdue::Busy => {
                format!("committing the files needs more than {} seconds of processor time", self.time.as_secs())
            }
            Overdue::Blocked => format!(
                "committing the files has stopped for {} seconds; something in the workspace blocks git",
                deadline::GIT_BLOCKED.as_secs()
            ),
            Overdue::Long => "committing the files took too long; something in the workspace blocks git".to_owned(),
        };
        RunError::failed(ReasonCode::WorkspaceRefused, text)
    }
}

/// A change of entries of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Update {
    /// The files are removed.
    Remove,
    /// The files of the tree are added.
    Add,
    /// Whether the files are executable changes, and nothing else.
    SetExecutable(bool),
}

/// A file that the agent's index marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) kind: MarkKind,
    pub(crate) path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// The file is not part of the working tree (`skip-worktree`).
    Skipped,
    /// The file is assumed to be unchanged (`assume-unchanged`).
    AssumedUnchanged,
    /// The file has conflicts that are not resolved.
    Unmerged,
}

impl Mark {
    /// Parses an entry of `git ls-files -v`.
    fn parse(entry: &[u8]) -> Option<Self> {
        let kind = match entry.first()? {
            b'S' => MarkKind::Skipped,
            b'M' | b'm' => MarkKind::Unmerged,
            letter if letter.is_ascii_lowercase() => MarkKind::AssumedUnchanged,
            _ => return None,
        };
        Some(Self { kind, path: path_of(entry.get(2..)?) })
    }
}

/// The folder of [`Committer::check_out`] in the committer's folder.
pub(crate) const OLD: &str = "old";

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
