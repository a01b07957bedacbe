//! Tests of the page that shows a new secret until it is stored.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::ports::{KeyStore, UserStore};
use journeyman_core::user::Role;
use journeyman_testkit::FakeForges;

use super::{Fixture, Reply, fixture, token};

const FORM: &str = "name=ci&days=30&project=shop";

/// Creates a key, and returns the response to the form.
async fn created(fixture: &Fixture) -> Reply {
    let made = fixture.send(Some(Role::Member), Method::POST, "/keys", FORM).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.body);
    made
}

/// Opens the page of a secret with the session of a role and the cookies of the form.
async fn open(fixture: &Fixture, role: Role, made: &Reply) -> Reply {
    fixture.follow(role, made).await
}

#[tokio::test]
async fn a_new_key_can_be_seen_again_until_it_is_stored() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let made = created(&fixture).await;
    let cookie = made.header("set-cookie").to_owned();
    assert!(
        cookie.starts_with("journeyman-secret=") && cookie.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax")
    );
    let key = fixture.store.keys().await.unwrap().remove(0);
    assert!(!cookie.contains(&key.prefix) && !made.header("location").contains(&key.prefix), "{cookie}");
    let first = open(&fixture, Role::Member, &made).await;
    assert_eq!(first.status, StatusCode::OK);
    assert!(first.body.contains(&key.prefix) && first.body.contains("I have stored it"), "{}", first.body);
    assert_eq!(first.header("cache-control"), "no-store");
    assert_eq!(open(&fixture, Role::Member, &made).await.body, first.body, "a reload shows the same secret");
    assert_eq!(fixture.store.keys().await.unwrap().len(), 1, "a reload creates no key");

    let path = format!("{}/stored", made.header("location"));
    let cookies = format!("journeyman={}; {}", token(Role::Member), made.cookies().join("; "));
    let done = fixture.send_with(Method::POST, &path, "", |request| {
        request.headers_mut().insert("sec-fetch-site", "same-origin".parse().unwrap());
        request.headers_mut().insert("cookie", cookies.parse().unwrap());
    });
    let done = done.await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/keys"));
    assert_eq!(done.header("set-cookie"), "journeyman-secret=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax");
    let gone = fixture.send(Some(Role::Member), Method::GET, made.header("location"), "").await;
    assert_eq!(gone.status, StatusCode::GONE);
    assert!(gone.body.contains("The secret is no longer shown") && !gone.body.contains(&key.prefix), "{}", gone.body);
}

#[tokio::test]
async fn a_new_secret_is_bound_to_its_session_its_ticket_and_its_time() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let made = created(&fixture).await;
    assert_eq!(open(&fixture, Role::Administrator, &made).await.status, StatusCode::GONE, "another session");
    let mut headers = made.headers.clone();
    headers.insert("location", "/secrets/another".parse().unwrap());
    let forged = Reply { status: made.status, headers, body: String::new() };
    assert_eq!(open(&fixture, Role::Member, &forged).await.status, StatusCode::GONE, "another ticket");
    fixture.world.advance(Duration::from_mins(10) - Duration::from_secs(1));
    assert_eq!(open(&fixture, Role::Member, &made).await.status, StatusCode::OK);
    fixture.world.advance(Duration::from_secs(1));
    assert_eq!(open(&fixture, Role::Member, &made).await.status, StatusCode::GONE, "ten minutes have passed");
}

#[tokio::test]
async fn the_link_of_a_new_user_can_be_seen_again() {
    let fixture = fixture(Arc::new(FakeForges)).await;
    let made = fixture.send(Some(Role::Administrator), Method::POST, "/users", "name=bob&role=member").await;
    let page = open(&fixture, Role::Administrator, &made).await;
    assert!(page.body.contains("<code id=\"link\">http://localhost:8080/setup?link="), "{}", page.body);
    assert_eq!(open(&fixture, Role::Administrator, &made).await.body, page.body);
    assert!(fixture.store.user_by_name("bob".into()).await.unwrap().is_some());
}
