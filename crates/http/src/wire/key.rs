//! API keys.

use std::time::Duration;

use journeyman_core::ids::ProjectId;
use journeyman_core::key::{self, ApiKey, DEFAULT_LIFETIME_DAYS, NewKey};
use journeyman_core::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// GET and HEAD.
    Read,
    /// Everything.
    Write,
}

impl From<Scope> for key::Scope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Write => Self::Write,
        }
    }
}

impl From<key::Scope> for Scope {
    fn from(scope: key::Scope) -> Self {
        match scope {
            key::Scope::Read => Self::Read,
            key::Scope::Write => Self::Write,
        }
    }
}

/// A key, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Which key.
    #[schema(example = "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
    pub id: String,
    /// What its maker called it.
    pub name: String,
    /// The first characters of the secret, to recognise it.
    pub prefix: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where it may be used; `null`: everywhere.
    #[schema(required)]
    pub projects: Option<Vec<String>>,
    /// From when on it is refused; `null`: never.
    #[schema(required, format = DateTime)]
    pub expires_at: Option<String>,
    /// Addresses and networks it may be used from; `null`: everywhere.
    #[schema(required)]
    pub allowed_ips: Option<Vec<String>>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last used, to the minute.
    #[schema(required, format = DateTime)]
    pub last_used_at: Option<String>,
    /// When it was revoked.
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
            revoked_at: texts(key.revoked_at),
        }
    }
}

/// A key with its secret, in the answer to its creation alone.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// Shown once: it is not stored.
    pub secret: String,
}

/// All keys.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyList {
    /// Newest first.
    pub keys: Vec<Key>,
}

/// A key that is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateKey {
    /// What it is for.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What it may do; everything unless given.
    #[schema(min_items = 1)]
    pub scopes: Option<Vec<Scope>>,
    /// Where it may be used; everywhere unless given.
    #[schema(min_items = 1)]
    pub projects: Option<Vec<String>>,
    /// From when on it is refused; in 90 days unless given; `null`: never.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, format = DateTime, min_length = 17)]
    pub expires_at: Option<Option<String>>,
    /// Addresses and networks it may be used from, such as `10.0.0.0/8`; everywhere unless given.
    #[schema(min_items = 1)]
    pub allowed_ips: Option<Vec<String>>,
}

/// Tells `null` from a field that is not there.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

impl CreateKey {
    /// The key to make at `now`.
    ///
    /// # Errors
    /// A sentence that names the field that cannot be read.
    pub fn read(self, now: Timestamp) -> Result<NewKey, String> {
        let expires_at = match self.expires_at {
            None => Some(now + Duration::from_secs(u64::from(DEFAULT_LIFETIME_DAYS) * 24 * 3600)),
            Some(None) => None,
            Some(Some(text)) => Some(text.parse().map_err(|error| format!("expiresAt: {error}"))?),
        };
        let projects: Option<Result<Vec<ProjectId>, _>> =
            self.projects.map(|ids| ids.iter().map(|id| id.parse()).collect());
        let allowed: Option<Result<Vec<_>, _>> =
            self.allowed_ips.map(|nets| nets.iter().map(|net| key::parse_network(net)).collect());
        let scopes = self.scopes.unwrap_or_else(|| vec![Scope::Write]);
        Ok(NewKey {
            name: self.name,
            scopes: scopes.into_iter().map(key::Scope::from).collect(),
            projects: projects.transpose().map_err(|error| format!("projects: {error}"))?,
            expires_at,
            allowed_ips: allowed.transpose().map_err(|error| format!("allowedIps: {error}"))?,
        })
    }
}
