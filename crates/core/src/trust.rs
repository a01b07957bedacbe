//! Trusts: rules about which tokens of an OpenID issuer are exchanged for a short-lived API key.
//!
//! A trust names an issuer, an audience, and patterns for claims. A token of the issuer that was verified, is for the
//! audience, and matches all patterns gets a key for the projects of the trust. Continuous integration uses this instead
//! of a stored key.

mod claims;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::{Host, Url};
use uuid::Uuid;

use crate::ids::{KeyId, ProjectId, TrustId, UserId};
use crate::key::{ApiKey, Scope};
use crate::pattern;
use crate::refusal::ResourceKind;
use crate::resource::Resource;
use crate::time::Timestamp;

pub use claims::TokenClaims;

/// The maximum number of trusts.
pub const MAX_TRUSTS: usize = 500;

/// The maximum number of claims and of projects of a trust.
pub const MAX_ENTRIES: usize = 50;

/// The maximum length of a name, in characters. The name of a key contains it.
pub const MAX_NAME_CHARS: usize = 40;

/// The maximum length of an issuer, an audience or a pattern, in bytes.
pub const MAX_TEXT_BYTES: usize = 500;

/// The maximum size of a token, in bytes.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The lifetime of a key that was exchanged for a token.
pub const KEY_LIFETIME: Duration = Duration::from_mins(15);

/// The maximum number of keys of a trust that work at the same time.
pub const MAX_LIVE_KEYS: usize = 1000;

/// The maximum number of keys of a trust for one subject that work at the same time. A workflow of GitHub Actions has at
/// most 256 jobs in a matrix, which have the same subject.
pub const MAX_LIVE_KEYS_OF_SUBJECT: usize = 300;

/// The number of times that a token can be exchanged at once. Each [`EXCHANGE_INTERVAL`] after the first time adds one.
pub const EXCHANGES: u64 = 20;

/// The time after which a token can be exchanged once more.
pub const EXCHANGE_INTERVAL: Duration = Duration::from_mins(1);

/// The time for which a key is stored after it has expired.
pub const EXPIRED_KEY_KEPT: Duration = Duration::from_hours(24);

/// The claims that each verification checks, so that a pattern for them would add nothing.
const CHECKED: [&str; 5] = ["iss", "aud", "exp", "nbf", "iat"];

/// The hosts of issuers that sign tokens for everybody who has an account, with the claims that name the owner of a
/// workflow. Names that the person who runs the workflow can choose, such as a branch, an environment, a reusable workflow
/// or parts of the subject, are not among them. Services with a separate issuer for each customer are not in this list:
/// there, the issuer names the owner. `docs/ci.md` has this list for people.
static SHARED: [(&str, &[&str]); 8] = [
    // https://docs.github.com/en/actions/reference/security/oidc
    (
        "token.actions.githubusercontent.com",
        &["repository", "repository_id", "repository_owner", "repository_owner_id", "enterprise", "enterprise_id"],
    ),
    // https://docs.gitlab.com/ci/secrets/id_token_authentication
    ("gitlab.com", &["project_path", "project_id", "namespace_path", "namespace_id"]),
    // https://buildkite.com/docs/agent/v3/cli-oidc
    ("agent.buildkite.com", &["organization_slug", "organization_id", "pipeline_id"]),
    // https://codefresh.io/docs/docs/integrations/oidc-pipelines/
    ("oidc.codefresh.io", &["account_id", "pipeline_id"]),
    // https://depot.dev/docs/ci/oidc
    ("identity.depot.dev", &["org_id"]),
    // https://developer.hashicorp.com/terraform/cloud-docs/workspaces/dynamic-provider-credentials/workload-identity-tokens
    (
        "app.terraform.io",
        &["terraform_organization_id", "terraform_organization_name", "terraform_project_id", "terraform_workspace_id"],
    ),
    // https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateIdToken: a service
    // account gets tokens for any audience. https://developers.google.com/identity/openid-connect/openid-connect: `sub` is
    // never reused, an email address can be unverified, and `hd` is the organization of an account.
    ("accounts.google.com", &["sub", "hd"]),
    // https://vercel.com/docs/oidc/reference
    ("oidc.vercel.com", &["owner_id", "project_id"]),
];

/// A trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// The ID.
    pub id: TrustId,
    /// The rules.
    pub settings: TrustSettings,
    /// The creator: the ID of a user or key, or `cli`.
    pub creator: String,
    /// The user whose rights the keys have.
    pub owner: Option<UserId>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last exchange.
    pub last_used_at: Option<Timestamp>,
    /// The number of the current version, starting at 1. Every change increases it; an exchange does not.
    pub version: u64,
}

impl Resource for Trust {
    const KIND: ResourceKind = ResourceKind::Trust;
    const LIMIT: usize = MAX_TRUSTS;
    type Id = TrustId;
    type Secrets = ();
    /// The keys that the trust has created, without revoked ones.
    type Related = Vec<ApiKey>;

    fn id(&self) -> &TrustId {
        &self.id
    }

    fn unique_name(&self) -> String {
        self.settings.name.clone()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn with_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    fn check(&self) -> Result<(), String> {
        self.settings.check().map_err(|error| error.to_string())
    }
}

/// The rules of a trust, which an administrator chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustSettings {
    /// The name, which no other trust has.
    pub name: String,
    /// The issuer, exactly as in the tokens.
    pub issuer: String,
    /// The audience that tokens must have.
    pub audience: String,
    /// A pattern for each claim that is checked; see [`crate::pattern::matches`].
    pub claims: BTreeMap<String, String>,
    /// The projects that the keys may be used for.
    pub projects: Vec<ProjectId>,
    /// The scope of the keys.
    pub scope: Scope,
}

/// An error in the rules of a trust.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTrust {
    /// The name is empty, is too long, or has other characters.
    #[error(
        "name: must have 1 to {MAX_NAME_CHARS} characters of a-z, A-Z, 0-9, '.', '-' and '_', and begin with a letter"
    )]
    Name,
    /// The name has the form of an ID.
    #[error("name: must not begin with \"trust_\", as IDs do")]
    NameLikeId,
    /// The issuer is not a URL that tokens can come from.
    #[error(
        "issuer: must be an https URL of at most {MAX_TEXT_BYTES} bytes, without a user, password, query or fragment; http \
         is possible only for an address of this machine"
    )]
    Issuer,
    /// The audience is empty or too long.
    #[error("audience: must have 1 to {MAX_TEXT_BYTES} bytes without control characters")]
    Audience,
    /// The name of a claim is not valid, or there are too many.
    #[error("claims: a trust checks 1 to {MAX_ENTRIES} claims, whose names have 1 to 100 characters")]
    Claims,
    /// The pattern of a claim is empty or too long.
    #[error("claims: the pattern of {0:?} must have 1 to {MAX_TEXT_BYTES} bytes without control characters")]
    Pattern(String),
    /// A claim has a rule already.
    #[error("claims: {0:?} is always checked, so it needs no pattern")]
    Checked(String),
    /// All patterns consist of wildcards.
    #[error("claims: a pattern must have more than wildcards; otherwise the trust accepts every token of the issuer")]
    AnyToken,
    /// Strangers get tokens of the issuer that the patterns match.
    #[error(
        "claims: everybody can get tokens from {issuer}, so name whose tokens you trust: a pattern for one of {names}, \
         with no wildcard before the first slash",
        names = .claims.join(", ")
    )]
    Strangers {
        /// The host of the issuer.
        issuer: &'static str,
        /// The claims that name an owner.
        claims: &'static [&'static str],
    },
    /// There is no project, or there are too many.
    #[error("projects: must name 1 to {MAX_ENTRIES} projects")]
    Projects,
    /// The scope allows more than work with jobs.
    #[error("scope: must be \"read\" or \"jobs\"; a token of continuous integration gets no key that changes settings")]
    Scope,
}

impl Trust {
    /// Returns the ID of the key for a token. It depends on the rules of the trust, without its name, so that a key which
    /// ended with earlier rules never works again.
    #[must_use]
    pub fn key_of(&self, token: &TokenClaims) -> KeyId {
        let TrustSettings { name: _, issuer, audience, claims, projects, scope } = &self.settings;
        let rules = serde_json::json!([self.id.to_string(), issuer, audience, claims, projects, scope]);
        let mut digest = Sha256::new();
        digest.update(token.digest());
        digest.update(rules.to_string());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.finalize()[..16]);
        // Version 8 of RFC 9562: the content is that of the application.
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        KeyId::from_uuid(Uuid::from_bytes(bytes))
    }
}

impl TrustSettings {
    /// Checks the rules.
    ///
    /// # Errors
    /// Returns an error that names the field.
    pub fn check(&self) -> Result<(), InvalidTrust> {
        check_name(&self.name)?;
        let issuer = issuer(&self.issuer).ok_or(InvalidTrust::Issuer)?;
        if !is_text(&self.audience) {
            return Err(InvalidTrust::Audience);
        }
        self.check_claims(&issuer)?;
        if self.projects.is_empty() || self.projects.len() > MAX_ENTRIES {
            return Err(InvalidTrust::Projects);
        }
        if self.scope > Scope::Jobs {
            return Err(InvalidTrust::Scope);
        }
        Ok(())
    }

    fn check_claims(&self, issuer: &Url) -> Result<(), InvalidTrust> {
        let is_name = |name: &str| {
            (1..=100).contains(&name.chars().count()) && !name.chars().any(|c| c.is_control() || c.is_whitespace())
        };
        if self.claims.is_empty() || self.claims.len() > MAX_ENTRIES || !self.claims.keys().all(|name| is_name(name)) {
            return Err(InvalidTrust::Claims);
        }
        for (name, pattern) in &self.claims {
            if CHECKED.contains(&name.as_str()) {
                return Err(InvalidTrust::Checked(name.clone()));
            }
            if !is_text(pattern) {
                return Err(InvalidTrust::Pattern(name.clone()));
            }
        }
        if !self.claims.values().any(|pattern| pattern::is_specific(pattern)) {
            return Err(InvalidTrust::AnyToken);
        }
        let host = issuer.host_str().unwrap_or_default().trim_end_matches('.');
        let Some((host, owners)) = SHARED.iter().find(|(shared, _)| *shared == host) else { return Ok(()) };
        let names_owner = |claim: &&str| self.claims.get(*claim).is_some_and(|pattern| pattern::names_owner(pattern));
        if owners.iter().any(names_owner) {
            return Ok(());
        }
        Err(InvalidTrust::Strangers { issuer: host, claims: owners })
    }

    /// Returns whether the trust accepts a verified token.
    #[must_use]
    pub fn accepts(&self, token: &TokenClaims) -> bool {
        let matches = |(claim, pattern): (&String, &String)| {
            token.values(claim).iter().any(|value| pattern::matches(pattern, value))
        };
        self.issuer == token.issuer() && token.is_for(&self.audience) && self.claims.iter().all(matches)
    }
}

fn check_name(name: &str) -> Result<(), InvalidTrust> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(good) {
        return Err(InvalidTrust::Name);
    }
    // A request can name a trust by its name or its ID.
    if name.starts_with("trust_") { Err(InvalidTrust::NameLikeId) } else { Ok(()) }
}

fn is_text(text: &str) -> bool {
    (1..=MAX_TEXT_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// Parses the URL of an issuer; `None` if tokens cannot come from it.
#[must_use]
pub fn issuer(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_bare = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && !text.chars().any(|character| character.is_control() || character.is_whitespace());
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    (is_text(text) && is_bare && is_safe && url.has_host()).then_some(url)
}

/// Returns whether a URL leads to this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings() -> TrustSettings {
        TrustSettings {
            name: "ci".to_owned(),
            issuer: "https://token.actions.githubusercontent.com".to_owned(),
            audience: "https://journeyman.example.com".to_owned(),
            claims: [("repository".to_owned(), "acme/shop".to_owned())].into(),
            projects: vec!["shop".parse().unwrap()],
            scope: Scope::Jobs,
        }
    }

    fn with_claims(issuer: &str, claims: &[(&str, &str)]) -> TrustSettings {
        let claims = claims.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned())).collect();
        TrustSettings { issuer: issuer.to_owned(), claims, ..settings() }
    }

    fn token(value: Value) -> TokenClaims {
        match value {
            Value::Object(map) => TokenClaims::verified(map),
            other => unreachable!("{other}"),
        }
    }

    #[test]
    fn each_invalid_field_is_named() {
        type Change = fn(&mut TrustSettings);
        let cases: [(Change, &str); 22] = [
            (|s| s.name.clear(), "name"),
            (|s| s.name = "a b".to_owned(), "name"),
            (|s| s.name = "7".to_owned(), "name"),
            (|s| s.name = "x".repeat(41), "name"),
            (|s| s.name = "trust_ci".to_owned(), "name"),
            (|s| s.issuer = "http://id.example.com".to_owned(), "issuer"),
            (|s| s.issuer = "http://127.0.0.1.example.com".to_owned(), "issuer"),
            (|s| s.issuer = "https://me@id.example.com".to_owned(), "issuer"),
            (|s| s.issuer = "https://id.example.com/?a".to_owned(), "issuer"),
            (|s| s.issuer = "https://id.example.com/#a".to_owned(), "issuer"),
            (|s| s.issuer = " https://id.example.com".to_owned(), "issuer"),
            (|s| s.issuer = "id.example.com".to_owned(), "issuer"),
            (|s| s.audience.clear(), "audience"),
            (|s| s.claims.clear(), "claims"),
            (|s| s.claims = [(String::new(), "x".to_owned())].into(), "claims"),
            (|s| drop(s.claims.insert("ref".to_owned(), String::new())), "claims"),
            (|s| drop(s.claims.insert("aud".to_owned(), "x".to_owned())), "claims"),
            (|s| drop(s.claims.insert("iss".to_owned(), "x".to_owned())), "claims"),
            (|s| drop(s.claims.insert("repository".to_owned(), "*/*".to_owned())), "claims"),
            (|s| s.projects.clear(), "projects"),
            (|s| s.scope = Scope::Write, "scope"),
            (|s| drop(s.claims.insert("repository".to_owned(), "*/shop".to_owned())), "claims"),
        ];
        assert_eq!(settings().check(), Ok(()));
        for (number, (change, named)) in cases.into_iter().enumerate() {
            let mut settings = settings();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{named}:")), "case {number}: {error}");
        }
        for issuer in ["http://127.0.0.1:1234", "http://[::1]:1234/realm", "http://localhost:1234", "https://id.test/"]
        {
            assert_eq!(with_claims(issuer, &[("sub", "x")]).check(), Ok(()), "{issuer}");
        }
    }

    #[test]
    fn a_trust_in_a_shared_issuer_names_an_owner() {
        let github = "https://token.actions.githubusercontent.com";
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);
        let cases: &[Case<'_>] = &[
            (github, &[("repository", "acme/*")], true),
            (github, &[("repository_id", "4711")], true),
            (github, &[("repository_owner", "acme"), ("ref", "*")], true),
            (github, &[("repository_owner", "ac*")], false),
            (github, &[("repository", "**")], false),
            (github, &[("repository", "acme*/shop")], false),
            (github, &[("ref", "refs/heads/main")], false),
            (github, &[("environment", "production")], false),
            // Any repository can call a reusable workflow, and choose parts of its subject.
            (github, &[("job_workflow_ref", "acme/ci/.github/workflows/x.yml@refs/heads/main")], false),
            (github, &[("sub", "repo:acme/shop:ref:refs/heads/main")], false),
            ("https://token.actions.githubusercontent.com/acme", &[("ref", "x")], false),
            ("https://TOKEN.actions.githubusercontent.com", &[("ref", "x")], false),
            ("https://token.actions.githubusercontent.com.", &[("ref", "x")], false),
            ("https://gitlab.com", &[("project_path", "acme/**")], true),
            ("https://gitlab.com", &[("namespace_path", "acme")], true),
            ("https://gitlab.com", &[("ref", "main")], false),
            ("https://gitlab.com", &[("user_login", "ada")], false),
            ("https://agent.buildkite.com", &[("organization_slug", "acme"), ("pipeline_slug", "shop")], true),
            ("https://agent.buildkite.com", &[("pipeline_slug", "shop"), ("build_branch", "main")], false),
            ("https://agent.buildkite.com", &[("sub", "organization:acme:pipeline:shop:*")], false),
            ("https://oidc.codefresh.io", &[("account_id", "5f30ebd30312313ae7f17948")], true),
            ("https://oidc.codefresh.io", &[("scm_ref", "main")], false),
            ("https://identity.depot.dev", &[("org_id", "org_1"), ("ref", "refs/heads/main")], true),
            ("https://identity.depot.dev", &[("ref", "refs/heads/main")], false),
            ("https://app.terraform.io", &[("terraform_organization_name", "acme")], true),
            ("https://app.terraform.io", &[("terraform_workspace_name", "prod")], false),
            ("https://accounts.google.com", &[("sub", "110169484474386276334")], true),
            ("https://accounts.google.com", &[("hd", "acme.example")], true),
            ("https://accounts.google.com", &[("email", "ci@acme.example")], false),
            ("https://oidc.vercel.com", &[("owner_id", "team_1")], true),
            ("https://oidc.vercel.com/acme", &[("environment", "production")], false),
            // These issuers have one owner.
            ("https://oidc.circleci.com/org/0184990a-477b-4fa8-9968-496074483cee", &[("sub", "x")], true),
            ("https://vstoken.dev.azure.com/0184990a-477b-4fa8-9968-496074483cee", &[("sub", "x")], true),
            ("https://acme.semaphoreci.com", &[("branch", "main")], true),
            ("https://gitlab.example.com", &[("ref", "main")], true),
            ("https://gitlab.example.com", &[("ref", "**")], false),
        ];
        for (issuer, claims, expected) in cases {
            assert_eq!(with_claims(issuer, claims).check().is_ok(), *expected, "{issuer} {claims:?}");
        }
    }

    #[test]
    fn a_token_is_accepted_if_all_claims_match() {
        let trust = with_claims("https://id.test", &[("groups", "ci-*"), ("protected", "true"), ("id", "42")]);
        let given = json!({
            "iss": "https://id.test", "aud": "https://journeyman.example.com", "sub": "x",
            "groups": ["people", "ci-main"], "protected": true, "id": 42,
        });
        assert!(trust.accepts(&token(given.clone())));
        for (claim, value) in [
            ("iss", json!("https://id.test/")),
            ("aud", json!("https://elsewhere.test")),
            ("aud", json!(null)),
            ("groups", json!(["people"])),
            ("groups", json!([])),
            ("groups", json!("people")),
            ("protected", json!("false")),
            ("protected", json!(null)),
            ("id", json!(43)),
            ("id", json!({"id": 42})),
        ] {
            let mut changed = given.clone();
            changed[claim] = value.clone();
            assert!(!trust.accepts(&token(changed)), "{claim} {value}");
        }
    }
}
