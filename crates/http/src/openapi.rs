//! What the descriptions of operations have in common: parameters of paths, the idempotency key, errors.

use utoipa::openapi::{Ref, RefOr, Response};
use utoipa::{IntoParams, ToSchema};

use crate::error::ErrorBody;

/// Path parameters of a project.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct ProjectPath {
    /// The project's id.
    #[param(rename = "projectId", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    project_id: String,
}

/// Path parameters of a job.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct JobPath {
    /// The project's id.
    #[param(rename = "projectId", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    project_id: String,
    /// The job's id.
    id: String,
}

/// Path parameters of a message.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct MessagePath {
    /// The project's id.
    #[param(rename = "projectId", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    project_id: String,
    /// The job's id.
    id: String,
    /// The message's id.
    #[param(rename = "messageId")]
    message_id: String,
}

/// The header that makes a request safe to repeat.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct IdempotencyHeader {
    /// The same key with the same body within 24 hours is answered as the first time, with `Idempotent-Replayed: true`,
    /// and stores nothing.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct IfMatchHeader {
    /// The `ETag` of the version that the client has read. If the resource has another version, the request is refused
    /// with 412.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct IfNoneMatchHeader {
    /// The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body.
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
}

/// What a status means, wherever it is answered.
pub(crate) const fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid; the error names the field",
        401 => "No key, or one that is malformed, unknown, expired or revoked",
        403 => "The key's scope, projects or IP allowlist, or a foreign Origin",
        404 => "Unknown, or of a project that the key may not see",
        409 => "The state of the job, project or message forbids it",
        412 => "The resource has another version than `If-Match` requires",
        413 => "The body is over 1 MiB, or the prompt over 100,000 characters",
        415 => "The content type is not JSON",
        422 => "The idempotency key was used with another body",
        429 => "The rate limit is used up or the job's queue is full; see Retry-After",
        504 => {
            "The store was lost in the moment of storing; it is not known whether it did. Send again with the same key"
        }
        _ => "Shutting down, or the store cannot be reached; nothing was stored; see Retry-After",
    }
}

/// Errors of one status, described.
pub(crate) fn error_response(status: u16) -> RefOr<Response> {
    let body = Ref::from_schema_name(ErrorBody::name());
    let content = utoipa::openapi::ContentBuilder::new().schema(Some(body)).build();
    let response = utoipa::openapi::ResponseBuilder::new().description(meaning(status));
    response.content("application/json", content).build().into()
}

/// Names the errors that an operation may answer: `errors!(GetErrors: 401, 404)`.
macro_rules! errors {
    ($name:ident: $($status:literal),+) => {
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                [$($status),+].map(|status| (status.to_string(), $crate::openapi::error_response(status))).into()
            }
        }
    };
}
pub(crate) use errors;
