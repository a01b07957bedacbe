//! The wire format of trusts, and of the exchange of a token for a key.

use std::collections::BTreeMap;

use journeyman_app::CreatedKey as Created;
use journeyman_core::ids::ProjectId;
use journeyman_core::key;
use journeyman_core::trust::{self, TrustSettings};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::key::Key;

/// The operations that the keys of a trust allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustScope {
    /// Reading: GET and HEAD requests, and fetches with git.
    Read,
    /// Reading, and work with jobs: creating, retrying, and canceling them, and sending and withdrawing messages.
    Jobs,
}

impl From<TrustScope> for key::Scope {
    fn from(scope: TrustScope) -> Self {
        match scope {
            TrustScope::Read => Self::Read,
            TrustScope::Jobs => Self::Jobs,
        }
    }
}

impl From<key::Scope> for TrustScope {
    fn from(scope: key::Scope) -> Self {
        match scope {
            key::Scope::Read => Self::Read,
            // No trust has the scope `write`.
            key::Scope::Jobs | key::Scope::Write => Self::Jobs,
        }
    }
}

/// A rule about which tokens of an OpenID issuer are exchanged for a key.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trust {
    /// The ID of the trust.
    #[schema(example = "trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7")]
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
    #[schema(format = DateTime)]
    pub created_at: String,
    /// The time of the last exchange; `null` if there was none.
    #[schema(required, format = DateTime)]
    pub last_used_at: Option<String>,
}

impl From<trust::Trust> for Trust {
    fn from(trust: trust::Trust) -> Self {
        let TrustSettings { name, issuer, audience, claims, projects, scope } = trust.settings;
        Self {
            id: trust.id.to_string(),
            name,
            issuer,
            audience,
            claims,
            projects: projects.into_iter().map(String::from).collect(),
            scope: scope.into(),
            created_at: trust.created_at.to_string(),
            last_used_at: trust.last_used_at.map(|at| at.to_string()),
        }
    }
}

/// A page of trusts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustList {
    /// The trusts, oldest first.
    pub trusts: Vec<Trust>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// A trust to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateTrust {
    /// The name: a letter, then letters, digits, `.`, `-` and `_`.
    #[schema(min_length = 1, max_length = 40, pattern = "^[A-Za-z][A-Za-z0-9._-]{0,39}$")]
    name: String,
    /// The https URL of the issuer, exactly as in the claim `iss` of the tokens.
    #[schema(min_length = 1, max_length = 500)]
    issuer: String,
    /// The audience that tokens must have; by default, the URL of this server.
    #[schema(min_length = 1, max_length = 500)]
    audience: Option<String>,
    /// A pattern for each claim that is checked; at least one with more than wildcards. For an issuer that gives tokens to
    /// everybody, such as GitHub Actions, one must name a repository or an owner.
    claims: BTreeMap<String, String>,
    /// The IDs of the projects for which the keys may be used.
    #[schema(min_items = 1, max_items = 50)]
    projects: Vec<String>,
    /// The operations that the keys allow; by default, `jobs`.
    scope: Option<TrustScope>,
}

impl CreateTrust {
    /// Returns the rules of the trust.
    ///
    /// # Errors
    /// The ID of a project is not valid; the error is a sentence that names the field.
    pub(crate) fn read(self, default_audience: &str) -> Result<TrustSettings, String> {
        Ok(TrustSettings {
            name: self.name,
            issuer: self.issuer,
            audience: self.audience.unwrap_or_else(|| default_audience.to_owned()),
            claims: self.claims,
            projects: ids(&self.projects)?,
            scope: self.scope.unwrap_or(TrustScope::Jobs).into(),
        })
    }
}

fn ids(projects: &[String]) -> Result<Vec<ProjectId>, String> {
    let parsed = projects.iter().map(|id| id.parse::<ProjectId>());
    parsed.map(|id| id.map_err(|error| format!("projects: {error}"))).collect()
}

/// Distinguishes `null` from an absent field.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// Changes of a trust. Fields that are left out stay as they are.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeTrust {
    #[schema(min_length = 1, max_length = 40, pattern = "^[A-Za-z][A-Za-z0-9._-]{0,39}$")]
    name: Option<String>,
    #[schema(min_length = 1, max_length = 500)]
    issuer: Option<String>,
    /// The audience; `null` means the URL of this server.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 500)]
    audience: Option<Option<String>>,
    /// All patterns; those that are left out are removed.
    claims: Option<BTreeMap<String, String>>,
    #[schema(min_items = 1, max_items = 50)]
    projects: Option<Vec<String>>,
    scope: Option<TrustScope>,
}

/// Checked changes of a trust.
pub(crate) struct TrustChanges {
    changes: ChangeTrust,
    projects: Option<Vec<ProjectId>>,
    default_audience: String,
}

impl ChangeTrust {
    /// Checks the changes.
    ///
    /// # Errors
    /// The ID of a project is not valid; the error is a sentence that names the field.
    pub(crate) fn read(self, default_audience: &str) -> Result<TrustChanges, String> {
        let projects = self.projects.as_deref().map(ids).transpose()?;
        Ok(TrustChanges { changes: self, projects, default_audience: default_audience.to_owned() })
    }
}

impl TrustChanges {
    /// Returns the rules after the changes.
    pub(crate) fn apply(&self, known: &TrustSettings) -> TrustSettings {
        let ChangeTrust { name, issuer, audience, claims, scope, .. } = self.changes.clone();
        let audience = audience.map(|audience| audience.unwrap_or_else(|| self.default_audience.clone()));
        TrustSettings {
            name: name.unwrap_or_else(|| known.name.clone()),
            issuer: issuer.unwrap_or_else(|| known.issuer.clone()),
            audience: audience.unwrap_or_else(|| known.audience.clone()),
            claims: claims.unwrap_or_else(|| known.claims.clone()),
            projects: self.projects.clone().unwrap_or_else(|| known.projects.clone()),
            scope: scope.map_or(known.scope, Into::into),
        }
    }
}

/// A token to exchange for a key.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExchangeToken {
    /// A signed JSON Web Token of an OpenID issuer, such as a CI service.
    #[schema(min_length = 1, max_length = 16_384)]
    pub(crate) token: String,
    /// The ID or the name of the trust that must accept the token; by default, any may.
    #[schema(min_length = 1)]
    pub(crate) trust: Option<String>,
}

/// A key that was exchanged for a token.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExchangedKey {
    /// The secret. It cannot be read again.
    secret: String,
    /// The key.
    key: Key,
    /// The time from which the key is refused, in 15 minutes.
    #[schema(format = DateTime)]
    expires_at: String,
}

impl From<Created> for ExchangedKey {
    fn from(created: Created) -> Self {
        let expires_at = created.key.expires_at.map(|at| at.to_string()).unwrap_or_default();
        Self { secret: created.secret, key: created.key.into(), expires_at }
    }
}
