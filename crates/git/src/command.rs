//! Builds a git process, runs it with limits, and kills it together with its process group.

mod credential;
mod limits;
mod pieces;
mod piped;
mod progress;
mod settings;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::ports::ReachedServers;
use journeyman_net::Outbound;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tracing::{Instrument as _, Span};

use crate::connection::Shared;
use crate::failure::{GitError, summary};
use crate::route::Route;
use credential::ServerCredential;
use limits::Limits;

pub use pieces::Pieces;
pub use piped::Piped;
pub use settings::write_program;

/// The default time limit of a command.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The default limit of a command's output, in bytes.
const STDOUT_BYTES: usize = 64 << 20;

const STDERR_BYTES: u64 = 64 << 10;

/// The time that a stopped command has to remove its lock files.
const GRACE: Duration = Duration::from_secs(5);

/// The programs that start a command with a low priority, each as the argument of the one before, with their options.
const LOW_PRIORITY: [(&str, &[&str]); 2] = [("nice", &["-n", "19"]), ("ionice", &["-t", "-c", "3"])];

/// The interval at which a stopped process group is checked for processes that outlive their leader.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The variables with which git finds a proxy. Only a connection sets them.
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// The settings for every command. Git reads them last, so they override the configuration of a repository.
const CONFIG: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "ssh -oBatchMode=yes"),
    // Files that git has written survive a power failure; the entries of folders may not ([`crate::Folders`]).
    ("core.fsync", FSYNC),
    ("core.fsyncMethod", FSYNC_METHOD),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.ext.allow", "never"),
    // [`Git::ask`] follows redirects within the host.
    ("http.followRedirects", "false"),
    ("safe.directory", "*"),
    ("user.name", "Journeyman"),
    ("user.email", "journeyman@localhost"),
    // Git gives up a transfer that stalls for a minute.
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
];

/// The files that git syncs (git-config(1), `core.fsync`); by default it does not sync loose objects and refs.
pub(crate) const FSYNC: &str = "committed,derived-metadata,reference";

/// The setting with which git syncs the same files without refs.
pub const UNSYNCED_REFS: &str = "core.fsync=committed,derived-metadata";

/// Loose objects that are written together share one disk sync, if the file system supports that.
pub(crate) const FSYNC_METHOD: &str = "batch";
/// Returns the settings for a git process that serves a path. The process does not inherit the settings of the client's
/// git, which git removes from its environment, and it checks the repository's owner itself.
pub(crate) fn server_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    CONFIG.iter().chain(limits::CONFIG).copied().filter(|(key, _)| *key != "safe.directory")
}

/// A handle that creates git commands. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Git {
    pub(crate) runner: Arc<Runner>,
    /// The folders that must not contain a remote ([`Git::with_own_folders`]).
    pub(crate) own_folders: Arc<[PathBuf]>,
    /// The settings for connections to servers.
    pub(crate) outbound: Outbound,
    /// The servers that were reached ([`Git::recording`]).
    pub(crate) reached: ReachedServers,
}

/// The settings that all commands share.
#[derive(Debug, Clone)]
pub struct Runner {
    /// The program, such as `git`.
    pub program: OsString,
    /// The value of `PATH`.
    pub path: OsString,
    /// The environment variables that git needs from the outside, such as `GIT_SSL_CAINFO`.
    pub environment: Vec<(OsString, OsString)>,
    /// The program that answers git's prompts ([`Git::write_askpass`]).
    pub askpass: Option<PathBuf>,
}

/// A git command that is being built.
#[derive(Debug)]
pub struct GitCommand {
    runner: Arc<Runner>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    stdin: Vec<u8>,
    stdin_file: Option<File>,
    memory_bytes: u64,
    timeout: Duration,
    stdout_bytes: usize,
    credential: Option<ServerCredential>,
    connection: Option<Shared>,
    /// True if messages of the command may have text of a server.
    is_remote: bool,
    has_low_priority: bool,
}

/// The output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    command: String,
    /// The bytes on stdout.
    pub stdout: Vec<u8>,
    /// The beginning of what the command printed on stderr, such as warnings.
    pub warnings: String,
}

impl Git {
    /// Creates a handle whose commands run as `runner` specifies.
    #[must_use]
    pub fn new(mut runner: Runner) -> Self {
        // With its full path, a program starts without a copy of this process's page tables (posix_spawn). A name that
        // is looked up on a search path other than this process's costs a fork, about a millisecond in a large process.
        if let Some(program) = found(&runner.program, &runner.path) {
            runner.program = program.into();
        }
        let (outbound, reached) = (Outbound::default(), ReachedServers::default());
        Self { runner: Arc::new(runner), own_folders: Arc::default(), outbound, reached }
    }

    /// Connects to servers with these settings.
    #[must_use]
    pub fn with_outbound(self, outbound: Outbound) -> Self {
        Self { outbound, ..self }
    }

    /// Returns a handle that records the servers that its commands reach.
    #[must_use]
    pub fn recording(&self, reached: &ReachedServers) -> Self {
        Self { reached: reached.clone(), ..self.clone() }
    }

    /// Returns a handle that runs another program of the same search path in the same way, such as `ssh-keygen`.
    #[must_use]
    pub fn with_program(&self, program: &str) -> Self {
        let runner = Self::new(Runner { program: program.into(), ..(*self.runner).clone() }).runner;
        Self { runner, ..self.clone() }
    }

    /// Writes the program for [`Runner::askpass`] into `dir`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_askpass(dir: &Path) -> io::Result<PathBuf> {
        let path = dir.join("askpass");
        write_program(&path, credential::ASKPASS)?;
        Ok(path)
    }

    /// Creates a command with its arguments; the first one is the subcommand.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> GitCommand {
        GitCommand {
            runner: Arc::clone(&self.runner),
            arguments: arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect(),
            environment: Vec::new(),
            directory: None,
            stdin: Vec::new(),
            stdin_file: None,
            memory_bytes: limits::MEMORY_BYTES,
            timeout: TIMEOUT,
            stdout_bytes: STDOUT_BYTES,
            credential: None,
            connection: None,
            is_remote: false,
            has_low_priority: false,
        }
    }

    /// Creates a command for a repository on the host.
    pub fn at<S: AsRef<OsStr>>(&self, git_dir: &Path, arguments: impl IntoIterator<Item = S>) -> GitCommand {
        self.command(arguments).env("GIT_DIR", git_dir)
    }
}

/// Finds a program on a search path. Returns `None` if it is not there, or if `program` is a path.
fn found(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() != 1 {
        return None;
    }
    let runs =
        |file: &PathBuf| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path).map(|dir| dir.join(program)).find(runs)
}

impl GitCommand {
    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Sets the working tree, with a separate index file.
    #[must_use]
    pub fn work_tree(self, tree: &Path, index: &Path) -> Self {
        self.env("GIT_WORK_TREE", tree).env("GIT_INDEX_FILE", index).directory(tree)
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the input of the command.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets a file as the input of the command.
    #[must_use]
    pub fn stdin_file(mut self, file: File) -> Self {
        self.stdin_file = Some(file);
        self
    }

    /// Sets the memory limit, which is 2 GiB by default.
    #[must_use]
    pub const fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the time limit, which is 5 minutes by default. A command that works gets up to four times as much
    /// ([`progress`]).
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the limit of the output in bytes, which is 64 MiB by default.
    #[must_use]
    pub const fn stdout_bytes(mut self, bytes: usize) -> Self {
        self.stdout_bytes = bytes;
        self
    }

    /// Lets everything else on the machine go first, on its processors and its disks.
    #[must_use]
    pub const fn low_priority(mut self) -> Self {
        self.has_low_priority = true;
        self
    }

    /// Lets the command connect to a remote, with the credential of the remote. Without a route, a command uses only
    /// repositories on this machine.
    #[must_use]
    pub fn through(mut self, route: &Route) -> Self {
        let Route { remote, connection, .. } = route;
        let credential = remote.credential.as_ref();
        self.credential = credential.and_then(|credential| ServerCredential::new(&remote.url, credential));
        self.connection = connection.clone();
        self.is_remote = !remote.is_ours;
        self
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// Returns an error if the command did not start, exceeded its time limit, printed too much, or failed.
    pub async fn run(self) -> Result<Output, GitError> {
        let span = self.span();
        self.run_to_end().instrument(span).await
    }

    /// Returns the span of the process. It has the subcommand, and no arguments, which may contain addresses.
    fn span(&self) -> Span {
        let command = self.name();
        tracing::debug_span!("git", otel.name = format_args!("git {command}"), command)
    }

    async fn run_to_end(mut self) -> Result<Output, GitError> {
        let (command, timeout, limit) = (self.name(), self.timeout, self.stdout_bytes);
        let mut command_line = self.build()?;
        if let Some(file) = self.stdin_file.take() {
            command_line.stdin(file);
        }
        let failure = self.failing();
        let mut process = Group::spawn(command_line, failure.limits)?;
        let (stdin, stdout, stderr) = (process.0.stdin.take(), process.0.stdout.take(), process.0.stderr.take());
        let input = self.stdin;
        let feed = async move {
            if let Some(mut pipe) = stdin {
                // A command that does not read all of its input closes the pipe; its exit code says whether it
                // succeeded.
                let _ = pipe.write_all(&input).await;
            }
        };
        let used = process.processor_time();
        let work = async {
            let stdout = async { read(stdout, limit).await.ok_or(()) };
            let rest = async { tokio::join!(feed, read_some(stderr)).1 };
            let (stdout, stderr) = tokio::try_join!(stdout, async { Ok(rest.await) })?;
            Ok::<_, ()>((stdout, stderr, process.0.wait().await))
        };
        let finished = progress::within(timeout, used, work).await;
        let (stdout, stderr, status) = match finished {
            Ok(Ok(done)) => done,
            Ok(Err(())) => return Err(GitError::TooMuch { command, bytes: limit }),
            Err(passed) => {
                process.stop(GRACE).await;
                return Err(GitError::TimedOut { command, seconds: passed.as_secs() });
            }
        };
        match status {
            Err(error) => Err(GitError::NotStarted(error.to_string())),
            Ok(status) if status.success() => {
                Ok(Output { command, stdout, warnings: String::from_utf8_lossy(&stderr).into_owned() })
            }
            Ok(status) => Err(failure.describe(command, status, &stderr)),
        }
    }

    /// Returns what describes a failure of the command.
    fn failing(&self) -> Failing {
        let (credential, connection) = (self.credential.clone(), self.connection.clone());
        Failing { credential, connection, is_remote: self.is_remote, limits: self.limits() }
    }

    /// Returns the process, which leads a new process group.
    fn build(&self) -> Result<Command, GitError> {
        let runner = &self.runner;
        let mut line: Vec<OsString> = Vec::new();
        if self.has_low_priority {
            for (program, options) in LOW_PRIORITY {
                // Without these programs, the command has the usual priority.
                let Some(path) = found(program.as_ref(), &runner.path) else { continue };
                line.push(path.into());
                line.extend(options.iter().map(OsString::from));
            }
        }
        if Limits::needs_wrapper(&self.arguments) {
            line.push(found("prlimit".as_ref(), &runner.path).map_or_else(|| "prlimit".into(), OsString::from));
            line.extend(self.limits().options().map(OsString::from));
        }
        line.push(runner.program.clone());
        line.extend(self.arguments.iter().cloned());
        let mut line = line.into_iter();
        let mut command = Command::new(line.next().unwrap_or_default());
        command.args(line).env_clear();
        command.env("PATH", &runner.path).env("HOME", "/nonexistent").env("LC_ALL", "C");
        for (name, value) in [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ALLOW_PROTOCOL", self.connection.as_ref().map_or("file", |connection| connection.protocol)),
        ] {
            command.env(name, value);
        }
        let own = self.connection.iter().flat_map(|connection| &connection.settings);
        let own = own.map(|(key, value)| (key.as_str(), value.as_str()));
        let settings: Vec<(&str, &str)> = CONFIG.iter().chain(limits::CONFIG).copied().chain(own).collect();
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (number, (key, value)) in settings.into_iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), key).env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        if let Some(askpass) = &runner.askpass {
            command.env("GIT_ASKPASS", askpass);
        }
        command.envs(runner.environment.iter().map(|(name, value)| (name, value)));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(connection) = &self.connection {
            for name in PROXIES.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_uppercase()]) {
                command.env_remove(name);
            }
            command.envs(connection.environment.iter().map(|(name, value)| (name, value)));
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        if let Some(credential) = &self.credential {
            let given = credential.give_to(&mut command);
            given.map_err(|error| GitError::NotStarted(format!("its credential could not be passed: {error}")))?;
        }
        Ok(command)
    }

    fn limits(&self) -> Limits {
        Limits::new(self.memory_bytes, self.timeout)
    }

    /// Returns the subcommand, which may follow settings.
    fn name(&self) -> String {
        let mut arguments = self.arguments.iter();
        let mut name = arguments.next();
        while name.is_some_and(|name| name == "-c") {
            name = arguments.nth(1);
        }
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// Returns the lines of an output that contain the separator, each split at the first one. The name of a ref is bytes, and
/// has neither spaces nor control characters (git-check-ref-format(1)).
pub fn pairs(output: &[u8], separator: u8) -> impl Iterator<Item = (&[u8], &[u8])> {
    output.split(|byte| *byte == b'\n').filter_map(move |line| {
        let at = line.iter().position(|byte| *byte == separator)?;
        Some((&line[..at], &line[at + 1..]))
    })
}

/// The warning of a fetch that has left out a ref, because its history is cut in the remote.
const SHALLOW: &str = "shallow roots are not allowed to be updated";

impl Output {
    /// Returns whether a fetch left out refs because the remote is a shallow clone. Git counts that as a success.
    #[must_use]
    pub fn is_of_shallow_clone(&self) -> bool {
        self.warnings.contains(SHALLOW)
    }

    /// Returns the output as text, without white space around it. Not for names of refs, paths, people or messages,
    /// which need not be UTF-8.
    ///
    /// # Errors
    /// Returns an error if the output is not UTF-8.
    pub fn text(self) -> Result<String, GitError> {
        let Self { command, stdout, .. } = self;
        match String::from_utf8(stdout) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) => Err(GitError::Unexpected { command, detail: error.to_string() }),
        }
    }

    /// Returns the output as the hash of a commit or tree.
    ///
    /// # Errors
    /// Returns an error if the output is not a hash.
    pub fn sha(self) -> Result<Sha, GitError> {
        let command = self.command.clone();
        self.text()?.parse().map_err(|error| GitError::Unexpected { command, detail: format!("{error}") })
    }

    /// Returns the output as commit hashes, one per line.
    ///
    /// # Errors
    /// Returns an error if a line is not a hash.
    pub fn shas(self) -> Result<Vec<Sha>, GitError> {
        let command = self.command.clone();
        let parse = |line: &str| {
            line.parse().map_err(|error| GitError::Unexpected { command: command.clone(), detail: format!("{error}") })
        };
        self.text()?.lines().map(parse).collect()
    }
}

/// A process that kills its whole process group when it is dropped.
struct Group(Child);

impl Group {
    fn spawn(mut command: Command, limits: Limits) -> Result<Self, GitError> {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let spawned = command.spawn().map(Self);
        let group = spawned.map_err(|error| GitError::NotStarted(format!("{program}: {error}")))?;
        if let Some(leader) = group.leader() {
            limits
                .apply(leader)
                .map_err(|error| GitError::NotStarted(format!("its limits could not be set: {error}")))?;
        }
        Ok(group)
    }

    /// Returns the process ID of the leader; `None` after the leader was waited for, because another process may then
    /// have the ID.
    fn leader(&self) -> Option<Pid> {
        self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    /// Returns a function that reads the processor time that the group has used.
    fn processor_time(&self) -> impl FnMut() -> Duration + use<> {
        let leader = self.leader();
        move || leader.map(progress::processor_time).unwrap_or_default()
    }

    /// Asks the group to end, and kills the processes that still run after `grace`.
    async fn stop(&mut self, grace: Duration) {
        let Some(leader) = self.leader() else { return };
        // The group may have ended already.
        let _ = kill_process_group(leader, Signal::TERM);
        let ended = async {
            let _ = self.0.wait().await;
            // The leader may exit before the processes that it started. The kernel does not reuse the group's ID while
            // the group has members.
            while test_kill_process_group(leader).is_ok() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        if tokio::time::timeout(grace, ended).await.is_err() {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader() {
            // The group may have ended already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// The parts of a command that describe its failure.
struct Failing {
    credential: Option<ServerCredential>,
    connection: Option<Shared>,
    is_remote: bool,
    limits: Limits,
}

impl Failing {
    /// Returns the error of a failed command. Removes the credential, in case git repeated it. Messages that may have text
    /// of a server go into the log only.
    fn describe(&self, command: String, status: ExitStatus, stderr: &[u8]) -> GitError {
        let mut stderr = String::from_utf8_lossy(stderr).trim().to_owned();
        if status.signal() == Some(Signal::XCPU.as_raw()) {
            stderr = format!("{} {stderr}", self.limits.cpu_used_up()).trim_end().to_owned();
        }
        if let Some(credential) = &self.credential {
            stderr = credential.redact(&stderr);
        }
        let code = status.code();
        if !self.is_remote {
            return GitError::Failed { command, code, stderr };
        }
        let server = self.connection.as_ref().map(|connection| connection.host.as_str());
        tracing::info!(command, code, server, stderr = ?stderr, "git reported an error about a remote");
        if let Some((connection, error)) = self.connection.as_ref().and_then(|way| Some((way, way.error()?))) {
            return GitError::NotReached { host: connection.host.clone(), error };
        }
        let summary = summary(&stderr, code);
        GitError::Remote { command, code, stderr, summary }
    }
}

/// Reads a whole pipe; returns `None` if it has more than `limit` bytes.
async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // Output that cannot be read counts as not printed; the exit code decides.
        let _ = pipe.take(limit as u64 + 1).read_to_end(&mut bytes).await;
    }
    (bytes.len() <= limit).then_some(bytes)
}

/// Reads the beginning of a pipe and drains the rest, so that the command does not block on a full pipe.
async fn read_some(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut limited = pipe.take(STDERR_BYTES);
        let _ = limited.read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut limited.into_inner(), &mut tokio::io::sink()).await;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use journeyman_core::ports::{Credential, Reach, Remote};

    use super::*;

    fn git(askpass: Option<PathBuf>) -> Git {
        let runner =
            Runner { program: "git".into(), path: "/usr/local/bin:/usr/bin:/bin".into(), environment: vec![], askpass };
        Git::new(runner)
    }

    #[tokio::test]
    async fn hooks_of_a_repository_do_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, seen) = (dir.path().join("tree"), dir.path().join("seen"));
        let plain = |arguments: &[&str]| git(None).command(arguments).directory(dir.path());
        plain(&["init", "-q", "tree"]).run().await.unwrap();
        std::fs::create_dir_all(tree.join(".git/hooks")).unwrap();
        let hook = tree.join(".git/hooks/pre-commit");
        std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", seen.display())).unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        git(None).command(["commit", "-q", "--allow-empty", "-m", "x"]).directory(&tree).run().await.unwrap();
        assert!(!seen.exists());
    }

    fn remote(url: &str, username: &str, password: &str) -> Remote {
        let credential = Credential { username: username.into(), password: password.into() };
        Remote { url: url.into(), credential: Some(credential), is_ours: false, reach: Reach::Private }
    }

    #[tokio::test]
    async fn a_failure_names_the_command_and_not_the_secret() {
        let dir = tempfile::tempdir().unwrap();
        let remote = remote("https://example.com/a.git", "bot", "s3cr3t");
        let address = dir.path().join("s3cr3t-is-not-here");
        let git = git(None);
        let route = git.route(&remote).await.unwrap();
        // The way leads to a server, so a path is not permitted.
        let failed = git.command([OsStr::new("ls-remote"), address.as_os_str()]).through(&route);
        let error = failed.run().await.unwrap_err();
        assert!(error.says("'file' not allowed") && !error.says("s3cr3t"), "{error:?}");
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
        assert!(error.to_string().starts_with("git ls-remote failed"), "{error}");
    }

    #[tokio::test]
    async fn the_askpass_program_answers_the_prompts_of_git() {
        let dir = tempfile::tempdir().unwrap();
        let askpass = Git::write_askpass(dir.path()).unwrap();
        let remote = remote("https://Example.com:8443/a.git", "b@t", "p w\"$");
        let git = git(Some(askpass));
        let route = git.route(&remote).await.unwrap();
        let fill = |host: &str| {
            let filled = git.command(["credential", "fill"]).through(&route);
            filled.stdin(format!("protocol=https\nhost={host}\n\n")).run()
        };
        let filled = fill("example.com:8443").await.unwrap().text().unwrap();
        assert!(filled.contains("username=b@t") && filled.contains("password=p w\"$"), "{filled}");
        for other in ["example.com", "evil.example", "example.com:8443.evil.example", "x@example.com:8443"] {
            assert!(fill(other).await.is_err(), "{other}");
        }
    }

    #[tokio::test]
    async fn a_token_without_a_user_name_is_sent_only_to_its_host() {
        let remote = remote("https://example.com/a.git", "", "s3cr3t");
        let git = git(None);
        let route = git.route(&remote).await.unwrap();
        let header = |url: &'static str| {
            let command = git.command(["config", "--get-urlmatch", "http.extraHeader", url]);
            command.through(&route).run()
        };
        assert_eq!(header("https://example.com/b").await.unwrap().text().unwrap(), "Authorization: Bearer s3cr3t");
        assert!(header("https://evil.example/b").await.is_err());
        assert!(header("http://example.com/b").await.is_err());
    }

    #[tokio::test]
    async fn the_credential_is_in_no_command_line_and_in_no_environment() {
        let dir = tempfile::tempdir().unwrap();
        let askpass = Git::write_askpass(dir.path()).unwrap();
        for username in ["bot", ""] {
            let remote = remote("https://example.com/a.git", username, "s3cr3t");
            let look = "alias.look=!cat /proc/self/environ /proc/self/cmdline /proc/$PPID/environ /proc/$PPID/cmdline";
            let git = git(Some(askpass.clone()));
            let route = git.route(&remote).await.unwrap();
            let looked = git.command(["-c", look, "look"]).through(&route);
            let seen = String::from_utf8(looked.run().await.unwrap().stdout).unwrap();
            assert!(seen.contains("GIT_CONFIG_COUNT=") && seen.contains("look"), "the control: {seen}");
            assert!(!seen.contains("s3cr3t"), "{username:?}: {seen}");
        }
    }

    #[tokio::test]
    async fn no_command_follows_a_redirect() {
        let remote = remote("https://example.com/a.git", "", "s3cr3t");
        let git = git(None);
        let route = git.route(&remote).await.unwrap();
        let asked = git.command(["config", "http.followRedirects"]);
        assert_eq!(asked.run().await.unwrap().text().unwrap(), "false");
        let asked = git.command(["config", "http.followRedirects"]).through(&route);
        assert_eq!(asked.run().await.unwrap().text().unwrap(), "false");
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_or_prints_too_much_is_stopped() {
        let slow = git(None).command(["-c", "alias.slow=!sleep 60", "slow"]).timeout(Duration::from_millis(200));
        assert!(matches!(slow.run().await, Err(GitError::TimedOut { .. })));
        let loud = git(None).command(["-c", "alias.loud=!yes | head -c 100000", "loud"]).stdout_bytes(1000);
        assert!(matches!(loud.run().await, Err(GitError::TooMuch { .. })));
    }

    #[tokio::test]
    async fn transports_that_run_commands_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let seen = dir.path().join("seen");
        let address = format!("ext::touch {}", seen.display());
        assert!(git(None).command(["ls-remote", &address]).run().await.is_err());
        assert!(!seen.exists());
    }
}
