//! Who looks at a page.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::extract::rejection::ExtensionRejection;
use axum::http::request::Parts;
use journeyman_core::key::Scope;
use journeyman_core::ports::AuditEntry;
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Role, TokenHash, User};

use crate::Shared;

/// The address that a request came from, as the outer layer found out; put into the request's extensions.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientAddress(pub Option<IpAddr>);

/// Somebody who has signed in.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// Who.
    pub user: Arc<User>,
    /// By which session.
    pub session: TokenHash,
    /// Where from.
    pub address: Option<IpAddr>,
}

impl Viewer {
    /// Whether they may do more than look.
    pub(crate) fn can_write(&self) -> bool {
        self.user.role.scope() == Scope::Write
    }

    /// Whether they may do everything.
    pub(crate) fn is_administrator(&self) -> bool {
        self.user.role == Role::Administrator
    }

    /// A line of the audit log about what they do.
    pub(crate) fn audit(&self, at: Timestamp, action: &str, subject: impl ToString) -> AuditEntry {
        audit(at, self.user.id, action, subject, self.address)
    }
}

/// A line of the audit log.
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
    /// The session's layer is missing: a fault of the wiring, which answers 500.
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
