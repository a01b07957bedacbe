//! The back end `bubblewrap`: runs programs in namespaces that the program bwrap makes. Inside, our shim drops the
//! remaining rights ([`crate::shim`]). A program sees the system's programs (read-only), its workspace and its home,
//! and nothing else of the host. Its network is a separate loopback interface.
//!
//! Invariants:
//!
//! - If the service runs as root, bwrap does not.
//! - A process in the sandbox has nothing in its environment or its arguments except what the program was given.
//! - When the first process of a sandbox ends, all of the sandbox ends.

mod arguments;
mod etc;
mod launcher;
mod program;
mod settings;

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
use journeyman_core::ports::{Layout, Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::worker::Guarantee;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::OnceCell;

use launcher::Launcher;
use program::Program;

use crate::cgroup::{Cgroups, Controller};
use crate::probe::{Trial, probe};
use crate::search;
use crate::shim::{Answer, Pass, Plan, handshake};
use crate::users::{Users, disk_usage, limit_disk, restrict};

pub(crate) use arguments::{HOME, WORKSPACE};
pub use settings::BubblewrapSettings;

/// The time limit for each answer of the shim while a sandbox starts.
const SET_UP_TIME: Duration = Duration::from_secs(30);

/// The maximum number of bytes that are read from the error output of bwrap.
const STDERR_BYTES: u64 = 4096;

/// The time limit for reading that output.
const STDERR_TIME: Duration = Duration::from_secs(10);

/// The remedy if no sandbox can be created.
const REMEDY: &str = "install bubblewrap 0.8 or later (apt-get install bubblewrap), and allow user namespaces: \
                      sysctl user.max_user_namespaces must not be 0, and on Ubuntu \
                      kernel.apparmor_restrict_unprivileged_userns must be 0 or bwrap must have an AppArmor profile";

/// Starts programs in separate namespaces.
pub struct Bubblewrap {
    settings: BubblewrapSettings,
    launcher: Launcher,
    cgroups: Cgroups,
    /// The users of workspaces, if the service runs as root.
    users: Option<Arc<Users>>,
    /// The folders of the host to mount in `/etc`, once that folder is ready. Writing it takes a while, so it is written
    /// on first use.
    ready: OnceCell<Vec<PathBuf>>,
}

impl Bubblewrap {
    /// Prepares the back end. [`Sandbox::probe`] checks its guarantees.
    ///
    /// # Errors
    /// The thread that starts sandboxes cannot be started.
    pub fn new(settings: BubblewrapSettings) -> io::Result<Self> {
        let (users, cgroups) = (settings.common.workspace_users(), settings.common.cgroups());
        let launcher = Launcher::start()?;
        Ok(Self { settings, launcher, cgroups, users, ready: OnceCell::new() })
    }

    async fn prepare(&self) -> io::Result<()> {
        let write = async || {
            let (folder, renew) = (self.settings.common.folder.clone(), self.settings.common.renew);
            tokio::task::spawn_blocking(move || etc::write(&folder, renew)).await.map_err(io::Error::other)?
        };
        self.ready.get_or_try_init(write).await.map(|_| ())
    }

    /// Returns the command that starts bwrap, and the service's end of the shim's socket.
    ///
    /// The command allows posix_spawn(3), which does not copy this process's page tables; therefore setpriv(1) changes
    /// the user. The program's own streams are not among the command's, because bwrap would hold them open.
    fn command(&self, spawn: &Spawn) -> io::Result<(Command, UnixStream)> {
        let mut words = Vec::new();
        if let Some(users) = &self.users {
            let (user, group) = (users.of(&spawn.workspace)?.to_string(), users.group().to_string());
            words.push(self.locate("setpriv".as_ref())?.into_os_string());
            words.extend(["--reuid", &user, "--regid", &group].map(OsString::from));
            let more: Vec<String> = users.groups_of(&spawn.readable).iter().map(u32::to_string).collect();
            match more.is_empty() {
                true => words.push("--clear-groups".into()),
                false => words.extend(["--groups".into(), more.join(",").into()]),
            }
            words.push("--".into());
        }
        words.push(self.locate(&self.settings.program)?.into_os_string());
        words.extend(arguments::of(&self.settings, spawn, self.ready.get().map_or(&[], Vec::as_slice)));
        let mut command = Command::new(&words[0]);
        // The first process keeps the environment of bwrap, where programs can read it.
        command.args(&words[1..]).env_clear().current_dir("/").process_group(0);
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(SET_UP_TIME))?;
        ours.set_write_timeout(Some(SET_UP_TIME))?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok((command, ours))
    }

    fn locate(&self, program: &Path) -> io::Result<PathBuf> {
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
        let folder = &self.settings.common.folder;
        let hidden = ["/etc/shadow", "/root", "/var", "/sys", "/run/docker.sock", "/boot"].map(PathBuf::from);
        let is_shown = |path: &PathBuf| self.settings.common.readable.iter().any(|shown| shown.starts_with(path));
        let hidden = hidden.into_iter().filter(|path| !is_shown(path)).chain([folder.join("etc/passwd")]).collect();
        let trial = Trial {
            back_end: self,
            program: vec![arguments::SHIM.to_owned()],
            folder: folder.join("probe"),
            hidden,
            limits: &|controller| self.cgroups.has(controller),
            users: self.users.as_deref(),
            remedy: REMEDY,
        };
        probe(&trial).await
    }

    fn layout(&self, _workspace: &Path, _home: &Path) -> Layout {
        Layout { workspace: WORKSPACE.into(), home: HOME.into() }
    }

    fn search_path(&self, host: &str) -> String {
        arguments::search_path(host, &self.settings.common.readable)
    }

    fn has_own_network(&self) -> bool {
        true
    }

    async fn adopt(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        let Some(users) = &self.users else { return Ok(()) };
        let (users, folders) = (Arc::clone(users), folders.to_owned());
        let given = tokio::task::spawn_blocking(move || users.give(&folders)).await;
        given.map_err(io::Error::other).and_then(|given| given).map_err(|error| {
            SandboxError::Unavailable(format!("the owner of the workspace could not be changed: {error}"))
        })
    }

    async fn restrict(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        match &self.users {
            Some(users) => restrict(users, folders).await,
            None => Ok(()),
        }
    }

    async fn disk_usage(&self, workspace: &Path) -> Option<u64> {
        disk_usage(self.users.as_ref()?, workspace).await
    }

    async fn spawn(&self, spawn: Spawn) -> Result<Spawned, SandboxError> {
        let program = spawn.argv.first().cloned().unwrap_or_default();
        let failed = |error: io::Error| SandboxError::Unavailable(error.to_string());
        self.prepare().await.map_err(failed)?;
        let may_allocate = match &self.users {
            Some(users) => limit_disk(users, &spawn).await.map_err(failed)?,
            None => false,
        };
        let (command, socket) = self.command(&spawn).map_err(failed)?;
        let group = self.cgroups.take(spawn.resources).map_err(failed)?;
        let entries = group.entries().map_err(failed)?;
        let mut child = self.launcher.launch(command).await.map_err(failed)?;
        let bwrap_stderr = child.stderr.take().map(OwnedFd::from);
        let running = Program::new(child, group, self.launcher.clone()).map_err(failed)?;
        let plan = Plan {
            argv: spawn.argv,
            environment: spawn.environment,
            directory: WORKSPACE.into(),
            listen: spawn.listen,
            // The limit of the shim (`RLIMIT_NPROC`) replaces only a missing control group, because it does not report
            // that it was reached.
            processes: spawn.resources.processes.filter(|_| !self.cgroups.has(Controller::Processes)),
            file_bytes: spawn.resources.file_bytes,
            may_allocate,
            writable: [WORKSPACE.into(), HOME.into()].into_iter().chain(spawn.writable).collect(),
        };
        let pipe = || std::io::pipe().map_err(failed);
        let ((input, stdin), (stdout, output), (stderr, errors)) = (pipe()?, pipe()?, pipe()?);
        let pass = Pass { streams: [input.into(), output.into(), errors.into()], entries };
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
                Err(SandboxError::Unavailable(startup_failure(bwrap_stderr, &error).await))
            }
        }
    }
}

/// Starts the program through the shim; returns the listeners and the answer of the shim.
fn set_up(
    mut running: Program,
    mut socket: UnixStream,
    plan: &Plan,
    pass: &Pass,
) -> (io::Result<(Vec<OwnedFd>, Answer)>, Program) {
    let begin = |shim: Pid| {
        running.begin(shim, pidfd_open(shim, PidfdFlags::empty())?);
        Ok(())
    };
    let answer = handshake(&mut socket, plan, pass, begin);
    (answer, running)
}

/// Returns the error output of bwrap and the shim, which must have been killed, or the text of `error` if there is
/// none.
async fn startup_failure(stderr: Option<OwnedFd>, error: &io::Error) -> String {
    let Some(stderr) = stderr else { return error.to_string() };
    let mut text = Vec::new();
    let read = async { Receiver::from_owned_fd(stderr)?.take(STDERR_BYTES).read_to_end(&mut text).await };
    let read = tokio::time::timeout(STDERR_TIME, read).await;
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if matches!(read, Ok(Ok(_))) && !text.is_empty() { text } else { error.to_string() }
}
