//! Users of the dashboard, their sessions and links.

use async_trait::async_trait;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{AuditEntry, SessionsToEnd, StoreError, UserStore, UserWriteError};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, Role, Session, SignInLink, TokenHash, User};

use super::{MemoryStore, Tables};

#[async_trait]
impl UserStore for MemoryStore {
    async fn create_user(&self, user: User, audit: AuditEntry) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        tables.insert_user(user)?;
        tables.note(audit);
        Ok(())
    }

    async fn update_user(&self, user: User, audit: AuditEntry) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        let before = tables.users.get(&user.id).cloned().ok_or(UserWriteError::NotFound)?;
        let is_disabled = user.disabled_at.is_some();
        let id = user.id;
        tables.change_user(&before, user);
        if is_administrator(&before) && !tables.users.values().any(is_administrator) {
            tables.users.insert(id, before);
            return Err(UserWriteError::LastAdministrator);
        }
        if is_disabled {
            tables.sessions.retain(|_, session| session.user != id);
            tables.links.retain(|_, link| link.user != Some(id));
            let creator = Some(id.to_string());
            let own = tables.keys.values_mut().filter(|key| key.creator == creator && key.revoked_at.is_none());
            own.for_each(|key| key.revoked_at = Some(audit.at));
        }
        tables.note(audit);
        Ok(())
    }

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

    async fn start_session(&self, session: Session, audit: AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let now = session.created_at;
        tables.sessions.retain(|_, session| session.expires_at() > now);
        if let Some(user) = tables.users.get_mut(&session.user) {
            user.signed_in_at = Some(now);
        }
        tables.sessions.insert(session.hash, session);
        tables.note(audit);
        Ok(())
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
        tables.sessions.retain(|hash, session| match which {
            SessionsToEnd::One(ended) => *hash != ended,
            SessionsToEnd::AllOf(user) => session.user != user,
            SessionsToEnd::OthersOf(user, kept) => session.user != user || *hash == kept,
        });
        let ended = before - tables.sessions.len();
        if ended > 0 {
            tables.note(audit);
        }
        Ok(ended)
    }

    async fn create_link(&self, link: SignInLink, audit: AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.links.retain(|_, old| old.expires_at > audit.at && (link.user.is_none() || old.user != link.user));
        tables.links.insert(link.hash, link);
        tables.note(audit);
        Ok(())
    }

    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError> {
        Ok(self.tables().links.get(&hash).cloned())
    }

    async fn use_link(&self, hash: TokenHash, user: User, audit: AuditEntry) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        let link = tables.links.get(&hash).filter(|link| link.expires_at > audit.at).cloned();
        let link = link.ok_or(UserWriteError::LinkGone)?;
        match link.user {
            Some(owner) if owner == user.id => {
                let before = tables.users.get(&owner).cloned().ok_or(UserWriteError::LinkGone)?;
                tables.change_user(&before, user);
                tables.sessions.retain(|_, session| session.user != owner);
            }
            None if !tables.users.values().any(is_administrator) => tables.insert_user(user)?,
            _ => return Err(UserWriteError::LinkGone),
        }
        tables.links.remove(&hash);
        tables.note(audit);
        Ok(())
    }
}

impl Tables {
    fn insert_user(&mut self, user: User) -> Result<(), UserWriteError> {
        let taken = |other: &User| {
            other.id == user.id
                || other.name == user.name
                || (user.identity.is_some() && other.identity == user.identity)
        };
        if self.users.values().any(taken) {
            return Err(UserWriteError::Exists);
        }
        self.users.insert(user.id, User { signed_in_at: None, ..user });
        Ok(())
    }

    /// What is fixed stays.
    fn change_user(&mut self, before: &User, user: User) {
        let User { name, created_at, signed_in_at, .. } = before.clone();
        self.users.insert(user.id, User { name, created_at, signed_in_at, ..user });
    }
}

fn is_administrator(user: &User) -> bool {
    user.role == Role::Administrator && user.disabled_at.is_none()
}
