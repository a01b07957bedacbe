//! Tables as CSV (RFC 4180).

use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};

/// Returns a writer of a table without a line of column names.
pub(crate) fn writer() -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().has_headers(false).terminator(csv::Terminator::CRLF).from_writer(Vec::new())
}

/// Returns the headers of a response with a table, which browsers store in the file `name`.
pub(crate) fn headers(name: &str) -> [(HeaderName, String); 3] {
    [
        (CONTENT_TYPE, "text/csv; charset=utf-8; header=present".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (CACHE_CONTROL, "no-store".to_owned()),
    ]
}

/// Puts an apostrophe before a text that a spreadsheet would take for a formula.
pub(crate) fn no_formula(text: &mut String) {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        text.insert(0, '\'');
    }
}
