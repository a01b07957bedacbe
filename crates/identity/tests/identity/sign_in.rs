//! Tests of sign-ins that succeed, or that fail because of the person or the browser.

use std::collections::HashMap;
use std::time::Duration;

use journeyman_core::secret::SecretValue;
use journeyman_core::time::{Clock, Timestamp};
use journeyman_identity::oidc::{Begun, PENDING_LIFETIME, Pending, ProviderUser};
use journeyman_testkit::oidc::{self, Fault};

use super::fixtures::{Fixture, visit};

fn ada(fixture: &Fixture) -> ProviderUser {
    ProviderUser {
        issuer: fixture.provider.issuer.as_str().trim_end_matches('/').to_owned(),
        subject: "248289761001".to_owned(),
        email: Some("ada@example.com".to_owned()),
        email_verified: true,
        name: Some("Ada Lovelace".to_owned()),
        authenticated_at: None,
    }
}

#[tokio::test]
async fn a_person_signs_in() {
    let fixture = Fixture::new().await;
    let begun = fixture.begin().await.unwrap();
    let asked: HashMap<String, String> = begun.url.query_pairs().into_owned().collect();
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", oidc::CLIENT_ID),
        ("scope", "openid email profile"),
        ("code_challenge_method", "S256"),
        ("redirect_uri", fixture.redirect.as_str()),
    ] {
        assert_eq!(asked.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(asked[name].len(), 43, "{name}");
    }
    assert_eq!(begun.pending.expires_at(), fixture.world.now() + PENDING_LIFETIME);

    let returned = visit(&begun.url).await;
    // Encoded and decoded, as for a cookie.
    let pending = Pending::decode(&begun.pending.encode()).unwrap();
    let person = fixture.finish(&Begun { url: begun.url, pending }, returned).await;
    assert_eq!(person, Ok(ada(&fixture)));
}

#[tokio::test]
async fn a_person_who_must_sign_in_again_gets_the_time_at_which_the_provider_asked() {
    let fixture = Fixture::new().await;
    // Times of tokens have whole seconds.
    let now = Timestamp::from_micros(fixture.world.now().as_micros() / 1_000_000 * 1_000_000);
    for (fault, at) in [
        (None, Some(now)),
        (Some(Fault::OldAuthentication), Some(Timestamp::from_micros(now.as_micros() - 3_600_000_000))),
        (Some(Fault::NoAuthenticationTime), None),
    ] {
        fixture.provider.fault(fault);
        let begun = fixture.oidc.begin_again(&fixture.redirect, fixture.world.now()).await.unwrap();
        let asked: HashMap<String, String> = begun.url.query_pairs().into_owned().collect();
        assert_eq!((asked["prompt"].as_str(), asked["max_age"].as_str()), ("login", "0"));
        let returned = visit(&begun.url).await;
        assert_eq!(fixture.finish(&begun, returned).await.unwrap().authenticated_at, at, "{fault:?}");
    }
}

#[tokio::test]
async fn no_two_sign_ins_share_a_secret() {
    let fixture = Fixture::new().await;
    let (one, other) = (fixture.begin().await.unwrap(), fixture.begin().await.unwrap());
    let secrets = |begun: &Begun| begun.pending.encode().split('.').skip(2).map(str::to_owned).collect::<Vec<_>>();
    let mut all = [secrets(&one), secrets(&other)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[tokio::test]
async fn the_client_secret_is_sent_in_the_body_if_the_provider_requires_it() {
    let fixture = Fixture::new().await;
    fixture.provider.take_secret_in_body();
    assert_eq!(fixture.sign_in().await, Ok(ada(&fixture)));
}

#[tokio::test]
async fn a_missing_email_is_fetched_from_the_user_info_endpoint() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.sign_in().await, Ok(ada(&fixture)));
    assert_eq!(fixture.requests("/userinfo"), 0);
    fixture.provider.fault(Some(Fault::EmailElsewhere));
    assert_eq!(fixture.sign_in().await, Ok(ada(&fixture)));
    assert_eq!(fixture.requests("/userinfo"), 1);
}

#[tokio::test]
async fn only_verified_addresses_of_allowed_domains_may_sign_in() {
    let fixture = Fixture::new().await;
    let cases = [
        ("ada@example.com", false, "not_verified"),
        ("ada", true, "not_verified"),
        ("", true, "not_verified"),
        ("eve@evil.test", true, "domain_not_allowed"),
        ("eve@sub.example.com", true, "domain_not_allowed"),
        ("eve@example.com.evil.test", true, "domain_not_allowed"),
    ];
    for (email, email_verified, code) in cases {
        fixture.provider.person(oidc::ProviderAccount {
            email: email.to_owned(),
            email_verified,
            ..oidc::ProviderAccount::ada()
        });
        assert_eq!(fixture.sign_in().await.unwrap_err().code(), code, "{email}");
    }
}

#[tokio::test]
async fn everybody_may_sign_in_if_all_domains_are_allowed() {
    let fixture = Fixture::with(|settings| settings.allowed_domains = vec!["*".to_owned()]).await;
    fixture.provider.person(oidc::ProviderAccount { email_verified: false, ..oidc::ProviderAccount::ada() });
    assert_eq!(fixture.sign_in().await, Ok(ProviderUser { email_verified: false, ..ada(&fixture) }));
}

#[tokio::test]
async fn a_response_must_belong_to_the_sign_in_that_began() {
    let fixture = Fixture::new().await;
    let (mine, other) = (fixture.begin().await.unwrap(), fixture.begin().await.unwrap());
    let returned = visit(&other.url).await;
    assert_eq!(fixture.finish(&mine, returned.clone()).await.unwrap_err().code(), "wrong_state");

    let mut without = returned.clone();
    without.state = None;
    assert_eq!(fixture.finish(&other, without).await.unwrap_err().code(), "wrong_state");
    let mut without = returned.clone();
    without.code = None;
    assert_eq!(fixture.finish(&other, without).await.unwrap_err().code(), "bad_answer");

    // None of those codes was sent to the provider.
    assert_eq!(fixture.requests("/token"), 0);
    assert!(fixture.finish(&other, returned.clone()).await.is_ok());
    // The provider accepts a code once.
    assert_eq!(fixture.finish(&other, returned).await.unwrap_err().code(), "bad_answer");
}

#[tokio::test]
async fn a_code_is_refused_without_its_verifier() {
    let fixture = Fixture::new().await;
    let (mine, other) = (fixture.begin().await.unwrap(), fixture.begin().await.unwrap());
    let returned = visit(&mine.url).await;
    let (text, stranger) = (mine.pending.encode(), other.pending.encode());
    let (head, _) = text.rsplit_once('.').unwrap();
    let (_, verifier) = stranger.rsplit_once('.').unwrap();
    let mixed = Begun { url: mine.url.clone(), pending: Pending::decode(&format!("{head}.{verifier}")).unwrap() };
    assert_eq!(fixture.finish(&mixed, returned).await.unwrap_err().code(), "bad_answer");
}

#[tokio::test]
async fn a_sign_in_expires_after_ten_minutes() {
    let fixture = Fixture::new().await;
    let begun = fixture.begin().await.unwrap();
    let returned = visit(&begun.url).await;
    fixture.world.advance(PENDING_LIFETIME - Duration::from_secs(1));
    let late = fixture.begin().await.unwrap();
    assert!(fixture.finish(&begun, returned).await.is_ok());

    let returned = visit(&late.url).await;
    fixture.world.advance(PENDING_LIFETIME);
    assert_eq!(fixture.finish(&late, returned).await.unwrap_err().code(), "expired");
}

#[tokio::test]
async fn a_wrong_client_secret_is_reported_as_a_configuration_error() {
    let fixture = Fixture::with(|settings| settings.client_secret = Some(SecretValue("another".to_owned()))).await;
    let error = fixture.sign_in().await.unwrap_err();
    assert_eq!(error.code(), "not_configured");
    assert!(error.detail().unwrap().contains("oidc-secret-file"), "{error:?}");
}

#[tokio::test]
async fn a_sign_in_can_move_between_threads() {
    let fixture = Fixture::new().await;
    let signing_in = tokio::spawn(async move { fixture.sign_in().await });
    assert!(signing_in.await.unwrap().is_ok());
}
