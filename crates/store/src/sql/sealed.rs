//! Encrypted values: which keys they need, and their encryption with the current key.

use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ports::{Resealed, SealedCensus, SealedKind, SealedPage, SealedStore, StoreError};
use journeyman_core::time::IdGen;

use super::audit::note;
use super::{Database, DbError, Row, SqlStore, Statement, Tx, sql};
use crate::rows::{self, Columns as _};
use crate::sealed::{Census, Stored, id, page, unavailable};
use crate::vault::{MasterKeys, NONCE_BYTES, VaultError};

#[async_trait]
impl<B: Database> SealedStore for SqlStore<B> {
    async fn sealed(&self, kinds: Vec<SealedKind>) -> Result<SealedCensus, StoreError> {
        let proof = self.query(sql!("SELECT value FROM meta WHERE name = 'master_key'")).await?;
        let mut census = Census::new(&self.master_keys, &kinds, proven(&proof)?.as_deref())?;
        while let Some(page) = census.page() {
            census.add(read_page(&self.database, &page).await?)?;
        }
        Ok(census.finish())
    }

    async fn reseal(&self, page: SealedPage, entry: AuditEntry) -> Result<Resealed, StoreError> {
        let stored = read_page(&self.database, &page).await?;
        let next = stored.last().filter(|_| stored.len() == page.limit).map(Stored::key);
        let mut changes = Vec::new();
        for one in stored {
            if let Some(sealed) = one.resealed(&self.master_keys, page.kind, &*self.ids)? {
                changes.push(one.replace(page.kind, sealed));
            }
        }
        if changes.is_empty() {
            return Ok(Resealed { next, done: 0 });
        }
        let (kind, key) = (page.kind, id(self.master_keys.current())?);
        let replaced = self.transact(move |tx| {
            let (changes, entry, key) = (changes.clone(), entry.clone(), key.clone());
            Box::pin(replace_all(tx, changes, move |done| Resealed::audited(&entry, kind, done, &key)))
        });
        Ok(Resealed { next, done: replaced.await? })
    }

    async fn require_current_key(&self, entry: AuditEntry) -> Result<bool, StoreError> {
        let (keys, ids) = (self.master_keys.clone(), Arc::clone(&self.ids));
        let entry = AuditEntry { subject: id(keys.current())?, ..entry };
        let required = self.transact(move |tx| {
            let (keys, ids, entry) = (keys.clone(), Arc::clone(&ids), entry.clone());
            Box::pin(async move { require(tx, &keys, &*ids, &entry).await })
        });
        required.await
    }
}

/// Reads a part of a table with encrypted values.
async fn read_page(database: &impl Database, of: &SealedPage) -> Result<Vec<Stored>, StoreError> {
    database.query(page(of)).await?.iter().map(|row| rows::sealed(row, of.kind)).collect()
}

/// Returns the proof of the required key, if there is one.
fn proven(found: &[Row]) -> Result<Option<Vec<u8>>, StoreError> {
    found.first().map(|row| row.bytes("value")).transpose().map(Option::flatten)
}

/// Replaces values, and returns the number of those that were not changed in the meantime, which is part of the entry in
/// the audit log.
async fn replace_all(
    tx: &mut (dyn Tx + '_),
    changes: Vec<Statement>,
    entry: impl FnOnce(u64) -> AuditEntry + Send,
) -> Result<u64, DbError> {
    let replaced = tx.query_all(changes).await?;
    let done = replaced.iter().map(|rows| rows.len() as u64).sum();
    if done > 0 {
        tx.execute(note(&entry(done))).await?;
    }
    Ok(done)
}

/// Makes the current key the required one, and returns whether another one was.
async fn require(
    tx: &mut (dyn Tx + '_),
    keys: &MasterKeys,
    ids: &dyn IdGen,
    entry: &AuditEntry,
) -> Result<bool, DbError> {
    let found = tx.query(sql!("SELECT value FROM meta WHERE name = 'master_key' FOR UPDATE")).await?;
    let proof = proven(&found)?;
    let required = proof.as_deref().and_then(|proof| keys.proven(proof));
    if required.ok_or_else(|| unavailable(VaultError::OtherKey))? == keys.current() {
        return Ok(false);
    }
    let mut nonce = [0; NONCE_BYTES];
    ids.fill(&mut nonce);
    let proof = keys.proof(nonce).map_err(unavailable)?;
    tx.execute(sql!("UPDATE meta SET value = $1 WHERE name = 'master_key'", proof)).await?;
    tx.execute(note(entry)).await?;
    Ok(true)
}
