//! Use cases: what callers can do with jobs, projects, keys, users, code hosts, and pull requests of the built-in code
//! host.
//!
//! A use case checks the permission of its [`Caller`] and the validity of the request, and then makes one decision in
//! one transaction, together with its audit entry and its idempotency key. The decisions themselves are pure functions
//! in `journeyman-core`. The HTTP interface, the dashboard and the command line are thin layers over this crate.

mod audit;
mod base_comparisons;
mod caller;
mod changes;
mod checks;
mod code_hosts;
mod credentials;
mod details;
mod effects;
mod error;
mod existing_pull;
mod feed;
mod imports;
mod inbox;
mod jobs;
mod keys;
mod known;
mod limiter;
mod master_keys;
mod outbox;
mod passkeys;
mod polls;
mod projects;
mod pull_updates;
mod pulls;
mod resources;
mod second_factor;
mod slack;
mod summary;
mod table;
mod templates;
mod trusts;
mod usage;
mod users;
mod webhooks;

use std::sync::Arc;

use journeyman_core::agent::Agents;
use journeyman_core::audit::AuditEntry;
use journeyman_core::decision::{Change, Decision, Once, Subject};
use journeyman_core::engine::Engine;
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{
    AdminError, Administered, BaseComparisons, Forges, Hooks, HostAdmin, PullPages, Slack, Store, TokenVerifier,
    WebhookSender,
};
use journeyman_core::refusal;
use journeyman_core::time::IdGen;
use tokio::sync::Notify;

pub use audit::{AuditExport, AuditFormat};
pub use base_comparisons::KnownComparison;
pub use caller::{Actor, Caller};
pub use changes::LineComments;
pub use checks::ChecksOfJob;
pub use code_hosts::UnclaimedRepository;
pub use details::DetailedJob;
pub use effects::HostEffects;
pub use error::{Error, Refusal, RefusalKind};
pub use feed::FeedPage;
pub use imports::ImportRequest;
pub use inbox::Received;
pub use jobs::{JobRequest, MessageRequest};
pub use keys::CreatedKey;
pub use known::{FRESH, Known};
pub use limiter::{Class, Exceeded, Holder, Limit, Limiter, Limits, Permit, Use};
pub use master_keys::Rotated;
pub use outbox::Outbox;
pub use polls::Poller;
pub use projects::ProjectEdit;
pub use pulls::{Commented, Opened, PullComment};
pub use slack::{DescribedSlack, SlackEdit, SlackReceived};
pub use summary::ProgressReporter;
pub use templates::TemplateEdit;
pub use trusts::{Presented, TrustEdit};
pub use usage::{USAGE_COLUMNS, usage_table};
pub use users::{CreatedLink, CreatedUser, NewPassword};
pub use webhooks::{CreatedWebhook, Deliverer};

/// The ports and settings of the use cases.
pub struct Parts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// Changes jobs.
    pub engine: Engine,
    /// Checks and prepares repositories.
    pub forges: Arc<dyn Forges>,
    /// The pull requests of the built-in code host.
    pub pulls: Arc<dyn PullPages>,
    /// Lists and tests code hosts.
    pub code_hosts: Arc<dyn HostAdmin>,
    /// Verifies and reads webhooks of code hosts.
    pub hooks: Arc<dyn Hooks>,
    /// Compares pull requests with their bases.
    pub comparisons: Arc<dyn BaseComparisons>,
    /// Sends events to the endpoints of webhooks.
    pub webhooks: Arc<dyn WebhookSender>,
    /// Verifies the tokens of OpenID issuers.
    pub tokens: Arc<dyn TokenVerifier>,
    /// Reads requests of Slack, and sends requests to it.
    pub slack: Arc<dyn Slack>,
    /// The URL of the service, without a slash at its end.
    pub public_url: String,
    /// The source of IDs and secrets.
    pub ids: Arc<dyn IdGen>,
    /// The configured agents.
    pub agents: Arc<Agents>,
    /// The limit of new jobs per project and hour, unless the project sets another; 0: no limit.
    pub create_per_hour: u32,
    /// The limit of messages per project and hour, unless the project sets another; 0: no limit.
    pub message_per_hour: u32,
}

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct UseCases(Arc<Inner>);

struct Inner {
    parts: Parts,
    known: Known,
    watched: credentials::Watched,
    /// Wakes the process that carries out the inbox.
    wake: Notify,
    /// Wakes the process that carries out the events of Slack.
    slack_wake: Notify,
}

/// The idempotency key of a request, and the hash of what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key that the client chose.
    pub key: String,
    /// The hash of the operation and the body.
    pub fingerprint: Fingerprint,
}

/// A result that may come from an earlier request with the same idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered<T> {
    /// The request was carried out now.
    New(T),
    /// An earlier request was carried out; this is its stored answer.
    Replayed(String),
}

impl<T> Answered<T> {
    /// Converts the result of a new request.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Answered<U> {
        match self {
            Self::New(done) => Answered::New(convert(done)),
            Self::Replayed(answer) => Answered::Replayed(answer),
        }
    }
}

impl UseCases {
    /// Returns the use cases over these ports.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let (known, watched) = (Known::default(), credentials::Watched::default());
        Self(Arc::new(Inner { parts, known, watched, wake: Notify::new(), slack_wake: Notify::new() }))
    }

    fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// Returns the cache of keys and projects.
    #[must_use]
    pub fn known(&self) -> &Known {
        &self.0.known
    }

    fn audit(&self, caller: &Caller, action: &str, subject: impl ToString) -> AuditEntry {
        caller.audit(self.parts().engine.now(), action, subject)
    }

    /// Returns the stored answer of an earlier request with the same idempotency key. A repeated request must not be
    /// checked again, because its project or agent might no longer exist.
    async fn replay(&self, claim: Option<&Claim>) -> Result<Option<String>, Error> {
        let Some(claim) = claim else { return Ok(None) };
        Ok(self.parts().store.answered(claim.clone(), self.parts().engine.now()).await?)
    }

    /// Carries out a decision of a person with rights in one transaction, and clears this process's cache of keys and
    /// projects.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "administer"))]
    async fn administer<S: Subject>(
        &self,
        subject: S,
        once: Option<Once>,
        decide: impl FnMut(&S::Locked) -> Result<Change, refusal::Refusal> + Send + 'static,
    ) -> Result<Administered, AdminError> {
        // The guard clears the cache even if this future is dropped because the client has disconnected.
        let _guard = ClearOnDrop(&self.0.known);
        let decision = S::any(Decision::new(subject, decide));
        self.parts().store.administer(decision, once, self.parts().engine.now()).await
    }

    /// Checks that the caller still has the rights that it was authenticated with. Reading the body of a request can
    /// take a long time, during which the rights may be revoked.
    async fn confirm(&self, caller: &Caller) -> Result<(), Error> {
        let store = &self.parts().store;
        let has_rights = match &caller.actor {
            Actor::CommandLine => true,
            Actor::User(user) => store
                .user(user.id)
                .await?
                .is_some_and(|current| current.disabled_at.is_none() && current.role == user.role),
            Actor::Key(key) => {
                let (found, now) = (store.key_by_hash(key.hash).await?, self.parts().engine.now());
                match found.filter(|current| current.revoked_at.is_none() && current.has_secret(key.hash, now)) {
                    Some(current) => known::is_alive(&**store, &current, now).await?,
                    None => false,
                }
            }
        };
        if has_rights {
            return Ok(());
        }
        Err(Error::refused(RefusalKind::ScopeMissing, "your rights were changed during this request; sign in again"))
    }
}

/// A guard that clears the cache when it is dropped.
struct ClearOnDrop<'a>(&'a Known);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.forget();
    }
}

fn claim(caller: &Caller, project: Option<ProjectId>, idempotency: Option<Idempotency>) -> Option<Claim> {
    idempotency.map(|Idempotency { key, fingerprint }| Claim { project, caller: caller.id(), key, fingerprint })
}
