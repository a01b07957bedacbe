//! The back end `container`: containers of Docker or Podman. What a program finds as its system is an image; the engine
//! makes namespaces, a read-only root and limits, and inside, our shim is the first process and takes away what is left, as
//! in the other back end ([`crate::shim`]). No network, no capability.
//!
//! Invariants: nothing is in the environment or the arguments of the first process but what the image itself says; who
//! comes through the door is the first process of the container that was started for it; what the image says of a
//! loader is not asked; with the service a container ends.

mod door;
mod engine;
mod image;
mod info;
mod order;
mod program;
mod rootfs;
mod runtime;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ports::{Guarantee, Image, Layout, Sandbox, SandboxError, Spawn, Spawned};
use journeyman_core::project::PullPolicy;
use rustix::process::{Pid, PidfdFlags, getgid, getuid, pidfd_open};
use tokio::sync::OnceCell;

use crate::bubblewrap::{HOME, WORKSPACE};
use crate::cgroup::{Cgroup, Cgroups, Controller, RECORD};
use crate::probe::{Trial, none_holds, probe};
use crate::shim::{Answer, Pass, Plan, converse};
use crate::users::{UserRange, Users, disk_usage, limit_disk};
use door::Door;
use engine::Engine;
use order::Order;
use program::Program;
use runtime::Runtime;

/// A container that is not there by then never will be.
const SET_UP_TIME: Duration = Duration::from_secs(60);

/// Programs are looked for here, unless the image says otherwise.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How the back end is mended where no container comes about.
const MEND: &str = "the service must be able to use the socket of Docker or Podman (container-engine), and container-image \
                    must name an image that is there or can be fetched; podman system service serves such a socket";

/// How the back end works.
#[derive(Debug, Clone)]
pub struct ContainerSettings {
    /// The engine's socket.
    pub socket: PathBuf,
    /// The image for those who name none.
    pub image: Option<String>,
    /// This program, which is the first in a container too.
    pub program: PathBuf,
    /// More of the host that programs may read.
    pub readable: Vec<PathBuf>,
    /// A folder of the back end's own.
    pub folder: PathBuf,
    /// Whether no other process has containers with that folder: then what a dead one has left is removed.
    pub renew: bool,
    /// Folders of workspaces.
    pub roots: Vec<PathBuf>,
    /// The users that containers have where the service is root.
    pub users: UserRange,
    /// Tells the groups and containers of this service from those of others on the machine.
    pub name: String,
    /// The same for all processes with this data directory.
    pub owner: String,
}

/// Starts programs in containers.
pub struct Container {
    settings: ContainerSettings,
    cgroups: Cgroups,
    /// Where the service is root.
    users: Option<Arc<Users>>,
    ready: OnceCell<Ready>,
}

/// What is made when it is needed first.
struct Ready {
    engine: Engine,
    runtime: Runtime,
}

impl Container {
    /// Prepares the back end; whether it holds what it promises, [`Sandbox::probe`] tells.
    #[must_use]
    pub fn new(settings: ContainerSettings) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let users = is_root.then(|| Arc::new(Users::new(settings.users, settings.roots.clone())));
        let record = settings.folder.join(RECORD);
        let cgroups = Cgroups::find(&settings.name, settings.renew.then_some(record.as_path()));
        Self { settings, cgroups, users, ready: OnceCell::new() }
    }

    async fn ready(&self) -> Result<&Ready, SandboxError> {
        let make = async || {
            let ContainerSettings { socket, owner, renew, folder, program, .. } = &self.settings;
            let engine = Engine::connect(socket, owner).await?;
            if engine.info.is_rootless && self.users.is_some() {
                return Err(rootless(socket));
            }
            if *renew {
                engine.remove_all().await?;
                Door::remove_all(folder).map_err(|error| unavailable("old sockets could not be removed", &error))?;
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
            let text = "no image is named: give the project one as sandbox.image, or the server as container-image";
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

    /// The words with which this program is started inside.
    fn started(&self, runtime: &Runtime, argv: Vec<String>) -> Vec<String> {
        let is_ours = argv.first().is_some_and(|program| Path::new(program) == self.settings.program);
        if is_ours { runtime.words().into_iter().chain(argv.into_iter().skip(1)).collect() } else { argv }
    }
}

#[async_trait]
impl Sandbox for Container {
    fn name(&self) -> &'static str {
        "container"
    }

    async fn probe(&self) -> Vec<Guarantee> {
        self.cgroups.find_missing().await;
        let ContainerSettings { folder, socket, .. } = &self.settings;
        let engines = ["/run/docker.sock", "/run/podman/podman.sock"].map(PathBuf::from);
        let trial = Trial {
            back_end: self,
            program: Runtime::usual_words(&self.settings.program),
            folder: folder.join("probe"),
            hidden: engines.into_iter().chain([folder.clone(), socket.clone()]).collect(),
            limits: &|controller| self.groups_are_used() && self.cgroups.has(controller),
            has_users: self.users.is_some(),
            mend: MEND,
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
        // What a dead service has left running may be at work in them.
        self.ready().await?;
        let (users, folders) = (Arc::clone(users), folders.to_owned());
        let given = tokio::task::spawn_blocking(move || users.give(&folders)).await;
        let given = given.map_err(io::Error::other).and_then(|given| given);
        given.map_err(|error| unavailable("the owner of the workspace could not be changed", &error))
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
        if let Some(users) = &self.users {
            let limited = limit_disk(users, &spawn).await;
            limited.map_err(|error| unavailable("the disk limit of a container could not be set", &error))?;
        }
        let door = Door::make(&self.settings.folder, user);
        let door = door.map_err(|error| unavailable("the socket of a container could not be created", &error))?;
        let group = self.groups_are_used().then(|| self.cgroups.take(spawn.resources)).transpose();
        let group = group.map_err(|error| unavailable("no control group could be created", &error))?;
        let (readable, has_users) = (&self.settings.readable[..], self.users.is_some());
        let order = Order { image: &image, spawn: &spawn, user, has_users, readable, runtime, door: &door };
        let container = engine.start(&order).await?;
        let (stream, first, handle) = match self.meet(engine, &container.id, &order).await {
            Ok(met) => met,
            Err(error) => {
                container.remove().await;
                return Err(error);
            }
        };
        let doors = group.as_ref().map_or(Ok(Vec::new()), Cgroup::doors).map_err(failed)?;
        let mut running = Program::new(container, first, handle, group).map_err(failed)?;
        let plan = Plan {
            argv: self.started(runtime, spawn.argv),
            environment: environment(&image.environment, spawn.environment),
            directory: WORKSPACE.into(),
            listen: spawn.listen,
            processes: spawn.resources.processes.filter(|_| doors.is_empty()),
            file_bytes: spawn.resources.file_bytes,
            writable: [WORKSPACE.into(), HOME.into()].into_iter().chain(spawn.writable).collect(),
        };
        let pipe = || std::io::pipe().map_err(failed);
        let ((input, stdin), (stdout, output), (stderr, errors)) = (pipe()?, pipe()?, pipe()?);
        let pass = Pass { streams: [input.into(), output.into(), errors.into()], doors };
        let set_up = tokio::task::spawn_blocking(move || set_up(stream, &plan, &pass, first)).await;
        match set_up.map_err(io::Error::other).and_then(|answer| answer) {
            Ok((listeners, Answer::Started, stream)) => {
                running.begin(stream).map_err(failed)?;
                let (stdin, stdout, stderr) = (stdin.into(), stdout.into(), stderr.into());
                Ok(Spawned { stdin, stdout, stderr, listeners, process: Box::new(running) })
            }
            Ok((_, Answer::Failed { not_found: true, .. }, _)) => Err(SandboxError::NotFound(program)),
            Ok((_, Answer::Failed { detail, .. }, _)) => Err(SandboxError::Failed { program, detail }),
            Err(error) => Err(SandboxError::Unavailable(running.complaint(&error).await)),
        }
    }
}

impl Container {
    /// Whether the groups that we make take the engine's place, and nothing of its limits is lost by that.
    fn groups_are_used(&self) -> bool {
        let all = [Controller::Memory, Controller::Processes, Controller::Cpu];
        self.users.is_some() && all.into_iter().all(|controller| self.cgroups.has(controller))
    }

    /// Waits for whoever comes through the door, who must be the container's first process, and looks where it is.
    async fn meet(
        &self,
        engine: &Engine,
        container: &str,
        order: &Order<'_>,
    ) -> Result<(UnixStream, Pid, OwnedFd), SandboxError> {
        let come = tokio::select! {
            come = tokio::time::timeout(SET_UP_TIME, order.door.open()) => come,
            error = engine.ended(container) => return Err(error),
        };
        let (stream, peer) = match come {
            Ok(come) => come.map_err(|error| unavailable("the container did not connect", &error))?,
            Err(_) => return Err(SandboxError::Unavailable("the container did not begin in a minute".to_owned())),
        };
        let first = engine.first_process(container).await?;
        if peer != first {
            return Err(SandboxError::Unavailable("somebody else came in the container's place".to_owned()));
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

fn set_up(
    mut socket: UnixStream,
    plan: &Plan,
    pass: &Pass,
    first: Pid,
) -> io::Result<(Vec<OwnedFd>, Answer, UnixStream)> {
    let is_it = |shim: Pid| if shim == first { Ok(()) } else { Err(io::Error::other("it is not the first process")) };
    let (listeners, answer) = converse(&mut socket, plan, pass, is_it)?;
    Ok((listeners, answer, socket))
}

/// What the image sets, and over it what the program is given; of two search paths the image's where ours is the usual one.
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
    fn an_image_knows_where_its_programs_are() {
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
