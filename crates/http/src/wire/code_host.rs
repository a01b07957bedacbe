//! The wire format of code hosts, and of the findings of tests.

use std::collections::BTreeSet;

use journeyman_core::code_host::draft::Draft;
use journeyman_core::code_host::{self, Access, CodeHostId, DefinedIn, HostSecret, HostSecretChanges};
use journeyman_core::finding;
use journeyman_core::ports::DescribedHost;
use journeyman_core::secret::SecretValue;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The software of a code host.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    /// GitHub: github.com, or GitHub Enterprise Server.
    Github,
    /// GitLab: gitlab.com, or self-managed.
    Gitlab,
    /// Gitea.
    Gitea,
    /// Forgejo, such as codeberg.org.
    Forgejo,
    /// Bitbucket Cloud.
    Bitbucket,
    /// Bitbucket Data Center.
    BitbucketDataCenter,
}

impl From<code_host::HostKind> for HostKind {
    fn from(kind: code_host::HostKind) -> Self {
        match kind {
            code_host::HostKind::Github => Self::Github,
            code_host::HostKind::Gitlab => Self::Gitlab,
            code_host::HostKind::Gitea => Self::Gitea,
            code_host::HostKind::Forgejo => Self::Forgejo,
            code_host::HostKind::Bitbucket => Self::Bitbucket,
            code_host::HostKind::BitbucketDataCenter => Self::BitbucketDataCenter,
        }
    }
}

impl From<HostKind> for code_host::HostKind {
    fn from(kind: HostKind) -> Self {
        match kind {
            HostKind::Github => Self::Github,
            HostKind::Gitlab => Self::Gitlab,
            HostKind::Gitea => Self::Gitea,
            HostKind::Forgejo => Self::Forgejo,
            HostKind::Bitbucket => Self::Bitbucket,
            HostKind::BitbucketDataCenter => Self::BitbucketDataCenter,
        }
    }
}

/// The place where a code host is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Definition {
    /// The configuration file of the service, where it must be changed.
    Configuration,
    /// The database.
    Store,
}

/// A code host, without its secrets.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledCodeHost {
    /// The ID, which is part of the URL for webhooks.
    pub id: String,
    /// The software.
    pub kind: HostKind,
    /// The URL of its pages.
    #[schema(example = "https://github.com")]
    pub url: String,
    /// The URL of its HTTP interface; `null` means the usual one for `url`.
    #[schema(required)]
    pub api_url: Option<String>,
    /// The user name that belongs to the token.
    #[schema(required)]
    pub username: Option<String>,
    /// The ID of the GitHub App; `null` if there is none.
    #[schema(required)]
    pub app_id: Option<u64>,
    /// The name of the GitHub App in URLs.
    #[schema(required)]
    pub app_slug: Option<String>,
    /// `true` if a token is set.
    pub has_token: bool,
    /// `true` if the private key of a GitHub App is set.
    pub has_private_key: bool,
    /// `true` if the secret that signs webhooks is set. Without it, webhooks are refused.
    pub has_webhook_secret: bool,
    /// The IDs of bots whose comments become messages.
    pub trusted_bots: BTreeSet<String>,
    /// The place where it is defined.
    pub defined_in: Definition,
    /// The URL for webhooks, which you enter at the code host.
    pub webhook_url: String,
    /// The time of creation; `null` for a code host of the configuration.
    #[schema(required, format = DateTime)]
    pub created_at: Option<String>,
}

/// Returns a code host as clients see it. `webhook_url` is the URL for its webhooks.
#[must_use]
pub fn show(described: &DescribedHost, webhook_url: String) -> InstalledCodeHost {
    let host = &described.host;
    let is_stored = host.defined_in == DefinedIn::Store;
    let (username, app_id, app_slug) = match &host.access {
        Some(Access::Token { username }) => (username.clone(), None, None),
        Some(Access::App { app_id, slug }) => (None, Some(*app_id), Some(slug.clone()).filter(|slug| !slug.is_empty())),
        None => (None, None, None),
    };
    InstalledCodeHost {
        id: host.id.to_string(),
        kind: host.kind.into(),
        url: host.url.clone(),
        api_url: host.api_url.clone(),
        username,
        app_id,
        app_slug,
        has_token: described.has_token,
        has_private_key: described.has_private_key,
        has_webhook_secret: described.has_webhook_secret,
        trusted_bots: host.trusted_bots.clone(),
        defined_in: if is_stored { Definition::Store } else { Definition::Configuration },
        webhook_url,
        created_at: is_stored.then(|| host.created_at.to_string()),
    }
}

/// A page of code hosts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeHostList {
    /// The code hosts, ordered by ID.
    pub code_hosts: Vec<InstalledCodeHost>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// The fields of a code host that a request sets.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplaceCodeHost {
    /// The software.
    pub kind: HostKind,
    /// The URL of its pages.
    #[schema(max_length = 500)]
    pub url: String,
    /// The URL of its HTTP interface; by default, the usual one for `url`. It must be on the same host, or on a name below
    /// it.
    #[schema(max_length = 500)]
    pub api_url: Option<String>,
    /// The user name that belongs to the token: for Bitbucket Cloud, the email address of the account; for Bitbucket Data
    /// Center, the user.
    pub username: Option<String>,
    /// The token of the service's user. If it is left out, the stored one is kept; `null` removes it. A new `url` needs a
    /// new token.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub token: Option<Option<String>>,
    /// The ID of a GitHub App, in place of a token.
    pub app_id: Option<u64>,
    /// The name of the GitHub App in URLs; by default, the service asks GitHub.
    pub app_slug: Option<String>,
    /// The private key of the GitHub App, in PEM format. If it is left out, the stored one is kept; `null` removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub private_key: Option<Option<String>>,
    /// The secret that signs webhooks. If it is left out, the stored one is kept; `null` removes it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub webhook_secret: Option<Option<String>>,
    /// The IDs of bots whose comments become messages; by default, none.
    #[schema(max_items = 100)]
    pub trusted_bots: Option<BTreeSet<String>>,
}

/// A code host to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateCodeHost {
    /// The ID, which is part of the URL for webhooks.
    #[schema(pattern = "^[a-z0-9][a-z0-9.-]{0,62}$", example = "github")]
    pub id: String,
    /// The software.
    pub kind: HostKind,
    /// The URL of its pages.
    #[schema(max_length = 500, example = "https://github.com")]
    pub url: String,
    /// The URL of its HTTP interface; by default, the usual one for `url`. It must be on the same host, or on a name below
    /// it.
    #[schema(max_length = 500)]
    pub api_url: Option<String>,
    /// The user name that belongs to the token: for Bitbucket Cloud, the email address of the account; for Bitbucket Data
    /// Center, the user.
    pub username: Option<String>,
    /// The token of the service's user. Without a token and an app, each project needs its own token.
    pub token: Option<String>,
    /// The ID of a GitHub App, in place of a token.
    pub app_id: Option<u64>,
    /// The name of the GitHub App in URLs; by default, the service asks GitHub.
    pub app_slug: Option<String>,
    /// The private key of the GitHub App, in PEM format.
    pub private_key: Option<String>,
    /// The secret that signs webhooks. Without it, webhooks are refused.
    pub webhook_secret: Option<String>,
    /// The IDs of bots whose comments become messages; by default, none.
    #[schema(max_items = 100)]
    pub trusted_bots: Option<BTreeSet<String>>,
}

/// Distinguishes `null` from an absent field.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

impl CreateCodeHost {
    /// Returns the ID and the fields.
    ///
    /// # Errors
    /// The ID is not valid; the error is a sentence that names it.
    pub fn read(self) -> Result<(CodeHostId, Draft), String> {
        let id = self.id.parse().map_err(|error| format!("id: {error}"))?;
        let fields = ReplaceCodeHost {
            kind: self.kind,
            url: self.url,
            api_url: self.api_url,
            username: self.username,
            token: self.token.map(Some),
            app_id: self.app_id,
            app_slug: self.app_slug,
            private_key: self.private_key.map(Some),
            webhook_secret: self.webhook_secret.map(Some),
            trusted_bots: self.trusted_bots,
        };
        Ok((id, fields.read()))
    }
}

impl ReplaceCodeHost {
    /// Returns the fields.
    #[must_use]
    pub fn read(self) -> Draft {
        let named = [
            (HostSecret::Token, self.token),
            (HostSecret::PrivateKey, self.private_key),
            (HostSecret::Webhook, self.webhook_secret),
        ];
        let secrets: HostSecretChanges =
            named.into_iter().filter_map(|(name, change)| Some((name, change?.map(SecretValue)))).collect();
        Draft {
            kind: self.kind.into(),
            url: self.url,
            api_url: self.api_url,
            username: self.username,
            app_id: self.app_id,
            app_slug: self.app_slug,
            trusted_bots: self.trusted_bots.unwrap_or_default(),
            secrets,
        }
    }
}

/// Returns a sentence about an invalid field with the field's name in the interface: it begins with the name in the
/// configuration file, such as `api-url`.
#[must_use]
pub fn with_field(text: &str) -> String {
    let (field, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut words = field.trim_end_matches("-file").split('-');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, others) = word.split_at(word.len().min(1));
        name.push_str(&first.to_ascii_uppercase());
        name.push_str(others);
    }
    format!("{name} {rest}")
}

/// The health of one tested thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// The test passed.
    Ok,
    /// Something will not work, or could not be tested.
    Warning,
    /// The tested thing cannot be used.
    Failure,
}

/// The result of one test.
#[derive(Debug, Serialize, ToSchema)]
pub struct Finding {
    /// The name of the test, such as `credential`. New ones may be added.
    pub check: String,
    /// The health.
    pub health: Health,
    /// The result, and the remedy unless the test passed; for people.
    pub text: String,
}

impl From<finding::Finding> for Finding {
    fn from(found: finding::Finding) -> Self {
        let health = match found.health {
            finding::Health::Ok => Health::Ok,
            finding::Health::Warning => Health::Warning,
            finding::Health::Failure => Health::Failure,
        };
        let found = found.with_time_in_text();
        Self { check: found.check, health, text: found.text }
    }
}

/// The results of tests.
#[derive(Debug, Serialize, ToSchema)]
pub struct FindingList {
    /// The findings, in the order of the tests.
    pub findings: Vec<Finding>,
}

impl From<Vec<finding::Finding>> for FindingList {
    fn from(findings: Vec<finding::Finding>) -> Self {
        Self { findings: findings.into_iter().map(Into::into).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_finding_follows_its_text() {
        let at = journeyman_core::time::Timestamp::from_micros(0);
        let found = finding::Finding::ok_at("webhooks", "the newest webhook arrived", at);
        assert_eq!(Finding::from(found).text, "the newest webhook arrived at 1970-01-01T00:00:00.000Z");
        assert_eq!(Finding::from(finding::Finding::ok("push", "may push")).text, "may push");
    }

    #[test]
    fn fields_are_named_as_in_the_interface() {
        for (text, expected) in [
            ("api-url must be an URL", "apiUrl must be an URL"),
            ("url must be an URL", "url must be an URL"),
            ("private-key-file is missing", "privateKey is missing"),
            ("trusted-bots may have at most 100 entries", "trustedBots may have at most 100 entries"),
        ] {
            assert_eq!(with_field(text), expected);
        }
    }
}
