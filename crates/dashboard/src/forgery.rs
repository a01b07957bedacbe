//! The rule against requests that another site has a browser send: what changes something must come from our own pages.
//!
//! Browsers say where a request comes from, in `Sec-Fetch-Site` and in `Origin`, and pages cannot change that. A request
//! that says neither is refused: every browser since 2023 sends one of them with a form. A foreign `Origin` is refused
//! before, by the outer layer. The session's cookie is `SameSite=Lax` besides.

use axum::extract::Request;
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Refuses what may be forged.
pub(crate) async fn refuse(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads || is_ours(request.headers()) {
        return next.run(request).await;
    }
    let text = "this request does not come from a page of this server; open the page again and send it from there\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

fn is_ours(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => headers.get(ORIGIN).is_some_and(|origin| origin != "null"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_change_anything() {
        let cases = [
            (vec![], false),
            (vec![("origin", "http://127.0.0.1:8080")], true),
            (vec![("origin", "null")], false),
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:8080")], true),
            (vec![("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:8080")], false),
            (vec![("sec-fetch-site", "cross-site")], false),
            (vec![("sec-fetch-site", "none")], false),
        ];
        for (given, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in &given {
                headers.insert(*name, value.parse().expect("a header"));
            }
            assert_eq!(is_ours(&headers), expected, "{given:?}");
        }
    }
}
