//! Tests with faulty providers and with attackers between browser and provider.

use journeyman_testkit::oidc::{CLIENT_SECRET, Fault};

use super::fixtures::{Fixture, skip_silence, visit};

#[tokio::test]
async fn each_fault_fails_the_sign_in_with_its_error_code() {
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
    let fixture = Fixture::new().await;
    for (fault, code) in cases {
        // The discovery document is fetched before the fault begins.
        fixture.provider.fault(None);
        let begun = fixture.begin().await.unwrap();
        fixture.provider.fault(Some(fault));
        let returned = visit(&begun.url).await;
        let shown = returned.code.clone().unwrap_or_else(|| "no code".to_owned());
        let error = skip_silence(&fixture.provider, fault, fixture.finish(&begun, returned)).await.unwrap_err();
        assert_eq!(error.code(), code, "{fault:?}: {error:?}");

        let texts = format!("{error} {error:?}");
        let pending = begun.pending.encode();
        let secrets = pending.split('.').skip(2).chain([CLIENT_SECRET, shown.as_str(), "acc3ss"]);
        for secret in secrets {
            assert!(!texts.contains(secret), "{fault:?} leaks a secret: {texts}");
        }
    }
    fixture.provider.fault(None);
    assert!(fixture.sign_in().await.is_ok());
}

#[tokio::test]
async fn the_providers_error_description_is_only_in_the_detail() {
    let fixture = Fixture::new().await;
    fixture.provider.fault(Some(Fault::AccessDenied));
    let error = fixture.sign_in().await.unwrap_err();
    assert!(error.detail().unwrap().contains("The person said no."), "{error:?}");
    assert!(!error.to_string().contains("The person said no."));
}
