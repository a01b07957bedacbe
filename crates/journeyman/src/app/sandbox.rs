//! The sandbox that agents run in, and what it needs on the machine.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::ports::Sandbox;
use journeyman_sandbox::{Bubblewrap, BubblewrapSettings, NoSandbox};

use super::make_private_dir;
use crate::config::{SandboxKind, Settings};

/// Makes it ready, for a service or for a command that may run beside one.
///
/// # Errors
/// What it needs cannot be made in the data directory.
pub(crate) fn sandbox(settings: &Settings, by: Asker) -> anyhow::Result<Arc<dyn Sandbox>> {
    let chosen = &settings.sandbox;
    Ok(match chosen.kind {
        SandboxKind::None => Arc::new(NoSandbox),
        SandboxKind::Bubblewrap => {
            let data = &settings.data_dir;
            make_private_dir(data)?;
            let folder = data.join("sandbox");
            let roots = vec![data.join("workspaces"), data.join("spares")];
            let group = rustix::process::geteuid().is_root().then_some(chosen.users.first);
            for dir in [data, &data.join("mirrors")].into_iter().chain(&roots) {
                make_private_dir(dir)?;
                let given = group.map_or(Ok(()), |group| let_pass(dir, group));
                given.with_context(|| format!("{} cannot be given to the group of sandboxes", dir.display()))?;
            }
            std::fs::create_dir_all(&folder)?;
            Arc::new(Bubblewrap::new(BubblewrapSettings {
                program: chosen.bwrap.clone(),
                path: settings.path.clone(),
                shim: shim(&chosen.program, &folder).context("the program cannot be put into sandboxes")?,
                own_program: chosen.program.clone(),
                readable: chosen.readable.clone(),
                folder,
                renew: by == Asker::Service,
                roots,
                users: chosen.users,
                name: name(data),
            })?)
        }
    })
}

/// Who wants a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The one service of a data directory.
    Service,
    /// A command, which must leave alone what a service uses.
    Command,
}

/// The guarantees that the configuration does without: with `none` it says so in one word.
pub(crate) fn given_up(settings: &Settings) -> Vec<String> {
    match settings.sandbox.kind {
        SandboxKind::None => journeyman_sandbox::GUARANTEES.map(str::to_owned).to_vec(),
        SandboxKind::Bubblewrap => settings.sandbox.allow_degraded.clone(),
    }
}

/// Lets the users that sandboxes have pass through a folder, on their way to what is theirs; they cannot list it.
fn let_pass(dir: &Path, group: u32) -> io::Result<()> {
    std::os::unix::fs::chown(dir, None, Some(group))?;
    std::fs::set_permissions(dir, Permissions::from_mode(0o710))
}

/// This program where everybody may run it: where it is, or a link or copy in `folder`.
fn shim(program: &Path, folder: &Path) -> io::Result<PathBuf> {
    let open = |path: &Path, bits| path.metadata().is_ok_and(|note| note.mode() & bits == bits);
    let others_pass = program.ancestors().skip(1).all(|dir| open(dir, 0o001));
    if !rustix::process::geteuid().is_root() || others_pass && open(program, 0o005) {
        return Ok(program.to_owned());
    }
    let (place, draft) = (folder.join("journeyman"), folder.join(format!("journeyman.{}", std::process::id())));
    let is_it = |a: std::fs::Metadata, b: std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if let (Ok(there), Ok(own)) = (place.metadata(), program.metadata())
        && is_it(there, own)
    {
        return Ok(place);
    }
    if std::fs::hard_link(program, &draft).is_err() {
        std::fs::copy(program, &draft)?;
    }
    std::fs::set_permissions(&draft, Permissions::from_mode(0o755))?;
    std::fs::rename(&draft, &place)?;
    Ok(place)
}

/// A name for this process among all on the machine that have sandboxes, a command beside a service among them.
fn name(data: &Path) -> String {
    let hash = Fingerprint::of("sandbox", data.as_os_str().as_encoded_bytes()).0;
    let hash: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{hash}-{}", std::process::id())
}
