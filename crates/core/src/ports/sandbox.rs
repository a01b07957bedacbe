//! Sandboxes, in which agents, setup commands and git on the agent's tree run.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::project::Resources;
use crate::worker::{Containment, FreeSpace, Guarantee};

use async_trait::async_trait;

use crate::project::PullPolicy;

/// The state of a machine that carries out runs.
#[async_trait]
pub trait Containing: Send + Sync {
    /// Returns the guarantees of the sandbox. Tests them first if there is no usable result.
    async fn containment(&self) -> Containment;

    /// Returns the last result of the tests, if there is one.
    fn seen(&self) -> Option<Containment>;

    /// Returns the free space of the disk with the workspaces, if it is known.
    fn free_space(&self) -> Option<FreeSpace>;

    /// Checks whether programs can be started now, as [`Sandbox::available`] does.
    async fn available(&self) -> Result<(), SandboxError>;
}

/// The paths of a job's folders in the sandbox. They never change during the life of a job, because agents store
/// absolute paths in their sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The working tree.
    pub workspace: PathBuf,
    /// The agent's home.
    pub home: PathBuf,
}

/// A program to start. `Debug` does not show the environment, because some of its values are secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment. Nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// The folder on the host that becomes its working directory.
    pub workspace: PathBuf,
    /// The folder on the host that becomes its home.
    pub home: PathBuf,
    /// Files and folders of the host that the program may read, at the paths that they have on the host.
    pub readable: Vec<PathBuf>,
    /// Folders of the host that the program may also write to, at the paths that they have on the host.
    pub writable: Vec<PathBuf>,
    /// Ports of the program's loopback interface whose connections go to the service. Requires
    /// [`Sandbox::has_own_network`].
    pub listen: Vec<u16>,
    /// The resource limits.
    pub resources: Resources,
    /// The container image, if the back end uses images; `None` means the back end's default.
    pub image: Option<Image>,
}

/// A container image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The name, such as `docker.io/library/node:22`.
    pub name: String,
    /// The policy that decides when the image is pulled.
    pub pull: PullPolicy,
}

impl fmt::Debug for Spawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawn").field("argv", &self.argv).field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// A resource limit that a program has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// A process was killed for lack of memory.
    Memory,
    /// A process could not be started because there were too many.
    Processes,
}

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The program exited with this code.
    Code(i32),
    /// A signal killed the program.
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

/// An error from starting a program in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// The program does not exist.
    #[error("the program {0:?} was not found")]
    NotFound(String),
    /// The sandbox could not be created.
    #[error("the sandbox could not be created: {0}")]
    Unavailable(String),
    /// The container engine does not answer. The program is not the cause: it can be started when the engine answers
    /// again.
    #[error("{0}")]
    EngineUnreachable(String),
    /// The image does not exist, or its registry refuses it to this machine; a retry does not help.
    #[error("{0}")]
    ImageMissing(String),
    /// The image exists, but it cannot run the programs of a job; a retry does not help.
    #[error("{0}")]
    ImageRefused(String),
    /// The program could not be started for another reason.
    #[error("the program {program:?} could not be started: {detail}")]
    Failed {
        /// The program.
        program: String,
        /// The cause.
        detail: String,
    },
}

/// A running program and its streams.
pub struct Spawned {
    /// The write end of the standard input.
    pub stdin: OwnedFd,
    /// The read end of the standard output.
    pub stdout: OwnedFd,
    /// The read end of the standard error output.
    pub stderr: OwnedFd,
    /// The listening sockets, one for each port of [`Spawn::listen`].
    pub listeners: Vec<OwnedFd>,
    /// The process, which can be waited for and ended.
    pub process: Box<dyn Process>,
}

/// A running program. Dropping it kills the program and everything that the program started.
#[async_trait]
pub trait Process: Send + Sync {
    /// Waits until the program ends by itself.
    async fn wait(&mut self) -> Exit;

    /// Freezes the program and everything that it started until [`Process::resume`], whatever the program does to
    /// prevent it, so that the files that the host reads meanwhile do not change. Returns false if the back end cannot
    /// guarantee that, which is the default.
    async fn pause(&mut self) -> bool {
        false
    }

    /// Resumes the program. Returns false if the program could not be reached; it can then only be ended
    /// ([`Process::end`]).
    async fn resume(&mut self) -> bool {
        true
    }

    /// Returns the limit that the program has reached so far, if the back end can detect it.
    fn exhausted(&self) -> Option<Exhausted> {
        None
    }

    /// Returns the size in bytes of the deleted files on a device (`st_dev`) that the program, or anything that it
    /// started, still has open.
    async fn deleted_bytes(&self, device: u64) -> u64;

    /// Returns the processor time that the program and everything that it started have used so far; `None` if the back
    /// end cannot tell, which is the default.
    async fn processor_time(&self) -> Option<Duration> {
        None
    }

    /// Ends the program and everything that it started: TERM, a short grace period, then KILL. A paused program is
    /// killed without a grace period, so that it never runs again. Returns when no process is left.
    async fn end(&mut self) -> Exit;
}

/// A back end that runs programs in sandboxes.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Returns the name of the back end in the configuration.
    fn name(&self) -> &'static str;

    /// Tests which guarantees hold.
    async fn probe(&self) -> Vec<Guarantee>;

    /// Returns the paths of the folders in the sandbox. By default, they are those of the host.
    fn layout(&self, workspace: &Path, home: &Path) -> Layout {
        Layout { workspace: workspace.to_owned(), home: home.to_owned() }
    }

    /// Returns the search path for programs in the sandbox, given the host's search path, which is the default.
    fn search_path(&self, host: &str) -> String {
        host.to_owned()
    }

    /// Returns whether programs have a separate loopback interface and no other network.
    fn has_own_network(&self) -> bool;

    /// Gives folders to the programs that will run with the first of the folders as their workspace. No other programs
    /// in a sandbox may have had these folders before.
    async fn adopt(&self, folders: &[PathBuf]) -> Result<(), SandboxError>;

    /// Makes folders of the host unreadable for all programs but those whose [`Spawn::readable`] names something directly in
    /// them, also after a program has broken out of its sandbox. A back end without users of its own does nothing, which is
    /// the default.
    async fn restrict(&self, _folders: &[PathBuf]) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Checks whether the sandbox's backing service, such as a container engine, answers now. The check is cheap and
    /// does not replace [`Sandbox::probe`].
    async fn available(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Returns the number of bytes on the disk that the kernel counts for programs with this workspace, including
    /// deleted files that are still open; `None` if the kernel does not count them.
    async fn disk_usage(&self, _workspace: &Path) -> Option<u64> {
        None
    }

    /// Starts a program.
    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError>;
}
