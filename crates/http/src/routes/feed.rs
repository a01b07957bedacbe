//! The events of a project, and of all projects: as pages, and as a stream of server-sent events. Both have the same
//! cursor.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use futures::stream::unfold;
use journeyman_app::FeedPage;
use journeyman_core::feed::{FeedCursor, FeedEntry, FeedKind, FeedQuery};
use journeyman_core::ids::ProjectId;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::still_valid;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode};
use crate::extract::{Authenticated, InProject, Parameters};
use crate::limits;
use crate::openapi::{ProjectPath, errors};
use crate::page;
use crate::wire::feed::{ProjectEvent, ProjectEventPage};

errors!(ProjectErrors: 400, 401, 403, 404, 410, 429, 503);
errors!(AllErrors: 400, 401, 403, 410, 429, 503);

/// The maximum number of events that a stream reads at a time.
const BATCH: usize = 200;

/// The cursor before the oldest event, which is the same in each epoch.
const BEGINNING: FeedCursor = FeedCursor { position: 0, epoch: None };

/// The time between two reads of a stream, so that many changes of jobs do not cause as many reads.
const PAUSE: Duration = Duration::from_millis(50);

/// The time between two comments of a quiet stream.
const QUIET: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedPageQuery {
    /// Returns only events of this type. Can be repeated.
    #[serde(default, rename = "type")]
    #[param(example = json!(["job.completed", "job.failed"]))]
    kinds: Vec<String>,
    /// The maximum number of events on the page; by default, 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// The `nextCursor` of the previous page, or the `id` of a server-sent event: returns the events after it. Without a
    /// cursor, the page begins with the oldest stored event.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedStreamQuery {
    /// Sends only events of this type. Can be repeated.
    #[serde(default, rename = "type")]
    #[param(example = json!(["job.completed", "job.failed"]))]
    kinds: Vec<String>,
    /// The `nextCursor` of a page, or the `id` of a server-sent event: the stream begins after it. The header `Last-Event-ID` takes
    /// precedence. Without either, the stream begins with the next event.
    #[param(min_length = 1)]
    cursor: Option<String>,
}

/// Read a page of a project's events
///
/// Returns the events of all jobs of the project that integrations react to, oldest first. Send `nextCursor` as `cursor`
/// to get the next page; it stays valid while there are no new events. Events are stored for 30 days.
#[utoipa::path(get, path = "/v2/projects/{projectId}/events", tag = "Events", operation_id = "listProjectEvents",
    params(ProjectPath, FeedPageQuery),
    responses((status = 200, description = "A page of events", body = ProjectEventPage), ProjectErrors))]
pub(crate) async fn of_project(
    State(app): State<App>,
    at: InProject,
    Parameters(query): Parameters<FeedPageQuery>,
) -> Result<Json<ProjectEventPage>, ApiError> {
    at.load(&app).await?;
    read(&app, &at.caller, Some(at.project.clone()), &query).await
}

/// Read a page of the events of all projects
///
/// Returns the events of all projects that the key may see, oldest first.
#[utoipa::path(get, path = "/v2/events", tag = "Events", operation_id = "listAllEvents", params(FeedPageQuery),
    responses((status = 200, description = "A page of events", body = ProjectEventPage), AllErrors))]
pub(crate) async fn of_all(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Parameters(query): Parameters<FeedPageQuery>,
) -> Result<Json<ProjectEventPage>, ApiError> {
    read(&app, &caller, None, &query).await
}

/// Stream a project's events
///
/// Sends server-sent events with the cursor as `id:` and a `ProjectEvent` as `data:`. The first one has only an `id:`: the
/// cursor at which the stream begins. The stream stays open until the client closes it. A browser or library that
/// reconnects with `Last-Event-ID` resumes after that event.
#[utoipa::path(get, path = "/v2/projects/{projectId}/events/stream", tag = "Events",
    operation_id = "streamProjectEvents",
    params(ProjectPath, FeedStreamQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The ID of the last event received earlier")),
    responses((status = 200, description = "New events", body = String, content_type = "text/event-stream"),
        ProjectErrors))]
pub(crate) async fn stream_of_project(
    State(app): State<App>,
    at: InProject,
    Parameters(query): Parameters<FeedStreamQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    at.load(&app).await?;
    begin(app, at.caller, Some(at.project), query, &headers).await
}

/// Stream the events of all projects
///
/// Sends the events of all projects that the key may see, like the stream of a project.
#[utoipa::path(get, path = "/v2/events/stream", tag = "Events", operation_id = "streamAllEvents",
    params(FeedStreamQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The ID of the last event received earlier")),
    responses((status = 200, description = "New events", body = String, content_type = "text/event-stream"),
        AllErrors))]
pub(crate) async fn stream_of_all(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Parameters(query): Parameters<FeedStreamQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    begin(app, caller, None, query, &headers).await
}

async fn read(
    app: &App,
    caller: &Caller,
    project: Option<ProjectId>,
    query: &FeedPageQuery,
) -> Result<Json<ProjectEventPage>, ApiError> {
    let limit = page::limit(query.limit, page::MOST)?;
    let after = query.cursor.as_deref().map(page::cursor).transpose()?.unwrap_or(BEGINNING);
    let selection = FeedQuery {
        projects: project.map(|project| vec![project]),
        kinds: kinds(&query.kinds)?,
        limit: limit + 1,
        ..FeedQuery::default()
    };
    let FeedPage { mut entries, next } = app.cases.feed(caller, selection, after).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let last = entries.last().filter(|_| has_more).map_or(next.position, |entry| entry.position);
    let next_cursor = next.at(last).to_string();
    let events = entries.into_iter().map(ProjectEvent::from).collect();
    Ok(Json(ProjectEventPage { events, next_cursor, has_more }))
}

fn kinds(names: &[String]) -> Result<Vec<FeedKind>, ApiError> {
    let known = || FeedKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    let unknown = || ApiError::bad_request(ErrorCode::InvalidQuery, format!("type: must be one of {}", known()));
    names.iter().map(|name| FeedKind::from_name(name).ok_or_else(unknown)).collect()
}

async fn begin(
    app: App,
    caller: Caller,
    project: Option<ProjectId>,
    query: FeedStreamQuery,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default().to_owned());
    let invalid = || ApiError::bad_request(ErrorCode::InvalidLastEventId, "Last-Event-ID must be the ID of an event");
    let after = match (last, query.cursor) {
        (Some(last), _) => last.trim().parse().map_err(|_| invalid())?,
        (None, Some(cursor)) => page::cursor(&cursor)?,
        (None, None) => app.cases.end_of_feed().await?,
    };
    let projects = project.map(|project| vec![project]);
    let selection = FeedQuery { projects, kinds: kinds(&query.kinds)?, limit: BATCH, ..FeedQuery::default() };
    let permit = limits::stream(&app, &caller)?;
    // The first read happens here, so that a cursor that has expired gets its own status.
    let seen = app.services.store.feed_version();
    let first = app.cases.feed(&caller, selection.clone(), after).await?;
    app.metrics.stream_opened();
    let (read, quiet_at) = (VecDeque::new(), Instant::now());
    let begins = Some(first.next.at(after.position));
    let mut reader =
        Reader { app, caller, query: selection, after: first.next, seen, begins, has_more: false, read, quiet_at };
    reader.add(first);
    let stream = Sse::new(limits::held_stream(Box::pin(events(reader)), permit));
    // Without this header, nginx buffers the stream.
    Ok(([("x-accel-buffering", "no"), (CACHE_CONTROL.as_str(), "no-store")], stream).into_response())
}

/// A stream that is open.
struct Reader {
    app: App,
    caller: Caller,
    query: FeedQuery,
    /// The cursor after the events that were read.
    after: FeedCursor,
    /// The version of the feed before the last read.
    seen: u64,
    /// The cursor at which the stream begins, until it was sent.
    begins: Option<FeedCursor>,
    /// `true` if the last read found as many events as it may.
    has_more: bool,
    /// The events that were read and not sent yet.
    read: VecDeque<FeedEntry>,
    /// The time of the last comment.
    quiet_at: Instant,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.app.metrics.stream_closed();
    }
}

/// The next step of a stream.
enum Next {
    Cursor(FeedCursor),
    Event(FeedEntry),
    Quiet,
    Over,
}

impl Reader {
    fn add(&mut self, FeedPage { entries, next }: FeedPage) {
        self.has_more = entries.len() >= BATCH;
        self.after = next;
        self.read.extend(entries);
    }

    async fn next(&mut self) -> Next {
        loop {
            // Even if there are events all the time, the caller regularly checks whether it may still read.
            if self.quiet_at.elapsed() >= QUIET {
                self.quiet_at = Instant::now();
                return Next::Quiet;
            }
            if let Some(after) = self.begins.take() {
                return Next::Cursor(after);
            }
            if let Some(entry) = self.read.pop_front() {
                return Next::Event(entry);
            }
            let store = self.app.services.store.clone();
            let changed = async {
                if !self.has_more {
                    store.feed_changed(self.seen).await;
                    tokio::time::sleep(PAUSE).await;
                }
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(self.quiet_at + QUIET) => continue,
                () = self.app.shutdown.cancelled() => return Next::Over,
            }
            self.seen = store.feed_version();
            match self.app.cases.feed(&self.caller, self.query.clone(), self.after).await {
                Ok(found) => self.add(found),
                // The client reconnects with the ID of the last event that it received.
                Err(error) => {
                    tracing::warn!(%error, "the feed could not be read; a stream ends");
                    return Next::Over;
                }
            }
        }
    }

    /// Returns whether the key may still read what the stream sends.
    async fn is_valid(&self) -> bool {
        let project = self.query.projects.as_ref().and_then(|projects| projects.first());
        still_valid(&self.app, &self.caller, project).await
    }
}

fn events(reader: Reader) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    unfold(reader, |mut reader| async move {
        let event = match reader.next().await {
            // A client that loses the connection before the first event resumes from here.
            Next::Cursor(after) => sse::Event::default().id(after.to_string()),
            Next::Event(entry) => {
                let id = reader.after.at(entry.position);
                server_sent(id, entry)
            }
            // A comment keeps the connection open in proxies, and reveals a dead one. The key is checked again.
            Next::Quiet if reader.is_valid().await => sse::Event::default().comment("still here"),
            Next::Quiet | Next::Over => return None,
        };
        Some((Ok(event), reader))
    })
}

fn server_sent(id: FeedCursor, entry: FeedEntry) -> sse::Event {
    let event = ProjectEvent::from(entry);
    let sent = sse::Event::default().id(id.to_string()).event(event.kind.clone());
    // An event is plain data, so its conversion to JSON does not fail.
    sent.json_data(&event).unwrap_or_else(|_| sse::Event::default().comment("an event could not be converted to JSON"))
}
