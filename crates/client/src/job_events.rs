//! The stream of the events of a job.

use std::time::Duration;

use futures::Stream;
use reqwest::Method;

use crate::error::Error;
use crate::job::JobHandle;
use crate::models::{Event, Status};
use crate::request::{Request, path};
use crate::stream::Connection;

/// The stream of the events of a job: first the stored ones, and then new ones. It resumes after a lost connection.
///
/// By default, it ends when the job is not active.
#[must_use = "a stream connects when its events are read"]
pub struct JobEvents {
    job: JobHandle,
    connection: Connection,
    seq: u64,
    follow: bool,
    /// Unless the stream follows the job, it ends after this event if there is one.
    end: Option<u64>,
    is_end_due: bool,
}

impl std::fmt::Debug for JobEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobEvents").field("job", &self.job).field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl JobHandle {
    /// Streams the events: first the stored ones, and then new ones until the job is not active.
    pub fn stream_events(&self) -> JobEvents {
        JobEvents::new(self.clone())
    }
}

impl JobEvents {
    fn new(job: JobHandle) -> Self {
        let path = path(&["v2", "agent", job.project(), "job", job.id(), "events", "stream"]);
        let request = path.map(|path| Request::new(Method::GET, path));
        let connection = Connection::new(job.client().clone(), request, Some("0".to_owned()));
        Self { job, connection, seq: 0, follow: false, end: None, is_end_due: true }
    }

    /// Begins after the event with this number. To continue in another process, store `seq` after each event.
    pub fn after(mut self, seq: u64) -> Self {
        self.connection.last_event_id = Some(seq.to_string());
        self.seq = seq;
        self
    }

    /// Keeps the stream open when the job is not active.
    pub fn follow(mut self) -> Self {
        (self.follow, self.is_end_due) = (true, false);
        self
    }

    /// Sets the longest time for which the stream tries to reconnect, `None` for no limit; by default, 5 minutes.
    pub fn reconnect_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.connection.reconnect_timeout = timeout;
        self
    }

    /// Waits for the next event; `None` at the end.
    ///
    /// If the returned future is dropped, no event is lost.
    ///
    /// # Errors
    /// The server refuses the request, sends an invalid event, or stays unreachable.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        if self.is_end_due {
            self.end = find_end(&self.job, self.seq).await?;
            self.is_end_due = false;
        }
        if self.end.is_some_and(|end| self.seq >= end) {
            return Ok(None);
        }
        let event = Event::from_document(self.connection.next().await?)?;
        self.seq = event.seq;
        if !self.follow {
            self.is_end_due = event.is_end() || self.end.is_some_and(|end| event.seq >= end);
        }
        Ok(Some(event))
    }

    /// Returns the events as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Event, Error>> + Send {
        futures::stream::try_unfold(self, |mut events| async move {
            let found = events.next().await;
            found.map(|event| event.map(|event| (event, events)))
        })
    }
}

/// Returns the number of the last event; `None` if the job is active.
async fn find_end(job: &JobHandle, seq: u64) -> Result<Option<u64>, Error> {
    if job.get().await?.status == Status::Active {
        return Ok(None);
    }
    job.newest_event(seq).await.map(Some)
}
