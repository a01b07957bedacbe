//! The route of the assets.

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::gzip;
use crate::Shared;

/// Returns the route `GET /assets/{name}`, which needs no session because assets contain no data.
pub(crate) fn routes() -> Router<Shared> {
    Router::new().route("/assets/{name}", get(asset))
}

/// Sends an asset. Browsers may cache it for a year if the URL has the current version. With any other URL they
/// must revalidate: during an upgrade, this process gets requests for the assets of the other version.
async fn asset(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(asset) = shared.assets.find(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let current = query.as_deref() == Some(&asset.query);
    let caching = if current { "public, max-age=31536000, immutable" } else { "no-cache" };
    let own = [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, caching), (VARY, "accept-encoding")];
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.contains("gzip") {
        let gzipped = asset.gzipped.get_or_init(|| gzip(asset.plain));
        if !gzipped.is_empty() {
            return (own, [(CONTENT_ENCODING, "gzip")], gzipped.clone()).into_response();
        }
    }
    (own, asset.plain).into_response()
}
