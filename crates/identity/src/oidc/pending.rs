//! What is kept while somebody is away at the provider.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use journeyman_core::time::{IdGen, Timestamp};
use subtle::ConstantTimeEq;

use super::OidcError;

/// How long somebody may be away.
pub const PENDING_LIFETIME: Duration = Duration::from_mins(10);

/// Of state, nonce and verifier each: 43 characters, as PKCE wants at least.
const RANDOM_BYTES: usize = 32;

const VERSION: &str = "1";

/// A sign-in that was begun and not finished. Keep it where only that browser brings it back: at the server under its
/// session, or in a cookie that is `HttpOnly`, `Secure` and `SameSite=Lax`.
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

    /// As a text of less than 200 characters that fits into a cookie as it is. It is a secret.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{VERSION}.{}.{}.{}.{}", self.expires_at.as_micros(), self.state, self.nonce, self.verifier)
    }

    /// Reads what [`Pending::encode`] gives.
    ///
    /// # Errors
    /// [`OidcError::WrongState`]: it is something else, as where no sign-in was begun.
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

    /// From when on it is refused.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Whether what came back with `state` belongs to it, in time.
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
}

fn is_random(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == RANDOM_BYTES)
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    struct Sevens;

    impl IdGen for Sevens {
        fn uuid(&self, _: Timestamp) -> Uuid {
            Uuid::nil()
        }

        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    #[test]
    fn it_is_read_back_from_its_text() {
        let pending = Pending::new(&Sevens, Timestamp::from_micros(1_800_000_000_000_001));
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
    fn it_is_good_for_its_state_and_ten_minutes() {
        let now = Timestamp::from_micros(0);
        let pending = Pending::new(&Sevens, now);
        let state = Some(pending.state());
        assert_eq!(pending.check(state, now), Ok(()));
        assert_eq!(pending.check(state, now + PENDING_LIFETIME), Err(OidcError::Expired));
        assert_eq!(pending.check(Some("another"), now), Err(OidcError::WrongState));
        assert_eq!(pending.check(None, now), Err(OidcError::WrongState));
    }
}
