//! User quotas (quotactl(2)): the kernel counts what a user owns on a file system, and refuses more than a limit. A
//! program cannot hide a byte from this count, which includes removed files that are still open, and every inode.
//!
//! Quotas require that the service runs as root, that the file system has user quotas, and that the kernel has
//! `quotactl_fd` (Linux 5.14). Otherwise there is no limit, and the usage of a user is unknown.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// The unit of space limits, in bytes.
const BLOCK_BYTES: u64 = 1024;

/// The number of bytes that an inode counts for, as in the service's own count of folders.
const ENTRY_BYTES: u64 = 4096;

/// The minimum margin of the kernel's limit above the project's limit, in bytes.
const MIN_MARGIN: u64 = 1 << 20;

/// The margin as a fraction of the project's limit: one twentieth. With the margin, a program to which the kernel
/// refuses one more page has already used more than the project's limit, so its run ends for that reason.
const MARGIN_PART: u64 = 20;

/// The highest limit that file systems accept, in bytes.
const MAX_LIMIT: u64 = i64::MAX.cast_unsigned();

/// The quotas of one file system.
#[derive(Debug)]
pub(crate) struct Quotas(OwnedFd);

/// The usage of a user and its limits; 0 means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Account {
    bytes: u64,
    entries: u64,
    limits: Limits,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Limits {
    blocks: u64,
    entries: u64,
}

impl Limits {
    fn of(disk_bytes: Option<u64>) -> Self {
        let Some(bytes) = disk_bytes else { return Self::default() };
        let most = bytes.saturating_add((bytes / MARGIN_PART).max(MIN_MARGIN)).min(MAX_LIMIT);
        Self { blocks: most / BLOCK_BYTES, entries: most / ENTRY_BYTES }
    }
}

impl Quotas {
    /// Opens the quotas of the file system that contains a folder.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, folder, flags, Mode::empty())?))
    }

    /// Returns the bytes that a user owns, or 4096 for each of its inodes if that is more; `None` if the kernel does
    /// not count them.
    pub(crate) fn used(&self, user: u32) -> io::Result<Option<u64>> {
        let account = self.account(user)?;
        Ok(account.map(|account| account.bytes.max(account.entries.saturating_mul(ENTRY_BYTES))))
    }

    /// Limits a user to `disk_bytes` plus a margin, and to the number of inodes that count for as much; `None` means no
    /// limit. Returns false if the kernel has no quotas for the file system.
    ///
    /// # Errors
    /// The file system has quotas, and this limit cannot be set.
    pub(crate) fn limit(&self, user: u32, disk_bytes: Option<u64>) -> io::Result<bool> {
        let limits = Limits::of(disk_bytes);
        let Some(account) = self.account(user)? else { return Ok(false) };
        // The limits are mostly the same as for the previous program; then nothing is written to the disk.
        if account.limits == limits {
            return Ok(true);
        }
        let wanted = libc::dqblk {
            dqb_bhardlimit: limits.blocks,
            dqb_bsoftlimit: 0,
            dqb_curspace: 0,
            dqb_ihardlimit: limits.entries,
            dqb_isoftlimit: 0,
            dqb_curinodes: 0,
            dqb_btime: 0,
            dqb_itime: 0,
            dqb_valid: libc::QIF_LIMITS,
        };
        let mut wanted = MaybeUninit::new(wanted);
        is_there(self.call(libc::Q_SETQUOTA, user, &mut wanted)).map_err(|error| {
            let text = format!(
                "the quota of user {user} could not be set to {} KiB and {} inodes: {error}; lower limits.diskBytes of the \
                 project, or mount the file system of the data directory without user quotas",
                limits.blocks, limits.entries
            );
            io::Error::new(error.kind(), text)
        })
    }

    fn account(&self, user: u32) -> io::Result<Option<Account>> {
        let mut found = MaybeUninit::<libc::dqblk>::zeroed();
        let called = self.call(libc::Q_GETQUOTA, user, &mut found);
        // XFS has no entry for a user that owns nothing and has no limit.
        if called.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT)) {
            return Ok(Some(Account::default()));
        }
        if !is_there(called)? {
            return Ok(None);
        }
        // SAFETY: all fields are integers, so zeros are valid values, and so is anything that the kernel has written
        // there.
        #[expect(unsafe_code, reason = "the kernel writes it")]
        let found = unsafe { found.assume_init() };
        Ok(Some(Account {
            bytes: found.dqb_curspace,
            entries: found.dqb_curinodes,
            limits: Limits { blocks: found.dqb_bhardlimit, entries: found.dqb_ihardlimit },
        }))
    }

    /// Runs a command on the quota entry of a user: `Q_GETQUOTA` or `Q_SETQUOTA`, and no other.
    fn call(&self, command: libc::c_int, user: u32, entry: &mut MaybeUninit<libc::dqblk>) -> io::Result<()> {
        let command = libc::QCMD(command, libc::USRQUOTA);
        // SAFETY: both commands take a descriptor, an ID, and a pointer to one `struct if_dqblk` (linux/quota.h), whose
        // layout `libc::dqblk` has. The kernel reads or writes no more than that, and does not keep the pointer after
        // the call; `entry` is borrowed exclusively during the call, and the descriptor is open.
        #[expect(unsafe_code, reason = "no safe function has this system call")]
        let done =
            unsafe { libc::syscall(libc::SYS_quotactl_fd, self.0.as_raw_fd(), command, user, entry.as_mut_ptr()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns whether quotas exist and this process may set them; an error if the call failed for another reason.
fn is_there(called: io::Result<()>) -> io::Result<bool> {
    // ENOSYS: no such system call, or no quotas on this kind of file system. ESRCH: quotas are not turned on. EPERM:
    // this process is root only in a container. EINVAL: no quotas for users.
    const NONE: [i32; 5] = [libc::ENOSYS, libc::ESRCH, libc::EOPNOTSUPP, libc::EPERM, libc::EINVAL];
    match called {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error().is_some_and(|code| NONE.contains(&code)) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use journeyman_testkit::until;

    use super::*;

    /// A user ID that no other test uses.
    const USER: u32 = 100_000;

    const LIMIT: u64 = 4 << 20;

    /// Makes a folder that belongs to the user, and limits the user; `None` if the kernel does not enforce the limit.
    fn limited() -> Option<(tempfile::TempDir, Quotas)> {
        let dir = tempfile::tempdir().unwrap();
        let quotas = Quotas::of(dir.path()).unwrap();
        std::os::unix::fs::chown(dir.path(), Some(USER), Some(USER)).ok()?;
        if !quotas.limit(USER, Some(LIMIT)).unwrap() || !is_mounted_with_quotas(dir.path()) {
            let _ = writeln!(
                std::io::stderr(),
                "IGNORED: this kernel has no quotas on {}; nothing was tested",
                dir.path().display()
            );
            return None;
        }
        Some((dir, quotas))
    }

    /// Returns whether limits are enforced on the file system of a folder: ext4 may only count.
    fn is_mounted_with_quotas(folder: &Path) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let last = mounts.filter(|words| folder.starts_with(words[1])).max_by_key(|words| words[1].len()).unwrap();
        last[3].split(',').any(|option| option == "usrquota")
    }

    /// Runs a script in a shell of the user; returns its output.
    fn shell(dir: &Path, script: &str) -> String {
        let mut command = Command::new("/bin/sh");
        let output = command.args(["-c", script]).current_dir(dir).uid(USER).gid(USER).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    #[test]
    fn the_kernel_limit_has_a_margin_and_is_absent_without_a_project_limit() {
        assert_eq!(Limits::of(None), Limits { blocks: 0, entries: 0 });
        let mib = |count: u64| count << 20;
        for (bytes, most) in [(0, mib(1)), (mib(4), mib(5)), (mib(1000), mib(1050))] {
            let expected = Limits { blocks: most / 1024, entries: most / 4096 };
            assert_eq!(Limits::of(Some(bytes)), expected, "{bytes}");
        }
        assert_eq!(Limits::of(Some(u64::MAX)), Limits::of(Some(MAX_LIMIT)));
    }

    #[test]
    fn a_file_system_without_quotas_is_not_an_error() {
        for code in [libc::ENOSYS, libc::ESRCH, libc::EOPNOTSUPP, libc::EPERM] {
            assert!(!is_there(Err(io::Error::from_raw_os_error(code))).unwrap(), "{code}");
        }
        assert!(is_there(Ok(())).unwrap() && is_there(Err(io::Error::from_raw_os_error(libc::EIO))).is_err());
        // The files in `/proc` are on no disk.
        let quotas = Quotas::of(Path::new("/proc/self")).unwrap_or_else(|_| Quotas::of(Path::new("/sys")).unwrap());
        assert_eq!(quotas.used(USER).unwrap(), None);
        assert!(!quotas.limit(USER, Some(LIMIT)).unwrap());
    }

    #[test]
    fn the_kernel_refuses_to_exceed_the_limit_for_every_kind_of_file() {
        let Some((dir, quotas)) = limited() else { return };
        let used = || quotas.used(USER).unwrap().unwrap();
        let empty = used();
        let most = LIMIT + MIN_MARGIN;
        // Each script leaves nothing behind. The one below waits for a line, so that its usage can be read in the
        // meantime.
        for (how, script) in [
            ("a file", "dd if=/dev/zero of=x bs=4k count=4096; rm x"),
            ("a removed file", "exec 9> gone; rm gone; dd if=/dev/zero bs=4k count=4096 >&9"),
            (
                "a file in pieces",
                "for i in 1 2 3 4 5 6 7 8 9; do dd if=/dev/zero of=x bs=1k count=1 seek=$((i * 4000)); \
                                  dd if=/dev/zero of=y$i bs=64k count=16; done; rm x y*",
            ),
            ("inodes", "i=0; while [ $i -lt 2000 ]; do touch f$i || break; i=$((i + 1)); done; rm f*"),
        ] {
            let output = shell(dir.path(), script).to_lowercase();
            assert!(output.contains("quota exceeded"), "{how}: {output}");
        }
        let held = "exec 9> gone; rm gone; dd if=/dev/zero bs=4k count=4096 >&9 2>&1; echo full; read word";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", held]).current_dir(dir.path()).uid(USER).gid(USER);
        let mut holder =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = io::BufRead::lines(io::BufReader::new(holder.stdout.take().unwrap()));
        assert!(lines.any(|line| line.unwrap() == "full"));
        let full = used();
        assert!(dir.path().read_dir().unwrap().next().is_none(), "the folder has no entry for the file");
        assert!(full > LIMIT && full <= most, "{full} of {most}: above the project's limit, within the kernel's");
        drop(holder.stdin.take());
        holder.wait().unwrap();
        // XFS frees the space of a removed file with a delay, and a folder keeps the size that it had with many
        // entries.
        until("the space of the removed files is freed", || (used() < empty + MIN_MARGIN).then_some(()));
        assert!(quotas.limit(USER, Some(u64::MAX)).unwrap(), "the file system accepts the highest limit");
        assert!(quotas.limit(USER, None).unwrap());
        let output = shell(dir.path(), "dd if=/dev/zero of=x bs=4k count=4096 && rm x && echo done");
        assert!(output.contains("done"), "{output}");
    }
}
