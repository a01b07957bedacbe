//! The dashboard: pages rendered on the server. Everything except live updates works without scripts.
//!
//! A request passes these layers, from the outside in: the response headers ([`headers`]), the check against forged
//! requests ([`forgery`]), the pages for errors ([`error_page`]), the session ([`signed_in`]), the proof of who the
//! viewer is ([`fresh`]), and a page under `pages/`, which has one file and one template.
//! Pages make changes through the use cases of `journeyman-app`, so that these are checked, limited and logged like
//! requests with a key.
//!
//! The documentation for developers is in [`portal`]: its pages need no session.
//!
//! Invariant: text from outside (titles, prompts, agent output, branches, diffs, names) reaches a page only through
//! askama's escaping. No template uses the filter `safe`. The only types that are inserted as markup are
//! [`icons::Icon`] and [`moment::Moment`], which contain no such text, [`markdown::Markup`], which is sanitized, and
//! [`fragment::Fragment`], which another template has rendered.

mod assets;
mod chart;
mod choices;
mod codes;
mod conversation;
mod cookies;
mod diff;
mod digests;
mod error_page;
mod failure;
mod fields;
mod forgery;
mod fragment;
mod frame;
mod fresh;
mod headers;
mod highlight;
mod icons;
mod in_project;
mod log_tail;
mod markdown;
mod moment;
mod pages;
mod parameter;
mod passkeys;
mod portal;
mod preferences;
mod second_factor;
mod session;
mod shared;
mod shell;
mod signed_in;
mod size;
mod streams;
#[cfg(test)]
mod tests;
mod throttle;
mod toast;
mod viewer;
mod visible;
mod words;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state, map_response};

pub use self::log_tail::{LogTail, LogTails, Tail};
pub(crate) use self::shared::Shared;
pub use self::shared::{Services, Settings};
pub use self::viewer::{ClientAddress, Viewer};

/// The routers of the dashboard.
pub struct Pages {
    /// All pages, and their assets under `/assets/`. It has no fallback, so it can be merged into a router that has.
    pub router: Router,
    /// The fallback for paths that no route matches. Browsers get a page. Other clients get the status 404 without a
    /// body.
    pub missing: Router,
}

/// Builds the routers. `document` returns the OpenAPI document, which the documentation at `/docs` describes; it is
/// called for the first reader.
///
/// The caller's layer must add the [`ClientAddress`] to each request and refuse requests with a foreign `Origin`.
pub fn router(
    services: Services,
    settings: Settings,
    document: impl FnOnce() -> serde_json::Value + Send + 'static,
) -> Pages {
    let shared = Shared::new(services, settings, document);
    let inside = pages::routes().route_layer(from_fn_with_state(shared.clone(), fresh::required));
    let inside = inside.route_layer(from_fn_with_state(shared.clone(), signed_in::required));
    let router = Router::new()
        .merge(inside)
        .merge(pages::open_routes())
        .merge(portal::routes())
        .route_layer(from_fn(forgery::refuse))
        .route_layer(from_fn_with_state(shared.clone(), error_page::replace_bare))
        .merge(assets::routes::routes())
        .route_layer(map_response(headers::strict))
        .with_state(shared.clone());
    let missing = Router::new()
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(from_fn_with_state(shared, error_page::replace_bare));
    Pages { router, missing }
}
