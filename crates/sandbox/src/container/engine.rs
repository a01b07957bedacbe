//! Docker or Podman, by the interface that both have.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, Mount, MountBindOptions, MountType, ResourcesUlimits,
};
use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListContainersOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions, WaitContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures::{StreamExt, TryStreamExt};
use journeyman_core::ports::{Image, SandboxError, Spawn};
use journeyman_core::project::PullPolicy;
use rustix::process::{Pid, Resource, getrlimit};

use super::door::{self, Door};
use super::runtime::{self, Runtime};
use crate::bubblewrap::{HOME, WORKSPACE};
use crate::shim::SUBCOMMAND;

/// How often an engine that is busy with a container is asked again to remove it, and how long after.
const REMOVAL_ATTEMPTS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(100);

/// Descriptors that a process may have open.
const DESCRIPTORS: i64 = 65_536;

/// How long the engine may take for an answer, in seconds.
const ANSWER_SECONDS: u64 = 120;

/// An image that is always to be fetched is, after this time.
const FRESH: Duration = Duration::from_secs(600);

/// How long fetching one may take.
const PULL_TIME: Duration = Duration::from_secs(1800);

/// Bytes that `/tmp` and `/dev/shm` may have each; they count as memory too.
const SCRATCH_BYTES: i64 = 1 << 30;

/// The label of all containers of a data directory, whose value is the owner.
const LABEL: &str = "journeyman.owner";

/// Variables by which a loader would be told to load more.
const LOADER_VARIABLES: [&str; 5] = ["LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "LD_DEBUG=", "GLIBC_TUNABLES="];

/// A container engine.
#[derive(Clone)]
pub(super) struct Engine {
    docker: Docker,
    owner: String,
    /// Whether it has no root's rights: its root is who runs it.
    pub(super) is_rootless: bool,
    /// When images were fetched.
    fetched: Arc<Mutex<HashMap<String, Instant>>>,
}

/// An image that is there.
pub(super) struct Present {
    name: String,
    /// What it sets.
    pub(super) environment: BTreeMap<String, String>,
}

/// A container. Dropped, it is killed and removed.
pub(super) struct Started {
    pub(super) engine: Engine,
    pub(super) id: String,
}

impl Started {
    /// Kills and removes it now.
    pub(super) async fn remove(mut self) {
        if let Err(error) = self.engine.remove(&self.id).await {
            tracing::warn!(container = self.id, %error, "it is removed at the next start");
        }
        self.id.clear();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.id.is_empty() {
            self.engine.remove_later(std::mem::take(&mut self.id));
        }
    }
}

/// What to start.
pub(super) struct Order<'a> {
    pub(super) image: &'a Present,
    pub(super) spawn: &'a Spawn,
    pub(super) user: (u32, u32),
    /// Whether nobody else is that user.
    pub(super) has_users: bool,
    pub(super) readable: &'a [PathBuf],
    pub(super) runtime: &'a Runtime,
    pub(super) door: &'a Door,
}

impl Engine {
    pub(super) async fn connect(socket: &Path, owner: &str) -> Result<Self, SandboxError> {
        let failed =
            |error: Error| failed(&format!("the container engine at {} does not answer", socket.display()), &error);
        let docker = Docker::connect_with_unix(&socket.to_string_lossy(), ANSWER_SECONDS, API_DEFAULT_VERSION);
        let docker = docker.map_err(failed)?.negotiate_version().await.map_err(failed)?;
        let info = docker.info().await.map_err(failed)?;
        let options = info.security_options.unwrap_or_default();
        let is_rootless = options.iter().any(|option| option.contains("rootless"));
        Ok(Self { docker, owner: owner.to_owned(), is_rootless, fetched: Arc::default() })
    }

    /// Removes what services have left behind that are dead.
    pub(super) async fn remove_all(&self) -> Result<(), SandboxError> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{LABEL}={}", self.owner)])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let all = self.docker.list_containers(Some(options)).await;
        let all = all.map_err(|error| failed("containers could not be listed", &error))?;
        for container in all.into_iter().filter_map(|container| container.id) {
            self.remove(&container).await?;
        }
        Ok(())
    }

    /// Makes sure that an image is there.
    pub(super) async fn image(&self, image: &Image) -> Result<Present, SandboxError> {
        let name = &image.name;
        let is_fresh = || {
            let fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
            fetched.get(name).is_some_and(|at| at.elapsed() < FRESH)
        };
        let there = self.docker.inspect_image(name).await;
        let is_missing = matches!(&there, Err(Error::DockerResponseServerError { status_code: 404, .. }));
        let fetch = match image.pull {
            PullPolicy::Missing => is_missing,
            PullPolicy::Always => !is_fresh(),
            PullPolicy::Never => false,
        };
        let there = if fetch {
            self.fetch(name).await?;
            self.docker.inspect_image(name).await
        } else {
            there
        };
        let there = there.map_err(|error| failed(&format!("there is no image {name}"), &error))?;
        let config = there.config.unwrap_or_default();
        let volumes = config.volumes.unwrap_or_default();
        if !volumes.is_empty() {
            let text = format!(
                "the image {name} declares volumes ({}), which would be room without a limit; take one that declares none",
                volumes.join(", ")
            );
            return Err(SandboxError::Unavailable(text));
        }
        let variables = config.env.unwrap_or_default();
        let split =
            |variable: String| variable.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Present { name: name.clone(), environment: variables.into_iter().filter_map(split).collect() })
    }

    async fn fetch(&self, name: &str) -> Result<(), SandboxError> {
        tracing::info!(image = name, "an image is fetched");
        let options = CreateImageOptionsBuilder::new().from_image(&whole_name(name)).build();
        let fetching = self.docker.create_image(Some(options), None, None).try_for_each(|_| async { Ok(()) });
        let fetched = tokio::time::timeout(PULL_TIME, fetching).await;
        let text = format!("the image {name} could not be fetched");
        let fetched = fetched.map_err(|_| SandboxError::Unavailable(format!("{text} in half an hour")))?;
        fetched.map_err(|error| failed(&text, &error))?;
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Instant::now());
        Ok(())
    }

    /// Starts a container whose first process is the shim.
    pub(super) async fn start(&self, order: &Order<'_>) -> Result<Started, SandboxError> {
        let text = "no container could be made";
        let made = self.docker.create_container(None, body(&self.owner, order)).await;
        let id = made.map_err(|error| failed(text, &error))?.id;
        let started = Started { engine: self.clone(), id };
        match self.docker.start_container(&started.id, None::<StartContainerOptions>).await {
            Ok(()) => Ok(started),
            Err(error) => {
                started.remove().await;
                Err(failed(text, &error))
            }
        }
    }

    /// Comes back when a container has ended; what it said.
    pub(super) async fn ended(&self, container: &str) -> String {
        let mut ended = std::pin::pin!(self.docker.wait_container(container, None::<WaitContainerOptions>));
        // An exit code other than 0 is an error there.
        let _ = ended.next().await;
        let said = self.said(container).await;
        if said.is_empty() { "the container ended before it began".to_owned() } else { said }
    }

    /// What its first process has said.
    pub(super) async fn said(&self, container: &str) -> String {
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).tail("20").build();
        let lines: Vec<_> = self.docker.logs(container, Some(options)).take(20).collect().await;
        let text: String = lines.into_iter().flatten().map(|line| line.to_string()).collect();
        text.trim().to_owned()
    }

    /// Its first process, as the host numbers it.
    pub(super) async fn first_process(&self, container: &str) -> Result<Pid, SandboxError> {
        let found = self.docker.inspect_container(container, None).await;
        let state = found.map_err(|error| failed("a container could not be looked at", &error))?.state;
        let pid = state.and_then(|state| state.pid).and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        pid.ok_or_else(|| SandboxError::Unavailable("the container has ended already".to_owned()))
    }

    /// Kills and removes one; no error if it is gone. An engine that is busy with it says so, Docker with 409 and Podman
    /// with 500 too: it goes already, or it stays, so it is asked again.
    async fn remove(&self, container: &str) -> Result<(), SandboxError> {
        let mut patience = REMOVAL_ATTEMPTS;
        loop {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            match self.docker.remove_container(container, Some(options)).await {
                Ok(()) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(()),
                Err(Error::DockerResponseServerError { status_code: 409 | 500..=599, message }) if patience > 0 => {
                    tracing::debug!(container, message, "it is not removed yet");
                    patience -= 1;
                }
                Err(error) => return Err(failed("a container could not be removed", &error)),
            }
            tokio::time::sleep(REMOVAL_PAUSE).await;
        }
    }

    /// Removes one, whoever waits for something else meanwhile. What is left where nobody can is removed at the next start.
    fn remove_later(&self, container: String) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let engine = self.clone();
            runtime.spawn(async move {
                if let Err(error) = engine.remove(&container).await {
                    tracing::warn!(container, %error, "it is removed at the next start");
                }
            });
        }
    }
}

fn body(owner: &str, order: &Order<'_>) -> ContainerCreateBody {
    let Order { image, spawn, user: (user, group), readable, runtime, door, .. } = order;
    let inside = format!("{}/{}", door::INSIDE, door::SOCKET);
    let entrypoint = runtime.words().into_iter().chain([SUBCOMMAND.to_owned(), inside]).collect();
    let number = |bytes: Option<u64>| bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let mut mounts = vec![
        mount(&runtime.folder, runtime::INSIDE, true),
        mount(&runtime.folder.join("nothing"), "/etc/ld.so.preload", true),
        mount(door.folder(), door::INSIDE, true),
        mount(&door.file("passwd"), "/etc/passwd", true),
        mount(&door.file("group"), "/etc/group", true),
        mount(&spawn.home, HOME, false),
        mount(&spawn.workspace, WORKSPACE, false),
    ];
    for (paths, read_only) in [(*readable, true), (&spawn.readable[..], true), (&spawn.writable[..], false)] {
        mounts.extend(paths.iter().map(|path| mount(path, &path.to_string_lossy(), read_only)));
    }
    let scratch = format!("rw,exec,nosuid,nodev,size={SCRATCH_BYTES},mode=1777");
    ContainerCreateBody {
        image: Some(image.name.clone()),
        entrypoint: Some(entrypoint),
        cmd: Some(Vec::new()),
        env: Some(LOADER_VARIABLES.map(str::to_owned).into()),
        user: Some(format!("{user}:{group}")),
        working_dir: Some("/".to_owned()),
        hostname: Some("sandbox".to_owned()),
        // An image's own would run beside the shim and not below it.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        labels: Some(HashMap::from([(LABEL.to_owned(), owner.to_owned())])),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned(), "label=disable".to_owned()]),
            memory: number(spawn.resources.memory_bytes),
            memory_swap: number(spawn.resources.memory_bytes),
            pids_limit: spawn.resources.processes.map(i64::from),
            nano_cpus: spawn.resources.cpu_millis.map(|millis| i64::from(millis) * 1_000_000),
            shm_size: Some(SCRATCH_BYTES),
            tmpfs: Some(HashMap::from([("/tmp".to_owned(), scratch)])),
            ulimits: Some(ulimits(order)),
            ipc_mode: Some("private".to_owned()),
            init: Some(false),
            mounts: Some(mounts),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

fn limit(name: &str, most: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) }
}

/// An engine's own defaults may be more than it may give.
fn ulimits(order: &Order<'_>) -> Vec<ResourcesUlimits> {
    let own = getrlimit(Resource::Nofile).maximum.and_then(|most| i64::try_from(most).ok()).unwrap_or(DESCRIPTORS);
    let mut all = vec![limit("core", 0), limit("nofile", own.min(DESCRIPTORS))];
    // Of the user, who is the workspace's own: an agent and git beside it. Another's would count with all that runs.
    if order.has_users
        && let Some(processes) = order.spawn.resources.processes
    {
        all.push(limit("nproc", i64::from(processes) * 2));
    }
    all
}

fn mount(from: &Path, to: &str, read_only: bool) -> Mount {
    Mount {
        source: Some(from.to_string_lossy().into_owned()),
        target: Some(to.to_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(read_only),
        // What is mounted below on the host stays there.
        bind_options: Some(MountBindOptions { non_recursive: Some(true), ..MountBindOptions::default() }),
        ..Mount::default()
    }
}

/// The image that a name means, to the engine too: one without a tag means all tags when it is fetched (Docker Engine API,
/// `ImageCreate`).
fn whole_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

fn failed(what: &str, error: &Error) -> SandboxError {
    SandboxError::Unavailable(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_tag_means_the_latest() {
        for (name, whole) in [
            ("debian", "debian:latest"),
            ("localhost:5000/team/base", "localhost:5000/team/base:latest"),
            ("debian:12", "debian:12"),
            ("debian@sha256:00", "debian@sha256:00"),
        ] {
            assert_eq!(whole_name(name), whole);
        }
    }
}
