//! Tests that no core dump contains the keys and passwords in the memory of the program.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use journeyman_testkit::until;

use super::fixtures::site;
use crate::binary::program;

#[test]
fn the_service_leaves_no_core_dump_whatever_its_limit_was() {
    let site = site();
    let mut wrapper = Command::new("sh");
    // The hard limit of this machine may be lower than "unlimited".
    wrapper.args(["-c", "ulimit -S -c $(ulimit -H -c); exec \"$@\"", "sh"]);
    let service = site.start_wrapped(wrapper);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", service.id())).unwrap();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>(), ["0", "0", "bytes"]);
    // A sandbox can still be created, and a turn runs.
    let job = service.create("[[run sh -c 'ulimit -c' > limit.txt]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{}", service.log());
    assert_eq!(site.file(&site.branch(), "limit.txt").as_deref(), Some("0\n"));
}

/// Returns a command that runs a program as an ordinary user.
fn as_user(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", program]);
    command
}

#[test]
fn other_processes_of_the_user_cannot_read_the_memory_of_a_command() {
    let mut command = as_user(program());
    command.args(["credential", "get"]);
    for (name, command, is_root_s) in [("cat", &mut as_user("/bin/cat"), false), ("journeyman", &mut command, true)] {
        // It waits for its input.
        let mut child = command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let folder = PathBuf::from(format!("/proc/{}", child.id()));
        let comm = format!("{name}\n");
        until(name, || std::fs::read_to_string(folder.join("comm")).is_ok_and(|found| found == comm).then_some(()));
        // The files in /proc of a process that is not dumpable belong to root (proc(5)).
        let belongs_to_root = || folder.join("environ").metadata().unwrap().uid() == 0;
        until(name, || (belongs_to_root() == is_root_s).then_some(()));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "{name}");
    }
}
