//! Encrypted values: which keys they need, and their encryption with the current key.

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ports::{Resealed, SealedCensus, SealedKind, SealedPage, SealedStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Query, call};
use super::session::Session;
use crate::rows;
use crate::sealed::{Counter, ROWS_AT_ONCE, Stored, id, tables, unavailable};
use crate::sql::audit::note;
use crate::vault::{NONCE_BYTES, VaultError};

/// Selects the proof of the required key.
const PROOF: &str = "SELECT value FROM meta WHERE name = 'master_key'";

#[async_trait]
impl SealedStore for PostgresStore {
    async fn sealed(&self, kinds: Vec<SealedKind>) -> Result<SealedCensus, StoreError> {
        let proof = self.read(call!(PROOF)).await?;
        let proof = proof.first().map(value).transpose()?;
        let mut counter = Counter::new(&self.master_keys, proof.as_deref())?;
        for kind in &kinds {
            let mut after = None;
            loop {
                let stored = self.page(&SealedPage { kind: *kind, after, limit: ROWS_AT_ONCE }).await?;
                after = stored.last().filter(|_| stored.len() == ROWS_AT_ONCE).map(Stored::key);
                for one in stored {
                    counter.add(*kind, one)?;
                }
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(counter.finish(&kinds))
    }

    async fn reseal(&self, page: SealedPage, entry: AuditEntry) -> Result<Resealed, StoreError> {
        let stored = self.page(&page).await?;
        let next = stored.last().filter(|_| stored.len() == page.limit).map(Stored::key);
        let mut changes = vec![call!("BEGIN")];
        for one in stored {
            if let Some(sealed) = one.resealed(&self.master_keys, page.kind, &*self.ids)? {
                changes.push(call!(tables(page.kind)[1].replace, one.owner, one.name, one.value, sealed));
            }
        }
        let done = if changes.len() == 1 { 0 } else { self.replace(&changes, page.kind, &entry).await? };
        Ok(Resealed { next, done })
    }

    async fn require_current_key(&self, entry: AuditEntry) -> Result<bool, StoreError> {
        let session = Session::open(&self.pool).await?;
        let lock = call!("SELECT value FROM meta WHERE name = 'master_key' FOR UPDATE");
        let locked = session.run(&[call!("BEGIN"), lock]).await?;
        let proof = locked.last().and_then(|rows| rows.first()).map(value).transpose()?;
        let proven = proof.as_deref().and_then(|proof| self.master_keys.proven(proof));
        let proven = proven.ok_or_else(|| unavailable(VaultError::OtherKey))?;
        if proven == self.master_keys.current() {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Ok(false);
        }
        let mut nonce = [0; NONCE_BYTES];
        self.ids.fill(&mut nonce);
        let proof = self.master_keys.proof(nonce).map_err(unavailable)?;
        let entry = AuditEntry { subject: id(self.master_keys.current())?, ..entry };
        let calls = [
            call!("UPDATE meta SET value = $1 WHERE name = 'master_key'", proof),
            note(&entry).into(),
            call!("COMMIT"),
        ];
        session.run(&calls).await.map_err(PgError::of_commit)?;
        session.release();
        Ok(true)
    }
}

fn value(row: &Row) -> Result<Vec<u8>, PgError> {
    Ok(row.try_get("value")?)
}

/// Returns the query for a part of a table.
pub(crate) fn page_call(page: &SealedPage) -> (&'static str, String, String, i64) {
    let (owner, name) = page.after.clone().unwrap_or_default();
    (tables(page.kind)[1].page, owner, name, i64::try_from(page.limit).unwrap_or(i64::MAX))
}

impl PostgresStore {
    async fn page(&self, page: &SealedPage) -> Result<Vec<Stored>, PgError> {
        let (text, owner, name, limit) = page_call(page);
        let rows = self.read(call!(text, owner, name, limit)).await?;
        rows.iter().map(rows::sealed).collect()
    }

    /// Runs replacements, the first call of which begins the transaction, and returns how many values were replaced. The
    /// number is part of the entry in the audit log, so the transaction takes two round trips.
    async fn replace(&self, changes: &[Query], kind: SealedKind, entry: &AuditEntry) -> Result<u64, StoreError> {
        let session = Session::open(&self.pool).await?;
        let replaced = session.run(changes).await?;
        let done = replaced.iter().map(|rows| rows.len() as u64).sum();
        if done == 0 {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Ok(0);
        }
        let entry = Resealed::audited(entry, kind, done, &id(self.master_keys.current())?);
        session.run(&[note(&entry).into(), call!("COMMIT")]).await.map_err(PgError::of_commit)?;
        session.release();
        Ok(done)
    }
}
