//! API keys and the audit log.

use async_trait::async_trait;
use journeyman_core::ids::KeyId;
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::ports::{AuditEntry, KeyStore, StoreError};
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, to_json};

#[async_trait]
impl KeyStore for PostgresStore {
    async fn create_key(&self, key: ApiKey, entry: AuditEntry) -> Result<(), StoreError> {
        let insert = call!(
            "INSERT INTO keys (id, hash, name, prefix, scopes, projects, expires_at, allowed_ips, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            key.id.to_string(),
            key.hash.0.to_vec(),
            key.name,
            key.prefix,
            to_json(&key.scopes)?,
            key.projects.as_ref().map(to_json).transpose()?,
            key.expires_at.map(Timestamp::as_micros),
            key.allowed_ips.as_ref().map(to_json).transpose()?,
            key.created_at.as_micros(),
        );
        self.write(vec![insert, audit(&entry)]).await?;
        Ok(())
    }

    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        let found = self.read(call!("SELECT * FROM keys WHERE hash = $1", hash.0.to_vec())).await?;
        Ok(found.first().map(rows::key).transpose()?)
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let found = self.read(call!("SELECT * FROM keys ORDER BY created_at DESC, id DESC")).await?;
        Ok(found.iter().map(rows::key).collect::<Result<_, PgError>>()?)
    }

    async fn revoke_key(&self, id: KeyId, entry: AuditEntry) -> Result<bool, StoreError> {
        // The line is written only by the one that revokes it.
        let revoke = call!(
            "WITH revoked AS (
                 UPDATE keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL RETURNING id
             )
             INSERT INTO audit (at, actor, action, subject) SELECT $2, $3, $4, $5 FROM revoked",
            id.to_string(),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
        );
        let known = call!("SELECT 1 FROM keys WHERE id = $1", id.to_string());
        let answers = self.write(vec![known, revoke]).await?;
        Ok(answers.first().is_some_and(|rows| !rows.is_empty()))
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        let text = "UPDATE keys SET last_used_at = greatest(last_used_at, $2) WHERE id = $1";
        self.write(vec![call!(text, id.to_string(), at.as_micros())]).await?;
        Ok(())
    }

    async fn audit(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.read(call!("SELECT * FROM audit ORDER BY number DESC LIMIT $1", limit)).await?;
        Ok(found.iter().map(rows::audit_entry).collect::<Result<_, PgError>>()?)
    }
}

fn audit(entry: &AuditEntry) -> Call {
    call!(
        "INSERT INTO audit (at, actor, action, subject) VALUES ($1, $2, $3, $4)",
        entry.at.as_micros(),
        entry.actor.clone(),
        entry.action.clone(),
        entry.subject.clone(),
    )
}
