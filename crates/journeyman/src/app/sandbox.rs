//! Creates the sandbox that agents run in, and prepares its files and folders on the machine.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::ports::Sandbox;
use journeyman_sandbox::{
    Bubblewrap, BubblewrapSettings, CommonSettings, Container, ContainerSettings, NoSandbox, UserRange,
};

use crate::config::{SandboxKind, Settings};
use crate::folders::make_private_dir;

/// Creates the configured sandbox for a service, or for a check that may run while a service runs.
///
/// # Errors
/// A file or folder cannot be created, an account has a user ID of the sandboxes, or no container
/// engine was found.
pub(crate) fn sandbox(settings: &Settings, by: SandboxUser<'_>) -> anyhow::Result<Arc<dyn Sandbox>> {
    let chosen = &settings.sandbox;
    Ok(match chosen.kind {
        SandboxKind::None => Arc::new(NoSandbox),
        SandboxKind::Bubblewrap => {
            let common = common(settings, by)?;
            Arc::new(Bubblewrap::new(BubblewrapSettings {
                program: chosen.bwrap.clone(),
                path: settings.path.clone(),
                shim: shim(&chosen.program, &common.folder)
                    .context("the program cannot be made available to sandboxes")?,
                own_program: chosen.program.clone(),
                common,
            })?)
        }
        SandboxKind::Container => {
            let common = common(settings, by)?;
            Arc::new(Container::new(ContainerSettings {
                socket: engine(chosen.engine.as_deref())?,
                image: chosen.image.clone(),
                has_selinux: chosen.has_selinux,
                program: chosen.program.clone(),
                common,
                owner: owner(&settings.data_dir),
            }))
        }
    })
}

/// Creates the folder of the back end and the folders of workspaces, and returns the settings with their paths.
fn common(settings: &Settings, by: SandboxUser<'_>) -> anyhow::Result<CommonSettings> {
    let data = match by {
        SandboxUser::Service => settings.data_dir.as_path(),
        SandboxUser::Check(folder) => folder,
    };
    make_private_dir(data)?;
    let roots = vec![data.join("workspaces"), data.join("spares")];
    let group = rustix::process::geteuid().is_root().then_some(settings.sandbox.users.first);
    if group.is_some() {
        // These files do not list the accounts of a directory service; the operator must choose other IDs.
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        refuse_accounts(settings.sandbox.users, &read("/etc/passwd"), "user")?;
        refuse_accounts(settings.sandbox.users, &read("/etc/group"), "group")?;
    }
    let mirrors = data.join("mirrors");
    for dir in [data, mirrors.as_path()].into_iter().chain(roots.iter().map(PathBuf::as_path)) {
        make_private_dir(dir)?;
        let given = group.map_or(Ok(()), |group| allow_traversal(dir, group));
        given.with_context(|| format!("{} cannot be opened to the group of sandboxes", dir.display()))?;
    }
    if group.is_some() {
        close_mirrors(&mirrors).with_context(|| format!("{} cannot be closed to sandboxes", mirrors.display()))?;
    }
    let folder = data.join("sandbox");
    std::fs::create_dir_all(&folder)?;
    Ok(CommonSettings {
        readable: settings.sandbox.readable.clone(),
        data: data.to_owned(),
        folder,
        renew: by == SandboxUser::Service,
        roots,
        users: settings.sandbox.users,
        name: name(&settings.data_dir),
    })
}

/// Refuses a range with IDs of accounts of this machine: agents would have the rights of those accounts. `accounts` is
/// the text of a file in the format of passwd(5) or group(5).
fn refuse_accounts(range: UserRange, accounts: &str, kind: &str) -> anyhow::Result<()> {
    for line in accounts.lines() {
        let mut fields = line.split(':');
        let (name, number) = (fields.next().unwrap_or_default(), fields.nth(1).and_then(|text| text.parse().ok()));
        if let Some(number) = number.filter(|number| range.has(*number)) {
            bail!(
                "sandbox-users: the {kind} {name} of this machine has the ID {number}, which is in the range {} to {}; \
                 set sandbox-users to the first of {} unused IDs",
                range.first,
                range.last(),
                UserRange::COUNT
            );
        }
    }
    Ok(())
}

/// Returns the socket of the container engine: the configured one, or the first default that exists.
fn engine(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let user = rustix::process::getuid();
    let usual = [
        "/run/docker.sock".to_owned(),
        "/run/podman/podman.sock".to_owned(),
        format!("/run/user/{user}/docker.sock"),
        format!("/run/user/{user}/podman/podman.sock"),
    ];
    let mut usual = usual.map(PathBuf::from).into_iter();
    named.map(Path::to_owned).or_else(|| usual.find(|path| path.exists())).context(
        "no container engine was found: set container-engine to the socket of Docker or Podman (podman system service \
         serves one), or remove sandbox = \"container\"",
    )
}

/// The kind of process that uses a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SandboxUser<'a> {
    /// The only service of a data directory.
    Service,
    /// A check, which has its files in this folder and must not change those that a service uses.
    Check(&'a Path),
}

/// Returns the guarantees that may be missing by configuration: all of them for the kind `none`.
pub(crate) fn given_up(settings: &Settings) -> Vec<String> {
    match settings.sandbox.kind {
        SandboxKind::None => journeyman_sandbox::GUARANTEES.map(str::to_owned).to_vec(),
        SandboxKind::Bubblewrap | SandboxKind::Container => settings.sandbox.allow_degraded.clone(),
    }
}

/// Lets the users of sandboxes reach their files in the data directory, as a service does when it starts.
///
/// # Errors
/// The group or the permissions of the folder cannot be changed.
pub(crate) fn open_to_sandboxes(settings: &Settings) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() || settings.sandbox.kind == SandboxKind::None {
        return Ok(());
    }
    let dir = &settings.data_dir;
    allow_traversal(dir, settings.sandbox.users.first)
        .with_context(|| format!("{} cannot be opened to the group of sandboxes", dir.display()))
}

/// Lets the users of sandboxes traverse a folder to reach their own files. They cannot list it.
fn allow_traversal(dir: &Path, group: u32) -> io::Result<()> {
    std::os::unix::fs::chown(dir, None, Some(group))?;
    std::fs::set_permissions(dir, Permissions::from_mode(0o710))
}

/// Closes the mirrors of earlier versions, and what is next to them, to the users of sandboxes. A job opens those that it
/// needs.
fn close_mirrors(mirrors: &Path) -> io::Result<()> {
    let entries = match mirrors.read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if metadata.is_dir() && metadata.mode() & 0o007 != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(metadata.mode() & 0o770))?;
        }
    }
    Ok(())
}

/// Returns a path at which the users of sandboxes can run this program: its own, or that of a link or copy in `folder`.
fn shim(program: &Path, folder: &Path) -> io::Result<PathBuf> {
    let open = |path: &Path, bits| path.metadata().is_ok_and(|note| note.mode() & bits == bits);
    let others_pass = program.ancestors().skip(1).all(|dir| open(dir, 0o001));
    if !rustix::process::geteuid().is_root() || others_pass && open(program, 0o005) {
        return Ok(program.to_owned());
    }
    let (path, draft) = (folder.join("journeyman"), folder.join(format!("journeyman.{}", std::process::id())));
    let is_same = |a: std::fs::Metadata, b: std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if let (Ok(there), Ok(own)) = (path.metadata(), program.metadata())
        && is_same(there, own)
    {
        return Ok(path);
    }
    if std::fs::hard_link(program, &draft).is_err() {
        std::fs::copy(program, &draft)?;
    }
    std::fs::set_permissions(&draft, Permissions::from_mode(0o755))?;
    std::fs::rename(&draft, &path)?;
    Ok(path)
}

/// Returns a name that no other process on the machine uses for its sandboxes.
fn name(data: &Path) -> String {
    format!("{}-{}", owner(data), std::process::id())
}

/// Returns a name that all processes with a data directory share.
fn owner(data: &Path) -> String {
    let hash = Fingerprint::of("sandbox", data.as_os_str().as_encoded_bytes()).0;
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ids_of_accounts_are_refused() {
        let range = UserRange::beginning_with(100_000).expect("a range");
        let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:165535:100:Ada:/home/ada:/bin/sh\n\n:::\n";
        let text = refuse_accounts(range, passwd, "user").expect_err("refused").to_string();
        assert!(text.contains("the user ada") && text.contains("165535"), "{text}");
        // The group ID of a line is not the user ID.
        assert!(refuse_accounts(range, "bob:x:1000:100001::/:/bin/sh\n", "user").is_ok());
        assert!(refuse_accounts(range, "staff:x:100000:bob\n", "group").is_err());
        assert!(refuse_accounts(range, "", "user").is_ok());
    }
}
