//! Trusts.

use async_trait::async_trait;
use journeyman_core::ids::TrustId;
use journeyman_core::ports::{StoreError, TrustStore};
use journeyman_core::trust::Trust;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::ReadError;
use super::rows::collect;
use crate::rows::{self, to_json};

#[async_trait]
impl TrustStore for SqliteStore {
    async fn trusts(&self) -> Result<Vec<Trust>, StoreError> {
        self.readers
            .read(|db| {
                let mut query = db.prepare_cached("SELECT * FROM trusts ORDER BY created_at, id")?;
                collect(&mut query.query([])?, |row| rows::trust(row))
            })
            .await
    }

    async fn trust(&self, id: TrustId) -> Result<Option<Trust>, StoreError> {
        self.readers.find(|db| {
            let mut query = db.prepare_cached("SELECT * FROM trusts WHERE id = ?1")?;
            let mut rows = query.query([id.to_string()])?;
            rows.next()?.map(rows::trust).transpose()
        })
    }
}

/// Stores a trust. The time of its last exchange stays.
pub(super) fn put(db: &Connection, trust: &Trust) -> Result<(), ReadError> {
    db.prepare_cached(
        "INSERT INTO trusts (id, name, settings, creator, owner, created_at, version)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (id) DO UPDATE SET name = ?2, settings = ?3, version = ?7",
    )?
    .execute(params![
        trust.id.to_string(),
        trust.settings.name,
        to_json(&trust.settings)?,
        trust.creator,
        trust.owner.map(|owner| owner.to_string()),
        trust.created_at.as_micros(),
        i64::try_from(trust.version).unwrap_or(i64::MAX),
    ])?;
    Ok(())
}
