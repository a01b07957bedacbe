//! API keys: `jmn_`, 32 random characters, and a checksum of 6 characters.
//!
//! With the checksum, a secret scanner and our error messages can distinguish a damaged key from an unknown one without
//! asking the store. The store holds only a SHA-256 of the whole text: the random part has 190 bits, so a slow hash
//! would not add protection and would make each request expensive.

mod limits;

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::ids::{KeyId, ProjectId, UserId};
use crate::time::{IdGen, Timestamp};
use crate::version::FIRST_VERSION;

/// The prefix of every key.
pub const PREFIX: &str = "jmn_";

/// The default lifetime of a key, in days.
pub const DEFAULT_LIFETIME_DAYS: u32 = 90;

const RANDOM_CHARS: usize = 32;
const CHECKSUM_CHARS: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The operations that a key allows. Each scope includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Reading: GET and HEAD requests, and fetches with git.
    Read,
    /// Work with jobs: creating, retrying and canceling them, and sending and withdrawing messages.
    Jobs,
    /// All operations.
    Write,
}

impl Scope {
    /// All scopes, the smallest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Jobs, Self::Write];

    /// Returns the name in the API and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Jobs => "jobs",
            Self::Write => "write",
        }
    }

    /// Returns the greatest scope that an older version knows and that allows nothing more.
    #[must_use]
    pub const fn known_to_older_versions(self) -> Self {
        match self {
            Self::Read | Self::Jobs => Self::Read,
            Self::Write => Self::Write,
        }
    }
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The ID of the key.
    pub id: KeyId,
    /// The name that the creator chose.
    pub name: String,
    /// The first characters of the secret, by which people recognize the key.
    pub prefix: String,
    /// The hash of the secret.
    pub hash: KeyHash,
    /// The scopes of the key.
    pub scopes: Vec<Scope>,
    /// The projects for which the key may be used; `None` means all.
    pub projects: Option<Vec<ProjectId>>,
    /// The time from which the key is refused; `None` means never.
    pub expires_at: Option<Timestamp>,
    /// The networks from which the key may be used; `None` means any.
    pub allowed_ips: Option<Vec<IpNet>>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last use, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// The time at which the key was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The creator: the ID of a user or key, or `cli`; `None` for keys that are older than this field.
    pub creator: Option<String>,
    /// The user whose rights the key has: its creator, or the owner of the key that created it. The key is revoked when
    /// the user's rights end.
    pub owner: Option<UserId>,
    /// The secret before the last rotation, if it may still be used.
    pub old_secret: Option<OldSecret>,
    /// The number of the current version, starting at 1. Every change increases it; a use does not.
    pub version: u64,
}

/// The ways in which keys are made. Each has a list of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyOrigin {
    /// A user, a key or a command has created the key.
    #[default]
    Created,
    /// A token of an OpenID issuer was exchanged for the key.
    Exchanged,
}

impl KeyOrigin {
    /// The beginning of the creator of a key that was exchanged for a token: the ID of a trust.
    pub const TRUST: &'static str = "trust_";
}

/// The secret of a key before its last rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldSecret {
    /// The hash of the secret.
    pub hash: KeyHash,
    /// The time from which the secret is refused.
    pub until: Timestamp,
}

/// The maximum time for which the old secret of a key works after a rotation: 7 days.
pub const MAX_OVERLAP: Duration = Duration::from_secs(7 * 24 * 3600);

/// A new secret of a key.
#[derive(Clone)]
pub struct NewSecret {
    text: String,
    hash: KeyHash,
}

impl NewSecret {
    /// Generates a secret.
    #[must_use]
    pub fn generate(ids: &dyn IdGen) -> Self {
        let text = generate(ids);
        // The secret was just generated, so its form needs no check.
        let hash = KeyHash(Sha256::digest(text.as_bytes()).into());
        Self { text, hash }
    }

    /// Returns the text of the secret, which is shown once.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

/// The SHA-256 of a key's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

/// An error for a text that cannot be an API key of this service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedKey {
    /// The prefix, the length or the set of characters is wrong.
    #[error("this is not a Journeyman API key: they begin with {PREFIX} and have 42 characters")]
    Form,
    /// The checksum does not match: a character was changed.
    #[error("this API key is damaged: its checksum does not match; copy the whole key again")]
    Checksum,
}

/// The reason why a key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The key is not in the store, or was revoked. The text is the same, so that it does not reveal which.
    #[error("this API key is unknown or was revoked")]
    Unknown,
    /// The key has expired.
    #[error("this API key has expired; create another")]
    Expired,
    /// The client's address is unknown, or is not in the key's list.
    #[error("this API key may not be used from your address")]
    Address,
    /// The scopes of the key do not allow the operation.
    #[error("this API key does not have the scope {:?}, which this operation needs", .0.name())]
    Scope(Scope),
}

/// The properties that the creator of a key chooses. They cannot be changed later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The name, with 1 to [`MAX_NAME_CHARS`] characters.
    pub name: String,
    /// The scopes, at least one.
    pub scopes: Vec<Scope>,
    /// The projects for which the key may be used; `None` means all.
    pub projects: Option<Vec<ProjectId>>,
    /// The time from which the key is refused; `None` means never.
    pub expires_at: Option<Timestamp>,
    /// The networks from which the key may be used; `None` means any.
    pub allowed_ips: Option<Vec<IpNet>>,
}

/// The maximum length of a key's name, in characters.
pub const MAX_NAME_CHARS: usize = 100;

/// An error in the properties of a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The name is empty, is too long, or has a control character.
    #[error("name must have 1 to {MAX_NAME_CHARS} characters, none of them a control character")]
    Name,
    /// The list of scopes is empty, so the key would allow nothing.
    #[error("scopes must name at least one of \"read\", \"jobs\" and \"write\"")]
    Scopes,
    /// The list of projects is empty.
    #[error("projects must name at least one project; omit it for a key for all projects")]
    Projects,
    /// The list of networks is empty.
    #[error("allowedIps must have at least one entry; omit it for a key that may be used from any address")]
    AllowedIps,
    /// The expiration time is not in the future.
    #[error("expiresAt must be in the future")]
    Expiry,
}

impl NewKey {
    /// Creates the key and its secret, which is shown once and never stored.
    ///
    /// # Errors
    /// Returns an error if a property is not valid.
    pub fn make(
        mut self,
        (creator, owner): (&str, Option<UserId>),
        now: Timestamp,
        ids: &dyn IdGen,
    ) -> Result<(ApiKey, String), InvalidKey> {
        let name = self.name.trim();
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
            return Err(InvalidKey::Name);
        }
        self.scopes.sort_unstable();
        self.scopes.dedup();
        if self.scopes.is_empty() {
            return Err(InvalidKey::Scopes);
        }
        if self.projects.as_ref().is_some_and(Vec::is_empty) {
            return Err(InvalidKey::Projects);
        }
        if self.allowed_ips.as_ref().is_some_and(Vec::is_empty) {
            return Err(InvalidKey::AllowedIps);
        }
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err(InvalidKey::Expiry);
        }
        let secret = NewSecret::generate(ids);
        let key = ApiKey {
            id: KeyId::from_uuid(ids.uuid(now)),
            name: name.to_owned(),
            prefix: display_prefix(&secret.text),
            hash: secret.hash,
            scopes: self.scopes,
            projects: self.projects,
            expires_at: self.expires_at,
            allowed_ips: self.allowed_ips,
            created_at: now,
            last_used_at: None,
            revoked_at: None,
            creator: Some(creator.to_owned()),
            owner,
            old_secret: None,
            version: FIRST_VERSION,
        };
        Ok((key, secret.text))
    }
}

/// Generates a secret.
fn generate(ids: &dyn IdGen) -> String {
    let mut random = String::with_capacity(RANDOM_CHARS);
    while random.len() < RANDOM_CHARS {
        let mut bytes = [0; 64];
        ids.fill(&mut bytes);
        // 248 is the largest multiple of 62 in a byte. Greater bytes would make the first characters more likely.
        for byte in bytes.iter().filter(|byte| **byte < 248) {
            if random.len() < RANDOM_CHARS {
                random.push(char::from(ALPHABET[usize::from(byte % 62)]));
            }
        }
    }
    let checksum = checksum(&random);
    format!("{PREFIX}{random}{checksum}")
}

/// Checks the form of a secret, and returns the hash under which the key is stored.
///
/// # Errors
/// Returns an error if the text cannot be a key of this service.
pub fn hash(secret: &str) -> Result<KeyHash, MalformedKey> {
    let body = secret.strip_prefix(PREFIX).ok_or(MalformedKey::Form)?;
    if body.len() != RANDOM_CHARS + CHECKSUM_CHARS || !body.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(MalformedKey::Form);
    }
    let (random, sum) = body.split_at(RANDOM_CHARS);
    if !bool::from(checksum(random).as_bytes().ct_eq(sum.as_bytes())) {
        return Err(MalformedKey::Checksum);
    }
    Ok(KeyHash(Sha256::digest(secret.as_bytes()).into()))
}

/// Returns the first characters of a secret, by which people recognize the key.
#[must_use]
pub fn display_prefix(secret: &str) -> String {
    secret.chars().take(PREFIX.len() + 6).collect()
}

/// Returns six characters that are derived from the SHA-256 of the prefix and the random part.
fn checksum(random: &str) -> String {
    let digest = Sha256::new().chain_update(PREFIX).chain_update(random).finalize();
    digest.iter().take(CHECKSUM_CHARS).map(|byte| char::from(ALPHABET[usize::from(byte % 62)])).collect()
}

impl ApiKey {
    /// Returns the key as it is after it was revoked.
    #[must_use]
    pub fn revoked(&self, at: Timestamp) -> Self {
        Self { revoked_at: Some(at), version: self.version + 1, ..self.clone() }
    }

    /// Returns the key with a new secret. The old one may be used for `overlap`.
    #[must_use]
    pub fn rotated(&self, secret: &NewSecret, overlap: Duration, now: Timestamp) -> Self {
        let old = OldSecret { hash: self.hash, until: now + overlap };
        Self {
            hash: secret.hash,
            prefix: display_prefix(&secret.text),
            old_secret: (!overlap.is_zero()).then_some(old),
            version: self.version + 1,
            ..self.clone()
        }
    }

    /// Returns the key with the secret and the expiration of another, which was made for the same token. The secret
    /// before is refused at once.
    #[must_use]
    pub fn exchanged_again(&self, made: &Self) -> Self {
        Self {
            hash: made.hash,
            prefix: made.prefix.clone(),
            expires_at: made.expires_at,
            old_secret: None,
            version: self.version + 1,
            ..self.clone()
        }
    }

    /// Returns how the key was made.
    #[must_use]
    pub fn origin(&self) -> KeyOrigin {
        let by_trust = self.creator.as_ref().is_some_and(|creator| creator.starts_with(KeyOrigin::TRUST));
        if by_trust { KeyOrigin::Exchanged } else { KeyOrigin::Created }
    }

    /// Returns whether the key has ended: it was revoked, or it has expired.
    #[must_use]
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.revoked_at.is_some() || self.expires_at.is_some_and(|end| end <= now)
    }

    /// Returns whether a secret with this hash is that of the key now.
    #[must_use]
    pub fn has_secret(&self, hash: KeyHash, now: Timestamp) -> bool {
        self.hash == hash || self.old_secret.is_some_and(|old| old.hash == hash && now < old.until)
    }

    /// Checks whether the key may be used now, from this address, for an operation that needs this scope.
    ///
    /// # Errors
    /// Returns the first reason why not. The order of the checks reveals as little as possible to people without a
    /// valid key.
    pub fn check(&self, now: Timestamp, from: Option<IpAddr>, needs: Scope) -> Result<(), Refused> {
        if self.revoked_at.is_some() {
            return Err(Refused::Unknown);
        }
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err(Refused::Expired);
        }
        if let Some(allowed) = &self.allowed_ips {
            // Fail closed: an unknown address is refused.
            let canonical = from.map(|ip| ip.to_canonical());
            if !canonical.is_some_and(|ip| allowed.iter().any(|net| net.contains(&ip))) {
                return Err(Refused::Address);
            }
        }
        if self.allows(needs) { Ok(()) } else { Err(Refused::Scope(needs)) }
    }

    /// Returns the scopes for the column that older versions read.
    #[must_use]
    pub fn scopes_for_older_versions(&self) -> Vec<Scope> {
        let mut known: Vec<Scope> = self.scopes.iter().map(|scope| scope.known_to_older_versions()).collect();
        known.dedup();
        known
    }

    /// Returns whether the key allows the operations of a scope.
    #[must_use]
    pub fn allows(&self, needs: Scope) -> bool {
        self.scopes.iter().any(|scope| *scope >= needs)
    }

    /// Returns whether the key may be used for a project.
    #[must_use]
    pub fn sees(&self, project: &ProjectId) -> bool {
        self.projects.as_ref().is_none_or(|projects| projects.contains(project))
    }
}

/// Parses an address or a network: `192.0.2.7`, `10.0.0.0/8`, `2001:db8::/32`.
///
/// # Errors
/// Returns an error if the text is neither.
pub fn parse_network(text: &str) -> Result<IpNet, InvalidNetwork> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().or_else(|_| address()).map_err(|_| InvalidNetwork(text.chars().take(80).collect()))
}

/// An error for a text that is neither an IP address nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an IP address nor a network such as 10.0.0.0/8")]
pub struct InvalidNetwork(String);

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn older_versions_read_no_scope_that_allows_more() {
        for (scopes, expected) in [
            (vec![Scope::Read], vec![Scope::Read]),
            (vec![Scope::Jobs], vec![Scope::Read]),
            (vec![Scope::Read, Scope::Jobs], vec![Scope::Read]),
            (vec![Scope::Read, Scope::Write], vec![Scope::Read, Scope::Write]),
        ] {
            let key = ApiKey { scopes: scopes.clone(), ..key() };
            assert_eq!(key.scopes_for_older_versions(), expected, "{scopes:?}");
        }
    }

    struct Counting(std::sync::atomic::AtomicU8);

    impl IdGen for Counting {
        fn uuid(&self, _: Timestamp) -> Uuid {
            Uuid::nil()
        }
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0.fetch_add(7, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    fn key() -> ApiKey {
        ApiKey {
            id: KeyId::from_uuid(Uuid::nil()),
            name: "ci".into(),
            prefix: "jmn_abc".into(),
            hash: KeyHash([0; 32]),
            scopes: vec![Scope::Write],
            projects: None,
            expires_at: None,
            allowed_ips: None,
            created_at: Timestamp::default(),
            last_used_at: None,
            revoked_at: None,
            creator: None,
            owner: None,
            old_secret: None,
            version: 1,
        }
    }

    #[test]
    fn a_damaged_key_is_detected() {
        let secret = generate(&Counting(0.into()));
        assert_eq!(secret.len(), 42);
        assert!(hash(&secret).is_ok());
        for index in PREFIX.len()..secret.len() {
            let mut damaged = secret.clone().into_bytes();
            damaged[index] = if damaged[index] == b'x' { b'y' } else { b'x' };
            let damaged = String::from_utf8(damaged).expect("ASCII");
            assert_eq!(hash(&damaged), Err(MalformedKey::Checksum), "at {index}");
        }
        for other in ["", "jmn_", "sk_live_123", &secret[..41], &format!("{secret}x")] {
            assert_eq!(hash(other), Err(MalformedKey::Form), "{other}");
        }
    }

    #[test]
    fn a_new_key_has_the_hash_of_its_secret_and_valid_properties() {
        let now = Timestamp::from_micros(1_000);
        let good = NewKey {
            name: " ci ".into(),
            scopes: vec![Scope::Write, Scope::Write],
            projects: None,
            expires_at: None,
            allowed_ips: None,
        };
        let (key, secret) = good.clone().make(("cli", None), now, &Counting(0.into())).expect("a key");
        assert_eq!((hash(&secret), key.name.as_str(), key.scopes.len()), (Ok(key.hash), "ci", 1));
        assert!(secret.starts_with(&key.prefix) && key.prefix.len() < secret.len() / 2);
        for (bad, expected) in [
            (NewKey { name: " ".into(), ..good.clone() }, InvalidKey::Name),
            (NewKey { name: "a\nb".into(), ..good.clone() }, InvalidKey::Name),
            (NewKey { scopes: vec![], ..good.clone() }, InvalidKey::Scopes),
            (NewKey { projects: Some(vec![]), ..good.clone() }, InvalidKey::Projects),
            (NewKey { allowed_ips: Some(vec![]), ..good.clone() }, InvalidKey::AllowedIps),
            (NewKey { expires_at: Some(now), ..good }, InvalidKey::Expiry),
        ] {
            assert_eq!(bad.make(("cli", None), now, &Counting(0.into())), Err(expected));
        }
    }

    #[test]
    fn each_limit_of_a_key_is_checked() {
        let now = Timestamp::from_micros(1_000);
        let home: IpAddr = "10.1.2.3".parse().expect("an address");
        let mapped: IpAddr = "::ffff:10.1.2.3".parse().expect("an address");
        let away: IpAddr = "192.0.2.1".parse().expect("an address");
        let limited = ApiKey { allowed_ips: Some(vec![parse_network("10.0.0.0/8").expect("a network")]), ..key() };
        let cases = [
            (key(), None, Scope::Write, Ok(())),
            (ApiKey { revoked_at: Some(now), ..key() }, None, Scope::Read, Err(Refused::Unknown)),
            (ApiKey { expires_at: Some(now), ..key() }, None, Scope::Read, Err(Refused::Expired)),
            (ApiKey { scopes: vec![Scope::Read], ..key() }, None, Scope::Read, Ok(())),
            (ApiKey { scopes: vec![Scope::Read], ..key() }, None, Scope::Jobs, Err(Refused::Scope(Scope::Jobs))),
            (ApiKey { scopes: vec![Scope::Read], ..key() }, None, Scope::Write, Err(Refused::Scope(Scope::Write))),
            (ApiKey { scopes: vec![Scope::Jobs], ..key() }, None, Scope::Read, Ok(())),
            (ApiKey { scopes: vec![Scope::Jobs], ..key() }, None, Scope::Jobs, Ok(())),
            (ApiKey { scopes: vec![Scope::Jobs], ..key() }, None, Scope::Write, Err(Refused::Scope(Scope::Write))),
            (ApiKey { scopes: vec![Scope::Write], ..key() }, None, Scope::Jobs, Ok(())),
            (ApiKey { scopes: vec![], ..key() }, None, Scope::Read, Err(Refused::Scope(Scope::Read))),
            (limited.clone(), Some(home), Scope::Read, Ok(())),
            (limited.clone(), Some(mapped), Scope::Read, Ok(())),
            (limited.clone(), Some(away), Scope::Read, Err(Refused::Address)),
            (limited, None, Scope::Read, Err(Refused::Address)),
        ];
        for (number, (key, from, needs, expected)) in cases.into_iter().enumerate() {
            assert_eq!(key.check(now, from, needs), expected, "case {number}");
        }
    }
}
