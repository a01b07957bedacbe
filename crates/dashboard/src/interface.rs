//! What the pages ask of the HTTP interface, in the same process.

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use journeyman_core::ids::JobId;
use journeyman_core::job::event::LogEntry;
use serde_json::Value;

use crate::{Viewer, words};

/// A request to the interface.
#[derive(Debug, Clone)]
pub struct Call {
    /// Such as `POST`.
    pub method: Method,
    /// Such as `/v2/projects`, with a query if there is one.
    pub path: String,
    /// The body, as JSON.
    pub body: Option<Value>,
    /// The idempotency key.
    pub key: Option<String>,
    /// Whether it comes of a comment on a pull request.
    pub from_pull_request: bool,
}

impl Call {
    fn new(method: Method, path: impl Into<String>, body: Option<Value>) -> Self {
        Self { method, path: path.into(), body, key: None, from_pull_request: false }
    }

    /// A request that changes something.
    pub(crate) fn post(path: impl Into<String>, body: Option<Value>) -> Self {
        Self::new(Method::POST, path, body)
    }

    /// A request that removes something.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    /// A merge patch.
    pub(crate) fn patch(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::PATCH, path, Some(body))
    }

    /// A request for something to show.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None)
    }

    /// The message comes of a comment on a pull request.
    pub(crate) const fn of_pull_request(mut self) -> Self {
        self.from_pull_request = true;
        self
    }

    /// The same request again with this key is answered and not done again.
    pub(crate) fn once(mut self, key: Option<&str>) -> Self {
        self.key = key.map(str::to_owned);
        self
    }
}

/// What the interface answers.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Whether it was done.
    pub status: StatusCode,
    /// The body; null where there is none.
    pub body: Value,
}

impl Answer {
    /// The body, or why it was not done.
    ///
    /// # Errors
    /// The text for people, and the status.
    pub(crate) fn done(self) -> Result<Value, Refusal> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let text = self.body["error"].as_str().unwrap_or("the server could not do it; its log says why");
        Err(Refusal { status: self.status, text: words::sentence(text) })
    }
}

/// Why the interface did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

/// The HTTP interface.
#[async_trait]
pub trait Interface: Send + Sync {
    /// Does what is asked, for somebody who has signed in, with the rights of their role.
    async fn call(&self, viewer: &Viewer, call: Call) -> Answer;

    /// What is remembered of keys may be out of date.
    fn forget(&self);

    /// Returns when the service stops: answers that last end then.
    async fn stopped(&self);

    /// Reads a job's log from behind `after`, and waits for what comes.
    fn tail(&self, job: JobId, after: u64) -> Box<dyn LogTail>;
}

/// What comes next in a job's log.
#[derive(Debug)]
pub enum Tail {
    /// Lines, at least one.
    News(Vec<LogEntry>),
    /// None for a while: the time to see whether whoever listens may still do so.
    Quiet,
    /// There will be no more: the job is gone, or the service stops.
    Over,
}

/// A job's log as it grows.
#[async_trait]
pub trait LogTail: Send + Sync {
    /// Waits for what comes next.
    async fn next(&mut self) -> Tail;
}
