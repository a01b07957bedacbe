//! The command line of bwrap (bwrap(1)): all that a program sees is listed here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use journeyman_core::ports::Spawn;

use super::{BubblewrapSettings, etc};
use crate::shim::SUBCOMMAND;

/// Where the workspace is inside.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Where the home is inside.
pub(crate) const HOME: &str = "/home/agent";

/// Where this program is inside.
pub(super) const SHIM: &str = "/run/journeyman/shim";

/// Bytes that `/tmp` and `/dev/shm` may have each; they count as memory too.
const SCRATCH_BYTES: u64 = 1 << 30;

/// Programs are looked for here.
const SEARCH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The part of a search path that is inside, after the system's own folders.
pub(super) fn search_path(host: &str, readable: &[PathBuf]) -> String {
    let more = host.split(':').filter(|dir| readable.iter().any(|path| Path::new(dir).starts_with(path)));
    let usual = SEARCH.into_iter();
    // What the host looks for first is found first here too.
    more.chain(usual).collect::<Vec<_>>().join(":")
}

/// All arguments up to the shim's descriptor.
pub(super) fn of(settings: &BubblewrapSettings, spawn: &Spawn) -> Vec<OsString> {
    let mut list = List::default();
    list.flags(&["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]);
    list.flags(&["--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1"]);
    list.flags(&["--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--clearenv", "--hostname", "sandbox"]);
    list.bind("--ro-bind", Path::new("/usr"), Path::new("/usr"));
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        list.system(name);
    }
    list.bind("--ro-bind", &settings.folder.join(etc::FOLDER), Path::new("/etc"));
    list.flags(&["--proc", "/proc", "--dev", "/dev"])
        .scratch("/dev/shm")
        .scratch("/tmp")
        .flags(&["--remount-ro", "/dev"]);
    for path in settings.readable.iter().chain(&spawn.readable) {
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

    /// A folder in memory that all may write.
    fn scratch(&mut self, path: &str) -> &mut Self {
        self.flags(&["--perms", "1777", "--size", &SCRATCH_BYTES.to_string(), "--tmpfs", path])
    }

    fn bind(&mut self, how: &str, from: &Path, to: &Path) {
        self.0.extend([how.into(), from.into(), to.into()]);
    }

    /// A folder beside `/usr` is a link into it, or on its own.
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
    fn of_the_search_path_only_what_is_inside_is_left() {
        let path = search_path("/root/.cargo/bin:/opt/tools/bin:/usr/bin:/opt2/bin", &["/opt".into()]);
        assert_eq!(path, "/opt/tools/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }
}
