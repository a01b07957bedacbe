//! Locks of transactions.

use journeyman_core::idempotency::Fingerprint;

use super::{Statement, sql};

/// Returns the number of an advisory lock of PostgreSQL. Two names with the same number wait for each other, which is
/// harmless.
pub(crate) fn lock_number(kind: &str, scope: &str, name: &str) -> i64 {
    let hash = Fingerprint::of(kind, format!("{scope}/{name}").as_bytes()).0;
    i64::from_le_bytes(std::array::from_fn(|index| hash[index]))
}

/// Returns the statement that waits until no other transaction has a lock of this kind and name, and takes it until the
/// end of the transaction. SQLite has one transaction that writes at a time, so nothing happens there.
pub(crate) fn lock(kind: &str, scope: &str, name: &str) -> Statement {
    sql!(sqlite: "", postgres: "SELECT pg_advisory_xact_lock($1)"; lock_number(kind, scope, name))
}
