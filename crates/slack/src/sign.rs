//! The signatures of requests: HMAC-SHA256 of the version, the time and the body, in constant time
//! (<https://docs.slack.dev/authentication/verifying-requests-from-slack/>).

use hmac::{Hmac, KeyInit, Mac};
use journeyman_core::ports::SignedRequest;
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::SIGNATURE_WINDOW;
use journeyman_core::time::Timestamp;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Returns whether a request with these headers can be signed: it was sent at about this time, and the signature has the
/// form of one.
pub(crate) fn may_be_signed(timestamp: &str, signature: &str, now: Timestamp) -> bool {
    let digits = signature.strip_prefix("v0=").unwrap_or_default();
    is_recent(timestamp, now) && digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_recent(timestamp: &str, now: Timestamp) -> bool {
    let now = now.as_micros() / 1_000_000;
    timestamp.parse::<i64>().is_ok_and(|seconds| now.abs_diff(seconds) <= SIGNATURE_WINDOW.as_secs())
}

/// Returns whether a request is signed with the secret and was sent at about this time.
pub(crate) fn is_signed(secret: &SecretValue, request: &SignedRequest, now: Timestamp) -> bool {
    if !is_recent(&request.timestamp, now) {
        return false;
    }
    let Some(expected) = signature(secret, &request.timestamp, &request.body) else { return false };
    expected.as_bytes().ct_eq(request.signature.as_bytes()).into()
}

/// Returns the signature of a body.
fn signature(secret: &SecretValue, timestamp: &str, body: &[u8]) -> Option<String> {
    // HMAC takes keys of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes()).ok()?;
    mac.update(format!("v0:{timestamp}:").as_bytes());
    mac.update(body);
    let digits: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("v0={digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: i64 = 1_531_420_618;

    /// The example of Slack's documentation.
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&\
                        channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&\
                        response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F\
                        96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

    fn request(timestamp: &str, signature: &str, body: &str) -> SignedRequest {
        let (timestamp, signature) = (timestamp.to_owned(), signature.to_owned());
        SignedRequest { timestamp, signature, body: body.as_bytes().to_vec() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_request_is_accepted_only_with_the_right_secret_time_and_body() {
        let secret = SecretValue("8f742231b10e8888abcd99yyyzzz85a5".to_owned());
        let other = SecretValue("8f742231b10e8888abcd99yyyzzz85a6".to_owned());
        let time = TIME.to_string();
        assert!(is_signed(&secret, &request(&time, SIGNATURE, BODY), at(TIME)));
        assert!(is_signed(&secret, &request(&time, SIGNATURE, BODY), at(TIME + 300)));
        assert!(may_be_signed(&time, SIGNATURE, at(TIME + 300)) && !may_be_signed(&time, SIGNATURE, at(TIME + 301)));
        for (time, signature) in
            [("", SIGNATURE), ("x", SIGNATURE), (&*time, ""), (&*time, "v0=00"), (&*time, &BODY[..67])]
        {
            assert!(!may_be_signed(time, signature, at(TIME)), "{time} {signature}");
        }
        for (key, request, now) in [
            (&other, request(&time, SIGNATURE, BODY), TIME),
            (&secret, request(&time, SIGNATURE, &format!("{BODY} ")), TIME),
            (&secret, request(&time, &SIGNATURE.replace("v0", "v1"), BODY), TIME),
            (&secret, request(&time, "", BODY), TIME),
            (&secret, request("", SIGNATURE, BODY), TIME),
            (&secret, request(&(TIME + 1).to_string(), SIGNATURE, BODY), TIME),
            (&secret, request(&time, SIGNATURE, BODY), TIME + 301),
            (&secret, request(&time, SIGNATURE, BODY), TIME - 301),
        ] {
            assert!(!is_signed(key, &request, at(now)), "{request:?} {now}");
        }
    }
}
