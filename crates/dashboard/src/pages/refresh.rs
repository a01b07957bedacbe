//! Streams that refresh an open page when its data changes.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::unfold;
use journeyman_core::ids::JobId;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::StoreError;
use serde::Deserialize;

use crate::digests::{Latest, Read, Reading};
use crate::frame::Frame;
use crate::streams::Stream;
use crate::viewer::Viewer;
use crate::{Shared, session};

/// The interval at which the stream of an open page reads the page's data.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The query of a stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SeenQuery {
    /// The [`digest`] of the data on the page.
    seen: Option<String>,
}

/// Returns a digest of the data on a page.
pub(super) fn digest(data: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns what the rows of jobs depend on. Each change of a job that its row shows adds an event to its log.
pub(super) fn state_of(jobs: &[Job]) -> Vec<(JobId, u64, JobStatus)> {
    jobs.iter().map(|job| (job.id, job.last_seq, job.status())).collect()
}

/// Streams an instruction to refresh the page each time the digest that `read` returns changes, and the updates each time
/// only they change. The digest of the page,
/// or of the last event, is in the request, so that changes before the connection are detected too. `page` names the data
/// of the page: streams with the same name share their digests.
pub(super) fn stream<F, R, T>(frame: &Frame, page: String, seen: SeenQuery, headers: &HeaderMap, read: F) -> Response
where
    F: Fn() -> R + Send + 'static,
    R: Future<Output = Result<T, StoreError>> + Send + 'static,
    T: Into<Read> + 'static,
{
    let (shared, viewer) = (frame.shared.clone(), frame.viewer.clone());
    let Some(stream) = shared.streams.open(viewer.user.id) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let seen = last.or(seen.seen).unwrap_or_default();
    let latest = shared.digests.of(page);
    let poll = Poll { shared, viewer, read, latest, number: None, seen, updated: String::new(), _stream: stream };
    let events = unfold(poll, |mut poll| async move { Some((Ok::<_, Infallible>(poll.next().await?), poll)) });
    ([("x-accel-buffering", "no")], Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

/// The state of a stream.
struct Poll<F> {
    shared: Shared,
    viewer: Viewer,
    read: F,
    /// The latest digest of the page.
    latest: Arc<Latest>,
    /// The number of the last digest that this stream has received.
    number: Option<u64>,
    seen: String,
    /// The digest of the last updates that this stream has sent.
    updated: String,
    _stream: Stream,
}

impl<F, R, T> Poll<F>
where
    F: Fn() -> R,
    R: Future<Output = Result<T, StoreError>>,
    T: Into<Read>,
{
    async fn next(&mut self) -> Option<Event> {
        loop {
            if !session::still_holds(&self.shared, &self.viewer).await {
                return None;
            }
            // Nothing is read until the future is polled.
            let read = (self.read)();
            let Reading { number, read: Read { digest, updates } } = self.latest.after(self.number, read).await.ok()?;
            self.number = Some(number);
            if self.seen != digest {
                self.seen.clone_from(&digest);
                return Some(Event::default().id(digest).data("<turbo-stream action=\"refresh\"></turbo-stream>"));
            }
            let (updated, updates) = updates;
            if self.updated != updated {
                self.updated = updated;
                return Some(Event::default().data(updates));
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.shared.services.tails.stopped() => return None,
            }
        }
    }
}
