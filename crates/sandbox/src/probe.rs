//! Runs a real sandbox of a back end and looks at what holds in it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use journeyman_core::ports::{Exhausted, Guarantee, Resources, Sandbox, Spawn, Spawned};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::cgroup::Controller;
use crate::inspect::{self, Findings, Task};
use crate::{DISK_NOTE, GUARANTEES};

/// Memory that the probe may use, and tries to: half of it more.
const MEMORY: u64 = 256 << 20;

/// Threads that it may have.
const PROCESSES: u32 = 48;

/// The disk limit of the probe in bytes, if the kernel counts them, and the number of bytes that the probe tries to
/// write.
const DISK: u64 = 1 << 20;
const TOO_MUCH_DISK: u64 = 4 << 20;

/// How long it may take.
const TIME: Duration = Duration::from_secs(60);

/// How it is mended where a folder is closed.
const PASS: &str = "the users that sandboxes have must be able to pass all folders above the data directory (chmod o+x): \
                    choose another data-dir, such as /var/lib/journeyman";

/// How limits are mended.
const GROUPS: &str = "no control group can be created for sandboxes; start the service with systemd-run --user --scope \
                      --property=Delegate=yes journeyman serve, or install a unit with Delegate=yes \
                      (docs/install.md), or run the service as root";

/// The remedy for a sandbox that fails with ENOSYS.
const NO_SYSTEM_CALL: &str = "the kernel, or the container that the service runs in, does not have a system call that \
                              sandboxes need: use Linux 5.10 or later, run the service outside of that container, or \
                              set sandbox = \"container\" with Docker or Podman";

/// What a back end tells of itself.
pub(crate) struct Trial<'a> {
    pub(crate) back_end: &'a dyn Sandbox,
    /// This program, with the words before it that start it inside.
    pub(crate) program: Vec<String>,
    /// A folder of the probe's own.
    pub(crate) folder: PathBuf,
    /// What programs must not see.
    pub(crate) hidden: Vec<PathBuf>,
    /// Whose limits there are groups for.
    pub(crate) limits: &'a (dyn Fn(Controller) -> bool + Send + Sync),
    /// Whether each workspace has a user of its own.
    pub(crate) has_users: bool,
    /// How it is mended where no sandbox comes about.
    pub(crate) mend: &'static str,
}

/// What the back end promises, as it was found.
pub(crate) async fn probe(trial: &Trial<'_>) -> Vec<Guarantee> {
    match tokio::time::timeout(TIME, look(trial)).await {
        Ok(Ok((findings, exhausted))) => judge(trial, &findings, exhausted),
        Ok(Err(detail)) => none_holds(trial, &detail),
        Err(_) => none_holds(trial, "it takes longer than a minute"),
    }
}

/// Returns the remedy for a failure to create a sandbox; `usual` is that of the back end.
fn mend<'a>(detail: &str, usual: &'a str) -> &'a str {
    match detail {
        _ if detail.contains("Function not implemented") || detail.contains("os error 38") => NO_SYSTEM_CALL,
        _ if detail.contains("Permission denied") => PASS,
        _ => usual,
    }
}

/// Returns all guarantees as not held, for a back end that cannot make a sandbox.
pub(crate) fn none_holds(trial: &Trial<'_>, detail: &str) -> Vec<Guarantee> {
    let mend = mend(detail, trial.mend);
    let note = format!("{detail}; {mend}");
    GUARANTEES.into_iter().map(|name| Guarantee { name, holds: false, note: note.clone() }).collect()
}

async fn look(trial: &Trial<'_>) -> Result<(Findings, Option<Exhausted>), String> {
    let text = |error: std::io::Error| error.to_string();
    // On the host's loopback, where nothing from a sandbox may come.
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
    hear(spawned).await
}

async fn hear(spawned: Spawned) -> Result<(Findings, Option<Exhausted>), String> {
    let Spawned { stdin, stdout, stderr, mut process, .. } = spawned;
    drop(stdin);
    let (mut said, mut complaint) = (String::new(), String::new());
    let read = async {
        let (mut stdout, mut stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
        tokio::try_join!(stdout.read_to_string(&mut said), stderr.read_to_string(&mut complaint))
    };
    read.await.map_err(|error| error.to_string())?;
    let exit = process.wait().await;
    let exhausted = process.exhausted();
    process.end().await;
    let findings = serde_json::from_str(&said).map_err(|_| format!("it ended with {exit}: {}", complaint.trim()))?;
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
            (true, false) => "a control group was made, but its limit was not kept".to_owned(),
            (false, _) => GROUPS.to_owned(),
        };
        Guarantee { name, holds: has && seen, note }
    };
    let told = |name, holds, good: &str, bad: String| Guarantee {
        name,
        holds,
        note: if holds { good.to_owned() } else { bad },
    };
    vec![
        told(
            "files",
            found.seen.is_empty() && found.writable.is_empty() && found.has_workspace,
            "the system's programs read-only, the workspace and the home, nothing else of the host",
            format!(
                "seen: {:?}, writable: {:?}, workspace writable: {}",
                found.seen, found.writable, found.has_workspace
            ),
        ),
        told(
            "network",
            !found.reached && found.interfaces == ["lo"],
            "a loopback of its own and nothing else",
            format!("the host's loopback was reached: {}, interfaces: {:?}", found.reached, found.interfaces),
        ),
        told(
            "environment",
            found.first_environment.as_deref().is_none_or(str::is_empty),
            "nothing of the service's environment is there",
            "the environment of the first process can be read".to_owned(),
        ),
        // The kernel ends a namespace of processes with its first one, which has ended here: else we would wait still.
        told(
            "lifetime",
            true,
            if (trial.limits)(Controller::Freezer) {
                "all processes end with the run, or are frozen between turns"
            } else {
                "all processes end with the run; no agent is kept between turns, because no control group that can be \
                 frozen can be created"
            },
            String::new(),
        ),
        told(
            "privileges",
            no_privileges,
            if trial.has_users { "none, and a user of its own on the host" } else { "none" },
            format!("its state is {:?}", found.status),
        ),
        told(
            "system-calls",
            status("Seccomp") == "2",
            "only those that programs need",
            "no filter is set; the kernel must have CONFIG_SECCOMP_FILTER".to_owned(),
        ),
        limits(Controller::Memory, exhausted == Some(Exhausted::Memory), "memory", "limited, and its end is told"),
        limits(
            Controller::Processes,
            found.threads < PROCESSES as usize,
            "process-count",
            "limited, and its end is told",
        ),
        limits(Controller::Cpu, true, "cpu", "limited"),
        Guarantee { name: "disk", holds: true, note: disk_note(found.has_quota, trial.has_users) },
    ]
}

/// Describes who enforces disk limits, and how to have the kernel enforce them.
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
    fn the_remedy_fits_the_failure() {
        for (detail, expected) in [
            ("Function not implemented (os error 38)", NO_SYSTEM_CALL),
            ("bwrap: Creating new namespace failed: Function not implemented", NO_SYSTEM_CALL),
            ("bwrap: Can't find source path /root/x: Permission denied", PASS),
            ("the program bwrap was not found", "usual"),
        ] {
            assert_eq!(mend(detail, "usual"), expected, "{detail}");
        }
    }
}
