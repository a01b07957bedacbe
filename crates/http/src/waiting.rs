//! The answers of a service that waits for its database before it can start.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use journeyman_core::time::{Clock, IdGen};
use tokio::sync::watch;

use crate::answer::REQUEST_ID;
use crate::auth::is_local;
use crate::error::{AWAY_SECONDS, ErrorCode, error_body};

/// Returns the router of a service that waits for its database: `/healthz` shows that the process is alive, and everything
/// else is answered 503. Requests from this machine itself get the reason, which must contain no secret.
pub fn waiting_router(reason: watch::Receiver<String>, ids: Arc<dyn IdGen>, clock: Arc<dyn Clock>) -> Router {
    let refuse = move |parts: Parts| {
        let id = format!("req_{}", ids.uuid(clock.now()).simple());
        let reason = if is_local(&parts) { reason.borrow().clone() } else { "the log has the reason".to_owned() };
        async move { refused(&reason, &id) }
    };
    let alive = || async { ([(CONTENT_TYPE, "application/json")], r#"{"status":"ok"}"#) };
    Router::new().route("/healthz", get(alive)).fallback(refuse)
}

fn refused(reason: &str, id: &str) -> Response {
    let text = format!("the service is starting and waits for its database: {reason}");
    let body = error_body(ErrorCode::StoreUnavailable, &text, id);
    let headers: [(HeaderName, String); 3] = [
        (CONTENT_TYPE, "application/json".to_owned()),
        (RETRY_AFTER, AWAY_SECONDS.to_string()),
        (REQUEST_ID, id.to_owned()),
    ];
    (StatusCode::SERVICE_UNAVAILABLE, headers, body).into_response()
}
