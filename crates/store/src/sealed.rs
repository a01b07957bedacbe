//! The tables with encrypted values, and what happens to a value when the keys of the installation change.

use journeyman_core::ports::{
    SealedCensus, SealedCounts, SealedKind, SealedPage, SealedRow, StoreError, UNREADABLE_ROWS,
};
use journeyman_core::time::IdGen;

use crate::sql::{Statement, Text, Value, text};
use crate::vault::{self, MasterKey, MasterKeys, NONCE_BYTES, VaultError};

/// The number of rows that a census reads at a time.
const ROWS_AT_ONCE: usize = 500;

/// The statements about a table with encrypted values.
struct Table {
    /// Selects the columns `owner`, `name` and `value` of the rows after a key, at most a number of them.
    page: Text,
    /// Replaces a value: owner, name, the value that was read, the new value. Returns a row if it was replaced.
    replace: Text,
}

/// Writes the statements of a table. In PostgreSQL, a row that another transaction has locked is skipped, so that this one
/// never waits for a request; a later pass reads the row again.
macro_rules! table {
    ($table:literal, $owner:literal, $name:literal, $value:literal, $changes:literal, $filter:literal) => {
        Table {
            page: text!(concat!(
                "SELECT ",
                $owner,
                " AS owner, ",
                $name,
                " AS name, ",
                $value,
                " AS value FROM ",
                $table,
                " WHERE (",
                $owner,
                ", ",
                $name,
                ") > ($1, $2) AND ",
                $filter,
                " ORDER BY owner, name LIMIT $3"
            )),
            replace: text!(concat!(
                "UPDATE ",
                $table,
                " SET ",
                $changes,
                " WHERE (",
                $owner,
                ", ",
                $name,
                ") IN (SELECT ",
                $owner,
                ", ",
                $name,
                " FROM ",
                $table,
                " WHERE ",
                $owner,
                " = $1 AND ",
                $name,
                " = $2 AND ",
                $value,
                " = $3",
                " FOR UPDATE SKIP LOCKED) RETURNING 1"
            )),
        }
    };
    ($table:literal, $owner:literal, $name:literal) => {
        table!($table, $owner, $name, "value", "value = $4", "true")
    };
}

/// Returns the statements about a kind of values.
const fn table(kind: SealedKind) -> Table {
    match kind {
        SealedKind::ProjectSecret => table!("project_secrets", "project", "name"),
        SealedKind::CodeHostSecret => table!("code_host_secrets", "code_host", "name"),
        SealedKind::SlackSecret => table!("slack_secrets", "workspace", "name"),
        SealedKind::WebhookSecret => table!("webhook_secrets", "webhook", "name"),
        SealedKind::RetiredSecret => table!("retired_secrets", "project", "key"),
        // Answers to requests about jobs are JSON objects and not encrypted; an encrypted answer is a JSON string.
        SealedKind::Answer => {
            table!("idempotency_keys", "project", "key", "record", "record = $4", "record LIKE '\"%'")
        }
        // The secret of a user's app is a part of a JSON object, where no other part has the same text. The version makes
        // a decision about the earlier row start again.
        SealedKind::SecondFactor => table!(
            "users",
            "id",
            "''",
            "second_factor::json ->> 'secret'",
            "second_factor = replace(second_factor, $3, $4), version = version + 1",
            "second_factor IS NOT NULL"
        ),
    }
}

/// Returns the query for a part of a table.
pub(crate) fn page(page: &SealedPage) -> Statement {
    let (owner, name) = page.after.clone().unwrap_or_default();
    Statement { text: table(page.kind).page, values: vec![owner.into(), name.into(), page.limit.into()] }
}

/// Returns whether the values of a kind are stored as text.
pub(crate) const fn is_text(kind: SealedKind) -> bool {
    matches!(kind, SealedKind::Answer | SealedKind::SecondFactor)
}

/// An encrypted value, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
}

impl Stored {
    /// Returns the statement that replaces the value, which returns a row if it was replaced.
    pub(crate) fn replace(self, kind: SealedKind, with: Vec<u8>) -> Statement {
        let value = |value: Vec<u8>| match is_text(kind) {
            true => Value::Text(String::from_utf8_lossy(&value).into_owned()),
            false => Value::Bytes(value),
        };
        let values = vec![self.owner.into(), self.name.into(), value(self.value), value(with)];
        Statement { text: table(kind).replace, values }
    }

    /// Returns the primary key of the row.
    pub(crate) fn key(&self) -> (String, String) {
        (self.owner.clone(), self.name.clone())
    }

    /// Decrypts the value, and returns the key that has encrypted it.
    fn open<'a>(&self, keys: &'a MasterKeys, kind: SealedKind) -> Result<(&'a MasterKey, Vec<u8>), VaultError> {
        let context = vault::context(kind, &self.owner, &self.name);
        match kind {
            SealedKind::Answer => {
                let text = std::str::from_utf8(&self.value).map_err(|_| VaultError::Sealed)?;
                let sealed = vault::from_digits(text.trim_matches('"')).ok_or(VaultError::Sealed)?;
                keys.open_with_key(&context, &sealed)
            }
            SealedKind::SecondFactor => {
                let text = std::str::from_utf8(&self.value).map_err(|_| VaultError::Sealed)?;
                keys.open_with_key(&context, &vault::from_digits(text).ok_or(VaultError::Sealed)?)
            }
            _ => keys.open_with_key(&context, &self.value),
        }
    }

    /// Encrypts the value with the current key, in the form in which it is stored. Returns `None` if the current key has
    /// encrypted it, or no configured key decrypts it.
    pub(crate) fn resealed(
        &self,
        keys: &MasterKeys,
        kind: SealedKind,
        ids: &dyn IdGen,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok((key, text)) = self.open(keys, kind) else { return Ok(None) };
        if key == keys.current() {
            return Ok(None);
        }
        let mut nonce = [0; NONCE_BYTES];
        ids.fill(&mut nonce);
        let context = vault::context(kind, &self.owner, &self.name);
        let sealed = keys.seal_at(&context, &text, nonce).map_err(unavailable)?;
        Ok(Some(match kind {
            SealedKind::Answer => format!("\"{}\"", vault::to_digits(&sealed)).into_bytes(),
            SealedKind::SecondFactor => vault::to_digits(&sealed).into_bytes(),
            _ => sealed,
        }))
    }
}

/// Counts values by the keys that decrypt them. The caller reads one page after the other ([`Census::page`]), and adds its
/// values ([`Census::add`]).
pub(crate) struct Census<'a> {
    keys: &'a MasterKeys,
    kinds: &'a [SealedKind],
    after: Option<(String, String)>,
    counted: SealedCensus,
}

impl<'a> Census<'a> {
    /// Begins a census of kinds. `proof` is the stored proof of the required key, if there is one.
    pub(crate) fn new(keys: &'a MasterKeys, kinds: &'a [SealedKind], proof: Option<&[u8]>) -> Result<Self, StoreError> {
        let others: Result<Vec<String>, StoreError> = keys.others().iter().map(id).collect();
        let required = proof.and_then(|proof| keys.proven(proof)).map(id).transpose()?;
        // Kinds without values have counts, too.
        let counts = kinds.iter().map(|kind| (*kind, SealedCounts::default())).collect();
        let counted =
            SealedCensus { current: id(keys.current())?, others: others?, required, counts, unreadable: Vec::new() };
        Ok(Self { keys, kinds, after: None, counted })
    }

    /// Returns the next page; `None` at the end.
    pub(crate) fn page(&self) -> Option<SealedPage> {
        let kind = *self.kinds.first()?;
        Some(SealedPage { kind, after: self.after.clone(), limit: ROWS_AT_ONCE })
    }

    /// Adds the values of the page.
    pub(crate) fn add(&mut self, values: Vec<Stored>) -> Result<(), StoreError> {
        let Some((kind, later)) = self.kinds.split_first() else { return Ok(()) };
        self.after = values.last().filter(|_| values.len() == ROWS_AT_ONCE).map(Stored::key);
        for stored in values {
            self.count(*kind, stored)?;
        }
        if self.after.is_none() {
            self.kinds = later;
        }
        Ok(())
    }

    fn count(&mut self, kind: SealedKind, stored: Stored) -> Result<(), StoreError> {
        let counts = self.counted.counts.entry(kind).or_default();
        match stored.open(self.keys, kind) {
            Ok((key, _)) if key == self.keys.current() => counts.current += 1,
            Ok((key, _)) => *counts.others.entry(id(key)?).or_default() += 1,
            Err(_) => {
                counts.unreadable += 1;
                if self.counted.unreadable.len() < UNREADABLE_ROWS {
                    self.counted.unreadable.push(SealedRow { kind, owner: stored.owner, name: stored.name });
                }
            }
        }
        Ok(())
    }

    /// Returns the counts.
    pub(crate) fn finish(self) -> SealedCensus {
        self.counted
    }
}

/// Returns the IDs of all configured keys, the current one first.
pub(crate) fn all_keys(keys: &MasterKeys) -> Result<Vec<String>, StoreError> {
    std::iter::once(keys.current()).chain(keys.others()).map(id).collect()
}

/// Returns the ID of a key as text.
pub(crate) fn id(key: &MasterKey) -> Result<String, StoreError> {
    key.id().map(|id| id.to_string()).map_err(unavailable)
}

/// Returns the error for a value that cannot be encrypted, or a database that requires an unknown key.
pub(crate) fn unavailable(error: VaultError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
