//! Extractors, which turn parts of a request into checked values: paths, queries, bodies, and idempotency keys.
//!
//! Invariant: a malformed ID, a job of another project, and a project that the key cannot see get the same response as
//! something that does not exist.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use journeyman_app::{Holder, Idempotency};
use journeyman_core::idempotency::{Fingerprint, MAX_KEY_CHARS};
use journeyman_core::ids::{JobId, MessageId, ProjectId};
use journeyman_core::job::Job;
use journeyman_core::ports::PullPagesError;
use journeyman_core::project::Project;
use serde::de::{DeserializeOwned, IgnoredAny};
use tracing::Span;
use tracing::field::display;

use crate::app::App;
use crate::arrivals::{Arrival, BODY_TIME, GRACE};
use crate::body::{self, BODY_BYTES};
use crate::caller::{Caller, visible};
use crate::error::{ApiError, ErrorCode};
use crate::limits;
use crate::page::LARGEST_NUMBER;

/// A JSON body, and the decompressed bytes from which it was parsed.
pub(crate) struct JsonBody<T> {
    pub(crate) value: T,
    pub(crate) bytes: Bytes,
}

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let bytes = json_bytes(request, app).await?;
        Ok(Self { value: object(&bytes)?, bytes })
    }
}

/// Reads the body of a request with JSON, and decompresses it.
pub(crate) async fn json_bytes(request: Request, app: &App) -> Result<Bytes, ApiError> {
    body::check_type(&request)?;
    let coding = body::Coding::of(request.headers())?;
    let sender = request.extensions().get::<Caller>().map_or(Holder::Address(None), limits::holder);
    let (bytes, arrival) = app.bodies.read(request, BODY_BYTES, sender, BODY_TIME).await?;
    decoded(coding, bytes, &arrival)
}

/// Decompresses a body, which can get any size up to the limit.
fn decoded(coding: body::Coding, bytes: Bytes, arrival: &Arrival<'_>) -> Result<Bytes, ApiError> {
    if coding != body::Coding::Identity {
        arrival.grow(BODY_BYTES)?;
    }
    coding.decode(bytes)
}

/// Reads and parses a JSON object of at most `most` bytes from an unknown sender at an address. It uses the memory that
/// is reserved for webhooks.
pub(crate) async fn unauthenticated_json<T: DeserializeOwned>(
    request: Request,
    app: &App,
    most: usize,
    address: Option<IpAddr>,
) -> Result<T, ApiError> {
    body::check_type(&request)?;
    let coding = body::Coding::of(request.headers())?;
    let (bytes, arrival) = app.hooks.read(request, most, limits::sender(address), GRACE).await?;
    object(&decoded(coding, bytes, &arrival)?)
}

/// Fails unless a body is JSON.
pub(crate) fn check_json(bytes: &[u8]) -> Result<(), ApiError> {
    serde_json::from_slice::<IgnoredAny>(bytes).map(drop).map_err(not_json)
}

fn not_json(error: serde_json::Error) -> ApiError {
    ApiError::bad_request(ErrorCode::InvalidJson, format!("the body is not JSON: {error}"))
}

/// A JSON body that may be missing. Then the value is the default.
pub(crate) struct OptionalBody<T> {
    pub(crate) value: T,
    pub(crate) bytes: Bytes,
}

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let is_typed = request.headers().contains_key(CONTENT_TYPE);
        if is_typed && body::declared_length(request.headers()) != Some(0) {
            let bytes = json_bytes(request, app).await?;
            // The length of a body in pieces is known only now.
            let value = if bytes.is_empty() { T::default() } else { object(&bytes)? };
            return Ok(Self { value, bytes });
        }
        // A body without a type is refused like one with another type.
        if !is_empty(request).await {
            return Err(body::not_json());
        }
        Ok(Self { value: T::default(), bytes: Bytes::new() })
    }
}

/// Returns whether a request has no body.
async fn is_empty(request: Request) -> bool {
    let body = Limited::new(request.into_body(), 0);
    let read = tokio::time::timeout(BODY_TIME, body.collect()).await;
    read.is_ok_and(|body| body.is_ok_and(|body| body.to_bytes().is_empty()))
}

/// Parses a body that must be a JSON object.
fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // serde would accept an array, and take its elements as the fields of the structure.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        check_json(bytes)?;
        return Err(ApiError::bad_request(ErrorCode::InvalidBody, "the body must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        match error.into_inner() {
            inner if inner.classify() != serde_json::error::Category::Data => not_json(inner),
            inner if path == "." => ApiError::bad_request(ErrorCode::InvalidBody, inner.to_string()),
            inner => ApiError::bad_request(ErrorCode::InvalidBody, format!("{path}: {inner}")),
        }
    })?;
    json.end().map_err(not_json)?;
    Ok(value)
}

/// The query parameters; unknown ones are ignored. A parameter of a list type can be repeated.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let deserializer = serde_html_form::Deserializer::from_bytes(query.as_bytes());
        serde_path_to_error::deserialize(deserializer).map(Self).map_err(|error| {
            let name = error.path().to_string();
            let cause = error.into_inner();
            let text = if name == "." { cause.to_string() } else { format!("{name}: {cause}") };
            ApiError::bad_request(ErrorCode::InvalidQuery, format!("a query parameter is not valid: {text}"))
        })
    }
}

/// The client's `Idempotency-Key` header, if it sent one.
pub(crate) struct IdempotencyKey(Option<String>);

impl IdempotencyKey {
    /// Returns the key with the fingerprint of the request, or `None` if the client sent no key.
    pub(crate) fn of(self, operation: &str, body: &[u8]) -> Option<Idempotency> {
        let fingerprint = Fingerprint::of(operation, body);
        self.0.map(|key| Idempotency { key, fingerprint })
    }
}

impl FromRequestParts<App> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let key = value.to_str().ok().filter(|key| !key.is_empty() && key.chars().count() <= MAX_KEY_CHARS);
        match key {
            Some(key) if values.next().is_none() => Ok(Self(Some(key.to_owned()))),
            _ => {
                let text = format!("Idempotency-Key must be one header of 1 to {MAX_KEY_CHARS} ASCII characters");
                Err(ApiError::bad_request(ErrorCode::InvalidIdempotencyKey, text))
            }
        }
    }
}

/// The project of a path, and the caller.
pub(crate) struct InProject {
    pub(crate) caller: Caller,
    pub(crate) project: ProjectId,
}

impl FromRequestParts<App> for InProject {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let caller = caller_of(parts)?;
        let project = segment(parts, state, "projectId").await.ok_or_else(ApiError::project_not_found)?;
        let project = visible(&caller, &project)?;
        Span::current().record("project", project.as_str());
        Ok(Self { caller, project })
    }
}

impl InProject {
    /// Returns the project from a cache, which may be a second old.
    pub(crate) async fn load(&self, app: &App) -> Result<Arc<Project>, ApiError> {
        Ok(app.cases.known_project(&self.caller, &self.project).await?)
    }
}

/// The ID of the job in a path, and its project.
pub(crate) struct InJob {
    pub(crate) at: InProject,
    pub(crate) id: JobId,
}

impl FromRequestParts<App> for InJob {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let at = InProject::from_request_parts(parts, state).await?;
        let id = segment(parts, state, "id").await.and_then(|id| id.parse().ok());
        let id: JobId = id.ok_or_else(ApiError::job_not_found)?;
        Span::current().record("job", display(id));
        Ok(Self { at, id })
    }
}

impl InJob {
    /// Returns the current job from the store.
    pub(crate) async fn load(&self, app: &App) -> Result<Job, ApiError> {
        let job = app.services.store.job(self.id).await?;
        job.filter(|job| job.project == self.at.project).ok_or_else(ApiError::job_not_found)
    }
}

/// The number of the pull request in a path, and its project.
pub(crate) struct InPull {
    pub(crate) at: InProject,
    pub(crate) number: u64,
}

impl FromRequestParts<App> for InPull {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let at = InProject::from_request_parts(parts, state).await?;
        let number = segment(parts, state, "number").await;
        // Each pull request has only one path: `+7` and `07` are invalid.
        let is_canonical = |number: &u64, text: &str| *number <= LARGEST_NUMBER && number.to_string() == text;
        let number = number.and_then(|text| text.parse().ok().filter(|number| is_canonical(number, &text)));
        Ok(Self { at, number: number.ok_or(PullPagesError::NotFound)? })
    }
}

/// The ID of the message in a path, and its job.
pub(crate) struct InMessage {
    pub(crate) job: InJob,
    pub(crate) id: MessageId,
}

impl FromRequestParts<App> for InMessage {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, ApiError> {
        let job = InJob::from_request_parts(parts, state).await?;
        let id = segment(parts, state, "messageId").await.and_then(|id| id.parse().ok());
        Ok(Self { job, id: id.ok_or_else(message_not_found)? })
    }
}

pub(crate) fn message_not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, ErrorCode::MessageNotFound, "there is no such message in this job")
}

/// Returns the part of the path that has this name in the route.
pub(crate) async fn segment(parts: &mut Parts, state: &App, name: &str) -> Option<String> {
    let path = Path::<std::collections::HashMap<String, String>>::from_request_parts(parts, state).await;
    path.ok().and_then(|Path(mut segments)| segments.remove(name))
}

/// Returns the caller, whom [`crate::auth`] has added to the request.
pub(crate) fn caller_of(parts: &Parts) -> Result<Caller, ApiError> {
    let caller = parts.extensions.get::<Caller>().cloned();
    caller.ok_or_else(|| ApiError::internal(&"the route requires a caller, but has no authentication layer"))
}

/// The caller of an authenticated request.
pub(crate) struct Authenticated(pub(crate) Caller);

impl FromRequestParts<App> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        caller_of(parts).map(Self)
    }
}

/// A caller who may manage projects and all keys ([`Caller::needs_administrator_to_read`]).
pub(crate) struct Administrator(pub(crate) Caller);

impl FromRequestParts<App> for Administrator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let caller = caller_of(parts)?;
        caller.needs_administrator_to_read()?;
        Ok(Self(caller))
    }
}

/// An [`Administrator`] with the scope `write`, also for an operation that only reads.
pub(crate) struct WritingAdministrator(pub(crate) Caller);

impl FromRequestParts<App> for WritingAdministrator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let caller = caller_of(parts)?;
        caller.needs_administrator()?;
        Ok(Self(caller))
    }
}
