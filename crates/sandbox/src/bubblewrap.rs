//! The back end `bubblewrap`: namespaces, made by the program bwrap; inside, our shim takes away what is left
//! ([`crate::shim`]). A program sees the system's programs read-only, its workspace and its home, and nothing else of the
//! host; its network is a loopback of its own.
//!
//! Invariants: where the service is root, bwrap never is; nothing is in the environment or the arguments of a process in
//! the sandbox but what the program itself was given; with the first process of a sandbox all of it ends.

mod arguments;
mod etc;
mod launcher;
mod program;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Guarantee, Layout, Sandbox, SandboxError, Spawn, Spawned};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::OnceCell;

use crate::cgroup::{Cgroups, Controller, RECORD};
use crate::probe::{Trial, probe};
use crate::search;
use crate::shim::{Answer, Pass, Plan, converse};
use crate::users::{UserRange, Users, disk_usage, limit_disk};
use launcher::Launcher;
use program::Program;

pub(crate) use arguments::{HOME, WORKSPACE};

/// A sandbox that is not there by then never will be.
const SET_UP_TIME: Duration = Duration::from_secs(30);

/// What is read of what bwrap complains of, in bytes.
const COMPLAINT_BYTES: u64 = 4096;

/// It has said it by then.
const COMPLAINT_TIME: Duration = Duration::from_secs(2);

/// How the back end is mended where no sandbox comes about.
const MEND: &str = "install bubblewrap 0.8 or later (apt-get install bubblewrap), and allow user namespaces: \
                    sysctl user.max_user_namespaces must not be 0, and on Ubuntu \
                    kernel.apparmor_restrict_unprivileged_userns must be 0 or bwrap have a profile";

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
    /// Whether no other process has sandboxes with that folder: then it is brought up to date.
    pub renew: bool,
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
    /// Whether the folder is as it should be: its making takes a while, so it is made when it is needed first.
    ready: OnceCell<()>,
}

impl Bubblewrap {
    /// Prepares the back end; whether it holds what it promises, [`Sandbox::probe`] tells.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(settings: BubblewrapSettings) -> io::Result<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let users = is_root.then(|| Arc::new(Users::new(settings.users, settings.roots.clone())));
        let record = settings.folder.join(RECORD);
        let cgroups = Cgroups::find(&settings.name, settings.renew.then_some(record.as_path()));
        let launcher = Launcher::start()?;
        Ok(Self { settings, launcher, cgroups, users, ready: OnceCell::new() })
    }

    async fn prepare(&self) -> io::Result<()> {
        let write = async || {
            let (folder, renew) = (self.settings.folder.clone(), self.settings.renew);
            tokio::task::spawn_blocking(move || etc::write(&folder, renew)).await.map_err(io::Error::other)?
        };
        self.ready.get_or_try_init(write).await.copied()
    }

    /// The command, and our end of the shim's socket. It is a plain one, so that it is started without a copy of our
    /// memory's tables (posix_spawn(3)); a user is changed to by a program for that. The program's own streams are not
    /// among its: bwrap would hold them open.
    fn command(&self, spawn: &Spawn) -> io::Result<(Command, UnixStream)> {
        let mut words = Vec::new();
        if let Some(users) = &self.users {
            let (user, group) = (users.of(&spawn.workspace)?.to_string(), users.group().to_string());
            words.push(self.found("setpriv".as_ref())?.into_os_string());
            words.extend(["--reuid", &user, "--regid", &group, "--clear-groups", "--"].map(OsString::from));
        }
        words.push(self.found(&self.settings.program)?.into_os_string());
        words.extend(arguments::of(&self.settings, spawn));
        let mut command = Command::new(&words[0]);
        // The first process keeps the environment of bwrap, where programs can read it.
        command.args(&words[1..]).env_clear().current_dir("/").process_group(0);
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(SET_UP_TIME))?;
        ours.set_write_timeout(Some(SET_UP_TIME))?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok((command, ours))
    }

    fn found(&self, program: &Path) -> io::Result<PathBuf> {
        let named = || program.is_absolute().then(|| program.to_owned()).filter(|program| program.exists());
        search::find(program, &self.settings.path).or_else(named).ok_or_else(|| {
            let text = format!("the program {} was not found; install bubblewrap and util-linux", program.display());
            io::Error::new(io::ErrorKind::NotFound, text)
        })
    }
}

#[async_trait]
impl Sandbox for Bubblewrap {
    fn name(&self) -> &'static str {
        "bubblewrap"
    }

    async fn probe(&self) -> Vec<Guarantee> {
        self.cgroups.find_missing().await;
        let folder = &self.settings.folder;
        let hidden = ["/etc/shadow", "/root", "/var", "/sys", "/run/docker.sock", "/boot"].map(PathBuf::from);
        let is_shown = |path: &PathBuf| self.settings.readable.iter().any(|shown| shown.starts_with(path));
        let hidden = hidden.into_iter().filter(|path| !is_shown(path)).chain([folder.join("etc/passwd")]).collect();
        let trial = Trial {
            back_end: self,
            program: vec![arguments::SHIM.to_owned()],
            folder: folder.join("probe"),
            hidden,
            limits: &|controller| self.cgroups.has(controller),
            has_users: self.users.is_some(),
            mend: MEND,
        };
        probe(&trial).await
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

    async fn disk_usage(&self, workspace: &Path) -> Option<u64> {
        disk_usage(self.users.as_ref()?, workspace).await
    }

    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError> {
        let program = spawn.argv.first().cloned().unwrap_or_default();
        let failed = |error: io::Error| SandboxError::Unavailable(error.to_string());
        self.prepare().await.map_err(failed)?;
        if let Some(users) = &self.users {
            limit_disk(users, &spawn).await.map_err(failed)?;
        }
        let (command, socket) = self.command(&spawn).map_err(failed)?;
        let group = self.cgroups.take(spawn.resources).map_err(failed)?;
        let doors = group.doors().map_err(failed)?;
        let mut child = self.launcher.launch(command).await.map_err(failed)?;
        let complaints = child.stderr.take().map(OwnedFd::from);
        let running = Program::new(child, group, self.launcher.clone()).map_err(failed)?;
        let plan = Plan {
            argv: spawn.argv,
            environment: spawn.environment,
            directory: WORKSPACE.into(),
            listen: spawn.listen,
            // A control group tells that it was come up against; this says no without a word.
            processes: spawn.resources.processes.filter(|_| !self.cgroups.has(Controller::Processes)),
            file_bytes: spawn.resources.file_bytes,
            writable: [WORKSPACE.into(), HOME.into()].into_iter().chain(spawn.writable).collect(),
        };
        let pipe = || std::io::pipe().map_err(failed);
        let ((input, stdin), (stdout, output), (stderr, errors)) = (pipe()?, pipe()?, pipe()?);
        let pass = Pass { streams: [input.into(), output.into(), errors.into()], doors };
        let set_up = tokio::task::spawn_blocking(move || set_up(running, socket, &plan, &pass)).await;
        match set_up.map_err(io::Error::other).map_err(failed)? {
            (Ok((listeners, Answer::Started)), running) => {
                let (stdin, stdout, stderr) = (stdin.into(), stdout.into(), stderr.into());
                Ok(Spawned { stdin, stdout, stderr, listeners, process: Box::new(running) })
            }
            (Ok((_, Answer::Failed { not_found: true, .. })), _) => Err(SandboxError::NotFound(program)),
            (Ok((_, Answer::Failed { detail, .. })), _) => Err(SandboxError::Failed { program, detail }),
            (Err(error), mut running) => {
                running.kill();
                Err(SandboxError::Unavailable(complaint(complaints, &error).await))
            }
        }
    }
}

/// Waits for the shim and lets it go.
fn set_up(
    mut running: Program,
    mut socket: UnixStream,
    plan: &Plan,
    pass: &Pass,
) -> (io::Result<(Vec<OwnedFd>, Answer)>, Program) {
    let meet = |shim: Pid| {
        running.begin(shim, pidfd_open(shim, PidfdFlags::empty())?);
        Ok(())
    };
    let answer = converse(&mut socket, plan, pass, meet);
    (answer, running)
}

/// What bwrap or the shim said; they were killed.
async fn complaint(stderr: Option<OwnedFd>, error: &io::Error) -> String {
    let Some(stderr) = stderr else { return error.to_string() };
    let mut text = Vec::new();
    let read = async { Receiver::from_owned_fd(stderr)?.take(COMPLAINT_BYTES).read_to_end(&mut text).await };
    let read = tokio::time::timeout(COMPLAINT_TIME, read).await;
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if matches!(read, Ok(Ok(_))) && !text.is_empty() { text } else { error.to_string() }
}
