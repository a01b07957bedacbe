//! The socket on which a container's first process connects to the service. It is in a folder that only this container
//! gets, and is deleted when the container has started.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;
use tempfile::TempDir;
use tokio::net::UnixListener;

use super::selinux::Level;

/// The path of the socket's folder in the container.
pub(super) const INSIDE: &str = "/run/journeyman-shim";

/// The name of the folder with the sockets of all containers, in the folder of the back end.
const SOCKETS: &str = "shim-sockets";

/// The name of the socket in its folder.
pub(super) const SOCKET: &str = "socket";

/// A socket that waits for the shim to connect.
pub(super) struct ShimSocket {
    folder: TempDir,
    listener: UnixListener,
}

impl ShimSocket {
    /// Makes the socket, and the `passwd` and `group` files with the container's user. With a `level`, the container has
    /// it as part of its SELinux label, and only its processes may connect.
    pub(super) fn make(folder: &Path, (user, group): (u32, u32), level: Option<&Level>) -> io::Result<Self> {
        let sockets = folder.join(SOCKETS);
        std::fs::create_dir_all(&sockets)?;
        for dir in [folder, &sockets] {
            std::fs::set_permissions(dir, Permissions::from_mode(0o711))?;
        }
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir_in(&sockets)?;
        let own = format!("agent:x:{user}:{group}:agent:/home/agent:/bin/sh\n");
        let root = "root:x:0:0:root:/root:/bin/sh\n";
        let nobody = "nobody:x:65534:65534:nobody:/:/bin/sh\n";
        std::fs::write(folder.path().join("passwd"), [if user == 0 { "" } else { root }, &own, nobody].concat())?;
        let root = if group == 0 { "" } else { "root:x:0:\n" };
        std::fs::write(folder.path().join("group"), format!("{root}agent:x:{group}:\nnogroup:x:65534:\n"))?;
        for name in ["passwd", "group"] {
            std::fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o644))?;
        }
        let socket = folder.path().join(SOCKET);
        let bind = || UnixListener::bind(&socket);
        let listener = level.map_or_else(bind, |level| level.label_sockets(bind))?;
        // Every user that can traverse our folders can connect, so the caller checks which process did.
        std::fs::set_permissions(&socket, Permissions::from_mode(0o666))?;
        Ok(Self { folder, listener })
    }

    /// Removes the sockets of dead processes.
    pub(super) fn remove_all(folder: &Path) -> io::Result<()> {
        match std::fs::remove_dir_all(folder.join(SOCKETS)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the path of a file in the socket's folder on the host.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path of the socket's folder on the host.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Accepts a connection, and returns it with the peer's process ID as the kernel knows it.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, Pid)> {
        let (stream, _) = self.listener.accept().await?;
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        let peer = socket_peercred(&stream)?.pid;
        Ok((stream, peer))
    }
}
