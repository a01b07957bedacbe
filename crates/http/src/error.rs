//! Errors, as clients see them.
//!
//! The text for the client is separate from the text for the log, which has the details of internal errors. An
//! [`ApiError`] becomes a response without a body; [`crate::answer::finish`] writes the body, because it knows the
//! request ID.

mod code;

use std::time::Duration;

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use journeyman_app::{Error, Refusal, RefusalKind};
use journeyman_core::idempotency::KeyReused;
use journeyman_core::job::decide::Rejected;
use journeyman_core::message::MAX_QUEUED;
use journeyman_core::ports::{PullPagesError, StoreError, UpdateError};
use journeyman_core::rate::{RateKind, RateState, WINDOW};
use journeyman_core::refusal;
use journeyman_core::run::ReasonCode;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use self::code::ErrorCode;

/// The `Retry-After` of a 503 or 504 response, in seconds.
pub(crate) const AWAY_SECONDS: u64 = 2;

/// The `Retry-After` if the queue of a job is full, in seconds: about the length of a short turn.
const QUEUE_SECONDS: u64 = 60;

const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// An error response, for a request that was refused or failed.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    problem: Problem,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Additional fields of the body.
    more: Option<Box<Map<String, Value>>>,
}

/// The content of an error body, which [`crate::answer::finish`] writes.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// The stable code, for programs.
    pub(crate) code: ErrorCode,
    /// The description, for people.
    pub(crate) text: String,
}

/// Fields that the body of an error has in addition, as an extension of its response.
#[derive(Debug, Clone)]
pub(crate) struct More(pub(crate) Map<String, Value>);

/// The body of every error response.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorBody {
    /// A description of the error, for people.
    pub(crate) error: String,
    /// The stable code of the error, for programs.
    pub(crate) code: ErrorCode,
    /// The ID of the request, which is also in the server's log.
    pub(crate) request_id: String,
}

/// Returns the JSON body of an error response, for a request that has not reached a handler: `code` is for programs,
/// `text` for people, and `request_id` is also in the log.
#[must_use]
pub fn error_body(code: ErrorCode, text: &str, request_id: &str) -> String {
    serde_json::json!({ "error": text, "code": code, "requestId": request_id }).to_string()
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: ErrorCode, text: impl Into<String>) -> Self {
        Self { status, problem: Problem { code, text: text.into() }, headers: Vec::new(), more: None }
    }

    pub(crate) fn bad_request(code: ErrorCode, text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, text)
    }

    pub(crate) fn job_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorCode::JobNotFound, "there is no such job in this project")
    }

    pub(crate) fn key_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorCode::KeyNotFound, "there is no such key")
    }

    pub(crate) fn project_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorCode::ProjectNotFound, "there is no such project")
    }

    /// Returns a 401 error; `scheme` is the value of `WWW-Authenticate`.
    pub(crate) fn unauthorized(scheme: &'static str, code: ErrorCode, text: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, text).with(WWW_AUTHENTICATE, HeaderValue::from_static(scheme))
    }

    pub(crate) fn forbidden(code: ErrorCode, text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, text)
    }

    /// Returns a 503 error with `Retry-After`. The request must not have stored anything.
    pub(crate) fn away(code: ErrorCode, text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, text).with(RETRY_AFTER, HeaderValue::from(AWAY_SECONDS))
    }

    /// Returns a 500 error. The details go to the log, and not to the client.
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed because of an internal error");
        let text = "an internal error occurred; the server's log has the details under this request ID";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, text)
    }

    /// Returns the status of the response.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the code and the description.
    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Returns `true` if the server failed, and not the request.
    pub(crate) fn is_failure(&self) -> bool {
        self.status.is_server_error()
    }

    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds a field to the body.
    fn with_field(mut self, name: &str, value: Value) -> Self {
        self.more.get_or_insert_default().insert(name.to_owned(), value);
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.headers_mut().extend(self.headers);
        response.extensions_mut().insert(self.problem);
        if let Some(more) = self.more {
            response.extensions_mut().insert(More(*more));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => {
                tracing::error!(%error, "a request failed because of the store");
                Self::away(ErrorCode::StoreUnavailable, "the store is unavailable; nothing was stored, try again")
            }
            StoreError::Full(_) => {
                tracing::error!(%error, "a request was refused because the disk of the database is full");
                let text = "the disk of the server's database is full; nothing was stored, and reads work. Try again when \
                            the operator has freed space";
                Self::away(ErrorCode::StorageFull, text)
            }
            StoreError::Busy => {
                tracing::warn!("a request was refused: too many writes to the store are waiting");
                Self::away(ErrorCode::Overloaded, "the server is overloaded; nothing was stored, try again")
            }
            StoreError::Unknown(_) => {
                tracing::error!(%error, "it is not known whether a request was stored");
                let text = "the store failed while it was storing the request, which may or may not be stored; send it \
                            again with the same Idempotency-Key, or check whether it was stored";
                Self::new(StatusCode::GATEWAY_TIMEOUT, ErrorCode::OutcomeUnknown, text)
                    .with(RETRY_AFTER, HeaderValue::from(AWAY_SECONDS))
            }
            StoreError::Corrupt { .. } => Self::internal(&error),
        }
    }
}

impl From<UpdateError> for ApiError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Store(error) => error.into(),
            // The use cases refuse such a request for another reason.
            UpdateError::NotReplayed => Self::internal(&error),
            UpdateError::NotFound => Self::job_not_found(),
            UpdateError::NoProject => Self::project_not_found(),
            UpdateError::Rejected(rejected) => rejected.into(),
            UpdateError::RateLimited(kind, state) => rate_limited(kind, state),
            UpdateError::BranchTaken(..) => Self::new(StatusCode::CONFLICT, ErrorCode::BranchTaken, error.to_string()),
            UpdateError::KeyReused(error) => error.into(),
        }
    }
}

impl From<Rejected> for ApiError {
    fn from(rejected: Rejected) -> Self {
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, rejected.to_string());
        match rejected {
            Rejected::Archived => conflict(ErrorCode::JobArchived),
            Rejected::Busy => conflict(ErrorCode::JobBusy),
            Rejected::AlreadyDelivered => conflict(ErrorCode::MessageAlreadyDelivered),
            Rejected::QueueFull => queue_full(rejected),
            // Only commands of workers can be rejected for these reasons.
            Rejected::StaleToken | Rejected::OutOfOrder | Rejected::NotDue => Self::internal(&rejected),
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => error.into(),
            Error::Update(error) => error.into(),
            Error::Admin(refusal) => refusal.into(),
            Error::Refused(refusal) => refusal.into(),
            Error::Pull(error) => error.into(),
            Error::Internal(detail) => Self::internal(&detail),
        }
    }
}

impl From<PullPagesError> for ApiError {
    fn from(error: PullPagesError) -> Self {
        let refused = |status, code| Self::new(status, code, error.to_string());
        match error {
            PullPagesError::NotFound => refused(StatusCode::NOT_FOUND, ErrorCode::PullRequestNotFound),
            PullPagesError::NotOpen => refused(StatusCode::CONFLICT, ErrorCode::PullRequestEnded),
            PullPagesError::Conflict { .. } | PullPagesError::NotRebased(_) => {
                refused(StatusCode::CONFLICT, ErrorCode::PullRequestConflict)
            }
            PullPagesError::NoBranch(_) => refused(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::BranchNotFound),
            PullPagesError::Failed(_) => Self::internal(&error),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(Refusal { kind, text }: Refusal) -> Self {
        let (status, code) = match kind {
            RefusalKind::IssuerUnavailable => return Self::away(ErrorCode::IssuerUnavailable, text),
            RefusalKind::TokenUnverified => return Self::unauthorized("Bearer", ErrorCode::TokenRefused, text),
            RefusalKind::TokenMalformed => (StatusCode::BAD_REQUEST, ErrorCode::InvalidBody),
            RefusalKind::TokenNotTrusted => (StatusCode::FORBIDDEN, ErrorCode::TokenNotTrusted),
            RefusalKind::CodeHostUnavailable => return Self::away(ErrorCode::RepositoryUnavailable, text),
            RefusalKind::PullRequestExists => (StatusCode::CONFLICT, ErrorCode::PullRequestExists),
            RefusalKind::PullRequestTaken => (StatusCode::CONFLICT, ErrorCode::PullRequestTaken),
            RefusalKind::PullRequestNotFound => (StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::PullRequestNotFound),
            RefusalKind::PullRequestEnded => (StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::PullRequestEnded),
            RefusalKind::PullRequestNotWritable => {
                (StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::PullRequestNotWritable)
            }
            RefusalKind::NoPullRequests => (StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::PullRequestsUnsupported),
            RefusalKind::Invalid => (StatusCode::BAD_REQUEST, ErrorCode::InvalidBody),
            RefusalKind::WeakPassword => (StatusCode::BAD_REQUEST, ErrorCode::InvalidBody),
            RefusalKind::InvalidPrompt => (StatusCode::BAD_REQUEST, ErrorCode::InvalidPrompt),
            RefusalKind::PromptTooLong => (StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::PromptTooLong),
            RefusalKind::UnknownAgent => (StatusCode::BAD_REQUEST, ErrorCode::UnknownAgent),
            RefusalKind::UnsupportedPolicy => (StatusCode::BAD_REQUEST, ErrorCode::UnsupportedPolicy),
            RefusalKind::RepositoryAddressRefused => (StatusCode::BAD_REQUEST, ErrorCode::RepositoryAddressRefused),
            RefusalKind::RepositoryUnreadable(reason) => {
                let code = match reason {
                    ReasonCode::RepositoryNotFound => ErrorCode::RepositoryNotFound,
                    ReasonCode::CredentialRefused => ErrorCode::CredentialRefused,
                    ReasonCode::PermissionMissing => ErrorCode::PermissionMissing,
                    ReasonCode::RepositoryArchived => ErrorCode::RepositoryArchived,
                    _ => ErrorCode::RepositoryUnreachable,
                };
                (StatusCode::UNPROCESSABLE_ENTITY, code)
            }
            RefusalKind::CodeHostConfigured => (StatusCode::CONFLICT, ErrorCode::CodeHostConfigured),
            // No operation of this interface creates apps.
            RefusalKind::CodeHostFailed => (StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::RepositoryUnreachable),
            RefusalKind::SlackFailed => (StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::SlackFailed),
            RefusalKind::ScopeMissing => (StatusCode::FORBIDDEN, ErrorCode::ScopeMissing),
            RefusalKind::NotAdministrator => (StatusCode::FORBIDDEN, ErrorCode::KeyLimited),
            RefusalKind::ProjectNotFound => (StatusCode::NOT_FOUND, ErrorCode::ProjectNotFound),
            RefusalKind::JobNotFound => (StatusCode::NOT_FOUND, ErrorCode::JobNotFound),
            RefusalKind::MessageNotFound => (StatusCode::NOT_FOUND, ErrorCode::MessageNotFound),
            RefusalKind::WebhookDisabled => (StatusCode::CONFLICT, ErrorCode::WebhookDisabled),
            RefusalKind::DeliveryNotFound => (StatusCode::NOT_FOUND, ErrorCode::DeliveryNotFound),
            RefusalKind::CursorExpired { next } => {
                let gone = Self::new(StatusCode::GONE, ErrorCode::CursorExpired, text);
                return match next {
                    Some(next) => gone.with_field("nextCursor", next.to_string().into()),
                    None => gone,
                };
            }
            RefusalKind::KeyNotFound => (StatusCode::NOT_FOUND, ErrorCode::KeyNotFound),
        };
        Self::new(status, code, text)
    }
}

impl From<refusal::Refusal> for ApiError {
    /// Kinds that no operation of this interface can return have no code.
    fn from(refusal: refusal::Refusal) -> Self {
        let (code, status) = (ErrorCode::named(&refusal.code()), StatusCode::from_u16(refusal.status()));
        let (Some(code), Ok(status)) = (code, status) else { return Self::internal(&refusal) };
        let error = Self::new(status, code, refusal.detail);
        match refusal.kind {
            refusal::RefusalKind::TooOften(wait) => error.with(RETRY_AFTER, HeaderValue::from(seconds_up(wait))),
            _ => error,
        }
    }
}

impl From<KeyReused> for ApiError {
    fn from(error: KeyReused) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorCode::IdempotencyKeyReused, error.to_string())
    }
}

/// Returns 429 with the headers of a rate limit. The policy has no window, because the limit is the number of queued
/// messages and not a number of uses per hour.
fn queue_full(rejected: Rejected) -> ApiError {
    let policy = format!("\"queue\";q={MAX_QUEUED}");
    let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::QueueFull, rejected.to_string())
        .with(RETRY_AFTER, HeaderValue::from(QUEUE_SECONDS));
    let left = format!("\"queue\";r=0;t={QUEUE_SECONDS}");
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            error = error.with(name, value);
        }
    }
    error
}

fn rate_limited(kind: RateKind, state: RateState) -> ApiError {
    let (seconds, what) = (seconds_up(state.resets_in), kind.name());
    let text = format!(
        "rate limit exceeded: {} uses of \"{what}\" per project and hour; try again in {seconds} s",
        state.limit
    );
    let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited, text);
    let headers = rate_headers(kind, state).into_iter();
    let named = headers.filter_map(|(name, value)| name.map(|name| (name, value)));
    named.fold(error.with(RETRY_AFTER, HeaderValue::from(seconds)), |error, (name, value)| error.with(name, value))
}

/// Returns the headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10), or none if there
/// is no limit.
pub(crate) fn rate_headers(kind: RateKind, state: RateState) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if state.limit == 0 {
        return headers;
    }
    let policy = format!("\"{}\";q={};w={}", kind.name(), state.limit, WINDOW.as_secs());
    let left = format!("\"{}\";r={};t={}", kind.name(), state.remaining, seconds_up(state.resets_in));
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Rounds a duration up to whole seconds, so that a client that waits this long does not retry too early.
fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(error: impl Into<ApiError>) -> (u16, &'static str, bool) {
        let response = error.into().into_response();
        let code = response.extensions().get::<Problem>().map_or("", |problem| problem.code.name());
        (response.status().as_u16(), code, response.headers().contains_key(RETRY_AFTER))
    }

    #[test]
    fn each_store_error_has_its_status_and_temporary_ones_have_retry_after() {
        let unavailable = StoreError::Unavailable("cannot open /secret/path".to_owned());
        assert_eq!(answered(StoreError::Full("/secret/path".to_owned())), (503, "storage_full", true));
        assert_eq!(answered(unavailable.clone()), (503, "store_unavailable", true));
        assert_eq!(answered(UpdateError::Store(unavailable.clone())), (503, "store_unavailable", true));
        assert_eq!(answered(journeyman_app::Error::Store(unavailable.clone())), (503, "store_unavailable", true));
        assert_eq!(answered(StoreError::Busy), (503, "overloaded", true));
        assert_eq!(answered(StoreError::Unknown("x".to_owned())), (504, "outcome_unknown", true));
        let corrupt = StoreError::Corrupt { table: "jobs", row: "x".to_owned(), detail: "y".to_owned() };
        assert_eq!(answered(corrupt), (500, "internal", false));
        assert!(!ApiError::from(unavailable).problem.text.contains("/secret/path"), "details are only for the log");
    }

    #[test]
    fn each_refusal_of_a_resource_has_a_code_with_its_status() {
        use refusal::{Refusal, RefusalKind, ResourceKind};
        let managed = [
            ResourceKind::Webhook,
            ResourceKind::Template,
            ResourceKind::CodeHost,
            ResourceKind::Trust,
            ResourceKind::SlackWorkspace,
        ];
        let kinds = [RefusalKind::NotFound, RefusalKind::Invalid, RefusalKind::VersionMismatch];
        for resource in managed {
            for kind in kinds {
                let refusal = Refusal::new(kind, resource, "x");
                let (status, code, _) = answered(refusal.clone());
                assert_eq!((status, code), (refusal.status(), refusal.code().as_str()), "{kind:?} {resource:?}");
            }
        }
        for (kind, resource) in [
            (RefusalKind::Exists, ResourceKind::Template),
            (RefusalKind::Exists, ResourceKind::CodeHost),
            (RefusalKind::Exists, ResourceKind::Trust),
            (RefusalKind::Exists, ResourceKind::SlackWorkspace),
            (RefusalKind::TooMany, ResourceKind::Webhook),
            (RefusalKind::TooMany, ResourceKind::Template),
            (RefusalKind::TooMany, ResourceKind::Trust),
            (RefusalKind::Used, ResourceKind::CodeHost),
        ] {
            let refusal = Refusal::new(kind, resource, "x");
            let (status, code, _) = answered(refusal.clone());
            assert_eq!((status, code), (refusal.status(), refusal.code().as_str()), "{kind:?} {resource:?}");
        }
        let often = RefusalKind::TooOften(Duration::from_millis(1500));
        let refusal = Refusal::new(often, ResourceKind::Token, "x");
        assert_eq!(answered(refusal), (429, "too_many_exchanges", true));
        let of_a_page = Refusal::new(RefusalKind::Missing, ResourceKind::SecondFactor, "x");
        assert_eq!(answered(of_a_page), (500, "internal", false), "no operation returns it");
    }

    #[test]
    fn each_refusal_of_a_pull_request_has_its_status() {
        let conflict = PullPagesError::Conflict { base: "main".to_owned(), head: "x".to_owned() };
        for (error, expected) in [
            (PullPagesError::NotFound, (404, "pull_request_not_found", false)),
            (PullPagesError::NotOpen, (409, "pull_request_ended", false)),
            (conflict, (409, "pull_request_conflict", false)),
            (PullPagesError::Failed("/secret/path".to_owned()), (500, "internal", false)),
        ] {
            assert_eq!(answered(error.clone()), expected, "{error}");
        }
    }

    #[test]
    fn each_refusal_of_a_job_has_its_status() {
        for (rejected, expected) in [
            (Rejected::Archived, (409, "job_archived", false)),
            (Rejected::Busy, (409, "job_busy", false)),
            (Rejected::AlreadyDelivered, (409, "message_already_delivered", false)),
            (Rejected::QueueFull, (429, "queue_full", true)),
            (Rejected::StaleToken, (500, "internal", false)),
        ] {
            assert_eq!(answered(rejected), expected, "{rejected:?}");
        }
        assert_eq!(answered(UpdateError::NotFound), (404, "job_not_found", false));
    }

    #[test]
    fn each_reason_why_a_repository_cannot_be_used_has_its_code() {
        for (reason, code) in [
            (ReasonCode::RepositoryNotFound, "repository_not_found"),
            (ReasonCode::CredentialRefused, "credential_refused"),
            (ReasonCode::PermissionMissing, "permission_missing"),
            (ReasonCode::RepositoryArchived, "repository_archived"),
            (ReasonCode::RepositoryUnreachable, "repository_unreachable"),
        ] {
            let refusal = Refusal { kind: RefusalKind::RepositoryUnreadable(reason), text: String::new() };
            assert_eq!(answered(refusal), (422, code, false), "{reason:?}");
        }
    }

    #[test]
    fn seconds_are_rounded_up_and_no_limit_has_no_headers() {
        assert_eq!(seconds_up(Duration::from_millis(1)), 1);
        assert_eq!(seconds_up(Duration::from_secs(2)), 2);
        let unlimited = RateState { limit: 0, remaining: 0, resets_in: Duration::ZERO };
        assert!(rate_headers(RateKind::Create, unlimited).is_empty());
    }
}
