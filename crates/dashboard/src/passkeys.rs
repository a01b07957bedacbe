//! Passkeys (WebAuthn): what pages ask a browser for, and the check of its answer.
//!
//! A page has the options for the browser and, encrypted, the challenge. The script `passkeys.js` sends the answer with
//! the form of the page. The challenge is bound to the session or to the pending sign-in, and
//! [`journeyman_core::decision::passkey`] uses it up
//! ([decision 68](../../../docs/decisions/0068-second-factors.md)).

mod key;
mod site;
mod verify;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use journeyman_core::decision::passkey::Presented;
use journeyman_core::ids::UserId;
use journeyman_core::time::Timestamp;
use journeyman_core::user::passkey::{CHALLENGE_LIFETIME, Challenge, Passkey, PasskeyRefusal};
use journeyman_core::user::{TokenHash, User};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) use self::site::{Site, site};
pub(crate) use self::verify::Expected;
use self::verify::Registered;
use crate::Shared;
use crate::failure::Failure;

/// The number of random bytes of a challenge.
const CHALLENGE_BYTES: usize = 32;

/// What a challenge is for: its answer is accepted nowhere else.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// A new passkey in this session.
    Add(&'a TokenHash),
    /// A proof in this session.
    Confirm(&'a TokenHash),
    /// The second step of a sign-in: the user, and the time at which it ends.
    Code(UserId, Timestamp),
    /// A sign-in without a password.
    SignIn,
}

impl Purpose<'_> {
    /// Returns the purpose of the encrypted challenge.
    fn context(self) -> String {
        let of = |hash: &TokenHash| hash.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match self {
            Self::Add(session) => format!("dashboard/passkey/add/{}", of(session)),
            Self::Confirm(session) => format!("dashboard/passkey/confirm/{}", of(session)),
            Self::Code(user, until) => format!("dashboard/passkey/code/{user}/{}", until.as_micros()),
            Self::SignIn => "dashboard/passkey/sign-in".to_owned(),
        }
    }
}

/// A challenge that a page has, encrypted.
#[derive(Serialize, Deserialize)]
struct Shown {
    challenge: String,
    until: Timestamp,
}

/// What a page asks the browser for.
pub(crate) struct Ask {
    /// The options in the JSON form of WebAuthn level 3.
    pub(crate) options: String,
    /// The encrypted challenge.
    pub(crate) sealed: String,
}

/// Returns a new challenge, and its encrypted form.
fn challenge(shared: &Shared, purpose: Purpose<'_>) -> Result<(String, String), Failure> {
    let mut bytes = [0; CHALLENGE_BYTES];
    shared.services.ids.fill(&mut bytes);
    let challenge = URL_SAFE_NO_PAD.encode(bytes);
    let shown = Shown { challenge: challenge.clone(), until: shared.services.clock.now() + CHALLENGE_LIFETIME };
    let text = serde_json::to_string(&shown).map_err(|error| Failure::Render(error.to_string()))?;
    let sealed = shared.services.seal.seal(&purpose.context(), &text);
    Ok((challenge, sealed.map_err(|error| Failure::Render(error.to_string()))?))
}

fn descriptors(passkeys: &[Passkey]) -> serde_json::Value {
    passkeys.iter().map(|one| json!({"type": "public-key", "id": one.credential})).collect()
}

/// Returns what a page asks for to use one of these passkeys. With none, the person chooses one of this site.
pub(crate) fn ask(shared: &Shared, site: &Site, purpose: Purpose<'_>, passkeys: &[Passkey]) -> Result<Ask, Failure> {
    let (challenge, sealed) = challenge(shared, purpose)?;
    let options = json!({
        "challenge": challenge,
        "rpId": site.id,
        "timeout": CHALLENGE_LIFETIME.as_millis(),
        "userVerification": "required",
        "allowCredentials": descriptors(passkeys),
    });
    Ok(Ask { options: options.to_string(), sealed })
}

/// Returns what a page asks for to use a passkey of a user; `None` if the user has none, or browsers use none here.
pub(crate) fn ask_user(shared: &Shared, user: &User, purpose: Purpose<'_>) -> Result<Option<Ask>, Failure> {
    match site(&shared.settings.public_url) {
        Ok(site) if !user.passkeys.list.is_empty() => ask(shared, &site, purpose, &user.passkeys.list).map(Some),
        _ => Ok(None),
    }
}

/// Returns what a page asks for to make a passkey of a user.
pub(crate) fn ask_new(shared: &Shared, site: &Site, purpose: Purpose<'_>, user: &User) -> Result<Ask, Failure> {
    let (challenge, sealed) = challenge(shared, purpose)?;
    let parameter = |algorithm: &i64| json!({"type": "public-key", "alg": algorithm});
    let options = json!({
        "rp": {"id": site.id, "name": format!("Journeyman {}", site.id)},
        "user": {"id": user_handle(user.id), "name": user.name, "displayName": user.name},
        "challenge": challenge,
        "pubKeyCredParams": key::ALGORITHMS.iter().map(parameter).collect::<Vec<_>>(),
        "timeout": CHALLENGE_LIFETIME.as_millis(),
        "excludeCredentials": descriptors(&user.passkeys.list),
        "authenticatorSelection": {"residentKey": "preferred", "userVerification": "required"},
        "attestation": "none",
    });
    Ok(Ask { options: options.to_string(), sealed })
}

/// Returns the user handle, which an authenticator stores with the passkey.
pub(crate) fn user_handle(user: UserId) -> String {
    URL_SAFE_NO_PAD.encode(user.uuid().as_bytes())
}

/// Returns the user whose passkey an answer is of, as the authenticator says. The signature is checked later.
pub(crate) fn user_of(answer: &str) -> Option<UserId> {
    let handle = verify::user_handle(answer)?;
    Some(UserId::from_uuid(uuid::Uuid::from_slice(&URL_SAFE_NO_PAD.decode(handle).ok()?).ok()?))
}

/// What a form with the answer of a browser has.
pub(crate) struct Answer {
    /// The answer of the browser, as JSON.
    pub(crate) answer: String,
    /// The encrypted challenge of the page.
    pub(crate) sealed: String,
}

/// Returns what the answer to a challenge must have.
fn expected(shared: &Shared, sealed: &str, purpose: Purpose<'_>) -> Result<Expected, PasskeyRefusal> {
    let site = site(&shared.settings.public_url).map_err(|_| PasskeyRefusal::OtherSite)?;
    let text = shared.services.seal.open(&purpose.context(), sealed).ok_or(PasskeyRefusal::Expired)?;
    let shown: Shown = serde_json::from_str(&text).map_err(|_| PasskeyRefusal::Expired)?;
    if shown.until <= shared.services.clock.now() {
        return Err(PasskeyRefusal::Expired);
    }
    Ok(Expected { site, challenge: shown.challenge, until: shown.until })
}

/// Checks the answer of a user's passkey.
pub(crate) fn presented(shared: &Shared, user: &User, purpose: Purpose<'_>, answer: &Answer) -> Presented {
    let expected = expected(shared, &answer.sealed, purpose)?;
    verify::assertion(&expected, &user_handle(user.id), &user.passkeys.list, &answer.answer)
}

/// Checks the answer of a new passkey. Returns it with the challenge that it has used.
///
/// # Errors
/// The answer is not one to the challenge of the page.
pub(crate) fn registered(
    shared: &Shared,
    purpose: Purpose<'_>,
    answer: &Answer,
    name: String,
) -> Result<(Passkey, Challenge), PasskeyRefusal> {
    let expected = expected(shared, &answer.sealed, purpose)?;
    let Registered { credential, key, counter } = verify::registration(&expected, &answer.answer)?;
    let created_at = shared.services.clock.now();
    Ok((Passkey { credential, key, counter, name, created_at, used_at: None }, expected.used()))
}

#[cfg(test)]
pub(crate) mod tests;
