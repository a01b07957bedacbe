//! `journeyman config`: an example of the configuration file, and a check of a configuration file.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::store::print;
use crate::config::{self, Layer};

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print a configuration file that has every setting as a comment, with its description and a value
    Example,
    /// Check the settings of journeyman serve without starting it
    Check(Box<CheckArgs>),
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    settings: Layer,
}

/// Runs a subcommand.
pub(crate) fn run(arguments: ConfigArgs) -> anyhow::Result<ExitCode> {
    match arguments.command {
        ConfigCommand::Example => print(config::example().trim_end())?,
        ConfigCommand::Check(arguments) => {
            let settings = config::load(arguments.settings)?;
            print(&format!("the settings are valid; the data is in {}", settings.data_dir.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
