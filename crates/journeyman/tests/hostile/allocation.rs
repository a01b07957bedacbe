//! Runs that take disk space faster than they could write it, or as fast as they can, on a disk without quotas, where the
//! service must notice it. The files have no name, so only the open descriptors lead to them.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::statvfs;
use serde_json::json;

use super::limits::reason;
use crate::program::fixtures::{Service, Site, site_with};

/// The disk limit of the runs, in bytes.
const LIMIT: u64 = 200_000_000;

/// The bytes that a run tries to take, in 20 files.
const WANTED: u64 = 20 * FILE;

/// The size of each file, which is below [`LIMIT`].
const FILE: u64 = 190_000_000;

/// The most that a run may have taken when it is stopped, in bytes.
const MOST: u64 = 1_000_000_000;

/// A script that puts the data directory on a disk without quotas that only the service sees.
const DISK: &str = r#"
    set -e
    truncate -s 12G "$1.disk"
    mkfs.ext4 -q -F -E lazy_itable_init=1 "$1.disk"
    mkdir "$1.mounted"
    mount -o loop "$1.disk" "$1.mounted"
    cp -a "$1/." "$1.mounted"
    mount --bind "$1.mounted" "$1"
    shift
    exec "$@"
"#;

/// Makes 20 files without a name, and runs a command for each, with its descriptor as `$f`.
const FILES: &str = r#"perl -e '$^F = 255; for (1 .. 20) { open($f[$_], "+>", "gone") or die; unlink("gone"); $ENV{f} = fileno($f[$_]); system("sh", "-c", $ARGV[0]) == 0 or print "refused\n" } sleep 3600'"#;

/// The ways to take space: a name, and the command for one file.
const WAYS: [(&str, &str); 4] = [
    ("a library's allocation", "fallocate -x -l 190000000 /proc/self/fd/$f"),
    ("20 of them at once", "fallocate -x -l 190000000 /proc/self/fd/$f &"),
    ("a writer", "head -c 190000000 /dev/zero >&$f"),
    ("20 of them at once", "head -c 190000000 /dev/zero >&$f &"),
];

/// Attempts to allocate space in a file without writing to it, each with 190 MB. Prints the code of each error.
const ALLOCATE: &str = r#"perl -e '
    open(F, "+>", "gone") or die; unlink("gone"); $f = fileno(F);
    for (0, 1, 16, 17, 64) { $! = 0; syscall(SYS_fallocate, $f, $_, 0, 190000000); print $! + 0, "\n" }
    for (0x40305828, 0x4030582a, 0x40305839) {
        $x = pack("s s x4 q q l L l4", 0, 0, 0, 190000000, 0, 0, 0, 0, 0, 0);
        $! = 0; syscall(SYS_ioctl, $f, $_, $x); print $! + 0, "\n"
    }
    $! = 0; syscall(SYS_fallocate, $f, 3, 0, 4096); print $! + 0, "\n";
    print((stat(F))[12], "\n")'"#;

/// Returns [`ALLOCATE`] with the numbers of the system calls.
fn allocate() -> String {
    let numbers = [("SYS_fallocate", libc::SYS_fallocate), ("SYS_ioctl", libc::SYS_ioctl)];
    numbers.iter().fold(ALLOCATE.to_owned(), |text, (name, number)| text.replace(name, &number.to_string()))
}

/// Returns whether this machine can mount a disk.
fn can_mount() -> bool {
    let script = r#"mkfs.ext4 -q -F "$1" 32M && mount -o loop "$1" /mnt"#;
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(dir.path().join("disk"));
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !done {
        let _ = writeln!(std::io::stderr(), "IGNORED: this user may not mount a disk");
    }
    done
}

/// Starts a service whose data directory is on a disk without quotas.
fn service() -> (Site, Service) {
    let site = site_with("warm-agents = 0\ndisk-reserve = \"0\"\n");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", DISK, "sh"]).arg(site.path("data"));
    let service = site.start_wrapped(command);
    let limits = json!({ "limits": { "diskBytes": LIMIT } });
    assert_eq!(service.call("PATCH", "/v2/projects/shop", Some(limits)).0, 200);
    (site, service)
}

/// Measures the most bytes that were used on the disk of a service at one time, in a separate thread.
struct Peak {
    most: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Peak {
    fn begin(site: &Site, service: &Service) -> Self {
        // The disk is mounted only in the namespace of the service.
        let folder = format!("/proc/{}/root{}", service.id(), site.path("data").display());
        let used = move || {
            let disk = statvfs(folder.as_str()).unwrap();
            (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        };
        let (most, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let before = used();
        let (found, ends) = (Arc::clone(&most), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                found.fetch_max(used().saturating_sub(before), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self { most, is_over, thread }
    }

    /// Returns the most bytes that were used in addition to those before.
    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

#[test]
fn a_run_cannot_take_much_more_than_its_disk_limit_before_it_is_stopped() {
    if !can_mount() {
        return;
    }
    let (site, service) = service();
    let mut found = Vec::new();
    for (what, command) in WAYS {
        let peak = Peak::begin(&site, &service);
        let (code, text) = reason(&service, &format!("[[run {FILES} '{command}']]"));
        let most = peak.end();
        let _ = writeln!(std::io::stderr(), "{what}: {most} bytes of {WANTED}, with a limit of {LIMIT}");
        assert_eq!(code, "disk_limit", "{what}: {text}");
        found.push((what, most));
    }
    // A run that was stopped before it took anything would prove nothing.
    assert!(found.iter().all(|(_, most)| (FILE / 2..MOST).contains(most)), "{found:?}");
}

#[test]
fn no_space_is_allocated_without_writing() {
    if !can_mount() {
        return;
    }
    let (site, service) = service();
    let peak = Peak::begin(&site, &service);
    let job = service.create(&format!("[[run {} > codes]]", allocate()));
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let most = peak.end();
    // The repository is on the disk, too. The last two numbers are those of a hole, and of the blocks of the file.
    let refused = format!("+{}\n", libc::EOPNOTSUPP).repeat(8);
    let diff = service.text(&format!("{job}/diff"));
    assert!(diff.contains(&format!("{refused}+0\n+0\n")), "{diff}");
    assert!(most < FILE, "{most} bytes");
}

#[test]
fn control_space_can_be_allocated_without_writing() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh").args(["-c", &allocate()]).current_dir(dir.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let codes: Vec<&str> = text.lines().collect();
    assert_eq!((codes[0], codes[1]), ("0", "0"), "{text}");
    assert!(codes[9].parse::<u64>().unwrap() * 512 >= FILE - 4096, "{text}");
}
