//! The secrets with which webhooks are signed, in the form of Standard Webhooks: `whsec_` and the bytes in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::time::{IdGen, Timestamp};

/// The prefix of secrets.
const PREFIX: &str = "whsec_";

/// The number of random bytes of a new secret. Standard Webhooks allows 24 to 64.
const BYTES: usize = 32;

/// A secret with which webhooks are signed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

/// The error for a text that is not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret is \"whsec_\" and 24 to 64 bytes in base64")]
pub struct InvalidSecret;

impl WebhookSecret {
    /// Creates a random secret.
    #[must_use]
    pub fn random(ids: &dyn IdGen) -> Self {
        let mut bytes = [0; BYTES];
        ids.fill(&mut bytes);
        Self(bytes.to_vec())
    }

    /// Parses a secret.
    ///
    /// # Errors
    /// Returns an error if the text is not a secret.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidSecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| InvalidSecret)?;
        if (24..=64).contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(InvalidSecret) }
    }

    /// Returns the bytes, which are the key of the signature.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text that clients get.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// The secrets of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSecrets {
    /// The current secret.
    pub current: WebhookSecret,
    /// The secret before the last rotation, and the time at which it ends.
    pub old: Option<(WebhookSecret, Timestamp)>,
}

impl WebhookSecrets {
    /// Returns the secrets with which a request is signed now, the current one first.
    pub fn valid(&self, now: Timestamp) -> impl Iterator<Item = &WebhookSecret> {
        let old = self.old.as_ref().filter(|(_, until)| now < *until).map(|(secret, _)| secret);
        std::iter::once(&self.current).chain(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_the_form_of_standard_webhooks_and_is_not_printed() {
        let text = format!("whsec_{}", STANDARD.encode([7; 24]));
        let secret = WebhookSecret::parse(&text).unwrap();
        assert_eq!((secret.bytes(), secret.reveal()), ([7; 24].as_slice(), text.clone()));
        assert!(!format!("{secret:?}").contains(&text[6..]));
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for wrong in ["", "whsec_", "whsec_!", &text[6..], &short, &long] {
            assert_eq!(WebhookSecret::parse(wrong), Err(InvalidSecret), "{wrong:?}");
        }
    }

    #[test]
    fn the_old_secret_is_used_until_its_end() {
        let secret = |byte: u8| WebhookSecret(vec![byte; 24]);
        let at = Timestamp::from_micros;
        let secrets = WebhookSecrets { current: secret(1), old: Some((secret(2), at(10))) };
        assert_eq!(secrets.valid(at(9)).collect::<Vec<_>>(), [&secret(1), &secret(2)]);
        assert_eq!(secrets.valid(at(10)).collect::<Vec<_>>(), [&secret(1)]);
    }
}
