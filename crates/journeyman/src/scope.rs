//! A delegated control group for a program that an unprivileged user starts in a session without one: the user's
//! systemd creates a scope and delegates it to the program (`Delegate=`, systemd.resource-control(5)).

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::config::{Role, SCOPE, SandboxKind, Settings};

/// Restarts this program in a scope of the user's systemd if sandboxes need it for their limits. Returns only if there
/// is no restart: the user is root, the process already has a delegated control group, or systemd creates no scope.
///
/// # Errors
/// A scope can be created, but the program cannot be started in it.
pub(crate) fn enter(settings: &Settings) -> anyhow::Result<()> {
    let is_needed = settings.roles.contains(&Role::Worker)
        && settings.sandbox.kind == SandboxKind::Bubblewrap
        && !rustix::process::geteuid().is_root()
        && !settings.is_in_scope
        && !journeyman_sandbox::can_limit();
    if !is_needed || !can_make_scope() {
        return Ok(());
    }
    let program = std::env::current_exe().context("the path of this program could not be determined")?;
    let error = scope().arg(program).args(std::env::args_os().skip(1)).env(SCOPE, "1").exec();
    Err(error).context("systemd-run could not be started")
}

/// Returns whether the user's systemd can create a scope.
fn can_make_scope() -> bool {
    let mut trial = scope();
    trial.arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    trial.status().is_ok_and(|status| status.success())
}

/// Returns the command that runs a program in a scope, in the foreground and with the same process id.
fn scope() -> Command {
    let mut command = Command::new("systemd-run");
    command.args(["--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"]);
    command
}
