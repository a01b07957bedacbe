//! `journeyman agent`: the built-in agent, and the care for others.

mod built_in;
mod check;
mod install;
mod list;
mod lock;

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use journeyman_core::agent::AgentSpec;

use self::built_in::BuiltInArgs;
use self::check::CheckArgs;
use super::store::StoreArgs;
use crate::config::Settings;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    built_in: Option<BuiltInArgs>,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Lists the agents that this machine knows, and which are installed
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Installs an agent into the data directory, in the version that is known to work, from npm or PyPI
    Install {
        /// The agent
        id: String,
        /// Install without a lock file: the hashes of the packages that the registry serves are not verified
        #[arg(long)]
        unpinned: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Has an agent do a small job in its sandbox with a model, and says what it can do; this may cost a few cents
    Check {
        #[command(flatten)]
        check: CheckArgs,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Carries out a command.
pub(crate) fn run(arguments: AgentArgs) -> anyhow::Result<ExitCode> {
    match (arguments.command, arguments.built_in) {
        (Some(AgentCommand::List { store, json }), _) => list::run(&store.settings()?, json),
        (Some(AgentCommand::Install { id, unpinned, store }), _) => install::run(&store.settings()?, &id, unpinned),
        (Some(AgentCommand::Check { check, store }), _) => check::run(store.settings()?, &check),
        (None, Some(built_in)) => built_in::run(built_in),
        (None, None) => bail!("the folder for sessions must be given with --state-dir"),
    }
}

/// The agent of that id.
fn find<'a>(settings: &'a Settings, id: &str) -> anyhow::Result<&'a AgentSpec> {
    settings.agents.get(id).with_context(|| {
        let known: Vec<&str> = settings.agents.keys().map(String::as_str).collect();
        format!("there is no agent {id:?}; there are: {}", known.join(", "))
    })
}
