//! The command line.

mod agent;
mod backup;
mod code_host;
mod completions;
mod connect;
mod copy;
mod demo;
mod doctor;
mod job;
mod key;
mod mcp;
mod migrate;
mod project;
mod restore;
mod secret;
mod serve;
mod slack;
mod store;
mod table;
mod trust;
mod user;
mod webhook;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Run coding agents on git repositories: a prompt becomes a pull request, and a follow-up extends it
#[derive(Debug, Parser)]
#[command(name = "journeyman", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the HTTP interface and run jobs
    Serve(Box<serve::ServeArgs>),
    /// Show the main workflow: a service, a project, a job, a follow-up, and its pull request
    Demo(demo::DemoArgs),
    /// Check the requirements of the service, and suggest fixes
    Doctor(doctor::DoctorArgs),
    /// Create jobs, send messages and watch jobs on any server
    Job(job::JobArgs),
    /// Manage the webhooks of a project on a server
    Webhook(webhook::WebhookArgs),
    /// Connect a local program that speaks the Model Context Protocol on stdin and stdout with a server
    Mcp(mcp::McpArgs),
    /// Create, list and revoke API keys, with or without a running service
    Key(key::KeyArgs),
    /// Manage trusts, with which CI services exchange their tokens for short-lived keys, with or without a running service
    Trust(trust::TrustArgs),
    /// Create, change and list projects, with or without a running service
    Project(project::ProjectArgs),
    /// Add, list, remove and test code hosts, with or without a running service
    CodeHost(code_host::CodeHostArgs),
    /// Connect Slack workspaces, their channels and their people, with or without a running service
    Slack(slack::SlackArgs),
    /// List and add users of the dashboard, and create links to set their passwords
    User(user::UserArgs),
    /// Update the schema of the database, if the service does not do so at startup
    Migrate(migrate::MigrateArgs),
    /// Back up the database, repositories of the built-in code host and agents' sessions; the service may be running
    Backup(backup::BackupArgs),
    /// Restore a backup into an empty installation
    Restore(restore::RestoreArgs),
    /// Copy the database from SQLite to PostgreSQL
    Store(copy::StoreCommandArgs),
    /// List, install and check agents; without a subcommand, run the built-in agent, which speaks the Agent Client
    /// Protocol on stdin and stdout
    Agent(agent::AgentArgs),
    /// Generate a script that completes commands in a shell
    Completions(completions::CompletionArgs),
    /// Print the description of the HTTP interface (OpenAPI 3.1)
    Openapi,
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
    let result = match Cli::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Job(arguments) => job::run(arguments),
        Command::Webhook(arguments) => webhook::run(arguments),
        Command::Mcp(arguments) => mcp::run(arguments),
        Command::Key(arguments) => key::run(arguments),
        Command::Trust(arguments) => trust::run(arguments),
        Command::Project(arguments) => project::run(arguments),
        Command::CodeHost(arguments) => code_host::run(arguments),
        Command::Slack(arguments) => slack::run(arguments),
        Command::User(arguments) => user::run(arguments),
        Command::Migrate(arguments) => migrate::run(arguments),
        Command::Backup(arguments) => backup::run(arguments),
        Command::Restore(arguments) => restore::run(arguments),
        Command::Store(arguments) => copy::run(arguments),
        Command::Agent(arguments) => agent::run(arguments),
        Command::Completions(arguments) => completions::run(arguments, Cli::command()),
        Command::Openapi => completions::openapi(),
    };
    match result {
        Ok(code) => code,
        // A reader such as `head -1` needs no more output.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
