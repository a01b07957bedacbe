//! Decisions on the creation, rotation and revocation of keys.

use std::time::Duration;

use super::{Change, Row};
use crate::audit::AuditEntry;
use crate::ids::KeyId;
use crate::key::{ApiKey, NewSecret};
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::version::{FIRST_VERSION, Precondition};

/// A key, which need not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyToChange(pub KeyId);

/// The locked rows of [`KeyToChange`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockedKey {
    /// The key.
    pub key: Option<ApiKey>,
}

impl LockedKey {
    fn found(&self) -> Result<&ApiKey, Refusal> {
        self.key.as_ref().ok_or_else(|| Refusal::not_found(ResourceKind::Key))
    }
}

/// Stores a new key.
#[must_use]
pub fn create(key: ApiKey, audit: AuditEntry) -> Change {
    Change::new([Row::Key(ApiKey { version: FIRST_VERSION, ..key })], audit)
}

/// Gives a key a new secret. The old one may be used for `overlap`.
///
/// # Errors
/// Returns an error if the key does not exist, has ended, or has another version.
pub fn rotate(
    locked: &LockedKey,
    secret: &NewSecret,
    overlap: Duration,
    precondition: &Precondition,
    audit: AuditEntry,
) -> Result<Change, Refusal> {
    let key = locked.found()?;
    if key.has_ended(audit.at) {
        let detail = "the key was revoked or has expired; create another";
        return Err(Refusal::new(RefusalKind::Ended, ResourceKind::Key, detail));
    }
    precondition.check(ResourceKind::Key, key.version)?;
    Ok(Change::new([Row::Key(key.rotated(secret, overlap, audit.at))], audit))
}

/// Revokes a key. If it is already revoked, nothing changes.
///
/// # Errors
/// Returns an error if the key does not exist or has another version.
pub fn revoke(locked: &LockedKey, precondition: &Precondition, audit: AuditEntry) -> Result<Change, Refusal> {
    let key = locked.found()?;
    if key.revoked_at.is_some() {
        return Ok(Change::nothing());
    }
    precondition.check(ResourceKind::Key, key.version)?;
    Ok(Change::new([Row::Key(key.revoked(audit.at))], audit))
}
