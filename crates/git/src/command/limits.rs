//! Limits of every git process: memory, processor time, threads.
//!
//! A few hundred bytes of a pack can describe gigabytes (a chain of deltas), and the service reads repositories that
//! others have written. The limits are resource limits of the process, which its children inherit.
//!
//! - Memory is `RLIMIT_DATA`: it counts git's allocations, but not the packs that git maps into its address space,
//!   which may be larger than any limit on `RLIMIT_AS`.
//! - Processor time is `RLIMIT_CPU`, twice the timeout of the command. It also ends a git server process that computes
//!   forever while it sends its client a keepalive every five seconds.
//! - `RLIMIT_NPROC` is not used: it counts all processes of a user, and does not apply to root. [`CONFIG`] bounds the
//!   number of processes and threads, because no hook, filter or other program of a repository runs.
//!
//! Many git processes together may still need more memory than the machine has. Then the kernel ends one of them, before
//! the service or a database ([`OOM_SCORE`]).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// The default memory limit of a git process.
pub(super) const MEMORY_BYTES: u64 = 2 << 30;

/// The smallest processor time limit of a command.
const MIN_CPU: Duration = Duration::from_secs(10);

/// The thousandths of the machine's memory that a git process seems to use in addition when the kernel looks for a process
/// to end, because there is no memory left (`oom_score_adj` in proc(5)). All that git does can be repeated.
const OOM_SCORE: i32 = 500;

/// The number of seconds between the signal at the processor time limit and the kill.
const CPU_GRACE: u64 = 5;

/// Settings that bound the memory, the threads and the input of git's own algorithms.
pub(super) const CONFIG: &[(&str, &str)] = &[
    // Larger files are streamed instead of being held in memory.
    ("core.bigFileThreshold", "32m"),
    ("pack.threads", "2"),
    ("pack.windowMemory", "256m"),
    // Packs stay packs. By default git unpacks small ones, and a megabyte of them can describe a hundred files of a
    // gigabyte each.
    ("receive.unpackLimit", "1"),
    ("fetch.unpackLimit", "1"),
    // Limits for pushes to the built-in code host.
    ("receive.fsckObjects", "true"),
    ("receive.maxInputSize", "2g"),
];

/// Subcommands that start no other process: their limits are set from outside, right after the start, which avoids the
/// start of another program. All others start under `prlimit`, so that no child escapes the limits.
const SINGLE: &[&str] = &[
    "cat-file",
    "commit-tree",
    "config",
    "diff-tree",
    "for-each-ref",
    "hash-object",
    "index-pack",
    "init",
    "log",
    "ls-tree",
    "merge-base",
    "merge-tree",
    "rev-list",
    "rev-parse",
    "symbolic-ref",
    "unpack-objects",
    "update-ref",
];

/// The limits of one command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    memory_bytes: u64,
    cpu_seconds: u64,
}

impl Limits {
    pub(super) fn new(memory_bytes: u64, timeout: Duration) -> Self {
        Self { memory_bytes, cpu_seconds: (timeout * 2).max(MIN_CPU).as_secs() }
    }

    /// Returns whether a command with these arguments must start under `prlimit`.
    pub(super) fn needs_wrapper(arguments: &[OsString]) -> bool {
        !arguments.first().is_some_and(|name| SINGLE.iter().any(|single| name == single))
    }

    /// Returns the options of `prlimit` for these limits.
    pub(super) fn options(self) -> [String; 3] {
        let cpu = format!("--cpu={}:{}", self.cpu_seconds, self.cpu_seconds + CPU_GRACE);
        [format!("--data={0}:{0}", self.memory_bytes), cpu, "--core=0:0".to_owned()]
    }

    /// Applies the limits to a process that was just started.
    pub(super) fn apply(self, process: Pid) -> io::Result<()> {
        let all = [
            (Resource::Data, self.memory_bytes, self.memory_bytes),
            (Resource::Cpu, self.cpu_seconds, self.cpu_seconds + CPU_GRACE),
            (Resource::Core, 0, 0),
        ];
        for (resource, soft, hard) in all {
            match prlimit(Some(process), resource, Rlimit { current: Some(soft), maximum: Some(hard) }) {
                // The process has already ended.
                Err(rustix::io::Errno::SRCH) => return Ok(()),
                set => set?,
            };
        }
        // Without /proc, the kernel chooses as it does for other processes.
        let _ = raise_oom_score(process);
        Ok(())
    }

    /// Returns the error text for a process that used up its processor time.
    pub(super) fn cpu_used_up(self) -> String {
        format!("it used more than {} seconds of processor time", self.cpu_seconds)
    }
}

/// Sets the score of a process to [`OOM_SCORE`], if it is not higher. Its children inherit it.
fn raise_oom_score(process: Pid) -> io::Result<()> {
    let path = format!("/proc/{}/oom_score_adj", process.as_raw_nonzero());
    let score: i32 = fs::read_to_string(&path)?.trim().parse().map_err(io::Error::other)?;
    if score < OOM_SCORE { fs::write(path, OOM_SCORE.to_string()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use crate::{Failure, Git, GitError, Runner};

    fn git(program: &str) -> Git {
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        Git::new(Runner { program: program.into(), path, environment: vec![], askpass: None })
    }

    /// A pack of 200 bytes that describes a file of 2.5 GB: a file of zeros, and a delta of a delta that repeats it.
    const DELTA_BOMB: &str = include_str!("limits/delta-bomb.hex");

    fn bomb() -> Vec<u8> {
        let digits: Vec<u8> = DELTA_BOMB.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    async fn error_of(dir: &Path, arguments: &[&str]) -> GitError {
        let repository = dir.join("r.git");
        git("git").at(&repository, ["init", "--quiet", "--bare"]).run().await.unwrap();
        git("git").at(&repository, arguments).stdin(bomb()).run().await.unwrap_err()
    }

    #[tokio::test]
    async fn a_small_pack_that_describes_gigabytes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        // The error message serves as the control: git requested the memory and did not get it.
        for arguments in [&["unpack-objects", "-q", "--strict"][..], &["index-pack", "--stdin", "--strict"]] {
            let error = error_of(dir.path(), arguments).await;
            assert!(error.to_string().contains("tried to allocate 2506713751 bytes"), "{error}");
            assert_eq!(error.failure(), Failure::TooLarge);
        }
    }

    #[tokio::test]
    async fn every_command_and_its_children_have_limits() {
        // Runs a shell instead of git, with both ways of setting limits. Its input is written when they are set.
        let (script, go) =
            ("read -r go; sh -c 'ulimit -d; ulimit -t; ulimit -c; cat /proc/self/oom_score_adj'", b"go\n".to_vec());
        let wrapped = git("sh").command(["-c", script]).stdin(go.clone()).run().await.unwrap().text().unwrap();
        assert_eq!(wrapped, "2097152\n600\n0\n500");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("log"), script).unwrap();
        let in_file = || git("sh").command(["log"]).directory(dir.path()).stdin(go.clone());
        assert_eq!(in_file().run().await.unwrap().text().unwrap(), "2097152\n600\n0\n500");
        let smaller = in_file().memory_bytes(1 << 20).timeout(Duration::from_secs(250));
        assert_eq!(smaller.run().await.unwrap().text().unwrap(), "1024\n500\n0\n500");
    }

    #[tokio::test]
    async fn a_command_with_low_priority_and_its_children_go_last() {
        for arguments in [["-c", "nice; ionice"], ["log", "nice; ionice"]] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("log"), arguments[1]).unwrap();
            let command = git("sh").command(arguments).directory(dir.path()).low_priority();
            let output = command.run().await.unwrap().text().unwrap();
            assert!(output.starts_with("19\nidle"), "{output}");
        }
        let usual = git("sh").command(["-c", "nice"]).run().await.unwrap().text().unwrap();
        assert_ne!(usual, "19", "the control");
    }

    #[tokio::test]
    async fn a_command_that_exceeds_its_processor_time_says_so() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("log"), "kill -XCPU $$").unwrap();
        let error = git("sh").command(["log"]).directory(dir.path()).run().await.unwrap_err();
        assert!(error.to_string().contains("more than 600 seconds of processor time"), "{error}");
        assert_eq!(error.failure(), Failure::TooLarge);
    }
}
