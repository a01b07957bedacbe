//! Trusts, and the exchange of tokens for keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::key::Key;
use super::values::{Change, Secret};

/// A rule about which tokens of an OpenID issuer are exchanged for a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Trust {
    /// The ID of the trust.
    pub id: String,
    /// The name, which no other trust has.
    pub name: String,
    /// The issuer, exactly as in the tokens.
    pub issuer: String,
    /// The audience that tokens must have.
    pub audience: String,
    /// A pattern for each claim that is checked. `*` matches any text within a segment of a path, `**` also across
    /// segments. Of a claim that is a list, one element must match.
    pub claims: BTreeMap<String, String>,
    /// The IDs of the projects for which the keys may be used.
    pub projects: Vec<String>,
    /// The operations that the keys allow.
    pub scope: TrustScope,
    /// The time of creation.
    pub created_at: String,
    /// The time of the last exchange; `None` if there was none.
    pub last_used_at: Option<String>,
}

open_enum! {
    /// The operations that the keys of a trust allow.
    TrustScope {
        /// The keys may read.
        Read = "read",
        /// The keys may read, and use jobs.
        Jobs = "jobs",
    }
}

/// A trust to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateTrust {
    /// The name: a letter, then letters, digits, `.`, `-` and `_`.
    pub name: String,
    /// The https URL of the issuer, exactly as in the claim `iss` of the tokens.
    pub issuer: String,
    /// The audience that tokens must have; by default, the URL of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// A pattern for each claim that is checked; at least one with more than wildcards. For an issuer that gives tokens
    /// to everybody, such as GitHub Actions, one must name a repository or an owner.
    pub claims: BTreeMap<String, String>,
    /// The IDs of the projects for which the keys may be used.
    pub projects: Vec<String>,
    /// The operations that the keys allow; by default, `jobs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TrustScope>,
}

impl CreateTrust {
    /// Returns the request with its required fields, without claims: set these with [`CreateTrust::claim`].
    pub fn new(
        name: impl Into<String>,
        issuer: impl Into<String>,
        projects: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            name: name.into(),
            issuer: issuer.into(),
            audience: None,
            claims: BTreeMap::new(),
            projects: projects.into_iter().map(Into::into).collect(),
            scope: None,
        }
    }

    /// Sets the pattern of a claim.
    #[must_use]
    pub fn claim(mut self, name: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.claims.insert(name.into(), pattern.into());
        self
    }

    /// Sets `audience`.
    #[must_use]
    pub fn audience(mut self, value: impl Into<String>) -> Self {
        self.audience = Some(value.into());
        self
    }

    /// Sets `scope`.
    #[must_use]
    pub fn scope(mut self, value: TrustScope) -> Self {
        self.scope = Some(value);
        self
    }
}

/// The changes of a trust. Fields that are not given stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeTrust {
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The audience; `Change::Reset` means the URL of the server.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub audience: Change<String>,
    /// All patterns; those that are left out are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<BTreeMap<String, String>>,
    /// The IDs of the projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projects: Option<Vec<String>>,
    /// The operations that the keys allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TrustScope>,
}

impl ChangeTrust {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `name`.
    #[must_use]
    pub fn name(mut self, value: impl Into<String>) -> Self {
        self.name = Some(value.into());
        self
    }

    /// Sets `issuer`.
    #[must_use]
    pub fn issuer(mut self, value: impl Into<String>) -> Self {
        self.issuer = Some(value.into());
        self
    }

    /// Sets `audience`.
    #[must_use]
    pub fn audience(mut self, value: impl Into<Change<String>>) -> Self {
        self.audience = value.into();
        self
    }

    /// Sets `claims`.
    #[must_use]
    pub fn claims(mut self, value: BTreeMap<String, String>) -> Self {
        self.claims = Some(value);
        self
    }

    /// Sets `projects`.
    #[must_use]
    pub fn projects(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.projects = Some(value.into_iter().map(Into::into).collect());
        self
    }

    /// Sets `scope`.
    #[must_use]
    pub fn scope(mut self, value: TrustScope) -> Self {
        self.scope = Some(value);
        self
    }
}

/// A token to exchange for a key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ExchangeToken {
    /// A signed JSON Web Token of an OpenID issuer, such as a CI service.
    pub token: Secret,
    /// The ID or the name of the trust that must accept the token; by default, any may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
}

impl ExchangeToken {
    /// Returns the request with its required fields.
    pub fn new(token: impl Into<Secret>) -> Self {
        Self { token: token.into(), trust: None }
    }

    /// Sets `trust`.
    #[must_use]
    pub fn trust(mut self, value: impl Into<String>) -> Self {
        self.trust = Some(value.into());
        self
    }
}

/// A key that was exchanged for a token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ExchangedKey {
    /// The secret. It cannot be read again.
    pub secret: Secret,
    /// The key.
    pub key: Key,
    /// The time from which the key is refused, in 15 minutes.
    pub expires_at: String,
}
