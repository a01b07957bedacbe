//! The OpenAPI 3.1 document: collected from the handlers, finished here with what concerns all of them.
//!
//! `docs/openapi.json` is a copy that a test compares; `make openapi` writes it anew.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, ContactBuilder, InfoBuilder, LicenseBuilder, OpenApi};
use utoipa::{PartialSchema, ToSchema};

use crate::error::ErrorBody;

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
        ("Keys", "What clients show; only a key that sees all projects manages keys and projects"),
        ("System", "The installation itself"),
    ];
    let tag = |(name, text): (&str, &str)| TagBuilder::new().name(name).description(Some(text)).build();
    document.tags = Some(tags.map(tag).into());
    document
}
