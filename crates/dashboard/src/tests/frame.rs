//! Tests of the parts of every page: the header, the theme, the keys, the search, and toasts.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::user::Role;
use journeyman_testkit::FakeForges;

use super::job::create_job;
use super::{Fixture, Reply, fixture, token};

async fn with_cookie(fixture: &Fixture, path: &str, cookie: &str) -> Reply {
    let cookies = format!("journeyman={}; {cookie}", token(Role::Member));
    fixture
        .send_with(Method::GET, path, "", |request| {
            request.headers_mut().insert("cookie", cookies.parse().unwrap());
        })
        .await
}

#[tokio::test]
async fn the_menu_of_the_account_has_what_the_role_may_open() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    for (role, links) in [
        (Role::Administrator, ["href=\"/keys\"", "href=\"/users\"", "href=\"/audit\""].as_slice()),
        (Role::Member, &["href=\"/keys\""]),
        (Role::Viewer, &[]),
    ] {
        let page = fixture.send(Some(role), Method::GET, "/projects", "").await.body;
        for link in ["href=\"/keys\"", "href=\"/users\"", "href=\"/audit\""] {
            assert_eq!(page.contains(link), links.contains(&link), "{link} for {}", role.name());
        }
        for link in
            ["href=\"/account\"", "href=\"/search\"", "href=\"/keyboard\"", "href=\"/usage\"", "href=\"/system\""]
        {
            assert!(page.contains(link), "{link} for {}", role.name());
        }
    }
}

#[tokio::test]
async fn the_theme_is_kept_and_rendered() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let system = with_cookie(&fixture, "/projects?a=b", "").await.body;
    assert!(system.contains("<html lang=\"en\" data-theme=\"system\">"), "{system}");
    assert!(system.contains("name=\"next\" value=\"/projects?a=b\""), "{system}");
    let form = "theme=dark&next=%2Fprojects%3Fa%3Db";
    let chosen = fixture.send(Some(Role::Member), Method::POST, "/account/theme", form).await;
    assert_eq!((chosen.status, chosen.header("location")), (StatusCode::SEE_OTHER, "/projects?a=b"));
    let cookie = chosen.header("set-cookie");
    assert_eq!(cookie, "journeyman-theme=dark; Path=/; Max-Age=31536000; HttpOnly; SameSite=Lax");
    for path in ["/projects", "/docs", "/login"] {
        let page = fixture.send_with(Method::GET, path, "", |request| {
            let cookie = "journeyman-theme=dark".to_owned();
            let session =
                if path == "/login" { String::new() } else { format!("; journeyman={}", token(Role::Member)) };
            request.headers_mut().insert("cookie", (cookie + &session).parse().unwrap());
        });
        let page = page.await.body;
        assert!(page.contains("data-theme=\"dark\""), "{path}: {page}");
    }
    let elsewhere = fixture.send(Some(Role::Member), Method::POST, "/account/theme", "theme=light&next=//evil.example");
    assert_eq!(elsewhere.await.header("location"), "/");
}

#[tokio::test]
async fn letters_can_be_switched_off() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let off = fixture.send(Some(Role::Member), Method::POST, "/account/letters", "").await;
    assert!(off.header("set-cookie").starts_with("journeyman-letters=off; Path=/; Max-Age=31536000;"));
    let on = fixture.send(Some(Role::Member), Method::POST, "/account/letters", "letters=on").await;
    assert!(on.header("set-cookie").starts_with("journeyman-letters=; Path=/; Max-Age=0;"));
    assert!(
        with_cookie(&fixture, "/projects", "journeyman-letters=off").await.body.contains("<body data-letters=\"off\">")
    );
    assert!(with_cookie(&fixture, "/projects", "").await.body.contains("<body>"));
}

#[tokio::test]
async fn the_search_finds_projects_jobs_and_projects_for_a_new_job() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let job = create_job(&fixture, "Fix the <typo>").await;
    let search = async |role: Role, q: &str| {
        let answer = fixture.send(Some(role), Method::GET, &format!("/search/results?q={q}"), "").await;
        assert_eq!(answer.header("content-type"), "application/json");
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap()
    };
    let found = search(Role::Viewer, "SHO").await;
    assert_eq!(found[0]["href"], "/projects/shop/jobs");
    let found = search(Role::Viewer, "fix+the").await;
    assert_eq!((found[0]["title"].as_str(), found[1].is_null()), (Some("Fix the <typo>"), true), "{found}");
    assert_eq!(found[0]["href"], format!("/projects/shop/jobs/{job}"));
    assert_eq!(search(Role::Member, "new+job+in").await[0]["href"], "/projects/shop/jobs/new");
    for (role, q) in [(Role::Viewer, "new+job+in"), (Role::Member, ""), (Role::Member, "nothing")] {
        assert_eq!(search(role, q).await, serde_json::json!([]), "{q}");
    }
    let page = fixture.send(Some(Role::Viewer), Method::GET, "/search?q=typo", "").await.body;
    assert!(page.contains("Fix the &#60;typo&#62;") && page.contains("value=\"typo\""), "{page}");
    assert!(fixture.send(Some(Role::Viewer), Method::GET, "/search?q=zzz", "").await.body.contains("Nothing found"));
}

#[tokio::test]
async fn a_confirmation_is_a_toast_that_can_be_dismissed() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let page = fixture.send(Some(Role::Member), Method::GET, "/projects?a=b&done=saved", "").await.body;
    assert!(page.contains("<p role=\"status\">Saved.</p>"), "{page}");
    assert!(page.contains("href=\"/projects?a=b\" data-dismiss"), "{page}");
    let plain = fixture.send(Some(Role::Member), Method::GET, "/projects?done=nonsense", "").await.body;
    assert!(!plain.contains("data-toast"), "{plain}");
}
