//! The dashboard: pages rendered on the server, with nothing that runs in the browser.
//!
//! Who calls and what they may see is decided outside: the outer layer puts a [`Viewer`] and the
//! [`Project`](journeyman_core::project::Project) of the path into the request's extensions, after it has checked that
//! the one may see the other. A page asked for without them is a fault of the wiring and answers 500.
//!
//! Invariant: text from outside (titles, bodies, branches, diffs, names) reaches a page through askama's escaping
//! alone. No template says `safe`, and no link is made of such text.

mod assets;
mod diff;
mod failure;
mod frame;
mod headers;
mod moment;
mod pulls;
mod shell;
#[cfg(test)]
mod tests;
mod visible;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use axum::routing::get;
use journeyman_core::ports::PullPages;

use crate::assets::Stylesheet;

/// What the pages need to know of a caller, made by the outer layer and put into the request's extensions.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// Shown on each page, and named in merge commits.
    pub name: String,
    /// Whether they may merge and close.
    pub can_write: bool,
}

/// What the pages of pull requests work on.
#[derive(Clone)]
pub struct PullsState {
    /// The pull requests of the built-in code host.
    pub pages: Arc<dyn PullPages>,
}

/// What every handler is given.
#[derive(Clone)]
pub(crate) struct Shared {
    pages: Arc<dyn PullPages>,
    stylesheet: Stylesheet,
}

/// All pages, and the stylesheet at `/assets/journeyman.css`, which alone needs neither viewer nor project.
///
/// It sets no fallback, so it can be merged into a router that has one.
pub fn router(state: PullsState) -> Router {
    let shared = Shared { pages: state.pages, stylesheet: Stylesheet::bundled() };
    Router::new()
        .merge(pulls::routes())
        .route(assets::PATH, get(assets::stylesheet))
        .route_layer(map_response(headers::strict))
        .with_state(shared)
}
