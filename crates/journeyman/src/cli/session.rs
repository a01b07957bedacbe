//! A command's session with a server: the client, the project, and the format of the output.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use journeyman_client::{Client, JobHandle, Pager};
use serde_json::Value;

use super::connect::connect;
use super::connection::{Connection, ConnectionArgs};
use super::exit::{Exit, Failure};
use super::look::Look;
use super::paint::ColorWhen;
use super::store::{is_output_closed, print, print_lines};
use super::{complete, is_closed_pipe};
use crate::config::client_environment;

/// The options of commands that work in a project on a server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ServerArgs {
    #[command(flatten)]
    connection: ConnectionArgs,

    /// ID of the project [env: JOURNEYMAN_PROJECT] [default: that of the context]
    #[arg(
        short,
        long,
        value_name = "PROJECT",
        global = true,
        help_heading = "Connection",
        add = ArgValueCandidates::new(complete::projects)
    )]
    project: Option<String>,

    /// Print only the server's JSON, one document per line
    #[arg(long, global = true, help_heading = "Output")]
    pub(super) json: bool,
}

/// The server, project and output format of a command.
pub(super) struct Session {
    pub(super) client: Client,
    /// The ID of the project; empty for commands that do not work in one.
    pub(super) project: String,
    pub(super) json: bool,
    pub(super) look: Look,
}

/// Runs a command that works in a project on a server.
pub(super) fn with_session(
    server: ServerArgs,
    color: ColorWhen,
    work: impl AsyncFnOnce(Session) -> Result<Exit, Failure>,
) -> anyhow::Result<ExitCode> {
    let ServerArgs { connection, project, json } = server;
    run(json, async {
        let Connection { url, key, project: other } = connection.resolve(client_environment())?;
        let missing = || "the project is missing: set --project or JOURNEYMAN_PROJECT".to_owned();
        let project = project.or(other).ok_or_else(|| Failure::Usage(missing()))?;
        work(Session { project, ..Session::new(&url, &key, json, color)? }).await
    })
}

/// Runs a command that works on a server, in no project.
pub(super) fn with_connection(
    connection: ConnectionArgs,
    json: bool,
    color: ColorWhen,
    work: impl AsyncFnOnce(Session) -> Result<Exit, Failure>,
) -> anyhow::Result<ExitCode> {
    run(json, async {
        let Connection { url, key, .. } = connection.resolve(client_environment())?;
        work(Session::new(&url, &key, json, color)?).await
    })
}

/// Runs the asynchronous part of a command, and reports its failure.
pub(super) fn run(json: bool, work: impl Future<Output = Result<Exit, Failure>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.context("the runtime could not be started")?.block_on(work);
    Ok(match done {
        Ok(exit) => exit.into(),
        Err(Failure::Io(error)) if is_output_closed(&error) => ExitCode::SUCCESS,
        // The caller knows that a closed pipe is no failure.
        Err(Failure::Local(error)) if is_closed_pipe(&error) => return Err(error),
        Err(failure) => {
            // If stderr is closed, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "{}", failure.message(json));
            failure.exit().into()
        }
    })
}

impl Session {
    pub(super) fn new(url: &str, key: &str, json: bool, color: ColorWhen) -> Result<Self, Failure> {
        let look = Look::for_stdout(color);
        Ok(Self { client: connect(url, key)?, project: String::new(), json, look })
    }

    /// Returns the operations on a job.
    pub(super) fn job(&self, job: &str) -> JobHandle {
        self.client.job(&self.project, job)
    }

    /// Returns the URL of a page of the dashboard, from its path within the project.
    pub(super) fn page(&self, path: &str) -> String {
        format!("{}projects/{}{path}", self.client.url(), self.project)
    }

    /// Prints all entries of a list.
    pub(super) async fn rows<T>(
        &self,
        list: Pager<T>,
        table: impl Fn(&[Value]) -> Vec<String>,
    ) -> Result<Exit, Failure> {
        self.print_rows(&list.raw().all().await?, table)?;
        Ok(Exit::Done)
    }

    /// Prints rows as a table, or as one line of JSON each.
    pub(super) fn print_rows(&self, rows: &[Value], table: impl Fn(&[Value]) -> Vec<String>) -> Result<(), Failure> {
        if self.json {
            rows.iter().try_for_each(|row| print(&row.to_string()))?;
        } else {
            print_lines(&table(rows))?;
        }
        Ok(())
    }

    /// Prints a sentence about what was done, except with `--json`.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        if self.json { Ok(()) } else { Ok(print(text)?) }
    }

    /// Prints a document as lines, or as JSON.
    pub(super) fn show(&self, document: &Value, lines: impl Fn(&Value) -> Vec<String>) -> Result<(), Failure> {
        if self.json {
            print(&document.to_string())?;
        } else {
            print_lines(&lines(document))?;
        }
        Ok(())
    }
}
