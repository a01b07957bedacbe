//! Tests of errors that the router and the extractors create: browsers get a page, other clients do not.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::user::Role;
use journeyman_testkit::FakeForges;

use super::{Fixture, Reply, fixture, token};

/// Sends a request as a browser does when a person opens an address or sends a form.
async fn browse(fixture: &Fixture, role: Option<Role>, method: Method, path: &str, form: &str) -> Reply {
    fixture
        .send_with(method, path, form, |request| {
            let headers = request.headers_mut();
            headers.insert("accept", "text/html,application/xhtml+xml".parse().unwrap());
            headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
            if let Some(role) = role {
                headers.insert("cookie", format!("journeyman={}; journeyman-theme=dark", token(role)).parse().unwrap());
            }
        })
        .await
}

#[tokio::test]
async fn a_browser_gets_a_page_for_each_error() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let large = format!("name={}", "x".repeat(3 << 20));
    let cases = [
        (Method::GET, "/nowhere", "", 404, "There is no page at this address."),
        (Method::GET, "/projects/shop/jobs/1/2/3", "", 404, "There is no page at this address."),
        (Method::GET, "/keys/x/rotate", "", 405, "It belongs to a button or a form."),
        (Method::GET, "/projects/shop/jobs?status=a&status=b", "", 400, "A part of the address or of the form"),
        (Method::POST, "/users", &large, 413, "The form is too large"),
        (Method::GET, "/projects/nowhere/jobs", "", 404, "There is no such project."),
        (Method::GET, "/users", "", 403, "Only an administrator may do this."),
    ];
    for (method, path, form, status, text) in cases {
        let page = browse(&fixture, Some(Role::Member), method, path, form).await;
        assert_eq!(page.status.as_u16(), status, "{path}: {}", page.body);
        assert!(
            page.body.contains(text) && page.body.contains("<a class=\"button\" href=\"/\">Home</a>"),
            "{}",
            page.body
        );
        assert!(page.body.contains("data-theme=\"dark\""), "{path}: {}", page.body);
        assert!(page.header("content-security-policy").contains("script-src 'self'"), "{path}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8", "{path}");
    }
    let page = browse(&fixture, Some(Role::Member), Method::GET, "/keys/x/rotate", "").await;
    assert_eq!(page.header("allow"), "POST");
}

#[tokio::test]
async fn a_visitor_does_not_learn_which_pages_exist() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    for path in ["/nowhere", "/projects/shop/jobs", "/projects/nowhere/jobs", "/keys/x/rotate"] {
        let page = browse(&fixture, None, Method::GET, path, "").await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(page.header("location"), format!("/login?next={}", path.replace('/', "%2F")), "{path}");
    }
}

#[tokio::test]
async fn a_program_gets_no_page() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let missing = fixture.send(None, Method::GET, "/nowhere", "").await;
    assert_eq!((missing.status, missing.body.as_str()), (StatusCode::NOT_FOUND, ""));
    assert!(!missing.headers.contains_key("content-type"));
}

#[tokio::test]
async fn a_forged_form_of_a_browser_gets_a_page_with_the_next_step() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let page = fixture.send_with(Method::POST, "/login", "name=a&password=b", |request| {
        let headers = request.headers_mut();
        headers.insert("accept", "text/html".parse().unwrap());
        headers.insert("sec-fetch-site", "cross-site".parse().unwrap());
    });
    let page = page.await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.body.contains("Reload the page, and send the form again.") && page.body.contains("href=\"/login\""));
}
