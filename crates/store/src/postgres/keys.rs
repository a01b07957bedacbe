//! API keys and the audit log.

use async_trait::async_trait;
use journeyman_core::ids::KeyId;
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::ports::{AuditEntry, AuditLine, KeyStore, StoreError};
use journeyman_core::time::Timestamp;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, to_json};

#[async_trait]
impl KeyStore for PostgresStore {
    async fn create_key(&self, key: ApiKey, entry: AuditEntry) -> Result<(), StoreError> {
        let insert = call!(
            "INSERT INTO keys (id, hash, name, prefix, scopes, projects, expires_at, allowed_ips, created_at, creator,
                               owner)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            key.id.to_string(),
            key.hash.0.to_vec(),
            key.name,
            key.prefix,
            to_json(&key.scopes)?,
            key.projects.as_ref().map(to_json).transpose()?,
            key.expires_at.map(Timestamp::as_micros),
            key.allowed_ips.as_ref().map(to_json).transpose()?,
            key.created_at.as_micros(),
            key.creator,
            key.owner.map(|owner| owner.to_string()),
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
             INSERT INTO audit (at, actor, action, subject, address) SELECT $2, $3, $4, $5, $6 FROM revoked",
            id.to_string(),
            entry.at.as_micros(),
            entry.actor,
            entry.action,
            entry.subject,
            entry.address,
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

    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.write(vec![audit(&entry)]).await?;
        Ok(())
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let text = "SELECT * FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2";
        let found = self.read(call!(text, number(before.unwrap_or(u64::MAX)), number(limit as u64))).await?;
        Ok(found.iter().map(rows::audit_line).collect::<Result<_, PgError>>()?)
    }
}

/// Writes a line of the audit log.
pub(super) fn audit(entry: &AuditEntry) -> Call {
    call!(
        "INSERT INTO audit (at, actor, action, subject, address) VALUES ($1, $2, $3, $4, $5)",
        entry.at.as_micros(),
        entry.actor.clone(),
        entry.action.clone(),
        entry.subject.clone(),
        entry.address.clone(),
    )
}
