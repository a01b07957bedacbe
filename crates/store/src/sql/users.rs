//! Users of the dashboard, their sessions and their sign-in links.

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{StoreError, UserStore};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, Session, SessionsToEnd, SignInLink, TokenHash, User};

use super::{Database, DbError, SqlStore, Statement, Tx, audit, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl<B: Database> UserStore for SqlStore<B> {
    async fn users(&self) -> Result<Vec<User>, StoreError> {
        self.all(sql!("SELECT * FROM users ORDER BY name COLLATE \"C\""), rows::user).await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        self.find(sql!("SELECT * FROM users WHERE id = $1", id.to_string()), rows::user).await
    }

    async fn user_by_name(&self, name: String) -> Result<Option<User>, StoreError> {
        self.find(sql!("SELECT * FROM users WHERE name = $1", name), rows::user).await
    }

    async fn user_by_identity(&self, identity: Identity) -> Result<Option<User>, StoreError> {
        let Identity { issuer, subject } = identity;
        self.find(sql!("SELECT * FROM users WHERE issuer = $1 AND subject = $2", issuer, subject), rows::user).await
    }

    async fn session(&self, hash: TokenHash) -> Result<Option<(Session, User)>, StoreError> {
        let query = sql!(
            "SELECT users.*, hash, owner, sessions.created_at AS begun_at, seen_at, proven_at, address, browser
             FROM sessions JOIN users ON users.id = sessions.owner WHERE hash = $1",
            hash.0,
        );
        self.find(query, rows::session_with_user).await
    }

    async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError> {
        let query = sql!("SELECT * FROM sessions WHERE owner = $1 ORDER BY seen_at DESC, hash", user.to_string());
        self.all(query, rows::session).await
    }

    async fn session_seen(&self, hash: TokenHash, at: Timestamp) -> Result<(), StoreError> {
        self.run(vec![sql!("UPDATE sessions SET seen_at = greatest(seen_at, $2) WHERE hash = $1", hash.0, at)]).await?;
        Ok(())
    }

    async fn end_sessions(&self, which: SessionsToEnd, entry: AuditEntry) -> Result<usize, StoreError> {
        self.transact(move |tx| Box::pin(end_and_note(tx, which, entry.clone()))).await
    }

    async fn link(&self, hash: TokenHash) -> Result<Option<SignInLink>, StoreError> {
        self.find(sql!("SELECT * FROM links WHERE hash = $1", hash.0), rows::link).await
    }
}

/// Deletes sessions, and returns their number. Inserts the audit entry if there were any.
async fn end_and_note(tx: &mut (dyn Tx + '_), which: SessionsToEnd, entry: AuditEntry) -> Result<usize, DbError> {
    let ended = tx.query(end_sessions(which)).await?.len();
    if ended > 0 {
        tx.execute(audit::note(&entry)).await?;
    }
    Ok(ended)
}

/// Returns the statement that deletes sessions, and returns a row for each.
pub(crate) fn end_sessions(which: SessionsToEnd) -> Statement {
    match which {
        SessionsToEnd::One(hash) => sql!("DELETE FROM sessions WHERE hash = $1 RETURNING 1", hash.0),
        SessionsToEnd::AllOf(user) => sql!("DELETE FROM sessions WHERE owner = $1 RETURNING 1", user.to_string()),
        SessionsToEnd::OthersOf(user, hash) => {
            sql!("DELETE FROM sessions WHERE owner = $1 AND hash <> $2 RETURNING 1", user.to_string(), hash.0)
        }
    }
}

/// Returns the statement that stores a user. The name of a user does not change.
pub(crate) fn put(user: &User) -> Result<Statement, StoreError> {
    Ok(sql!(
        "INSERT INTO users (id, name, role, password, issuer, subject, created_at, signed_in_at, disabled_at, version,
                            second_factor, passkeys)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (id) DO UPDATE
         SET role = $3, password = $4, issuer = $5, subject = $6, signed_in_at = $8, disabled_at = $9, version = $10,
             second_factor = $11, passkeys = $12",
        user.id.to_string(),
        &user.name,
        user.role.name(),
        user.password.as_ref().map(|hash| &hash.0),
        user.identity.as_ref().map(|identity| &identity.issuer),
        user.identity.as_ref().map(|identity| &identity.subject),
        user.created_at,
        user.signed_in_at,
        user.disabled_at,
        user.version,
        user.second_factor.as_ref().map(to_json).transpose()?,
        user.stored_passkeys().map(to_json).transpose()?,
    ))
}

/// Returns the statement that stores a new session.
pub(crate) fn put_session(session: &Session) -> Statement {
    sql!(
        "INSERT INTO sessions (hash, owner, created_at, seen_at, address, browser, proven_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        session.hash.0,
        session.user.to_string(),
        session.created_at,
        session.seen_at,
        session.address.as_ref(),
        session.browser.as_ref(),
        session.proven_at,
    )
}

/// Returns the statement that stores the time of the last proof of identity in a session.
pub(crate) fn prove_session(hash: TokenHash, at: Timestamp) -> Statement {
    sql!("UPDATE sessions SET proven_at = $2 WHERE hash = $1", hash.0, at)
}

/// Returns the statement that stores a new sign-in link.
pub(crate) fn put_link(link: &SignInLink) -> Statement {
    sql!(
        "INSERT INTO links (hash, owner, expires_at) VALUES ($1, $2, $3)",
        link.hash.0,
        link.user.map(|user| user.to_string()),
        link.expires_at,
    )
}

/// Returns the statement that deletes a sign-in link.
pub(crate) fn remove_link(hash: TokenHash) -> Statement {
    sql!("DELETE FROM links WHERE hash = $1", hash.0)
}

/// Returns the statement that deletes the sign-in links of a user.
pub(crate) fn remove_links_of(user: UserId) -> Statement {
    sql!("DELETE FROM links WHERE owner = $1", user.to_string())
}
