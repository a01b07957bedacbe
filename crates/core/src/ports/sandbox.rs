//! Sandboxes: where agents, setup commands and git in the agent's tree run.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::project::PullPolicy;

/// One thing that a sandbox promises, and whether it holds on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantee {
    /// Such as `processes end with the run`.
    pub name: &'static str,
    /// Whether it was seen to hold.
    pub holds: bool,
    /// How to mend it, or what stands in its place.
    pub note: String,
}

/// What holds of the sandbox of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    /// The back end.
    pub sandbox: &'static str,
    /// All that it promises.
    pub guarantees: Vec<Guarantee>,
    /// The names of those that the configuration does without.
    pub given_up: Vec<String>,
}

impl Containment {
    /// What does not hold and must.
    pub fn missing(&self) -> impl Iterator<Item = &Guarantee> {
        self.guarantees.iter().filter(|one| !one.holds && !self.given_up.iter().any(|name| name == one.name))
    }

    /// Whether agents may be run.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.missing().next().is_none()
    }
}

/// A machine that carries out runs, as others see it.
#[async_trait]
pub trait Containing: Send + Sync {
    /// What holds of its sandbox, tried at the first question.
    async fn containment(&self) -> Containment;

    /// What was found last, if anything was.
    fn seen(&self) -> Option<Containment>;

    /// Returns the free space of the disk with the workspaces, if it is known.
    fn free_space(&self) -> Option<FreeSpace>;

    /// Checks whether programs can be started now, as [`Sandbox::available`] does.
    async fn available(&self) -> Result<(), SandboxError>;
}

/// The free space on a disk, and the reserve to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free bytes.
    pub free_bytes: u64,
    /// The reserve in bytes. With less free space, no run begins, and active runs are stopped.
    pub reserve_bytes: u64,
}

impl FreeSpace {
    /// Returns whether runs may begin.
    #[must_use]
    pub const fn is_enough(self) -> bool {
        self.free_bytes >= self.reserve_bytes
    }
}

/// The folders of a job as the agent sees them. They stay the same over a job's life, because agents store absolute
/// paths in their sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The working tree.
    pub workspace: PathBuf,
    /// The agent's home.
    pub home: PathBuf,
}

/// A program to start. Its `Debug` shows no value of the environment: some are secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// All of its environment; nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// The folder on the host that becomes its working directory.
    pub workspace: PathBuf,
    /// The folder on the host that becomes its home.
    pub home: PathBuf,
    /// Files and folders of the host that it may read, each at the path that it has on the host.
    pub readable: Vec<PathBuf>,
    /// Folders of the host that it may also change, likewise.
    pub writable: Vec<PathBuf>,
    /// Ports of its loopback whose connections come to the service; only where [`Sandbox::has_own_network`].
    pub listen: Vec<u16>,
    /// How much it may use.
    pub resources: Resources,
    /// What it finds as its system, where the back end has images; `None`: the back end's own choice.
    pub image: Option<Image>,
}

/// A container's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Such as `docker.io/library/node:22`.
    pub name: String,
    /// When it is fetched.
    pub pull: PullPolicy,
}

impl fmt::Debug for Spawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawn").field("argv", &self.argv).field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// How much a program and all that it starts may use together; `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Bytes of memory, files in memory among them.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// Thousandths of one processor; more is not refused but comes later.
    pub cpu_millis: Option<u32>,
    /// Bytes of one file that it writes.
    pub file_bytes: Option<u64>,
    /// Bytes of all files on the disk that its user owns, if the back end lets the kernel enforce that. The kernel's
    /// limit is slightly higher.
    pub disk_bytes: Option<u64>,
}

/// A limit that a program has come up against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// A process was killed because there was no more memory.
    Memory,
    /// A process could not be started.
    Processes,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(signal) => write!(formatter, "signal {signal}"),
        }
    }
}

/// Why a program was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// It is not there.
    #[error("the program {0:?} was not found")]
    NotFound(String),
    /// The sandbox itself could not be made.
    #[error("no sandbox could be made: {0}")]
    Unavailable(String),
    /// The container engine does not answer. The program itself is not at fault: it can be started once the engine is
    /// back.
    #[error("{0}")]
    EngineUnreachable(String),
    /// The image does not exist, or its registry refuses it to this machine; a retry does not help.
    #[error("{0}")]
    ImageMissing(String),
    /// The image exists, but it cannot run the programs of a job; a retry does not help.
    #[error("{0}")]
    ImageRefused(String),
    /// Anything else.
    #[error("the program {program:?} could not be started: {detail}")]
    Failed {
        /// Which.
        program: String,
        /// What the system said.
        detail: String,
    },
}

/// A program that runs, and its streams.
pub struct Spawned {
    /// To write to.
    pub stdin: OwnedFd,
    /// To read from.
    pub stdout: OwnedFd,
    /// To read from.
    pub stderr: OwnedFd,
    /// For each port of [`Spawn::listen`] the socket that listens there.
    pub listeners: Vec<OwnedFd>,
    /// To wait for and to end.
    pub process: Box<dyn Process>,
}

/// A program that runs. Dropping it kills it and everything that it started.
#[async_trait]
pub trait Process: Send + Sync {
    /// Waits until it ends by itself.
    async fn wait(&mut self) -> Exit;

    /// Freezes the program and everything that it started until [`Process::resume`], whatever the program does to
    /// prevent it, so that the files that the host reads meanwhile do not change. Returns false if the back end cannot
    /// guarantee that.
    async fn pause(&mut self) -> bool;

    /// Resumes the program. Returns false if it could not be reached; then only [`Process::end`] is of use.
    async fn resume(&mut self) -> bool;

    /// The limit that it has come up against so far, if the back end can tell.
    fn exhausted(&self) -> Option<Exhausted>;

    /// Returns the size in bytes of the deleted files on a device (`st_dev`) that the program, or anything that it
    /// started, still has open.
    async fn deleted_bytes(&self, device: u64) -> u64;

    /// Ends the program and everything that it started: TERM, a short grace period, then KILL. A paused program is
    /// killed without a grace period, so that it never runs again. Returns when no process is left.
    async fn end(&mut self) -> Exit;
}

/// A back end.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// What it promises, seen by trying.
    async fn probe(&self) -> Vec<Guarantee>;

    /// The folders as the agent sees them.
    fn layout(&self, workspace: &Path, home: &Path) -> Layout;

    /// The part of the host's search path that is there for programs.
    fn search_path(&self, host: &str) -> String;

    /// Whether programs have a loopback of their own, and nothing else.
    fn has_own_network(&self) -> bool;

    /// Gives folders, which no program in a sandbox has had before or the same ones had, to those that will run with
    /// the first of them as their workspace.
    async fn adopt(&self, folders: &[PathBuf]) -> Result<(), SandboxError>;

    /// Checks whether the sandbox's backing service, such as a container engine, answers now. Cheap, and no substitute
    /// for [`Sandbox::probe`].
    async fn available(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Returns the bytes on its disk that the kernel counts for programs with this workspace, including deleted files
    /// that are still open; `None` if the kernel does not count them.
    async fn disk_usage(&self, _workspace: &Path) -> Option<u64> {
        None
    }

    /// Starts a program.
    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError>;
}
