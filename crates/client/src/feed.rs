//! The stream of the events of one project or of all projects.

use std::time::Duration;

use futures::Stream;
use reqwest::Method;

use crate::client::Client;
use crate::error::Error;
use crate::models::{ProjectEvent, ProjectEventType};
use crate::request::{Request, path};
use crate::stream::Connection;

/// The stream of the feed. It resumes after a lost connection, and does not end.
#[must_use = "a stream connects when its events are read"]
pub struct FeedEvents {
    connection: Connection,
}

impl std::fmt::Debug for FeedEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FeedEvents").field("cursor", &self.connection.last_event_id).finish_non_exhaustive()
    }
}

impl FeedEvents {
    pub(crate) fn new(client: Client, segments: &[&str]) -> Self {
        let request = path(segments).map(|path| Request::new(Method::GET, path));
        Self { connection: Connection::new(client, request, None) }
    }

    /// Sends only events of this type. Can be repeated.
    pub fn kind(mut self, kind: &ProjectEventType) -> Self {
        self.connection.query("type", kind.to_string());
        self
    }

    /// Begins after the event with this ID, or at the cursor of a page; by default, with the next event.
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.connection.last_event_id = Some(cursor.into());
        self
    }

    /// Sets the longest time for which the stream tries to reconnect, `None` for no limit; by default, 5 minutes.
    pub fn reconnect_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.connection.reconnect_timeout = timeout;
        self
    }

    /// Connects, and returns the cursor at which the stream begins. Events from then on are not missed, so begin before
    /// you cause them.
    ///
    /// # Errors
    /// The server refuses the request, or stays unreachable.
    pub async fn begin(&mut self) -> Result<String, Error> {
        self.connection.begin().await
    }

    /// Waits for the next event.
    ///
    /// If the returned future is dropped, no event is lost.
    ///
    /// # Errors
    /// The server refuses the request, sends an invalid event, or stays unreachable.
    pub async fn next(&mut self) -> Result<ProjectEvent, Error> {
        self.begin().await?;
        let document = self.connection.next().await?;
        serde_json::from_value(document)
            .map_err(|_| Error::InvalidResponse("the server sent an invalid event".to_owned()))
    }

    /// Returns the cursor after the last event, to continue in another process.
    pub fn cursor(&self) -> Option<&str> {
        self.connection.last_event_id.as_deref()
    }

    /// Returns the events as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<ProjectEvent, Error>> + Send {
        futures::stream::try_unfold(self, |mut events| async move {
            let found = events.next().await;
            found.map(|event| Some((event, events)))
        })
    }
}
