//! The store of users, their sessions, and their sign-in links.

use async_trait::async_trait;

use super::error::StoreError;
use crate::audit::AuditEntry;
use crate::ids::UserId;
use crate::time::Timestamp;
use crate::user::{Identity, Session, SessionsToEnd, SignInLink, TokenHash, User};

/// Stores the users of the dashboard, their sessions, and their sign-in links.
#[async_trait]
pub trait UserStore: Send + Sync {
    /// Returns all users, sorted by name.
    async fn users(&self) -> Result<Vec<User>, StoreError>;

    /// Finds a user.
    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError>;

    /// Finds a user by name.
    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError>;

    /// Finds a user by the identity at the OpenID provider.
    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError>;

    /// Finds a session, which may have expired, and its user.
    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError>;

    /// Returns the sessions of a user, the most recently used one first.
    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError>;

    /// Records the time of a use of a session.
    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError>;

    /// Ends sessions, and returns their number. The audit entry is written only if there were any.
    async fn end_sessions(&self, which: SessionsToEnd, audit: AuditEntry) -> Result<usize, StoreError>;

    /// Finds a link by the hash of its token.
    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError>;
}
