//! The parts that the descriptions of operations share: path parameters, headers of requests, and errors.

use utoipa::openapi::{Ref, RefOr, Response};
use utoipa::{IntoParams, ToSchema};

use crate::error::ErrorBody;

/// Path parameters of a project.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct ProjectPath {
    /// The ID of the project.
    #[param(rename = "projectId", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    project_id: String,
}

/// Path parameters of a job.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct JobPath {
    /// The ID of the project.
    #[param(rename = "projectId", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    project_id: String,
    /// The ID of the job.
    id: String,
}

/// Path parameters of a pull request.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct PullPath {
    /// The ID of the project.
    #[param(rename = "projectId", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    project_id: String,
    /// The number of the pull request.
    #[param(minimum = 1)]
    number: u64,
}

/// Path parameters of a message.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct MessagePath {
    /// The ID of the project.
    #[param(rename = "projectId", pattern = "^[a-z0-9][a-z0-9-]{0,62}$")]
    project_id: String,
    /// The ID of the job.
    id: String,
    /// The ID of the message.
    #[param(rename = "messageId")]
    message_id: String,
}

/// The header that makes a request safe to repeat.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct IdempotencyHeader {
    /// A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
    /// first one, with `Idempotent-Replayed: true`, and stores nothing.
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

/// Returns the description of an error status, which is the same for all operations.
pub(crate) const fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid; the error names the invalid field",
        401 => "The API key is missing, malformed, unknown, expired, or revoked",
        403 => "The key's scope, projects, or IP allowlist does not allow the request, or its `Origin` is foreign",
        404 => "The resource does not exist, or the key may not see its project",
        405 => "The path does not support this method; see `Allow`",
        408 => "The body did not arrive within 30 seconds",
        409 => "The state of the job, project, message, pull request, or code host does not allow the request",
        410 => {
            "The events after the cursor are no longer stored, or the server was restored from an earlier state; read the \
             jobs again, and begin without a cursor"
        }
        412 => "The version of the resource does not match `If-Match`",
        413 => "The body is larger than 1 MiB, or the prompt has more than 100,000 characters",
        415 => "The content type is not JSON, or the charset or content encoding is not supported",
        422 => {
            "The idempotency key was used with a different request, or the repository cannot be read or is on another code \
             host"
        }
        429 => "The rate limit is used up, or the job's queue is full; see `Retry-After`",
        504 => {
            "The store failed while it was storing the request, which may or may not be stored; send it again with the \
             same `Idempotency-Key`"
        }
        _ => {
            "The server is shutting down or overloaded, or the store or the repository is unavailable; nothing was \
             stored; see `Retry-After`"
        }
    }
}

/// Returns the description of the error responses with this status.
pub(crate) fn error_response(status: u16) -> RefOr<Response> {
    let body = Ref::from_schema_name(ErrorBody::name());
    let content = utoipa::openapi::ContentBuilder::new().schema(Some(body)).build();
    let response = utoipa::openapi::ResponseBuilder::new().description(meaning(status));
    response.content("application/json", content).build().into()
}

/// Defines a type that describes the error responses of an operation: `errors!(GetErrors: 401, 404)`.
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
