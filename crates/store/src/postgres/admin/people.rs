//! The statements that store keys, users and their sessions.

use journeyman_core::key::ApiKey;
use journeyman_core::ports::{SessionsToEnd, StoreError};
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Session as SignedIn, User};

use super::number;
use crate::postgres::pipeline::{Call, call};
use crate::rows::to_json;

/// Returns the statement that stores a key.
pub(super) fn put_key(key: &ApiKey) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO keys (id, hash, name, prefix, scopes, projects, expires_at, allowed_ips, created_at, creator,
                           owner, revoked_at, version, grants, old_hash, old_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         ON CONFLICT (id) DO UPDATE SET hash = $2, prefix = $4, expires_at = $7, revoked_at = $12, version = $13,
                 old_hash = $15, old_until = $16",
        key.id.to_string(),
        key.hash.0.to_vec(),
        key.name.clone(),
        key.prefix.clone(),
        to_json(&key.scopes_for_older_versions())?,
        key.projects.as_ref().map(to_json).transpose()?,
        key.expires_at.map(Timestamp::as_micros),
        key.allowed_ips.as_ref().map(to_json).transpose()?,
        key.created_at.as_micros(),
        key.creator.clone(),
        key.owner.map(|owner| owner.to_string()),
        key.revoked_at.map(Timestamp::as_micros),
        number(key.version),
        to_json(&key.scopes)?,
        key.old_secret.map(|old| old.hash.0.to_vec()),
        key.old_secret.map(|old| old.until.as_micros()),
    ))
}

/// Returns the statement that stores a user.
pub(super) fn put_user(user: &User) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO users (id, name, role, password, issuer, subject, created_at, signed_in_at, disabled_at, version,
                            second_factor, passkeys)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (id) DO UPDATE
         SET role = $3, password = $4, issuer = $5, subject = $6, signed_in_at = $8, disabled_at = $9, version = $10,
             second_factor = $11, passkeys = $12",
        user.id.to_string(),
        user.name.clone(),
        user.role.name(),
        user.password.as_ref().map(|hash| hash.0.clone()),
        user.identity.as_ref().map(|identity| identity.issuer.clone()),
        user.identity.as_ref().map(|identity| identity.subject.clone()),
        user.created_at.as_micros(),
        user.signed_in_at.map(Timestamp::as_micros),
        user.disabled_at.map(Timestamp::as_micros),
        number(user.version),
        user.second_factor.as_ref().map(to_json).transpose()?,
        user.stored_passkeys().map(to_json).transpose()?,
    ))
}

/// Returns the statement that stores a session.
pub(super) fn put_session(session: &SignedIn) -> Call {
    call!(
        "INSERT INTO sessions (hash, owner, created_at, seen_at, address, browser, proven_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        session.hash.0.to_vec(),
        session.user.to_string(),
        session.created_at.as_micros(),
        session.seen_at.as_micros(),
        session.address.clone(),
        session.browser.clone(),
        session.proven_at.map(Timestamp::as_micros),
    )
}

/// Returns the statement that ends sessions.
pub(super) fn end_sessions(which: SessionsToEnd) -> Call {
    match which {
        SessionsToEnd::One(hash) => call!("DELETE FROM sessions WHERE hash = $1", hash.0.to_vec()),
        SessionsToEnd::AllOf(user) => call!("DELETE FROM sessions WHERE owner = $1", user.to_string()),
        SessionsToEnd::OthersOf(user, hash) => {
            call!("DELETE FROM sessions WHERE owner = $1 AND hash <> $2", user.to_string(), hash.0.to_vec())
        }
    }
}
