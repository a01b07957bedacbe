//! What is known of the provider, and for how long.

use std::time::Duration;

use journeyman_testkit::oidc::Fault;

use super::given::Place;

const DOCUMENT: &str = "/.well-known/openid-configuration";

#[tokio::test]
async fn the_provider_is_asked_when_somebody_signs_in_and_once_an_hour() {
    let place = Place::new().await;
    assert_eq!(place.asked(DOCUMENT), 0);
    for _ in 0..3 {
        assert!(place.sign_in().await.is_ok());
    }
    assert_eq!((place.asked(DOCUMENT), place.asked("/keys")), (1, 1));
    place.world.pass(Duration::from_hours(1));
    assert!(place.sign_in().await.is_ok());
    assert_eq!((place.asked(DOCUMENT), place.asked("/keys")), (2, 2));
}

#[tokio::test]
async fn new_keys_are_found_within_the_hour() {
    let place = Place::new().await;
    assert!(place.sign_in().await.is_ok());
    place.provider.rotate_keys();
    for _ in 0..2 {
        assert!(place.sign_in().await.is_ok());
    }
    assert_eq!(place.asked("/keys"), 2);
    place.provider.sign_with_rsa();
    assert!(place.sign_in().await.is_ok());
    assert_eq!(place.asked("/keys"), 3);
}

#[tokio::test]
async fn a_provider_that_is_down_is_left_alone_for_some_seconds_and_then_asked_again() {
    let cases = [
        (Fault::Failing, "provider_unreachable"),
        (Fault::Silence, "provider_unreachable"),
        (Fault::Large, "bad_answer"),
        (Fault::Redirect, "not_configured"),
        (Fault::OtherDocument, "not_configured"),
        (Fault::InsecureEndpoint, "not_configured"),
    ];
    for (fault, code) in cases {
        let place = Place::new().await;
        place.provider.fault(Some(fault));
        for _ in 0..2 {
            assert_eq!(place.begin().await.unwrap_err().code(), code, "{fault:?}");
        }
        assert_eq!(place.asked(DOCUMENT), 1, "{fault:?}");
        place.provider.fault(None);
        place.world.pass(Duration::from_secs(5));
        assert!(place.sign_in().await.is_ok(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_provider_that_is_gone_cannot_be_reached() {
    let Place { world, provider, oidc, redirect } = Place::new().await;
    drop(provider);
    let error = oidc.begin(&redirect, journeyman_core::time::Clock::now(&*world)).await.unwrap_err();
    assert_eq!(error.code(), "provider_unreachable", "{error:?}");
}
