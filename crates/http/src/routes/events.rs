//! A job's log: as a stream of server-sent events that can be resumed, or as pages of JSON.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use futures::stream::unfold;
use journeyman_core::job::Job;
use journeyman_core::job::event::LogEntry;
use journeyman_dashboard::{LogTail, Tail};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::still_valid;
use crate::error::{ApiError, ErrorCode};
use crate::extract::{InJob, Parameters};
use crate::limits;
use crate::openapi::{JobPath, errors};
use crate::page::LARGEST_NUMBER;
use crate::tail::Reader;
use crate::wire::event::{Event, EventPage};

errors!(EventErrors: 400, 401, 403, 404, 410, 429, 503);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Returns only events with a higher sequence number.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    after: Option<u64>,
    /// The number of events on a page; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Returns only events with a higher sequence number. The header `Last-Event-ID` takes precedence.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    after: Option<u64>,
}

/// Read a page of a job's events
///
/// Send `Accept: application/json`; generated clients must send it too. If the header is missing, or does not prefer
/// `application/json` to `text/event-stream`, the response is the stream of `…/events/stream`, which does not end. To get
/// the next page, send `nextAfter` as `after`.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/events", tag = "Jobs", operation_id = "listEvents",
    params(JobPath, PageQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The sequence number of the last event received earlier",
            minimum = 0, maximum = 9_007_199_254_740_991_u64)),
    responses((status = 200, description = "Events, oldest first", content((EventPage = "application/json"),
        (String = "text/event-stream"))), EventErrors))]
pub(crate) async fn read(
    State(app): State<App>,
    at: InJob,
    Parameters(query): Parameters<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let limit = query.limit.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(ApiError::bad_request(ErrorCode::InvalidQuery, "limit: must be from 1 to 1000"));
    }
    if !wants_json(&headers) {
        return begin(app, at, query.after, &headers).await;
    }
    let after = bounded(last_event_id(&headers)?.or(query.after))?;
    check(&at.load(&app).await?, after)?;
    Ok(Json(page(&app, &at, after, limit).await?).into_response())
}

/// Stream a job's events
///
/// Sends server-sent events with the sequence number as `id:` and an `Event` as `data:`. The stream stays open until
/// the client closes it. A browser or library that reconnects with `Last-Event-ID` resumes after that event.
#[utoipa::path(get, path = "/v2/agent/{projectId}/job/{id}/events/stream", tag = "Jobs", operation_id = "streamEvents",
    params(JobPath, StreamQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The sequence number of the last event received earlier",
            minimum = 0, maximum = 9_007_199_254_740_991_u64)),
    responses((status = 200, description = "The stored events, oldest first, then new events", body = String,
        content_type = "text/event-stream"), EventErrors))]
pub(crate) async fn stream(
    State(app): State<App>,
    at: InJob,
    Parameters(query): Parameters<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    begin(app, at, query.after, &headers).await
}

async fn begin(app: App, at: InJob, after: Option<u64>, headers: &HeaderMap) -> Result<Response, ApiError> {
    let after = bounded(last_event_id(headers)?.or(after))?;
    check(&at.load(&app).await?, after)?;
    let permit = limits::stream(&app, &at.at.caller)?;
    let stream = Sse::new(limits::held_stream(Box::pin(events(app, at, after)), permit));
    // Without this header, nginx buffers the stream.
    Ok(([("x-accel-buffering", "no"), (CACHE_CONTROL.as_str(), "no-store")], stream).into_response())
}

/// Refuses the number of an event that this log does not have: it is from a history that was lost when the database was
/// restored from a backup, or a standby took over.
fn check(job: &Job, after: u64) -> Result<(), ApiError> {
    if job.has_seq(after) {
        return Ok(());
    }
    let text = "the log of this job has no event with this number: the server was restored from an earlier state; read \
                the job again, and begin without a number";
    Err(ApiError::new(StatusCode::GONE, ErrorCode::CursorExpired, text))
}

fn bounded(after: Option<u64>) -> Result<u64, ApiError> {
    let after = after.unwrap_or(0);
    if after > LARGEST_NUMBER {
        let text = format!("after, or Last-Event-ID: must be from 0 to {LARGEST_NUMBER}");
        return Err(ApiError::bad_request(ErrorCode::InvalidQuery, text));
    }
    Ok(after)
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let text = "Last-Event-ID must be the sequence number of an event";
    number.map(Some).ok_or_else(|| ApiError::bad_request(ErrorCode::InvalidLastEventId, text))
}

/// Returns whether the client prefers a page, that is, whether `application/json` has a higher quality than
/// `text/event-stream` (RFC 9110, section 12.5.1). Wildcards are ignored.
fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept = accept.collect::<Vec<_>>().join(",");
    let quality = |media: &str| {
        let of = |range: &str| {
            let mut parts = range.split(';').map(|part| part.trim().to_ascii_lowercase());
            let is_it = parts.next().as_deref() == Some(media);
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f32>().ok());
            is_it.then(|| quality.unwrap_or(1.0))
        };
        accept.split(',').find_map(of).unwrap_or(0.0)
    };
    quality("application/json") > quality("text/event-stream")
}

async fn page(app: &App, at: &InJob, after: u64, limit: usize) -> Result<EventPage, ApiError> {
    let mut entries = app.services.store.log(at.id, after, limit + 1).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next_after = entries.last().map_or(after, |entry| entry.seq);
    Ok(EventPage { events: entries.into_iter().map(Event::from).collect(), next_after, has_more })
}

/// Returns the stored events after a sequence number, and then new ones, until the client disconnects, the key is no
/// longer valid, the job is deleted, or the server stops.
fn events(app: App, at: InJob, after: u64) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    let reader = Reader::new(app.clone(), at.id, after);
    unfold((app, at, reader, VecDeque::<LogEntry>::new()), |(app, at, mut reader, mut read)| async move {
        if read.is_empty() {
            match reader.next().await {
                Tail::News(entries) => read.extend(entries),
                // A comment keeps the connection open in proxies, and reveals a dead one. The key is checked again.
                Tail::Quiet => {
                    let valid =
                        still_valid(&app, &at.at.caller, Some(&at.at.project)).await && at.load(&app).await.is_ok();
                    let comment = sse::Event::default().comment("still here");
                    return valid.then_some((Ok(comment), (app, at, reader, read)));
                }
                Tail::Over => return None,
            }
        }
        let event = server_sent(read.pop_front()?);
        Some((Ok(event), (app, at, reader, read)))
    })
}

fn server_sent(entry: LogEntry) -> sse::Event {
    let event = Event::from(entry);
    let sent = sse::Event::default().id(event.seq.to_string()).event(event.kind.clone());
    // An event is plain data, so its conversion to JSON does not fail.
    sent.json_data(&event).unwrap_or_else(|_| sse::Event::default().comment("an event could not be converted to JSON"))
}
