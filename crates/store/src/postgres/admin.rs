//! The statements of administrative changes: of projects, keys, users and pull requests.
//!
//! A change takes two round trips: one locks and loads the rows of its subject, the other writes and commits. An
//! idempotency key adds one.

use async_trait::async_trait;
use journeyman_core::admin::{
    AdminChange, AdminError, AdminRow, AdminState, Once, Subject, deleted_code_host, deleted_job, deleted_project,
    deleted_slack_workspace, deleted_template, deleted_trust, deleted_webhook,
};
use journeyman_core::code_host::{CodeHost, CodeHostId};
use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{ProjectId, UserId, WebhookId};
use journeyman_core::job::effect::Effect;
use journeyman_core::key::ApiKey;
use journeyman_core::ports::{AdminStore, Administered, DecideAdmin, SessionsToEnd, StoreError};
use journeyman_core::project::Project;
use journeyman_core::pull::{Comment, LocalPull};
use journeyman_core::template::name_key;
use journeyman_core::time::Timestamp;
use journeyman_core::user::{Identity, Session as SignedIn, TokenHash, User};
use journeyman_core::webhook::decide::SecretChange;

use super::accept::lock_number;
use super::connect::PLAN_FOR_MANY;
use super::error::PgError;
use super::inbox::insert_event;
use super::jobs::JOB;
use super::keys::audit;
use super::pipeline::{Call, call};
use super::projects::PROJECT;
use super::pulls::PULLS_LOCK;
use super::session::Session;
use super::sweep::remove_job;
use super::{PostgresStore, slack, templates, trusts, webhooks};
use crate::admin::Answers;
use crate::rows::{self, HostDocument, to_json};
use crate::vault;

/// The lock for all changes of users, because the rule that an administrator always exists concerns all users.
const USERS_LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('users', 0))";

/// The lock of an exchange, which no change of users overlaps: a user whose rights end keeps no key.
const USERS_SHARED_LOCK: &str = "SELECT pg_advisory_xact_lock_shared(hashtextextended('users', 0))";

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
        Answers::Sealed { key: &self.master_key, ids: &*self.ids }.replay(&claim, known, now)
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
        let answers = Answers::Sealed { key: &self.master_key, ids: &*self.ids };
        let session = Session::open(&self.pool).await?;
        if let Some(once) = once
            && let Some(answer) = answers.replay(&once.claim, begin_once(&session, &once.claim).await?, now)?
        {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Ok(Administered::Replayed(answer));
        }
        let state = load(&session, subject, once.is_some()).await?;
        let change = match decide(&state) {
            Ok(change) => change,
            Err(refusal) => {
                session.run(&[call!("ROLLBACK")]).await?;
                session.release();
                return Err(AdminError::Refused(refusal).into());
            }
        };
        let mut calls = self.writes(&change)?;
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

/// Locks and loads the rows of a subject, in a new transaction unless one has begun.
async fn load(session: &Session, subject: &Subject, is_begun: bool) -> Result<AdminState, PgError> {
    let mut calls = if is_begun { Vec::new() } else { vec![call!("BEGIN")] };
    let first = calls.len() + 1;
    calls.extend(match subject {
        // New jobs lock the row with FOR KEY SHARE, which this lock permits.
        Subject::Project(id) => project_calls("SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE", id),
        Subject::ProjectWithJobs(id) => {
            let mut calls = project_calls("SELECT id FROM projects WHERE id = $1 FOR UPDATE", id);
            // A project may have many jobs. The locks keep accepted messages from being deleted, and they are taken in
            // the order of all transactions: first jobs, then the rows of jobs.
            calls.insert(0, call!("SET LOCAL statement_timeout = '10min'"));
            calls.push(call!("SELECT id FROM jobs WHERE project = $1 ORDER BY id FOR UPDATE", id.to_string()));
            let active = "SELECT 1 FROM jobs WHERE project = $1 AND due_at IS NOT NULL LIMIT 1";
            calls.push(call!(active, id.to_string()));
            calls.push(call!(DELETED, deleted_project(id)));
            calls
        }
        Subject::Job(id, project) => vec![
            call!("SELECT id FROM jobs WHERE id = $1 FOR UPDATE", id.to_string()),
            call!(JOB, id.to_string()),
            call!(DELETED, deleted_job(*id, project)),
        ],
        Subject::Webhook(id, project) => {
            let mut calls = project_calls("SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE", project);
            let one = "SELECT * FROM webhooks WHERE id = $1 AND project = $2 FOR UPDATE";
            calls.push(call!(one, id.to_string(), project.to_string()));
            calls.push(call!("SELECT count(*) AS webhooks FROM webhooks WHERE project = $1", project.to_string()));
            calls.push(call!(DELETED, deleted_webhook(*id, project)));
            calls
        }
        Subject::Template(id, project, name) => {
            let mut calls = project_calls("SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE", project);
            let one = "SELECT * FROM templates WHERE id = $1 AND project = $2";
            calls.push(call!(one, id.to_string(), project.to_string()));
            calls.push(call!("SELECT count(*) AS templates FROM templates WHERE project = $1", project.to_string()));
            let taken = "SELECT 1 FROM templates WHERE project = $1 AND name_key = $2 AND id <> $3";
            calls.push(call!(taken, project.to_string(), name_key(name), id.to_string()));
            calls.push(call!(DELETED, deleted_template(*id, project)));
            calls
        }
        Subject::Key(id) => {
            let lock = lock_number("key", "", &id.to_string());
            vec![
                call!("SELECT pg_advisory_xact_lock($1)", lock),
                call!("SELECT * FROM keys WHERE id = $1 FOR UPDATE", id.to_string()),
            ]
        }
        Subject::User(id) => user_calls(*id),
        Subject::UserIdentity(id, Identity { issuer, subject }) => {
            let taken = "SELECT 1 FROM users WHERE issuer = $1 AND subject = $2 AND id <> $3";
            let mut calls = user_calls(*id);
            calls.push(call!(taken, issuer.clone(), subject.clone(), id.to_string()));
            calls
        }
        Subject::NewUser(name, identity) => {
            let (issuer, subject) = identity.clone().map(|known| (known.issuer, known.subject)).unzip();
            let taken = "SELECT 1 FROM users WHERE name = $1 OR (issuer = $2 AND subject = $3)";
            vec![call!(USERS_LOCK), call!(taken, name.clone(), issuer, subject)]
        }
        Subject::Pull(repository, of) => vec![
            call!(PULLS_LOCK, repository.clone()),
            call!("SELECT * FROM pulls WHERE repository = $1 AND number = $2", repository.clone(), number(*of)),
            call!(
                "SELECT max(place) AS place FROM comments WHERE repository = $1 AND number = $2",
                repository.clone(),
                number(*of)
            ),
            call!(
                "SELECT * FROM comments WHERE repository = $1 AND number = $2 AND draft <> 0 ORDER BY place",
                repository.clone(),
                number(*of)
            ),
        ],
        Subject::NewPull(repository, head) => vec![
            call!(PULLS_LOCK, repository.clone()),
            call!(
                "SELECT * FROM pulls WHERE repository = $1 AND head = $2 AND state = 'open'",
                repository.clone(),
                head.clone()
            ),
            call!("SELECT coalesce(max(number), 0) AS last FROM pulls WHERE repository = $1", repository.clone()),
        ],
        Subject::PullLines(repository, of) => vec![
            call!(PULLS_LOCK, repository.clone()),
            call!("SELECT * FROM pulls WHERE repository = $1 AND number = $2", repository.clone(), number(*of)),
            call!(
                "SELECT * FROM comments
                 WHERE repository = $1 AND number = $2 AND draft = 0 AND path IS NOT NULL ORDER BY place",
                repository.clone(),
                number(*of)
            ),
        ],
        Subject::CodeHost(id, name) => vec![
            // One lock for all code hosts, because their names must be different.
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("code hosts", "", "")),
            call!("SELECT * FROM code_hosts WHERE id = $1", id.to_string()),
            call!("SELECT 1 FROM code_hosts WHERE name = $1 AND id <> $2", name.0.clone(), id.to_string()),
            call!("SELECT 1 FROM projects WHERE settings::jsonb #>> '{code_host,host}' = $1 LIMIT 1", id.to_string()),
            call!(DELETED, deleted_code_host(id)),
        ],
        Subject::Trust(id, name) => vec![
            // One lock for all trusts, because their names must be different.
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("trusts", "", "")),
            call!("SELECT * FROM trusts WHERE id = $1 FOR UPDATE", id.to_string()),
            call!("SELECT count(*) AS trusts FROM trusts"),
            call!("SELECT 1 FROM trusts WHERE name = $1 AND id <> $2", name.clone(), id.to_string()),
            call!("SELECT * FROM keys WHERE creator = $1 AND revoked_at IS NULL FOR UPDATE", id.to_string()),
            call!(DELETED, deleted_trust(*id)),
        ],
        Subject::Exchange(id) => vec![
            call!(USERS_SHARED_LOCK),
            call!("SELECT * FROM trusts WHERE id = $1 FOR UPDATE", id.to_string()),
            call!(
                "SELECT users.* FROM users JOIN trusts ON trusts.owner = users.id WHERE trusts.id = $1",
                id.to_string()
            ),
        ],
        Subject::SlackWorkspace(id, team) => vec![
            // One lock for all workspaces, because their IDs at Slack must be different.
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("slack workspaces", "", "")),
            call!("SELECT * FROM slack_workspaces WHERE id = $1", id.to_string()),
            call!("SELECT 1 FROM slack_workspaces WHERE team = $1 AND id <> $2", team.clone(), id.to_string()),
            call!(DELETED, deleted_slack_workspace(*id)),
        ],
        Subject::SlackCode(id, hash) => vec![
            call!("SELECT pg_advisory_xact_lock($1)", lock_number("slack workspaces", "", "")),
            call!("SELECT * FROM slack_workspaces WHERE id = $1", id.to_string()),
            call!("SELECT owner FROM slack_codes WHERE hash = $1", hash.0.to_vec()),
        ],
        Subject::Link(hash, name) => vec![
            call!(USERS_LOCK),
            call!("SELECT * FROM links WHERE hash = $1", hash.0.to_vec()),
            call!("SELECT 1 FROM users WHERE name = $1", name.clone()),
            call!(OTHER_ADMINISTRATOR, String::new()),
            call!("SELECT users.* FROM users JOIN links ON owner = id WHERE hash = $1", hash.0.to_vec()),
        ],
    });
    let is_long = matches!(subject, Subject::ProjectWithJobs(_));
    let answers = if is_long { session.run_long(&calls).await? } else { session.run(&calls).await? };
    let rows = |index: usize| answers.get(first + index).map(Vec::as_slice).unwrap_or_default();
    let is_any = |index: usize| !rows(index).is_empty();
    let mut state = AdminState::default();
    match subject {
        // The row is read after its lock was taken, so that the read sees the last committed version.
        Subject::Project(_) => state.project = rows(1).first().map(rows::project).transpose()?,
        Subject::ProjectWithJobs(_) => {
            state.project = rows(2).first().map(rows::project).transpose()?;
            state.has_active_jobs = is_any(4);
            state.was_deleted = state.project.is_none() && is_any(5);
        }
        Subject::Webhook(..) => {
            state.project = rows(1).first().map(rows::project).transpose()?;
            state.webhook = rows(2).first().map(rows::webhook).transpose()?;
            let count = rows(3).first().map(|row| row.try_get::<_, i64>("webhooks")).transpose()?;
            state.webhooks = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            state.was_deleted = state.webhook.is_none() && is_any(4);
        }
        Subject::Template(..) => {
            state.project = rows(1).first().map(rows::project).transpose()?;
            state.template = rows(2).first().map(rows::template).transpose()?;
            let count = rows(3).first().map(|row| row.try_get::<_, i64>("templates")).transpose()?;
            state.templates = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            state.name_is_taken = is_any(4);
            state.was_deleted = state.template.is_none() && is_any(5);
        }
        Subject::Job(..) => {
            state.job = rows(0).first().map(rows::job).transpose()?;
            state.was_deleted = state.job.is_none() && is_any(1);
        }
        Subject::Key(_) => state.key = rows(0).first().map(rows::key).transpose()?,
        Subject::User(_) | Subject::UserIdentity(..) => {
            state.user = rows(0).first().map(rows::user).transpose()?;
            state.has_other_administrator = is_any(1);
            state.keys = rows(2).iter().map(rows::key).collect::<Result<_, PgError>>()?;
            // Only the second subject has this query.
            state.name_is_taken = is_any(3);
        }
        Subject::NewUser(..) => state.name_is_taken = is_any(0),
        Subject::CodeHost(..) => {
            state.code_host = rows(0).first().map(rows::code_host).transpose()?;
            state.name_is_taken = is_any(1);
            state.code_host_is_used = is_any(2);
            state.was_deleted = state.code_host.is_none() && is_any(3);
        }
        Subject::SlackCode(..) => {
            state.slack = rows(0).first().map(rows::slack_workspace).transpose()?;
            state.slack_code = rows(1).first().map(rows::slack_code).transpose()?;
        }
        Subject::SlackWorkspace(..) => {
            state.slack = rows(0).first().map(rows::slack_workspace).transpose()?;
            state.name_is_taken = is_any(1);
            state.was_deleted = state.slack.is_none() && is_any(2);
        }
        Subject::Pull(..) => {
            state.pull = rows(0).first().map(rows::pull).transpose()?;
            let last = rows(1).first().map(|row| row.try_get::<_, Option<i64>>("place")).transpose()?;
            state.last_comment = last.flatten().and_then(|place| u64::try_from(place).ok()).unwrap_or(0);
            state.drafts = rows(2).iter().map(rows::comment).collect::<Result<_, PgError>>()?;
        }
        Subject::NewPull(..) => {
            state.pull = rows(0).first().map(rows::pull).transpose()?;
            let last = rows(1).first().map(|row| row.try_get::<_, i64>("last")).transpose()?;
            state.last_pull = last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0);
        }
        Subject::PullLines(..) => {
            state.pull = rows(0).first().map(rows::pull).transpose()?;
            state.lines = rows(1).iter().map(rows::comment).collect::<Result<_, PgError>>()?;
        }
        Subject::Trust(..) => {
            state.trust = rows(0).first().map(rows::trust).transpose()?;
            let count = rows(1).first().map(|row| row.try_get::<_, i64>("trusts")).transpose()?;
            state.trusts = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
            state.name_is_taken = is_any(2);
            state.keys = rows(3).iter().map(rows::key).collect::<Result<_, PgError>>()?;
            state.was_deleted = state.trust.is_none() && is_any(4);
        }
        Subject::Exchange(_) => {
            state.trust = rows(0).first().map(rows::trust).transpose()?;
            state.user = rows(1).first().map(rows::user).transpose()?;
        }
        Subject::Link(..) => {
            state.link = rows(0).first().map(rows::link).transpose()?;
            state.name_is_taken = is_any(1);
            state.has_other_administrator = is_any(2);
            state.user = rows(3).first().map(rows::user).transpose()?;
        }
    }
    Ok(state)
}

const DELETED: &str = "SELECT 1 FROM deleted WHERE subject = $1";

/// Returns the statement that remembers a deletion.
fn put_deleted(subject: String, at: Timestamp) -> Call {
    call!(
        "INSERT INTO deleted (subject, at) VALUES ($1, $2) ON CONFLICT (subject) DO UPDATE SET at = excluded.at",
        subject,
        at.as_micros()
    )
}

/// Selects a row if there is an enabled administrator other than the user `$1`.
const OTHER_ADMINISTRATOR: &str =
    "SELECT 1 FROM users WHERE role = 'administrator' AND disabled_at IS NULL AND id <> $1 LIMIT 1";

fn project_calls(lock: &'static str, id: &ProjectId) -> Vec<Call> {
    // The advisory lock also covers a project that does not exist yet.
    let number = lock_number("project", id.as_str(), "");
    vec![call!("SELECT pg_advisory_xact_lock($1)", number), call!(lock, id.to_string()), call!(PROJECT, id.to_string())]
}

fn user_calls(id: UserId) -> Vec<Call> {
    vec![
        call!(USERS_LOCK),
        call!("SELECT * FROM users WHERE id = $1", id.to_string()),
        call!(OTHER_ADMINISTRATOR, id.to_string()),
        call!("SELECT * FROM keys WHERE owner = $1 AND revoked_at IS NULL FOR UPDATE", id.to_string()),
    ]
}

impl PostgresStore {
    fn writes(&self, change: &AdminChange) -> Result<Vec<Call>, StoreError> {
        let mut calls = Vec::new();
        for row in &change.rows {
            match row {
                AdminRow::Project(project, secrets) => {
                    calls.push(put_project(project)?);
                    let sealed = vault::seal_all(&self.master_key, &*self.ids, &project.id, secrets.clone())?;
                    calls.extend(sealed.into_iter().map(|(name, value)| put_secret(&project.id, name, value)));
                }
                AdminRow::ProjectDeleted { id, at } => calls.extend(delete_project(id, *at)),
                AdminRow::JobDeleted { id, project, at } => {
                    calls.extend([remove_job(*id, *at), put_deleted(deleted_job(*id, project), *at)]);
                }
                AdminRow::Webhook(webhook, secret) => {
                    calls.extend(webhooks::put(webhook)?);
                    calls.extend(self.webhook_secret(webhook.id, secret)?);
                }
                AdminRow::WebhookRemoved { id, project, at } => {
                    // A webhook may have many deliveries, so their deletion may take long.
                    calls.push(call!("SET LOCAL statement_timeout = '10min'"));
                    calls.extend(webhooks::remove(Some(*id), project));
                    calls.push(put_deleted(deleted_webhook(*id, project), *at));
                }
                AdminRow::Template(template) => calls.push(templates::put(template)?),
                AdminRow::TemplateRemoved { id, project, at } => {
                    calls.push(call!("DELETE FROM templates WHERE id = $1", id.to_string()));
                    calls.push(put_deleted(deleted_template(*id, project), *at));
                }
                AdminRow::CodeHost(host, secrets) => {
                    calls.push(put_code_host(host)?);
                    let sealed = vault::seal_host(&self.master_key, &*self.ids, &host.id, secrets.clone())?;
                    calls.extend(sealed.into_iter().map(|(name, value)| put_host_secret(&host.id, name, value)));
                }
                AdminRow::CodeHostRemoved { id, at } => {
                    calls.push(call!("DELETE FROM code_hosts WHERE id = $1", id.to_string()));
                    calls.push(put_deleted(deleted_code_host(id), *at));
                }
                AdminRow::Trust(trust) => calls.push(trusts::put(trust)?),
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
                    let sealed = vault::seal_slack(&self.master_key, &*self.ids, workspace.id, secrets.clone())?;
                    calls.extend(slack::put(workspace, sealed)?);
                }
                AdminRow::SlackWorkspaceRemoved { id, at } => {
                    calls.extend(slack::remove(*id));
                    calls.push(put_deleted(deleted_slack_workspace(*id), *at));
                }
                AdminRow::SlackCode { hash, user, expires_at } => {
                    calls.push(call!("DELETE FROM slack_codes WHERE owner = $1", user.to_string()));
                    calls.push(call!(
                        "INSERT INTO slack_codes (hash, owner, expires_at) VALUES ($1, $2, $3)",
                        hash.0.to_vec(),
                        user.to_string(),
                        expires_at.as_micros()
                    ));
                }
                AdminRow::SlackCodeRemoved(TokenHash(hash)) => {
                    calls.push(call!("DELETE FROM slack_codes WHERE hash = $1", hash.to_vec()));
                }
                AdminRow::Key(key) => calls.push(put_key(key)?),
                AdminRow::User(user) => calls.push(put_user(user)),
                AdminRow::Session(session) => calls.push(put_session(session)),
                AdminRow::SessionsEnded(which) => calls.push(end_sessions(*which)),
                AdminRow::Link(link) => calls.push(call!(
                    "INSERT INTO links (hash, owner, expires_at) VALUES ($1, $2, $3)",
                    link.hash.0.to_vec(),
                    link.user.map(|user| user.to_string()),
                    link.expires_at.as_micros()
                )),
                AdminRow::LinkDeleted(TokenHash(hash)) => {
                    calls.push(call!("DELETE FROM links WHERE hash = $1", hash.to_vec()));
                }
                AdminRow::LinksDeleted(user) => {
                    calls.push(call!("DELETE FROM links WHERE owner = $1", user.to_string()));
                }
                AdminRow::PullOpened(pull) => calls.push(open_pull(pull)?),
                AdminRow::Pull(pull) => calls.push(end_pull(pull)),
                AdminRow::Inbox(event) => calls.push(insert_event(event)?),
                AdminRow::Comment { repository, number, comment } => {
                    calls.push(put_comment(repository, *number, comment));
                }
                AdminRow::DraftRemoved { repository, number: of, place } => calls.push(call!(
                    "DELETE FROM comments WHERE repository = $1 AND number = $2 AND place = $3 AND draft <> 0",
                    repository.clone(),
                    number(*of),
                    number(*place)
                )),
            }
        }
        calls.extend(change.audit.iter().map(audit));
        Ok(calls)
    }
}

impl PostgresStore {
    fn webhook_secret(&self, id: WebhookId, change: &SecretChange) -> Result<Vec<Call>, StoreError> {
        let put = "INSERT INTO webhook_secrets (webhook, name, value) VALUES ($1, 'current', $2)
                   ON CONFLICT (webhook, name) DO UPDATE SET value = excluded.value";
        let mut calls = Vec::new();
        let secret = match change {
            SecretChange::Keep => return Ok(calls),
            SecretChange::New(secret) => secret,
            SecretChange::Rotate(secret) => {
                let keep = "INSERT INTO webhook_secrets (webhook, name, value)
                            SELECT webhook, 'old', value FROM webhook_secrets WHERE webhook = $1 AND name = 'current'
                            ON CONFLICT (webhook, name) DO UPDATE SET value = excluded.value";
                calls.push(call!(keep, id.to_string()));
                secret
            }
        };
        let sealed = vault::seal_webhook(&self.master_key, &*self.ids, id, secret)?;
        calls.push(call!(put, id.to_string(), sealed));
        Ok(calls)
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

fn put_project(project: &Project) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO projects (id, repository, ref, agent, model, created_at, settings, concurrent_runs, version,
                               identity)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (id) DO UPDATE
         SET repository = $2, ref = $3, agent = $4, model = $5, settings = $7, concurrent_runs = $8, version = $9,
             identity = $10",
        project.id.to_string(),
        project.repository.clone(),
        project.reference.clone(),
        project.agent.clone(),
        project.model.clone(),
        project.created_at.as_micros(),
        to_json(&project.settings)?,
        project.settings.limits.concurrent_runs.map(i64::from),
        number(project.version),
        project.identity.as_ref().map(to_json).transpose()?,
    ))
}

fn put_secret(project: &ProjectId, name: String, value: Option<Vec<u8>>) -> Call {
    let project = project.to_string();
    match value {
        Some(value) => call!(
            "INSERT INTO project_secrets (project, name, value) VALUES ($1, $2, $3)
             ON CONFLICT (project, name) DO UPDATE SET value = excluded.value",
            project,
            name,
            value
        ),
        None => call!("DELETE FROM project_secrets WHERE project = $1 AND name = $2", project, name),
    }
}

fn put_code_host(host: &CodeHost) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO code_hosts (id, name, settings, created_at, version) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET name = $2, settings = $3, version = $5",
        host.id.to_string(),
        host.name().0,
        to_json(&HostDocument::of(host))?,
        host.created_at.as_micros(),
        number(host.version),
    ))
}

fn put_host_secret(host: &CodeHostId, name: String, value: Option<Vec<u8>>) -> Call {
    let host = host.to_string();
    match value {
        Some(value) => call!(
            "INSERT INTO code_host_secrets (code_host, name, value) VALUES ($1, $2, $3)
             ON CONFLICT (code_host, name) DO UPDATE SET value = excluded.value",
            host,
            name,
            value
        ),
        None => call!("DELETE FROM code_host_secrets WHERE code_host = $1 AND name = $2", host, name),
    }
}

fn delete_project(project: &ProjectId, at: Timestamp) -> Vec<Call> {
    let id = || project.to_string();
    let mut calls = vec![
        // A project may have many rows, so the deletion may take long.
        call!("SET LOCAL statement_timeout = '10min'"),
        call!(PLAN_FOR_MANY[0]),
        call!(PLAN_FOR_MANY[1]),
        call!("DELETE FROM log WHERE job IN (SELECT id FROM jobs WHERE project = $1)", id()),
        call!("DELETE FROM runs WHERE job IN (SELECT id FROM jobs WHERE project = $1)", id()),
        call!("DELETE FROM messages WHERE job IN (SELECT id FROM jobs WHERE project = $1)", id()),
        call!(
            "INSERT INTO tasks (kind, effect, created_at, due_at)
             SELECT $2::text, json_build_object('kind', $2::text, 'job', id)::text, $3::bigint, $3::bigint
             FROM jobs WHERE project = $1",
            id(),
            Effect::REMOVE_BLOBS,
            at.as_micros()
        ),
    ];
    calls.extend(slack::remove_jobs_of(project));
    calls.extend([
        call!("DELETE FROM job_pulls WHERE project = $1", id()),
        call!("DELETE FROM job_issues WHERE project = $1", id()),
        call!("DELETE FROM check_watches WHERE project = $1", id()),
        call!("DELETE FROM inbox WHERE project = $1", id()),
        call!("DELETE FROM job_attributes WHERE project = $1", id()),
        call!("DELETE FROM feed WHERE project = $1", id()),
        call!("DELETE FROM jobs WHERE project = $1", id()),
        call!("DELETE FROM idempotency_keys WHERE project = $1", id()),
        call!("DELETE FROM rate_windows WHERE project = $1", id()),
        call!("DELETE FROM spending WHERE project = $1", id()),
        call!("DELETE FROM reservations WHERE project = $1", id()),
    ]);
    calls.extend(webhooks::remove(None, project));
    calls.extend([call!("DELETE FROM projects WHERE id = $1", id()), put_deleted(deleted_project(project), at)]);
    calls
}

fn put_key(key: &ApiKey) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO keys (id, hash, name, prefix, scopes, projects, expires_at, allowed_ips, created_at, creator,
                           owner, revoked_at, version, grants, old_hash, old_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         ON CONFLICT (id) DO UPDATE SET hash = $2, prefix = $4, revoked_at = $12, version = $13,
                 old_hash = $15, old_until = $16",
        key.id.to_string(),
        key.hash.0.to_vec(),
        key.name.clone(),
        key.prefix.clone(),
        to_json(&key.scopes_for_older_versions())?,
        key.projects.as_ref().map(to_json).transpose()?,
        key.expires_at.map(Timestamp::as_micros),
        key.allowed_ips.as_ref().map(to_json).transpose()?,
        key.created_at.as_micros(),
        key.creator.clone(),
        key.owner.map(|owner| owner.to_string()),
        key.revoked_at.map(Timestamp::as_micros),
        number(key.version),
        to_json(&key.scopes)?,
        key.old_secret.map(|old| old.hash.0.to_vec()),
        key.old_secret.map(|old| old.until.as_micros()),
    ))
}

fn put_user(user: &User) -> Call {
    call!(
        "INSERT INTO users (id, name, role, password, issuer, subject, created_at, signed_in_at, disabled_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (id) DO UPDATE
         SET role = $3, password = $4, issuer = $5, subject = $6, signed_in_at = $8, disabled_at = $9, version = $10",
        user.id.to_string(),
        user.name.clone(),
        user.role.name(),
        user.password.as_ref().map(|hash| hash.0.clone()),
        user.identity.as_ref().map(|identity| identity.issuer.clone()),
        user.identity.as_ref().map(|identity| identity.subject.clone()),
        user.created_at.as_micros(),
        user.signed_in_at.map(Timestamp::as_micros),
        user.disabled_at.map(Timestamp::as_micros),
        number(user.version),
    )
}

fn open_pull(pull: &LocalPull) -> Result<Call, PgError> {
    Ok(call!(
        "INSERT INTO pulls (repository, number, title, body, state, draft, head, base, labels, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        pull.repository.clone(),
        number(pull.number),
        pull.title.clone(),
        pull.body.clone(),
        pull.state.name(),
        i64::from(pull.draft),
        pull.head.clone(),
        pull.base.clone(),
        to_json(&pull.labels)?,
        pull.created_at.as_micros(),
    ))
}

fn end_pull(pull: &LocalPull) -> Call {
    let (base, head) = pull.ended_between.clone().unzip();
    call!(
        "UPDATE pulls SET state = $3, ended_at = $4, ended_base = $5, ended_head = $6, ended_by = $7, merge_commit = $8
         WHERE repository = $1 AND number = $2",
        pull.repository.clone(),
        number(pull.number),
        pull.state.name(),
        pull.ended_at.map(Timestamp::as_micros),
        base.map(String::from),
        head.map(String::from),
        pull.ended_by.clone(),
        pull.merge_commit.clone().map(String::from),
    )
}

fn put_comment(repository: &str, pull: u64, comment: &Comment) -> Call {
    let Comment { place, comment } = comment;
    let line = comment.line.clone();
    call!(
        "INSERT INTO comments
             (repository, number, place, author, author_id, body, at, path, side, line, hunk, review, draft, message,
              verdict, resolved_by, resolved_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
         ON CONFLICT (repository, number, place)
         DO UPDATE SET at = excluded.at, review = excluded.review, draft = excluded.draft,
                       resolved_by = excluded.resolved_by, resolved_at = excluded.resolved_at",
        repository.to_owned(),
        number(pull),
        number(*place),
        comment.author.clone(),
        comment.author_id.clone(),
        comment.body.clone(),
        comment.at.as_micros(),
        line.as_ref().map(|line| line.path.clone()),
        line.as_ref().map(|line| line.side.name()),
        line.as_ref().map(|line| number(line.line)),
        line.map(|line| line.hunk),
        comment.review.map(number),
        i64::from(comment.is_draft),
        comment.message.map(|message| message.to_string()),
        comment.verdict.name(),
        comment.resolved.as_ref().map(|resolution| resolution.by.clone()),
        comment.resolved.as_ref().map(|resolution| resolution.at.as_micros()),
    )
}

fn put_session(session: &SignedIn) -> Call {
    call!(
        "INSERT INTO sessions (hash, owner, created_at, seen_at, address, browser) VALUES ($1, $2, $3, $4, $5, $6)",
        session.hash.0.to_vec(),
        session.user.to_string(),
        session.created_at.as_micros(),
        session.seen_at.as_micros(),
        session.address.clone(),
        session.browser.clone(),
    )
}

fn end_sessions(which: SessionsToEnd) -> Call {
    match which {
        SessionsToEnd::One(hash) => call!("DELETE FROM sessions WHERE hash = $1", hash.0.to_vec()),
        SessionsToEnd::AllOf(user) => call!("DELETE FROM sessions WHERE owner = $1", user.to_string()),
        SessionsToEnd::OthersOf(user, hash) => {
            call!("DELETE FROM sessions WHERE owner = $1 AND hash <> $2", user.to_string(), hash.0.to_vec())
        }
    }
}

fn number(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}
