//! The signed-in user of a request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::extract::rejection::ExtensionRejection;
use axum::http::request::Parts;
use journeyman_app::Caller;
use journeyman_core::audit::AuditEntry;
use journeyman_core::key::Scope;
use journeyman_core::time::Timestamp;
use journeyman_core::trace::TraceParent;
use journeyman_core::user::{Role, TokenHash, User, is_fresh};

use crate::Shared;

/// The IP address of the client. The outer layer determines it and adds it to the request's extensions.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientAddress(pub Option<IpAddr>);

/// A signed-in user.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// The user.
    pub user: Arc<User>,
    /// The hash that identifies the session.
    pub session: TokenHash,
    /// The time at which the user last proved who they are in the session, if it is known.
    pub proven_at: Option<Timestamp>,
    /// The IP address of the client, if it is known.
    pub address: Option<IpAddr>,
    /// The trace context of the request, which the outer layer adds to the request's extensions.
    pub traceparent: Option<TraceParent>,
}

impl Viewer {
    /// Returns true if the role permits changes.
    pub(crate) fn can_write(&self) -> bool {
        self.user.role.scope() == Scope::Write
    }

    /// Returns true if the user is an administrator.
    pub(crate) fn is_administrator(&self) -> bool {
        self.user.role == Role::Administrator
    }

    /// Returns the user as the caller of a use case.
    pub(crate) fn caller(&self) -> Caller {
        let traceparent = self.traceparent.clone();
        Caller { traceparent, ..Caller::user(Arc::clone(&self.user), self.address) }
    }

    /// Returns true if the user proved who they are a short time ago.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        is_fresh(self.proven_at, now)
    }

    /// Creates an audit log entry for an action of this user.
    pub(crate) fn audit(&self, at: Timestamp, action: &str, subject: impl ToString) -> AuditEntry {
        audit(at, self.user.id, action, subject, self.address)
    }
}

/// Creates an audit log entry.
pub(crate) fn audit(
    at: Timestamp,
    actor: impl ToString,
    action: &str,
    subject: impl ToString,
    address: Option<IpAddr>,
) -> AuditEntry {
    AuditEntry {
        at,
        actor: actor.to_string(),
        action: action.to_owned(),
        subject: subject.to_string(),
        address: address.map(|address| address.to_string()),
    }
}

impl FromRequestParts<Shared> for Viewer {
    /// The error of a route without the session layer. It is a bug, and results in status 500.
    type Rejection = ExtensionRejection;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Self::Rejection> {
        Extension::<Self>::from_request_parts(parts, shared).await.map(|Extension(viewer)| viewer)
    }
}

impl FromRequestParts<Shared> for ClientAddress {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get().copied().unwrap_or_default())
    }
}
