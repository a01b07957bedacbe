//! A job's log: as a stream of server-sent events that can be resumed, or as pages of JSON.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use futures::stream::unfold;
use journeyman_core::job::event::LogEntry;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::still_valid;
use crate::error::ApiError;
use crate::extract::{InJob, Parameters};
use crate::openapi::{JobPath, errors};
use crate::wire::event::{Event, EventPage};

errors!(EventErrors: 400, 401, 403, 404, 503);

/// Lines read from the store at a time.
const BATCH: usize = 200;

/// Before looking again after a wake-up without news.
const PAUSE: Duration = Duration::from_millis(50);

/// After so long without a line a comment is sent, so that proxies keep the connection and a dead one is noticed; the
/// key is checked again then.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventQuery {
    /// Only events with a higher number; the header `Last-Event-ID` is stronger.
    after: Option<u64>,
    /// Events on a page of JSON; 100 unless given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Read a job's events
///
/// `text/event-stream` with the sequence number as `id:`, which stays open until the client ends it; a browser's or
/// library's reconnection resumes by `Last-Event-ID`. With `Accept: application/json` a page of events.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/events", tag = "Jobs", operation_id = "readEvents",
    params(JobPath, EventQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The last event seen on an earlier connection")),
    responses((status = 200, description = "Events, oldest first",
        content((EventPage = "application/json"), (String = "text/event-stream"))), EventErrors))]
pub(crate) async fn read(
    State(app): State<App>,
    at: InJob,
    Parameters(query): Parameters<EventQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = last_event_id(&headers)?.or(query.after).unwrap_or(0);
    let limit = query.limit.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(ApiError::bad_request("invalid_query", "limit: must be from 1 to 1000"));
    }
    // A number that no sequence reaches would not fit the store's integers.
    let after = after.min(i64::MAX as u64);
    at.load(&app).await?;
    if wants_json(&headers) {
        return Ok(Json(page(&app, &at, after, limit).await?).into_response());
    }
    let stream = Sse::new(events(app, at, after));
    // nginx would collect the stream otherwise.
    Ok(([("x-accel-buffering", "no"), (CACHE_CONTROL.as_str(), "no-store")], stream).into_response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let text = "Last-Event-ID must be the number of an event";
    number.map(Some).ok_or_else(|| ApiError::bad_request("invalid_last_event_id", text))
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("application/json") && !accept.contains("text/event-stream")
}

async fn page(app: &App, at: &InJob, after: u64, limit: usize) -> Result<EventPage, ApiError> {
    let mut entries = app.services.store.log(at.id, after, limit + 1).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next_after = entries.last().map_or(after, |entry| entry.seq);
    Ok(EventPage { events: entries.into_iter().map(Event::from).collect(), next_after, has_more })
}

/// A reader of a log that goes on.
struct Reader {
    app: App,
    at: InJob,
    after: u64,
    read: VecDeque<LogEntry>,
}

/// The events after a number, and those to come, until the client leaves, the key ends, the job is gone or we stop.
fn events(app: App, at: InJob, after: u64) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let reader = Reader { app, at, after, read: VecDeque::new() };
    unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    })
}

impl Reader {
    async fn next(&mut self) -> Option<sse::Event> {
        let mut woken = false;
        loop {
            if let Some(entry) = self.read.pop_front() {
                self.after = entry.seq;
                return Some(told(entry));
            }
            let store = &self.app.services.store;
            match store.log(self.at.id, self.after, BATCH).await {
                Ok(entries) if !entries.is_empty() => self.read = entries.into(),
                // Woken without news: the store looks again now and then, or the job is gone and nobody will wake us.
                Ok(_) if std::mem::take(&mut woken) => {
                    if self.at.load(&self.app).await.is_err() {
                        return None;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(_) => {
                    let mut watch = store.watch(self.at.id);
                    tokio::select! {
                        () = watch.changed(self.after) => woken = true,
                        () = tokio::time::sleep(HEARTBEAT) => return self.heartbeat().await,
                        () = self.app.shutdown.cancelled() => return None,
                    }
                }
                // The client comes back with the last number it saw.
                Err(error) => {
                    tracing::warn!(%error, "an event stream ends");
                    return None;
                }
            }
        }
    }

    async fn heartbeat(&self) -> Option<sse::Event> {
        let valid = still_valid(&self.app, &self.at.at.caller, &self.at.at.project).await;
        let there = self.at.load(&self.app).await.is_ok();
        (valid && there).then(|| sse::Event::default().comment("still here"))
    }
}

fn told(entry: LogEntry) -> sse::Event {
    let event = Event::from(entry);
    let told = sse::Event::default().id(event.seq.to_string()).event(event.kind.clone());
    // An event is plain data: it has a JSON form.
    told.json_data(&event).unwrap_or_else(|_| sse::Event::default().comment("an event without JSON form"))
}
