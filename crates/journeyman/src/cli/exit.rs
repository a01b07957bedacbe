//! The exit codes of commands, for scripts.

use std::process::ExitCode;
use std::{fmt, io};

use journeyman_app::RefusalKind;
use journeyman_client::Error;
use serde_json::{Value, json};

use super::connect::describe;

/// The description of the exit codes, shown below the help.
pub(super) const HELP: &str = "Exit codes: 0 success; 1 the command failed; 2 invalid usage or request (400, 413); 3 \
                               the job failed (with --wait, --watch and watch); 4 not permitted (401, 403); 5 not \
                               found (404, 410); 6 try again later (429, 503, or no connection to the server); 7 \
                               conflict with the state of the job or the pull request (409, 412, 422).";

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    JobFailed = 3,
    Refused = 4,
    NotFound = 5,
    TryLater = 6,
    Conflict = 7,
}

impl Exit {
    /// Returns the exit code for the status in a job's record.
    pub(super) fn of(record: &Value) -> Self {
        if record["status"] == "failed" { Self::JobFailed } else { Self::Done }
    }

    /// Returns the exit code for the status of an error response.
    const fn of_status(status: u16) -> Self {
        match status {
            400 | 413 | 414 | 415 | 431 => Self::Usage,
            401 | 403 => Self::Refused,
            404 | 410 => Self::NotFound,
            409 | 412 | 422 => Self::Conflict,
            429 | 503 => Self::TryLater,
            _ => Self::Failed,
        }
    }
}

/// An error in the use of a command.
#[derive(Debug)]
struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns an error whose exit code is that for invalid usage.
pub(super) fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(text.into()))
}

/// Returns the exit code for an error of a command on this machine. A request that a server would refuse with 400 has the
/// same exit code here.
pub(super) fn of_local(error: &anyhow::Error) -> Exit {
    let is_invalid = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<journeyman_app::Error>() {
        Some(journeyman_app::Error::Refused(refusal)) => matches!(
            refusal.kind,
            RefusalKind::Invalid
                | RefusalKind::InvalidPrompt
                | RefusalKind::PromptTooLong
                | RefusalKind::UnknownAgent
                | RefusalKind::UnsupportedPolicy
                | RefusalKind::RepositoryAddressRefused
        ),
        _ => cause.is::<UsageError>(),
    };
    if error.chain().any(is_invalid) { Exit::Usage } else { Exit::Failed }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error of a command.
#[derive(Debug)]
pub(super) enum Failure {
    /// A required option is missing, or an argument names nothing.
    Usage(String),
    /// A step on this machine failed, such as reading a file or running git.
    Local(anyhow::Error),
    /// The state of the job or the pull request does not allow the command.
    State(String),
    /// The request to the server failed.
    Client(Error),
    /// Reading stdin or writing to stdout failed.
    Io(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Local(error)
    }
}

impl Failure {
    /// Returns the exit code for the error.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::State(_) => Exit::Conflict,
            Self::Client(Error::Connection { .. }) => Exit::TryLater,
            Self::Client(Error::Api(refusal)) => Exit::of_status(refusal.status),
            Self::Client(Error::Invalid(_)) => Exit::Usage,
            Self::Client(_) | Self::Io(_) => Exit::Failed,
            Self::Local(error) => of_local(error),
        }
    }

    /// Returns the text of the error.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Usage(text) | Self::State(text) => text.clone(),
            Self::Local(error) => format!("{error:#}"),
            Self::Client(error) => describe(error),
            Self::Io(error) => error.to_string(),
        }
    }

    /// Returns the text of the error for stderr.
    pub(super) fn message(&self, as_json: bool) -> String {
        let text = self.text();
        match self {
            Self::Client(Error::Api(refusal)) if as_json && refusal.body.is_object() => refusal.body.to_string(),
            _ if as_json => json!({"error": text}).to_string(),
            // The text of a server can contain control characters.
            _ => format!("error: {}", super::look::plain(&text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_an_exit_code() {
        for (status, exit) in [
            (400, Exit::Usage),
            (401, Exit::Refused),
            (403, Exit::Refused),
            (404, Exit::NotFound),
            (405, Exit::Failed),
            (409, Exit::Conflict),
            (410, Exit::NotFound),
            (412, Exit::Conflict),
            (413, Exit::Usage),
            (414, Exit::Usage),
            (415, Exit::Usage),
            (422, Exit::Conflict),
            (429, Exit::TryLater),
            (431, Exit::Usage),
            (500, Exit::Failed),
            (503, Exit::TryLater),
        ] {
            assert_eq!(Exit::of_status(status), exit, "{status}");
        }
        let (url, cause) = ("http://localhost/".to_owned(), "refused".to_owned());
        let unreachable = Error::Connection { url, cause, is_unsent: true, is_timeout: false };
        assert_eq!(Failure::Client(unreachable).exit(), Exit::TryLater);
        assert_eq!(Failure::Client(Error::Invalid("the URL".to_owned())).exit(), Exit::Usage);
        assert_eq!(Failure::Local(anyhow::anyhow!("git failed")).exit(), Exit::Failed);
        assert_eq!(Failure::Local(usage("--env needs NAME=VALUE").context("x")).exit(), Exit::Usage);
        assert_eq!(Failure::State("the job has no branch".to_owned()).exit(), Exit::Conflict);
        assert_eq!(Failure::Usage("the key is missing".to_owned()).exit(), Exit::Usage);
    }

    #[test]
    fn an_invalid_request_on_this_machine_has_the_exit_code_of_one_to_a_server() {
        for (error, exit) in [
            (journeyman_app::Error::invalid("ref is empty"), Exit::Usage),
            (journeyman_app::Error::refused(RefusalKind::UnknownAgent, "x"), Exit::Usage),
            (journeyman_app::Error::project_not_found(), Exit::Failed),
            (journeyman_app::Error::Internal("x".to_owned()), Exit::Failed),
        ] {
            assert_eq!(of_local(&anyhow::Error::new(error)), exit);
        }
        assert_eq!(of_local(&anyhow::anyhow!("x")), Exit::Failed);
    }

    /// The table of docs/cli.md is the promise to scripts.
    #[test]
    fn the_documentation_lists_the_statuses_of_each_exit_code() {
        let document = include_str!("../../../../docs/cli.md");
        let row = |code: Exit| {
            let start = format!("| {} | ", code as u8);
            document.lines().find(|line| line.starts_with(&start)).unwrap_or_default()
        };
        for status in 400..600_u16 {
            let exit = Exit::of_status(status);
            let listed: Vec<Exit> = [Exit::Usage, Exit::Refused, Exit::NotFound, Exit::TryLater, Exit::Conflict]
                .into_iter()
                .filter(|code| row(*code).contains(&status.to_string()))
                .collect();
            let expected = if exit == Exit::Failed { Vec::new() } else { vec![exit] };
            assert_eq!(listed, expected, "{status}");
        }
    }

    #[test]
    fn a_failed_job_has_a_separate_exit_code() {
        assert_eq!(Exit::of(&json!({"status": "failed"})), Exit::JobFailed);
        assert_eq!(Exit::of(&json!({"status": "archived"})), Exit::Done);
    }
}
