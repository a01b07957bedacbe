//! Use cases: what callers can do with jobs, projects, keys, users, and pull requests of the built-in code host.
//!
//! A use case checks the permission of its [`Caller`] and the validity of the request, and then makes one decision in
//! one transaction, together with its audit entry and its idempotency key. The decisions themselves are pure functions
//! in `journeyman-core`. The HTTP interface, the dashboard and the command line are thin layers over this crate.

mod caller;
mod error;
mod jobs;
mod keys;
mod known;
mod outbox;
mod projects;
mod pulls;
mod users;

use std::sync::Arc;

use journeyman_core::admin::{AdminError, Once, Subject};
use journeyman_core::agent::Agents;
use journeyman_core::engine::Engine;
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{Administered, AuditEntry, DecideAdmin, Forges, PullPages, Store};
use journeyman_core::time::IdGen;

pub use caller::{Actor, Caller};
pub use error::{Error, Refusal, RefusalKind};
pub use jobs::{JobRequest, MessageRequest};
pub use keys::CreatedKey;
pub use known::{FRESH, Known};
pub use outbox::Outbox;
pub use projects::{ProjectEdit, Tested};
pub use pulls::Commented;
pub use users::NewPassword;

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

impl UseCases {
    /// Returns the use cases over these ports.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner { parts, known: Known::default() }))
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

    /// Returns the stored answer of an earlier request with the same idempotency key. A request that is repeated must
    /// not be checked again: its project or agent may no longer exist.
    async fn replay(&self, claim: Option<&Claim>) -> Result<Option<String>, Error> {
        let Some(claim) = claim else { return Ok(None) };
        Ok(self.parts().store.answered(claim.clone(), self.parts().engine.now()).await?)
    }

    /// Carries out a change of projects, keys, users or pull requests, and drops what this process has cached of them.
    #[tracing::instrument(name = "command", level = "debug", skip_all, fields(otel.name = "administer"))]
    async fn administer(
        &self,
        subject: Subject,
        once: Option<Once>,
        decide: DecideAdmin,
    ) -> Result<Administered, AdminError> {
        // Also if the request is dropped, because its client has gone.
        let _forgetting = Forgetting(&self.0.known);
        self.parts().store.administer(subject, once, self.parts().engine.now(), decide).await
    }

    /// Checks that the caller still has the rights that it was authenticated with. Reading the body of a request can
    /// take long, and a change may take the rights away meanwhile.
    async fn confirm(&self, caller: &Caller) -> Result<(), Error> {
        let store = &self.parts().store;
        let has_rights = match &caller.actor {
            Actor::CommandLine => true,
            Actor::User(user) => store
                .user(user.id)
                .await?
                .is_some_and(|current| current.disabled_at.is_none() && current.role == user.role),
            Actor::Key(key) => store.key_by_hash(key.hash).await?.is_some_and(|current| current.revoked_at.is_none()),
        };
        if has_rights {
            return Ok(());
        }
        Err(Error::refused(RefusalKind::ReadOnly, "your rights were changed during this request; sign in again"))
    }
}

/// Clears a cache when it is dropped.
struct Forgetting<'a>(&'a Known);

impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        self.0.forget();
    }
}

fn claim(caller: &Caller, project: Option<ProjectId>, idempotency: Option<Idempotency>) -> Option<Claim> {
    idempotency.map(|Idempotency { key, fingerprint }| Claim { project, caller: caller.id(), key, fingerprint })
}
