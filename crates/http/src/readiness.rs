//! Whether the service can read and write, for the health checks of load balancers.
//!
//! A full disk lets every write fail while reads work. Only a write shows that, so a small one is made when somebody asks,
//! at most once in [`writes::INTERVAL`].
//!
//! No key is needed to ask. Details are for requests from this machine, and for those with the key of an administrator;
//! others get the status alone.

pub(crate) mod secrets;
pub(crate) mod storage;
pub(crate) mod writes;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use journeyman_core::ports::StoreError;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use self::writes::{Checked, LIMIT, within};
use crate::app::App;
use crate::auth::{has_key_of_administrator, is_local};
use crate::error::{AWAY_SECONDS, ApiError, ErrorCode, More};

/// What the service can do at the moment.
#[derive(Debug)]
pub(crate) struct Readiness {
    reads: Result<(), StoreError>,
    writes: Checked,
}

impl Readiness {
    /// Checks the store.
    pub(crate) async fn of(app: &App) -> Self {
        let reads = within(app.services.store.ready()).await;
        Self { reads, writes: app.writes.check(&*app.services.store, &*app.services.clock).await }
    }

    /// Returns whether the sender of a request may see details. A key is looked up only while the store answers.
    pub(crate) async fn shows_details_to(&self, app: &App, parts: &Parts) -> bool {
        let by_key = async || timeout(LIMIT, has_key_of_administrator(app, parts)).await.unwrap_or_default();
        is_local(parts) || self.reads.is_ok() && by_key().await
    }

    /// Returns the error if the store cannot be read or written.
    pub(crate) fn refusal(&self) -> Option<ApiError> {
        self.refusal_of_reads().or_else(|| match self.writes.result.as_ref().err()? {
            StoreError::Full(_) => {
                let text = "the disk of the database is full: requests that write are refused until there is space again. \
                            Reads work; use /readyz/reads for clients that only read";
                Some(ApiError::away(ErrorCode::StorageFull, text))
            }
            _ => {
                let text = "the database refuses writes; reads work. Use /readyz/reads for clients that only read. The log \
                            has the cause";
                Some(ApiError::away(ErrorCode::StoreUnavailable, text))
            }
        })
    }

    /// Returns the error if the store cannot be read.
    pub(crate) fn refusal_of_reads(&self) -> Option<ApiError> {
        let text = "the database does not answer; the log has the cause";
        self.reads.is_err().then(|| ApiError::away(ErrorCode::StoreUnavailable, text))
    }

    /// Returns the response to a health check that failed, whose body also says what works.
    pub(crate) fn refuse(&self, error: ApiError) -> Response {
        let [reads, writes] = self.fields();
        let mut more = Map::new();
        more.insert("status".to_owned(), json!("unavailable"));
        more.insert("reads".to_owned(), reads);
        more.insert("writes".to_owned(), writes);
        let mut response = error.into_response();
        response.extensions_mut().insert(More(more));
        response
    }

    /// Returns the fields about reads and about writes. The log has the causes.
    pub(crate) fn fields(&self) -> [Value; 2] {
        let words = match &self.writes.result {
            Ok(()) => None,
            Err(StoreError::Full(_)) => Some("the disk of the database is full"),
            Err(_) => Some("the database refused a write"),
        };
        let writes = json!({
            "ok": self.writes.result.is_ok(),
            "text": words,
            "checkedAt": self.writes.at,
        });
        [json!({ "ok": self.reads.is_ok() }), writes]
    }
}

/// Returns the response to a health check that failed, for those who may not see why.
pub(crate) fn unavailable() -> Response {
    let retry = [(RETRY_AFTER, AWAY_SECONDS.to_string())];
    (StatusCode::SERVICE_UNAVAILABLE, retry, Json(json!({"status": "unavailable"}))).into_response()
}
