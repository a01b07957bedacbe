//! Sign-ins that go well, or fail by what the person or the browser does.

use std::collections::HashMap;
use std::time::Duration;

use journeyman_core::project::SecretValue;
use journeyman_core::time::Clock;
use journeyman_identity::oidc::{Begun, PENDING_LIFETIME, Pending, Person};
use journeyman_testkit::oidc::{self, Fault};

use super::given::{Place, visit};

fn ada(place: &Place) -> Person {
    Person {
        issuer: place.provider.issuer.as_str().trim_end_matches('/').to_owned(),
        subject: "248289761001".to_owned(),
        email: Some("ada@example.com".to_owned()),
        email_verified: true,
        name: Some("Ada Lovelace".to_owned()),
    }
}

#[tokio::test]
async fn a_person_signs_in() {
    let place = Place::new().await;
    let begun = place.begin().await.unwrap();
    let asked: HashMap<String, String> = begun.url.query_pairs().into_owned().collect();
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", oidc::CLIENT_ID),
        ("scope", "openid email profile"),
        ("code_challenge_method", "S256"),
        ("redirect_uri", place.redirect.as_str()),
    ] {
        assert_eq!(asked.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(asked[name].len(), 43, "{name}");
    }
    assert_eq!(begun.pending.expires_at(), place.world.now() + PENDING_LIFETIME);

    let returned = visit(&begun.url).await;
    // By way of a cookie.
    let pending = Pending::decode(&begun.pending.encode()).unwrap();
    let person = place.finish(&Begun { url: begun.url, pending }, returned).await;
    assert_eq!(person, Ok(ada(&place)));
}

#[tokio::test]
async fn no_two_sign_ins_share_a_secret() {
    let place = Place::new().await;
    let (one, other) = (place.begin().await.unwrap(), place.begin().await.unwrap());
    let secrets = |begun: &Begun| begun.pending.encode().split('.').skip(2).map(str::to_owned).collect::<Vec<_>>();
    let mut all = [secrets(&one), secrets(&other)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[tokio::test]
async fn a_provider_that_takes_the_secret_in_the_body_gets_it_there() {
    let place = Place::new().await;
    place.provider.take_secret_in_body();
    assert_eq!(place.sign_in().await, Ok(ada(&place)));
}

#[tokio::test]
async fn an_email_that_is_not_in_the_token_is_asked_for() {
    let place = Place::new().await;
    assert_eq!(place.sign_in().await, Ok(ada(&place)));
    assert_eq!(place.asked("/userinfo"), 0);
    place.provider.fault(Some(Fault::EmailElsewhere));
    assert_eq!(place.sign_in().await, Ok(ada(&place)));
    assert_eq!(place.asked("/userinfo"), 1);
}

#[tokio::test]
async fn only_people_of_the_domain_whose_address_is_verified_are_let_in() {
    let place = Place::new().await;
    let cases = [
        ("ada@example.com", false, "not_verified"),
        ("ada", true, "not_verified"),
        ("", true, "not_verified"),
        ("eve@evil.test", true, "domain_not_allowed"),
        ("eve@sub.example.com", true, "domain_not_allowed"),
        ("eve@example.com.evil.test", true, "domain_not_allowed"),
    ];
    for (email, email_verified, code) in cases {
        place.provider.person(oidc::Person { email: email.to_owned(), email_verified, ..oidc::Person::ada() });
        assert_eq!(place.sign_in().await.unwrap_err().code(), code, "{email}");
    }
}

#[tokio::test]
async fn everybody_is_let_in_where_the_operator_says_so() {
    let place = Place::with(|settings| settings.allowed_domains = vec!["*".to_owned()]).await;
    place.provider.person(oidc::Person { email_verified: false, ..oidc::Person::ada() });
    assert_eq!(place.sign_in().await, Ok(Person { email_verified: false, ..ada(&place) }));
}

#[tokio::test]
async fn what_comes_back_belongs_to_what_was_begun() {
    let place = Place::new().await;
    let (mine, other) = (place.begin().await.unwrap(), place.begin().await.unwrap());
    let returned = visit(&other.url).await;
    assert_eq!(place.finish(&mine, returned.clone()).await.unwrap_err().code(), "wrong_state");

    let mut without = returned.clone();
    without.state = None;
    assert_eq!(place.finish(&other, without).await.unwrap_err().code(), "wrong_state");
    let mut without = returned.clone();
    without.code = None;
    assert_eq!(place.finish(&other, without).await.unwrap_err().code(), "bad_answer");

    // Nothing of that was shown to the provider.
    assert_eq!(place.asked("/token"), 0);
    assert!(place.finish(&other, returned.clone()).await.is_ok());
    // The provider takes a code once.
    assert_eq!(place.finish(&other, returned).await.unwrap_err().code(), "bad_answer");
}

#[tokio::test]
async fn a_code_is_worth_nothing_without_its_verifier() {
    let place = Place::new().await;
    let (mine, other) = (place.begin().await.unwrap(), place.begin().await.unwrap());
    let returned = visit(&mine.url).await;
    let (text, stranger) = (mine.pending.encode(), other.pending.encode());
    let (head, _) = text.rsplit_once('.').unwrap();
    let (_, verifier) = stranger.rsplit_once('.').unwrap();
    let mixed = Begun { url: mine.url.clone(), pending: Pending::decode(&format!("{head}.{verifier}")).unwrap() };
    assert_eq!(place.finish(&mixed, returned).await.unwrap_err().code(), "bad_answer");
}

#[tokio::test]
async fn a_sign_in_is_over_after_ten_minutes() {
    let place = Place::new().await;
    let begun = place.begin().await.unwrap();
    let returned = visit(&begun.url).await;
    place.world.pass(PENDING_LIFETIME - Duration::from_secs(1));
    let late = place.begin().await.unwrap();
    assert!(place.finish(&begun, returned).await.is_ok());

    let returned = visit(&late.url).await;
    place.world.pass(PENDING_LIFETIME);
    assert_eq!(place.finish(&late, returned).await.unwrap_err().code(), "expired");
}

#[tokio::test]
async fn a_wrong_secret_is_the_operators_to_put_right() {
    let place = Place::with(|settings| settings.client_secret = Some(SecretValue("another".to_owned()))).await;
    let error = place.sign_in().await.unwrap_err();
    assert_eq!(error.code(), "not_configured");
    assert!(error.detail().unwrap().contains("oidc.client_secret"), "{error:?}");
}

#[tokio::test]
async fn a_sign_in_may_move_from_thread_to_thread() {
    let place = Place::new().await;
    let signing_in = tokio::spawn(async move { place.sign_in().await });
    assert!(signing_in.await.unwrap().is_ok());
}
