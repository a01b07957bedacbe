//! The encrypted values of a database: which keys they need, and their encryption with another key.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;

use super::error::StoreError;
use crate::audit::AuditEntry;

/// A kind of encrypted values, which are in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SealedKind {
    /// The secrets of projects: variables of agents and setup commands, and tokens of code hosts.
    ProjectSecret,
    /// The credentials and webhook secrets of code hosts.
    CodeHostSecret,
    /// The tokens and signing secrets of Slack workspaces.
    SlackSecret,
    /// The secrets with which webhooks are signed.
    WebhookSecret,
    /// The answers to administrative requests with an `Idempotency-Key`, which exist for 24 hours.
    Answer,
    /// The values of secrets of projects that were changed or removed, which runs of older jobs redact.
    RetiredSecret,
    /// The secrets of the apps with which users sign in.
    SecondFactor,
}

impl SealedKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::ProjectSecret,
        Self::CodeHostSecret,
        Self::SlackSecret,
        Self::WebhookSecret,
        Self::Answer,
        Self::RetiredSecret,
        Self::SecondFactor,
    ];

    /// The kinds whose values are used as long as they are stored. Their tables are small.
    pub const LASTING: [Self; 6] = [
        Self::ProjectSecret,
        Self::CodeHostSecret,
        Self::SlackSecret,
        Self::WebhookSecret,
        Self::RetiredSecret,
        Self::SecondFactor,
    ];

    /// Returns the name of the table.
    #[must_use]
    pub const fn table(self) -> &'static str {
        match self {
            Self::ProjectSecret => "project_secrets",
            Self::CodeHostSecret => "code_host_secrets",
            Self::SlackSecret => "slack_secrets",
            Self::WebhookSecret => "webhook_secrets",
            Self::Answer => "idempotency_keys",
            Self::RetiredSecret => "retired_secrets",
            Self::SecondFactor => "users",
        }
    }

    /// Returns the name that people read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProjectSecret => "secrets of projects",
            Self::CodeHostSecret => "secrets of code hosts",
            Self::SlackSecret => "secrets of Slack workspaces",
            Self::WebhookSecret => "secrets of webhooks",
            Self::Answer => "answers to requests",
            Self::RetiredSecret => "earlier secrets of projects",
            Self::SecondFactor => "second factors of users",
        }
    }
}

/// The row of an encrypted value. It has nothing of the value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealedRow {
    /// The kind of the value.
    pub kind: SealedKind,
    /// The first column of the primary key, such as the ID of a project.
    pub owner: String,
    /// The second column of the primary key, such as the name of a secret; empty if there is none.
    pub name: String,
}

impl fmt::Display for SealedRow {
    /// Writes the table and the key on one line. The key of a stored answer has a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.table(), self.owner, self.name.replace('\n', "/"))
    }
}

/// The numbers of encrypted values of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealedCounts {
    /// Values that the current key decrypts.
    pub current: u64,
    /// Values that another configured key decrypts, by the ID of the key.
    pub others: BTreeMap<String, u64>,
    /// Values that no configured key decrypts.
    pub unreadable: u64,
}

/// The number of rows that [`SealedCensus::unreadable`] names at most.
pub const UNREADABLE_ROWS: usize = 20;

/// The encrypted values of a database, by the keys that decrypt them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealedCensus {
    /// The ID of the current key; empty in a store that encrypts nothing.
    pub current: String,
    /// The IDs of the other configured keys.
    pub others: Vec<String>,
    /// The ID of the key that the database requires at the start of a service; `None` if it is not configured.
    pub required: Option<String>,
    /// The numbers of values.
    pub counts: BTreeMap<SealedKind, SealedCounts>,
    /// The first rows that no configured key decrypts.
    pub unreadable: Vec<SealedRow>,
}

impl SealedCensus {
    /// Returns the number of values that another configured key decrypts.
    #[must_use]
    pub fn with_other_keys(&self) -> u64 {
        self.counts.values().flat_map(|counts| counts.others.values()).sum()
    }

    /// Returns the number of values that no configured key decrypts.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.counts.values().map(|counts| counts.unreadable).sum()
    }

    /// Returns whether no value, and no start of a service, needs another key than the current one.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.with_other_keys() == 0 && self.unreadable() == 0 && self.required.as_ref() == Some(&self.current)
    }
}

/// A part of a table, for [`SealedStore::reseal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedPage {
    /// The kind of the values.
    pub kind: SealedKind,
    /// The owner and the name of the row before the first one; `None` begins with the first row of the table.
    pub after: Option<(String, String)>,
    /// The maximum number of rows to read.
    pub limit: usize,
}

/// The result of [`SealedStore::reseal`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resealed {
    /// The owner and the name of the last row that was read; `None` if no rows follow.
    pub next: Option<(String, String)>,
    /// The number of values that were encrypted with the current key.
    pub done: u64,
}

impl Resealed {
    /// Returns the entry of the audit log about `done` values of a kind that were encrypted with the key `key`.
    #[must_use]
    pub fn audited(entry: &AuditEntry, kind: SealedKind, done: u64, key: &str) -> AuditEntry {
        AuditEntry { subject: format!("{key} ({done} in {})", kind.table()), ..entry.clone() }
    }
}

/// Counts encrypted values, and encrypts them with the current key.
#[async_trait]
pub trait SealedStore: Send + Sync {
    /// Counts the encrypted values of these kinds by the keys that decrypt them. Reads all of them.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn sealed(&self, kinds: Vec<SealedKind>) -> Result<SealedCensus, StoreError>;

    /// Reads a part of a table, and encrypts each value with the current key that another configured key has encrypted.
    /// A value is replaced only if it is still the one that was read; otherwise its row is left as it is, like a value
    /// that no key decrypts. The replacements and an entry in the audit log (`entry`, whose subject is set) are one
    /// transaction; without a replacement, nothing is written.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn reseal(&self, page: SealedPage, entry: AuditEntry) -> Result<Resealed, StoreError>;

    /// Makes the current key the one that the database requires at the start of a service. Returns false if it is
    /// already. The change and the entry in the audit log are one transaction.
    ///
    /// # Errors
    /// Returns an error if the database requires a key that is not configured, or fails.
    async fn require_current_key(&self, entry: AuditEntry) -> Result<bool, StoreError>;
}
