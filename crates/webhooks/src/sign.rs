//! Signatures of Standard Webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use journeyman_core::webhook::WebhookSecret;
use sha2::Sha256;

/// Returns the value of the header `webhook-signature`: one signature for each secret.
pub(crate) fn signatures<'a>(
    secrets: impl Iterator<Item = &'a WebhookSecret>,
    id: &str,
    seconds: i64,
    body: &[u8],
) -> String {
    let signatures: Vec<String> = secrets.map(|secret| signature(secret, id, seconds, body)).collect();
    signatures.join(" ")
}

fn signature(secret: &WebhookSecret, id: &str, seconds: i64, body: &[u8]) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.bytes()) else { return String::new() };
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signatures(
            [&secret].into_iter(),
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let two = signatures([&secret, &secret].into_iter(), "a", 1, b"");
        assert_eq!(two.split(' ').count(), 2);
    }
}
