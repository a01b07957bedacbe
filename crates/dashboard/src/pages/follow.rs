//! Streams of server-sent events that follow the log of a job: those of the page of a job, and of a pull request.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use futures::stream::{BoxStream, once, select_all, unfold};
use journeyman_core::ids::JobId;
use journeyman_core::job::event::LogEntry;
use journeyman_core::time::Timestamp;

use crate::frame::Frame;
use crate::log_tail::{LogTail, Tail};
use crate::streams::{LastEventId, Stream};
use crate::viewer::Viewer;
use crate::{Shared, session};

/// The interval between checks of the viewer's session.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The state of a stream.
pub(super) trait Live: Send + 'static {
    /// Returns the next event; `None` ends the stream.
    fn next(&mut self) -> impl Future<Output = Option<Event>> + Send;
}

/// A request for a stream that was admitted.
pub(super) struct Admitted {
    /// The sequence number of the last entry of the log that the browser has.
    pub(super) after: u64,
    slot: Stream,
}

/// Admits a request for a stream; returns `None` if the viewer has too many. `on_page` is the sequence number of the last
/// entry of the log when the page was rendered. A browser that reconnects names the last entry that it has received.
pub(super) fn admit(frame: &Frame, last: &LastEventId, on_page: u64) -> Option<Admitted> {
    let slot = frame.shared.streams.open(frame.viewer.user.id)?;
    Some(Admitted { after: last_seen(last, on_page), slot })
}

fn last_seen(last: &LastEventId, on_page: u64) -> u64 {
    let seen: Option<u64> = last.0.as_deref().and_then(|value| value.parse().ok());
    seen.unwrap_or(on_page).max(on_page).min(i64::MAX as u64)
}

/// Responds with the events of a stream.
pub(super) fn respond(live: impl Live) -> Response {
    ([("x-accel-buffering", "no")], Sse::new(events(live).map(Ok::<_, Infallible>))).into_response()
}

/// Responds with the events of several streams over one connection: browsers open few. See [`merged`].
pub(super) fn respond_merged(streams: Vec<BoxStream<'static, Event>>) -> Response {
    let events = Sse::new(merged(streams).map(Ok::<_, Infallible>)).keep_alive(KeepAlive::default());
    ([("x-accel-buffering", "no")], events).into_response()
}

/// Returns the events of a stream.
pub(super) fn events(live: impl Live) -> BoxStream<'static, Event> {
    unfold(live, |mut live| async move {
        let event = live.next().await?;
        Some((event, live))
    })
    .boxed()
}

/// Merges streams. The result ends with the first stream that ends, so that the browser connects again.
fn merged<T: Send + 'static>(streams: Vec<BoxStream<'static, T>>) -> BoxStream<'static, T> {
    let with_end = |stream: BoxStream<'static, T>| stream.map(Some).chain(once(ready(None)));
    select_all(streams.into_iter().map(with_end)).scan((), |(), item| ready(item)).boxed()
}

/// The log of a job as it grows, for as long as the viewer is signed in.
pub(super) struct Follow {
    shared: Shared,
    viewer: Viewer,
    tail: Box<dyn LogTail>,
    /// The time of the last successful check of the viewer's session.
    checked: Timestamp,
    _slot: Stream,
}

impl Follow {
    /// Follows the log of a job from the entry after the last one that the browser has.
    pub(super) fn new(frame: &Frame, admitted: Admitted, job: JobId) -> Self {
        let (shared, viewer) = (frame.shared.clone(), frame.viewer.clone());
        let tail = shared.services.tails.tail(job, admitted.after);
        let checked = shared.services.clock.now();
        Self { shared, viewer, tail, checked, _slot: admitted.slot }
    }

    /// Waits for the next entries of the log; there are none if nothing happened for a while. Returns `None` if the log
    /// or the session of the viewer has ended.
    pub(super) async fn next(&mut self) -> Option<Vec<LogEntry>> {
        let tail = self.tail.next().await;
        let now = self.shared.services.clock.now();
        if matches!(tail, Tail::Quiet) || now.since(self.checked) >= CHECK_INTERVAL {
            if !session::still_holds(&self.shared, &self.viewer).await {
                return None;
            }
            self.checked = now;
        }
        match tail {
            Tail::News(entries) => Some(entries),
            Tail::Quiet => Some(Vec::new()),
            Tail::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::within;

    use super::*;

    #[tokio::test]
    async fn merged_streams_end_with_the_first_that_ends() {
        let open = || futures::stream::iter([1, 2]).chain(futures::stream::pending()).boxed();
        let mut both = merged(vec![open(), open()]);
        let mut items = Vec::new();
        while items.len() < 4 {
            items.push(both.next().await.unwrap());
        }
        items.sort_unstable();
        assert_eq!(items, [1, 1, 2, 2]);
        let ended = merged(vec![open(), futures::stream::empty().boxed()]);
        assert!(within("the stream ends", ended.count()).await <= 2);
    }

    #[test]
    fn a_stream_continues_after_the_last_entry_that_the_browser_has() {
        let of = |id: &str| last_seen(&LastEventId(Some(id.to_owned())), 7);
        assert_eq!(last_seen(&LastEventId::default(), 7), 7);
        assert_eq!((of("9"), of("3"), of("x")), (9, 7, 7));
        assert_eq!(of(&u64::MAX.to_string()), i64::MAX as u64, "the store has signed numbers");
    }
}
