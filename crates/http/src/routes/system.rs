//! What operators and readers ask for: health, numbers, the description of the interface.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, ErrorCode};
use crate::extract::Administrator;
use crate::metrics::Counts;
use crate::openapi::errors;
use crate::wire::system::System;

/// Redoc 2.5.4 from npm; licence and hash are in `assets/README.md`.
const REDOC: &[u8] = include_bytes!("../../assets/redoc.standalone.js");

const DOCS: &str = include_str!("../../assets/docs.html");

/// Redoc styles its elements one by one and searches in a worker made of a blob; nothing comes from another host.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; \
                           img-src 'self' data:; worker-src blob:; frame-ancestors 'none'; base-uri 'none'";

/// The routes that need no key; `document` is the OpenAPI document.
pub(crate) fn routes(document: &serde_json::Value) -> Router<App> {
    let document = axum::body::Bytes::from(document.to_string());
    let openapi = move || async move { ([(CONTENT_TYPE, "application/json")], document) };
    health().route("/openapi.json", get(openapi)).route("/docs", get(docs)).route("/docs/redoc.js", get(redoc))
}

/// The routes that every process has.
pub(crate) fn health() -> Router<App> {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).route("/metrics", get(metrics))
}

/// The process answers.
async fn healthz() -> Json<serde_json::Value> {
    Json(json!({"status": "ok"}))
}

/// Returns whether the service is ready: the store answers, and on a machine that carries out jobs, sandboxes can be
/// created. The response also describes the sandbox, once it was checked, and the disk with the workspaces: while its
/// free space is below the reserve, the machine claims no run.
async fn readyz(State(app): State<App>) -> Result<Json<serde_json::Value>, ApiError> {
    app.services.store.ready().await?;
    if let Some(machine) = &app.services.machine {
        // This request is not authenticated, so the response omits the details, which may name folders.
        machine.available().await.map_err(|_| {
            let text = "no sandbox can be created because the container engine does not answer; jobs wait until it \
                        does. See the log, journeyman doctor or GET /v2/system for details";
            ApiError::away(ErrorCode::SandboxUnavailable, text)
        })?;
    }
    let seen = app.services.machine.as_ref().and_then(|machine| machine.seen());
    let sandbox = seen.map(|found| {
        let lost: Vec<&str> = found.guarantees.iter().filter(|one| !one.holds).map(|one| one.name).collect();
        json!({"kind": found.sandbox, "enough": found.is_enough(), "lost": lost})
    });
    let disk = app.services.machine.as_ref().and_then(|machine| machine.free_space()).map(|space| {
        json!({"freeBytes": space.free_bytes, "reserveBytes": space.reserve_bytes, "enough": space.is_enough()})
    });
    Ok(Json(json!({"status": "ready", "sandbox": sandbox, "disk": disk})))
}

errors!(SystemErrors: 401, 403, 503);

/// Read about the installation
///
/// Returns the version of the service, and the sandbox of the machine that handles the request.
#[utoipa::path(get, path = "/v2/system", tag = "System", operation_id = "getSystem",
    responses((status = 200, description = "What runs here, and what holds of its sandbox", body = System), SystemErrors))]
pub(crate) async fn system(State(app): State<App>, _: Administrator) -> Result<Json<System>, ApiError> {
    let sandbox = match &app.services.machine {
        Some(machine) => Some(machine.containment().await.into()),
        None => None,
    };
    Ok(Json(System { version: app.settings.version.clone(), sandbox }))
}

async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let store = &app.services.store;
    let (active, waiting) = (store.active_jobs().await?, store.waiting_jobs().await?);
    let on_hold = store.holds().await?.len() as u64;
    let space = app.services.machine.as_ref().and_then(|machine| machine.free_space());
    let text =
        app.metrics.text(Counts { active, waiting, on_hold, space }).map_err(|error| ApiError::internal(&error))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

async fn docs() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, DOCS_POLICY)], DOCS)
}

async fn redoc() -> (StatusCode, [(axum::http::HeaderName, &'static str); 2], &'static [u8]) {
    let headers = [(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, "public, max-age=86400")];
    (StatusCode::OK, headers, REDOC)
}
