//! Security headers of all responses: pages run only their own scripts and styles, load nothing from other sites, and
//! are neither framed nor cached.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::response::Response;

/// The Content-Security-Policy. The hash is for the style of the progress bar, which Turbo inserts into the page.
const POLICY: &str = "default-src 'none'; \
     style-src 'self' 'sha256-WAyOw4V+FqDc35lQPyRADLBWbuNK8ahvYEaQIYF1+Ps='; script-src 'self'; connect-src 'self'; img-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The origin of another site to which a form of the page may be sent, in addition to this one. A handler adds it to the
/// extensions of its response. It must have only characters of an origin.
#[derive(Debug, Clone)]
pub(crate) struct FormTarget(pub(crate) String);

/// Returns the policy of a page.
fn policy(target: Option<FormTarget>) -> HeaderValue {
    let Some(FormTarget(origin)) = target else { return HeaderValue::from_static(POLICY) };
    let policy = POLICY.replace("form-action 'self'", &format!("form-action 'self' {origin}"));
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static(POLICY))
}

/// Sets the security headers. `Cache-Control` and `Referrer-Policy` are kept if the response has them.
pub(crate) async fn strict(mut response: Response) -> Response {
    let policy = policy(response.extensions_mut().remove());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With `no-referrer`, browsers send `Origin: null` with our own forms, which are then refused. `same-origin` also
    // sends nothing to other sites.
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
