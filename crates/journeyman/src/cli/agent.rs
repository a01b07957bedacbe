//! `journeyman agent`: runs the built-in agent, and manages others.

mod built_in;
mod check;
mod install;
mod known;
mod list;
mod lock;
mod prepare;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::built_in::BuiltInArgs;
use self::check::CheckArgs;
use super::exit::usage;
use super::paint::ColorWhen;
use super::store::StoreArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    built_in: Option<BuiltInArgs>,
}

impl AgentArgs {
    /// Returns whether the arguments ask for the built-in agent.
    pub(crate) const fn is_built_in(&self) -> bool {
        self.command.is_none()
    }
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// List the known agents, and show which are installed
    List {
        #[command(flatten)]
        store: StoreArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Install an agent from npm or PyPI, in the version that is known to work
    Install {
        /// ID of the agent
        id: String,
        /// Install without a lock file, and do not verify the hashes of the packages
        #[arg(long)]
        unpinned: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Start an agent once, and keep what it unpacks into its home for new jobs
    Prepare {
        /// ID of the agent
        id: String,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Run a small job with an agent and a model, and report what works; this may cost a few cents
    Check {
        #[command(flatten)]
        check: CheckArgs,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Runs a subcommand, or the built-in agent.
pub(crate) fn run(arguments: AgentArgs, color: ColorWhen) -> anyhow::Result<ExitCode> {
    match (arguments.command, arguments.built_in) {
        (Some(AgentCommand::List { store, json }), _) => list::run(&store.settings()?, json, color),
        (Some(AgentCommand::Install { id, unpinned, store }), _) => install::run(&store.settings()?, &id, unpinned),
        (Some(AgentCommand::Prepare { id, store }), _) => prepare::run(&store.settings()?, &id),
        (Some(AgentCommand::Check { check, store }), _) => check::run(store.settings()?, &check),
        (None, Some(built_in)) => built_in::run(built_in),
        (None, None) => Err(usage("--state-dir is missing; set it to a folder for sessions")),
    }
}
