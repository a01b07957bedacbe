//! Code hosts, and the inbox of their events.

use serde::{Deserialize, Serialize};

use super::values::{Change, Secret};

/// A code host, without its secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InstalledCodeHost {
    /// The ID, which is part of the URL for webhooks.
    pub id: String,
    /// The software.
    pub kind: HostKind,
    /// The URL of its pages.
    pub url: String,
    /// The URL of its HTTP interface; `None` means the usual one for `url`.
    pub api_url: Option<String>,
    /// The user name that belongs to the token.
    pub username: Option<String>,
    /// The ID of the GitHub App; `None` if there is none.
    pub app_id: Option<u64>,
    /// The name of the GitHub App in URLs.
    pub app_slug: Option<String>,
    /// `true` if a token is set.
    pub has_token: bool,
    /// `true` if the private key of a GitHub App is set.
    pub has_private_key: bool,
    /// `true` if the secret that signs webhooks is set. Without it, webhooks are refused.
    pub has_webhook_secret: bool,
    /// The IDs of bots whose comments become messages.
    pub trusted_bots: Vec<String>,
    /// The source of its definition.
    pub defined_in: Definition,
    /// The URL for webhooks, which you enter at the code host.
    pub webhook_url: String,
    /// The time of creation; `None` for a code host of the configuration.
    pub created_at: Option<String>,
}

open_enum! {
    /// The software of a code host.
    HostKind {
        /// The value `github`.
        Github = "github",
        /// The value `gitlab`.
        Gitlab = "gitlab",
        /// The value `gitea`.
        Gitea = "gitea",
        /// The value `forgejo`.
        Forgejo = "forgejo",
        /// The value `bitbucket`.
        Bitbucket = "bitbucket",
        /// The value `bitbucket_data_center`.
        BitbucketDataCenter = "bitbucket_data_center",
    }
}

open_enum! {
    /// The source of the definition of a code host.
    Definition {
        /// The configuration file.
        Configuration = "configuration",
        /// The database.
        Store = "store",
    }
}

/// An event of a code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InboxEvent {
    /// The ID, which is larger than those of earlier events.
    pub id: String,
    /// The time of the arrival.
    pub received_at: String,
    /// The code host, such as `github.com`.
    pub host: String,
    /// The name of the event, as the code host writes it.
    pub event: String,
    /// The ID of the delivery. A redelivery has the same, and is not stored again.
    pub delivery: String,
    /// The state.
    pub state: InboxState,
    /// The outcome of the event, such as `message`, `ignored_self` or `not_permitted`; `None` while it is received or
    /// waiting. New outcomes may be added.
    pub outcome: Option<String>,
    /// The explanation of the outcome, for people.
    pub detail: Option<String>,
    /// The number of attempts at reading the event.
    pub attempts: u32,
    /// The ID of the project.
    pub project_id: Option<String>,
    /// The ID of the job.
    pub job: Option<String>,
    /// The message that the event became part of.
    pub message: Option<String>,
    /// The path of the repository, such as `owner/name`, if the event was read.
    pub repository: Option<String>,
    /// The name of the user who caused the event; if the code host does not say, the author of the comment, review or
    /// issue.
    pub sender: Option<String>,
    /// The page of the comment, review or issue.
    pub url: Option<String>,
}

open_enum! {
    /// The state of an event in the inbox.
    InboxState {
        /// The event is stored.
        Received = "received",
        /// The event waits for another attempt.
        Waiting = "waiting",
        /// The event had an effect.
        Done = "done",
        /// The event had no effect.
        Ignored = "ignored",
        /// The event could not be handled.
        Failed = "failed",
    }
}

/// A code host to create.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateCodeHost {
    /// The ID, which is part of the URL for webhooks.
    pub id: String,
    /// The software.
    pub kind: HostKind,
    /// The URL of its pages.
    pub url: String,
    /// The URL of its HTTP interface; by default, the usual one for `url`. It must be on the same host, or on a name
    /// below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_url: Option<String>,
    /// The user name that belongs to the token: for Bitbucket Cloud, the email address of the account; for Bitbucket
    /// Data Center, the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The token of the service's user. Without a token and an app, each project needs its own token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// The ID of a GitHub App, in place of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<u64>,
    /// The name of the GitHub App in URLs; by default, the service asks GitHub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_slug: Option<String>,
    /// The private key of the GitHub App, in PEM format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<Secret>,
    /// The secret that signs webhooks. Without it, webhooks are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<Secret>,
    /// The IDs of bots whose comments become messages; by default, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_bots: Option<Vec<String>>,
}

impl CreateCodeHost {
    /// Returns the request with its required fields.
    pub fn new(id: impl Into<String>, kind: HostKind, url: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            kind,
            url: url.into(),
            api_url: None,
            username: None,
            token: None,
            app_id: None,
            app_slug: None,
            private_key: None,
            webhook_secret: None,
            trusted_bots: None,
        }
    }

    /// Sets `api_url`.
    #[must_use]
    pub fn api_url(mut self, value: impl Into<String>) -> Self {
        self.api_url = Some(value.into());
        self
    }

    /// Sets `username`.
    #[must_use]
    pub fn username(mut self, value: impl Into<String>) -> Self {
        self.username = Some(value.into());
        self
    }

    /// Sets `token`.
    #[must_use]
    pub fn token(mut self, value: impl Into<Secret>) -> Self {
        self.token = Some(value.into());
        self
    }

    /// Sets `app_id`.
    #[must_use]
    pub fn app_id(mut self, value: u64) -> Self {
        self.app_id = Some(value);
        self
    }

    /// Sets `app_slug`.
    #[must_use]
    pub fn app_slug(mut self, value: impl Into<String>) -> Self {
        self.app_slug = Some(value.into());
        self
    }

    /// Sets `private_key`.
    #[must_use]
    pub fn private_key(mut self, value: impl Into<Secret>) -> Self {
        self.private_key = Some(value.into());
        self
    }

    /// Sets `webhook_secret`.
    #[must_use]
    pub fn webhook_secret(mut self, value: impl Into<Secret>) -> Self {
        self.webhook_secret = Some(value.into());
        self
    }

    /// Sets `trusted_bots`.
    #[must_use]
    pub fn trusted_bots(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.trusted_bots = Some(value.into_iter().map(Into::into).collect());
        self
    }
}

/// The fields of a code host that a request sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReplaceCodeHost {
    /// The software.
    pub kind: HostKind,
    /// The URL of its pages.
    pub url: String,
    /// The URL of its HTTP interface; by default, the usual one for `url`. It must be on the same host, or on a name
    /// below it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub api_url: Change<String>,
    /// The user name that belongs to the token: for Bitbucket Cloud, the email address of the account; for Bitbucket
    /// Data Center, the user.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub username: Change<String>,
    /// The token of the service's user. If it is left out, the stored one is kept; `Change::Reset` removes it. A new
    /// `url` needs a new token.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub token: Change<Secret>,
    /// The ID of a GitHub App, in place of a token.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub app_id: Change<u64>,
    /// The name of the GitHub App in URLs; by default, the service asks GitHub.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub app_slug: Change<String>,
    /// The private key of the GitHub App, in PEM format. If it is left out, the stored one is kept; `Change::Reset`
    /// removes it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub private_key: Change<Secret>,
    /// The secret that signs webhooks. If it is left out, the stored one is kept; `Change::Reset` removes it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub webhook_secret: Change<Secret>,
    /// The IDs of bots whose comments become messages; by default, none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub trusted_bots: Change<Vec<String>>,
}

impl ReplaceCodeHost {
    /// Returns the request with its required fields.
    pub fn new(kind: HostKind, url: impl Into<String>) -> Self {
        Self {
            kind,
            url: url.into(),
            api_url: Change::Keep,
            username: Change::Keep,
            token: Change::Keep,
            app_id: Change::Keep,
            app_slug: Change::Keep,
            private_key: Change::Keep,
            webhook_secret: Change::Keep,
            trusted_bots: Change::Keep,
        }
    }

    /// Sets `api_url`.
    #[must_use]
    pub fn api_url(mut self, value: impl Into<Change<String>>) -> Self {
        self.api_url = value.into();
        self
    }

    /// Sets `username`.
    #[must_use]
    pub fn username(mut self, value: impl Into<Change<String>>) -> Self {
        self.username = value.into();
        self
    }

    /// Sets `token`.
    #[must_use]
    pub fn token(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.token = value.into();
        self
    }

    /// Sets `app_id`.
    #[must_use]
    pub fn app_id(mut self, value: impl Into<Change<u64>>) -> Self {
        self.app_id = value.into();
        self
    }

    /// Sets `app_slug`.
    #[must_use]
    pub fn app_slug(mut self, value: impl Into<Change<String>>) -> Self {
        self.app_slug = value.into();
        self
    }

    /// Sets `private_key`.
    #[must_use]
    pub fn private_key(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.private_key = value.into();
        self
    }

    /// Sets `webhook_secret`.
    #[must_use]
    pub fn webhook_secret(mut self, value: impl Into<Change<Secret>>) -> Self {
        self.webhook_secret = value.into();
        self
    }

    /// Sets `trusted_bots`.
    #[must_use]
    pub fn trusted_bots(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.trusted_bots = value.into();
        self
    }
}
