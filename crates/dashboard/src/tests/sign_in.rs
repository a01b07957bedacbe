//! Signing in and out, and what a session is worth.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::ports::{KeyStore, UserStore};
use journeyman_core::pull::PullState;
use journeyman_core::time::Clock;
use journeyman_core::user::{Role, SESSION_IDLE, SESSION_LIFETIME, SignInLink, TokenHash, User};

use super::pulls::{Fake, detail};
use super::{House, empty_house, house, line, token};

async fn with_users() -> House {
    house(Arc::new(Fake::with(detail(PullState::Open)))).await
}

const RIGHT: &str = "name=Member&password=a+long+password&next=/keys";

#[tokio::test]
async fn whoever_has_not_signed_in_is_led_there_and_back() {
    let house = with_users().await;
    let page = house.send(None, Method::GET, "/projects/shop/jobs?q=a", "").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    assert_eq!(page.header("location"), "/login?next=%2Fprojects%2Fshop%2Fjobs%3Fq%3Da");
    let form = house.send(None, Method::POST, "/projects", "id=x").await;
    assert_eq!((form.status, form.header("location")), (StatusCode::SEE_OTHER, "/login"));
    assert!(house.calls().is_empty());

    let page = house.send(None, Method::GET, "/login?next=/keys", "").await;
    assert!(page.body.contains("<input type=\"hidden\" name=\"next\" value=\"/keys\">"), "{}", page.body);
    let signed_in = house.send(None, Method::POST, "/login", RIGHT).await;
    assert_eq!((signed_in.status, signed_in.header("location")), (StatusCode::SEE_OTHER, "/keys"));
    let cookie = signed_in.header("set-cookie");
    assert!(cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"), "{cookie}");
    let token = signed_in.token().to_owned();
    let page = house
        .ask(Method::GET, "/keys", "", |request| {
            request.headers_mut().insert("cookie", format!("journeyman={token}").parse().unwrap());
        })
        .await;
    assert_eq!(page.status, StatusCode::OK);
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_get_the_same_answer() {
    let house = with_users().await;
    let disabled = house.store.user_by_name("viewer".into()).await.unwrap().unwrap();
    house.store.set_disabled(disabled.id, true, line()).await.unwrap();
    let mut answers = Vec::new();
    for form in ["name=member&password=wrong", "name=nobody&password=wrong", "name=viewer&password=a+long+password"] {
        let answer = house.send(None, Method::POST, "/login", form).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}");
        assert!(!answer.headers.contains_key("set-cookie"), "{form}");
        let name = form.split(['=', '&']).nth(1).unwrap();
        answers.push(answer.body.replace(&format!("value=\"{name}\""), ""));
    }
    assert!(answers[0].contains("The name or the password is wrong."), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    let lines = house.store.audit(None, 3).await.unwrap();
    let refused = lines.iter().filter(|line| line.entry.action == "session.refused");
    assert_eq!(refused.count(), 2, "what was typed as a name and is none may be a password: {lines:?}");
}

#[tokio::test]
async fn attempts_are_throttled() {
    let house = with_users().await;
    for number in 0..10 {
        let answer = house.send(None, Method::POST, "/login", "name=member&password=wrong").await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{number}");
    }
    let answer = house.send(None, Method::POST, "/login", RIGHT).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.body.contains("Too many attempts. Try again in "), "{}", answer.body);
}

#[tokio::test]
async fn a_session_ends_by_itself_and_when_it_is_told_to() {
    for (time, why) in [(SESSION_IDLE, "idle"), (SESSION_LIFETIME, "old")] {
        let house = with_users().await;
        let page = async || house.send(Some(Role::Member), Method::GET, "/account", "").await.status;
        if why == "old" {
            // In use all the time.
            for _ in 0..5 {
                house.world.pass(Duration::from_hours(5 * 24));
                assert_eq!(page().await, StatusCode::OK);
            }
            house.world.pass(time - Duration::from_hours(25 * 24) - Duration::from_secs(1));
        } else {
            house.world.pass(time - Duration::from_secs(1));
        }
        let before = house.store.session(TokenHash::of(&token(Role::Member))).await.unwrap().unwrap();
        assert!(before.0.expires_at() > house.world.now(), "{why}");
        house.world.pass(Duration::from_secs(2));
        assert_eq!(page().await, StatusCode::SEE_OTHER, "{why}");
    }
    let house = with_users().await;
    let out = house.send(Some(Role::Member), Method::POST, "/logout", "").await;
    assert_eq!((out.status, out.header("location")), (StatusCode::SEE_OTHER, "/login"));
    assert!(out.header("set-cookie").starts_with("journeyman=; Path=/; Max-Age=0;"));
    assert_eq!(house.store.session(TokenHash::of(&token(Role::Member))).await.unwrap(), None);
}

#[tokio::test]
async fn a_request_that_may_be_forged_does_nothing() {
    let house = with_users().await;
    let cases =
        [None, Some(("origin", "null")), Some(("sec-fetch-site", "cross-site")), Some(("sec-fetch-site", "none"))];
    for sign in cases {
        for path in ["/login", "/logout", "/setup", "/projects", "/users", "/projects/shop/jobs"] {
            let answer = house
                .ask(Method::POST, path, RIGHT, |request| {
                    let headers = request.headers_mut();
                    headers.insert("cookie", format!("journeyman={}", token(Role::Administrator)).parse().unwrap());
                    if let Some((name, value)) = sign {
                        headers.insert(name, value.parse().unwrap());
                    }
                })
                .await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path} {sign:?}");
        }
    }
    assert!(house.calls().is_empty());
    assert!(house.store.session(TokenHash::of(&token(Role::Administrator))).await.unwrap().is_some());
}

async fn link(house: &House, user: Option<&User>) -> &'static str {
    let hash = TokenHash::of("the-link");
    let link =
        SignInLink { hash, user: user.map(|user| user.id), expires_at: house.world.now() + Duration::from_hours(1) };
    house.store.create_link(link, line()).await.unwrap();
    "/setup?link=the-link"
}

#[tokio::test]
async fn the_first_one_becomes_the_administrator_by_a_link() {
    let house = empty_house(Arc::new(Fake::with(detail(PullState::Open))));
    let login = house.send(None, Method::GET, "/login", "").await;
    assert!(login.body.contains("Nobody administers this server yet."), "{}", login.body);
    let path = link(&house, None).await;
    let page = house.send(None, Method::GET, path, "").await;
    assert!(page.body.contains("Welcome to Journeyman"), "{}", page.body);
    for (form, text) in [
        ("link=the-link&name=Ada&password=short", "A password has 12 characters or more."),
        ("link=the-link&name=A+da&password=a+long+password", "A name has 1 to 100"),
    ] {
        let refused = house.send(None, Method::POST, "/setup", form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(refused.body.contains(text) && refused.body.contains("value=\"A"), "{}", refused.body);
    }
    let form = "link=the-link&name=Ada&password=a+long+password";
    let done = house.send(None, Method::POST, "/setup", form).await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/projects"));
    let ada = house.store.user_by_name("ada".into()).await.unwrap().unwrap();
    assert_eq!(ada.role, Role::Administrator);
    assert!(house.store.session(TokenHash::of(done.token())).await.unwrap().is_some());
    for again in [
        house.send(None, Method::GET, path, "").await,
        house.send(None, Method::POST, "/setup", form).await,
        house.send(None, Method::GET, "/setup", "").await,
    ] {
        assert_eq!(again.status, StatusCode::GONE);
    }
}

#[tokio::test]
async fn a_link_of_somebody_sets_their_password_and_ends_their_sessions() {
    let house = with_users().await;
    let member = house.store.user_by_name("member".into()).await.unwrap().unwrap();
    let path = link(&house, Some(&member)).await;
    let page = house.send(None, Method::GET, path, "").await;
    assert!(page.body.contains("Set your password") && page.body.contains("value=\"member\" "), "{}", page.body);
    // Another name in the form changes nobody else.
    let form = "link=the-link&name=administrator&password=another+password";
    assert_eq!(house.send(None, Method::POST, "/setup", form).await.status, StatusCode::SEE_OTHER);
    assert_eq!(house.store.session(TokenHash::of(&token(Role::Member))).await.unwrap(), None);
    let sign_in = house.send(None, Method::POST, "/login", "name=member&password=another+password").await;
    assert_eq!(sign_in.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn one_changes_ones_own_password_with_the_one_before() {
    let house = with_users().await;
    let change = async |form: &str| house.send(Some(Role::Member), Method::POST, "/account/password", form).await;
    for (form, text) in [
        ("current=wrong&password=another+password", "The password that you have now is not that."),
        ("current=a+long+password&password=short", "A password has 12 characters or more."),
    ] {
        let refused = change(form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(refused.body.contains(text), "{}", refused.body);
    }
    let elsewhere = house.send(None, Method::POST, "/login", RIGHT).await.token().to_owned();
    let done = change("current=a+long+password&password=another+password").await;
    assert_eq!(done.header("location"), "/account?done=password");
    assert_eq!(house.store.session(TokenHash::of(&elsewhere)).await.unwrap(), None, "elsewhere it has ended");
    assert!(house.store.session(TokenHash::of(&token(Role::Member))).await.unwrap().is_some(), "here it goes on");
}
