//! The steps of an administrative change, which are the same in every store: the idempotency key, the decision, and then
//! all rows and audit entries.

use journeyman_core::admin::{AdminRefusal, AdminRow, AdminState, Once, Subject};
use journeyman_core::audit::AuditEntry;
use journeyman_core::idempotency::{self, Claim, Remembered};
use journeyman_core::ports::{AdminError, Administered, DecideAdmin, StoreError};
use journeyman_core::time::{IdGen, Timestamp};

use crate::vault::MasterKeys;

/// The tables of a store, inside a transaction that holds the lock of the subject.
pub(crate) trait AdminTables {
    /// A refusal, or an error of the store.
    type Error: From<AdminError>;

    /// Returns the stored answer for an idempotency key, in the form in which it is stored.
    fn remembered(&mut self, claim: &Claim) -> Result<Option<Remembered<String>>, Self::Error>;
    fn load(&mut self, subject: &Subject) -> Result<AdminState, Self::Error>;
    fn write(&mut self, row: &AdminRow) -> Result<(), Self::Error>;
    fn note(&mut self, entry: &AuditEntry) -> Result<(), Self::Error>;
    fn remember(&mut self, claim: &Claim, answer: Remembered<String>) -> Result<(), Self::Error>;
}

/// Makes an administrative change, or returns the answer of an earlier request with the same idempotency key.
pub(crate) fn administer<T: AdminTables>(
    tables: &mut T,
    answers: &Answers<'_>,
    subject: &Subject,
    once: Option<&Once>,
    now: Timestamp,
    decide: &mut DecideAdmin,
) -> Result<Administered, T::Error> {
    if let Some(once) = once
        && let Some(answer) = answers.replay(&once.claim, tables.remembered(&once.claim)?, now)?
    {
        return Ok(Administered::Replayed(answer));
    }
    let change = decide(&tables.load(subject)?).map_err(AdminError::Refused)?;
    for row in &change.rows {
        tables.write(row)?;
    }
    for entry in &change.audit {
        tables.note(entry)?;
    }
    if let Some(once) = once {
        tables.remember(&once.claim, answers.seal(once, now)?)?;
    }
    Ok(Administered::Done(change))
}

/// The form of stored answers.
pub(crate) enum Answers<'a> {
    /// Encrypted with the current master key.
    Sealed { keys: &'a MasterKeys, ids: &'a dyn IdGen },
}

impl Answers<'_> {
    /// Returns the answer of the earlier request, if there was one.
    pub(crate) fn replay(
        &self,
        claim: &Claim,
        known: Option<Remembered<String>>,
        now: Timestamp,
    ) -> Result<Option<String>, AdminError> {
        let sealed = idempotency::check(claim, known, now).map_err(AdminRefusal::KeyReused)?;
        let (Some(sealed), Self::Sealed { keys, .. }) = (sealed, self) else { return Ok(None) };
        let opened = keys.open_answer(&claim.stored_key(), &sealed).map_err(|error| {
            let row = claim.key.clone();
            StoreError::Corrupt { table: "idempotency_keys", row, detail: error.to_string() }
        })?;
        Ok(Some(opened))
    }

    /// Returns the answer in the form in which it is stored.
    pub(crate) fn seal(&self, once: &Once, now: Timestamp) -> Result<Remembered<String>, AdminError> {
        let Self::Sealed { keys, ids } = self;
        let answer = keys
            .seal_answer(&once.claim.stored_key(), &once.answer, *ids)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Remembered { fingerprint: once.claim.fingerprint, at: now, answer })
    }
}
