//! The verification of answers of browsers (Web Authentication, level 3, sections 7.1 and 7.2).
//!
//! Attestation is not asked for, so its statement is not read: which device has a passkey does not matter here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::Value;
use journeyman_core::decision::passkey::Presented;
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;
use journeyman_core::user::passkey::{Assertion, Challenge, Passkey, PasskeyRefusal};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::key::{PublicKey, entry, value};
use super::site::Site;

/// The maximum size of an answer, in bytes. The largest part is an attestation that is ignored.
const MAX_ANSWER: usize = 64 << 10;

/// The maximum length of a credential ID, in bytes (section 4).
const MAX_CREDENTIAL: usize = 1023;

/// The user was present.
const UP: u8 = 1;

/// The user was verified.
const UV: u8 = 1 << 2;

/// The data have a credential.
const AT: u8 = 1 << 6;

/// What an answer must have.
pub(crate) struct Expected {
    pub(super) site: Site,
    /// The challenge in base64url.
    pub(super) challenge: String,
    pub(super) until: Timestamp,
}

impl Expected {
    /// Returns the challenge in the form that is used up.
    pub(super) fn used(&self) -> Challenge {
        Challenge { hash: TokenHash::of(&self.challenge), until: self.until }
    }
}

/// A new passkey.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) credential: String,
    pub(super) key: String,
    pub(super) counter: u32,
}

/// The JSON form of an answer.
#[derive(Deserialize)]
struct Answer {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    response: Parts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    attestation_object: Option<String>,
    authenticator_data: Option<String>,
    signature: Option<String>,
    user_handle: Option<String>,
}

/// What the browser says about its request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
}

/// What the authenticator says.
struct AuthenticatorData<'a> {
    flags: u8,
    counter: u32,
    /// The credential and the extensions.
    rest: &'a [u8],
}

fn read(answer: &str) -> Result<Answer, PasskeyRefusal> {
    let answer = Some(answer).filter(|answer| answer.len() <= MAX_ANSWER);
    let answer = answer.and_then(|answer| serde_json::from_str::<Answer>(answer).ok());
    answer.filter(|answer| answer.kind == "public-key").ok_or(PasskeyRefusal::Unreadable)
}

fn decoded(text: &str) -> Result<Vec<u8>, PasskeyRefusal> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| PasskeyRefusal::Unreadable)
}

fn required(text: Option<&String>) -> Result<Vec<u8>, PasskeyRefusal> {
    decoded(text.ok_or(PasskeyRefusal::Unreadable)?)
}

/// Returns the user handle of an answer, which is not verified.
pub(super) fn user_handle(answer: &str) -> Option<String> {
    read(answer).ok()?.response.user_handle
}

impl Expected {
    /// Checks what the browser says, and returns the bytes that the authenticator has signed a hash of.
    fn client_data(&self, kind: &str, text: &str) -> Result<Vec<u8>, PasskeyRefusal> {
        let bytes = decoded(text)?;
        let data: ClientData = serde_json::from_slice(&bytes).map_err(|_| PasskeyRefusal::Unreadable)?;
        if data.kind != kind {
            return Err(PasskeyRefusal::Unreadable);
        }
        if data.challenge != self.challenge {
            return Err(PasskeyRefusal::OtherChallenge);
        }
        if data.origin != self.site.origin || data.cross_origin {
            return Err(PasskeyRefusal::OtherSite);
        }
        Ok(bytes)
    }

    /// Checks the site and the user in the data of the authenticator.
    fn authenticator_data<'a>(&self, bytes: &'a [u8]) -> Result<AuthenticatorData<'a>, PasskeyRefusal> {
        let (site, rest) = bytes.split_at_checked(32).ok_or(PasskeyRefusal::Unreadable)?;
        let ([flags, counter @ ..], rest) = rest.split_first_chunk::<5>().ok_or(PasskeyRefusal::Unreadable)?;
        if site != &Sha256::digest(&self.site.id)[..] {
            return Err(PasskeyRefusal::OtherSite);
        }
        if flags & UP == 0 || flags & UV == 0 {
            return Err(PasskeyRefusal::NotVerified);
        }
        Ok(AuthenticatorData { flags: *flags, counter: u32::from_be_bytes(*counter), rest })
    }
}

/// Checks the answer of a passkey that a user has. It may still be refused by the decision on the locked user.
pub(super) fn assertion(expected: &Expected, user_handle: &str, passkeys: &[Passkey], answer: &str) -> Presented {
    let Answer { id, response, .. } = read(answer)?;
    let passkey = passkeys.iter().find(|one| one.credential == id).ok_or(PasskeyRefusal::Unknown)?;
    if response.user_handle.is_some_and(|handle| handle != user_handle) {
        return Err(PasskeyRefusal::Unknown);
    }
    let client_data = expected.client_data("webauthn.get", &response.client_data)?;
    let data = required(response.authenticator_data.as_ref())?;
    let counter = expected.authenticator_data(&data)?.counter;
    let key = PublicKey::parse(&decoded(&passkey.key)?).ok_or(PasskeyRefusal::UnknownAlgorithm)?;
    let message = [&data[..], &Sha256::digest(&client_data)[..]].concat();
    if !key.has_signed(&message, &required(response.signature.as_ref())?) {
        return Err(PasskeyRefusal::WrongSignature);
    }
    Ok(Assertion { credential: id, key: passkey.key.clone(), counter, challenge: expected.used() })
}

/// Checks the answer of a new passkey.
pub(super) fn registration(expected: &Expected, answer: &str) -> Result<Registered, PasskeyRefusal> {
    let Answer { id, response, .. } = read(answer)?;
    expected.client_data("webauthn.create", &response.client_data)?;
    let attestation = required(response.attestation_object.as_ref())?;
    let (attestation, _) = value(&attestation).ok_or(PasskeyRefusal::Unreadable)?;
    let data = entry(&attestation, &Value::from("authData")).and_then(Value::as_bytes);
    let AuthenticatorData { flags, counter, rest } =
        expected.authenticator_data(data.ok_or(PasskeyRefusal::Unreadable)?)?;
    let (credential, key) =
        Some(rest).filter(|_| flags & AT != 0).and_then(attested).ok_or(PasskeyRefusal::Unreadable)?;
    let credential = URL_SAFE_NO_PAD.encode(credential);
    if credential != id {
        return Err(PasskeyRefusal::Unreadable);
    }
    PublicKey::parse(key).ok_or(PasskeyRefusal::UnknownAlgorithm)?;
    Ok(Registered { credential, key: URL_SAFE_NO_PAD.encode(key), counter })
}

/// Returns the ID and the public key of a new credential (section 6.5.1), without the extensions after it.
fn attested(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_model, rest) = bytes.split_at_checked(16)?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (credential, rest) = rest.split_at_checked(length).filter(|_| (1..=MAX_CREDENTIAL).contains(&length))?;
    let (_, after) = value(rest)?;
    Some((credential, rest.get(..rest.len() - after.len())?))
}
