//! The command line.

mod agent;
mod backend;
mod backup;
mod browser;
mod code_host;
mod complete;
mod completions;
mod config_file;
mod confirm;
mod connect;
mod connection;
mod context;
mod contexts;
mod copy;
mod credential;
mod demo;
mod doctor;
mod effort;
mod exit;
mod help;
mod job;
mod key;
mod key_encryption;
mod login;
mod look;
mod mcp;
mod migrate;
mod number;
mod paint;
mod pr;
mod program;
mod project;
mod prompt;
mod restore;
mod secret;
mod serve;
mod session;
mod slack;
mod store;
mod table;
mod template;
mod terminal;
mod trust;
mod user;
mod webhook;
mod words;
mod working_tree;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;

use self::paint::ColorWhen;
use crate::core_dumps;

/// Run coding agents on git repositories: a prompt becomes a pull request, and a follow-up extends it
#[derive(Debug, Parser)]
#[command(name = "journeyman", version = env!("JOURNEYMAN_VERSION"))]
struct Cli {
    /// When the output has colors; `NO_COLOR` and `CLICOLOR_FORCE` also count
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, global = true, help_heading = "Output")]
    color: ColorWhen,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the HTTP interface and run jobs
    Serve(Box<serve::ServeArgs>),
    /// Show the main workflow: service, project, job, follow-up and pull request
    Demo(demo::DemoArgs),
    /// Check the requirements of the service and suggest fixes, without changing anything
    Doctor(doctor::DoctorArgs),
    /// Create jobs, send messages, watch jobs, and use their results
    Job(job::JobArgs),
    /// List, show and merge pull requests
    Pr(pr::PrArgs),
    /// Manage the templates of a project, from which jobs are created
    Template(template::TemplateArgs),
    /// Manage the webhooks of a project
    Webhook(webhook::WebhookArgs),
    /// Connect a local program that speaks the Model Context Protocol with a server
    Mcp(mcp::McpArgs),
    /// Store the key of a server, and set up git to use it
    Login(login::LoginArgs),
    /// Remove a stored key
    Logout(login::LogoutArgs),
    /// List, choose and remove the servers with stored keys
    Context(context::ContextArgs),
    /// Answer git's requests for the credentials of repositories on a server with a stored key
    #[command(hide = true)]
    Credential(credential::CredentialArgs),
    /// Create, list, rotate and revoke API keys
    Key(Box<key::KeyArgs>),
    /// Manage trusts, with which CI services get short-lived keys for their tokens
    Trust(trust::TrustArgs),
    /// Create, change, list and delete projects
    Project(Box<project::ProjectArgs>),
    /// Add, edit, list, remove and test code hosts
    CodeHost(code_host::CodeHostArgs),
    /// Connect Slack workspaces, their channels and their people
    Slack(slack::SlackArgs),
    /// Manage users of the dashboard, and create links to set their passwords
    User(user::UserArgs),
    /// Update the schema of the database, if the service does not do so at startup
    Migrate(migrate::MigrateArgs),
    /// Back up the database, repositories and sessions; the service may be running
    Backup(backup::BackupArgs),
    /// Restore a backup into an empty installation
    Restore(restore::RestoreArgs),
    /// Copy the database from SQLite to PostgreSQL
    Store(copy::StoreCommandArgs),
    /// Show which master keys the stored secrets need, and encrypt them again
    KeyEncryption(key_encryption::KeyEncryptionArgs),
    /// List, install and check agents
    ///
    /// Without a subcommand, runs the built-in agent, which speaks the Agent Client Protocol on stdin and stdout.
    Agent(agent::AgentArgs),
    /// Print an example of the configuration file, and check a configuration file
    Config(config_file::ConfigArgs),
    /// Generate a script that completes commands and names in a shell
    Completions(completions::CompletionArgs),
    /// Write the manual pages
    Man(completions::ManArgs),
    /// Print the description of the HTTP interface (OpenAPI 3.1)
    Openapi,
}

/// Returns the description of the command line.
fn command_line() -> clap::Command {
    help::grouped(Cli::command())
}

/// Returns whether a command failed because the reader of its output has closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref()).any(store::is_output_closed)
}

/// Parses the command line, and runs the command.
pub(crate) fn run() -> ExitCode {
    // As the shim, the first program in a sandbox, this program must not start anything else.
    if let Some(code) = journeyman_sandbox::run_if_asked(std::env::args_os().skip(1)) {
        return code;
    }
    // If a shell asks for completions, this answers and exits.
    CompleteEnv::with_factory(command_line).var(completions::VARIABLE).complete();
    let Cli { color, command } = match Cli::from_arg_matches(&command_line().get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let result = carry_out(command, color);
    match result {
        Ok(code) => code,
        // A reader such as `head -1` needs no more output.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            exit::of_local(&error).into()
        }
    }
}

fn carry_out(command: Command, color: ColorWhen) -> anyhow::Result<ExitCode> {
    // The built-in agent runs in a sandbox, has no secrets, and may be debugged there.
    if !matches!(&command, Command::Agent(arguments) if arguments.is_built_in()) {
        core_dumps::turn_off().context("core dumps of this process could not be turned off")?;
    }
    match command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Demo(arguments) => demo::run(arguments, color),
        Command::Doctor(arguments) => doctor::run(arguments, color),
        Command::Job(arguments) => job::run(arguments, color),
        Command::Pr(arguments) => pr::run(arguments, color),
        Command::Template(arguments) => template::run(arguments, color),
        Command::Webhook(arguments) => webhook::run(arguments, color),
        Command::Mcp(arguments) => mcp::run(arguments),
        Command::Login(arguments) => login::login(arguments, color),
        Command::Logout(arguments) => login::logout(arguments),
        Command::Context(arguments) => context::run(arguments, color),
        Command::Credential(arguments) => credential::run(&arguments),
        Command::Key(arguments) => key::run(*arguments, color),
        Command::Trust(arguments) => trust::run(arguments, color),
        Command::Project(arguments) => project::run(*arguments, color),
        Command::CodeHost(arguments) => code_host::run(arguments, color),
        Command::Slack(arguments) => slack::run(arguments, color),
        Command::User(arguments) => user::run(arguments, color),
        Command::Migrate(arguments) => migrate::run(arguments),
        Command::Backup(arguments) => backup::run(arguments),
        Command::Restore(arguments) => restore::run(arguments),
        Command::Store(arguments) => copy::run(arguments),
        Command::KeyEncryption(arguments) => key_encryption::run(arguments),
        Command::Agent(arguments) => agent::run(arguments, color),
        Command::Config(arguments) => config_file::run(arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => completions::man(&arguments, command_line()),
        Command::Openapi => completions::openapi(),
    }
}
