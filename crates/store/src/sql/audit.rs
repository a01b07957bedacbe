//! The audit log.

use journeyman_core::ports::AuditEntry;

use super::{Statement, sql};

/// Returns the statement that inserts an entry into the audit log.
pub(crate) fn note(entry: &AuditEntry) -> Statement {
    sql!(
        "INSERT INTO audit (at, actor, action, subject, address) VALUES ($1, $2, $3, $4, $5)",
        entry.at,
        &entry.actor,
        &entry.action,
        &entry.subject,
        entry.address.as_ref(),
    )
}
