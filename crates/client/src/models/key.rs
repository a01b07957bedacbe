//! API keys.

use serde::{Deserialize, Serialize};

use super::values::{Change, Secret};

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Key {
    /// The ID of the key.
    pub id: String,
    /// The name that the creator chose.
    pub name: String,
    /// The first characters of the secret, by which people recognize the key.
    pub prefix: String,
    /// The operations that the key allows.
    pub scopes: Vec<Scope>,
    /// The IDs of the projects for which the key may be used; `None` means all projects.
    pub projects: Option<Vec<String>>,
    /// The time from which the key is refused; `None` means never.
    pub expires_at: Option<String>,
    /// The IP addresses and networks from which the key may be used; `None` means any.
    pub allowed_ips: Option<Vec<String>>,
    /// The time of creation.
    pub created_at: String,
    /// The time of the last use, to the minute; `None` if the key was never used.
    pub last_used_at: Option<String>,
    /// The time from which the secret before the last rotation is refused; `None` if there is no such secret, or if
    /// it was refused at once.
    pub old_secret_until: Option<String>,
    /// The time at which the key was revoked; `None` if it was not.
    pub revoked_at: Option<String>,
}

/// A key with its secret, which only the response to its creation contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreatedKey {
    /// The key without its secret.
    #[serde(flatten)]
    pub key: Key,
    /// The secret. Save it, because it cannot be read again: the server stores a hash of it.
    pub secret: Secret,
}

open_enum! {
    /// The operations that a key allows.
    Scope {
        /// The key may read.
        Read = "read",
        /// The key may read, and use jobs.
        Jobs = "jobs",
        /// The key may do everything that its projects allow.
        Write = "write",
    }
}

/// The key of a request, and what it may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Me {
    /// The key of the request.
    pub key: Key,
    /// `true` if the key may manage projects, code hosts and all keys: it has the scope `write` and is not limited to
    /// projects.
    pub manages_projects: bool,
}

/// A key to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateKey {
    /// The name of the key, such as its purpose.
    pub name: String,
    /// The operations that the key allows; by default, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// The IDs of the projects for which the key may be used; by default, all projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projects: Option<Vec<String>>,
    /// The time from which the key is refused; by default, in 90 days. `Change::Reset` means never.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub expires_at: Change<String>,
    /// The IP addresses and networks from which the key may be used, such as `10.0.0.0/8`; by default, any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_ips: Option<Vec<String>>,
}

impl CreateKey {
    /// Returns the request with its required fields.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), scopes: None, projects: None, expires_at: Change::Keep, allowed_ips: None }
    }

    /// Sets `scopes`.
    #[must_use]
    pub fn scopes(mut self, value: Vec<Scope>) -> Self {
        self.scopes = Some(value);
        self
    }

    /// Sets `projects`.
    #[must_use]
    pub fn projects(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.projects = Some(value.into_iter().map(Into::into).collect());
        self
    }

    /// Sets `expires_at`.
    #[must_use]
    pub fn expires_at(mut self, value: impl Into<Change<String>>) -> Self {
        self.expires_at = value.into();
        self
    }

    /// Sets `allowed_ips`.
    #[must_use]
    pub fn allowed_ips(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_ips = Some(value.into_iter().map(Into::into).collect());
        self
    }
}
