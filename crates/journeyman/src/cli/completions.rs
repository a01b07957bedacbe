//! `journeyman completions` and `journeyman openapi`: texts that the program generates about itself.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::store::print;

#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell to generate the script for
    shell: Shell,
}

/// Prints a script that completes the program's commands in a shell.
pub(crate) fn run(arguments: CompletionArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // Generate into memory first, because the crate panics if stdout is closed.
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
