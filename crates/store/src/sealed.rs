//! The tables with encrypted values, and what happens to a value when the keys of the installation change. Both databases
//! have the same rules; only their statements differ.

use journeyman_core::ports::{SealedCensus, SealedKind, SealedRow, StoreError, UNREADABLE_ROWS};
use journeyman_core::time::IdGen;

use crate::vault::{self, MasterKey, MasterKeys, NONCE_BYTES, VaultError};

/// The number of rows that a census reads at a time.
pub(crate) const ROWS_AT_ONCE: usize = 500;

/// The statements about a table with encrypted values.
pub(crate) struct Table {
    /// Selects the columns `owner`, `name` and `value` of the rows after a key, at most a number of them.
    pub(crate) page: &'static str,
    /// Replaces a value: owner, name, the value that was read, the new value. Returns a row if it was replaced.
    pub(crate) replace: &'static str,
}

/// Writes the statements of a table for SQLite and for PostgreSQL. In PostgreSQL, a row that another transaction has
/// locked is skipped, so that this one never waits for a request; a later pass reads the row again.
macro_rules! table {
    ($table:literal, $owner:literal, $name:literal, $value:literal, $filter:literal,
     [$read:literal, $put:literal, $is:literal], [$read_pg:literal, $put_pg:literal, $is_pg:literal]) => {
        [
            Table {
                page: concat!(
                    "SELECT ",
                    $owner,
                    " AS owner, ",
                    $name,
                    " AS name, ",
                    $read,
                    " AS value FROM ",
                    $table,
                    " WHERE (",
                    $owner,
                    ", ",
                    $name,
                    ") > (?1, ?2)",
                    $filter,
                    " ORDER BY ",
                    $owner,
                    ", ",
                    $name,
                    " LIMIT ?3"
                ),
                replace: concat!(
                    "UPDATE ",
                    $table,
                    " SET ",
                    $value,
                    " = ",
                    $put,
                    " WHERE ",
                    $owner,
                    " = ?1 AND ",
                    $name,
                    " = ?2 AND ",
                    $value,
                    " = ",
                    $is,
                    " RETURNING 1"
                ),
            },
            Table {
                page: concat!(
                    "SELECT ",
                    $owner,
                    " AS owner, ",
                    $name,
                    " AS name, ",
                    $read_pg,
                    " AS value FROM ",
                    $table,
                    " WHERE (",
                    $owner,
                    ", ",
                    $name,
                    ") > ($1, $2)",
                    $filter,
                    " ORDER BY ",
                    $owner,
                    ", ",
                    $name,
                    " LIMIT $3"
                ),
                replace: concat!(
                    "UPDATE ",
                    $table,
                    " SET ",
                    $value,
                    " = ",
                    $put_pg,
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
                    " = ",
                    $is_pg,
                    " FOR UPDATE SKIP LOCKED) RETURNING 1"
                ),
            },
        ]
    };
    ($table:literal, $owner:literal) => {
        table!($table, $owner, "name", "value", "", ["value", "?4", "?3"], ["value", "$4", "$3"])
    };
}

const PROJECT_SECRETS: [Table; 2] = table!("project_secrets", "project");
const CODE_HOST_SECRETS: [Table; 2] = table!("code_host_secrets", "code_host");
const SLACK_SECRETS: [Table; 2] = table!("slack_secrets", "workspace");
const WEBHOOK_SECRETS: [Table; 2] = table!("webhook_secrets", "webhook");

/// Answers to requests about jobs are JSON objects and not encrypted; an encrypted answer is a JSON string.
const ANSWERS: [Table; 2] = table!(
    "idempotency_keys",
    "project",
    "key",
    "record",
    " AND record LIKE '\"%'",
    ["CAST(record AS BLOB)", "CAST(?4 AS TEXT)", "CAST(?3 AS TEXT)"],
    ["convert_to(record, 'UTF8')", "convert_from($4, 'UTF8')", "convert_from($3, 'UTF8')"]
);

const RETIRED_SECRETS: [Table; 2] =
    table!("retired_secrets", "project", "key", "value", "", ["value", "?4", "?3"], ["value", "$4", "$3"]);

/// The secret of a user's app is a part of a JSON object. The version makes a decision about the earlier row start again.
const SECOND_FACTORS: [Table; 2] = [
    Table {
        page:
            "SELECT id AS owner, '' AS name, CAST(json_extract(second_factor, '$.secret') AS BLOB) AS value FROM users
               WHERE (id, '') > (?1, ?2) AND second_factor IS NOT NULL ORDER BY id LIMIT ?3",
        replace: "UPDATE users
                  SET second_factor = json_set(second_factor, '$.secret', CAST(?4 AS TEXT)), version = version + 1
                  WHERE id = ?1 AND ?2 = '' AND json_extract(second_factor, '$.secret') = CAST(?3 AS TEXT)
                  RETURNING 1",
    },
    Table {
        page: "SELECT id AS owner, '' AS name, convert_to(second_factor::json ->> 'secret', 'UTF8') AS value FROM users
               WHERE (id, '') > ($1, $2) AND second_factor IS NOT NULL ORDER BY id LIMIT $3",
        replace: "UPDATE users
                  SET second_factor =
                      jsonb_set(second_factor::jsonb, '{secret}', to_jsonb(convert_from($4, 'UTF8')))::text,
                      version = version + 1
                  WHERE id IN (SELECT id FROM users
                               WHERE id = $1 AND $2 = '' AND second_factor::json ->> 'secret' = convert_from($3, 'UTF8')
                               FOR UPDATE SKIP LOCKED)
                  RETURNING 1",
    },
];

/// Returns the statements about a kind of values, for SQLite and for PostgreSQL.
pub(crate) const fn tables(kind: SealedKind) -> &'static [Table; 2] {
    match kind {
        SealedKind::ProjectSecret => &PROJECT_SECRETS,
        SealedKind::CodeHostSecret => &CODE_HOST_SECRETS,
        SealedKind::SlackSecret => &SLACK_SECRETS,
        SealedKind::WebhookSecret => &WEBHOOK_SECRETS,
        SealedKind::Answer => &ANSWERS,
        SealedKind::RetiredSecret => &RETIRED_SECRETS,
        SealedKind::SecondFactor => &SECOND_FACTORS,
    }
}

/// An encrypted value, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) value: Vec<u8>,
}

impl Stored {
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

/// Counts values by the keys that decrypt them.
pub(crate) struct Counter<'a> {
    keys: &'a MasterKeys,
    census: SealedCensus,
}

impl<'a> Counter<'a> {
    /// Begins a census. `proof` is the stored proof of the required key, if there is one.
    pub(crate) fn new(keys: &'a MasterKeys, proof: Option<&[u8]>) -> Result<Self, StoreError> {
        let others: Result<Vec<String>, StoreError> = keys.others().iter().map(id).collect();
        let required = proof.and_then(|proof| keys.proven(proof)).map(id).transpose()?;
        let census =
            SealedCensus { current: id(keys.current())?, others: others?, required, ..SealedCensus::default() };
        Ok(Self { keys, census })
    }

    /// Counts a value.
    pub(crate) fn add(&mut self, kind: SealedKind, stored: Stored) -> Result<(), StoreError> {
        let counts = self.census.counts.entry(kind).or_default();
        match stored.open(self.keys, kind) {
            Ok((key, _)) if key == self.keys.current() => counts.current += 1,
            Ok((key, _)) => *counts.others.entry(id(key)?).or_default() += 1,
            Err(_) => {
                counts.unreadable += 1;
                if self.census.unreadable.len() < UNREADABLE_ROWS {
                    self.census.unreadable.push(SealedRow { kind, owner: stored.owner, name: stored.name });
                }
            }
        }
        Ok(())
    }

    /// Returns the census; kinds without values have counts, too.
    pub(crate) fn finish(mut self, kinds: &[SealedKind]) -> SealedCensus {
        for kind in kinds {
            self.census.counts.entry(*kind).or_default();
        }
        self.census
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
