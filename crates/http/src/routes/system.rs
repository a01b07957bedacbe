//! Health, metrics, the OpenAPI document, and information about the installation.

use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::app::App;
use crate::document::Document;
use crate::error::{ApiError, ErrorCode};
use crate::extract::Administrator;
use crate::metrics::Counts;
use crate::openapi::errors;
use crate::readiness::{Readiness, unavailable};
use crate::wire::system::System;

/// Returns the routes that need no key; `document` is the OpenAPI document.
pub(crate) fn routes(document: Arc<Document>) -> Router<App> {
    let text = Arc::new(LazyLock::new(move || document.bytes()));
    let openapi = move || async move { ([(CONTENT_TYPE, "application/json")], Bytes::clone(&text)) };
    health().route("/openapi.json", get(openapi))
}

/// Returns the routes that every process has.
pub(crate) fn health() -> Router<App> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/readyz/reads", get(readyz_for_reads))
        .route("/metrics", get(metrics))
}

/// Reports that the process handles requests.
async fn healthz() -> Json<serde_json::Value> {
    Json(json!({"status": "ok"}))
}

/// Returns whether the service is ready: the store answers and can write, and on a machine that carries out jobs, sandboxes
/// can be created. While the blob store cannot be written, or no configured master key decrypts a stored secret, the
/// status is `degraded`: requests are handled, and the work of agents waits or fails.
///
/// The response to those who may see details also describes the sandbox, once it was checked, and the disk with the
/// workspaces: while its free space is below the reserve, the machine claims no run.
async fn readyz(State(app): State<App>, parts: Parts) -> Response {
    let state = Readiness::of(&app).await;
    let refusal = match state.refusal() {
        Some(error) => Some(error),
        None => refusal_of_sandboxes(&app).await,
    };
    let is_shown = state.shows_details_to(&app, &parts).await;
    match refusal {
        Some(error) if is_shown => return state.refuse(error),
        Some(_) => return unavailable(),
        None => {}
    }
    let services = &app.services;
    let storage = app.storage.state(&services.blobs, &services.clock).await;
    let secrets = app.secrets.state(&*services.store).await;
    let status = if storage.fails() || secrets.fails() { "degraded" } else { "ready" };
    if !is_shown {
        return Json(json!({"status": status})).into_response();
    }
    let seen = app.services.machine.as_ref().and_then(|machine| machine.seen());
    let sandbox = seen.map(|found| {
        let lost: Vec<&str> = found.guarantees.iter().filter(|one| !one.holds).map(|one| one.name).collect();
        json!({"kind": found.sandbox, "enough": found.is_enough(), "lost": lost})
    });
    let disk = app.services.machine.as_ref().and_then(|machine| machine.free_space()).map(|space| {
        json!({"freeBytes": space.free_bytes, "reserveBytes": space.reserve_bytes, "enough": space.is_enough()})
    });
    let ([reads, writes], storage, secrets) = (state.fields(), storage.field(), secrets.field());
    Json(json!({
        "status": status, "reads": reads, "writes": writes, "storage": storage, "secrets": secrets,
        "sandbox": sandbox, "disk": disk,
    }))
    .into_response()
}

/// Returns the error if this machine carries out jobs and can create no sandbox.
async fn refusal_of_sandboxes(app: &App) -> Option<ApiError> {
    // The details may name folders, and stay in the log.
    app.services.machine.as_ref()?.available().await.err().map(|_| {
        let text = "no sandbox can be created because the container engine does not answer; jobs wait until it \
                    does. See the log, journeyman doctor or GET /v2/system for details";
        ApiError::away(ErrorCode::SandboxUnavailable, text)
    })
}

/// Returns whether the service can answer requests that only read: the store answers. The response to those who may see
/// details also shows whether it can write.
async fn readyz_for_reads(State(app): State<App>, parts: Parts) -> Response {
    let state = Readiness::of(&app).await;
    let is_shown = state.shows_details_to(&app, &parts).await;
    match state.refusal_of_reads() {
        Some(error) if is_shown => state.refuse(error),
        Some(_) => unavailable(),
        None if is_shown => {
            let [reads, writes] = state.fields();
            Json(json!({"status": "ready", "reads": reads, "writes": writes})).into_response()
        }
        None => Json(json!({"status": "ready"})).into_response(),
    }
}

errors!(SystemErrors: 401, 403, 503);

/// Get information about the installation
///
/// Returns the version of the service, and the sandbox of the machine that handles the request.
#[utoipa::path(get, path = "/v2/system", tag = "System", operation_id = "getSystem",
    responses((status = 200, description = "The version and the sandbox", body = System), SystemErrors))]
pub(crate) async fn system(State(app): State<App>, _: Administrator) -> Result<Json<System>, ApiError> {
    let sandbox = match &app.services.machine {
        Some(machine) => Some(machine.containment().await.into()),
        None => None,
    };
    Ok(Json(System { version: app.settings.version.clone(), sandbox }))
}

async fn metrics(State(app): State<App>) -> Result<Response, ApiError> {
    let store = &app.services.store;
    let now = app.services.clock.now();
    let (jobs, waiting, outbox) = (store.job_counts(now).await?, store.waiting_jobs().await?, store.backlog().await?);
    let (inbox, deliveries) = (store.inbox_backlog().await?, store.delivery_backlog().await?);
    let on_hold = store.holds().await?.len() as u64;
    let space = app.services.machine.as_ref().and_then(|machine| machine.free_space());
    let (pool, hosted) = (store.pool(), app.cases.storage_of_all().await?);
    let counts = Counts { now, jobs, outbox, inbox, deliveries, pool, waiting, on_hold, space, hosted };
    let text = app.metrics.text(counts).map_err(|error| ApiError::internal(&error))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
