//! Verification of the requests that webhooks send, as Standard Webhooks specifies.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::models::{ProjectEvent, WebhookBody};

/// The maximum difference between the time of a request and the clock of this machine, unless another is set.
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// A reason why a request is not accepted. No text contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerificationError {
    /// The secret is not one of a webhook.
    #[error("the secret of a webhook must be whsec_ and base64")]
    InvalidSecret,
    /// A header is missing.
    #[error("the header {0} is missing")]
    MissingHeader(&'static str),
    /// The header `webhook-timestamp` is not a number.
    #[error("the header webhook-timestamp is not a number")]
    InvalidTimestamp,
    /// The request is too old or too new.
    #[error("the request is too old, or a clock is wrong")]
    OutsideTolerance,
    /// No signature matches.
    #[error("the signature does not match")]
    WrongSignature,
    /// The body is signed, but is not an event.
    #[error("the body is not an event")]
    InvalidBody,
}

/// Verifies requests of webhooks.
///
/// ```
/// # fn receive(
/// #     body: &[u8],
/// #     headers: &std::collections::HashMap<String, String>,
/// #     secret: &str,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use journeyman_client::webhook::Verifier;
///
/// // The names of the headers are in lower case.
/// let header = |name: &str| headers.get(name).map(String::as_str);
/// let event = Verifier::new(secret)?.verify(body, header, std::time::SystemTime::now())?;
/// println!("{} {}", event.kind, event.data.job.id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Verifier {
    keys: Vec<Vec<u8>>,
    tolerance: Duration,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("tolerance", &self.tolerance).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Returns a verifier for the secret of a webhook (`whsec_…`).
    ///
    /// # Errors
    /// Returns [`VerificationError::InvalidSecret`] if the secret is not one of a webhook.
    pub fn new(secret: &str) -> Result<Self, VerificationError> {
        Ok(Self { keys: vec![key(secret)?], tolerance: TOLERANCE })
    }

    /// Accepts another secret too, such as the old one during a rotation.
    ///
    /// # Errors
    /// Returns [`VerificationError::InvalidSecret`] if the secret is not one of a webhook.
    pub fn or(mut self, secret: &str) -> Result<Self, VerificationError> {
        self.keys.push(key(secret)?);
        Ok(self)
    }

    /// Sets the maximum difference between the time of a request and the clock of this machine; by default, 5 minutes.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Verifies a request, and returns its event. An event can come more than once, always with the same ID.
    ///
    /// `body` is the body exactly as it was received, and `header` returns the value of a header by its name in lower
    /// case.
    ///
    /// # Errors
    /// The request is not signed with one of the secrets, is too old, or is not an event.
    pub fn verify<'a>(
        &self,
        body: &[u8],
        header: impl Fn(&str) -> Option<&'a str>,
        now: SystemTime,
    ) -> Result<ProjectEvent, VerificationError> {
        let required = |name: &'static str| header(name).ok_or(VerificationError::MissingHeader(name));
        let id = required("webhook-id")?;
        let timestamp = required("webhook-timestamp")?;
        let signatures = required("webhook-signature")?;
        self.check_age(timestamp, now)?;
        let given: Vec<Vec<u8>> = signatures.split_whitespace().filter_map(signature).collect();
        let is_signed = self.keys.iter().any(|key| {
            // HMAC takes keys of any length.
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
            mac.update(format!("{id}.{timestamp}.").as_bytes());
            mac.update(body);
            // The comparison takes constant time.
            given.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
        });
        if !is_signed {
            return Err(VerificationError::WrongSignature);
        }
        let body: WebhookBody = serde_json::from_slice(body).map_err(|_| VerificationError::InvalidBody)?;
        Ok(ProjectEvent { id: id.to_owned(), kind: body.kind, timestamp: body.timestamp, data: body.data })
    }

    fn check_age(&self, timestamp: &str, now: SystemTime) -> Result<(), VerificationError> {
        // A sign is not accepted.
        let is_number = !timestamp.is_empty() && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = timestamp.parse::<u64>().ok().filter(|_| is_number).ok_or(VerificationError::InvalidTimestamp)?;
        let sent = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let sent = sent.ok_or(VerificationError::InvalidTimestamp)?;
        let difference = now.duration_since(sent).unwrap_or_else(|error| error.duration());
        if difference > self.tolerance { Err(VerificationError::OutsideTolerance) } else { Ok(()) }
    }
}

fn key(secret: &str) -> Result<Vec<u8>, VerificationError> {
    let text = secret.strip_prefix("whsec_").unwrap_or(secret);
    let key = STANDARD.decode(text).map_err(|_| VerificationError::InvalidSecret)?;
    if key.is_empty() { Err(VerificationError::InvalidSecret) } else { Ok(key) }
}

/// Returns a signature of the version 1.
fn signature(entry: &str) -> Option<Vec<u8>> {
    STANDARD.decode(entry.strip_prefix("v1,")?).ok()
}

#[cfg(test)]
mod tests;
