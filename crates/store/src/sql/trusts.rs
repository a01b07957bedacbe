//! Trusts.

use async_trait::async_trait;
use journeyman_core::key::ApiKey;
use journeyman_core::ports::StoreError;
use journeyman_core::resource::{Key, Put};
use journeyman_core::trust::Trust;

use super::admin::Sealing;
use super::resource::{ResourceTable, statements};
use super::{DbError, Row, Statement, Tx, decoded, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl ResourceTable for Trust {
    statements!("trusts", by "created_at, id", named "name");

    fn read(row: &Row) -> Result<Self, StoreError> {
        rows::trust(row)
    }

    /// The time of the last exchange stays.
    fn put(Put { resource: trust, .. }: &Put<Self>, _: Sealing<'_>) -> Result<Vec<Statement>, StoreError> {
        Ok(vec![sql!(
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
        )])
    }

    async fn related(key: &Key<Self>, tx: &mut (dyn Tx + '_)) -> Result<Vec<ApiKey>, DbError> {
        Ok(decoded(
            &tx.query(sql!(
                "SELECT * FROM keys WHERE creator = $1 AND revoked_at IS NULL FOR UPDATE",
                key.id.to_string()
            ))
            .await?,
            rows::key,
        )?)
    }
}
