//! Users of the dashboard, their sessions and links.

use async_trait::async_trait;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{AuditEntry, PasswordChange, SessionsToEnd, StoreError, UserStore, UserWriteError};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, PasswordHash, Role, Session, SignInLink, TokenHash, User};
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::keys::audit;
use super::pipeline::{Call, call};
use crate::rows;

/// Writes of users come one after the other: that there is an administrator is about all of them.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('users', 0))";

/// Writes the line of the audit log, `$1` to `$5`, where the statement before it, called `done`, did anything.
macro_rules! noted {
    ($statement:literal) => {
        concat!(
            "WITH ",
            $statement,
            " INSERT INTO audit (at, actor, action, subject, address) SELECT $1, $2, $3, $4, $5 FROM done RETURNING 1"
        )
    };
}

#[async_trait]
impl UserStore for PostgresStore {
    async fn create_user(&self, user: User, entry: AuditEntry) -> Result<(), UserWriteError> {
        let insert = call!(
            noted!(
                "done AS (
                     INSERT INTO users (id, name, role, password, issuer, subject, created_at, disabled_at)
                     VALUES ($6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING RETURNING id
                 )"
            ),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
            user.id.to_string(),
            user.name.clone(),
            user.role.name(),
            user.password.map(|hash| hash.0),
            user.identity.as_ref().map(|identity| identity.issuer.clone()),
            user.identity.map(|identity| identity.subject),
            user.created_at.as_micros(),
            user.disabled_at.map(Timestamp::as_micros),
        );
        let answers = self.write(vec![call!(LOCK), insert]).await.map_err(StoreError::from)?;
        did(&answers, UserWriteError::Exists)
    }

    async fn set_role(&self, id: UserId, role: Role, entry: AuditEntry) -> Result<(), UserWriteError> {
        let id = id.to_string();
        let set = call!(
            noted!(
                "done AS (
                     UPDATE users SET role = $7 WHERE id = $6 AND (
                         $7 = 'administrator' OR role <> 'administrator' OR disabled_at IS NOT NULL
                         OR EXISTS (SELECT 1 FROM users
                                    WHERE id <> $6 AND role = 'administrator' AND disabled_at IS NULL)
                     ) RETURNING id
                 )"
            ),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
            id.clone(),
            role.name(),
        );
        // By the role that they have then: where it was refused nothing is.
        let revoke = call!(
            "UPDATE keys SET revoked_at = $2 FROM users
             WHERE keys.owner = $1 AND users.id = $1 AND revoked_at IS NULL
               AND (role = 'viewer' OR (role = 'member' AND projects IS NULL))",
            id.clone(),
            entry.at.as_micros(),
        );
        self.administer(id, set, vec![revoke]).await
    }

    async fn set_disabled(&self, id: UserId, disabled: bool, entry: AuditEntry) -> Result<(), UserWriteError> {
        let id = id.to_string();
        let set = call!(
            noted!(
                "done AS (
                     UPDATE users SET disabled_at = $7 WHERE id = $6 AND (
                         $7::bigint IS NULL OR role <> 'administrator' OR disabled_at IS NOT NULL
                         OR EXISTS (SELECT 1 FROM users
                                    WHERE id <> $6 AND role = 'administrator' AND disabled_at IS NULL)
                     ) RETURNING id
                 )"
            ),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
            id.clone(),
            disabled.then(|| entry.at.as_micros()),
        );
        let ended = [
            "DELETE FROM sessions USING users WHERE owner = $1 AND id = $1 AND disabled_at IS NOT NULL",
            "DELETE FROM links USING users WHERE owner = $1 AND id = $1 AND disabled_at IS NOT NULL",
        ];
        let mut calls: Vec<Call> = ended.map(|text| call!(text, id.clone())).into();
        calls.push(call!(
            "UPDATE keys SET revoked_at = $2 FROM users
             WHERE keys.owner = $1 AND users.id = $1 AND disabled_at IS NOT NULL AND revoked_at IS NULL",
            id.clone(),
            entry.at.as_micros(),
        ));
        self.administer(id, set, calls).await
    }

    async fn set_password(&self, id: UserId, change: PasswordChange, entry: AuditEntry) -> Result<(), UserWriteError> {
        let PasswordChange { from, to, keep } = change;
        let set = call!(
            noted!(
                "done AS (
                     UPDATE users SET password = $8
                     WHERE id = $6 AND password IS NOT DISTINCT FROM $7 AND disabled_at IS NULL RETURNING id
                 ), ended AS (
                     DELETE FROM sessions USING done WHERE owner = done.id AND hash <> $9
                 ), gone AS (
                     DELETE FROM links USING done WHERE owner = done.id
                 )"
            ),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
            id.to_string(),
            from.map(|hash| hash.0),
            to.0,
            keep.0.to_vec(),
        );
        let answers = self.write(vec![call!(LOCK), set]).await.map_err(StoreError::from)?;
        did(&answers, UserWriteError::Changed)
    }

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

    async fn start_session(
        &self,
        session: Session,
        password: Option<PasswordHash>,
        entry: AuditEntry,
    ) -> Result<(), UserWriteError> {
        let start = call!(
            noted!(
                "done AS (
                     UPDATE users SET signed_in_at = $8
                     WHERE id = $6 AND password IS NOT DISTINCT FROM $7 AND disabled_at IS NULL RETURNING id
                 ), started AS (
                     INSERT INTO sessions (hash, owner, created_at, seen_at, address, browser)
                     SELECT $9, id, $8, $10, $11, $12 FROM done
                 )"
            ),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
            session.user.to_string(),
            password.map(|hash| hash.0),
            session.created_at.as_micros(),
            session.hash.0.to_vec(),
            session.seen_at.as_micros(),
            session.address,
            session.browser,
        );
        let answers = self.write(vec![call!(LOCK), start]).await.map_err(StoreError::from)?;
        did(&answers, UserWriteError::Changed)
    }

    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError> {
        let calls = [
            call!("SELECT * FROM sessions WHERE hash = $1", hash.0.to_vec()),
            call!("SELECT users.* FROM users JOIN sessions ON owner = id WHERE hash = $1", hash.0.to_vec()),
        ];
        let found = self.read_all(&calls).await?;
        let first = |place: usize| found.get(place).and_then(|rows| rows.first());
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

    async fn create_link(&self, link: SignInLink, entry: AuditEntry) -> Result<(), StoreError> {
        let owner = link.user.map(|user| user.to_string());
        let calls = vec![
            call!("DELETE FROM links WHERE owner = $1", owner.clone()),
            call!(
                "INSERT INTO links (hash, owner, expires_at) VALUES ($1, $2, $3)",
                link.hash.0.to_vec(),
                owner,
                link.expires_at.as_micros()
            ),
            audit(&entry),
        ];
        self.write(calls).await?;
        Ok(())
    }

    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError> {
        let found = self.read(call!("SELECT * FROM links WHERE hash = $1", hash.0.to_vec())).await?;
        Ok(found.first().map(rows::link).transpose()?)
    }

    async fn use_link(&self, hash: TokenHash, user: User, entry: AuditEntry) -> Result<(), UserWriteError> {
        let put = call!(
            noted!(
                "found AS (
                     SELECT owner FROM links WHERE hash = $6 AND expires_at > $1
                 ), made AS (
                     INSERT INTO users (id, name, role, password, created_at)
                     SELECT $7, $8, $9, $10, $11 FROM found
                     WHERE owner IS NULL AND NOT EXISTS (
                         SELECT 1 FROM users WHERE role = 'administrator' AND disabled_at IS NULL
                     ) RETURNING id
                 ), changed AS (
                     UPDATE users SET password = $10 FROM found
                     WHERE id = $7 AND owner = $7 AND disabled_at IS NULL RETURNING id
                 ), done AS (
                     SELECT id FROM made UNION ALL SELECT id FROM changed
                 ), used AS (
                     DELETE FROM links USING done WHERE hash = $6 OR owner = done.id
                 ), ended AS (
                     DELETE FROM sessions USING done WHERE owner = done.id
                 )"
            ),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
            hash.0.to_vec(),
            user.id.to_string(),
            user.name.clone(),
            user.role.name(),
            user.password.map(|hash| hash.0),
            user.created_at.as_micros(),
        );
        match self.write(vec![call!(LOCK), put]).await {
            Ok(answers) => did(&answers, UserWriteError::LinkGone),
            Err(error) if error.is_taken() => Err(UserWriteError::Exists),
            Err(error) => Err(StoreError::from(error).into()),
        }
    }
}

impl PostgresStore {
    /// Writes what is refused where nobody would be left who may do everything, and what follows of it.
    async fn administer(&self, id: String, set: Call, then: Vec<Call>) -> Result<(), UserWriteError> {
        let mut calls = vec![call!(LOCK), call!("SELECT 1 FROM users WHERE id = $1", id), set];
        calls.extend(then);
        let answers = self.write(calls).await.map_err(StoreError::from)?;
        match answers.as_slice() {
            [_, known, ..] if known.is_empty() => Err(UserWriteError::NotFound),
            [_, _, done, ..] if done.is_empty() => Err(UserWriteError::LastAdministrator),
            _ => Ok(()),
        }
    }

    async fn one_user(&self, query: Call) -> Result<Option<User>, StoreError> {
        Ok(self.read(query).await?.first().map(rows::user).transpose()?)
    }
}

/// Whether the last statement did anything.
fn did(answers: &[Vec<Row>], otherwise: UserWriteError) -> Result<(), UserWriteError> {
    if answers.last().is_some_and(|rows| !rows.is_empty()) { Ok(()) } else { Err(otherwise) }
}
