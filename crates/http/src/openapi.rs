//! The OpenAPI 3.1 document: collected from the handlers, finished here with what concerns all of them.
//!
//! `docs/openapi.json` is a copy that a test compares; `make openapi` writes it anew.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi, Ref, RefOr, Response};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::answer::ErrorBody;

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

/// What a status means, wherever it is answered.
pub(crate) const fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid; the error names the field",
        401 => "No key, or one that is malformed, unknown, expired or revoked",
        403 => "The key's scope, projects or IP allowlist, or a foreign Origin",
        404 => "Unknown, or of a project that the key may not see",
        409 => "The state of the job, project or message forbids it",
        413 => "The body is over 1 MiB, or the prompt over 100,000 characters",
        415 => "The content type is not JSON",
        422 => "The idempotency key was used with another body",
        429 => "The rate limit is used up or the job's queue is full; see Retry-After",
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

/// The document of this version, as the server answers it at `/openapi.json`.
#[must_use]
pub fn document(version: &str) -> OpenApi {
    finish(crate::routes::api().into_openapi(), version)
}

/// Adds title, licence, security and the error's schema.
pub(crate) fn finish(mut document: OpenApi, version: &str) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("Journeyman")
        .version(version)
        .description(Some(
            "Agent jobs on git repositories: a prompt becomes a pull request, a follow-up message extends it. Every call \
             carries `Authorization: Bearer <key>`.",
        ))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
        .contact(Some(ContactBuilder::new().name(Some("The founders of Journeyman")).build()))
        .build();
    let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("jmn_…");
    let key = key.description(Some("An API key of this service; see Keys")).build();
    let mut components = document.components.take().unwrap_or_else(|| ComponentsBuilder::new().build());
    components.schemas.insert(ErrorBody::name().into_owned(), ErrorBody::schema());
    components.add_security_scheme("key", SecurityScheme::Http(key));
    document.components = Some(components);
    document.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>("key", [])]);
    let tags = [
        ("Jobs", "Work on one branch, carried out by an agent"),
        ("Messages", "Inputs to a job; the prompt of its creation is the first"),
        ("Projects", "A repository and how agents work on it"),
        ("Keys", "What clients show; only a key that sees all projects manages keys"),
    ];
    let tag = |(name, text): (&str, &str)| TagBuilder::new().name(name).description(Some(text)).build();
    document.tags = Some(tags.map(tag).into());
    document
}
