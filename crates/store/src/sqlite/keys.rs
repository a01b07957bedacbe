//! API keys and the audit log.

use async_trait::async_trait;
use journeyman_core::ids::KeyId;
use journeyman_core::key::{ApiKey, KeyHash};
use journeyman_core::ports::{AuditEntry, AuditLine, KeyStore, StoreError};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::rows::collect;
use super::write::OpError;
use crate::rows::{self, to_json};

#[async_trait]
impl KeyStore for SqliteStore {
    async fn create_key(&self, key: ApiKey, entry: AuditEntry) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                db.prepare_cached(
                    "INSERT INTO keys (id, hash, name, prefix, scopes, projects, expires_at, allowed_ips, created_at,
                                       creator, owner)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                )?
                .execute(params![
                    key.id.to_string(),
                    key.hash.0,
                    key.name,
                    key.prefix,
                    to_json(&key.scopes)?,
                    key.projects.as_ref().map(to_json).transpose()?,
                    key.expires_at.map(Timestamp::as_micros),
                    key.allowed_ips.as_ref().map(to_json).transpose()?,
                    key.created_at.as_micros(),
                    key.creator,
                    key.owner.map(|owner| owner.to_string())
                ])?;
                audit(db, &entry)?;
                Ok::<(), OpError<StoreError>>(())
            })
            .await
    }

    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM keys WHERE hash = ?1")?;
            let mut rows = query.query([hash.0])?;
            rows.next()?.map(rows::key).transpose()
        })
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached("SELECT * FROM keys ORDER BY created_at DESC, id DESC")?;
                let mut rows = query.query([])?;
                collect(&mut rows, |row| rows::key(row))
            })
            .await
    }

    async fn revoke_key(&self, id: KeyId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.writer
            .write(move |db| {
                let known = db.prepare_cached("SELECT 1 FROM keys WHERE id = ?1")?.exists([id.to_string()])?;
                let revoke = "UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
                let revoked = db.prepare_cached(revoke)?.execute(params![id.to_string(), entry.at.as_micros()])?;
                if revoked > 0 {
                    audit(db, &entry)?;
                }
                Ok::<bool, OpError<StoreError>>(known)
            })
            .await
    }

    async fn key_used(&self, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
        self.writer
            .write(move |db| {
                let text = "UPDATE keys SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1";
                db.prepare_cached(text)?.execute(params![id.to_string(), at.as_micros()])?;
                Ok::<(), OpError<StoreError>>(())
            })
            .await
    }

    async fn note(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.writer.write(move |db| Ok::<_, OpError<StoreError>>(audit(db, &entry)?)).await
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (before, limit) = (number(before.unwrap_or(u64::MAX)), number(limit as u64));
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM audit WHERE number < ?1 ORDER BY number DESC LIMIT ?2";
                let mut query = db.prepare_cached(text)?;
                collect(&mut query.query([before, limit])?, |row| rows::audit_line(row))
            })
            .await
    }
}

/// Writes a line of the audit log.
pub(super) fn audit(db: &Connection, entry: &AuditEntry) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO audit (at, actor, action, subject, address) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![entry.at.as_micros(), entry.actor, entry.action, entry.subject, entry.address])?;
    Ok(())
}
