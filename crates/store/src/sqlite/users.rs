//! Users of the dashboard, their sessions and their sign-in links.

use async_trait::async_trait;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{AuditEntry, SessionsToEnd, StoreError, UserStore};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, Session, SignInLink, TokenHash, User};
use rusqlite::{Connection, params, params_from_iter};

use super::SqliteStore;
use super::error::OpError;
use super::keys::audit;
use super::rows::collect;
use crate::rows;

#[async_trait]
impl UserStore for SqliteStore {
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
                let ended = end_sessions(db, which)?;
                if ended > 0 {
                    audit(db, &entry)?;
                }
                Ok::<_, OpError<StoreError>>(ended)
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

/// Deletes sessions, and returns their number.
pub(super) fn end_sessions(db: &Connection, which: SessionsToEnd) -> rusqlite::Result<usize> {
    match which {
        SessionsToEnd::One(hash) => db.prepare_cached("DELETE FROM sessions WHERE hash = ?1")?.execute([hash.0]),
        SessionsToEnd::AllOf(user) => {
            db.prepare_cached("DELETE FROM sessions WHERE owner = ?1")?.execute([user.to_string()])
        }
        SessionsToEnd::OthersOf(user, hash) => {
            let text = "DELETE FROM sessions WHERE owner = ?1 AND hash <> ?2";
            db.prepare_cached(text)?.execute(params![user.to_string(), hash.0])
        }
    }
}
