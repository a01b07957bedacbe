//! The stream that keeps the page of a pull request up to date: when the state of its job changes, the page is fetched
//! again and morphed into place.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::unfold;
use journeyman_core::time::Timestamp;
use serde::Deserialize;

use super::Target;
use crate::failure::Failure;
use crate::log_tail::{LogTail, Tail};
use crate::streams::Stream;
use crate::{Shared, session};

/// The interval between checks of the viewer's session.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The pause after each event. Rendering the page reads the repository.
const PAUSE: Duration = Duration::from_secs(1);

/// The element that makes Turbo fetch the page again.
const REFRESH: &str = "<turbo-stream action=\"refresh\"></turbo-stream>";

#[derive(Deserialize)]
pub(super) struct LiveQuery {
    /// The sequence number of the last entry of the job's log when the page was rendered.
    after: u64,
}

/// Returns the URL of the stream for a page with the job's log up to and including `after`.
pub(super) fn address(at: &Target, after: u64) -> String {
    at.page(&format!("/live?after={after}"))
}

pub(super) async fn stream(
    State(shared): State<Shared>,
    at: Target,
    Query(query): Query<LiveQuery>,
    headers: HeaderMap,
) -> Response {
    let Some(open) = shared.streams.open(at.viewer.user.id) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let seen: Option<u64> = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let after = seen.unwrap_or(query.after).max(query.after).min(i64::MAX as u64);
    let live = match Live::new(shared, open, at.clone(), after).await {
        Ok(live) => live,
        Err(failure) => return failure.page(&at),
    };
    let events = unfold(live, |mut live| async move {
        let event = live.next().await?;
        Some((Ok::<_, Infallible>(event), live))
    });
    ([("x-accel-buffering", "no")], Sse::new(events)).into_response()
}

struct Live {
    shared: Shared,
    at: Target,
    tail: Box<dyn LogTail>,
    /// The time of the last successful check of the viewer's session.
    checked: Timestamp,
    /// True if the page was fetched since the last quiet moment. The service writes its answer to a comment a little
    /// after the last entry of the log, so the page is fetched once more then.
    settles: bool,
    _open: Stream,
}

impl Live {
    async fn new(shared: Shared, open: Stream, at: Target, after: u64) -> Result<Self, Failure> {
        let detail = shared.services.pulls.pull(&at.project, at.number).await?;
        let job = at.cases().job_of_pull(&at.caller(), &at.project.id, &detail.pull).await?;
        let job = job.ok_or(Failure::NotFound("job"))?;
        let tail = shared.services.tails.tail(job.id, after);
        let checked = shared.services.clock.now();
        Ok(Self { shared, at, tail, checked, settles: true, _open: open })
    }

    async fn next(&mut self) -> Option<Event> {
        let tail = self.tail.next().await;
        let now = self.shared.services.clock.now();
        if matches!(tail, Tail::Quiet) || now.since(self.checked) >= CHECK_INTERVAL {
            if !session::still_holds(&self.shared, &self.at.viewer).await {
                return None;
            }
            self.checked = now;
        }
        match tail {
            Tail::News(entries) => {
                let last = entries.last().map(|entry| entry.seq)?;
                tokio::time::sleep(PAUSE).await;
                let event = Event::default().id(last.to_string());
                let is_news = entries.iter().any(|entry| concerns(&entry.kind));
                self.settles |= is_news;
                Some(if is_news { event.data(REFRESH) } else { event.comment("nothing new") })
            }
            Tail::Quiet if std::mem::take(&mut self.settles) => Some(Event::default().data(REFRESH)),
            Tail::Quiet => Some(Event::default().comment("still here")),
            Tail::Over => None,
        }
    }
}

/// Returns true if entries of this kind may change the page.
fn concerns(kind: &str) -> bool {
    ["job.", "message.", "run.", "commit.", "pull_request."].iter().any(|prefix| kind.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_state_of_the_job_concerns_the_page() {
        for (kind, expected) in [("message.finished", true), ("commit.pushed", true), ("agent.tool_call", false)] {
            assert_eq!(concerns(kind), expected, "{kind}");
        }
    }
}
