//! The state of a sign-in while the browser is at the provider.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use journeyman_core::time::{IdGen, Timestamp};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::OidcError;

/// The maximum time from the beginning of a sign-in to its end.
pub const PENDING_LIFETIME: Duration = Duration::from_mins(10);

/// The size of the state, the nonce and the verifier. In base64 it makes 43 characters, the minimum for PKCE.
const RANDOM_BYTES: usize = 32;

const VERSION: &str = "1";

/// A sign-in that has begun and not finished. Keep it where only the same browser can bring it back: on the server in
/// the browser's session, or in a cookie that is `HttpOnly`, `Secure` and `SameSite=Lax`.
#[derive(Clone, PartialEq, Eq)]
pub struct Pending {
    state: String,
    nonce: String,
    verifier: String,
    expires_at: Timestamp,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl Pending {
    pub(super) fn new(ids: &dyn IdGen, now: Timestamp) -> Self {
        let random = || {
            let mut bytes = [0; RANDOM_BYTES];
            ids.fill(&mut bytes);
            URL_SAFE_NO_PAD.encode(bytes)
        };
        Self { state: random(), nonce: random(), verifier: random(), expires_at: now + PENDING_LIFETIME }
    }

    /// Encodes the sign-in as a text of less than 200 characters that is valid as a cookie value. The text is a secret.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{VERSION}.{}.{}.{}.{}", self.expires_at.as_micros(), self.state, self.nonce, self.verifier)
    }

    /// Decodes a text from [`Pending::encode`].
    ///
    /// # Errors
    /// Returns [`OidcError::WrongState`] for any other text, including the empty text of a missing cookie.
    pub fn decode(text: &str) -> Result<Self, OidcError> {
        let parts: Vec<&str> = text.split('.').collect();
        let [VERSION, expires_at, state, nonce, verifier] = parts[..] else {
            return Err(OidcError::WrongState);
        };
        let expires_at = expires_at.parse::<i64>().map_err(|_| OidcError::WrongState)?;
        if [state, nonce, verifier].into_iter().any(|part| !is_random(part)) {
            return Err(OidcError::WrongState);
        }
        Ok(Self {
            state: state.to_owned(),
            nonce: nonce.to_owned(),
            verifier: verifier.to_owned(),
            expires_at: Timestamp::from_micros(expires_at),
        })
    }

    /// Returns the time from which on the sign-in is refused.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Checks that a response with this `state` belongs to the sign-in and comes in time.
    pub(super) fn check(&self, state: Option<&str>, now: Timestamp) -> Result<(), OidcError> {
        let state = state.ok_or(OidcError::WrongState)?;
        if !bool::from(self.state.as_bytes().ct_eq(state.as_bytes())) {
            return Err(OidcError::WrongState);
        }
        if now >= self.expires_at {
            return Err(OidcError::Expired);
        }
        Ok(())
    }

    pub(super) fn state(&self) -> &str {
        &self.state
    }

    pub(super) fn nonce(&self) -> &str {
        &self.nonce
    }

    pub(super) fn verifier(&self) -> &str {
        &self.verifier
    }

    /// Returns the challenge of the verifier with the method S256 (RFC 7636, 4.2).
    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }
}

fn is_random(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == RANDOM_BYTES)
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use journeyman_testkit::World;

    use super::*;

    #[test]
    fn decode_accepts_only_encoded_sign_ins() {
        let pending = Pending::new(&*World::new(), Timestamp::from_micros(1_800_000_000_000_001));
        let text = pending.encode();
        assert!(text.len() < 200 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{text}");
        assert_eq!(Pending::decode(&text), Ok(pending.clone()));
        assert!(!format!("{pending:?}").contains(pending.state()));
        for other in
            ["", "1.2.3.4.5", "1.1..", &text.replacen('1', "2", 1), &text[..text.len() - 1], &format!("{text}.x")]
        {
            assert_eq!(Pending::decode(other), Err(OidcError::WrongState), "{other}");
        }
    }

    #[test]
    fn a_sign_in_is_valid_for_its_state_and_ten_minutes() {
        let now = Timestamp::from_micros(0);
        let pending = Pending::new(&*World::new(), now);
        let state = Some(pending.state());
        assert_eq!(pending.check(state, now), Ok(()));
        assert_eq!(pending.check(state, now + PENDING_LIFETIME), Err(OidcError::Expired));
        assert_eq!(pending.check(Some("another"), now), Err(OidcError::WrongState));
        assert_eq!(pending.check(None, now), Err(OidcError::WrongState));
    }
}
