//! The statements of administrative changes: of projects, keys, users and pull requests.

use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::admin::{
    AdminRow, AdminState, Exchange, LiveKeys, Once, Subject, deleted_code_host, deleted_job, deleted_project,
    deleted_slack_workspace, deleted_template, deleted_trust, deleted_webhook,
};
use journeyman_core::audit::AuditEntry;
use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, UserId, WebhookId};
use journeyman_core::job::effect::Effect;
use journeyman_core::ports::{AdminError, AdminStore, Administered, DecideAdmin};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::slack::SlackWorkspace;
use journeyman_core::template::name_key;
use journeyman_core::time::{IdGen, Timestamp};
use journeyman_core::user::SignInLink;
use journeyman_core::webhook::SecretChange;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::ledger::job_by_id;
use super::rows::collect;
use super::sweep::remove_job;
use super::tx::{execute, run};
use super::write::Session;
use crate::admin::{AdminTables, Answers, administer};
use crate::sql::inbox::insert_event;
use crate::sql::outbox::insert_task;
use crate::sql::{Statement, audit, code_hosts, keys, projects, pulls, slack, templates, trusts, users, webhooks};
use crate::vault::{self, MasterKeys};
use crate::{retired, rows};

type Op<T> = Result<T, OpError<AdminError>>;

impl From<AdminError> for OpError<AdminError> {
    fn from(error: AdminError) -> Self {
        Self::Refused(error)
    }
}

#[async_trait]
impl AdminStore for SqliteStore {
    async fn administer(
        &self,
        subject: Subject,
        once: Option<Once>,
        now: Timestamp,
        mut decide: DecideAdmin,
    ) -> Result<Administered, AdminError> {
        let (keys, ids) = (self.master_keys.clone(), Arc::clone(&self.ids));
        self.writer
            .write(move |db| {
                let answers = Answers::Sealed { keys: &keys, ids: &*ids };
                let mut tables = Tables { db, keys: &keys, ids: &*ids, now };
                administer(&mut tables, &answers, &subject, once.as_ref(), now, &mut decide)
            })
            .await
    }

    async fn answered(&self, claim: Claim, now: Timestamp) -> Result<Option<String>, AdminError> {
        let known = self.readers.find(|db| remembered(db, &claim))?;
        Answers::Sealed { keys: &self.master_keys, ids: &*self.ids }.replay(&claim, known, now)
    }
}

fn remembered(db: &Connection, claim: &Claim) -> Result<Option<Remembered<String>>, ReadError> {
    let mut query = db.prepare_cached("SELECT * FROM idempotency_keys WHERE project = ?1 AND key = ?2")?;
    let mut found = query.query([claim.scope(), &claim.stored_key()])?;
    found.next()?.map(rows::remembered).transpose()
}

/// The tables, inside a transaction. A subject needs no lock, because SQLite has only one writer.
struct Tables<'a> {
    db: &'a Session<'a>,
    keys: &'a MasterKeys,
    ids: &'a dyn IdGen,
    now: Timestamp,
}

impl AdminTables for Tables<'_> {
    type Error = OpError<AdminError>;

    fn remembered(&mut self, claim: &Claim) -> Op<Option<Remembered<String>>> {
        Ok(remembered(self.db, claim)?)
    }

    fn load(&mut self, subject: &Subject) -> Op<AdminState> {
        let mut state = AdminState { epoch: self.db.epoch.base, ..AdminState::default() };
        match subject {
            Subject::Project(id) => state.project = self.project(id)?,
            Subject::ProjectWithJobs(id) => {
                state.project = self.project(id)?;
                let active = "SELECT 1 FROM jobs WHERE project = ?1 AND due_at IS NOT NULL LIMIT 1";
                state.has_active_jobs = self.db.prepare_cached(active)?.exists([id.as_str()])?;
            }
            Subject::Job(id, _) => state.job = job_by_id(self.db, *id)?,
            Subject::Webhook(id, project) => {
                state.project = self.project(project)?;
                let text = "SELECT * FROM webhooks WHERE id = ?1 AND project = ?2";
                let values = [id.to_string(), project.to_string()];
                state.webhook = self.one(text, values, |row| rows::webhook(row))?;
                let count = "SELECT count(*) FROM webhooks WHERE project = ?1";
                let count: i64 = self.db.prepare_cached(count)?.query_row([project.as_str()], |row| row.get(0))?;
                state.webhooks = usize::try_from(count).unwrap_or(usize::MAX);
            }
            Subject::Template(id, project, name) => {
                state.project = self.project(project)?;
                let own = [id.to_string(), project.to_string()];
                let text = "SELECT * FROM templates WHERE id = ?1 AND project = ?2";
                state.template = self.one(text, own, |row| rows::template(row))?;
                let count = "SELECT count(*) FROM templates WHERE project = ?1";
                let count: i64 = self.db.prepare_cached(count)?.query_row([project.as_str()], |row| row.get(0))?;
                state.templates = usize::try_from(count).unwrap_or(usize::MAX);
                let taken = "SELECT 1 FROM templates WHERE project = ?1 AND name_key = ?2 AND id <> ?3";
                let values = params![project.as_str(), name_key(name), id.to_string()];
                state.name_is_taken = self.db.prepare_cached(taken)?.exists(values)?;
            }
            Subject::Key(id) => {
                state.key = self.one("SELECT * FROM keys WHERE id = ?1", [id.to_string()], |row| rows::key(row))?;
            }
            Subject::User(id) => self.load_user(&mut state, *id)?,
            Subject::UserIdentity(id, identity) => {
                self.load_user(&mut state, *id)?;
                let text = "SELECT 1 FROM users WHERE issuer = ?1 AND subject = ?2 AND id <> ?3";
                let values = params![identity.issuer, identity.subject, id.to_string()];
                state.name_is_taken = self.db.prepare_cached(text)?.exists(values)?;
            }
            Subject::NewUser(name, identity) => {
                let (issuer, subject) = identity.as_ref().map(|known| (&known.issuer, &known.subject)).unzip();
                let text = "SELECT 1 FROM users WHERE name = ?1 OR (issuer = ?2 AND subject = ?3)";
                state.name_is_taken = self.db.prepare_cached(text)?.exists(params![name, issuer, subject])?;
            }
            Subject::Pull(repository, of) => {
                let text = "SELECT * FROM pulls WHERE repository = ?1 AND number = ?2";
                state.pull = self.one(text, params![repository, number(*of)], |row| rows::pull(row))?;
                let text = "SELECT coalesce(max(place), 0) FROM comments WHERE repository = ?1 AND number = ?2";
                let last: i64 =
                    self.db.prepare_cached(text)?.query_row(params![repository, number(*of)], |row| row.get(0))?;
                let (last, opened) =
                    (u64::try_from(last).unwrap_or(0), state.pull.as_ref().map(|pull| pull.created_at));
                state.last_comment = opened.map_or(last, |opened| self.db.epoch.continued(last, opened));
                let text = "SELECT * FROM comments WHERE repository = ?1 AND number = ?2 AND draft <> 0 ORDER BY place";
                let mut drafts = self.db.prepare_cached(text)?;
                state.drafts = collect(&mut drafts.query(params![repository, number(*of)])?, |row| rows::comment(row))?;
            }
            Subject::NewPull(repository, head) => {
                let text = "SELECT * FROM pulls WHERE repository = ?1 AND head = ?2 AND state = 'open'";
                state.pull = self.one(text, params![repository, head], |row| rows::pull(row))?;
                let text = "SELECT coalesce(max(number), 0) FROM pulls WHERE repository = ?1";
                let last: i64 = self.db.prepare_cached(text)?.query_row([repository], |row| row.get(0))?;
                state.last_pull = u64::try_from(last).unwrap_or(0).max(self.db.epoch.pulls_after());
            }
            Subject::PullLines(repository, of) => {
                let text = "SELECT * FROM pulls WHERE repository = ?1 AND number = ?2";
                state.pull = self.one(text, params![repository, number(*of)], |row| rows::pull(row))?;
                let text = "SELECT * FROM comments
                            WHERE repository = ?1 AND number = ?2 AND draft = 0 AND path IS NOT NULL ORDER BY place";
                let mut lines = self.db.prepare_cached(text)?;
                state.lines = collect(&mut lines.query(params![repository, number(*of)])?, |row| rows::comment(row))?;
            }
            Subject::CodeHost(id, name) => {
                let text = "SELECT * FROM code_hosts WHERE id = ?1";
                state.code_host = self.one(text, [id.as_str()], |row| rows::code_host(row))?;
                let taken = "SELECT 1 FROM code_hosts WHERE name = ?1 AND id <> ?2";
                state.name_is_taken = self.db.prepare_cached(taken)?.exists([&name.0, id.as_str()])?;
                let used = "SELECT 1 FROM projects WHERE settings ->> '$.code_host.host' = ?1";
                state.code_host_is_used = self.db.prepare_cached(used)?.exists([id.as_str()])?;
            }
            Subject::Trust(id, name) => {
                let id = id.to_string();
                state.trust = self.one("SELECT * FROM trusts WHERE id = ?1", [&id], |row| rows::trust(row))?;
                let count = "SELECT count(*) FROM trusts";
                let count: i64 = self.db.prepare_cached(count)?.query_row([], |row| row.get(0))?;
                state.trusts = usize::try_from(count).unwrap_or(usize::MAX);
                let taken = "SELECT 1 FROM trusts WHERE name = ?1 AND id <> ?2";
                state.name_is_taken = self.db.prepare_cached(taken)?.exists([name, &id])?;
                let keys = "SELECT * FROM keys WHERE creator = ?1 AND revoked_at IS NULL";
                let mut query = self.db.prepare_cached(keys)?;
                state.keys = collect(&mut query.query([&id])?, |row| rows::key(row))?;
            }
            Subject::Exchange(Exchange { trust, key, name, at }) => {
                let id = trust.to_string();
                state.trust = self.one("SELECT * FROM trusts WHERE id = ?1", [&id], |row| rows::trust(row))?;
                let owner = "SELECT users.* FROM users JOIN trusts ON trusts.owner = users.id WHERE trusts.id = ?1";
                state.user = self.one(owner, [&id], |row| rows::user(row))?;
                let key = key.to_string();
                state.key = self.one("SELECT * FROM keys WHERE id = ?1", [&key], |row| rows::key(row))?;
                let live = "SELECT count(*), count(*) FILTER (WHERE name = ?3) FROM keys
                            WHERE creator = ?1 AND revoked_at IS NULL AND id <> ?2 AND expires_at > ?4";
                let count = |count: i64| usize::try_from(count).unwrap_or(usize::MAX);
                let (all, of_subject) = (self.db.prepare_cached(live)?)
                    .query_row(params![id, key, name, at.as_micros()], |row| Ok((row.get(0)?, row.get(1)?)))?;
                state.live_keys = LiveKeys { all: count(all), of_subject: count(of_subject) };
            }
            Subject::SlackWorkspace(id, team) => {
                state.slack = self.slack_workspace(*id)?;
                let taken = "SELECT 1 FROM slack_workspaces WHERE team = ?1 AND id <> ?2";
                state.name_is_taken = self.db.prepare_cached(taken)?.exists([team, &id.to_string()])?;
            }
            Subject::SlackCode(id, hash) => {
                state.slack = self.slack_workspace(*id)?;
                state.slack_code =
                    self.one("SELECT owner FROM slack_codes WHERE hash = ?1", params![hash.0], |row| {
                        rows::slack_code(row)
                    })?;
            }
            Subject::Link(hash, name) => {
                let link: Option<SignInLink> =
                    self.one("SELECT * FROM links WHERE hash = ?1", params![hash.0], |row| rows::link(row))?;
                match link.as_ref().and_then(|link| link.user) {
                    Some(id) => self.load_user(&mut state, id)?,
                    None => {
                        state.has_other_administrator = self.has_administrator("")?;
                        let taken = "SELECT 1 FROM users WHERE name = ?1";
                        state.name_is_taken = self.db.prepare_cached(taken)?.exists([name])?;
                    }
                }
                state.link = link;
            }
        }
        if let Some(name) = subject.deleted_name().filter(|_| !state.has(subject)) {
            let deleted = "SELECT 1 FROM deleted WHERE subject = ?1";
            state.was_deleted = self.db.prepare_cached(deleted)?.exists([name])?;
        }
        Ok(state)
    }

    fn write(&mut self, row: &AdminRow) -> Op<()> {
        match row {
            AdminRow::Project(project, secrets) => {
                self.retire(&project.id, secrets)?;
                let sealed = vault::seal_all(self.keys, self.ids, &project.id, secrets.clone())?;
                execute(self.db, &projects::put(project)?)?;
                for (name, value) in sealed {
                    execute(self.db, &projects::put_secret(&project.id, &name, value))?;
                }
                Ok(())
            }
            AdminRow::ProjectDeleted { id, repository, at } => self.delete_project(id, repository.as_deref(), *at),
            AdminRow::JobDeleted { id, project, at } => {
                remove_job(self.db, &id.to_string(), at.as_micros())?;
                self.deleted(&deleted_job(*id, project), *at)
            }
            AdminRow::Webhook(webhook, secret) => {
                execute(self.db, &webhooks::put(webhook)?)?;
                self.put_webhook_secret(webhook.id, secret)
            }
            AdminRow::WebhookRemoved { id, project, at } => {
                self.remove_webhooks(Some(*id), project)?;
                self.deleted(&deleted_webhook(*id, project), *at)
            }
            AdminRow::Template(template) => Ok(execute(self.db, &templates::put(template)?)?),
            AdminRow::TemplateRemoved { id, project, at } => {
                self.execute("DELETE FROM templates WHERE id = ?1", [id.to_string()])?;
                self.deleted(&deleted_template(*id, project), *at)
            }
            AdminRow::CodeHost(host, secrets) => {
                let sealed = vault::seal_host(self.keys, self.ids, &host.id, secrets.clone())?;
                execute(self.db, &code_hosts::put(host)?)?;
                for (name, value) in sealed {
                    execute(self.db, &code_hosts::put_secret(&host.id, name, value))?;
                }
                Ok(())
            }
            AdminRow::CodeHostRemoved { id, at } => {
                self.execute("DELETE FROM code_hosts WHERE id = ?1", [id.as_str()])?;
                self.deleted(&deleted_code_host(id), *at)
            }
            AdminRow::Trust(trust) => Ok(execute(self.db, &trusts::put(trust)?)?),
            AdminRow::TrustUsed { id, at } => self.execute(
                "UPDATE trusts SET last_used_at = max(coalesce(last_used_at, ?2), ?2) WHERE id = ?1",
                params![id.to_string(), at.as_micros()],
            ),
            AdminRow::TrustRemoved { id, at } => {
                self.execute("DELETE FROM trusts WHERE id = ?1", [id.to_string()])?;
                self.deleted(&deleted_trust(*id), *at)
            }
            AdminRow::SlackWorkspace(workspace, secrets) => {
                let sealed = vault::seal_slack(self.keys, self.ids, workspace.id, secrets.clone())?;
                self.execute_all(&slack::put(workspace, sealed)?)
            }
            AdminRow::SlackWorkspaceRemoved { id, at } => {
                self.execute_all(&slack::remove(*id))?;
                self.deleted(&deleted_slack_workspace(*id), *at)
            }
            AdminRow::SlackCode { hash, user, expires_at } => {
                self.execute_all(&slack::put_code(*hash, *user, *expires_at))
            }
            AdminRow::SlackCodeRemoved(hash) => Ok(execute(self.db, &slack::remove_code(*hash))?),
            AdminRow::Key(key) => Ok(execute(self.db, &keys::put(key)?)?),
            AdminRow::User(user) => Ok(execute(self.db, &users::put(user)?)?),
            AdminRow::Session(session) => Ok(execute(self.db, &users::put_session(session))?),
            AdminRow::SessionProven { hash, at } => Ok(execute(self.db, &users::prove_session(*hash, *at))?),
            AdminRow::SessionsEnded(which) => Ok(execute(self.db, &users::end_sessions(*which))?),
            AdminRow::Link(link) => Ok(execute(self.db, &users::put_link(link))?),
            AdminRow::LinkDeleted(hash) => Ok(execute(self.db, &users::remove_link(*hash))?),
            AdminRow::LinksDeleted(user) => Ok(execute(self.db, &users::remove_links_of(*user))?),
            AdminRow::PullOpened(pull) => Ok(execute(self.db, &pulls::open(pull)?)?),
            AdminRow::Pull(pull) => Ok(execute(self.db, &pulls::end(pull))?),
            AdminRow::Inbox(event) => Ok(execute(self.db, &insert_event(event)?)?),
            AdminRow::Comment { repository, number, comment } => {
                Ok(execute(self.db, &pulls::put_comment(repository, *number, comment))?)
            }
            AdminRow::DraftRemoved { repository, number, place } => {
                Ok(execute(self.db, &pulls::remove_draft(repository, *number, *place))?)
            }
        }
    }

    fn note(&mut self, entry: &AuditEntry) -> Op<()> {
        Ok(execute(self.db, &audit::note(entry))?)
    }

    fn remember(&mut self, claim: &Claim, known: Remembered<String>) -> Op<()> {
        self.execute(
            "INSERT OR REPLACE INTO idempotency_keys (project, key, fingerprint, at, record)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![claim.scope(), claim.stored_key(), known.fingerprint.0, known.at.as_micros(), known.answer],
        )
    }
}

impl Tables<'_> {
    fn execute(&self, text: &str, values: impl rusqlite::Params) -> Op<()> {
        self.db.prepare_cached(text)?.execute(values)?;
        Ok(())
    }

    fn execute_all(&self, statements: &[Statement]) -> Op<()> {
        Ok(statements.iter().try_for_each(|statement| execute(self.db, statement))?)
    }

    fn one<T>(
        &self,
        text: &str,
        values: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> Result<T, ReadError>,
    ) -> Op<Option<T>> {
        let mut query = self.db.prepare_cached(text)?;
        let mut found = query.query(values)?;
        Ok(found.next()?.map(read).transpose()?)
    }

    fn project(&self, id: &ProjectId) -> Op<Option<Project>> {
        Ok(run(self.db, &projects::by_id(id))?.first().map(rows::project).transpose()?)
    }

    fn slack_workspace(&self, id: SlackWorkspaceId) -> Op<Option<SlackWorkspace>> {
        Ok(run(self.db, &slack::by_id(id))?.first().map(rows::slack_workspace).transpose()?)
    }

    fn load_user(&self, state: &mut AdminState, id: UserId) -> Op<()> {
        let id = id.to_string();
        state.user = self.one("SELECT * FROM users WHERE id = ?1", [&id], |row| rows::user(row))?;
        state.has_other_administrator = self.has_administrator(&id)?;
        let mut query = self.db.prepare_cached("SELECT * FROM keys WHERE owner = ?1 AND revoked_at IS NULL")?;
        state.keys = collect(&mut query.query([&id])?, |row| rows::key(row))?;
        Ok(())
    }

    /// Returns whether there is an enabled administrator other than the user with the ID `but`.
    fn has_administrator(&self, but: &str) -> Op<bool> {
        let text = "SELECT 1 FROM users WHERE role = 'administrator' AND disabled_at IS NULL AND id <> ?1";
        Ok(self.db.prepare_cached(text)?.exists([but])?)
    }

    /// Keeps the values of secrets that are about to be changed or removed.
    fn retire(&self, project: &ProjectId, changes: &SecretChanges) -> Op<()> {
        for (name, next) in changes {
            let text = "SELECT value FROM project_secrets WHERE project = ?1 AND name = ?2";
            let mut query = self.db.prepare_cached(text)?;
            let stored: Option<Vec<u8>> = query.query_row([project.as_str(), name], |row| row.get(0)).optional()?;
            if let Some(stored) = stored
                && !retired::is_same(self.keys, project, name, &stored, next.as_ref())
            {
                self.execute(
                    "INSERT INTO retired_secrets (project, key, value, at) VALUES (?1, ?2, ?3, ?4)",
                    params![project.as_str(), retired::key(name, self.ids), stored, self.now.as_micros()],
                )?;
            }
        }
        Ok(())
    }

    /// Deletes webhooks with their secrets and deliveries: one, or all of a project.
    fn remove_webhooks(&self, id: Option<WebhookId>, project: &ProjectId) -> Op<()> {
        self.execute_all(&[webhooks::remove_deliveries(id, project), webhooks::remove(id, project)])
    }

    fn put_webhook_secret(&self, id: WebhookId, change: &SecretChange) -> Op<()> {
        let secret = match change {
            SecretChange::Keep => return Ok(()),
            SecretChange::New(secret) => secret,
            SecretChange::Rotate(secret) => {
                execute(self.db, &webhooks::keep_secret(id))?;
                secret
            }
        };
        let sealed = vault::seal_webhook(self.keys, self.ids, id, secret)?;
        Ok(execute(self.db, &webhooks::put_secret(id, sealed))?)
    }

    fn deleted(&self, subject: &str, at: Timestamp) -> Op<()> {
        self.execute("INSERT OR REPLACE INTO deleted (subject, at) VALUES (?1, ?2)", params![subject, at.as_micros()])
    }

    fn delete_project(&self, id: &ProjectId, repository: Option<&str>, at: Timestamp) -> Op<()> {
        self.deleted(&deleted_project(id), at)?;
        self.remove_webhooks(None, id)?;
        self.execute_all(&slack::remove_jobs_of(id))?;
        self.execute(
            "INSERT INTO tasks (kind, effect, created_at, due_at)
             SELECT ?2, json_object('kind', ?2, 'job', id), ?3, ?3 FROM jobs WHERE project = ?1",
            params![id.as_str(), Effect::REMOVE_BLOBS, at.as_micros()],
        )?;
        for delete in [
            "DELETE FROM log WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
            "DELETE FROM runs WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
            "DELETE FROM messages WHERE job IN (SELECT id FROM jobs WHERE project = ?1)",
            "DELETE FROM job_pulls WHERE project = ?1",
            "DELETE FROM job_issues WHERE project = ?1",
            "DELETE FROM check_watches WHERE project = ?1",
            "DELETE FROM base_comparisons WHERE project = ?1",
            "DELETE FROM comparison_schedule WHERE project = ?1",
            "DELETE FROM inbox WHERE project = ?1",
            "DELETE FROM job_attributes WHERE project = ?1",
            "DELETE FROM feed WHERE project = ?1",
            "DELETE FROM jobs WHERE project = ?1",
            "DELETE FROM idempotency_keys WHERE project = ?1",
            "DELETE FROM rate_windows WHERE project = ?1",
            "DELETE FROM spending WHERE project = ?1",
            "DELETE FROM reservations WHERE project = ?1",
            "DELETE FROM projects WHERE id = ?1",
        ] {
            self.execute(delete, [id.as_str()])?;
        }
        if let Some(repository) = repository {
            let effect = Effect::RemoveRepository { repository: repository.to_owned() };
            execute(self.db, &insert_task(&effect, at)?)?;
        }
        self.db.removed_jobs();
        Ok(())
    }
}

fn number(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}
