//! Providers that go wrong, or somebody who stands between.

use journeyman_testkit::oidc::{CLIENT_SECRET, Fault};

use super::given::{Place, visit};

#[tokio::test]
async fn each_fault_has_its_error_and_lets_nobody_in() {
    let cases = [
        (Fault::AccessDenied, "denied"),
        (Fault::OtherProvider, "bad_answer"),
        (Fault::NoProvider, "bad_answer"),
        (Fault::WrongNonce, "bad_answer"),
        (Fault::NoNonce, "bad_answer"),
        (Fault::WrongAudience, "bad_answer"),
        (Fault::SecondAudience, "bad_answer"),
        (Fault::WrongParty, "bad_answer"),
        (Fault::WrongIssuer, "bad_answer"),
        (Fault::ExpiredToken, "bad_answer"),
        (Fault::WrongSignature, "bad_answer"),
        (Fault::Unsigned, "bad_answer"),
        (Fault::SharedSecret, "bad_answer"),
        (Fault::NoToken, "bad_answer"),
        (Fault::OtherSubject, "bad_answer"),
        (Fault::UnknownClient, "not_configured"),
        (Fault::Failing, "provider_unreachable"),
        (Fault::Silence, "provider_unreachable"),
        (Fault::Redirect, "bad_answer"),
        (Fault::Large, "bad_answer"),
    ];
    let place = Place::new().await;
    for (fault, code) in cases {
        // What is known of the provider is from better times.
        place.provider.fault(None);
        let begun = place.begin().await.unwrap();
        place.provider.fault(Some(fault));
        let returned = visit(&begun.url).await;
        let shown = returned.code.clone().unwrap_or_else(|| "no code".to_owned());
        let error = place.finish(&begun, returned).await.unwrap_err();
        assert_eq!(error.code(), code, "{fault:?}: {error:?}");

        let told = format!("{error} {error:?}");
        let pending = begun.pending.encode();
        let secrets = pending.split('.').skip(2).chain([CLIENT_SECRET, shown.as_str(), "acc3ss"]);
        for secret in secrets {
            assert!(!told.contains(secret), "{fault:?} tells a secret: {told}");
        }
    }
    place.provider.fault(None);
    assert!(place.sign_in().await.is_ok());
}

#[tokio::test]
async fn what_the_provider_said_is_told_the_operator_alone() {
    let place = Place::new().await;
    place.provider.fault(Some(Fault::AccessDenied));
    let error = place.sign_in().await.unwrap_err();
    assert!(error.detail().unwrap().contains("The person said no."), "{error:?}");
    assert!(!error.to_string().contains("The person said no."));
}
