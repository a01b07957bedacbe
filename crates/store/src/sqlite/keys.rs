//! API keys and the audit log.

use std::collections::BTreeSet;

use async_trait::async_trait;
use journeyman_core::ids::{KeyId, UserId};
use journeyman_core::key::{ApiKey, KeyHash, KeyOrigin};
use journeyman_core::ports::{AuditEntry, AuditFilter, AuditLine, KeyStore, StoreError};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use super::tx::execute;
use crate::rows::{self, to_json};
use crate::sql::audit::note;

#[async_trait]
impl KeyStore for SqliteStore {
    async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<ApiKey>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM keys WHERE hash = ?1 OR old_hash = ?1")?;
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

    async fn keys_after(
        &self,
        origin: KeyOrigin,
        after: Option<KeyId>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let exchanged = origin == KeyOrigin::Exchanged;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM keys
                            WHERE (?1 IS NULL OR (created_at, id) < (SELECT created_at, id FROM keys WHERE id = ?1))
                              AND (substr(coalesce(creator, ''), 1, 6) = 'trust_') = ?3
                            ORDER BY created_at DESC, id DESC LIMIT ?2";
                let mut query = db.prepare_cached(text)?;
                let mut rows = query.query(params![after.map(|key| key.to_string()), limit, exchanged])?;
                collect(&mut rows, |row| rows::key(row))
            })
            .await
    }

    async fn names_of_keys(&self, owner: UserId) -> Result<BTreeSet<String>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(NAMES_OF_KEYS)?;
                let names = query.query_map([owner.to_string()], |row| row.get(0))?;
                Ok(names.collect::<rusqlite::Result<BTreeSet<String>>>()?)
            })
            .await
    }

    async fn key(&self, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM keys WHERE id = ?1")?;
            let mut rows = query.query([id.to_string()])?;
            rows.next()?.map(rows::key).transpose()
        })
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

    async fn find_audit(&self, filter: AuditFilter) -> Result<Vec<AuditLine>, StoreError> {
        let AuditFilter { actors, action, about, from, until, before, limit } = filter;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (before, limit) = (number(before.unwrap_or(u64::MAX)), number(limit as u64));
        let [from, until] = [from, until].map(|at| at.map(Timestamp::as_micros));
        let (actors, about) = (actors.as_ref().map(to_json).transpose()?, about.as_ref().map(to_json).transpose()?);
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached(FIND_AUDIT)?;
                let mut found = query.query(params![before, limit, actors, action, about, from, until])?;
                collect(&mut found, |row| rows::audit_line(row))
            })
            .await
    }
}

/// Selects the names of the keys of a user. The query names its index and repeats the condition of the index, which has no
/// keys of trusts: they exist for minutes, and there may be many.
pub(super) const NAMES_OF_KEYS: &str = "
    SELECT DISTINCT name FROM keys INDEXED BY keys_of_owner
    WHERE owner = ?1 AND substr(coalesce(creator, ''), 1, 6) <> 'trust_'";

/// Selects entries. The object of an entry is the beginning of its subject, up to the first space, `#` or `/`.
const FIND_AUDIT: &str = "SELECT * FROM audit
    WHERE number < ?1 AND (?3 IS NULL OR actor IN (SELECT value FROM json_each(?3)))
      AND (?4 IS NULL OR substr(action, 1, length(?4)) = ?4)
      AND (?5 IS NULL OR substr(subject, 1, min(
              coalesce(nullif(instr(subject, ' '), 0) - 1, length(subject)),
              coalesce(nullif(instr(subject, '#'), 0) - 1, length(subject)),
              coalesce(nullif(instr(subject, '/'), 0) - 1, length(subject))
          )) IN (SELECT value FROM json_each(?5)))
      AND (?6 IS NULL OR at >= ?6) AND (?7 IS NULL OR at < ?7)
    ORDER BY number DESC LIMIT ?2";

/// Inserts an entry into the audit log.
pub(super) fn audit(db: &Connection, entry: &AuditEntry) -> Result<(), ReadError> {
    execute(db, &note(entry))
}
