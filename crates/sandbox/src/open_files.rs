//! Counts the disk space of removed files that processes still have open or mapped. A walk over folders does not find
//! these files, and the kernel frees them when the last process closes them.
//!
//! Two kinds of files are not found: files whose only descriptor is in flight through a socket (unix(7), `SCM_RIGHTS`),
//! and, if the service runs as an ordinary user, files that are only mapped and files of processes that have made
//! themselves unreadable (`PR_SET_DUMPABLE`).

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// The unit of `st_blocks` (stat(3type)).
const BLOCK_BYTES: u64 = 512;

/// Returns the bytes of all files on `device` that no longer have a name and are open or mapped in one of the
/// processes. Each file counts once. Processes may end in the meantime.
pub(crate) fn deleted_bytes(processes: &[Pid], device: u64) -> u64 {
    let mut files = Files { device, seen: HashSet::new(), bytes: 0 };
    for pid in processes {
        let process = PathBuf::from(format!("/proc/{}", pid.as_raw_pid()));
        // A thread may have a separate descriptor table.
        for thread in entries(&process.join("task")) {
            for descriptor in entries(&thread.join("fd")) {
                files.add(&descriptor);
            }
        }
        let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
        for range in maps.lines().filter(|line| line.ends_with(" (deleted)")).filter_map(range_of) {
            files.add(&process.join("map_files").join(range));
        }
    }
    files.bytes
}

/// Returns the name in `map_files` of the range in a line of `maps`: there the numbers have no leading zeros.
fn range_of(line: &str) -> Option<String> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some(format!("{}-{}", from.trim_start_matches('0'), to.trim_start_matches('0')))
}

/// A count of files without a name, each counted once.
struct Files {
    device: u64,
    seen: HashSet<u64>,
    bytes: u64,
}

impl Files {
    fn add(&mut self, link: &Path) {
        // The link of a descriptor leads to the open file itself, even if another file has its path now
        // (proc_pid_fd(5)).
        let is_deleted = |meta: &Metadata| meta.nlink() == 0 && meta.dev() == self.device;
        if let Some(meta) = std::fs::metadata(link).ok().filter(is_deleted)
            && self.seen.insert(meta.ino())
        {
            self.bytes += meta.blocks() * BLOCK_BYTES;
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use journeyman_testkit::until;

    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_removed_file_that_is_only_mapped_counts() {
        if !rustix::process::geteuid().is_root() {
            // Only root may read `map_files`.
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().metadata().unwrap().dev();
        // Map the file at a low address, which `maps` and `map_files` write differently (system call 9 is mmap, and 16
        // is its `MAP_FIXED`).
        let script = r#"open(F, "+>", "gone"); print F "x" x 4194304; close(F); open(F, "<", "gone");
            ($at, $long, $read, $how, $f, $none) = (0x1000000, 4194304, 1, 17, fileno(F), 0);
            syscall(9, $at, $long, $read, $how, $f, $none) == $at or die; close(F); unlink("gone"); sleep(1000)"#;
        let mut child =
            std::process::Command::new("perl").args(["-e", script]).current_dir(dir.path()).spawn().unwrap();
        let pid = [Pid::from_child(&child)];
        until("its bytes are counted", || (4 << 20..5 << 20).contains(&deleted_bytes(&pid, device)).then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_removed_file_counts_as_long_as_it_is_open_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().metadata().unwrap().dev();
        let own = [rustix::process::getpid()];
        let before = deleted_bytes(&own, device);
        let path = dir.path().join("file");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![1; 4 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(deleted_bytes(&own, device) < before + (1 << 20), "it still has a name");
        std::fs::remove_file(&path).unwrap();
        let other = file.try_clone().unwrap();
        let after = deleted_bytes(&own, device);
        assert!((before + (4 << 20)..before + (5 << 20)).contains(&after), "{before} before, {after} after");
        assert_eq!(deleted_bytes(&own, device + 1), 0, "it is not on another disk");
        drop((file, other));
        assert!(deleted_bytes(&own, device) < before + (1 << 20));
    }
}
