//! The users of the dashboard, their sessions, and their sign-in links.
//!
//! Each session and each sign-in link has a token of 256 random bits. The store holds only a SHA-256 of the token: as
//! with keys, a slow hash would not add protection. Passwords get a slow hash, outside of this crate.

pub mod passkey;
mod role;
pub mod second_factor;
mod token;

use std::fmt;
use std::time::Duration;

use self::passkey::Passkeys;
use self::second_factor::SecondFactor;
use crate::ids::UserId;
use crate::time::Timestamp;

pub use self::role::Role;
pub use self::token::{TokenHash, is_token, new_token};

/// The maximum length of a user name, in characters.
pub const MAX_NAME_CHARS: usize = 100;

/// The maximum lifetime of a session.
pub const SESSION_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// The time after which an unused session expires.
pub const SESSION_IDLE: Duration = Duration::from_hours(7 * 24);

/// The minimum time between two recorded uses of a session.
pub const SESSION_NOTED: Duration = Duration::from_mins(5);

/// The time for which a proof of who a person is permits to change what lets people in: keys, users, passwords, second
/// factors, trusts and credentials. It is long enough for several such changes in a row, and short enough that a
/// browser that was left open does not permit them to another person.
pub const PROOF_LIFETIME: Duration = Duration::from_mins(15);

/// The lifetime of the link with which the first administrator sets a password.
pub const SETUP_LINK_LIFETIME: Duration = Duration::from_hours(24);

/// The lifetime of a link with which any other user sets a password.
pub const SIGN_IN_LINK_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// The hash of a password, as a PHC string. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// The identity of a person at an OpenID provider. A name or address may change there; the identity does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The URL of the provider.
    pub issuer: String,
    /// The provider's identifier for the person.
    pub subject: String,
}

/// A user of the dashboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The ID of the user.
    pub id: UserId,
    /// The unique name to sign in with, in lower case.
    pub name: String,
    /// The role of the user.
    pub role: Role,
    /// The hash of the password; `None` if the user signs in with the OpenID provider, or has not set a password yet.
    pub password: Option<PasswordHash>,
    /// The identity at the OpenID provider, if the user has signed in with it.
    pub identity: Option<Identity>,
    /// The second factor, which a sign-in with the password needs; `None` if the user has none.
    pub second_factor: Option<SecondFactor>,
    /// The passkeys, which are second factors too.
    pub passkeys: Passkeys,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last sign-in.
    pub signed_in_at: Option<Timestamp>,
    /// The time at which the user was disabled; `None` if the user may sign in.
    pub disabled_at: Option<Timestamp>,
    /// The number of the current version, starting at 1. Every change increases it; signing in does not.
    pub version: u64,
}

impl User {
    /// Returns the passkeys and the used challenges if the store has to keep them; `None` if there are none.
    #[must_use]
    pub fn stored_passkeys(&self) -> Option<&Passkeys> {
        Some(&self.passkeys).filter(|passkeys| **passkeys != Passkeys::default())
    }

    /// Returns true if the password alone does not sign the user in: the user has an app or a passkey.
    #[must_use]
    pub const fn has_second_factor(&self) -> bool {
        self.second_factor.is_some() || !self.passkeys.list.is_empty()
    }
}

/// An error for a text that is not a valid user name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {MAX_NAME_CHARS} characters: letters, digits, and . _ - @ +")]
pub struct InvalidName;

/// Returns a user name in its stored form: in lower case, and without surrounding spaces.
///
/// # Errors
/// Returns an error if the name is empty, too long, or has a character that is not allowed.
pub fn user_name(text: &str) -> Result<String, InvalidName> {
    let name = text.trim().to_lowercase();
    let good = |c: char| c.is_alphanumeric() || "._-@+".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(good) {
        return Err(InvalidName);
    }
    Ok(name)
}

/// A user's session in one browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The hash of the token in the browser's cookie.
    pub hash: TokenHash,
    /// The user.
    pub user: UserId,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time of the last use, accurate to [`SESSION_NOTED`].
    pub seen_at: Timestamp,
    /// The time at which the user last proved who they are in this session; `None` if that is not known, as for a
    /// session of an older version, or of a provider that does not say when it asked the user.
    pub proven_at: Option<Timestamp>,
    /// The IP address of the client at the sign-in.
    pub address: Option<String>,
    /// The `User-Agent` of the browser.
    pub browser: Option<String>,
}

impl Session {
    /// Returns the time at which the session expires if it is not used again.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        (self.created_at + SESSION_LIFETIME).min(self.seen_at + SESSION_IDLE)
    }

    /// Returns whether the user proved who they are in the last [`PROOF_LIFETIME`].
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        is_fresh(self.proven_at, now)
    }
}

/// Returns whether a proof of this time is still enough for a change that needs one.
#[must_use]
pub fn is_fresh(proven_at: Option<Timestamp>, now: Timestamp) -> bool {
    proven_at.is_some_and(|at| now.since(at) < PROOF_LIFETIME)
}

/// A link with which a user can set a password once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInLink {
    /// The hash of the token in the link.
    pub hash: TokenHash,
    /// The user whose password the link sets; `None` if the link creates the first administrator.
    pub user: Option<UserId>,
    /// The time from which the link is refused.
    pub expires_at: Timestamp,
}

/// A selection of sessions to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionsToEnd {
    /// The session with this hash.
    One(TokenHash),
    /// All sessions of a user.
    AllOf(UserId),
    /// All sessions of a user except the one with this hash.
    OthersOf(UserId, TokenHash),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_form() {
        for (text, name) in
            [(" Ada ", Some("ada")), ("ada@example.com", Some("ada@example.com")), ("größe", Some("größe"))]
        {
            assert_eq!(user_name(text).ok().as_deref(), name, "{text:?}");
        }
        for bad in ["", " ", "a b", "a\nb", "<b>", "a/b", "\u{202e}a", &"a".repeat(MAX_NAME_CHARS + 1)] {
            assert_eq!(user_name(bad), Err(InvalidName), "{bad:?}");
        }
    }

    #[test]
    fn a_session_ends_when_it_is_old_or_idle() {
        let at = |hours: u64| Timestamp::default() + Duration::from_hours(hours);
        let session = |created_at, seen_at| Session {
            hash: TokenHash([0; 32]),
            user: UserId::from_uuid(uuid::Uuid::nil()),
            created_at,
            seen_at,
            proven_at: None,
            address: None,
            browser: None,
        };
        assert_eq!(session(at(0), at(1)).expires_at(), at(1) + SESSION_IDLE);
        assert_eq!(session(at(0), at(29 * 24)).expires_at(), at(0) + SESSION_LIFETIME);
    }

    #[test]
    fn a_proof_lasts_for_fifteen_minutes() {
        let (proven, second) = (Timestamp::default(), Duration::from_secs(1));
        assert!(is_fresh(Some(proven), proven + PROOF_LIFETIME - second));
        assert!(!is_fresh(Some(proven), proven + PROOF_LIFETIME));
        assert!(!is_fresh(None, proven));
    }

    #[test]
    fn a_role_has_one_name() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()), Some(role));
        }
        assert_eq!(Role::parse("root"), None);
    }
}
