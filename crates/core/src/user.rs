//! People who use the dashboard: who they are, how they sign in, and for how long.
//!
//! Sessions and sign-in links are tokens of 256 random bits. The store holds a SHA-256 of each and nothing else: as with
//! keys, a slow hash would protect nothing. Passwords are hashed slowly, outside of this crate.

pub mod decide;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::UserId;
use crate::key::Scope;
use crate::time::{IdGen, Timestamp};

/// The longest name of a user, in characters.
pub const MAX_NAME_CHARS: usize = 100;

/// How long a session lives at most.
pub const SESSION_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// How long a session lives without being used.
pub const SESSION_IDLE: Duration = Duration::from_hours(7 * 24);

/// The use of a session is noted once in that time.
pub const SESSION_NOTED: Duration = Duration::from_mins(5);

/// How long a link lives by which the first administrator sets a password.
pub const SETUP_LINK_LIFETIME: Duration = Duration::from_hours(24);

/// How long a link lives by which anybody else does.
pub const SIGN_IN_LINK_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything: projects, all keys, users, the audit log.
    Administrator,
    /// Jobs and pull requests of all projects; keys of their own, which name the projects that they are for.
    Member,
    /// Looks at projects, jobs and pull requests.
    Viewer,
}

impl Role {
    /// All of them, the mightiest first.
    pub const ALL: [Self; 3] = [Self::Administrator, Self::Member, Self::Viewer];

    /// The name in the store and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Administrator => "administrator",
            Self::Member => "member",
            Self::Viewer => "viewer",
        }
    }

    /// Reads what [`Role::name`] gives.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// The same as the scope of a key.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::Administrator | Self::Member => Scope::Write,
            Self::Viewer => Scope::Read,
        }
    }
}

/// The hash of a password, as a PHC string. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// Who somebody is at an OpenID provider. A name or address may change there, this does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The provider's address.
    pub issuer: String,
    /// Its name for the person.
    pub subject: String,
}

/// Somebody who uses the dashboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Who.
    pub id: UserId,
    /// The name to sign in with, in lower case; there is one of each.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// `None` where they sign in in another way, or have not chosen one yet.
    pub password: Option<PasswordHash>,
    /// Who they are at the OpenID provider, where they have signed in by it.
    pub identity: Option<Identity>,
    /// When they were entered.
    pub created_at: Timestamp,
    /// When they last signed in.
    pub signed_in_at: Option<Timestamp>,
    /// Since when they may not sign in.
    pub disabled_at: Option<Timestamp>,
    /// The number of the current version, starting at 1. Every change increases it; signing in does not.
    pub version: u64,
}

/// A text is no name of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {MAX_NAME_CHARS} letters, digits or characters of . _ - @ +")]
pub struct InvalidName;

/// A name in the one form that is stored: without space around it, in lower case.
///
/// # Errors
/// It is empty, too long, or holds what a name does not.
pub fn user_name(text: &str) -> Result<String, InvalidName> {
    let name = text.trim().to_lowercase();
    let good = |c: char| c.is_alphanumeric() || "._-@+".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(good) {
        return Err(InvalidName);
    }
    Ok(name)
}

/// A hash of a session's or link's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Of a token that somebody shows.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// A name for the session among others: its first bytes. Tells nothing about the token.
    #[must_use]
    pub fn short(&self) -> String {
        hexadecimal(&self.0[..8])
    }
}

/// A new token, of 64 characters, and its hash. Shown once, never stored.
#[must_use]
pub fn new_token(ids: &dyn IdGen) -> (String, TokenHash) {
    let mut bytes = [0; 32];
    ids.fill(&mut bytes);
    let token = hexadecimal(&bytes);
    let hash = TokenHash::of(&token);
    (token, hash)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Somebody has signed in, in one browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Of the token in the browser's cookie.
    pub hash: TokenHash,
    /// Who.
    pub user: UserId,
    /// When they signed in.
    pub created_at: Timestamp,
    /// When it was last used, to [`SESSION_NOTED`].
    pub seen_at: Timestamp,
    /// The address that they signed in from.
    pub address: Option<String>,
    /// What the browser calls itself.
    pub browser: Option<String>,
}

impl Session {
    /// When it ends if it is used no more.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        (self.created_at + SESSION_LIFETIME).min(self.seen_at + SESSION_IDLE)
    }
}

/// A link by which a password is set, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInLink {
    /// Of the token in the link.
    pub hash: TokenHash,
    /// Whose password; `None`: the first administrator's, who is made by it.
    pub user: Option<UserId>,
    /// From when on it is refused.
    pub expires_at: Timestamp,
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
            address: None,
            browser: None,
        };
        assert_eq!(session(at(0), at(1)).expires_at(), at(1) + SESSION_IDLE);
        assert_eq!(session(at(0), at(29 * 24)).expires_at(), at(0) + SESSION_LIFETIME);
    }

    #[test]
    fn a_role_has_one_name() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()), Some(role));
        }
        assert_eq!(Role::parse("root"), None);
    }
}
