//! The wire format of API keys.

use std::time::Duration;

use journeyman_core::ids::ProjectId;
use journeyman_core::key::{self, ApiKey, DEFAULT_LIFETIME_DAYS, NewKey};
use journeyman_core::time::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The operations that a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Reading: GET and HEAD requests, and fetches with git.
    Read,
    /// Reading, and work with jobs: creating, retrying, and canceling them, and sending and withdrawing messages.
    Jobs,
    /// All operations.
    Write,
}

impl From<Scope> for key::Scope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Jobs => Self::Jobs,
            Scope::Write => Self::Write,
        }
    }
}

impl From<key::Scope> for Scope {
    fn from(scope: key::Scope) -> Self {
        match scope {
            key::Scope::Read => Self::Read,
            key::Scope::Jobs => Self::Jobs,
            key::Scope::Write => Self::Write,
        }
    }
}

/// The ways in which keys are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrigin {
    /// A user, a key or a command has created the key.
    #[default]
    Created,
    /// A token of a CI service was exchanged for the key.
    Exchanged,
}

impl From<KeyOrigin> for key::KeyOrigin {
    fn from(origin: KeyOrigin) -> Self {
        match origin {
            KeyOrigin::Created => Self::Created,
            KeyOrigin::Exchanged => Self::Exchanged,
        }
    }
}

/// An API key, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// The ID of the key.
    #[schema(example = "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    pub id: String,
    /// The name that the creator chose.
    pub name: String,
    /// The first characters of the secret, by which people recognize the key.
    pub prefix: String,
    /// The operations that the key allows.
    pub scopes: Vec<Scope>,
    /// The IDs of the projects for which the key may be used; `null` means all projects.
    #[schema(required)]
    pub projects: Option<Vec<String>>,
    /// The time from which the key is refused; `null` means never.
    #[schema(required, format = DateTime)]
    pub expires_at: Option<String>,
    /// The IP addresses and networks from which the key may be used; `null` means any.
    #[schema(required)]
    pub allowed_ips: Option<Vec<String>>,
    /// The time of creation.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// The time of the last use, to the minute; `null` if the key was never used.
    #[schema(required, format = DateTime)]
    pub last_used_at: Option<String>,
    /// The time from which the secret before the last rotation is refused; `null` if there is no such secret, or if it
    /// was refused at once.
    #[schema(required, format = DateTime)]
    pub old_secret_until: Option<String>,
    /// The time at which the key was revoked; `null` if it was not.
    #[schema(required, format = DateTime)]
    pub revoked_at: Option<String>,
}

impl From<ApiKey> for Key {
    fn from(key: ApiKey) -> Self {
        let texts = |time: Option<Timestamp>| time.map(|at| at.to_string());
        Self {
            id: key.id.to_string(),
            name: key.name,
            prefix: key.prefix,
            scopes: key.scopes.into_iter().map(Scope::from).collect(),
            projects: key.projects.map(|ids| ids.into_iter().map(String::from).collect()),
            expires_at: texts(key.expires_at),
            allowed_ips: key.allowed_ips.map(|nets| nets.iter().map(ToString::to_string).collect()),
            created_at: key.created_at.to_string(),
            last_used_at: texts(key.last_used_at),
            old_secret_until: texts(key.old_secret.map(|old| old.until)),
            revoked_at: texts(key.revoked_at),
        }
    }
}

/// A key with its secret, which only the response to its creation contains.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The secret. Save it, because it cannot be read again: the server stores a hash of it.
    pub secret: String,
}

/// The key of a request, and what it may do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Me {
    /// The key of the request.
    pub(crate) key: Key,
    /// `true` if the key may manage projects, code hosts and all keys: it has the scope `write` and is not limited to
    /// projects.
    pub(crate) manages_projects: bool,
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyList {
    /// The keys, newest first, including revoked ones.
    pub keys: Vec<Key>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// The rotation of a key.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RotateKey {
    /// The number of seconds for which the old secret works too, at most 604800 (7 days); by default 0.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 604_800)]
    pub(crate) keep_old_seconds: u64,
}

/// A key to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateKey {
    /// The name of the key, such as its purpose.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// The operations that the key allows; by default, those of the key that creates it.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(min_items = 1, nullable = false)]
    pub scopes: Option<Vec<Scope>>,
    /// The IDs of the projects for which the key may be used; by default, all projects.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(min_items = 1, nullable = false)]
    pub projects: Option<Vec<String>>,
    /// The time from which the key is refused; by default, in 90 days, but not after the key that creates it. `null` means
    /// never, which a key that expires cannot give.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, format = DateTime, min_length = 17)]
    pub expires_at: Option<Option<String>>,
    /// The IP addresses and networks from which the key may be used, such as `10.0.0.0/8`; by default, those of the key
    /// that creates it.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(min_items = 1, nullable = false)]
    pub allowed_ips: Option<Vec<String>>,
}

/// Distinguishes `null` from an absent field.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// Refuses `null`, which could be meant as "none" and would widen what the key allows.
fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Option::<T>::deserialize(deserializer)?;
    let missing = || D::Error::custom("null is not allowed here; omit the field for its default");
    value.map(Some).ok_or_else(missing)
}

impl CreateKey {
    /// Returns the key to create at the time `now`. What the request does not name is that of the key that creates it.
    ///
    /// # Errors
    /// A field is not valid; the error is a sentence that names it.
    pub fn read(self, now: Timestamp, parent: Option<&ApiKey>) -> Result<NewKey, String> {
        let usual = now + Duration::from_secs(u64::from(DEFAULT_LIFETIME_DAYS) * 24 * 3600);
        let expires_at = match self.expires_at {
            None => Some(parent.and_then(|parent| parent.expires_at).map_or(usual, |end| end.min(usual))),
            Some(None) => None,
            Some(Some(text)) => Some(text.parse().map_err(|error| format!("expiresAt: {error}"))?),
        };
        let projects: Option<Result<Vec<ProjectId>, _>> =
            self.projects.map(|ids| ids.iter().map(|id| id.parse()).collect());
        let allowed: Option<Result<Vec<_>, _>> =
            self.allowed_ips.map(|nets| nets.iter().map(|net| key::parse_network(net)).collect());
        let allowed = allowed.transpose().map_err(|error| format!("allowedIps: {error}"))?;
        let scopes = self.scopes.map(|scopes| scopes.into_iter().map(key::Scope::from).collect());
        let usual = || parent.map_or_else(|| vec![key::Scope::Write], |parent| parent.scopes.clone());
        Ok(NewKey {
            name: self.name,
            scopes: scopes.unwrap_or_else(usual),
            projects: projects.transpose().map_err(|error| format!("projects: {error}"))?,
            expires_at,
            allowed_ips: allowed.or_else(|| parent?.allowed_ips.clone()),
        })
    }
}
