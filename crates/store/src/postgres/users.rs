//! Users of the dashboard, their sessions and their sign-in links.

use async_trait::async_trait;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{AuditEntry, SessionsToEnd, StoreError, UserStore};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, Session, SignInLink, TokenHash, User};

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows;

#[async_trait]
impl UserStore for PostgresStore {
    async fn users(&self) -> Result<Vec<User>, StoreError> {
        let found = self.read(call!("SELECT * FROM users ORDER BY name COLLATE \"C\"")).await?;
        Ok(found.iter().map(rows::user).collect::<Result<_, PgError>>()?)
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.one_user(call!("SELECT * FROM users WHERE id = $1", id.to_string())).await
    }

    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError> {
        self.one_user(call!("SELECT * FROM users WHERE name = $1", name)).await
    }

    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError> {
        let Identity { issuer, subject } = identity;
        self.one_user(call!("SELECT * FROM users WHERE issuer = $1 AND subject = $2", issuer, subject)).await
    }

    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError> {
        let calls = [
            call!("SELECT * FROM sessions WHERE hash = $1", hash.0.to_vec()),
            call!("SELECT users.* FROM users JOIN sessions ON owner = id WHERE hash = $1", hash.0.to_vec()),
        ];
        let found = self.read_all(&calls).await?;
        let first = |index: usize| found.get(index).and_then(|rows| rows.first());
        let session = first(0).map(rows::session).transpose()?;
        Ok(session.zip(first(1).map(rows::user).transpose()?))
    }

    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError> {
        let text = "SELECT * FROM sessions WHERE owner = $1 ORDER BY seen_at DESC, hash";
        let found = self.read(call!(text, user.to_string())).await?;
        Ok(found.iter().map(rows::session).collect::<Result<_, PgError>>()?)
    }

    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError> {
        let text = "UPDATE sessions SET seen_at = greatest(seen_at, $2) WHERE hash = $1";
        self.write(vec![call!(text, hash.0.to_vec(), at.as_micros())]).await?;
        Ok(())
    }

    async fn end_sessions(&self, which: SessionsToEnd, entry: AuditEntry) -> Result<usize, StoreError> {
        let (one, of, but) = match which {
            SessionsToEnd::One(hash) => (Some(hash), None, None),
            SessionsToEnd::AllOf(user) => (None, Some(user), None),
            SessionsToEnd::OthersOf(user, hash) => (None, Some(user), Some(hash)),
        };
        let bytes = |hash: Option<TokenHash>| hash.map(|hash| hash.0.to_vec());
        let end = call!(
            "WITH ended AS (
                 DELETE FROM sessions
                 WHERE (hash = $6 OR owner = $7) AND ($8::bytea IS NULL OR hash <> $8) RETURNING hash
             ), noted AS (
                 INSERT INTO audit (at, actor, action, subject, address)
                 SELECT $1, $2, $3, $4, $5 FROM ended LIMIT 1
             )
             SELECT 1 FROM ended",
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
            bytes(one),
            of.map(|user| user.to_string()),
            bytes(but),
        );
        Ok(self.write(vec![end]).await?.pop().map_or(0, |rows| rows.len()))
    }

    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError> {
        let found = self.read(call!("SELECT * FROM links WHERE hash = $1", hash.0.to_vec())).await?;
        Ok(found.first().map(rows::link).transpose()?)
    }
}

impl PostgresStore {
    async fn one_user(&self, query: Call) -> Result<Option<User>, StoreError> {
        Ok(self.read(query).await?.first().map(rows::user).transpose()?)
    }
}
