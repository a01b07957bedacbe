//! The stylesheet, part of the program, at an address that changes with its content.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use sha2::{Digest, Sha256};

use crate::Shared;

/// Where the stylesheet is.
pub(crate) const PATH: &str = "/assets/journeyman.css";

const CSS: &str = include_str!("../assets/journeyman.css");

/// The stylesheet of this build.
#[derive(Clone)]
pub(crate) struct Stylesheet {
    query: Arc<str>,
}

impl Stylesheet {
    /// The one that was compiled in.
    pub(crate) fn bundled() -> Self {
        let digest = Sha256::digest(CSS);
        let version: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { query: format!("v={version}").into() }
    }

    /// The address for a page.
    pub(crate) fn href(&self) -> String {
        format!("{PATH}?{}", self.query)
    }
}

/// `GET /assets/journeyman.css`: may be kept for a year, but only under the address of this very content. While two
/// versions of the server run side by side, one is asked for the other's.
pub(crate) async fn stylesheet(State(shared): State<Shared>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let current = query.as_deref() == Some(&*shared.stylesheet.query);
    let caching = if current { "public, max-age=31536000, immutable" } else { "no-cache" };
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, caching)], CSS)
}
