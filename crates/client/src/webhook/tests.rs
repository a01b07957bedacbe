use serde_json::json;

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const AT: u64 = 1_614_265_330;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn body() -> Vec<u8> {
    let job = json!({
        "id": "job_1", "status": "completed", "source": {"repository": "r", "ref": "main"}, "model": "m",
        "prLink": null, "createdAt": "2026-11-22T09:00:00.000Z", "archivedAt": null,
    });
    let data = json!({"job": job, "projectId": "shop", "title": "t", "messageId": null, "runId": null});
    json!({"type": "job.completed", "timestamp": "2026-11-22T09:00:00.000Z", "data": data}).to_string().into_bytes()
}

fn sign(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key(secret).expect("a key")).expect("a key");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn verify(
    verifier: &Verifier,
    body: &[u8],
    headers: &[(&str, &str)],
    now: u64,
) -> Result<ProjectEvent, VerificationError> {
    let header = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    verifier.verify(body, header, at(now))
}

#[test]
fn the_example_of_the_specification_is_signed_but_is_no_event() {
    let headers = [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let verifier = Verifier::new(SECRET).expect("a verifier");
    let found = verify(&verifier, br#"{"test": 2432232314}"#, &headers, AT);
    assert_eq!(found, Err(VerificationError::InvalidBody));
    let found = verify(&verifier, br#"{"test": 2432232315}"#, &headers, AT);
    assert_eq!(found, Err(VerificationError::WrongSignature));
}

#[test]
fn one_of_several_signatures_and_secrets_is_enough() {
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let timestamp = AT.to_string();
    let right = sign(SECRET, "4711", &timestamp, &body());
    let both = format!("v1a,abc v1,!! {} {right}", sign(other, "4711", &timestamp, b"else"));
    let headers =
        [("webhook-id", "4711"), ("webhook-timestamp", timestamp.as_str()), ("webhook-signature", both.as_str())];
    let verifier = Verifier::new(other).and_then(|verifier| verifier.or(SECRET)).expect("a verifier");
    let event = verify(&verifier, &body(), &headers, AT).expect("an event");
    assert_eq!((event.id.as_str(), event.data.job.id.as_str()), ("4711", "job_1"));
    let verifier = Verifier::new(other).expect("a verifier");
    assert_eq!(verify(&verifier, &body(), &headers, AT), Err(VerificationError::WrongSignature));
}

#[test]
fn a_request_that_is_too_old_or_too_new_is_not_accepted() {
    let timestamp = AT.to_string();
    let signature = sign(SECRET, "4711", &timestamp, &body());
    let headers =
        [("webhook-id", "4711"), ("webhook-timestamp", timestamp.as_str()), ("webhook-signature", signature.as_str())];
    let verifier = Verifier::new(SECRET).expect("a verifier");
    for (now, is_accepted) in [(AT, true), (AT + 300, true), (AT - 300, true), (AT + 301, false), (AT - 301, false)] {
        assert_eq!(verify(&verifier, &body(), &headers, now).is_ok(), is_accepted, "{now}");
    }
    let patient = verifier.tolerance(Duration::from_secs(3600));
    assert!(verify(&patient, &body(), &headers, AT + 3600).is_ok());
}

#[test]
fn a_missing_or_malformed_header_is_named() {
    let verifier = Verifier::new(SECRET).expect("a verifier");
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let all = [("webhook-id", "1"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,x")];
        let headers: Vec<_> = all.into_iter().filter(|(own, _)| *own != name).collect();
        assert_eq!(verify(&verifier, b"", &headers, AT), Err(VerificationError::MissingHeader(name)));
    }
    for timestamp in ["", "-1", "+1", "1.5", "99999999999999999999"] {
        let headers = [("webhook-id", "1"), ("webhook-timestamp", timestamp), ("webhook-signature", "v1,x")];
        assert_eq!(verify(&verifier, b"", &headers, AT), Err(VerificationError::InvalidTimestamp), "{timestamp}");
    }
}

#[test]
fn an_invalid_secret_is_refused_without_being_shown() {
    for secret in ["", "whsec_", "whsec_not base64"] {
        assert_eq!(Verifier::new(secret).err(), Some(VerificationError::InvalidSecret), "{secret}");
    }
    let verifier = Verifier::new(SECRET).expect("a verifier");
    assert!(!format!("{verifier:?}").contains("keys"));
}
