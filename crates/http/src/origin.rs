//! The `Origin` rule: requests that a browser sends from another site are refused, with or without credentials.
//!
//! API keys are for servers, so no response allows another origin (CORS). This layer also refuses the request itself,
//! before it can have an effect, because browsers send simple cross-site requests without asking for permission.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::ORIGIN;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use url::{Host, Origin, Url};

use crate::error::{ApiError, ErrorCode};

/// The origins of this service.
#[derive(Clone)]
pub(crate) struct OurOrigins(Arc<[Origin]>);

impl OurOrigins {
    /// Returns the origin of the public URL. If its host is a loopback address, the origins with the other names of the
    /// loopback are included.
    pub(crate) fn new(public_url: &str) -> Self {
        let Ok(url) = Url::parse(public_url) else { return Self(Arc::from([])) };
        let mut origins = vec![url.origin()];
        if is_loopback(&url) {
            for name in ["localhost", "127.0.0.1", "[::1]"] {
                let mut other = url.clone();
                if other.set_host(Some(name)).is_ok() {
                    origins.push(other.origin());
                }
            }
        }
        Self(origins.into())
    }

    fn contains(&self, origin: &str) -> bool {
        // `null` does not parse as a URL, and other opaque origins equal no origin.
        Url::parse(origin).is_ok_and(|url| self.0.contains(&url.origin()))
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Refuses a request whose `Origin` is not one of this service.
pub(crate) async fn refuse_foreign(State(ours): State<OurOrigins>, request: Request, next: Next) -> Response {
    let foreign = |origin: &axum::http::HeaderValue| !origin.to_str().is_ok_and(|origin| ours.contains(origin));
    if request.headers().get_all(ORIGIN).iter().any(foreign) {
        let text = "a browser sent this request from another origin; API keys are for servers, so send it from your \
                    own server instead. If users reach this service at that origin, set public-url to it";
        return ApiError::forbidden(ErrorCode::ForeignOrigin, text).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_origin_of_the_public_url_is_accepted() {
        let ours = OurOrigins::new("https://journeyman.example.com");
        assert!(ours.contains("https://journeyman.example.com"));
        assert!(ours.contains("https://journeyman.example.com:443"));
        for foreign in [
            "http://journeyman.example.com",
            "https://journeyman.example.com:8443",
            "https://evil.example.com",
            "https://localhost",
            "null",
            "",
        ] {
            assert!(!ours.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn all_names_of_the_loopback_are_accepted() {
        let ours = OurOrigins::new("http://127.0.0.1:8080");
        for name in ["http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080"] {
            assert!(ours.contains(name), "{name}");
        }
        assert!(!ours.contains("http://localhost:9090"));
    }
}
