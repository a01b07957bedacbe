//! Code hosts: servers that store repositories and have pull requests, such as github.com.
//!
//! A code host comes from the configuration file, from the store (pages and command line), or, for a project with its
//! own token, from the address of the repository ([`CodeHost::of_address`]). GitLab calls a pull request a merge
//! request; this project says pull request for both.

mod address;
pub mod check;
pub mod ci_files;
pub mod draft;
pub mod expiry;
pub mod manifest;
mod no_reply;
mod pull_ref;
mod repository;
mod resource;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::secret::SecretValue;
use crate::time::Timestamp;
use crate::version::FIRST_VERSION;

pub use address::{HostName, RepositoryPath};

pub use self::pull_ref::{PullRef, PullRepository, PullState};
pub use self::repository::HostRepository;

/// The ID of a code host, which is part of the URL for its webhooks: `[a-z0-9][a-z0-9.-]{0,62}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CodeHostId(String);

/// An error for a text that is not the ID of a code host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the id of a code host is 1 to 63 characters of a-z, 0-9, '-' and '.', and begins with a letter or digit")]
pub struct InvalidCodeHostId;

impl CodeHostId {
    /// Returns the ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CodeHostId {
    type Err = InvalidCodeHostId;

    fn from_str(text: &str) -> Result<Self, InvalidCodeHostId> {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        let valid = (1..=63).contains(&text.len()) && text.bytes().all(good) && !text.starts_with(['-', '.']);
        if valid && text != "local" { Ok(Self(text.to_owned())) } else { Err(InvalidCodeHostId) }
    }
}

impl TryFrom<String> for CodeHostId {
    type Error = InvalidCodeHostId;

    fn try_from(text: String) -> Result<Self, InvalidCodeHostId> {
        text.parse()
    }
}

impl From<CodeHostId> for String {
    fn from(id: CodeHostId) -> Self {
        id.0
    }
}

impl fmt::Display for CodeHostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The software of a code host, which determines its HTTP interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

impl HostKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Github, Self::Gitlab, Self::Gitea, Self::Forgejo, Self::Bitbucket, Self::BitbucketDataCenter];

    /// Returns whether the host reports submitted reviews as a whole. On the others, each comment on lines arrives by
    /// itself: GitLab sends the notes of a review one by one, and Bitbucket has no reviews.
    #[must_use]
    pub const fn reports_reviews(self) -> bool {
        match self {
            Self::Github | Self::Gitea | Self::Forgejo => true,
            Self::Gitlab | Self::Bitbucket | Self::BitbucketDataCenter => false,
        }
    }

    /// Returns the name in settings and in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Gitea => "gitea",
            Self::Forgejo => "forgejo",
            Self::Bitbucket => "bitbucket",
            Self::BitbucketDataCenter => "bitbucket_data_center",
        }
    }

    /// Returns the name of the product, for people.
    #[must_use]
    pub const fn product(self) -> &'static str {
        match self {
            Self::Github => "GitHub",
            Self::Gitlab => "GitLab",
            Self::Gitea => "Gitea",
            Self::Forgejo => "Forgejo",
            Self::Bitbucket => "Bitbucket Cloud",
            Self::BitbucketDataCenter => "Bitbucket Data Center",
        }
    }

    /// Returns the user name for git over HTTPS with a token.
    #[must_use]
    pub const fn git_user(self) -> &'static str {
        match self {
            Self::Github | Self::BitbucketDataCenter => "x-access-token",
            Self::Gitlab | Self::Gitea | Self::Forgejo => "oauth2",
            Self::Bitbucket => "x-token-auth",
        }
    }

    /// Returns the kind of a public service.
    #[must_use]
    pub fn of_public_host(host: &str) -> Option<Self> {
        match host {
            "github.com" => Some(Self::Github),
            "gitlab.com" => Some(Self::Gitlab),
            "bitbucket.org" => Some(Self::Bitbucket),
            "codeberg.org" => Some(Self::Forgejo),
            "gitea.com" => Some(Self::Gitea),
            _ => None,
        }
    }

    /// Parses a name in settings, with `-` or `_`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.replace('-', "_");
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// The way in which the service authenticates to a code host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Access {
    /// A GitHub App. The secret [`HostSecret::PrivateKey`] signs its requests.
    App {
        /// The ID of the app.
        app_id: u64,
        /// The name of the app in URLs, such as `acme-journeyman`; its user is `<slug>[bot]`. Empty if it is not known.
        slug: String,
    },
    /// The token of a user or a bot, the secret [`HostSecret::Token`].
    Token {
        /// The user name for git, and, on Bitbucket Cloud, of an API token; `None` means the usual one of the product.
        username: Option<String>,
    },
}

/// A secret of a code host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostSecret {
    /// The token of a user or a bot.
    Token,
    /// The private key of an app, in PEM format.
    PrivateKey,
    /// The secret with which the code host signs webhooks.
    Webhook,
}

impl HostSecret {
    /// Returns the name in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::PrivateKey => "private_key",
            Self::Webhook => "webhook",
        }
    }
}

/// The secrets of a code host. `Debug` does not show them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSecrets {
    /// See [`HostSecret::Token`].
    pub token: Option<SecretValue>,
    /// See [`HostSecret::PrivateKey`].
    pub private_key: Option<SecretValue>,
    /// See [`HostSecret::Webhook`].
    pub webhook: Option<SecretValue>,
}

/// The source of the definition of a code host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinedIn {
    /// The configuration file, so that it cannot be changed on pages.
    Configuration,
    /// The store.
    Store,
    /// The address of a project's repository, together with the project's own token.
    Project,
}

/// A code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeHost {
    /// The ID.
    pub id: CodeHostId,
    /// The software.
    pub kind: HostKind,
    /// The address of its pages, without a slash at its end, such as `https://github.com`.
    pub url: String,
    /// The address of its HTTP interface, without a slash at its end; `None` means the usual one of the product.
    pub api_url: Option<String>,
    /// The way in which the service authenticates; `None` if each project has its own token.
    pub access: Option<Access>,
    /// The IDs of bots whose comments become messages. Comments of all other bots are ignored.
    pub trusted_bots: BTreeSet<String>,
    /// `true` if the host is polled where no webhook arrives.
    pub polls: bool,
    /// The source of the definition of this host.
    pub defined_in: DefinedIn,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The number of the current version. Every change increases it.
    pub version: u64,
}

impl CodeHost {
    /// Returns the code host of a repository whose project has its own token.
    #[must_use]
    pub fn of_address(id: CodeHostId, kind: HostKind, url: String) -> Self {
        Self {
            id,
            kind,
            url,
            api_url: None,
            access: None,
            trusted_bots: BTreeSet::new(),
            polls: true,
            defined_in: DefinedIn::Project,
            created_at: Timestamp::default(),
            version: FIRST_VERSION,
        }
    }

    /// Returns the secret that authenticates the service.
    #[must_use]
    pub const fn needed_secret(&self) -> Option<HostSecret> {
        match self.access {
            Some(Access::App { .. }) => Some(HostSecret::PrivateKey),
            Some(Access::Token { .. }) => Some(HostSecret::Token),
            None => None,
        }
    }

    /// Returns whether the service sends its credential to the same addresses as for another version of this host.
    #[must_use]
    pub fn is_at_same_address(&self, other: &Self) -> bool {
        self.url == other.url && self.api() == other.api()
    }

    /// Returns the address of the HTTP interface, without a slash at its end. GitHub Enterprise Server has it below
    /// `/api/v3`; the public services have separate names.
    #[must_use]
    pub fn api(&self) -> String {
        if let Some(url) = &self.api_url {
            return url.clone();
        }
        let url = &self.url;
        match self.kind {
            HostKind::Github if url == "https://github.com" => "https://api.github.com".to_owned(),
            HostKind::Github => format!("{url}/api/v3"),
            HostKind::Gitlab => format!("{url}/api/v4"),
            HostKind::Gitea | HostKind::Forgejo => format!("{url}/api/v1"),
            HostKind::Bitbucket if url == "https://bitbucket.org" => "https://api.bitbucket.org/2.0".to_owned(),
            HostKind::Bitbucket => format!("{url}/2.0"),
            HostKind::BitbucketDataCenter => format!("{url}/rest"),
        }
    }
}

/// Changes of the secrets of a code host: a new value, or `None` to remove it.
pub type HostSecretChanges = BTreeMap<HostSecret, Option<SecretValue>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_part_of_urls() {
        for good in ["github", "github.com", "git-1.example", &"a".repeat(63)] {
            assert!(good.parse::<CodeHostId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", ".a", "A", "a_b", "a/b", "local", &"a".repeat(64)] {
            assert!(bad.parse::<CodeHostId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn kinds_are_parsed_by_their_names() {
        for kind in HostKind::ALL {
            assert_eq!(HostKind::parse(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(HostKind::parse("bitbucket-data-center"), Some(HostKind::BitbucketDataCenter));
        assert_eq!(HostKind::parse("sourcehut"), None);
    }

    #[test]
    fn the_interface_has_the_usual_address_of_the_product() {
        for (kind, url, api) in [
            (HostKind::Github, "https://github.com", "https://api.github.com"),
            (HostKind::Github, "https://git.acme.example", "https://git.acme.example/api/v3"),
            (HostKind::Gitlab, "https://gitlab.com", "https://gitlab.com/api/v4"),
            (HostKind::Gitea, "http://127.0.0.1:3000", "http://127.0.0.1:3000/api/v1"),
            (HostKind::Bitbucket, "https://bitbucket.org", "https://api.bitbucket.org/2.0"),
            (HostKind::BitbucketDataCenter, "https://x.example/bb", "https://x.example/bb/rest"),
        ] {
            let host = CodeHost::of_address("x".parse().unwrap(), kind, url.to_owned());
            assert_eq!(host.api(), api);
        }
    }
}
