//! API keys and the audit log.

use std::collections::BTreeSet;

use async_trait::async_trait;
use journeyman_core::ids::{KeyId, UserId};
use journeyman_core::key::{ApiKey, KeyHash, KeyOrigin};
use journeyman_core::ports::{AuditEntry, AuditFilter, AuditLine, KeyStore, StoreError};
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows;
use crate::sql::audit::note;

#[async_trait]
impl KeyStore for PostgresStore {
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        let found = self.read(call!("SELECT * FROM keys WHERE hash = $1 OR old_hash = $1", hash.0.to_vec())).await?;
        Ok(found.first().map(rows::key).transpose()?)
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let found = self.read(call!("SELECT * FROM keys ORDER BY created_at DESC, id DESC")).await?;
        Ok(found.iter().map(rows::key).collect::<Result<_, PgError>>()?)
    }

    async fn keys_after(
        &self,
        origin: KeyOrigin,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let text = "SELECT * FROM keys
                    WHERE ($1 = '' OR (created_at, id) < (SELECT created_at, id FROM keys WHERE id = $1))
                      AND (substr(coalesce(creator, ''), 1, 6) = 'trust_') = $3
                    ORDER BY created_at DESC, id DESC LIMIT $2";
        let after = after.map(|key| key.to_string()).unwrap_or_default();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.read(call!(text, after, limit, origin == KeyOrigin::Exchanged)).await?;
        Ok(found.iter().map(rows::key).collect::<Result<_, PgError>>()?)
    }

    async fn names_of_keys(&self, owner: UserId) -> Result<BTreeSet<String>, StoreError> {
        let found = self.read(call!(NAMES_OF_KEYS, owner.to_string())).await?;
        let name = |row: &Row| row.try_get::<_, String>("name");
        let names: Result<BTreeSet<String>, tokio_postgres::Error> = found.iter().map(name).collect();
        Ok(names.map_err(PgError::from)?)
    }

    async fn key(&self, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
        let found = self.read(call!("SELECT * FROM keys WHERE id = $1", id.to_string())).await?;
        Ok(found.first().map(rows::key).transpose()?)
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        let text = "UPDATE keys SET last_used_at = greatest(last_used_at, $2) WHERE id = $1";
        self.write(vec![call!(text, id.to_string(), at.as_micros())]).await?;
        Ok(())
    }

    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.write(vec![audit(&entry)]).await?;
        Ok(())
    }

    async fn find_audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, StoreError> {
        let AuditFilter { actors, action, about, from, until, before, limit } = filter;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (before, limit) = (number(before.unwrap_or(u64::MAX)), number(limit as u64));
        let [from, until] = [from, until].map(|at| at.map(Timestamp::as_micros));
        let found = self.read(call!(FIND_AUDIT, before, limit, actors, action, about, from, until)).await?;
        Ok(found.iter().map(rows::audit_line).collect::<Result<_, PgError>>()?)
    }
}

/// Selects the names of the keys of a user. The query repeats the condition of the index `keys_of_owner`, which has no keys
/// of trusts: they exist for minutes, and there may be many.
pub(super) const NAMES_OF_KEYS: &str =
    "SELECT DISTINCT name FROM keys WHERE owner = $1 AND substr(coalesce(creator, ''), 1, 6) <> 'trust_'";

/// Selects entries. The object of an entry is the beginning of its subject, up to the first space, `#` or `/`.
const FIND_AUDIT: &str = "SELECT * FROM audit
    WHERE number < $1 AND ($3::text[] IS NULL OR actor = ANY($3))
      AND ($4::text IS NULL OR left(action, length($4)) = $4)
      AND ($5::text[] IS NULL OR substring(subject FROM '^[^ #/]*') = ANY ($5))
      AND ($6::bigint IS NULL OR at >= $6) AND ($7::bigint IS NULL OR at < $7)
    ORDER BY number DESC LIMIT $2";

/// Returns the statement that inserts an entry into the audit log.
pub(super) fn audit(entry: &AuditEntry) -> Call {
    note(entry).into()
}
