//! The statements of administrative changes: of projects, keys, users and pull requests.
//!
//! A change takes two round trips: one locks and loads the rows of its subject, the other writes and commits. An
//! idempotency key adds one.

mod deletion;
mod load;

use async_trait::async_trait;
use journeyman_core::admin::{
    AdminChange, AdminRow, Once, Subject, deleted_code_host, deleted_job, deleted_slack_workspace, deleted_template,
    deleted_trust, deleted_webhook,
};
use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::WebhookId;
use journeyman_core::job::effect::Effect;
use journeyman_core::ports::{AdminError, AdminStore, Administered, DecideAdmin, StoreError};
use journeyman_core::time::Timestamp;
use journeyman_core::webhook::SecretChange;

use self::deletion::delete_project;
use self::load::load;
use super::accept::lock_number;
use super::error::PgError;
use super::pipeline::{Call, call};
use super::session::Session;
use super::sweep::remove_job;
use super::write::insert_tasks;
use super::{PostgresStore, webhooks};
use crate::admin::Answers;
use crate::sql::inbox::insert_event;
use crate::sql::{self, Statement, audit, code_hosts, keys, projects, pulls, slack, templates, trusts, users};
use crate::{retired, rows, vault};

const REMEMBERED: &str = "SELECT * FROM idempotency_keys WHERE project = $1 AND key = $2";

/// The number of times that a change is repeated after a conflict with another transaction.
const RETRIES: u32 = 3;

#[async_trait]
impl AdminStore for PostgresStore {
    async fn administer(
        &self,
        subject: Subject,
        once: Option<Once>,
        now: Timestamp,
        mut decide: DecideAdmin,
    ) -> Result<Administered, AdminError> {
        if matches!(subject, Subject::Webhook(..)) {
            // A new webhook begins after the events that were stored before it. Most of them get positions here, so
            // that the transaction is short.
            self.assign_positions().await.map_err(StoreError::from)?;
        }
        let mut retries = RETRIES;
        // Each connection of the pool may have a stale plan.
        let mut stale = self.pool.status().max_size;
        loop {
            match self.try_administer(&subject, once.as_ref(), now, &mut decide).await {
                // Nothing was stored: the connection was closed, or the server has rolled the transaction back.
                Err(Failure::Database(error)) if error.is_conflict() && retries > 0 => retries -= 1,
                Err(Failure::Database(error)) if error.is_stale_plan() && stale > 0 => stale -= 1,
                Err(Failure::Database(error)) => return Err(StoreError::from(error).into()),
                Err(Failure::Admin(error)) => return Err(error),
                Ok(done) => return Ok(done),
            }
        }
    }

    async fn answered(&self, claim: Claim, now: Timestamp) -> Result<Option<String>, AdminError> {
        let (scope, key) = (claim.scope().to_owned(), claim.stored_key());
        let found = self.read(call!(REMEMBERED, scope, key)).await.map_err(StoreError::from)?;
        let known = found.first().map(rows::remembered).transpose().map_err(StoreError::from)?;
        Answers::Sealed { keys: &self.master_keys, ids: &*self.ids }.replay(&claim, known, now)
    }
}

/// The failure of one attempt.
enum Failure {
    Admin(AdminError),
    Database(PgError),
}

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        Self::Database(error)
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        Self::Admin(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Admin(error.into())
    }
}

impl PostgresStore {
    async fn try_administer(
        &self,
        subject: &Subject,
        once: Option<&Once>,
        now: Timestamp,
        decide: &mut DecideAdmin,
    ) -> Result<Administered, Failure> {
        let answers = Answers::Sealed { keys: &self.master_keys, ids: &*self.ids };
        let session = Session::open(&self.pool).await?;
        if let Some(once) = once
            && let Some(answer) = answers.replay(&once.claim, begin_once(&session, &once.claim).await?, now)?
        {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Ok(Administered::Replayed(answer));
        }
        let state = load(&session, subject, once.is_some(), &self.epochs.current()).await?;
        let change = match decide(&state) {
            Ok(change) => change,
            Err(refusal) => {
                session.run(&[call!("ROLLBACK")]).await?;
                session.release();
                return Err(AdminError::Refused(refusal).into());
            }
        };
        let mut calls = self.retire(&session, &change, now).await?;
        calls.extend(self.writes(&change)?);
        if let Some(once) = once {
            calls.push(remember(&once.claim, answers.seal(once, now)?));
        }
        calls.push(call!("COMMIT"));
        let is_long = |row: &AdminRow| matches!(row, AdminRow::ProjectDeleted { .. } | AdminRow::WebhookRemoved { .. });
        let deletes = change.rows.iter().any(is_long);
        let written = if deletes { session.run_long(&calls).await } else { session.run(&calls).await };
        written.map_err(PgError::of_commit)?;
        session.release();
        Ok(Administered::Done(change))
    }
}

/// Begins the transaction, takes the lock of an idempotency key, and returns the stored answer.
async fn begin_once(session: &Session, claim: &Claim) -> Result<Option<Remembered<String>>, PgError> {
    let (scope, key) = (claim.scope().to_owned(), claim.stored_key());
    let calls = [
        call!("BEGIN"),
        call!("SELECT pg_advisory_xact_lock($1)", lock_number("idempotency", &scope, &key)),
        call!(REMEMBERED, scope, key),
    ];
    let answers = session.run(&calls).await?;
    answers.last().and_then(|rows| rows.first()).map(rows::remembered).transpose()
}

/// Returns the statement that remembers a deletion.
fn put_deleted(subject: String, at: Timestamp) -> Call {
    call!(
        "INSERT INTO deleted (subject, at) VALUES ($1, $2) ON CONFLICT (subject) DO UPDATE SET at = excluded.at",
        subject,
        at.as_micros()
    )
}

impl PostgresStore {
    fn writes(&self, change: &AdminChange) -> Result<Vec<Call>, StoreError> {
        let mut calls = Vec::new();
        for row in &change.rows {
            match row {
                AdminRow::Project(project, secrets) => {
                    calls.push(projects::put(project)?.into());
                    let sealed = vault::seal_all(&self.master_keys, &*self.ids, &project.id, secrets.clone())?;
                    let put = |(name, value): (String, _)| Call::from(projects::put_secret(&project.id, &name, value));
                    calls.extend(sealed.into_iter().map(put));
                }
                AdminRow::ProjectDeleted { id, repository, at } => {
                    calls.extend(delete_project(id, *at));
                    let effect = repository.clone().map(|repository| Effect::RemoveRepository { repository });
                    calls.extend(effect.map(|effect| insert_tasks(&[(effect, *at)])).transpose()?);
                }
                AdminRow::JobDeleted { id, project, at } => {
                    calls.extend([remove_job(*id, *at), put_deleted(deleted_job(*id, project), *at)]);
                }
                AdminRow::Webhook(webhook, secret) => {
                    calls.extend(webhooks::put(webhook)?);
                    calls.extend(self.webhook_secret(webhook.id, secret)?.into_iter().map(Call::from));
                }
                AdminRow::WebhookRemoved { id, project, at } => {
                    // A webhook may have many deliveries, so their deletion may take long.
                    calls.push(call!("SET LOCAL statement_timeout = '10min'"));
                    calls.extend(webhooks::remove(Some(*id), project));
                    calls.push(put_deleted(deleted_webhook(*id, project), *at));
                }
                AdminRow::Template(template) => calls.push(templates::put(template)?.into()),
                AdminRow::TemplateRemoved { id, project, at } => {
                    calls.push(call!("DELETE FROM templates WHERE id = $1", id.to_string()));
                    calls.push(put_deleted(deleted_template(*id, project), *at));
                }
                AdminRow::CodeHost(host, secrets) => {
                    calls.push(code_hosts::put(host)?.into());
                    let sealed = vault::seal_host(&self.master_keys, &*self.ids, &host.id, secrets.clone())?;
                    let put = |(name, value)| code_hosts::put_secret(&host.id, name, value).into();
                    calls.extend(sealed.into_iter().map(put));
                }
                AdminRow::CodeHostRemoved { id, at } => {
                    calls.push(call!("DELETE FROM code_hosts WHERE id = $1", id.to_string()));
                    calls.push(put_deleted(deleted_code_host(id), *at));
                }
                AdminRow::Trust(trust) => calls.push(trusts::put(trust)?.into()),
                AdminRow::TrustUsed { id, at } => calls.push(call!(
                    "UPDATE trusts SET last_used_at = greatest(last_used_at, $2) WHERE id = $1",
                    id.to_string(),
                    at.as_micros()
                )),
                AdminRow::TrustRemoved { id, at } => {
                    calls.push(call!("DELETE FROM trusts WHERE id = $1", id.to_string()));
                    calls.push(put_deleted(deleted_trust(*id), *at));
                }
                AdminRow::SlackWorkspace(workspace, secrets) => {
                    let sealed = vault::seal_slack(&self.master_keys, &*self.ids, workspace.id, secrets.clone())?;
                    calls.extend(slack::put(workspace, sealed)?.into_iter().map(Call::from));
                }
                AdminRow::SlackWorkspaceRemoved { id, at } => {
                    // A workspace may have many rows, so their deletion may take long.
                    calls.push(call!("SET LOCAL statement_timeout = '10min'"));
                    calls.extend(slack::remove(*id).map(Call::from));
                    calls.push(put_deleted(deleted_slack_workspace(*id), *at));
                }
                AdminRow::SlackCode { hash, user, expires_at } => {
                    calls.extend(slack::put_code(*hash, *user, *expires_at).map(Call::from));
                }
                AdminRow::SlackCodeRemoved(hash) => calls.push(slack::remove_code(*hash).into()),
                AdminRow::Key(key) => calls.push(keys::put(key)?.into()),
                AdminRow::User(user) => calls.push(users::put(user)?.into()),
                AdminRow::Session(session) => calls.push(users::put_session(session).into()),
                AdminRow::SessionProven { hash, at } => calls.push(users::prove_session(*hash, *at).into()),
                AdminRow::SessionsEnded(which) => calls.push(users::end_sessions(*which).into()),
                AdminRow::Link(link) => calls.push(users::put_link(link).into()),
                AdminRow::LinkDeleted(hash) => calls.push(users::remove_link(*hash).into()),
                AdminRow::LinksDeleted(user) => calls.push(users::remove_links_of(*user).into()),
                AdminRow::PullOpened(pull) => calls.push(pulls::open(pull)?.into()),
                AdminRow::Pull(pull) => calls.push(pulls::end(pull).into()),
                AdminRow::Inbox(event) => calls.push(insert_event(event)?.into()),
                AdminRow::Comment { repository, number, comment } => {
                    calls.push(pulls::put_comment(repository, *number, comment).into());
                }
                AdminRow::DraftRemoved { repository, number, place } => {
                    calls.push(pulls::remove_draft(repository, *number, *place).into());
                }
            }
        }
        calls.extend(change.audit.iter().map(|entry| Call::from(audit::note(entry))));
        Ok(calls)
    }
}

impl PostgresStore {
    /// Returns the statements that keep the values of secrets of projects that the change replaces or removes. The lock of
    /// the project prevents other changes of them.
    async fn retire(&self, session: &Session, change: &AdminChange, now: Timestamp) -> Result<Vec<Call>, PgError> {
        let mut calls = Vec::new();
        for row in &change.rows {
            let AdminRow::Project(project, changes) = row else { continue };
            if changes.is_empty() {
                continue;
            }
            let names: Vec<String> = changes.keys().cloned().collect();
            let text = "SELECT name, value FROM project_secrets WHERE project = $1 AND name = ANY($2)";
            let stored = session.run(&[call!(text, project.id.to_string(), names)]).await?;
            for row in stored.iter().flatten() {
                let (name, value): (String, Vec<u8>) = (row.try_get("name")?, row.try_get("value")?);
                let next = changes.get(&name).and_then(Option::as_ref);
                if !retired::is_same(&self.master_keys, &project.id, &name, &value, next) {
                    calls.push(call!(
                        "INSERT INTO retired_secrets (project, key, value, at) VALUES ($1, $2, $3, $4)",
                        project.id.to_string(),
                        retired::key(&name, &*self.ids),
                        value,
                        now.as_micros()
                    ));
                }
            }
        }
        Ok(calls)
    }

    fn webhook_secret(&self, id: WebhookId, change: &SecretChange) -> Result<Vec<Statement>, StoreError> {
        let mut statements = Vec::new();
        let secret = match change {
            SecretChange::Keep => return Ok(statements),
            SecretChange::New(secret) => secret,
            SecretChange::Rotate(secret) => {
                statements.push(sql::webhooks::keep_secret(id));
                secret
            }
        };
        let sealed = vault::seal_webhook(&self.master_keys, &*self.ids, id, secret)?;
        statements.push(sql::webhooks::put_secret(id, sealed));
        Ok(statements)
    }
}

fn remember(claim: &Claim, known: Remembered<String>) -> Call {
    call!(
        "INSERT INTO idempotency_keys (project, key, fingerprint, at, record) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (project, key) DO UPDATE
         SET fingerprint = excluded.fingerprint, at = excluded.at, record = excluded.record",
        claim.scope().to_owned(),
        claim.stored_key(),
        known.fingerprint.0.to_vec(),
        known.at.as_micros(),
        known.answer,
    )
}

fn number(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}
