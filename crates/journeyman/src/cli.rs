//! The command line.

mod agent;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs coding-agent jobs on git repositories: a prompt becomes a pull request, a follow-up extends it.
#[derive(Debug, Parser)]
#[command(name = "journeyman", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The built-in coding agent: speaks the Agent Client Protocol on its standard streams.
    Agent(agent::AgentArgs),
}

/// Runs what the command line asks for.
pub(crate) fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Agent(arguments) => agent::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is closed there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
