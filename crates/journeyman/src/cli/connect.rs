//! The connection of commands to a server.

use std::time::Duration;

use journeyman_client::{Client, Error, JobHandle};
use serde_json::Value;

/// The longest `Retry-After` for which a command waits; longer waits are left to the user.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time for which the server holds a request for an active job.
const POLL: Duration = Duration::from_secs(30);

/// Returns a client for the server at `url`.
pub(super) fn connect(url: &str, key: &str) -> Result<Client, Error> {
    let program = concat!("journeyman/", env!("CARGO_PKG_VERSION"));
    Client::builder(url, key).user_agent(program).max_retry_after(PATIENCE).build()
}

/// Waits until a job is no longer active, and returns its record with all fields that the server sent.
pub(super) async fn settled(job: &JobHandle) -> Result<Value, Error> {
    loop {
        let record = job.poll(POLL).raw().await?;
        if record["status"] != "active" {
            return Ok(record);
        }
    }
}

/// Returns the text of an error for people, with the remedy.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::Connection { url, cause, .. } => {
            format!("cannot reach a server at {url} ({cause}); start one with `journeyman serve`, or set --url")
        }
        Error::Api(refusal) => match (refusal.body["error"].as_str(), refusal.body["requestId"].as_str()) {
            (Some(text), Some(id)) => format!("{text} (request {id})"),
            _ => no_reason(refusal.status),
        },
        other => other.to_string(),
    }
}

/// Returns the text of an error for a response that is not one of this interface.
pub(super) fn no_reason(status: u16) -> String {
    format!("the server responded with {status} and no reason; is --url that of a Journeyman?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_be_reached_is_explained_with_the_remedy() {
        let url = "http://localhost/".to_owned();
        let error = Error::Connection { url, cause: "refused".to_owned(), is_unsent: true, is_timeout: false };
        let text = describe(&error);
        assert!(text.starts_with("cannot reach a server at http://localhost/ (refused)"), "{text}");
        assert!(text.contains("journeyman serve"), "{text}");
    }

    #[test]
    fn a_key_with_a_line_break_and_a_url_of_another_scheme_are_refused() {
        assert!(connect("http://localhost", "a\nb").is_err());
        assert!(connect("ftp://localhost", "a").is_err());
        assert!(connect("localhost:8080", "a").is_err());
    }
}
