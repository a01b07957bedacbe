//! The back end `container`: runs programs in containers of Docker or Podman. An image provides the system that a
//! program sees. The engine makes namespaces, a read-only root and limits. Inside, our shim is the first process and
//! drops the remaining rights, as in the other back end ([`crate::shim`]). A container has no network and no
//! capabilities.
//!
//! Invariants:
//!
//! - The first process gets only the variables of the image, with those of the dynamic loader emptied, and the command
//!   line of the shim.
//! - The service talks only to the first process of the container that a socket was made for.
//! - The shim ignores the image's settings for the dynamic loader.
//! - When the service ends, its containers end.

mod engine;
mod image;
mod info;
mod order;
mod program;
mod rootfs;
mod runtime;
mod selinux;
mod shim_socket;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Image, Layout, Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::project::PullPolicy;
use journeyman_core::worker::Guarantee;
use rustix::process::{Pid, PidfdFlags, getgid, getuid, pidfd_open};
use tokio::sync::OnceCell;

use engine::Engine;
use order::{Order, Security};
use program::Program;
use runtime::Runtime;
use selinux::Level;
use shim_socket::ShimSocket;

use crate::bubblewrap::{HOME, WORKSPACE};
use crate::cgroup::{Cgroup, Cgroups, Controller};
use crate::probe::{Trial, none_holds, probe};
use crate::settings::CommonSettings;
use crate::shim::{Answer, Pass, Plan, handshake};
use crate::users::{Users, disk_usage, limit_disk, restrict};

/// The time limit for a container to start, and then for each answer of its shim.
const SET_UP_TIME: Duration = Duration::from_secs(60);

/// The search path of programs if the image does not set `PATH`.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The remedy if no container can be started.
const REMEDY: &str = "set container-engine to a socket of Docker or Podman that the service can use (podman system \
                      service serves one), and container-image to an image that the engine has or can pull";

/// The settings of the back end `container`.
#[derive(Debug, Clone)]
pub struct ContainerSettings {
    /// The engine's socket.
    pub socket: PathBuf,
    /// The image for projects that do not name one.
    pub image: Option<String>,
    /// The path of this program, which is also a container's first process.
    pub program: PathBuf,
    /// The settings that both back ends with isolation have.
    pub common: CommonSettings,
    /// `true` if containers have SELinux labels of their own, where the engine uses SELinux; `false` turns off SELinux
    /// for them.
    pub has_selinux: bool,
    /// The value of the label on containers. It is the same for all processes with this data directory.
    pub owner: String,
}

/// Starts programs in containers.
pub struct Container {
    settings: ContainerSettings,
    cgroups: Cgroups,
    /// The users of workspaces, if the service runs as root.
    users: Option<Arc<Users>>,
    ready: OnceCell<Ready>,
}

/// The parts of the back end that are made on first use.
struct Ready {
    engine: Engine,
    runtime: Runtime,
}

impl Container {
    /// Prepares the back end. [`Sandbox::probe`] checks its guarantees.
    #[must_use]
    pub fn new(settings: ContainerSettings) -> Self {
        let (users, cgroups) = (settings.common.workspace_users(), settings.common.cgroups());
        Self { settings, cgroups, users, ready: OnceCell::new() }
    }

    async fn ready(&self) -> Result<&Ready, SandboxError> {
        let make = async || {
            let ContainerSettings { socket, owner, program, common, .. } = &self.settings;
            let CommonSettings { renew, folder, .. } = common;
            let engine = Engine::connect(socket, owner).await?;
            if engine.info.is_rootless && self.users.is_some() {
                return Err(rootless(socket));
            }
            if *renew {
                engine.remove_all().await?;
                ShimSocket::remove_all(folder)
                    .map_err(|error| unavailable("old sockets could not be removed", &error))?;
            }
            let runtime = Runtime::write(folder, program);
            let runtime =
                runtime.map_err(|error| unavailable("this program could not be copied for containers", &error))?;
            Ok(Ready { engine, runtime })
        };
        self.ready.get_or_try_init(make).await
    }

    fn image(&self, spawn: &Spawn) -> Result<Image, SandboxError> {
        let own = || Some(Image { name: self.settings.image.clone()?, pull: PullPolicy::Missing });
        spawn.image.clone().or_else(own).ok_or_else(|| {
            let text = "no image is configured; set sandbox.image of the project, or container-image of the server";
            SandboxError::Unavailable(text.to_owned())
        })
    }

    /// Returns the user and group inside the container. They are the same outside, unless the engine is rootless and
    /// cannot keep our user ID: then root inside is our user outside.
    fn user(&self, engine: &Engine, workspace: &Path) -> io::Result<(u32, u32)> {
        Ok(match &self.users {
            Some(users) => (users.of(workspace)?, users.group()),
            None if engine.info.is_rootless && !engine.info.keeps_user => (0, 0),
            None => (getuid().as_raw(), getgid().as_raw()),
        })
    }

    /// Returns the arguments that start a program inside. If it is this program, they name its copy in the container.
    fn inner_argv(&self, runtime: &Runtime, argv: Vec<String>) -> Vec<String> {
        let is_ours = argv.first().is_some_and(|program| Path::new(program) == self.settings.program);
        if is_ours { runtime.command_line().into_iter().chain(argv.into_iter().skip(1)).collect() } else { argv }
    }
}

#[async_trait]
impl Sandbox for Container {
    fn name(&self) -> &'static str {
        "container"
    }

    async fn probe(&self) -> Vec<Guarantee> {
        self.cgroups.find_missing().await;
        let (folder, socket) = (&self.settings.common.folder, &self.settings.socket);
        let engines = ["/run/docker.sock", "/run/podman/podman.sock"].map(PathBuf::from);
        let trial = Trial {
            back_end: self,
            program: Runtime::host_command_line(&self.settings.program),
            folder: folder.join("probe"),
            hidden: engines.into_iter().chain([folder.clone(), socket.clone()]).collect(),
            limits: &|controller| self.groups_are_used() && self.cgroups.has(controller),
            users: self.users.as_deref(),
            remedy: REMEDY,
        };
        match self.available().await {
            Ok(()) => probe(&trial).await,
            Err(error) => none_holds(&trial, &error.to_string()),
        }
    }

    async fn available(&self) -> Result<(), SandboxError> {
        let socket = &self.settings.socket;
        info::ping(socket).await.map_err(|error| engine::unreachable(socket, &error))
    }

    fn layout(&self, _workspace: &Path, _home: &Path) -> Layout {
        Layout { workspace: WORKSPACE.into(), home: HOME.into() }
    }

    fn search_path(&self, _host: &str) -> String {
        SEARCH.to_owned()
    }

    fn has_own_network(&self) -> bool {
        true
    }

    async fn adopt(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        let Some(users) = &self.users else { return Ok(()) };
        // Removes the containers of dead services first: their programs may still write to the folders.
        self.ready().await?;
        let (users, folders) = (Arc::clone(users), folders.to_owned());
        let given = tokio::task::spawn_blocking(move || users.give(&folders)).await;
        let given = given.map_err(io::Error::other).and_then(|given| given);
        given.map_err(|error| unavailable("the owner of the workspace could not be changed", &error))
    }

    // The engine mounts what a program may read, so the program needs no group.
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
        let Ready { engine, runtime } = self.ready().await?;
        let failed = |error: io::Error| unavailable("the streams of a container could not be created", &error);
        let image = engine.image(&self.image(&spawn)?).await?;
        let user = self.user(engine, &spawn.workspace);
        let user = user.map_err(|error| unavailable("the owner of the workspace could not be determined", &error))?;
        let limited = match &self.users {
            Some(users) => limit_disk(users, &spawn).await,
            None => Ok(false),
        };
        let may_allocate =
            limited.map_err(|error| unavailable("the disk limit of a container could not be set", &error))?;
        let security = self.security(engine, &spawn.workspace, user.0);
        let level = if let Security::Level(level) = &security { Some(level.clone()) } else { None };
        let socket = ShimSocket::make(&self.settings.common.folder, user, level.as_ref());
        let socket = socket.map_err(|error| unavailable("the socket of a container could not be created", &error))?;
        let group = self.groups_are_used().then(|| self.cgroups.take(spawn.resources)).transpose();
        let group = group.map_err(|error| unavailable("no control group could be created", &error))?;
        let (readable, has_users) = (&self.settings.common.readable[..], self.users.is_some());
        let (data, socket) = (&*self.settings.common.data, &socket);
        let order = Order { image: &image, spawn: &spawn, user, has_users, readable, runtime, socket, data, security };
        let container = engine.start(&order).await?;
        let (stream, first, handle) = match self.accept_shim(engine, &container.id, &order).await {
            Ok(shim) => shim,
            Err(error) => {
                container.remove().await;
                return Err(error);
            }
        };
        let mut entries = group.as_ref().map_or(Ok(Vec::new()), Cgroup::entries).map_err(failed)?;
        let has_group = !entries.is_empty();
        if level.is_some() {
            // SELinux does not let programs in containers write to control groups.
            enter(&mut entries, first).map_err(failed)?;
        }
        let mut running = Program::new(container, first, handle, group).map_err(failed)?;
        let plan = Plan {
            argv: self.inner_argv(runtime, spawn.argv),
            environment: environment(&image.environment, spawn.environment),
            directory: WORKSPACE.into(),
            listen: spawn.listen,
            processes: spawn.resources.processes.filter(|_| !has_group),
            file_bytes: spawn.resources.file_bytes,
            may_allocate,
            writable: [WORKSPACE.into(), HOME.into()].into_iter().chain(spawn.writable).collect(),
        };
        let pipe = || std::io::pipe().map_err(failed);
        let ((input, stdin), (stdout, output), (stderr, errors)) = (pipe()?, pipe()?, pipe()?);
        let pass = Pass { streams: [input.into(), output.into(), errors.into()], entries };
        let set_up = tokio::task::spawn_blocking(move || set_up(stream, &plan, &pass, first)).await;
        match set_up.map_err(io::Error::other).and_then(|answer| answer) {
            Ok((listeners, Answer::Started, stream)) => {
                running.begin(stream).map_err(failed)?;
                let (stdin, stdout, stderr) = (stdin.into(), stdout.into(), stderr.into());
                Ok(Spawned { stdin, stdout, stderr, listeners, process: Box::new(running) })
            }
            Ok((_, Answer::Failed { not_found: true, .. }, _)) => Err(SandboxError::NotFound(program)),
            Ok((_, Answer::Failed { detail, .. }, _)) => Err(SandboxError::Failed { program, detail }),
            Err(error) => Err(SandboxError::Unavailable(running.startup_failure(&error).await)),
        }
    }
}

impl Container {
    /// Returns the use of SELinux for a container with a workspace and a user.
    fn security(&self, engine: &Engine, workspace: &Path, user: u32) -> Security {
        match (engine.info.has_selinux, self.settings.has_selinux) {
            (_, false) => Security::TurnedOff,
            (false, true) => Security::Absent,
            (true, true) => Security::Level(Level::of(workspace, self.users.is_some().then_some(user))),
        }
    }

    /// Returns whether processes enter our control groups instead of the engine's. Our groups must then have all
    /// controllers, so that no limit is lost.
    fn groups_are_used(&self) -> bool {
        let all = [Controller::Memory, Controller::Processes, Controller::Cpu];
        self.users.is_some() && all.into_iter().all(|controller| self.cgroups.has(controller))
    }

    /// Accepts the connection of the container's first process, and checks the container's files.
    async fn accept_shim(
        &self,
        engine: &Engine,
        container: &str,
        order: &Order<'_>,
    ) -> Result<(UnixStream, Pid, OwnedFd), SandboxError> {
        let accepted = tokio::select! {
            accepted = tokio::time::timeout(SET_UP_TIME, order.socket.accept()) => accepted,
            error = engine.ended(container) => return Err(explained(error, order)),
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted.map_err(|error| unavailable("the container did not connect", &error))?,
            Err(_) => {
                let text = "the container did not start within a minute";
                let remedy = if has_label(order) { format!("; {}", selinux::REMEDY) } else { String::new() };
                return Err(SandboxError::Unavailable(format!("{text}{remedy}")));
            }
        };
        let first = engine.first_process(container).await?;
        if peer != first {
            return Err(SandboxError::Unavailable("the shim's socket was used by another process".to_owned()));
        }
        stream
            .set_read_timeout(Some(SET_UP_TIME))
            .and_then(|()| stream.set_write_timeout(Some(SET_UP_TIME)))
            .map_err(|error| unavailable("the socket of a container could not be used", &error))?;
        let handle = pidfd_open(first, PidfdFlags::empty());
        let handle = handle.map_err(|error| unavailable("a container could not be watched", &error.into()))?;
        rootfs::check(first, order)?;
        Ok((stream, first, handle))
    }
}

/// Moves the container's first process into control groups, and empties the list of their entries.
fn enter(entries: &mut Vec<File>, first: Pid) -> io::Result<()> {
    entries.drain(..).try_for_each(|mut entry| entry.write_all(first.as_raw_pid().to_string().as_bytes()))
}

fn has_label(order: &Order<'_>) -> bool {
    matches!(order.security, Security::Level(_))
}

/// Adds what to do about SELinux to the error of a container that has ended before its program began.
fn explained(error: SandboxError, order: &Order<'_>) -> SandboxError {
    match error {
        SandboxError::Unavailable(text) if has_label(order) && text.contains("Permission denied") => {
            SandboxError::Unavailable(format!("{text}; {}", selinux::REMEDY))
        }
        error => error,
    }
}

fn set_up(
    mut socket: UnixStream,
    plan: &Plan,
    pass: &Pass,
    first: Pid,
) -> io::Result<(Vec<OwnedFd>, Answer, UnixStream)> {
    let check =
        |shim: Pid| if shim == first { Ok(()) } else { Err(io::Error::other("the shim is not the first process")) };
    let (listeners, answer) = handshake(&mut socket, plan, pass, check)?;
    Ok((listeners, answer, socket))
}

/// Returns the image's variables, overridden by the program's own. The image's `PATH` takes precedence over the default
/// search path.
fn environment(image: &BTreeMap<String, String>, own: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = image.clone();
    for (name, value) in own {
        if !(name == "PATH" && value == SEARCH && image.contains_key("PATH")) {
            all.insert(name, value);
        }
    }
    all
}

/// Returns the error for a rootless engine, whose containers could not use the workspaces of a service that runs as
/// root.
fn rootless(socket: &Path) -> SandboxError {
    SandboxError::Unavailable(format!(
        "the container engine at {} is rootless, but this service runs as root: its workspaces belong to users that a \
         rootless engine does not have; run the service as the user of the engine, or set container-engine to the \
         socket of an engine that runs as root",
        socket.display()
    ))
}

fn unavailable(what: &str, error: &io::Error) -> SandboxError {
    SandboxError::Unavailable(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_image_replaces_only_the_default_search_path() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let image = map(&[("PATH", "/usr/local/go/bin:/bin"), ("GOPATH", "/go"), ("HOME", "/root")]);
        let got = environment(&image, map(&[("PATH", SEARCH), ("HOME", "/home/agent")]));
        assert_eq!(got, map(&[("PATH", "/usr/local/go/bin:/bin"), ("GOPATH", "/go"), ("HOME", "/home/agent")]));
        assert_eq!(environment(&image, map(&[("PATH", "/own")]))["PATH"], "/own");
        assert_eq!(environment(&map(&[]), map(&[("PATH", SEARCH)]))["PATH"], SEARCH);
    }
}
