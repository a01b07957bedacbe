//! Tests of the cache for the discovery document and the keys.

use std::time::Duration;

use journeyman_testkit::oidc::Fault;

use super::fixtures::{Fixture, skip_silence};

const DOCUMENT: &str = "/.well-known/openid-configuration";

#[tokio::test]
async fn discovery_happens_at_the_first_sign_in_and_then_once_an_hour() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.requests(DOCUMENT), 0);
    for _ in 0..3 {
        assert!(fixture.sign_in().await.is_ok());
    }
    assert_eq!((fixture.requests(DOCUMENT), fixture.requests("/keys")), (1, 1));
    fixture.world.advance(Duration::from_hours(1));
    assert!(fixture.sign_in().await.is_ok());
    assert_eq!((fixture.requests(DOCUMENT), fixture.requests("/keys")), (2, 2));
}

#[tokio::test]
async fn new_keys_are_fetched_before_the_cache_expires() {
    let fixture = Fixture::new().await;
    assert!(fixture.sign_in().await.is_ok());
    fixture.provider.rotate_keys();
    for _ in 0..2 {
        assert!(fixture.sign_in().await.is_ok());
    }
    assert_eq!(fixture.requests("/keys"), 2);
    fixture.provider.sign_with_rsa();
    assert!(fixture.sign_in().await.is_ok());
    assert_eq!(fixture.requests("/keys"), 3);
}

#[tokio::test]
async fn a_sign_in_that_fetches_new_keys_uses_the_new_discovery_document() {
    let fixture = Fixture::new().await;
    fixture.provider.fault(Some(Fault::EmailElsewhere));
    assert!(fixture.sign_in().await.is_ok());
    fixture.provider.rotate_keys();
    fixture.provider.move_user_info();
    let signed_in = fixture.sign_in().await;
    assert!(signed_in.is_ok(), "{signed_in:?}");
    assert_eq!((fixture.requests("/userinfo"), fixture.requests("/people/me")), (1, 1));
}

#[tokio::test]
async fn failed_discovery_is_retried_after_some_seconds() {
    let cases = [
        (Fault::Failing, "provider_unreachable"),
        (Fault::Silence, "provider_unreachable"),
        (Fault::Large, "bad_answer"),
        (Fault::Redirect, "not_configured"),
        (Fault::OtherDocument, "not_configured"),
        (Fault::InsecureEndpoint, "not_configured"),
    ];
    for (fault, code) in cases {
        let fixture = Fixture::new().await;
        fixture.provider.fault(Some(fault));
        for _ in 0..2 {
            let error = skip_silence(&fixture.provider, fault, fixture.begin()).await.unwrap_err();
            assert_eq!(error.code(), code, "{fault:?}");
        }
        assert_eq!(fixture.requests(DOCUMENT), 1, "{fault:?}");
        fixture.provider.fault(None);
        fixture.world.advance(Duration::from_secs(5));
        assert!(fixture.sign_in().await.is_ok(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_stopped_provider_is_unreachable() {
    let Fixture { world, provider, oidc, redirect } = Fixture::new().await;
    drop(provider);
    let error = oidc.begin(&redirect, journeyman_core::time::Clock::now(&*world)).await.unwrap_err();
    assert_eq!(error.code(), "provider_unreachable", "{error:?}");
}
