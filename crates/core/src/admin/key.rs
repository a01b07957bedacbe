//! Decisions on the creation, rotation and revocation of keys.

use std::time::Duration;

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState, Precondition};
use crate::audit::AuditEntry;
use crate::key::{ApiKey, NewSecret};
use crate::version::FIRST_VERSION;

/// Stores a new key.
#[must_use]
pub fn create(key: ApiKey, audit: AuditEntry) -> AdminChange {
    AdminChange::new([AdminRow::Key(ApiKey { version: FIRST_VERSION, ..key })], audit)
}

/// Gives a key a new secret. The old one may be used for `overlap`.
///
/// # Errors
/// Returns an error if the key does not exist, has ended, or has another version.
pub fn rotate(
    state: &AdminState,
    secret: &NewSecret,
    overlap: Duration,
    precondition: &Precondition,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let key = state.key.as_ref().ok_or(AdminRefusal::NoKey)?;
    if key.has_ended(audit.at) {
        return Err(AdminRefusal::KeyEnded);
    }
    precondition.check(key.version)?;
    Ok(AdminChange::new([AdminRow::Key(key.rotated(secret, overlap, audit.at))], audit))
}

/// Revokes a key. If it is already revoked, nothing changes.
///
/// # Errors
/// Returns an error if the key does not exist or has another version.
pub fn revoke(state: &AdminState, precondition: &Precondition, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let key = state.key.as_ref().ok_or(AdminRefusal::NoKey)?;
    if key.revoked_at.is_some() {
        return Ok(AdminChange::nothing());
    }
    precondition.check(key.version)?;
    Ok(AdminChange::new([AdminRow::Key(key.revoked(audit.at))], audit))
}
