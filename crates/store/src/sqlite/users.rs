//! Users of the dashboard, their sessions and links.

use async_trait::async_trait;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{AuditEntry, PasswordChange, SessionsToEnd, StoreError, UserStore, UserWriteError};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};
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

    async fn set_role(&self, id: UserId, role: Role, entry: AuditEntry) -> Result<(), UserWriteError> {
        self.writer
            .write(move |db| {
                let id = id.to_string();
                stays_administered(db, &id, role != Role::Administrator)?;
                db.prepare_cached("UPDATE users SET role = ?2 WHERE id = ?1")?.execute([&id, role.name()])?;
                let which = match role {
                    Role::Administrator => "0",
                    Role::Member => "projects IS NULL",
                    Role::Viewer => "1",
                };
                revoke(db, &id, which, entry.at)?;
                Ok(audit(db, &entry)?)
            })
            .await
    }

    async fn set_disabled(&self, id: UserId, disabled: bool, entry: AuditEntry) -> Result<(), UserWriteError> {
        self.writer
            .write(move |db| {
                let id = id.to_string();
                stays_administered(db, &id, disabled)?;
                let since = disabled.then(|| entry.at.as_micros());
                db.prepare_cached("UPDATE users SET disabled_at = ?2 WHERE id = ?1")?.execute(params![id, since])?;
                if disabled {
                    end_all(db, &id, None)?;
                    revoke(db, &id, "1", entry.at)?;
                }
                Ok(audit(db, &entry)?)
            })
            .await
    }

    async fn set_password(&self, id: UserId, change: PasswordChange, entry: AuditEntry) -> Result<(), UserWriteError> {
        self.writer
            .write(move |db| {
                let (id, PasswordChange { from, to, keep }) = (id.to_string(), change.clone());
                let text = "UPDATE users SET password = ?3 WHERE id = ?1 AND password IS ?2 AND disabled_at IS NULL";
                let changed = db.prepare_cached(text)?.execute(params![id, from.map(|hash| hash.0), to.0])?;
                if changed == 0 {
                    return Err(OpError::Refused(UserWriteError::Changed));
                }
                end_all(db, &id, Some(keep))?;
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

    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        entry: AuditEntry,
    ) -> Result<(), UserWriteError> {
        self.writer
            .write(move |db| {
                let (owner, now) = (session.user.to_string(), session.created_at.as_micros());
                let text = "UPDATE users SET signed_in_at = ?3
                     WHERE id = ?1 AND password IS ?2 AND disabled_at IS NULL";
                let password = password.as_ref().map(|hash| &hash.0);
                if db.prepare_cached(text)?.execute(params![owner, password, now])? == 0 {
                    return Err(OpError::Refused(UserWriteError::Changed));
                }
                db.prepare_cached(
                    "INSERT INTO sessions (hash, owner, created_at, seen_at, address, browser)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    session.hash.0,
                    owner,
                    now,
                    session.seen_at.as_micros(),
                    session.address,
                    session.browser
                ])?;
                Ok(audit(db, &entry)?)
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
                db.prepare_cached("DELETE FROM links WHERE owner = ?1")?.execute([&owner])?;
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
                        let text = "UPDATE users SET password = ?2 WHERE id = ?1 AND disabled_at IS NULL";
                        let password = user.password.as_ref().map(|hash| &hash.0);
                        if db.prepare_cached(text)?.execute(params![owner, password])? == 0 {
                            return Err(OpError::Refused(UserWriteError::LinkGone));
                        }
                        end_all(db, &owner, None)?;
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

/// Refuses what would take the last administrator away who may sign in, where it `takes` that from the user.
fn stays_administered(db: &Connection, id: &str, takes: bool) -> Op<()> {
    let is_one = "SELECT role = 'administrator' AND disabled_at IS NULL FROM users WHERE id = ?1";
    let is_one = db.prepare_cached(is_one)?.query_row([id], |row| row.get::<_, bool>(0)).optional()?;
    match is_one {
        None => Err(OpError::Refused(UserWriteError::NotFound)),
        Some(true) if takes && !has_administrator(db, id)? => Err(OpError::Refused(UserWriteError::LastAdministrator)),
        Some(_) => Ok(()),
    }
}

/// Ends a user's sessions but one, and their links.
fn end_all(db: &Connection, id: &str, keep: Option<TokenHash>) -> rusqlite::Result<()> {
    let text = "DELETE FROM sessions WHERE owner = ?1 AND hash IS NOT ?2";
    db.prepare_cached(text)?.execute(params![id, keep.map(|hash| hash.0)])?;
    db.prepare_cached("DELETE FROM links WHERE owner = ?1")?.execute([id])?;
    Ok(())
}

/// Revokes those of a user's keys for which `which` holds.
fn revoke(db: &Connection, id: &str, which: &'static str, at: Timestamp) -> rusqlite::Result<()> {
    let text = format!("UPDATE keys SET revoked_at = ?2 WHERE owner = ?1 AND revoked_at IS NULL AND {which}");
    db.prepare_cached(&text)?.execute(params![id, at.as_micros()])?;
    Ok(())
}
