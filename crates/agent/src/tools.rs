//! The tools of the agent: their definitions for a model, and their execution.
//!
//! Invariants: the file tools touch files only below the working directory; no tool sends anything to the client, the
//! [`ToolOutput`] describes what it did; an error is a text for the model.

mod arguments;
mod edit_file;
mod encoding;
mod lines;
mod list_dir;
mod output;
mod process_group;
mod read_file;
mod run_command;
mod search;
mod update_plan;
mod write_file;

use std::io;

use agent_client_protocol::v1::schema::{ToolCallLocation, ToolKind};
use genai::chat::Tool;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::output::{FileDiff, ToolOutput};
use crate::workspace::{Workspace, WorkspaceError};

/// The context of a tool call.
pub(crate) struct Context<'a> {
    /// The directory of the session.
    pub(crate) workspace: &'a Workspace,
    /// Cancelled when the turn must stop.
    pub(crate) cancel: &'a CancellationToken,
}

/// The description of a call before it runs.
#[derive(Debug)]
pub(crate) struct Announcement {
    /// The kind of the call.
    pub(crate) kind: ToolKind,
    /// A one-line title for the user.
    pub(crate) title: String,
    /// The files that the call concerns.
    pub(crate) locations: Vec<ToolCallLocation>,
}

impl Announcement {
    /// Describes a call that cannot be parsed.
    pub(crate) fn unknown(name: &str) -> Self {
        Self::new(ToolKind::Other, name.to_owned())
    }

    fn new(kind: ToolKind, title: String) -> Self {
        Self { kind, title, locations: Vec::new() }
    }

    /// Adds the file of the call, unless the tool will refuse the path.
    fn at(mut self, workspace: &Workspace, path: &str) -> Self {
        if let Ok(path) = workspace.resolve(path) {
            self.locations.push(ToolCallLocation::new(path));
        }
        self
    }
}

/// The error of a failed call; the text goes to the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The path cannot be used.
    #[error(transparent)]
    Path(#[from] WorkspaceError),
    /// The file system or the process failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The action that failed, as a verb phrase.
        action: &'static str,
        /// The path as the model gave it.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The call asks for something that this tool does not do.
    #[error("{0}")]
    Refused(String),
    /// The turn was cancelled while the call ran.
    #[error("the turn was cancelled")]
    Cancelled,
    /// The thread of the call panicked or was stopped.
    #[error("the tool was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

impl ToolError {
    /// Returns a function that converts an I/O error and names the failed action.
    fn io(action: &'static str, path: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// A call with its arguments.
#[derive(Debug)]
pub(crate) enum ToolRequest {
    /// Reads a part of a file.
    ReadFile(read_file::Args),
    /// Creates or replaces a file.
    WriteFile(write_file::Args),
    /// Replaces a text in a file.
    EditFile(edit_file::Args),
    /// Lists a directory.
    ListDir(list_dir::Args),
    /// Searches files for a pattern.
    Search(search::Args),
    /// Runs a shell command.
    RunCommand(run_command::Args),
    /// Sets the plan.
    UpdatePlan(update_plan::Args),
}

impl ToolRequest {
    /// Parses the call of a model; the error is a text for the model.
    pub(crate) fn parse(name: &str, arguments: &Value) -> Result<Self, String> {
        match name {
            read_file::NAME => parse_args(name, arguments).map(Self::ReadFile),
            write_file::NAME => parse_args(name, arguments).map(Self::WriteFile),
            edit_file::NAME => parse_args(name, arguments).map(Self::EditFile),
            list_dir::NAME => parse_args(name, arguments).map(Self::ListDir),
            search::NAME => parse_args(name, arguments).map(Self::Search),
            run_command::NAME => parse_args(name, arguments).map(Self::RunCommand),
            update_plan::NAME => parse_args(name, arguments).map(Self::UpdatePlan),
            _ => Err(format!("there is no tool `{name}`")),
        }
    }

    /// Creates the call that writes `content` to `path`.
    pub(crate) fn write_file(path: &str, content: String) -> Self {
        Self::WriteFile(write_file::Args { path: path.to_owned(), content })
    }

    /// Creates the call that runs `command` with the default time limit.
    pub(crate) fn run_command(command: &str) -> Self {
        Self::RunCommand(run_command::Args { command: command.to_owned(), timeout_seconds: None })
    }

    /// Returns the name of the tool.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::ReadFile(_) => read_file::NAME,
            Self::WriteFile(_) => write_file::NAME,
            Self::EditFile(_) => edit_file::NAME,
            Self::ListDir(_) => list_dir::NAME,
            Self::Search(_) => search::NAME,
            Self::RunCommand(_) => run_command::NAME,
            Self::UpdatePlan(_) => update_plan::NAME,
        }
    }

    /// Describes the call before it runs.
    pub(crate) fn announcement(&self, workspace: &Workspace) -> Announcement {
        match self {
            Self::ReadFile(args) => args.announcement(workspace),
            Self::WriteFile(args) => args.announcement(workspace),
            Self::EditFile(args) => args.announcement(workspace),
            Self::ListDir(args) => args.announcement(workspace),
            Self::Search(args) => args.announcement(workspace),
            Self::RunCommand(args) => args.announcement(),
            Self::UpdatePlan(args) => args.announcement(),
        }
    }

    /// Runs the call. Work on files runs on a blocking thread.
    pub(crate) async fn run(self, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let workspace = context.workspace.clone();
        let cancel = context.cancel.clone();
        match self {
            Self::ReadFile(args) => blocking(move || read_file::run(&args, &workspace)).await,
            Self::WriteFile(args) => blocking(move || write_file::run(&args, &workspace)).await,
            Self::EditFile(args) => blocking(move || edit_file::run(&args, &workspace)).await,
            Self::ListDir(args) => blocking(move || list_dir::run(&args, &workspace)).await,
            Self::Search(args) => blocking(move || search::run(&args, &workspace, &cancel)).await,
            Self::RunCommand(args) => run_command::run(&args, context).await,
            Self::UpdatePlan(args) => Ok(update_plan::run(args)),
        }
    }
}

/// Returns the definitions of the tools for a model.
pub(crate) fn definitions() -> Vec<Tool> {
    vec![
        read_file::definition(),
        write_file::definition(),
        edit_file::definition(),
        list_dir::definition(),
        search::definition(),
        run_command::definition(),
        update_plan::definition(),
    ]
}

fn parse_args<T: DeserializeOwned>(name: &str, arguments: &Value) -> Result<T, String> {
    serde_json::from_value(arguments.clone()).map_err(|error| format!("the arguments of {name} are not valid: {error}"))
}

async fn blocking<F>(work: F) -> Result<ToolOutput, ToolError>
where
    F: FnOnce() -> Result<ToolOutput, ToolError> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await?
}

#[cfg(test)]
mod tests;
