//! Trusts.

use async_trait::async_trait;
use journeyman_core::ids::TrustId;
use journeyman_core::ports::{StoreError, TrustStore};
use journeyman_core::trust::Trust;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, to_json};

#[async_trait]
impl TrustStore for PostgresStore {
    async fn trusts(&self) -> Result<Vec<Trust>, StoreError> {
        let found = self.read(call!("SELECT * FROM trusts ORDER BY created_at, id")).await?;
        Ok(found.iter().map(rows::trust).collect::<Result<_, PgError>>()?)
    }

    async fn trust(&self, id: TrustId) -> Result<Option<Trust>, StoreError> {
        let found = self.read(call!("SELECT * FROM trusts WHERE id = $1", id.to_string())).await?;
        Ok(found.first().map(rows::trust).transpose()?)
    }
}

/// Returns the statement that stores a trust. The time of its last exchange stays.
pub(super) fn put(trust: &Trust) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO trusts (id, name, settings, creator, owner, created_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (id) DO UPDATE SET name = $2, settings = $3, version = $7",
        trust.id.to_string(),
        trust.settings.name.clone(),
        to_json(&trust.settings)?,
        trust.creator.clone(),
        trust.owner.map(|owner| owner.to_string()),
        trust.created_at.as_micros(),
        i64::try_from(trust.version).unwrap_or(i64::MAX),
    ))
}
