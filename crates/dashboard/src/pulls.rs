//! The pages of pull requests: the list, one, and what can be done to it.

mod actions;
mod badge;
mod detail;
mod list;
mod target;

use axum::Router;
use axum::routing::{get, post};

use crate::Shared;

/// Their routes.
pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/projects/{projectId}/pulls", get(list::list))
        .route("/projects/{projectId}/pulls/{number}", get(detail::detail))
        .route("/projects/{projectId}/pulls/{number}/merge", post(actions::merge))
        .route("/projects/{projectId}/pulls/{number}/close", post(actions::close))
}
