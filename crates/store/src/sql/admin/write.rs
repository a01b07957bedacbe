//! Writes the rows of a change.

use journeyman_core::decision::{AnyKey, AnyPut, Row};
use journeyman_core::job::effect::Effect;
use journeyman_core::ports::StoreError;
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::refusal::ResourceKind;
use journeyman_core::resource::{Key, Put, removed_name};
use journeyman_core::time::Timestamp;

use super::{Sealing, put_deleted};
use crate::sql::inbox::insert_event;
use crate::sql::outbox::insert_task;
use crate::sql::resource::{self, ResourceTable};
use crate::sql::{DbError, Statement, Tx, keys, projects, pulls, slack, sql, users, webhooks};
use crate::{retired, rows, tables, vault};

/// Writes a row.
pub(super) async fn write(
    tx: &mut (dyn Tx + '_),
    row: &Row,
    sealing: Sealing<'_>,
    now: Timestamp,
) -> Result<(), DbError> {
    let statements = match row {
        Row::Put(put) => put_resource(put, sealing)?,
        Row::Removed { key, at } => {
            return match key {
                AnyKey::Webhook(key) => remove(tx, key, *at).await,
                AnyKey::Template(key) => remove(tx, key, *at).await,
                AnyKey::CodeHost(key) => remove(tx, key, *at).await,
                AnyKey::Trust(key) => remove(tx, key, *at).await,
                AnyKey::SlackWorkspace(key) => remove(tx, key, *at).await,
            };
        }
        Row::Project(project, secrets) => {
            retire(tx, project, secrets, sealing, now).await?;
            put_project(project, secrets, sealing)?
        }
        Row::ProjectDeleted { id, repository, at } => {
            tx.take_long();
            tx.removed_jobs();
            let mut statements = tables::delete_project(id, *at);
            statements.extend(webhooks::remove(None, id));
            let effect = repository.clone().map(|repository| Effect::RemoveRepository { repository });
            statements.extend(effect.map(|effect| insert_task(&effect, *at)).transpose()?);
            statements.push(put_deleted(removed_name(ResourceKind::Project, None, id), *at));
            statements
        }
        Row::JobDeleted { id, project, at } => {
            tx.removed_jobs();
            let mut statements = tables::delete_jobs(&[id.to_string()], *at);
            statements.push(put_deleted(removed_name(ResourceKind::Job, Some(project), id), *at));
            statements
        }
        Row::TrustUsed { id, at } => vec![sql!(
            "UPDATE trusts SET last_used_at = greatest(coalesce(last_used_at, $2), $2) WHERE id = $1",
            id.to_string(),
            *at,
        )],
        Row::SlackCode { hash, user, expires_at } => slack::put_code(*hash, *user, *expires_at).into(),
        Row::SlackCodeRemoved(hash) => vec![slack::remove_code(*hash)],
        Row::Key(key) => vec![keys::put(key)?],
        Row::User(user) => vec![users::put(user)?],
        Row::Session(session) => vec![users::put_session(session)],
        Row::SessionProven { hash, at } => vec![users::prove_session(*hash, *at)],
        Row::SessionsEnded(which) => vec![users::end_sessions(*which)],
        Row::Link(link) => vec![users::put_link(link)],
        Row::LinkDeleted(hash) => vec![users::remove_link(*hash)],
        Row::LinksDeleted(user) => vec![users::remove_links_of(*user)],
        Row::PullOpened(pull) => vec![pulls::open(pull)?],
        Row::Pull(pull) => vec![pulls::end(pull)],
        Row::Inbox(event) => vec![insert_event(event)?],
        Row::Comment { repository, number, comment } => vec![pulls::put_comment(repository, *number, comment)],
        Row::DraftRemoved { repository, number, comment } => vec![pulls::remove_draft(repository, *number, *comment)],
    };
    execute(tx, statements).await
}

async fn execute(tx: &mut (dyn Tx + '_), statements: Vec<Statement>) -> Result<(), DbError> {
    for statement in statements {
        tx.execute(statement).await?;
    }
    Ok(())
}

fn put_resource(put: &AnyPut, sealing: Sealing<'_>) -> Result<Vec<Statement>, StoreError> {
    fn statements<R: ResourceTable>(put: &Put<R>, sealing: Sealing<'_>) -> Result<Vec<Statement>, StoreError> {
        R::put(put, sealing)
    }
    match put {
        AnyPut::Webhook(put) => statements(put, sealing),
        AnyPut::Template(put) => statements(put, sealing),
        AnyPut::CodeHost(put) => statements(put, sealing),
        AnyPut::Trust(put) => statements(put, sealing),
        AnyPut::SlackWorkspace(put) => statements(put, sealing),
    }
}

async fn remove<R: ResourceTable>(tx: &mut (dyn Tx + '_), key: &Key<R>, at: Timestamp) -> Result<(), DbError> {
    if R::HAS_MANY_ROWS {
        tx.take_long();
    }
    execute(tx, resource::remove(key, at)).await
}

fn put_project(
    project: &Project,
    secrets: &SecretChanges,
    Sealing { keys, ids }: Sealing<'_>,
) -> Result<Vec<Statement>, StoreError> {
    let sealed = vault::seal_all(keys, ids, &project.id, secrets.clone())?;
    let mut statements = vec![projects::put(project)?];
    statements.extend(sealed.into_iter().map(|(name, value)| projects::put_secret(&project.id, &name, value)));
    Ok(statements)
}

/// Keeps the values of a project's secrets that are about to be changed or removed. The lock of the project prevents other
/// changes of them.
async fn retire(
    tx: &mut (dyn Tx + '_),
    project: &Project,
    changes: &SecretChanges,
    Sealing { keys, ids }: Sealing<'_>,
    now: Timestamp,
) -> Result<(), DbError> {
    if changes.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = changes.keys().cloned().collect();
    let stored = sql!(
        "SELECT name, value FROM project_secrets WHERE project = $1 AND name = ANY (($2))",
        project.id.as_str(),
        names,
    );
    for row in tx.query(stored).await? {
        let (name, value) = rows::secret(&row)?;
        let next = changes.get(&name).and_then(Option::as_ref);
        if !retired::is_same(keys, &project.id, &name, &value, next) {
            tx.execute(sql!(
                "INSERT INTO retired_secrets (project, key, value, at) VALUES ($1, $2, $3, $4)",
                project.id.as_str(),
                retired::key(&name, ids),
                value,
                now,
            ))
            .await?;
        }
    }
    Ok(())
}
