//! Describes the container that a program needs, in the terms of the engine's API.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, Mount, MountBindOptions, MountType, ResourcesUlimits,
};
use journeyman_core::ports::Spawn;
use rustix::process::{Resource, getrlimit};

use super::info::EngineInfo;
use super::runtime::{self, Runtime};
use super::selinux::{Level, Users};
use super::shim_socket::{self, ShimSocket};
use crate::bubblewrap::{HOME, WORKSPACE};
use crate::shim::SUBCOMMAND;

/// The number of file descriptors that a process may have open.
const DESCRIPTORS: i64 = 65_536;

/// The maximum size of `/tmp` and of `/dev/shm` in bytes, each. Their content counts as memory too.
const SCRATCH_BYTES: i64 = 1 << 30;

/// The label of all containers of a data directory, whose value is the owner.
pub(super) const LABEL: &str = "journeyman.owner";

/// Environment variables, set to nothing, with which an image could make the dynamic loader load more.
const LOADER_VARIABLES: [&str; 5] = ["LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "LD_DEBUG=", "GLIBC_TUNABLES="];

/// An image that is present on the engine.
pub(super) struct Present {
    pub(super) name: String,
    /// The environment variables that the image sets.
    pub(super) environment: BTreeMap<String, String>,
}

/// The program to start, and its container.
pub(super) struct Order<'a> {
    pub(super) image: &'a Present,
    pub(super) spawn: &'a Spawn,
    pub(super) user: (u32, u32),
    /// `true` if no other workspace has the same user.
    pub(super) has_users: bool,
    pub(super) readable: &'a [PathBuf],
    pub(super) runtime: &'a Runtime,
    pub(super) socket: &'a ShimSocket,
    /// The folder with all files of the service.
    pub(super) data: &'a Path,
    pub(super) security: Security,
}

/// The use of SELinux for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Security {
    /// The engine does not use it.
    Absent,
    /// The settings turn it off.
    TurnedOff,
    /// The container has this level.
    Level(Level),
}

/// Returns the description of an order's container for an engine, without the limits that the engine does not support.
pub(super) fn body(owner: &str, info: &EngineInfo, order: &Order<'_>) -> ContainerCreateBody {
    let Order { image, spawn, user: (user, group), readable, runtime, socket, data, security, .. } = order;
    let inside = format!("{}/{}", shim_socket::INSIDE, shim_socket::SOCKET);
    let entrypoint = runtime.command_line().into_iter().chain([SUBCOMMAND.to_owned(), inside]).collect();
    let limits = info.limits(&spawn.resources);
    let (own, shared) = (Users::Workspace, Users::Containers);
    let mut shown = vec![
        (runtime.folder.clone(), runtime::INSIDE.to_owned(), true, shared),
        (runtime.folder.join("nothing"), "/etc/ld.so.preload".to_owned(), true, shared),
        (socket.folder().to_owned(), shim_socket::INSIDE.to_owned(), true, own),
        (socket.file("passwd"), "/etc/passwd".to_owned(), true, own),
        (socket.file("group"), "/etc/group".to_owned(), true, own),
        (spawn.home.clone(), HOME.to_owned(), false, own),
        (spawn.workspace.clone(), WORKSPACE.to_owned(), false, own),
    ];
    let of_service = |path: &Path, users| if path.starts_with(data) { users } else { Users::Others };
    for (paths, read_only) in [(*readable, true), (&spawn.readable[..], true), (&spawn.writable[..], false)] {
        let users = if read_only { shared } else { own };
        let there = |path: &PathBuf| path.to_string_lossy().into_owned();
        shown.extend(paths.iter().map(|path| (path.clone(), there(path), read_only, of_service(path, users))));
    }
    let has_label = matches!(security, Security::Level(_));
    let (mut mounts, mut binds) = (Vec::new(), Vec::new());
    for (from, to, read_only, users) in shown {
        match users.option().filter(|_| has_label).and_then(|option| bind(&from, &to, read_only, option)) {
            Some(text) => binds.push(text),
            None => mounts.push(mount(&from, &to, read_only)),
        }
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
        // An image's health check would run next to the shim, and not as its descendant.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        labels: Some(HashMap::from([(LABEL.to_owned(), owner.to_owned())])),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(security_options(security)),
            memory: limits.memory_bytes,
            memory_swap: limits.memory_bytes,
            pids_limit: limits.processes,
            nano_cpus: limits.nano_cpus,
            shm_size: Some(SCRATCH_BYTES),
            tmpfs: Some(HashMap::from([("/tmp".to_owned(), scratch)])),
            ulimits: Some(ulimits(order)),
            ipc_mode: Some("private".to_owned()),
            userns_mode: info.keeps_user.then(|| "keep-id".to_owned()),
            init: Some(false),
            mounts: Some(mounts),
            binds: Some(binds).filter(|binds| !binds.is_empty()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

fn limit(name: &str, most: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) }
}

/// Returns the limits that are set in every container, because an engine's defaults may be higher than the engine may
/// grant.
fn ulimits(order: &Order<'_>) -> Vec<ResourcesUlimits> {
    let own = getrlimit(Resource::Nofile).maximum.and_then(|most| i64::try_from(most).ok()).unwrap_or(DESCRIPTORS);
    let mut all = vec![limit("core", 0), limit("nofile", own.min(DESCRIPTORS))];
    // The limit counts all processes of the user. The workspace's own user runs the agent and git next to it; for a
    // shared user, everything else that runs as that user would count too.
    if order.has_users
        && let Some(processes) = order.spawn.resources.processes
    {
        all.push(limit("nproc", i64::from(processes) * 2));
    }
    all
}

fn security_options(security: &Security) -> Vec<String> {
    let mut options = vec!["no-new-privileges".to_owned()];
    match security {
        Security::Absent => {}
        Security::TurnedOff => options.push("label=disable".to_owned()),
        Security::Level(level) => options.extend(level.options()),
    }
    options
}

/// Returns the mount as a text, the only form in which engines relabel it; `None` if a path cannot be written there.
/// Unlike [`mount`], this form also shows what is mounted below the path, so it is only for folders of the service, below
/// which nothing is mounted.
fn bind(from: &Path, to: &str, read_only: bool, relabel: &str) -> Option<String> {
    let from = from.to_str().filter(|path| !path.contains(':'))?;
    let access = if read_only { "ro" } else { "rw" };
    (!to.contains(':')).then(|| format!("{from}:{to}:{access},{relabel}"))
}

fn mount(from: &Path, to: &str, read_only: bool) -> Mount {
    Mount {
        source: Some(from.to_string_lossy().into_owned()),
        target: Some(to.to_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(read_only),
        // Mounts below this path on the host do not appear in the container.
        bind_options: Some(MountBindOptions { non_recursive: Some(true), ..MountBindOptions::default() }),
        ..Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the security options, the texts of bind mounts, and the paths of other mounts of a container.
    fn ordered(security: Security) -> (Vec<String>, Vec<String>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let engine = tokio::runtime::Runtime::new().unwrap();
        let runtime = Runtime::write(dir.path(), &std::env::current_exe().unwrap()).unwrap();
        let socket = engine.block_on(async { ShimSocket::make(dir.path(), (5, 5), None).unwrap() });
        let image = Present { name: "image".to_owned(), environment: BTreeMap::new() };
        let data = dir.path();
        let spawn = Spawn {
            workspace: data.join("workspaces/job/tree"),
            home: data.join("workspaces/job/home"),
            readable: vec![data.join("mirrors/a/objects"), "/opt/agent".into()],
            writable: vec![data.join("workspaces/job/commit"), data.join("a:b")],
            ..Spawn::default()
        };
        let readable = [PathBuf::from("/opt/tools")];
        let order = Order {
            image: &image,
            spawn: &spawn,
            user: (5, 5),
            has_users: true,
            readable: &readable,
            runtime: &runtime,
            socket: &socket,
            data,
            security,
        };
        let host = body("owner", &EngineInfo::default(), &order).host_config.unwrap();
        let own = socket.folder().to_str().unwrap().to_owned();
        let plain = |text: String| text.replace(&own, "SOCKET").replace(data.to_str().unwrap(), "DATA");
        let mounts = host.mounts.unwrap();
        assert!(mounts.iter().all(|mount| mount.bind_options.as_ref().unwrap().non_recursive == Some(true)));
        (
            host.security_opt.unwrap(),
            host.binds.unwrap_or_default().into_iter().map(plain).collect(),
            mounts.into_iter().map(|mount| plain(mount.source.unwrap())).collect(),
        )
    }

    #[test]
    fn with_selinux_a_container_has_a_level_and_only_folders_of_the_service_are_relabeled() {
        let level = Level::of(Path::new("/"), Some(2));
        let (options, binds, mounts) = ordered(Security::Level(level));
        assert_eq!(options, ["no-new-privileges", "label=type:container_t", "label=level:s0:c1,c2"]);
        assert_eq!(
            binds,
            [
                "DATA/runtime:/run/journeyman:ro,z",
                "DATA/runtime/nothing:/etc/ld.so.preload:ro,z",
                "SOCKET:/run/journeyman-shim:ro,Z",
                "SOCKET/passwd:/etc/passwd:ro,Z",
                "SOCKET/group:/etc/group:ro,Z",
                "DATA/workspaces/job/home:/home/agent:rw,Z",
                "DATA/workspaces/job/tree:/workspace:rw,Z",
                "DATA/mirrors/a/objects:DATA/mirrors/a/objects:ro,z",
                "DATA/workspaces/job/commit:DATA/workspaces/job/commit:rw,Z",
            ]
        );
        // Folders of administrators keep their label, and the text of a bind mount cannot have a path with a colon.
        assert_eq!(mounts, ["/opt/tools", "/opt/agent", "DATA/a:b"]);
    }

    #[test]
    fn without_selinux_nothing_is_relabeled() {
        for (security, expected) in [
            (Security::Absent, vec!["no-new-privileges"]),
            (Security::TurnedOff, vec!["no-new-privileges", "label=disable"]),
        ] {
            let (options, binds, mounts) = ordered(security);
            assert_eq!(options, expected);
            assert!(binds.is_empty(), "{binds:?}");
            assert_eq!(mounts.len(), 12, "{mounts:?}");
        }
    }
}
