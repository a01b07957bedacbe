//! The stream that keeps the page of a pull request up to date: when the state of its job changes, the page is fetched
//! again and morphed into place.

use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use journeyman_core::ports::PullPagesError;
use journeyman_core::project::{Address, parse_address};
use serde::Deserialize;

use super::Target;
use crate::Shared;
use crate::failure::Failure;
use crate::pages::follow::{self, Admitted, Follow};

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
    let Some(admitted) = follow::admit(&at, &headers, query.after) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    match Live::new(&shared, &at, admitted).await {
        Ok(live) => follow::respond(live),
        Err(failure) => failure.page(&at),
    }
}

struct Live {
    log: Follow,
    /// True if the page was fetched since the last quiet moment. The service writes its answer to a comment a little
    /// after the last entry of the log, so the page is fetched once more then.
    settles: bool,
}

impl Live {
    /// Creates a stream. Reads only the store: the page that the browser fetches reads the repository.
    async fn new(shared: &Shared, at: &Target, admitted: Admitted) -> Result<Self, Failure> {
        let Ok(Address::Local(name)) = parse_address(&at.project.repository) else {
            return Err(PullPagesError::NotFound.into());
        };
        let pull = shared.services.store.pull(name, at.number).await?.ok_or(PullPagesError::NotFound)?;
        let job = at.cases().job_of_pull(&at.caller(), &at.project.id, &pull).await?;
        let job = job.ok_or(Failure::NotFound("job"))?;
        Ok(Self { log: Follow::new(at, admitted, job.id), settles: true })
    }
}

impl follow::Live for Live {
    async fn next(&mut self) -> Option<Event> {
        let entries = self.log.next().await?;
        let Some(last) = entries.last().map(|entry| entry.seq) else {
            let settles = std::mem::take(&mut self.settles);
            return Some(if settles { Event::default().data(REFRESH) } else { Event::default().comment("still here") });
        };
        tokio::time::sleep(PAUSE).await;
        let event = Event::default().id(last.to_string());
        let is_news = entries.iter().any(|entry| concerns(&entry.kind));
        self.settles |= is_news;
        Some(if is_news { event.data(REFRESH) } else { event.comment("nothing new") })
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
