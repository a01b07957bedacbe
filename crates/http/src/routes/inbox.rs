//! The operations that list the inbox: what code hosts reported, and what became of it.

use axum::Json;
use axum::extract::State;
use journeyman_core::ids::ProjectId;
use journeyman_core::inbox::Outcome;
use journeyman_core::ports::InboxFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode};
use crate::extract::{InProject, Parameters, WritingAdministrator};
use crate::openapi::{ProjectPath, errors};
use crate::page;
use crate::wire::inbox::{InboxPage, InboxState};

errors!(ProjectErrors: 400, 401, 403, 404, 503);
errors!(AllErrors: 400, 401, 403, 503);

/// The query parameters of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxQuery {
    /// Returns only events in this state.
    #[param(inline)]
    state: Option<InboxState>,
    /// Returns only events with this outcome, such as `message`, `ignored_self` or `not_permitted`.
    outcome: Option<String>,
    /// The maximum number of events; by default, 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// List the inbox of a project
///
/// Returns the webhooks and other events of code hosts that concern the project, newest first, and what became of each.
#[utoipa::path(get, path = "/v2/projects/{projectId}/inbox", tag = "Inbox", operation_id = "listProjectInbox",
    params(ProjectPath, InboxQuery),
    responses((status = 200, description = "A page of events", body = InboxPage), ProjectErrors))]
pub(crate) async fn of_project(
    State(app): State<App>,
    at: InProject,
    Parameters(query): Parameters<InboxQuery>,
) -> Result<Json<InboxPage>, ApiError> {
    list(&app, &at.caller, Some(at.project.clone()), &query).await
}

/// List the inbox
///
/// Returns the events of all projects, and those that concern no project.
#[utoipa::path(get, path = "/v2/inbox", tag = "Inbox", operation_id = "listInbox", params(InboxQuery),
    responses((status = 200, description = "A page of events", body = InboxPage), AllErrors))]
pub(crate) async fn of_all(
    State(app): State<App>,
    WritingAdministrator(caller): WritingAdministrator,
    Parameters(query): Parameters<InboxQuery>,
) -> Result<Json<InboxPage>, ApiError> {
    list(&app, &caller, None, &query).await
}

async fn list(
    app: &App,
    caller: &Caller,
    project: Option<ProjectId>,
    query: &InboxQuery,
) -> Result<Json<InboxPage>, ApiError> {
    let (limit, before) =
        (page::limit(query.limit, page::MOST)?, query.cursor.as_deref().map(page::cursor).transpose()?);
    let state = query.state.map(Into::into);
    let outcome = query.outcome.as_deref().map(|name| Outcome::parse(name).ok_or_else(unknown_outcome)).transpose()?;
    let filter = InboxFilter { state, outcome, before, ..InboxFilter::newest(project, limit + 1) };
    let mut events = app.cases.inbox(caller, filter).await?;
    let next_cursor = page::cut(&mut events, limit, |event| event.number.to_string());
    Ok(Json(InboxPage { events: events.into_iter().map(Into::into).collect(), next_cursor }))
}

fn unknown_outcome() -> ApiError {
    let text = format!("outcome: must be one of {}", Outcome::ALL.map(Outcome::name).join(", "));
    ApiError::bad_request(ErrorCode::InvalidQuery, text)
}
