//! The store of users, their sessions, and their sign-in links.

use async_trait::async_trait;

use super::{AuditEntry, StoreError};
use crate::ids::UserId;
use crate::time::Timestamp;
use crate::user::{Identity, Session, SignInLink, TokenHash, User};

/// Sessions that are to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionsToEnd {
    /// This one.
    One(TokenHash),
    /// All of a user.
    AllOf(UserId),
    /// All of a user but this one.
    OthersOf(UserId, TokenHash),
}

/// Users of the dashboard, their sessions, and links by which they set a password.
#[async_trait]
pub trait UserStore: Send + Sync {
    /// All users by name.
    async fn users(&self) -> Result<Vec<User>, StoreError>;

    /// One user.
    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError>;

    /// The user with that name.
    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError>;

    /// The user who is that at the provider.
    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError>;

    /// The session with that hash and its user, whether it is over or not.
    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError>;

    /// A user's sessions, the one that was used last first.
    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError>;

    /// Notes that a session was used.
    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError>;

    /// Ends sessions; how many there were.
    async fn end_sessions(&self, which: SessionsToEnd, audit: AuditEntry) -> Result<usize, StoreError>;

    /// Stores a link; earlier ones of the same user are gone.
    async fn create_link(&self, link: SignInLink, audit: AuditEntry) -> Result<(), StoreError>;

    /// The link with that hash.
    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError>;
}
