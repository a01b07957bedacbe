//! `journeyman completions`, `journeyman man` and `journeyman openapi`: texts that the program generates about itself.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_complete::env::Shells;

use super::program;
use super::store::print;
use crate::config::client_environment;

/// The variable with which the script of a shell asks this program for completions.
pub(super) const VARIABLE: &str = "JOURNEYMAN_COMPLETE";

#[derive(Debug, Args)]
#[command(
    after_help = "For bash, add this line to ~/.bashrc: source <(journeyman completions bash)\nFor zsh, to ~/.zshrc: \
                  source <(journeyman completions zsh)\nFor fish, to ~/.config/fish/completions/journeyman.fish: \
                  journeyman completions fish | source"
)]
pub(crate) struct CompletionArgs {
    /// Shell to generate the script for
    shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages, which is created if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Prints a script that completes the program's commands in a shell. The script asks this program, which also knows the
/// names of contexts, projects and jobs.
pub(crate) fn run(arguments: &CompletionArgs) -> anyhow::Result<ExitCode> {
    let shell = arguments.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell).with_context(|| format!("there are no completions for {shell}"))?;
    let program = program::anywhere(&client_environment().path)?;
    // Generate into memory first, because stdout may be closed.
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "journeyman", "journeyman", &program, &mut script)?;
    print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages of all commands.
pub(crate) fn man(arguments: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    let dir = &arguments.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("{} cannot be created", dir.display()))?;
    clap_mangen::generate_to(command, dir).with_context(|| format!("{} cannot be written", dir.display()))?;
    print(&format!("The manual pages are in {}; read one with: man -l {}/journeyman.1", dir.display(), dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the description of the HTTP interface.
pub(crate) fn openapi() -> anyhow::Result<ExitCode> {
    print(&serde_json::to_string_pretty(&journeyman_http::document(env!("CARGO_PKG_VERSION")))?)?;
    Ok(ExitCode::SUCCESS)
}
