//! The command line of bwrap (bwrap(1)), which lists all that a program sees.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use journeyman_core::ports::Spawn;

use super::etc;
use super::settings::BubblewrapSettings;
use crate::shim::SUBCOMMAND;

/// The path of the workspace in a sandbox.
pub(crate) const WORKSPACE: &str = "/workspace";

/// The path of the home in a sandbox.
pub(crate) const HOME: &str = "/home/agent";

/// The path of this program in a sandbox.
pub(super) const SHIM: &str = "/run/journeyman/shim";

/// The maximum size of `/tmp` and of `/dev/shm` in bytes, each. Their content counts as memory too.
const SCRATCH_BYTES: u64 = 1 << 30;

/// The system's folders on the search path.
const SEARCH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Returns the search path in a sandbox: the folders of the host's path that are readable there, then the system's.
pub(super) fn search_path(host: &str, readable: &[PathBuf]) -> String {
    let more = host.split(':').filter(|dir| readable.iter().any(|path| Path::new(dir).starts_with(path)));
    let usual = SEARCH.into_iter();
    // Additional folders come first, as they usually do on the host.
    more.chain(usual).collect::<Vec<_>>().join(":")
}

/// Returns all arguments of bwrap, which end with the command line of the shim. `mounted` are the folders of the host in
/// `/etc`.
pub(super) fn of(settings: &BubblewrapSettings, spawn: &Spawn, mounted: &[PathBuf]) -> Vec<OsString> {
    let mut list = List::default();
    list.flags(&["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]);
    list.flags(&["--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1"]);
    list.flags(&["--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--clearenv", "--hostname", "sandbox"]);
    list.bind("--ro-bind", Path::new("/usr"), Path::new("/usr"));
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        list.system(name);
    }
    list.bind("--ro-bind", &settings.common.folder.join(etc::FOLDER), Path::new("/etc"));
    for path in mounted {
        list.bind("--ro-bind-try", path, path);
    }
    list.flags(&["--proc", "/proc", "--dev", "/dev"])
        .scratch("/dev/shm")
        .scratch("/tmp")
        .flags(&["--remount-ro", "/dev"]);
    for path in settings.common.readable.iter().chain(&spawn.readable) {
        let from = if *path == settings.own_program { &settings.shim } else { path };
        list.bind("--ro-bind", from, path);
    }
    list.bind("--ro-bind", &settings.shim, Path::new(SHIM));
    for path in &spawn.writable {
        list.bind("--bind", path, path);
    }
    list.bind("--bind", &spawn.home, Path::new(HOME));
    list.bind("--bind", &spawn.workspace, Path::new(WORKSPACE));
    list.flags(&["--remount-ro", "/", "--chdir", "/", "--", SHIM, SUBCOMMAND]);
    list.0
}

#[derive(Default)]
struct List(Vec<OsString>);

impl List {
    fn flags(&mut self, flags: &[&str]) -> &mut Self {
        self.0.extend(flags.iter().map(OsString::from));
        self
    }

    /// Adds a folder in memory that all users may write.
    fn scratch(&mut self, path: &str) -> &mut Self {
        self.flags(&["--perms", "1777", "--size", &SCRATCH_BYTES.to_string(), "--tmpfs", path])
    }

    fn bind(&mut self, how: &str, from: &Path, to: &Path) {
        self.0.extend([how.into(), from.into(), to.into()]);
    }

    /// Adds a folder of the system next to `/usr`: as a link if the host has a link into `/usr`, otherwise as a mount.
    fn system(&mut self, name: &str) {
        let path = Path::new("/").join(name);
        match std::fs::read_link(&path) {
            Ok(target) => self.bind("--symlink", &target, &path),
            Err(_) => self.bind("--ro-bind-try", &path, &path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_keeps_only_readable_folders() {
        let path = search_path("/root/.cargo/bin:/opt/tools/bin:/usr/bin:/opt2/bin", &["/opt".into()]);
        assert_eq!(path, "/opt/tools/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }
}
