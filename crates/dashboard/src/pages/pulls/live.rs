//! The stream that keeps the page of a pull request up to date. When the state of its job changes, the page is fetched
//! again and morphed into place. When comments are added, resolved or opened again, a script inserts or replaces only
//! these, because the page may have a form in which the viewer writes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use futures::stream::{BoxStream, unfold};
use journeyman_core::ports::PullPagesError;
use journeyman_core::project::{Address, parse_address};
use journeyman_core::pull::Comment;
use serde::Deserialize;

use super::{Target, comments};
use crate::Shared;
use crate::failure::Failure;
use crate::pages::follow::{self, Admitted, Follow};
use crate::pages::refresh::{Poll, REFRESH};
use crate::streams::LastEventId;

/// The pause after each event. Rendering the page reads the repository.
const PAUSE: Duration = Duration::from_secs(1);

/// The element that makes a script insert and replace the comments that have changed.
const COMMENTS: &str = "<turbo-stream action=\"comments\"></turbo-stream>";

#[derive(Deserialize)]
pub(super) struct LiveQuery {
    /// The sequence number of the last entry of the job's log when the page was rendered; `None` if the page does not
    /// follow the log.
    after: Option<u64>,
    /// The digest of the comments on the page. Pages of older versions have none, and get
    /// one event at once.
    #[serde(default)]
    comments: String,
}

/// Returns the ID and the URL of the stream for a page with these comments, and with the job's log up to and including
/// `after`.
pub(super) fn source(at: &Target, after: Option<u64>, comments: &[Comment]) -> (String, String) {
    let digest = comments::digest(&comments::submitted(comments));
    match after {
        Some(after) => (format!("live-{after}-{digest}"), at.page(&format!("/live?after={after}&comments={digest}"))),
        None => (format!("live-{digest}"), at.page(&format!("/live?comments={digest}"))),
    }
}

/// Returns the key under which streams share the comments on a pull request.
fn comments_key(at: &Target) -> String {
    at.page("/comments")
}

/// Updates the comments on the open pages of this process. Other processes read them at an interval.
pub(super) fn comments_changed(at: &Target) {
    at.shared.digests.changed(&comments_key(at));
}

pub(super) async fn stream(
    State(shared): State<Shared>,
    at: Target,
    Query(query): Query<LiveQuery>,
    last: LastEventId,
) -> Response {
    let Some(admitted) = follow::admit(&at, &last, query.after.unwrap_or_default()) else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    match streams(&shared, &at, query, admitted).await {
        Ok(streams) => follow::respond_merged(streams),
        Err(failure) => failure.page(&at),
    }
}

/// Returns what a page follows. Reads only the store: the page that the browser fetches reads the repository.
async fn streams(
    shared: &Shared,
    at: &Target,
    query: LiveQuery,
    admitted: Admitted,
) -> Result<Vec<BoxStream<'static, Event>>, Failure> {
    let Ok(Address::Local(name)) = parse_address(&at.project.repository) else {
        return Err(PullPagesError::NotFound.into());
    };
    let pull = shared.services.store.pull(name, at.number).await?.ok_or(PullPagesError::NotFound)?;
    let repository = pull.repository.clone();
    if query.after.is_none() {
        return Ok(vec![comments(at, repository, query.comments, Some(admitted))]);
    }
    let job = at.cases().job_of_pull(&at.caller(), &at.project.id, &pull).await?;
    let job = job.ok_or(Failure::NotFound("job"))?;
    let log = follow::events(Live { log: Follow::new(at, admitted, job.id), settles: true });
    Ok(vec![log, comments(at, repository, query.comments, None)])
}

/// Follows the comments from the digest `seen` on. The stream keeps its admission, unless the log has it.
fn comments(at: &Target, repository: String, seen: String, slot: Option<Admitted>) -> BoxStream<'static, Event> {
    let (store, number) = (Arc::clone(&at.shared.services.store), at.number);
    let read = move || {
        let (store, repository) = (Arc::clone(&store), repository.clone());
        async move { store.comment_states(repository, number).await.map(|states| comments::digest(&states)) }
    };
    let poll = Poll::new(at, comments_key(at), seen, read);
    unfold((poll, slot), |(mut poll, slot)| async move {
        poll.next().await?;
        Some((Event::default().data(COMMENTS), (poll, slot)))
    })
    .boxed()
}

struct Live {
    log: Follow,
    /// True if the page was fetched since the last quiet moment. The service writes its answer to a comment a little
    /// after the last entry of the log, so the page is fetched once more then.
    settles: bool,
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
