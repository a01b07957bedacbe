//! The command line.

mod agent;
mod backup;
mod completions;
mod copy;
mod demo;
mod doctor;
mod job;
mod key;
mod migrate;
mod project;
mod restore;
mod serve;
mod store;
mod table;
mod user;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Runs coding-agent jobs on git repositories: a prompt becomes a pull request, a follow-up extends it.
#[derive(Debug, Parser)]
#[command(name = "journeyman", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the HTTP interface and carries out jobs
    Serve(Box<serve::ServeArgs>),
    /// Shows the main job from nothing: a service, a project, a job, a follow-up, its pull request
    Demo(demo::DemoArgs),
    /// Checks what the service needs, and says how to mend what is missing
    Doctor(doctor::DoctorArgs),
    /// Creates jobs, sends messages, watches: a client for any server
    Job(job::JobArgs),
    /// Makes, lists and revokes API keys, beside a running service or without one
    Key(key::KeyArgs),
    /// Makes, changes and lists projects, beside a running service or without one
    Project(project::ProjectArgs),
    /// Lists and adds people who use the dashboard, and makes links by which they set a password
    User(user::UserArgs),
    /// Brings the schema of the database up to date, for those who do not want it at the start of the service
    Migrate(migrate::MigrateArgs),
    /// Makes a backup, also of a running service: database, repositories of the built-in code host, sessions of agents
    Backup(backup::BackupArgs),
    /// Restores a backup into an empty installation
    Restore(restore::RestoreArgs),
    /// Works on the database as a whole
    Store(copy::StoreCommandArgs),
    /// Lists, installs and checks agents; without a command it is the built-in one, which speaks the Agent Client Protocol
    /// on its standard streams
    Agent(agent::AgentArgs),
    /// Prints a script that completes commands in a shell
    Completions(completions::CompletionArgs),
    /// Prints the description of the HTTP interface (OpenAPI 3.1)
    Openapi,
}

/// Returns whether a command failed because the reader of its output has closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref()).any(store::is_output_closed)
}

/// Runs what the command line asks for.
pub(crate) fn run() -> ExitCode {
    // As the first program of a sandbox it begins nothing of its own.
    if let Some(code) = journeyman_sandbox::run_if_asked(std::env::args_os().skip(1)) {
        return code;
    }
    let result = match Cli::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Job(arguments) => job::run(arguments),
        Command::Key(arguments) => key::run(arguments),
        Command::Project(arguments) => project::run(arguments),
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
        // `journeyman job list | head -1`: the reader has what it wanted.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is closed there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
