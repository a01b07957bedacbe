//! Trusts.

use async_trait::async_trait;
use journeyman_core::ids::TrustId;
use journeyman_core::ports::{StoreError, TrustStore};
use journeyman_core::trust::Trust;

use super::{Database, SqlStore, Statement, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl<B: Database> TrustStore for SqlStore<B> {
    async fn trusts(&self) -> Result<Vec<Trust>, StoreError> {
        self.all(sql!("SELECT * FROM trusts ORDER BY created_at, id"), rows::trust).await
    }

    async fn trust(&self, id: TrustId) -> Result<Option<Trust>, StoreError> {
        self.find(sql!("SELECT * FROM trusts WHERE id = $1", id.to_string()), rows::trust).await
    }
}

/// Returns the statement that stores a trust. The time of its last exchange stays.
pub(crate) fn put(trust: &Trust) -> Result<Statement, StoreError> {
    Ok(sql!(
        "INSERT INTO trusts (id, name, settings, creator, owner, created_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (id) DO UPDATE SET name = $2, settings = $3, version = $7",
        trust.id.to_string(),
        &trust.settings.name,
        to_json(&trust.settings)?,
        &trust.creator,
        trust.owner.map(|owner| owner.to_string()),
        trust.created_at,
        trust.version,
    ))
}
