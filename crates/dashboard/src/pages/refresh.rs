//! Streams that refresh an open page, or update parts of it, when its data changes.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::unfold;
use journeyman_core::ids::JobId;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::ports::StoreError;
use serde::Deserialize;
use tokio::sync::watch;

use crate::digests::{Latest, NumberedState, PageState};
use crate::frame::Frame;
use crate::streams::LastEventId;
use crate::viewer::Viewer;
use crate::{Shared, session};

/// The interval at which the stream of an open page reads the page's data.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The element that makes Turbo fetch the page again.
pub(super) const REFRESH: &str = "<turbo-stream action=\"refresh\"></turbo-stream>";

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
/// only they change. The digest of the page, or of the last event, is in the request, so that changes before the
/// connection are detected too. `page` names the data of the page: streams with the same name share their digests.
pub(super) fn stream<F, R, T>(frame: &Frame, page: String, seen: SeenQuery, last: LastEventId, read: F) -> Response
where
    F: Fn() -> R + Send + 'static,
    R: Future<Output = Result<T, StoreError>> + Send + 'static,
    T: Into<PageState> + 'static,
{
    let Some(slot) = frame.shared.streams.open(frame.viewer.user.id) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let seen = last.0.or(seen.seen).unwrap_or_default();
    let poll = Poll::new(frame, page, seen, read);
    let events = unfold((poll, slot), |(mut poll, slot)| async move {
        let event = match poll.next().await? {
            Change::Digest(digest) => Event::default().id(digest).data(REFRESH),
            Change::Parts(updates) => Event::default().data(updates),
        };
        Some((Ok::<_, Infallible>(event), (poll, slot)))
    });
    ([("x-accel-buffering", "no")], Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

/// A change of the data of an open page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The new digest of the page.
    Digest(String),
    /// The Turbo streams that update parts of the page in place.
    Parts(String),
}

/// The digests of the data of an open page, for as long as the viewer is signed in.
pub(super) struct Poll<F> {
    shared: Shared,
    viewer: Viewer,
    read: F,
    /// The latest digest of the page.
    latest: Arc<Latest>,
    changes: watch::Receiver<u64>,
    /// The number of the last digest that this stream has received.
    number: Option<u64>,
    seen: String,
    /// The digest of the parts whose updates this stream has sent last.
    parts: String,
}

impl<F, R, T> Poll<F>
where
    F: Fn() -> R,
    R: Future<Output = Result<T, StoreError>>,
    T: Into<PageState>,
{
    /// Follows the data of a page, from the digest `seen` on. `page` and `read` are those of [`stream`].
    pub(super) fn new(frame: &Frame, page: String, seen: String, read: F) -> Self {
        let (shared, viewer) = (frame.shared.clone(), frame.viewer.clone());
        let latest = shared.digests.of(page);
        let changes = latest.changes();
        Self { shared, viewer, read, latest, changes, number: None, seen, parts: String::new() }
    }

    /// Waits for a change. Returns `None` if the session of the viewer has ended, the
    /// service stops, or the store failed.
    pub(super) async fn next(&mut self) -> Option<Change> {
        loop {
            if !session::still_holds(&self.shared, &self.viewer).await {
                return None;
            }
            // Nothing is read until the future is polled.
            let read = (self.read)();
            let NumberedState { number, state, .. } = self.latest.after(self.number, read).await.ok()?;
            let PageState { digest, parts } = state;
            self.number = Some(number);
            if self.seen != digest {
                self.seen.clone_from(&digest);
                return Some(Change::Digest(digest));
            }
            if self.parts != parts.digest {
                self.parts = parts.digest;
                return Some(Change::Parts(parts.updates));
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                Ok(()) = self.changes.changed() => {}
                () = self.shared.services.tails.stopped() => return None,
            }
        }
    }
}
