//! The pull request that a request is about, by the number in its path.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use journeyman_core::ports::PullPagesError;

use crate::Shared;
use crate::failure::Failure;
use crate::frame::Frame;

/// A number, and the frame for its page. What is no number is a pull request that is not there.
pub(super) struct Target {
    pub(super) frame: Frame,
    pub(super) number: u64,
}

impl Target {
    /// The answer to the request: the outcome, or the page of what went wrong.
    pub(super) fn answer(&self, outcome: Result<Response, Failure>) -> Response {
        outcome.unwrap_or_else(|failure| failure.page(&self.frame, Some(self.number)))
    }
}

impl FromRequestParts<Shared> for Target {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Self::Rejection> {
        let frame = Frame::from_request_parts(parts, shared).await.map_err(IntoResponse::into_response)?;
        let path = Path::<(String, String)>::from_request_parts(parts, shared).await;
        match path.ok().and_then(|Path((_, number))| canonical(&number)) {
            Some(number) => Ok(Self { frame, number }),
            None => Err(Failure::from(PullPagesError::NotFound).page(&frame, None)),
        }
    }
}

/// Reads a number in its one spelling: `+7` and `07` are no second addresses of `7`.
fn canonical(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}
