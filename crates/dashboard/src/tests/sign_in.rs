//! Tests of signing in and out, and of sessions.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::ports::{JobFilter, JobLists, KeyStore, ProjectStore, UserStore};
use journeyman_core::time::Clock;
use journeyman_core::user::{Role, SESSION_IDLE, SESSION_LIFETIME, SignInLink, TokenHash, User};
use journeyman_testkit::{Seeds as _, until_async};

use super::pulls::{Fake, detail};
use super::{Fixture, audit_entry, empty_fixture, fixture, project, token};

async fn with_users() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

const RIGHT: &str = "name=Member&password=a+long+password&next=/keys";

#[tokio::test]
async fn a_visitor_is_redirected_to_the_sign_in_page_and_back() {
    let fixture = with_users().await;
    let page = fixture.send(None, Method::GET, "/projects/shop/jobs?q=a", "").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    assert_eq!(page.header("location"), "/login?next=%2Fprojects%2Fshop%2Fjobs%3Fq%3Da");
    let form = fixture.send(None, Method::POST, "/projects", "id=x").await;
    assert_eq!((form.status, form.header("location")), (StatusCode::SEE_OTHER, "/login"));
    assert!(fixture.store.project("x".parse().unwrap()).await.unwrap().is_none());

    let page = fixture.send(None, Method::GET, "/login?next=/keys", "").await;
    assert!(page.body.contains("<input type=\"hidden\" name=\"next\" value=\"/keys\">"), "{}", page.body);
    let signed_in = fixture.send(None, Method::POST, "/login", RIGHT).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (StatusCode::SEE_OTHER, "/keys"));
    let cookie = signed_in.header("set-cookie");
    assert!(cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"), "{cookie}");
    let token = signed_in.token().to_owned();
    let page = fixture
        .send_with(Method::GET, "/keys", "", |request| {
            request.headers_mut().insert("cookie", format!("journeyman={token}").parse().unwrap());
        })
        .await;
    assert_eq!(page.status, StatusCode::OK);
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_get_the_same_answer() {
    let fixture = with_users().await;
    let disabled = fixture.store.user_by_name("viewer".into()).await.unwrap().unwrap();
    fixture.store.set_disabled(disabled.id, true, audit_entry()).await.unwrap();
    let mut answers = Vec::new();
    for form in ["name=member&password=wrong", "name=nobody&password=wrong", "name=viewer&password=a+long+password"] {
        let answer = fixture.send(None, Method::POST, "/login", form).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}");
        assert!(!answer.headers.contains_key("set-cookie"), "{form}");
        let name = form.split(['=', '&']).nth(1).unwrap();
        answers.push(answer.body.replace(&format!("value=\"{name}\""), ""));
    }
    assert!(answers[0].contains("The name or the password is wrong."), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    let entries = fixture.store.audit(None, 3).await.unwrap();
    assert!(entries.iter().all(|entry| entry.entry.action == "session.refused"), "each attempt writes: {entries:?}");
    assert_eq!(entries[1].entry.subject, "unknown", "the name may be a password");
}

#[tokio::test]
async fn attempts_are_throttled() {
    let fixture = with_users().await;
    for number in 0..10 {
        let answer = fixture.send(None, Method::POST, "/login", "name=member&password=wrong").await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{number}");
    }
    // Another attempt is allowed every ten seconds, which may have passed.
    let answer = until_async("attempts are refused", async || {
        let answer = fixture.send(None, Method::POST, "/login", RIGHT).await;
        (answer.status == StatusCode::TOO_MANY_REQUESTS).then_some(answer)
    })
    .await;
    assert!(answer.body.contains("Too many attempts. Try again in "), "{}", answer.body);
}

#[tokio::test]
async fn a_session_expires_and_ends_at_sign_out() {
    for (time, case) in [(SESSION_IDLE, "idle"), (SESSION_LIFETIME, "old")] {
        let fixture = with_users().await;
        let page = async || fixture.send(Some(Role::Member), Method::GET, "/account", "").await.status;
        if case == "old" {
            // The session is in use, so it does not expire because of inactivity.
            for _ in 0..5 {
                fixture.world.advance(Duration::from_hours(5 * 24));
                assert_eq!(page().await, StatusCode::OK);
            }
            fixture.world.advance(time - Duration::from_hours(25 * 24) - Duration::from_secs(1));
        } else {
            fixture.world.advance(time - Duration::from_secs(1));
        }
        let before = fixture.store.session(TokenHash::of(&token(Role::Member))).await.unwrap().unwrap();
        assert!(before.0.expires_at() > fixture.world.now(), "{case}");
        fixture.world.advance(Duration::from_secs(2));
        assert_eq!(page().await, StatusCode::SEE_OTHER, "{case}");
    }
    let fixture = with_users().await;
    let out = fixture.send(Some(Role::Member), Method::POST, "/logout", "").await;
    assert_eq!((out.status, out.header("location")), (StatusCode::SEE_OTHER, "/login"));
    assert!(out.header("set-cookie").starts_with("journeyman=; Path=/; Max-Age=0;"));
    assert_eq!(fixture.store.session(TokenHash::of(&token(Role::Member))).await.unwrap(), None);
}

#[tokio::test]
async fn forged_requests_are_refused() {
    let fixture = with_users().await;
    let before = fixture.audited().await;
    let cases =
        [None, Some(("origin", "null")), Some(("sec-fetch-site", "cross-site")), Some(("sec-fetch-site", "none"))];
    for header in cases {
        for path in ["/login", "/logout", "/setup", "/projects", "/users", "/projects/shop/jobs"] {
            let answer = fixture
                .send_with(Method::POST, path, RIGHT, |request| {
                    let headers = request.headers_mut();
                    headers.insert("cookie", format!("journeyman={}", token(Role::Administrator)).parse().unwrap());
                    if let Some((name, value)) = header {
                        headers.insert(name, value.parse().unwrap());
                    }
                })
                .await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path} {header:?}");
        }
    }
    assert_eq!(fixture.audited().await, before);
    assert!(fixture.store.jobs(JobFilter::newest(project().id, 100)).await.unwrap().is_empty());
    assert!(fixture.store.session(TokenHash::of(&token(Role::Administrator))).await.unwrap().is_some());
}

async fn link(fixture: &Fixture, user: Option<&User>) -> &'static str {
    let hash = TokenHash::of("the-link");
    let link =
        SignInLink { hash, user: user.map(|user| user.id), expires_at: fixture.world.now() + Duration::from_hours(1) };
    fixture.store.create_link(link, audit_entry()).await.unwrap();
    "/setup?link=the-link"
}

#[tokio::test]
async fn the_first_user_becomes_administrator_through_a_link() {
    let fixture = empty_fixture(Arc::new(Fake::with(detail(PullState::Open))));
    let login = fixture.send(None, Method::GET, "/login", "").await;
    assert!(login.body.contains("This server has no administrator yet."), "{}", login.body);
    let path = link(&fixture, None).await;
    let page = fixture.send(None, Method::GET, path, "").await;
    assert!(page.body.contains("Welcome to Journeyman"), "{}", page.body);
    for (form, text) in [
        ("link=the-link&name=Ada&password=short", "A password has 12 characters or more."),
        ("link=the-link&name=A+da&password=a+long+password", "A name has 1 to 100"),
    ] {
        let refused = fixture.send(None, Method::POST, "/setup", form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(refused.body.contains(text) && refused.body.contains("value=\"A"), "{}", refused.body);
    }
    let form = "link=the-link&name=Ada&password=a+long+password";
    let done = fixture.send(None, Method::POST, "/setup", form).await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/"));
    let ada = fixture.store.user_by_name("ada".into()).await.unwrap().unwrap();
    assert_eq!(ada.role, Role::Administrator);
    assert!(fixture.store.session(TokenHash::of(done.token())).await.unwrap().is_some());
    for again in [
        fixture.send(None, Method::GET, path, "").await,
        fixture.send(None, Method::POST, "/setup", form).await,
        fixture.send(None, Method::GET, "/setup", "").await,
    ] {
        assert_eq!(again.status, StatusCode::GONE);
    }
}

#[tokio::test]
async fn a_users_link_sets_their_password_and_ends_their_sessions() {
    let fixture = with_users().await;
    let member = fixture.store.user_by_name("member".into()).await.unwrap().unwrap();
    let path = link(&fixture, Some(&member)).await;
    let page = fixture.send(None, Method::GET, path, "").await;
    assert!(page.body.contains("Set your password") && page.body.contains("value=\"member\" "), "{}", page.body);
    // The name in the form has no effect.
    let form = "link=the-link&name=administrator&password=another+password";
    assert_eq!(fixture.send(None, Method::POST, "/setup", form).await.status, StatusCode::SEE_OTHER);
    assert_eq!(fixture.store.session(TokenHash::of(&token(Role::Member))).await.unwrap(), None);
    let sign_in = fixture.send(None, Method::POST, "/login", "name=member&password=another+password").await;
    assert_eq!(sign_in.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn changing_the_password_requires_the_current_one() {
    let fixture = with_users().await;
    let change = async |form: &str| fixture.send(Some(Role::Member), Method::POST, "/account/password", form).await;
    for (form, text) in [
        ("current=wrong&password=another+password", "The current password is wrong."),
        ("current=a+long+password&password=short", "A password has 12 characters or more."),
    ] {
        let refused = change(form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(refused.body.contains(text), "{}", refused.body);
    }
    let other = fixture.send(None, Method::POST, "/login", RIGHT).await.token().to_owned();
    let done = change("current=a+long+password&password=another+password").await;
    assert_eq!(done.header("location"), "/account?done=password");
    assert_eq!(fixture.store.session(TokenHash::of(&other)).await.unwrap(), None, "other sessions have ended");
    assert!(
        fixture.store.session(TokenHash::of(&token(Role::Member))).await.unwrap().is_some(),
        "this session continues"
    );
}
