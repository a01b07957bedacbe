//! Users of the dashboard, their sessions and their sign-in links.

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{StoreError, UserStore};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, Session, SessionsToEnd, SignInLink, TokenHash, User};

use super::MemoryStore;

#[async_trait]
impl UserStore for MemoryStore {
    async fn users(&self) -> Result<Vec<User>, StoreError> {
        let mut users: Vec<User> = self.tables().users.values().cloned().collect();
        users.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(users)
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        Ok(self.tables().users.get(&id).cloned())
    }

    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError> {
        Ok(self.tables().users.values().find(|user| user.name == name).cloned())
    }

    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError> {
        Ok(self.tables().users.values().find(|user| user.identity.as_ref() == Some(&identity)).cloned())
    }

    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError> {
        let tables = self.tables();
        let Some(session) = tables.sessions.get(&hash) else { return Ok(None) };
        Ok(tables.users.get(&session.user).map(|user| (session.clone(), user.clone())))
    }

    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError> {
        let mut sessions: Vec<Session> =
            self.tables().sessions.values().filter(|session| session.user == user).cloned().collect();
        sessions.sort_by_key(|session| (std::cmp::Reverse(session.seen_at), session.hash));
        Ok(sessions)
    }

    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError> {
        if let Some(session) = self.tables().sessions.get_mut(&hash) {
            session.seen_at = session.seen_at.max(at);
        }
        Ok(())
    }

    async fn end_sessions(&self, which: SessionsToEnd, audit: AuditEntry) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let before = tables.sessions.len();
        tables.end_sessions(which);
        let ended = before - tables.sessions.len();
        if ended > 0 {
            tables.note(audit);
        }
        Ok(ended)
    }

    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError> {
        Ok(self.tables().links.get(&hash).cloned())
    }
}
