//! The statements that store keys.

use journeyman_core::key::ApiKey;
use journeyman_core::ports::StoreError;
use journeyman_core::time::Timestamp;

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
