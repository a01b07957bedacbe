//! The one way by which a container's first process reaches us: a socket in a folder that only this container is shown,
//! taken away when somebody has come.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;
use tempfile::TempDir;
use tokio::net::UnixListener;

/// Where it is inside.
pub(super) const INSIDE: &str = "/run/journeyman-door";

/// Of the folder of the back end.
const DOORS: &str = "doors";

/// The socket's name.
pub(super) const SOCKET: &str = "socket";

/// A door that nobody has come through.
pub(super) struct Door {
    folder: TempDir,
    listener: UnixListener,
}

impl Door {
    /// With the files that tell programs who they are.
    pub(super) fn make(folder: &Path, (user, group): (u32, u32)) -> io::Result<Self> {
        let doors = folder.join(DOORS);
        std::fs::create_dir_all(&doors)?;
        for dir in [folder, &doors] {
            std::fs::set_permissions(dir, Permissions::from_mode(0o711))?;
        }
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir_in(&doors)?;
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
        let listener = UnixListener::bind(&socket)?;
        // Those who could pass our folders could come too: who it was is looked at.
        std::fs::set_permissions(&socket, Permissions::from_mode(0o666))?;
        Ok(Self { folder, listener })
    }

    /// Those of a process that is dead.
    pub(super) fn remove_all(folder: &Path) -> io::Result<()> {
        match std::fs::remove_dir_all(folder.join(DOORS)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where it is on the host.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder on the host.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Who has come, as the kernel knows it.
    pub(super) async fn open(&self) -> io::Result<(UnixStream, Pid)> {
        let (stream, _) = self.listener.accept().await?;
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        let peer = socket_peercred(&stream)?.pid;
        Ok((stream, peer))
    }
}
