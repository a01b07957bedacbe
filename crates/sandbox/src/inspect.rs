//! The part of a probe that runs in the sandbox, as `journeyman sandbox-inspect`: tries what a program can see and do
//! there, and prints its findings.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use serde::{Deserialize, Serialize};

/// The argument that makes this program inspect its sandbox.
pub(crate) const SUBCOMMAND: &str = "sandbox-inspect";

/// The checks that a probe makes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Files of the host that must not be seen.
    pub(crate) hidden: Vec<PathBuf>,
    /// A port on the host's loopback on which the probe listens.
    pub(crate) port: u16,
    /// The number of threads to start; the sandbox must allow fewer.
    pub(crate) threads: usize,
    /// The number of bytes of memory to fill; the sandbox must allow fewer.
    pub(crate) memory_bytes: usize,
    /// The number of bytes to write to the workspace, which the kernel must not allow; `None` if it is known that the
    /// kernel enforces no quota.
    pub(crate) disk_bytes: Option<u64>,
}

/// The findings of all checks except the one of memory, which comes after them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Files of the host that can be seen.
    pub(crate) seen: Vec<PathBuf>,
    /// Folders of the system that can be written.
    pub(crate) writable: Vec<PathBuf>,
    /// `true` if the workspace can be written.
    pub(crate) has_workspace: bool,
    /// `true` if the host's loopback was reached.
    pub(crate) reached: bool,
    /// The names of the network interfaces.
    pub(crate) interfaces: Vec<String>,
    /// The content of `/proc/1/environ`, if it can be read.
    pub(crate) first_environment: Option<String>,
    /// The lines of `/proc/self/status`.
    pub(crate) status: Vec<String>,
    /// The number of threads that could be started.
    pub(crate) threads: usize,
    /// `true` if the kernel refused to exceed the disk quota.
    pub(crate) has_quota: bool,
    /// `true` if the kernel has Landlock.
    pub(crate) has_landlock: bool,
}

/// Makes the checks of `task`, prints the findings, and then fills memory.
pub(crate) fn run(task: &str) -> ExitCode {
    let result = serde_json::from_str(task).map_err(io::Error::other).and_then(|task: Task| {
        let findings = serde_json::to_string(&inspect(&task))?;
        writeln!(io::stdout(), "{findings}")?;
        Ok(fill(task.memory_bytes))
    });
    match result {
        // The sum is used, so that the compiler does not remove the writes.
        Ok(sum) if sum > 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn inspect(task: &Task) -> Findings {
    let can_write = |dir: &PathBuf| {
        let file = dir.join(".journeyman-probe");
        let made = OpenOptions::new().write(true).create(true).truncate(true).open(&file).is_ok();
        let _ = std::fs::remove_file(file);
        made
    };
    let system = ["/usr", "/etc", "/", "/run", "/dev", "/proc/sys/kernel"].map(PathBuf::from);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, task.port));
    Findings {
        seen: task.hidden.iter().filter(|path| path.symlink_metadata().is_ok()).cloned().collect(),
        writable: system.into_iter().filter(can_write).collect(),
        has_workspace: can_write(&PathBuf::from(".")),
        reached: TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok(),
        interfaces: interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect(),
        first_environment: std::fs::read_to_string("/proc/1/environ").ok(),
        status: status.lines().map(str::to_owned).collect(),
        threads: start(task.threads),
        has_quota: task.disk_bytes.is_some_and(has_quota),
        has_landlock: has_landlock(),
    }
}

/// Returns whether the kernel has Landlock: a set of rules can be created. (A kernel without it answers with an error,
/// which the shim ignores.)
fn has_landlock() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessFs::Execute).and_then(Ruleset::create).is_ok()
}

/// Returns whether the kernel refuses to let the user own this many bytes here.
fn has_quota(bytes: u64) -> bool {
    const PIECE: usize = 64 << 10;
    let name = ".journeyman-probe-disk";
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(name)?;
        (0..bytes).step_by(PIECE).try_for_each(|_| file.write_all(&[0; PIECE]))
    };
    let refused = write().is_err_and(|error: io::Error| error.kind() == io::ErrorKind::QuotaExceeded);
    let _ = std::fs::remove_file(name);
    refused
}

/// Starts threads that sleep; returns the number that could be started.
fn start(threads: usize) -> usize {
    let wait = || std::thread::sleep(Duration::from_secs(60));
    (0..threads).take_while(|_| std::thread::Builder::new().stack_size(64 << 10).spawn(wait).is_ok()).count()
}

/// Fills memory page by page; returns the number of pages.
fn fill(bytes: usize) -> usize {
    let mut memory = vec![0_u8; bytes];
    memory.iter_mut().step_by(4096).for_each(|page| *page = 1);
    memory.iter().step_by(4096).map(|page| usize::from(*page)).sum()
}
