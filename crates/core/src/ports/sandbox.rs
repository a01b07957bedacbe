//! Sandboxes: where agents, setup commands and git in the agent's tree run.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

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

/// The folders of a job as the agent sees them. They stay the same over a job's life, because agents store absolute
/// paths in their sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The working tree.
    pub workspace: PathBuf,
    /// The agent's home.
    pub home: PathBuf,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// All of its environment; nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// The folder on the host that becomes its working directory.
    pub workspace: PathBuf,
    /// The folder on the host that becomes its home.
    pub home: PathBuf,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Why a program was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// It is not there.
    #[error("the program {0:?} was not found")]
    NotFound(String),
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
    /// To wait for and to end.
    pub process: Box<dyn Process>,
}

/// A program that runs. Dropping it kills it and everything that it started.
#[async_trait]
pub trait Process: Send {
    /// Waits until it ends by itself.
    async fn wait(&mut self) -> Exit;

    /// Stops it and everything that it started where they are, as far as the back end holds them together, until
    /// [`Process::resume`]: what the host reads meanwhile stays as it is. False if that cannot be done.
    fn pause(&mut self) -> bool;

    /// Lets it go on.
    fn resume(&mut self);

    /// Ends it and everything that it started, paused or not: TERM, a short grace, then KILL. Returns when nothing is left.
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

    /// Starts a program.
    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError>;
}
