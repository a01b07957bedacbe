//! Encrypted values: which keys they need, and their encryption with the current key.

use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ports::{Resealed, SealedCensus, SealedKind, SealedPage, SealedStore, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use super::tx::execute;
use crate::rows;
use crate::sealed::{Counter, ROWS_AT_ONCE, Stored, id, tables, unavailable};
use crate::sql::audit::note;
use crate::vault::{MasterKeys, NONCE_BYTES, VaultError};

/// Selects the proof of the required key.
const PROOF: &str = "SELECT value FROM meta WHERE name = 'master_key'";

#[async_trait]
impl SealedStore for SqliteStore {
    async fn sealed(&self, kinds: Vec<SealedKind>) -> Result<SealedCensus, StoreError> {
        let keys = self.master_keys.clone();
        self.readers.read(move |db| census(db, &keys, &kinds)).await
    }

    async fn reseal(&self, page: SealedPage, entry: AuditEntry) -> Result<Resealed, StoreError> {
        let (keys, ids) = (self.master_keys.clone(), Arc::clone(&self.ids));
        let (kind, limit) = (page.kind, page.limit);
        let stored = self.readers.read(move |db| read_page(db, &page)).await?;
        let next = stored.last().filter(|_| stored.len() == limit).map(Stored::key);
        let mut changes = Vec::new();
        for one in stored {
            if let Some(sealed) = one.resealed(&keys, kind, &*ids)? {
                changes.push((one, sealed));
            }
        }
        if changes.is_empty() {
            return Ok(Resealed { next, done: 0 });
        }
        let key = id(keys.current())?;
        let write = move |db: &mut super::write::Session<'_>| {
            let mut done = 0;
            for (one, sealed) in &changes {
                let mut replace = db.prepare_cached(tables(kind)[0].replace)?;
                done += u64::from(replace.exists(params![one.owner, one.name, one.value, sealed])?);
            }
            if done > 0 {
                execute(db, &note(&Resealed::audited(&entry, kind, done, &key)))?;
            }
            Ok::<_, OpError<StoreError>>(done)
        };
        Ok(Resealed { next, done: self.writer.write(write).await? })
    }

    async fn require_current_key(&self, entry: AuditEntry) -> Result<bool, StoreError> {
        let (keys, ids) = (self.master_keys.clone(), Arc::clone(&self.ids));
        let write = move |db: &mut super::write::Session<'_>| {
            let proof: Option<Vec<u8>> = db.query_row(PROOF, [], |row| row.get(0)).optional()?;
            let proven = proof.as_deref().and_then(|proof| keys.proven(proof));
            let proven = proven.ok_or_else(|| unavailable(VaultError::OtherKey))?;
            if proven == keys.current() {
                return Ok::<_, OpError<StoreError>>(false);
            }
            let mut nonce = [0; NONCE_BYTES];
            ids.fill(&mut nonce);
            let proof = keys.proof(nonce).map_err(unavailable)?;
            db.execute("UPDATE meta SET value = ?1 WHERE name = 'master_key'", [proof])?;
            execute(db, &note(&AuditEntry { subject: id(keys.current())?, ..entry.clone() }))?;
            Ok(true)
        };
        self.writer.write(write).await
    }
}

fn read_page(db: &Connection, page: &SealedPage) -> Result<Vec<Stored>, ReadError> {
    let (owner, name) = page.after.clone().unwrap_or_default();
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
    let mut query = db.prepare_cached(tables(page.kind)[0].page)?;
    collect(&mut query.query(params![owner, name, limit])?, |row| rows::sealed(row))
}

/// Counts the encrypted values of these kinds in a database.
pub(crate) fn census(db: &Connection, keys: &MasterKeys, kinds: &[SealedKind]) -> Result<SealedCensus, ReadError> {
    let proof: Option<Vec<u8>> = db.query_row(PROOF, [], |row| row.get(0)).optional()?;
    let mut counter = Counter::new(keys, proof.as_deref())?;
    for kind in kinds {
        let mut after = None;
        loop {
            let stored = read_page(db, &SealedPage { kind: *kind, after, limit: ROWS_AT_ONCE })?;
            after = stored.last().filter(|_| stored.len() == ROWS_AT_ONCE).map(Stored::key);
            for one in stored {
                counter.add(*kind, one)?;
            }
            if after.is_none() {
                break;
            }
        }
    }
    Ok(counter.finish(kinds))
}
