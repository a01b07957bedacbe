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
}

/// Returns the description of an order's container for an engine, without the limits that the engine does not support.
pub(super) fn body(owner: &str, info: &EngineInfo, order: &Order<'_>) -> ContainerCreateBody {
    let Order { image, spawn, user: (user, group), readable, runtime, socket, .. } = order;
    let inside = format!("{}/{}", shim_socket::INSIDE, shim_socket::SOCKET);
    let entrypoint = runtime.command_line().into_iter().chain([SUBCOMMAND.to_owned(), inside]).collect();
    let limits = info.limits(&spawn.resources);
    let mut mounts = vec![
        mount(&runtime.folder, runtime::INSIDE, true),
        mount(&runtime.folder.join("nothing"), "/etc/ld.so.preload", true),
        mount(socket.folder(), shim_socket::INSIDE, true),
        mount(&socket.file("passwd"), "/etc/passwd", true),
        mount(&socket.file("group"), "/etc/group", true),
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
        // An image's health check would run next to the shim, and not as its descendant.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        labels: Some(HashMap::from([(LABEL.to_owned(), owner.to_owned())])),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned(), "label=disable".to_owned()]),
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
