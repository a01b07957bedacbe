//! Users of the dashboard, their sessions and links.

use async_trait::async_trait;
use journeyman_core::ids::UserId;
use journeyman_core::key::ApiKey;
use journeyman_core::ports::{AuditEntry, PasswordChange, SessionsToEnd, StoreError, UserStore, UserWriteError};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};

use super::{MemoryStore, Tables};

#[async_trait]
impl UserStore for MemoryStore {
    async fn create_user(&self, user: User, audit: AuditEntry) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        tables.insert_user(user)?;
        tables.note(audit);
        Ok(())
    }

    async fn set_role(&self, id: UserId, role: Role, audit: AuditEntry) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        tables.administer(id, role != Role::Administrator)?.role = role;
        tables.revoke_keys(id, audit.at, |key| match role {
            Role::Administrator => false,
            Role::Member => key.projects.is_none(),
            Role::Viewer => true,
        });
        tables.note(audit);
        Ok(())
    }

    async fn set_disabled(&self, id: UserId, disabled: bool, audit: AuditEntry) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        tables.administer(id, disabled)?.disabled_at = disabled.then_some(audit.at);
        if disabled {
            tables.end_all(id, None);
            tables.revoke_keys(id, audit.at, |_| true);
        }
        tables.note(audit);
        Ok(())
    }

    async fn set_password(&self, id: UserId, change: PasswordChange, audit: AuditEntry) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        tables.unchanged(id, change.from.as_ref())?.password = Some(change.to);
        tables.end_all(id, Some(change.keep));
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

    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        audit: AuditEntry,
    ) -> Result<(), UserWriteError> {
        let mut tables = self.tables();
        tables.unchanged(session.user, password.as_ref())?.signed_in_at = Some(session.created_at);
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
        tables.links.retain(|_, old| link.user.is_none() || old.user != link.user);
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
                let found = tables.users.get_mut(&owner).filter(|found| found.disabled_at.is_none());
                found.ok_or(UserWriteError::LinkGone)?.password = user.password;
                tables.end_all(owner, None);
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

    /// The user, unless this takes the last administrator away who may sign in.
    fn administer(&mut self, id: UserId, takes: bool) -> Result<&mut User, UserWriteError> {
        let user = self.users.get(&id).ok_or(UserWriteError::NotFound)?;
        let others = self.users.values().any(|other| other.id != id && is_administrator(other));
        if takes && is_administrator(user) && !others {
            return Err(UserWriteError::LastAdministrator);
        }
        self.users.get_mut(&id).ok_or(UserWriteError::NotFound)
    }

    /// The user, if they may still sign in with that password.
    fn unchanged(&mut self, id: UserId, password: Option<&PasswordHash>) -> Result<&mut User, UserWriteError> {
        let user = self.users.get_mut(&id).filter(|user| user.disabled_at.is_none());
        user.filter(|user| user.password.as_ref() == password).ok_or(UserWriteError::Changed)
    }

    fn end_all(&mut self, id: UserId, keep: Option<TokenHash>) {
        self.sessions.retain(|hash, session| session.user != id || Some(*hash) == keep);
        self.links.retain(|_, link| link.user != Some(id));
    }

    fn revoke_keys(&mut self, id: UserId, at: Timestamp, which: impl Fn(&ApiKey) -> bool) {
        let own = self.keys.values_mut().filter(|key| key.owner == Some(id) && key.revoked_at.is_none());
        own.filter(|key| which(key)).for_each(|key| key.revoked_at = Some(at));
    }
}

fn is_administrator(user: &User) -> bool {
    user.role == Role::Administrator && user.disabled_at.is_none()
}
