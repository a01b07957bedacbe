//! `journeyman agent install`: installs packages of exact versions into a folder of the data directory.
//!
//! The installation runs no code of the packages: neither npm's scripts nor a source distribution's. If there is a lock
//! file, npm and pip verify the hashes of the packages. If the installation fails, the previous version is restored.

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use journeyman_core::agent::{AgentSpec, Install};

use super::super::store::print;
use super::known::find;
use super::lock::Locks;
use crate::config::{self, Settings};
use crate::folders::make_private_dir;
use crate::{app, scope};

/// Installs an agent; with `unpinned`, without comparing the hashes of its packages.
pub(super) fn run(settings: &Settings, id: &str, unpinned: bool) -> anyhow::Result<ExitCode> {
    let spec = find(settings, id)?;
    let Some(install) = &spec.install else {
        bail!("the agent {id} has no packages to install: it starts {}", spec.command.join(" "));
    };
    // The agent is started once it is installed.
    scope::enter(settings)?;
    let locks = if unpinned { Locks::default() } else { Locks::of(id, install)? };
    if !locks.are_complete(install) {
        writeln!(
            std::io::stderr(),
            "warning: no lock file has the hashes of the packages of {id}: the packages that the registry serves are \
             not verified. Set npm-lock or pip-lock in the agent's table to a lock file (docs/agents.md)"
        )?;
    }
    make_private_dir(&settings.data_dir)?;
    let folder = config::folder(&settings.data_dir, id);
    let agents = folder.parent().context("the folder of agents")?;
    std::fs::create_dir_all(agents).with_context(|| format!("{} cannot be created", agents.display()))?;
    // The users of sandboxes must be able to traverse the folder, whatever the umask of the caller is.
    std::fs::set_permissions(agents, std::fs::Permissions::from_mode(0o755))?;
    let lock = std::fs::File::create(agents.join(".lock"))?;
    if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("another agent is being installed; try again later");
    }
    let aside = agents.join(format!(".{id}.before"));
    // An interrupted installation has moved the previous version aside, and left an incomplete one in its place.
    let restored = app::leftovers::restore_agent(&folder, &aside);
    restored.with_context(|| format!("the previous version in {} cannot be restored", aside.display()))?;
    match std::fs::rename(&folder, &aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("{} cannot be moved aside", folder.display()));
        }
        _ => {}
    }
    // Install into the final folder, because Python's scripts contain their own paths.
    let done = fill(&folder, install, &locks).and_then(|()| is_complete(spec, &folder));
    let done = done.and_then(|()| Ok(std::fs::write(folder.join(Install::NOTE), serde_json::to_vec_pretty(install)?)?));
    if let Err(error) = done {
        remove(&folder)?;
        // There may be no previous version.
        let _ = std::fs::rename(&aside, &folder);
        return Err(error.context(format!("the agent {id} was not installed; an earlier version is unchanged")));
    }
    remove(&aside)?;
    // The installation is complete, so that another one may begin.
    drop(lock);
    let name = spec.name.as_deref().unwrap_or(id);
    print(&format!(
        "{name} is installed in {}; try it with: journeyman agent check {id} --model MODEL",
        folder.display()
    ))?;
    super::prepare::after_installation(settings, id)?;
    Ok(ExitCode::SUCCESS)
}

fn fill(folder: &Path, install: &Install, locks: &Locks) -> anyhow::Result<()> {
    std::fs::create_dir(folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    if !install.npm.is_empty() {
        fill_npm(folder, install, locks)?;
    }
    if !install.pip.is_empty() {
        fill_pip(folder, install, locks)?;
    }
    Ok(())
}

fn fill_npm(folder: &Path, install: &Install, locks: &Locks) -> anyhow::Result<()> {
    let hint = "npm comes with Node.js; on Debian: apt install npm";
    let mut npm = readable_by_all("npm");
    npm.args([if locks.npm.is_some() { "ci" } else { "install" }, "--prefix"]).arg(folder);
    npm.args(["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    let Some(lock) = &locks.npm else {
        npm.arg("--save-exact").args(install.before.iter().map(|day| format!("--before={day}")));
        return carry_out(npm.arg("--").args(&install.npm), hint);
    };
    lock.write(folder)?;
    carry_out(&mut npm, hint)?;
    let arch = config::arch();
    lock.check(folder, arch)
}

fn fill_pip(folder: &Path, install: &Install, locks: &Locks) -> anyhow::Result<()> {
    let hint = "on Debian: apt install python3-venv";
    let python = python(install.python.as_deref())?;
    carry_out(readable_by_all(&python).args(["-m", "venv"]).arg(folder.join("venv")), hint)?;
    let mut pip = readable_by_all(folder.join("venv/bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
    match &locks.pip {
        Some(lock) => {
            let file = folder.join("requirements.txt");
            std::fs::write(&file, &lock.0)?;
            pip.args(["--require-hashes", "--no-deps", "-r"]).arg(file);
        }
        None => {
            pip.arg("--").args(&install.pip);
        }
    }
    carry_out(&mut pip, hint)
}

/// Returns a Python interpreter of version `least` or later.
fn python(least: Option<&str>) -> anyhow::Result<PathBuf> {
    let Some(least) = least else { return Ok("python3".into()) };
    let wanted = numbers(least);
    for name in [format!("python{least}"), "python3".to_owned()] {
        let Ok(output) = Command::new(&name).arg("--version").output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if numbers(text.trim_start_matches("Python ")) >= wanted {
            return Ok(name.into());
        }
    }
    bail!("this agent needs Python {least} or later, but neither python{least} nor a recent python3 was found")
}

/// Parses the major and minor version of a text such as `3.12.1`; 0 for missing numbers.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.trim().split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Returns a command that creates files that the users of sandboxes can read, whatever the umask of the caller is.
fn readable_by_all(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "umask 022; exec \"$@\"", "sh"]).arg(program);
    command
}

/// Substrings of the errors with which npm and pip report that the hash of a package does not match.
const OTHER_HASH: [&str; 2] = ["EINTEGRITY", "DO NOT MATCH THE HASHES"];

fn carry_out(command: &mut Command, hint: &str) -> anyhow::Result<()> {
    let words: Vec<String> = command.get_args().skip(3).map(|word| word.to_string_lossy().into_owned()).collect();
    let line = words.join(" ");
    writeln!(std::io::stderr(), "$ {line}")?;
    let child = command.stderr(Stdio::piped()).spawn().with_context(|| format!("{line} could not be started"))?;
    let output = child.wait_with_output().with_context(|| format!("cannot wait for {line}"))?;
    std::io::stderr().write_all(&output.stderr)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(()),
        Some(127) => bail!("{} was not found ({hint})", words.first().map_or("a program", String::as_str)),
        _ if OTHER_HASH.iter().any(|word| said.contains(word)) => bail!(
            "the registry serves a package whose hash differs from the lock file (see above): it was replaced in the \
             registry or in transit. Do not use it until you know why"
        ),
        _ => bail!("{line} failed ({})", output.status),
    }
}

/// Checks that the files of the agent's command exist.
fn is_complete(spec: &AgentSpec, folder: &Path) -> anyhow::Result<()> {
    let own = spec.command.iter().map(Path::new).filter(|word| word.starts_with(folder));
    match own.into_iter().find(|word| !word.exists()) {
        Some(missing) => bail!(
            "the packages do not contain {}; if the lock file has none for this kind of machine ({}), --unpinned \
             installs without the lock file and without verifying hashes",
            missing.display(),
            config::arch()
        ),
        None => Ok(()),
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("3.12.1") >= numbers("3.12") && numbers("3.9") < numbers("3.12") && numbers("") == (0, 0));
    }
}
