//! The audit log.

use journeyman_core::audit::{AuditEntry, AuditFilter};

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

/// Returns the statement that selects entries. The object of an entry is the beginning of its subject, up to the first
/// space, `#` or `/`.
pub(super) fn find(filter: AuditFilter) -> Statement {
    let AuditFilter { actors, action, about, from, until, before, limit } = filter;
    sql!(
        sqlite:
            "SELECT * FROM audit
             WHERE number < ?1 AND (?3 IS NULL OR actor IN (SELECT value FROM json_each(?3)))
               AND (?4 IS NULL OR substr(action, 1, length(?4)) = ?4)
               AND (?5 IS NULL OR substr(subject, 1, min(
                       coalesce(nullif(instr(subject, ' '), 0) - 1, length(subject)),
                       coalesce(nullif(instr(subject, '#'), 0) - 1, length(subject)),
                       coalesce(nullif(instr(subject, '/'), 0) - 1, length(subject))
                   )) IN (SELECT value FROM json_each(?5)))
               AND (?6 IS NULL OR at >= ?6) AND (?7 IS NULL OR at < ?7)
             ORDER BY number DESC LIMIT ?2",
        postgres:
            "SELECT * FROM audit
             WHERE number < $1 AND ($3::text[] IS NULL OR actor = ANY($3))
               AND ($4::text IS NULL OR left(action, length($4)) = $4)
               AND ($5::text[] IS NULL OR substring(subject FROM '^[^ #/]*') = ANY ($5))
               AND ($6::bigint IS NULL OR at >= $6) AND ($7::bigint IS NULL OR at < $7)
             ORDER BY number DESC LIMIT $2";
        before.unwrap_or(u64::MAX),
        limit,
        actors,
        action,
        about,
        from,
        until,
    )
}
