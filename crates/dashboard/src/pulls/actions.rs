//! `POST …/merge` and `POST …/close`: what can be done to a pull request.
//!
//! The forms carry nothing: the path says it all. That a request comes from a page of ours and not from another site is
//! the outer layer's rule on `Origin`, which holds for every request that is not GET or HEAD; there is no token here.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};

use super::target::Target;
use crate::Shared;
use crate::failure::Failure;

/// Merges, and shows the pull request again.
pub(super) async fn merge(State(shared): State<Shared>, target: Target) -> Response {
    target.answer(merged(&shared, &target).await)
}

/// Closes, and shows the pull request again.
pub(super) async fn close(State(shared): State<Shared>, target: Target) -> Response {
    target.answer(closed(&shared, &target).await)
}

async fn merged(shared: &Shared, target: &Target) -> Result<Response, Failure> {
    may_write(target)?;
    shared.pages.merge(&target.frame.project, target.number, &target.frame.viewer.name).await?;
    Ok(back(target))
}

async fn closed(shared: &Shared, target: &Target) -> Result<Response, Failure> {
    may_write(target)?;
    shared.pages.close(&target.frame.project, target.number).await?;
    Ok(back(target))
}

fn may_write(target: &Target) -> Result<(), Failure> {
    if target.frame.viewer.can_write { Ok(()) } else { Err(Failure::ReadOnly) }
}

/// 303, so that loading the page again does not send the form again.
fn back(target: &Target) -> Response {
    Redirect::to(&target.frame.pull_path(target.number)).into_response()
}
