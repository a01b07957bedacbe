//! API keys.

use std::collections::BTreeSet;

use async_trait::async_trait;
use journeyman_core::audit::{AuditEntry, AuditFilter, AuditLine};
use journeyman_core::ids::{KeyId, UserId};
use journeyman_core::key::{ApiKey, KeyHash, KeyOrigin};
use journeyman_core::ports::{KeyStore, StoreError};
use journeyman_core::time::Timestamp;

use super::{Database, SqlStore, Statement, audit, sql};
use crate::rows::{self, Columns as _, to_json};

#[async_trait]
impl<B: Database> KeyStore for SqlStore<B> {
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        self.find(sql!("SELECT * FROM keys WHERE hash = $1 OR old_hash = $1", hash.0), rows::key).await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.all(sql!("SELECT * FROM keys ORDER BY created_at DESC, id DESC"), rows::key).await
    }

    async fn keys_after(
        &self,
        origin: KeyOrigin,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let query = sql!(
            "SELECT * FROM keys
             WHERE ($1 = '' OR (created_at, id) < (SELECT created_at, id FROM keys WHERE id = $1))
               AND (substr(coalesce(creator, ''), 1, 6) = 'trust_') = $3
             ORDER BY created_at DESC, id DESC LIMIT $2",
            after.map(|key| key.to_string()).unwrap_or_default(),
            limit,
            origin == KeyOrigin::Exchanged,
        );
        self.all(query, rows::key).await
    }

    async fn names_of_keys(&self, owner: UserId) -> Result<BTreeSet<String>, StoreError> {
        let names = self.all(names_of(owner), |row| Ok(row.text("name")?.unwrap_or_default())).await?;
        Ok(names.into_iter().collect())
    }

    async fn key(&self, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.find(sql!("SELECT * FROM keys WHERE id = $1", id.to_string()), rows::key).await
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        let text = sql!(
            "UPDATE keys SET last_used_at = greatest(coalesce(last_used_at, $2), $2) WHERE id = $1",
            id.to_string(),
            at,
        );
        self.run(vec![text]).await?;
        Ok(())
    }

    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.run(vec![audit::note(&entry)]).await?;
        Ok(())
    }

    async fn find_audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, StoreError> {
        self.all(audit::find(filter), rows::audit_line).await
    }
}

/// Returns the statement that selects the names of the keys of a user. It repeats the condition of the index
/// `keys_of_owner`, which has no keys of trusts: they exist for minutes, and there may be many. For SQLite, it names the
/// index.
pub(crate) fn names_of(owner: UserId) -> Statement {
    sql!(
        sqlite:
            "SELECT DISTINCT name FROM keys INDEXED BY keys_of_owner
             WHERE owner = ?1 AND substr(coalesce(creator, ''), 1, 6) <> 'trust_'",
        postgres:
            "SELECT DISTINCT name FROM keys
             WHERE owner = $1 AND substr(coalesce(creator, ''), 1, 6) <> 'trust_'";
        owner.to_string(),
    )
}

/// Returns the statement that stores a key. Of a stored key, it changes only what a rotation or a revocation changes.
pub(crate) fn put(key: &ApiKey) -> Result<Statement, StoreError> {
    Ok(sql!(
        "INSERT INTO keys (id, hash, name, prefix, scopes, projects, expires_at, allowed_ips, created_at, creator,
                           owner, revoked_at, version, grants, old_hash, old_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         ON CONFLICT (id) DO UPDATE SET hash = $2, prefix = $4, expires_at = $7, revoked_at = $12, version = $13,
             old_hash = $15, old_until = $16",
        key.id.to_string(),
        key.hash.0,
        &key.name,
        &key.prefix,
        to_json(&key.scopes_for_older_versions())?,
        key.projects.as_ref().map(to_json).transpose()?,
        key.expires_at,
        key.allowed_ips.as_ref().map(to_json).transpose()?,
        key.created_at,
        key.creator.as_ref(),
        key.owner.map(|owner| owner.to_string()),
        key.revoked_at,
        key.version,
        to_json(&key.scopes)?,
        key.old_secret.map(|old| old.hash.0),
        key.old_secret.map(|old| old.until),
    ))
}
