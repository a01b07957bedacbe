//! Passkeys (WebAuthn): key pairs of a device or a password manager, whose public keys this service stores.
//!
//! The dashboard reads what a browser sends and verifies the signature, which needs no state. The rest is a decision on
//! the locked row of the user ([`decide`]): whether the user still has the passkey, whether the challenge is unused, and
//! whether the signature counter has grown.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::token::TokenHash;
use crate::time::Timestamp;

/// The maximum number of passkeys of a user.
pub const MAX_PASSKEYS: usize = 20;

/// The maximum length of the name of a passkey, in characters.
pub const MAX_NAME_CHARS: usize = 100;

/// The time within which a challenge must be answered.
pub const CHALLENGE_LIFETIME: Duration = Duration::from_mins(5);

/// The passkeys of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passkeys {
    /// The passkeys, the oldest first.
    pub list: Vec<Passkey>,
    /// The challenges that were answered and have not expired.
    pub used: Vec<Challenge>,
}

/// A challenge: random bytes that an authenticator signs once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The hash of the challenge in base64url.
    pub hash: TokenHash,
    /// The time at which the challenge expires.
    pub until: Timestamp,
}

/// A passkey. It has no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passkey {
    /// The ID that the authenticator has given to the key pair, in base64url without padding.
    pub credential: String,
    /// The public key as a `COSE_Key` (RFC 9052), in base64url without padding.
    pub key: String,
    /// The last signature counter. Many authenticators always send 0.
    pub counter: u32,
    /// The name that the user has given.
    pub name: String,
    /// The time at which the user added the passkey.
    pub created_at: Timestamp,
    /// The time of the last use; `None` if it was never used.
    pub used_at: Option<Timestamp>,
}

impl Passkey {
    /// Returns a short ID for URLs.
    #[must_use]
    pub fn id(&self) -> String {
        TokenHash::of(&self.credential).short()
    }
}

/// The name of a passkey is too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name of a passkey has at most {MAX_NAME_CHARS} characters")]
pub struct NameTooLong;

/// Returns the name of a passkey in its stored form, which is trimmed. A blank name becomes `Passkey`.
///
/// # Errors
/// The name has more than [`MAX_NAME_CHARS`] characters.
pub fn passkey_name(text: &str) -> Result<String, NameTooLong> {
    let name = text.trim();
    match name.chars().count() {
        0 => Ok("Passkey".to_owned()),
        1..=MAX_NAME_CHARS => Ok(name.to_owned()),
        _ => Err(NameTooLong),
    }
}

/// A signature of an authenticator that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// The [`Passkey::credential`].
    pub credential: String,
    /// The [`Passkey::key`] with which the signature was verified.
    pub key: String,
    /// The signature counter.
    pub counter: u32,
    /// The challenge that was signed.
    pub challenge: Challenge,
}

/// The reason why a passkey was refused, as a text for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyRefusal {
    /// The browser has sent nothing, or something else than WebAuthn defines.
    #[error("the browser's answer could not be read; try again, or use another browser")]
    Unreadable,
    /// The challenge is not one of this page, or has expired.
    #[error("the page was open for too long; try again")]
    Expired,
    /// The challenge was answered before.
    #[error("this answer was used before; try again")]
    Used,
    /// The signature is for another challenge.
    #[error("the passkey answered another page; try again")]
    OtherChallenge,
    /// The signature is for another site.
    #[error("the passkey was used on another site; open this server at its public URL")]
    OtherSite,
    /// The authenticator has not verified the user.
    #[error("the device did not check that it is you, with a fingerprint, a face or a PIN; set up one of them there")]
    NotVerified,
    /// The public key has an algorithm that is not accepted.
    #[error("this kind of passkey is not supported; use another device or password manager")]
    UnknownAlgorithm,
    /// The user has no such passkey.
    #[error("this passkey is not one of this user, or was removed")]
    Unknown,
    /// The signature is wrong.
    #[error("the signature of the passkey is wrong")]
    WrongSignature,
    /// The signature counter has not grown.
    #[error(
        "the passkey's counter went back, so there may be a copy of it; sign in another way, remove the passkey, and \
         add it again"
    )]
    CounterBack,
}

#[cfg(test)]
mod tests;
