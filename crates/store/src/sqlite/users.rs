//! Users of the dashboard, their sessions and links.

use async_trait::async_trait;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{AuditEntry, SessionsToEnd, StoreError, UserStore, UserWriteError};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, Role, SESSION_IDLE, SESSION_LIFETIME, Session, SignInLink, TokenHash, User};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::SqliteStore;
use super::keys::audit;
use super::rows::collect;
use super::write::OpError;
use crate::rows;

type Op<T> = Result<T, OpError<UserWriteError>>;

#[async_trait]
impl UserStore for SqliteStore {
    async fn create_user(&self, user: User, entry: AuditEntry) -> Result<(), UserWriteError> {
        self.writer
            .write(move |db| {
                insert(db, &user)?;
                Ok(audit(db, &entry)?)
            })
            .await
    }

    async fn update_user(&self, user: User, entry: AuditEntry) -> Result<(), UserWriteError> {
        self.writer
            .write(move |db| {
                let id = user.id.to_string();
                let before = "SELECT role = 'administrator' AND disabled_at IS NULL FROM users WHERE id = ?1";
                let before = db.prepare_cached(before)?.query_row([&id], |row| row.get::<_, bool>(0)).optional()?;
                let Some(was_administrator) = before else { return Err(OpError::Refused(UserWriteError::NotFound)) };
                let stays = user.role == Role::Administrator && user.disabled_at.is_none();
                if was_administrator && !stays && !has_administrator(db, &id)? {
                    return Err(OpError::Refused(UserWriteError::LastAdministrator));
                }
                update(db, &user)?;
                if user.disabled_at.is_some() {
                    db.prepare_cached("DELETE FROM sessions WHERE owner = ?1")?.execute([&id])?;
                    db.prepare_cached("DELETE FROM links WHERE owner = ?1")?.execute([&id])?;
                    let revoke = "UPDATE keys SET revoked_at = ?2 WHERE creator = ?1 AND revoked_at IS NULL";
                    db.prepare_cached(revoke)?.execute(params![id, entry.at.as_micros()])?;
                }
                Ok(audit(db, &entry)?)
            })
            .await
    }

    async fn users(&self) -> Result<Vec<User>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached("SELECT * FROM users ORDER BY name")?;
                collect(&mut query.query([])?, |row| rows::user(row))
            })
            .await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.one_user("SELECT * FROM users WHERE id = ?1", [id.to_string()])
    }

    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError> {
        self.one_user("SELECT * FROM users WHERE name = ?1", [name])
    }

    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError> {
        let Identity { issuer, subject } = identity;
        self.one_user("SELECT * FROM users WHERE issuer = ?1 AND subject = ?2", [issuer, subject])
    }

    async fn start_session(&self, session: Session, entry: AuditEntry) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                let now = session.created_at;
                db.prepare_cached("DELETE FROM sessions WHERE created_at <= ?1 OR seen_at <= ?2")?
                    .execute([(now - SESSION_LIFETIME).as_micros(), (now - SESSION_IDLE).as_micros()])?;
                let owner = session.user.to_string();
                db.prepare_cached(
                    "INSERT INTO sessions (hash, owner, created_at, seen_at, address, browser)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    session.hash.0,
                    owner,
                    now.as_micros(),
                    session.seen_at.as_micros(),
                    session.address,
                    session.browser
                ])?;
                db.prepare_cached("UPDATE users SET signed_in_at = ?2 WHERE id = ?1")?
                    .execute(params![owner, now.as_micros()])?;
                Ok::<_, OpError<StoreError>>(audit(db, &entry)?)
            })
            .await
    }

    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM sessions WHERE hash = ?1")?;
            let mut found = query.query([hash.0])?;
            let Some(session) = found.next()?.map(rows::session).transpose()? else { return Ok(None) };
            let mut query = db.prepare_cached("SELECT * FROM users WHERE id = ?1")?;
            let mut found = query.query([session.user.to_string()])?;
            Ok(found.next()?.map(rows::user).transpose()?.map(|user| (session, user)))
        })
    }

    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError> {
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM sessions WHERE owner = ?1 ORDER BY seen_at DESC, hash";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([user.to_string()])?, |row| rows::session(row))
            })
            .await
    }

    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                let text = "UPDATE sessions SET seen_at = max(seen_at, ?2) WHERE hash = ?1";
                db.prepare_cached(text)?.execute(params![hash.0, at.as_micros()])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn end_sessions(&self, which: SessionsToEnd, entry: AuditEntry) -> Result<usize, StoreError> {
        self.writer
            .write(move |db| {
                let ended = match which {
                    SessionsToEnd::One(hash) => {
                        db.prepare_cached("DELETE FROM sessions WHERE hash = ?1")?.execute([hash.0])?
                    }
                    SessionsToEnd::AllOf(user) => {
                        db.prepare_cached("DELETE FROM sessions WHERE owner = ?1")?.execute([user.to_string()])?
                    }
                    SessionsToEnd::OthersOf(user, hash) => {
                        let text = "DELETE FROM sessions WHERE owner = ?1 AND hash <> ?2";
                        db.prepare_cached(text)?.execute(params![user.to_string(), hash.0])?
                    }
                };
                if ended > 0 {
                    audit(db, &entry)?;
                }
                Ok::<_, OpError<StoreError>>(ended)
            })
            .await
    }

    async fn create_link(&self, link: SignInLink, entry: AuditEntry) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                let owner = link.user.map(|user| user.to_string());
                let text = "DELETE FROM links WHERE expires_at <= ?1 OR owner = ?2";
                db.prepare_cached(text)?.execute(params![entry.at.as_micros(), owner])?;
                db.prepare_cached("INSERT INTO links (hash, owner, expires_at) VALUES (?1, ?2, ?3)")?
                    .execute(params![link.hash.0, owner, link.expires_at.as_micros()])?;
                Ok::<_, OpError<StoreError>>(audit(db, &entry)?)
            })
            .await
    }

    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM links WHERE hash = ?1")?;
            let mut found = query.query([hash.0])?;
            found.next()?.map(rows::link).transpose()
        })
    }

    async fn use_link(&self, hash: TokenHash, user: User, entry: AuditEntry) -> Result<(), UserWriteError> {
        self.writer
            .write(move |db| {
                let text = "SELECT owner FROM links WHERE hash = ?1 AND expires_at > ?2";
                let owner = db
                    .prepare_cached(text)?
                    .query_row(params![hash.0, entry.at.as_micros()], |row| row.get::<_, Option<String>>(0))
                    .optional()?;
                match owner {
                    Some(Some(owner)) if owner == user.id.to_string() => {
                        update(db, &user)?;
                        db.prepare_cached("DELETE FROM sessions WHERE owner = ?1")?.execute([owner])?;
                    }
                    Some(None) if !has_administrator(db, "")? => insert(db, &user)?,
                    _ => return Err(OpError::Refused(UserWriteError::LinkGone)),
                }
                db.prepare_cached("DELETE FROM links WHERE hash = ?1")?.execute([hash.0])?;
                Ok(audit(db, &entry)?)
            })
            .await
    }
}

impl SqliteStore {
    fn one_user<const N: usize>(&self, text: &str, values: [String; N]) -> Result<Option<User>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached(text)?;
            let mut found = query.query(params_from_iter(&values))?;
            found.next()?.map(rows::user).transpose()
        })
    }
}

/// Whether there is one beside the user of that id.
fn has_administrator(db: &Connection, but: &str) -> rusqlite::Result<bool> {
    let text = "SELECT 1 FROM users WHERE role = 'administrator' AND disabled_at IS NULL AND id <> ?1";
    db.prepare_cached(text)?.exists([but])
}

fn insert(db: &Connection, user: &User) -> Op<()> {
    let inserted = db
        .prepare_cached(
            "INSERT INTO users (id, name, role, password, issuer, subject, created_at, disabled_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            user.id.to_string(),
            user.name,
            user.role.name(),
            user.password.as_ref().map(|hash| &hash.0),
            user.identity.as_ref().map(|identity| &identity.issuer),
            user.identity.as_ref().map(|identity| &identity.subject),
            user.created_at.as_micros(),
            user.disabled_at.map(Timestamp::as_micros),
        ])?;
    if inserted == 0 { Err(OpError::Refused(UserWriteError::Exists)) } else { Ok(()) }
}

fn update(db: &Connection, user: &User) -> Op<()> {
    db.prepare_cached(
        "UPDATE users SET role = ?2, password = ?3, issuer = ?4, subject = ?5, disabled_at = ?6 WHERE id = ?1",
    )?
    .execute(params![
        user.id.to_string(),
        user.role.name(),
        user.password.as_ref().map(|hash| &hash.0),
        user.identity.as_ref().map(|identity| &identity.issuer),
        user.identity.as_ref().map(|identity| &identity.subject),
        user.disabled_at.map(Timestamp::as_micros),
    ])?;
    Ok(())
}
