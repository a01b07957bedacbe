//! Probes a back end: runs a program in a real sandbox, and checks each guarantee there.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use journeyman_core::ports::{Exhausted, Sandbox, Spawn, Spawned};
use journeyman_core::project::Resources;
use journeyman_core::worker::Guarantee;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::cgroup::Controller;
use crate::inspect::{self, Findings, Task};
use crate::users::Users;
use crate::{DISK_NOTE, GUARANTEES};

/// The probe's memory limit in bytes. The probe tries to fill half as much again.
const MEMORY: u64 = 96 << 20;

/// The probe's limit of threads. The probe tries to start 16 more.
const PROCESSES: u32 = 48;

/// The probe's disk limit in bytes, and the number of bytes that it tries to write if the kernel counts them.
const DISK: u64 = 1 << 20;
const TOO_MUCH_DISK: u64 = 4 << 20;

/// The time limit of a probe.
const TIME: Duration = Duration::from_secs(60);

/// The remedy if the users of sandboxes cannot traverse a folder.
const FOLDER_REMEDY: &str = "the users of sandboxes must be able to traverse all folders above the data directory; run \
                             chmod o+x on these folders, or choose another data-dir, such as /var/lib/journeyman";

/// The remedy if limits cannot be enforced.
const LIMITS_REMEDY: &str = "no control group can be created for sandboxes; start the service with systemd-run --user \
                             --scope --property=Delegate=yes journeyman serve, or install a unit with Delegate=yes \
                             (docs/install.md), or run the service as root";

/// The remedy for a sandbox that fails with ENOSYS.
const KERNEL_REMEDY: &str = "the kernel, or the container that the service runs in, does not have a system call that \
                             sandboxes need; use Linux 5.10 or later, run the service outside of that container, or \
                             set sandbox = \"container\" with Docker or Podman";

/// The properties of a back end that a probe needs.
pub(crate) struct Trial<'a> {
    pub(crate) back_end: &'a dyn Sandbox,
    /// The command line that starts this program in a sandbox.
    pub(crate) program: Vec<String>,
    /// A folder that only the probe uses.
    pub(crate) folder: PathBuf,
    /// The files and folders of the host that programs must not see.
    pub(crate) hidden: Vec<PathBuf>,
    /// Returns whether the back end has control groups with a controller.
    pub(crate) limits: &'a (dyn Fn(Controller) -> bool + Send + Sync),
    /// The users of workspaces, if each workspace has a separate user.
    pub(crate) users: Option<&'a Users>,
    /// The remedy if no sandbox can be created.
    pub(crate) remedy: &'static str,
}

/// Probes a back end; returns its guarantees.
pub(crate) async fn probe(trial: &Trial<'_>) -> Vec<Guarantee> {
    match tokio::time::timeout(TIME, try_sandbox(trial)).await {
        Ok(Ok((findings, exhausted))) => {
            if let Some(users) = trial.users {
                users.set_enforces(findings.has_quota);
            }
            judge(trial, &findings, exhausted)
        }
        Ok(Err(detail)) => none_holds(trial, &detail),
        Err(_) => none_holds(trial, "the probe did not end within a minute"),
    }
}

/// Returns the remedy for a failure to create a sandbox; `usual` is that of the back end.
fn remedy<'a>(detail: &str, usual: &'a str) -> &'a str {
    match detail {
        _ if detail.contains("Function not implemented") || detail.contains("os error 38") => KERNEL_REMEDY,
        // The engine's socket has its own remedy, which the detail names.
        _ if detail.contains("Permission denied") && !detail.contains("the container engine at ") => FOLDER_REMEDY,
        _ => usual,
    }
}

/// Returns all guarantees as not held, for a back end that cannot make a sandbox.
pub(crate) fn none_holds(trial: &Trial<'_>, detail: &str) -> Vec<Guarantee> {
    let remedy = remedy(detail, trial.remedy);
    let note = format!("{detail}; {remedy}");
    GUARANTEES.into_iter().map(|name| Guarantee { name, holds: false, note: note.clone() }).collect()
}

async fn try_sandbox(trial: &Trial<'_>) -> Result<(Findings, Option<Exhausted>), String> {
    let text = |error: std::io::Error| error.to_string();
    // A sandbox must not reach this listener on the host's loopback.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port();
    let (workspace, home) = (trial.folder.join("tree"), trial.folder.join("home"));
    for dir in [&workspace, &home] {
        std::fs::create_dir_all(dir).map_err(text)?;
    }
    std::fs::set_permissions(&trial.folder, std::fs::Permissions::from_mode(0o755)).map_err(text)?;
    let folders = [workspace.clone(), home.clone()];
    trial.back_end.adopt(&folders).await.map_err(|error| error.to_string())?;
    // If the kernel does not count disk space, there is nothing to try.
    let is_counted = trial.back_end.disk_usage(&workspace).await.is_some();
    let task = Task {
        hidden: trial.hidden.clone(),
        port,
        threads: PROCESSES as usize + 16,
        memory_bytes: usize::try_from(MEMORY / 2 * 3).unwrap_or_default(),
        disk_bytes: is_counted.then_some(TOO_MUCH_DISK),
    };
    let task = serde_json::to_string(&task).map_err(|error| error.to_string())?;
    let spawn = Spawn {
        argv: trial.program.iter().cloned().chain([inspect::SUBCOMMAND.to_owned(), task]).collect(),
        environment: BTreeMap::new(),
        workspace,
        home,
        resources: Resources {
            memory_bytes: Some(MEMORY),
            processes: Some(PROCESSES),
            cpu_millis: Some(8000),
            file_bytes: None,
            disk_bytes: Some(DISK),
        },
        ..Spawn::default()
    };
    let spawned = trial.back_end.spawn(spawn).await.map_err(|error| error.to_string())?;
    read_findings(spawned).await
}

async fn read_findings(spawned: Spawned) -> Result<(Findings, Option<Exhausted>), String> {
    let Spawned { stdin, stdout, stderr, mut process, .. } = spawned;
    drop(stdin);
    let (mut output, mut complaint) = (String::new(), String::new());
    let read = async {
        let (mut stdout, mut stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
        tokio::try_join!(stdout.read_to_string(&mut output), stderr.read_to_string(&mut complaint))
    };
    read.await.map_err(|error| error.to_string())?;
    let exit = process.wait().await;
    let exhausted = process.exhausted();
    process.end().await;
    let findings =
        serde_json::from_str(&output).map_err(|_| format!("the probe ended with {exit}: {}", complaint.trim()))?;
    Ok((findings, exhausted))
}

fn judge(trial: &Trial<'_>, found: &Findings, exhausted: Option<Exhausted>) -> Vec<Guarantee> {
    let status = |field: &str| {
        let value = found.status.iter().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.map_or("", str::trim)
    };
    let no_capability = ["CapPrm", "CapEff", "CapBnd", "CapAmb"].iter().all(|set| is_zero(status(set)));
    let no_privileges = no_capability && status("NoNewPrivs") == "1";
    let limits = |controller, seen: bool, name, holds: &str| {
        let has = (trial.limits)(controller);
        let note = match (has, seen) {
            (true, true) => holds.to_owned(),
            (true, false) => "a control group was created, but the kernel did not enforce its limit".to_owned(),
            (false, _) => LIMITS_REMEDY.to_owned(),
        };
        Guarantee { name, holds: has && seen, note }
    };
    let checked = |name, holds, good: &str, bad: String| Guarantee {
        name,
        holds,
        note: if holds { good.to_owned() } else { bad },
    };
    vec![
        checked(
            "files",
            found.seen.is_empty() && found.writable.is_empty() && found.has_workspace,
            files_note(found.has_landlock),
            format!(
                "seen: {:?}, writable: {:?}, workspace writable: {}",
                found.seen, found.writable, found.has_workspace
            ),
        ),
        checked(
            "network",
            !found.reached && found.interfaces == ["lo"],
            "a separate loopback interface and nothing else",
            format!("the host's loopback was reached: {}, interfaces: {:?}", found.reached, found.interfaces),
        ),
        checked(
            "environment",
            found.first_environment.as_deref().is_none_or(str::is_empty),
            "nothing of the service's environment is passed on",
            "the environment of the first process can be read".to_owned(),
        ),
        // The kernel ends a PID namespace with its first process. That process has exited: otherwise this probe would
        // still wait.
        checked(
            "lifetime",
            true,
            if (trial.limits)(Controller::Freezer) {
                "all processes end with the run, or are frozen between turns"
            } else {
                "all processes end with the run; no idle agent is kept between turns, because no control group with a \
                 freezer can be created"
            },
            String::new(),
        ),
        checked(
            "privileges",
            no_privileges,
            if trial.users.is_some() { "none, and each workspace has a separate user on the host" } else { "none" },
            format!("the status of the probe is {:?}", found.status),
        ),
        checked(
            "system-calls",
            status("Seccomp") == "2",
            "only the calls that programs need",
            "no filter is set; the kernel must have CONFIG_SECCOMP_FILTER".to_owned(),
        ),
        limits(Controller::Memory, exhausted == Some(Exhausted::Memory), "memory", "limited; reported when reached"),
        limits(
            Controller::Processes,
            found.threads < PROCESSES as usize,
            "process-count",
            "limited; reported when reached",
        ),
        limits(Controller::Cpu, true, "cpu", "limited"),
        Guarantee { name: "disk", holds: true, note: disk_note(found.has_quota, trial.users.is_some()) },
    ]
}

/// Returns the note about files: whether only the mounts enforce the access, or Landlock too.
fn files_note(has_landlock: bool) -> &'static str {
    if has_landlock {
        "the system's programs (read-only), the workspace and the home, and nothing else of the host"
    } else {
        "the system's programs (read-only), the workspace and the home, and nothing else of the host; only the mounts \
         enforce this, because the kernel has no Landlock (Linux 5.13 or later, CONFIG_SECURITY_LANDLOCK, and \
         \"landlock\" in the list lsm= of the kernel's command line)"
    }
}

/// Returns the note about disk limits: whether the kernel enforces them, and how to make it do so.
fn disk_note(has_quota: bool, has_users: bool) -> String {
    if has_quota {
        return "enforced by the kernel (user quota)".to_owned();
    }
    let root = if has_users { "" } else { "run the service as root, and " };
    format!(
        "{DISK_NOTE}. To have the kernel enforce the limit, {root}mount the file system of the data directory with \
         user quotas: ext4 with the feature quota (tune2fs -O quota, unmounted) and the mount option usrquota, XFS \
         with the mount option uquota"
    )
}

fn is_zero(hexadecimal: &str) -> bool {
    !hexadecimal.is_empty() && hexadecimal.bytes().all(|digit| digit == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_landlock_is_told() {
        assert!(!files_note(true).contains("Landlock"));
        assert!(files_note(false).contains("only the mounts enforce this"));
        assert!(files_note(false).starts_with(files_note(true)));
    }

    #[test]
    fn the_remedy_fits_the_failure() {
        for (detail, expected) in [
            ("Function not implemented (os error 38)", KERNEL_REMEDY),
            ("bwrap: Creating new namespace failed: Function not implemented", KERNEL_REMEDY),
            ("bwrap: Can't find source path /root/x: Permission denied", FOLDER_REMEDY),
            ("the container engine at /run/docker.sock does not answer: Permission denied (os error 13)", "usual"),
            ("the program bwrap was not found", "usual"),
        ] {
            assert_eq!(remedy(detail, "usual"), expected, "{detail}");
        }
    }
}
