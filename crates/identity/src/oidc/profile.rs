//! The claims about a person.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::OidcError;

/// The maximum length of a subject (OpenID Connect Core, 2).
const MAX_SUBJECT_CHARS: usize = 255;

/// The maximum length of an email address (RFC 5321).
const MAX_EMAIL_CHARS: usize = 254;

/// The length at which names are cut.
const MAX_NAME_CHARS: usize = 100;

/// The claims about a person as the provider sends them, in an ID token or from the user info endpoint (OpenID Connect
/// Core, 5.1).
#[derive(Deserialize)]
pub(super) struct PersonClaims {
    pub(super) sub: String,
    email: Option<String>,
    #[serde(default, deserialize_with = "boolean")]
    email_verified: bool,
    name: Option<String>,
    preferred_username: Option<String>,
}

/// Reads a boolean. Some providers send the texts "true" and "false".
fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(false),
        Value::Bool(value) => Ok(value),
        Value::String(text) => text.parse().map_err(D::Error::custom),
        _ => Err(D::Error::custom("not a boolean")),
    }
}

/// The checked claims about a person.
pub(super) struct Profile {
    pub(super) subject: String,
    pub(super) email: Option<String>,
    pub(super) email_verified: bool,
    pub(super) name: Option<String>,
}

impl Profile {
    /// Checks the claims of an ID token.
    ///
    /// # Errors
    /// The subject is not valid.
    pub(super) fn new(claims: PersonClaims) -> Result<Self, OidcError> {
        let PersonClaims { sub: subject, email, email_verified, name, preferred_username } = claims;
        if subject.is_empty() || subject.chars().count() > MAX_SUBJECT_CHARS || subject.chars().any(char::is_control) {
            return Err(OidcError::bad("the subject of the ID token is empty, too long, or has control characters"));
        }
        Ok(Self {
            subject,
            email: email.as_deref().and_then(address),
            email_verified,
            name: name.or(preferred_username).as_deref().and_then(display_name),
        })
    }

    /// Replaces the email address with that of the user info endpoint, and adds the name if there was none.
    pub(super) fn with(self, more: PersonClaims) -> Self {
        let more_name = || more.name.or(more.preferred_username).as_deref().and_then(display_name);
        Self {
            subject: self.subject,
            email: more.email.as_deref().and_then(address),
            email_verified: more.email_verified,
            name: self.name.or_else(more_name),
        }
    }
}

fn address(email: &str) -> Option<String> {
    let email = email.trim();
    let good = email.contains('@')
        && email.chars().count() <= MAX_EMAIL_CHARS
        && !email.chars().any(|c| c.is_control() || c.is_whitespace());
    good.then(|| email.to_owned())
}

fn display_name(name: &str) -> Option<String> {
    let name: String = name.trim().chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
