//! Decisions of people with rights, each in one transaction: the idempotency key, the locked rows, the decision, and then all
//! rows and audit entries.

mod subjects;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use journeyman_core::decision::{AnyDecision, Change, Decide, Decision, Once, Subject};
use journeyman_core::epoch::Epoch;
use journeyman_core::idempotency::{self, Claim, Remembered};
use journeyman_core::ports::{AdminError, AdminStore, Administered, StoreError};
use journeyman_core::refusal::Refusal;
use journeyman_core::time::{IdGen, Timestamp};

use super::{Database, DbError, SqlStore, Statement, Step, Tx, audit, lock, sql};
use crate::rows;
use crate::vault::MasterKeys;

/// A subject whose rows can be locked and loaded.
#[async_trait]
pub(crate) trait Lock: Subject {
    /// Locks and loads the rows.
    async fn lock(&self, tx: &mut (dyn Tx + '_), epoch: &Epoch) -> Result<Self::Locked, DbError>;
}

/// What is needed to encrypt values.
#[derive(Clone, Copy)]
pub(crate) struct Sealing<'a> {
    pub(crate) keys: &'a MasterKeys,
    pub(crate) ids: &'a dyn IdGen,
}

#[async_trait]
impl<B: Database> AdminStore for SqlStore<B> {
    async fn administer(
        &self,
        decision: AnyDecision,
        once: Option<Once>,
        now: Timestamp,
    ) -> Result<Administered, AdminError> {
        match decision {
            AnyDecision::Webhook(decision) => {
                // A new webhook begins after the events that were stored before it. Most of them get positions here, so
                // that the transaction is short.
                self.assign_positions().await?;
                decide(self, decision, once, now).await
            }
            AnyDecision::Template(decision) => decide(self, decision, once, now).await,
            AnyDecision::CodeHost(decision) => decide(self, decision, once, now).await,
            AnyDecision::Trust(decision) => decide(self, decision, once, now).await,
            AnyDecision::SlackWorkspace(decision) => decide(self, decision, once, now).await,
            AnyDecision::Project(decision) => decide(self, decision, once, now).await,
            AnyDecision::ProjectWithJobs(decision) => decide(self, decision, once, now).await,
            AnyDecision::Job(decision) => decide(self, decision, once, now).await,
            AnyDecision::Key(decision) => decide(self, decision, once, now).await,
            AnyDecision::User(decision) => decide(self, decision, once, now).await,
            AnyDecision::UserWithIdentity(decision) => decide(self, decision, once, now).await,
            AnyDecision::NewUser(decision) => decide(self, decision, once, now).await,
            AnyDecision::Link(decision) => decide(self, decision, once, now).await,
            AnyDecision::Exchange(decision) => decide(self, decision, once, now).await,
            AnyDecision::SlackCode(decision) => decide(self, decision, once, now).await,
            AnyDecision::Pull(decision) => decide(self, decision, once, now).await,
            AnyDecision::PullOfBranch(decision) => decide(self, decision, once, now).await,
            AnyDecision::PullLines(decision) => decide(self, decision, once, now).await,
        }
    }

    async fn answered(&self, claim: Claim, now: Timestamp) -> Result<Option<String>, AdminError> {
        let known = self.find(remembered(&claim), rows::remembered).await?;
        replay(&self.master_keys, &claim, known, now)
    }
}

async fn decide<B: Database, S: Lock>(
    store: &SqlStore<B>,
    decision: Decision<S>,
    once: Option<Once>,
    now: Timestamp,
) -> Result<Administered, AdminError> {
    let Decision { subject, decide } = decision;
    let transaction = Arc::new(Transaction {
        subject,
        decide: Mutex::new(decide),
        once,
        now,
        epoch: store.epoch(),
        keys: store.master_keys.clone(),
        ids: Arc::clone(&store.ids),
    });
    store
        .transact(move |tx| {
            let transaction = Arc::clone(&transaction);
            Box::pin(async move { transaction.run(tx).await }) as Step<'_, _>
        })
        .await?
}

/// The transaction of a decision, which is repeated after a conflict with another one.
struct Transaction<S: Subject> {
    subject: S,
    decide: Mutex<Decide<S>>,
    once: Option<Once>,
    now: Timestamp,
    epoch: Epoch,
    keys: MasterKeys,
    ids: Arc<dyn IdGen>,
}

impl<S: Lock> Transaction<S> {
    /// Makes the change, or returns the answer of an earlier request with the same idempotency key. A refusal has written
    /// nothing, so it is not an error of the transaction.
    async fn run(&self, tx: &mut (dyn Tx + '_)) -> Result<Result<Administered, AdminError>, DbError> {
        if let Some(Once { claim, .. }) = &self.once {
            tx.execute(lock("idempotency", claim.scope(), &claim.stored_key())).await?;
            let known = tx.one(remembered(claim), rows::remembered).await?;
            match replay(&self.keys, claim, known, self.now) {
                Ok(None) => {}
                Ok(Some(answer)) => return Ok(Ok(Administered::Replayed(answer))),
                Err(error) => return Ok(Err(error)),
            }
        }
        let locked = self.subject.lock(tx, &self.epoch).await?;
        let change = match self.change(&locked) {
            Ok(change) => change,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        let sealing = Sealing { keys: &self.keys, ids: &*self.ids };
        for row in &change.rows {
            write::write(tx, row, sealing, self.now).await?;
        }
        for entry in &change.audit {
            tx.execute(audit::note(entry)).await?;
        }
        if let Some(once) = &self.once {
            tx.execute(remember(once, sealing, self.now)?).await?;
        }
        Ok(Ok(Administered::Done(change)))
    }

    fn change(&self, locked: &S::Locked) -> Result<Change, Refusal> {
        self.decide.lock().unwrap_or_else(PoisonError::into_inner)(locked)
    }
}

/// Returns the statement that selects the stored answer for an idempotency key.
fn remembered(claim: &Claim) -> Statement {
    sql!("SELECT * FROM idempotency_keys WHERE project = $1 AND key = $2", claim.scope(), claim.stored_key())
}

/// Returns the answer of the earlier request, if there was one.
fn replay(
    keys: &MasterKeys,
    claim: &Claim,
    known: Option<Remembered<String>>,
    now: Timestamp,
) -> Result<Option<String>, AdminError> {
    let Some(sealed) = idempotency::check(claim, known, now).map_err(Refusal::from)? else { return Ok(None) };
    let opened = keys.open_answer(&claim.stored_key(), &sealed).map_err(|error| {
        let row = claim.key.clone();
        StoreError::Corrupt { table: "idempotency_keys", row, detail: error.to_string() }
    })?;
    Ok(Some(opened))
}

/// Returns the statement that stores the answer for an idempotency key, encrypted with the current master key.
fn remember(once: &Once, sealing: Sealing<'_>, now: Timestamp) -> Result<Statement, StoreError> {
    let Once { claim, answer } = once;
    let answer = (sealing.keys)
        .seal_answer(&claim.stored_key(), answer, sealing.ids)
        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(sql!(
        "INSERT INTO idempotency_keys (project, key, fingerprint, at, record) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (project, key) DO UPDATE
         SET fingerprint = excluded.fingerprint, at = excluded.at, record = excluded.record",
        claim.scope(),
        claim.stored_key(),
        claim.fingerprint.0,
        now,
        answer,
    ))
}

/// Returns the statement that remembers a deletion.
pub(super) fn put_deleted(subject: String, at: Timestamp) -> Statement {
    sql!(
        "INSERT INTO deleted (subject, at) VALUES ($1, $2) ON CONFLICT (subject) DO UPDATE SET at = excluded.at",
        subject,
        at,
    )
}
