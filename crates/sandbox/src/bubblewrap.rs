//! The back end `bubblewrap`: namespaces, made by the program bwrap; inside, our shim takes away what is left
//! ([`crate::shim`]). A program sees the system's programs read-only, its workspace and its home, and nothing else of the
//! host; its network is a loopback of its own.
//!
//! Invariants: where the service is root, bwrap never is; nothing is in the environment or the arguments of a process in
//! the sandbox but what the program itself was given; with the first process of a sandbox all of it ends.

mod arguments;
mod launcher;
mod probe;
mod program;

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use command_fds::{CommandFdExt, FdMapping};
use journeyman_core::ports::{Guarantee, Layout, Sandbox, SandboxError, Spawn, Spawned};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cgroup::{Cgroup, Cgroups};
use crate::search;
use crate::shim::{Answer, Plan, converse};
use crate::users::{UserRange, Users};
use launcher::Launcher;
use program::Program;

pub(crate) use arguments::{HOME, WORKSPACE};

/// The descriptor at which the shim finds its socket.
const SHIM_DESCRIPTOR: i32 = 3;

/// A sandbox that is not there by then never will be.
const SET_UP_TIME: Duration = Duration::from_secs(30);

/// What is read of what bwrap complains of, in bytes.
const COMPLAINT_BYTES: u64 = 4096;

/// How the back end works.
#[derive(Debug, Clone)]
pub struct BubblewrapSettings {
    /// The program bwrap.
    pub program: PathBuf,
    /// Where it is looked for.
    pub path: String,
    /// This program where all may run it: it is the first in a sandbox too.
    pub shim: PathBuf,
    /// This program by the name under which agents are told of it.
    pub own_program: PathBuf,
    /// More of the host that programs may read: toolchains.
    pub readable: Vec<PathBuf>,
    /// A folder of the back end's own, whose parents all may pass.
    pub folder: PathBuf,
    /// Folders of workspaces.
    pub roots: Vec<PathBuf>,
    /// The users that sandboxes have where the service is root.
    pub users: UserRange,
    /// Tells the groups of this service from those of others on the machine.
    pub name: String,
}

/// Starts programs in namespaces of their own.
pub struct Bubblewrap {
    settings: BubblewrapSettings,
    launcher: Launcher,
    cgroups: Cgroups,
    /// Where the service is root.
    users: Option<Arc<Users>>,
    count: AtomicU64,
}

impl Bubblewrap {
    /// Prepares the back end; whether it holds what it promises, [`Sandbox::probe`] tells.
    ///
    /// # Errors
    /// Its files cannot be written, or a thread cannot be started.
    pub fn new(settings: BubblewrapSettings) -> io::Result<Self> {
        arguments::write_files(&settings.folder)?;
        let is_root = rustix::process::geteuid().is_root();
        let users = is_root.then(|| Arc::new(Users::new(settings.users, settings.roots.clone())));
        let cgroups = Cgroups::find(&settings.name);
        cgroups.sweep();
        let launcher = Launcher::start()?;
        Ok(Self { settings, launcher, cgroups, users, count: AtomicU64::new(0) })
    }

    fn command(&self, spawn: &Spawn) -> io::Result<(Command, UnixStream)> {
        let program = &self.settings.program;
        let mut command = Command::new(search::find(program, &self.settings.path).as_ref().unwrap_or(program));
        // The first process keeps the environment of bwrap, where programs can read it.
        command.env_clear().args(arguments::of(&self.settings, spawn)).arg(SHIM_DESCRIPTOR.to_string());
        if let Some(users) = &self.users {
            command.uid(users.of(&spawn.workspace)?).gid(users.group());
        }
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(SET_UP_TIME))?;
        ours.set_write_timeout(Some(SET_UP_TIME))?;
        let mapping = FdMapping { parent_fd: OwnedFd::from(theirs), child_fd: SHIM_DESCRIPTOR };
        command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
        Ok((command, ours))
    }

    fn group(&self, spawn: &Spawn) -> io::Result<Cgroup> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.cgroups.make(&format!("{}-{number}", std::process::id()), spawn.resources)
    }
}

#[async_trait]
impl Sandbox for Bubblewrap {
    fn name(&self) -> &'static str {
        "bubblewrap"
    }

    async fn probe(&self) -> Vec<Guarantee> {
        probe::probe(self).await
    }

    fn layout(&self, _workspace: &Path, _home: &Path) -> Layout {
        Layout { workspace: WORKSPACE.into(), home: HOME.into() }
    }

    fn search_path(&self, host: &str) -> String {
        arguments::search_path(host, &self.settings.readable)
    }

    fn has_own_network(&self) -> bool {
        true
    }

    async fn adopt(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        let Some(users) = &self.users else { return Ok(()) };
        let (users, folders) = (Arc::clone(users), folders.to_owned());
        let given = tokio::task::spawn_blocking(move || users.give(&folders)).await;
        given.map_err(io::Error::other).and_then(|given| given).map_err(|error| {
            SandboxError::Unavailable(format!("the workspace could not be given to a user of its own: {error}"))
        })
    }

    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError> {
        let program = spawn.argv.first().cloned().unwrap_or_default();
        let failed = |error: io::Error| SandboxError::Unavailable(error.to_string());
        let (command, socket) = self.command(&spawn).map_err(failed)?;
        let group = self.group(&spawn).map_err(failed)?;
        let mut child = self.launcher.launch(command).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let program = self.settings.program.display();
                SandboxError::Unavailable(format!("the program {program} was not found; install bubblewrap"))
            }
            _ => failed(error),
        })?;
        let (stdin, stdout, stderr) = pipes(&mut child).map_err(failed)?;
        let running = Program::new(child, group, self.launcher.clone()).map_err(failed)?;
        let plan = Plan {
            argv: spawn.argv,
            environment: spawn.environment,
            directory: WORKSPACE.into(),
            listen: spawn.listen,
            processes: None,
            file_bytes: None,
            writable: [WORKSPACE.into(), HOME.into()].into_iter().chain(spawn.writable).collect(),
        };
        let plan = plan.limits(spawn.resources);
        let set_up = tokio::task::spawn_blocking(move || set_up(running, socket, &plan)).await;
        match set_up.map_err(io::Error::other).map_err(failed)? {
            (Ok((listeners, Answer::Started)), running) => {
                Ok(Spawned { stdin, stdout, stderr, listeners, process: Box::new(running) })
            }
            (Ok((_, Answer::Failed { not_found: true, .. })), _) => Err(SandboxError::NotFound(program)),
            (Ok((_, Answer::Failed { detail, .. })), _) => Err(SandboxError::Failed { program, detail }),
            (Err(error), running) => {
                drop(running);
                Err(SandboxError::Unavailable(complaint(stderr, &error)))
            }
        }
    }
}

/// Waits for the shim, limits it and lets it go.
fn set_up(mut running: Program, mut socket: UnixStream, plan: &Plan) -> (io::Result<(Vec<OwnedFd>, Answer)>, Program) {
    let answer = running.doors().and_then(|doors| {
        let meet = |shim: Pid| {
            running.begin(shim, pidfd_open(shim, PidfdFlags::empty())?);
            Ok(())
        };
        converse(&mut socket, plan, &doors, meet)
    });
    (answer, running)
}

fn pipes(child: &mut Child) -> io::Result<(OwnedFd, OwnedFd, OwnedFd)> {
    let missing = || io::Error::other("a standard stream is missing");
    let stdin = child.stdin.take().ok_or_else(missing)?.into();
    let stdout = child.stdout.take().ok_or_else(missing)?.into();
    Ok((stdin, stdout, child.stderr.take().ok_or_else(missing)?.into()))
}

/// What bwrap or the shim said; they are gone.
fn complaint(stderr: OwnedFd, error: &io::Error) -> String {
    let mut text = Vec::new();
    let read = std::fs::File::from(stderr).take(COMPLAINT_BYTES).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if read.is_err() || text.is_empty() { error.to_string() } else { text }
}
