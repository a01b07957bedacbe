//! The tab with the raw events of a job's log.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use journeyman_core::job::event::LogEntry;
use serde::Deserialize;

use super::InJob;
use super::head::{self, Parts};
use crate::failure::{Page, rendered};
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible};

/// The maximum number of events on a page.
const ON_PAGE: u64 = 100;

#[derive(Deserialize)]
pub(super) struct EventsQuery {
    /// The sequence number after which the page begins.
    after: Option<u64>,
}

#[derive(Template)]
#[template(path = "job_events.html")]
struct EventsPage<'a> {
    at: &'a InJob,
    frame: &'a Frame,
    title: String,
    parts: Parts,
    rows: Vec<Row>,
    last: u64,
    earlier: Option<String>,
    later: Option<String>,
}

struct Row {
    seq: u64,
    kind: String,
    at: Moment,
    data: String,
}

pub(super) async fn show(State(shared): State<Shared>, at: InJob, Query(query): Query<EventsQuery>) -> Response {
    at.answer(page(&shared, &at, query.after.unwrap_or(0)).await)
}

async fn page(shared: &Shared, at: &InJob, after: u64) -> Page {
    let messages = shared.services.store.messages(at.job.id).await?;
    let parts = head::parts(shared, at, &messages).await?;
    let after = after.min(at.job.last_seq);
    let entries = shared.services.store.log(at.job.id, after, usize::try_from(ON_PAGE).unwrap_or(usize::MAX)).await?;
    let last = entries.last().map_or(after, |entry| entry.seq);
    let path = |after: u64| at.page(&format!("/events?after={after}"));
    rendered(&EventsPage {
        at,
        frame: at,
        title: visible::line(&at.job.title).into_owned(),
        parts,
        rows: entries.iter().map(|entry| row(at, entry)).collect(),
        last: at.job.last_seq,
        earlier: (after > 0).then(|| path(after.saturating_sub(ON_PAGE))),
        later: (last < at.job.last_seq).then(|| path(last)),
    })
}

fn row(at: &InJob, entry: &LogEntry) -> Row {
    let data = serde_json::to_string_pretty(&entry.data).unwrap_or_default();
    let (kind, data) = (visible::line(&entry.kind).into_owned(), visible::lines(&data).into_owned());
    Row { seq: entry.seq, kind, at: at.moment(entry.at), data }
}
