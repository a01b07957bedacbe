//! Tests of the documentation for developers, with and without a session.

use std::sync::Arc;

use axum::http::Method;
use journeyman_core::user::Role;
use journeyman_testkit::{FakeForges, until_async};

use super::fixture;

#[tokio::test]
async fn the_first_request_of_a_page_does_not_wait_for_the_colors_of_its_code() {
    let service = fixture(Arc::new(FakeForges)).await;
    let page = async || service.send(None, Method::GET, "/docs/reference/createJob", "").await.body;
    let is_colored = |body: &str| body.contains("<span class=\"hl-");
    let first = page().await;
    assert!(first.contains("createJob") && !is_colored(&first), "{first}");
    until_async("the colors", async || is_colored(&page().await).then_some(())).await;
}

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

    // The page changes once, when the colors of its code are ready.
    until_async("the answer that the page is unchanged", async || {
        let tag = service.send(None, Method::GET, "/docs/guides/errors", "").await.header("etag").to_owned();
        let again = service.send_with(Method::GET, "/docs/guides/errors", "", |request| {
            request.headers_mut().insert("if-none-match", tag.parse().unwrap());
        });
        (again.await.status == 304).then_some(())
    })
    .await;
    let missing = service.send(None, Method::GET, "/docs/guides/nothing", "").await;
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("There is no such page"));
}
