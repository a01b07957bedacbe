//! A control group of the program's own, where an ordinary user's session has none that may be divided: the user's systemd
//! makes one and gives it to the program (`Delegate=`, systemd.resource-control(5)).

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::config::{Role, SCOPE, SandboxKind, Settings};

/// Starts this program again in a scope of the user's systemd if that gives sandboxes their limits, and returns only if it
/// does not: for root, with control groups already, or without systemd.
///
/// # Errors
/// The scope can be made, and the program cannot be started in it.
pub(crate) fn enter(settings: &Settings) -> anyhow::Result<()> {
    let is_needed = settings.roles.contains(&Role::Worker)
        && settings.sandbox.kind == SandboxKind::Bubblewrap
        && !rustix::process::geteuid().is_root()
        && !settings.is_in_scope
        && !journeyman_sandbox::can_limit();
    if !is_needed || !can_make_scope() {
        return Ok(());
    }
    let program = std::env::current_exe().context("the path of this program")?;
    let error = scope().arg(program).args(std::env::args_os().skip(1)).env(SCOPE, "1").exec();
    Err(error).context("systemd-run could not be started")
}

/// Whether the user's systemd makes a scope.
fn can_make_scope() -> bool {
    let mut trial = scope();
    trial.arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    trial.status().is_ok_and(|status| status.success())
}

/// What runs a program in a scope: in the foreground, as the process that it is run as.
fn scope() -> Command {
    let mut command = Command::new("systemd-run");
    command.args(["--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"]);
    command
}
