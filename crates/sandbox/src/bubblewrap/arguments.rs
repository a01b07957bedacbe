//! The command line of bwrap (bwrap(1)): all that a program sees is listed here.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use journeyman_core::ports::Spawn;

use super::BubblewrapSettings;
use crate::shim::SUBCOMMAND;

/// Where the workspace is inside.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Where the home is inside.
pub(crate) const HOME: &str = "/home/agent";

/// Where this program is inside.
pub(super) const SHIM: &str = "/run/journeyman/shim";

/// Bytes that `/tmp` and `/dev/shm` may have each; they count as memory too.
const SCRATCH_BYTES: u64 = 1 << 30;

/// What programs look for in `/etc` and need not be hidden: libraries, certificates, the zone.
const ETC: [&str; 9] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki",
    "/etc/ssl",
];

/// Files of ours in `/etc`: nothing of the host's users and hosts is there.
const FILES: [(&str, &str); 4] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    ),
    ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
];

/// Programs are looked for here.
const SEARCH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Writes the files that sandboxes have in `/etc`.
pub(super) fn write_files(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    for (name, text) in FILES {
        let file = folder.join(name);
        if std::fs::read_to_string(&file).ok().as_deref() != Some(text) {
            std::fs::write(&file, text)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

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
    for path in ETC {
        list.bind("--ro-bind-try", Path::new(path), Path::new(path));
    }
    for (name, _) in FILES {
        list.bind("--ro-bind", &settings.folder.join(name), &Path::new("/etc").join(name));
    }
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
