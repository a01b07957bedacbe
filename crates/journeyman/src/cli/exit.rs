//! The exit codes of commands, for scripts.

use std::io;
use std::process::ExitCode;

use journeyman_client::Error;
use serde_json::{Value, json};

use super::connect::describe;

/// The description of the exit codes, shown below the help.
pub(super) const HELP: &str = "Exit codes: 0 success; 1 the command failed; 2 invalid usage; 3 the job failed (with \
                               --wait, --watch and watch); 4 not permitted (401, 403); 5 not found (404); 6 try \
                               again later (429, 503, or no connection to the server); 7 conflict with the state of \
                               the job or the pull request (409, 422).";

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
            401 | 403 => Self::Refused,
            404 => Self::NotFound,
            409 | 422 => Self::Conflict,
            429 | 503 => Self::TryLater,
            _ => Self::Failed,
        }
    }
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
    /// What the command does on this machine failed, such as reading a file or running git.
    Local(anyhow::Error),
    /// The state of the job or the pull request does not allow what was asked.
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
            Self::Client(_) | Self::Io(_) | Self::Local(_) => Exit::Failed,
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
            (400, Exit::Failed),
            (401, Exit::Refused),
            (403, Exit::Refused),
            (404, Exit::NotFound),
            (409, Exit::Conflict),
            (422, Exit::Conflict),
            (429, Exit::TryLater),
            (500, Exit::Failed),
            (503, Exit::TryLater),
        ] {
            assert_eq!(Exit::of_status(status), exit, "{status}");
        }
        let (url, cause) = ("http://localhost/".to_owned(), "refused".to_owned());
        let unreachable = Error::Connection { url, cause, is_unsent: true, is_timeout: false };
        assert_eq!(Failure::Client(unreachable).exit(), Exit::TryLater);
        assert_eq!(Failure::Client(Error::Invalid("the URL".to_owned())).exit(), Exit::Failed);
        assert_eq!(Failure::Local(anyhow::anyhow!("git failed")).exit(), Exit::Failed);
        assert_eq!(Failure::State("the job has no branch".to_owned()).exit(), Exit::Conflict);
        assert_eq!(Failure::Usage("the key is missing".to_owned()).exit(), Exit::Usage);
    }

    #[test]
    fn a_failed_job_has_a_separate_exit_code() {
        assert_eq!(Exit::of(&json!({"status": "failed"})), Exit::JobFailed);
        assert_eq!(Exit::of(&json!({"status": "archived"})), Exit::Done);
    }
}
