//! Protection against cross-site request forgery: requests that change something must come from our own pages.
//!
//! Browsers send the origin of a request in `Sec-Fetch-Site` and in `Origin`, and pages cannot change these headers. A
//! request without both is refused: every browser since 2023 sends one of them with a form. The outer layer has already
//! refused a foreign `Origin`. In addition, the session cookie is `SameSite=Lax`.

use axum::extract::Request;
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Refuses a request that changes something and may be forged.
pub(crate) async fn refuse(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if reads || is_ours(request.headers()) {
        return next.run(request).await;
    }
    let text = "this request does not come from a page of this server; reload the page and send the form again\n";
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
    fn only_requests_from_our_own_pages_are_accepted() {
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
