//! `journeyman completions` and `journeyman openapi`: texts that are made of the program itself.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::store::print;

#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Prints a script that completes the program's commands.
pub(crate) fn run(arguments: CompletionArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // Into memory first: the crate panics where stdout is closed.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "journeyman", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the description of the HTTP interface.
pub(crate) fn openapi() -> anyhow::Result<ExitCode> {
    print(&serde_json::to_string_pretty(&journeyman_http::document(env!("CARGO_PKG_VERSION")))?)?;
    Ok(ExitCode::SUCCESS)
}
