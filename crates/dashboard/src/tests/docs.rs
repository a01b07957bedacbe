//! Tests of the documentation for developers, with and without a session.

use std::sync::Arc;

use axum::http::Method;
use journeyman_core::user::Role;
use journeyman_testkit::FakeForges;

use super::fixture;

#[tokio::test]
async fn the_documentation_needs_no_session_and_knows_the_reader_with_one() {
    let service = fixture(Arc::new(FakeForges)).await;
    let public = service.send(None, Method::GET, "/docs/guides/errors", "").await;
    assert_eq!(public.status, 200);
    assert!(public.body.contains("<a href=\"/login\">Sign in</a>"));
    assert_eq!((public.header("cache-control"), public.header("vary")), ("private, no-cache", "cookie"));
    assert!(public.header("content-security-policy").contains("script-src 'self';"));
    let member = service.send(Some(Role::Member), Method::GET, "/docs/guides/errors", "").await;
    assert!(member.body.contains("/account") && !member.body.contains("Sign in"));

    let tag = public.header("etag").to_owned();
    let again = service.send_with(Method::GET, "/docs/guides/errors", "", |request| {
        request.headers_mut().insert("if-none-match", tag.parse().unwrap());
    });
    assert_eq!(again.await.status, 304);
    let missing = service.send(None, Method::GET, "/docs/guides/nothing", "").await;
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("There is no such page"));
}
