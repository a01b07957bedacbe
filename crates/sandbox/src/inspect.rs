//! What a program sees and may do where it is: the inside of a probe. It runs as `journeyman sandbox-inspect` in a sandbox
//! that the probe has made, tries, and prints what it found.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The argument that makes this program look around.
pub(crate) const SUBCOMMAND: &str = "sandbox-inspect";

/// What to try.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Files of the host that must not be seen.
    pub(crate) hidden: Vec<PathBuf>,
    /// Somebody listens here on the host's loopback.
    pub(crate) port: u16,
    /// Threads to start; fewer must come.
    pub(crate) threads: usize,
    /// Bytes of memory to fill; it must not get that far.
    pub(crate) memory_bytes: usize,
    /// The number of bytes to write to the workspace, the last of which the kernel must refuse; `None` if it is known
    /// that the kernel does not.
    pub(crate) disk_bytes: Option<u64>,
}

/// What was found, before memory is tried.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Files of the host that can be seen.
    pub(crate) seen: Vec<PathBuf>,
    /// Folders of the system that can be written.
    pub(crate) writable: Vec<PathBuf>,
    /// Whether the workspace can be written.
    pub(crate) has_workspace: bool,
    /// Whether the host's loopback was reached.
    pub(crate) reached: bool,
    /// Network interfaces.
    pub(crate) interfaces: Vec<String>,
    /// What /proc/1/environ says, if it may be read.
    pub(crate) first_environment: Option<String>,
    /// Of /proc/self/status.
    pub(crate) status: Vec<String>,
    /// Threads that came.
    pub(crate) threads: usize,
    /// Whether the kernel refused to exceed the disk quota.
    pub(crate) has_quota: bool,
}

/// Looks around if the arguments say so.
pub(crate) fn run(task: &str) -> ExitCode {
    let looked = serde_json::from_str(task).map_err(io::Error::other).and_then(|task: Task| {
        let findings = serde_json::to_string(&look(&task))?;
        writeln!(io::stdout(), "{findings}")?;
        Ok(fill(task.memory_bytes))
    });
    match looked {
        // Somebody has to read the sum, or nothing need be filled.
        Ok(sum) if sum > 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn look(task: &Task) -> Findings {
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
    }
}

/// Returns whether this many bytes exceed the user's disk quota here.
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

/// Starts threads that wait; how many came.
fn start(threads: usize) -> usize {
    let wait = || std::thread::sleep(Duration::from_secs(60));
    (0..threads).take_while(|_| std::thread::Builder::new().stack_size(64 << 10).spawn(wait).is_ok()).count()
}

/// Takes memory page by page.
fn fill(bytes: usize) -> usize {
    let mut memory = vec![0_u8; bytes];
    memory.iter_mut().step_by(4096).for_each(|page| *page = 1);
    memory.iter().step_by(4096).map(|page| usize::from(*page)).sum()
}
