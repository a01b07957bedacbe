//! Responses with a table.

use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};

/// Returns the headers of a response with a table, which browsers store in the file `name`.
pub(crate) fn headers(name: &str) -> [(HeaderName, String); 3] {
    [
        (CONTENT_TYPE, "text/csv; charset=utf-8; header=present".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (CACHE_CONTROL, "no-store".to_owned()),
    ]
}
