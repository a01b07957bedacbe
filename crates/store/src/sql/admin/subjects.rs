//! Locks and loads the rows of subjects other than resources.

use async_trait::async_trait;
use journeyman_core::decision::job::{JobToDelete, LockedJob};
use journeyman_core::decision::key::{KeyToChange, LockedKey};
use journeyman_core::decision::project::{LockedProject, LockedProjectWithJobs, ProjectToChange, ProjectToDelete};
use journeyman_core::decision::pull::{LockedBranch, LockedLines, LockedPull, PullLines, PullOfBranch, PullToChange};
use journeyman_core::decision::slack::{LockedSlackCode, SlackCode};
use journeyman_core::decision::trust::{Exchange, LiveKeys, LockedExchange};
use journeyman_core::decision::user::{
    LinkToUse, LockedIdentity, LockedLink, LockedNames, LockedUser, NewUser, UserToChange, UserWithIdentity,
};
use journeyman_core::epoch::Epoch;
use journeyman_core::ids::UserId;
use journeyman_core::refusal::ResourceKind;
use journeyman_core::resource::removed_name;
use journeyman_core::slack::SlackWorkspace;
use journeyman_core::user::Identity;

use super::Lock;
use crate::rows::{self, Columns as _};
use crate::sql::resource::{ResourceTable as _, lock_all};
use crate::sql::{DbError, Row, Statement, Tx, decoded, lock, projects, pulls, sql};

#[async_trait]
impl Lock for ProjectToChange {
    async fn lock(&self, tx: &mut (dyn Tx + '_), epoch: &Epoch) -> Result<LockedProject, DbError> {
        let Self(id) = self;
        // The advisory lock also covers a project that does not exist yet.
        tx.execute(lock("project", id.as_str(), "")).await?;
        // New jobs lock the row with FOR KEY SHARE, which this lock permits.
        tx.execute(projects::lock(id)).await?;
        // The row is read after its lock was taken, so that the read sees the last committed version.
        Ok(LockedProject { project: tx.one(projects::by_id(id), rows::project).await?, epoch: epoch.base })
    }
}

#[async_trait]
impl Lock for ProjectToDelete {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedProjectWithJobs, DbError> {
        let Self(id) = self;
        // A project may have many jobs. The locks keep accepted messages from being deleted, and they are taken in the
        // order of all transactions: first jobs, then the rows of jobs.
        tx.take_long();
        tx.execute(lock("project", id.as_str(), "")).await?;
        tx.execute(sql!("SELECT id FROM projects WHERE id = $1 FOR UPDATE", id.as_str())).await?;
        let jobs = sql!(
            sqlite: "", postgres: "SELECT 1 FROM jobs WHERE project = $1 ORDER BY id FOR UPDATE"; id.as_str()
        );
        tx.execute(jobs).await?;
        let active = sql!("SELECT 1 FROM jobs WHERE project = $1 AND due_at IS NOT NULL LIMIT 1", id.as_str());
        let deleted = was_deleted(removed_name(ResourceKind::Project, None, id));
        let [project, active, deleted] = tx.all([projects::by_id(id), active, deleted]).await?;
        let project = first(&project, rows::project)?;
        Ok(LockedProjectWithJobs {
            has_active_jobs: !active.is_empty(),
            was_deleted: project.is_none() && !deleted.is_empty(),
            project,
        })
    }
}

#[async_trait]
impl Lock for JobToDelete {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedJob, DbError> {
        let Self(id, project) = self;
        tx.execute(sql!("SELECT id FROM jobs WHERE id = $1 FOR UPDATE", id.to_string())).await?;
        let job = sql!("SELECT id, state, diff, effort FROM jobs WHERE id = $1", id.to_string());
        let deleted = was_deleted(removed_name(ResourceKind::Job, Some(project), id));
        let [job, deleted] = tx.all([job, deleted]).await?;
        let job = first(&job, rows::job)?;
        Ok(LockedJob { was_deleted: job.is_none() && !deleted.is_empty(), job })
    }
}

#[async_trait]
impl Lock for KeyToChange {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedKey, DbError> {
        let id = self.0.to_string();
        tx.execute(lock("key", "", &id)).await?;
        let key = tx.one(sql!("SELECT * FROM keys WHERE id = $1 FOR UPDATE", id), rows::key).await?;
        Ok(LockedKey { key })
    }
}

/// Returns the statement that takes the lock of all changes of users, because the rule that an administrator always exists
/// concerns all users.
fn lock_users() -> Statement {
    sql!(sqlite: "", postgres: "SELECT pg_advisory_xact_lock(hashtextextended('users', 0))")
}

/// Returns the statement that selects a row if there is an enabled administrator other than the user; any, if it is empty.
fn other_administrator(user: String) -> Statement {
    sql!("SELECT 1 FROM users WHERE role = 'administrator' AND disabled_at IS NULL AND id <> $1 LIMIT 1", user,)
}

#[async_trait]
impl Lock for UserToChange {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedUser, DbError> {
        load_user(tx, self.0).await
    }
}

async fn load_user(tx: &mut (dyn Tx + '_), id: UserId) -> Result<LockedUser, DbError> {
    tx.execute(lock_users()).await?;
    let user = sql!("SELECT * FROM users WHERE id = $1", id.to_string());
    let keys = sql!("SELECT * FROM keys WHERE owner = $1 AND revoked_at IS NULL FOR UPDATE", id.to_string());
    let [user, other, keys] = tx.all([user, other_administrator(id.to_string()), keys]).await?;
    Ok(LockedUser {
        user: first(&user, rows::user)?,
        keys: decoded(&keys, rows::key)?,
        has_other_administrator: !other.is_empty(),
    })
}

#[async_trait]
impl Lock for UserWithIdentity {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedIdentity, DbError> {
        let Self(id, Identity { issuer, subject }) = self;
        let user = load_user(tx, *id).await?;
        let taken = sql!(
            "SELECT 1 FROM users WHERE issuer = $1 AND subject = $2 AND id <> $3",
            issuer,
            subject,
            id.to_string(),
        );
        Ok(LockedIdentity { user, is_taken: tx.exists(taken).await? })
    }
}

#[async_trait]
impl Lock for NewUser {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedNames, DbError> {
        let Self(name, identity) = self;
        let (issuer, subject) = identity.as_ref().map(|known| (&known.issuer, &known.subject)).unzip();
        tx.execute(lock_users()).await?;
        let taken =
            sql!("SELECT 1 FROM users WHERE name = $1 OR (issuer = $2 AND subject = $3)", name, issuer, subject,);
        Ok(LockedNames { is_taken: tx.exists(taken).await? })
    }
}

#[async_trait]
impl Lock for LinkToUse {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedLink, DbError> {
        let Self(hash, name) = self;
        tx.execute(lock_users()).await?;
        let link = sql!("SELECT * FROM links WHERE hash = $1", hash.0);
        let user = sql!("SELECT users.* FROM users JOIN links ON owner = id WHERE hash = $1", hash.0);
        let named = sql!("SELECT 1 FROM users WHERE name = $1", name);
        let [link, user, named, administrator] =
            tx.all([link, user, named, other_administrator(String::new())]).await?;
        Ok(LockedLink {
            link: first(&link, rows::link)?,
            user: first(&user, rows::user)?,
            name_is_taken: !named.is_empty(),
            has_administrator: !administrator.is_empty(),
        })
    }
}

#[async_trait]
impl Lock for Exchange {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedExchange, DbError> {
        let Self { trust: id, key, name, at } = self;
        // No change of users overlaps an exchange: a user whose rights end keeps no key.
        tx.execute(sql!(
            sqlite: "", postgres: "SELECT pg_advisory_xact_lock_shared(hashtextextended('users', 0))"
        ))
        .await?;
        // The lock on the trust also covers a key that does not exist yet.
        let trust = sql!("SELECT * FROM trusts WHERE id = $1 FOR UPDATE", id.to_string());
        let owner = sql!(
            "SELECT users.* FROM users JOIN trusts ON trusts.owner = users.id WHERE trusts.id = $1",
            id.to_string(),
        );
        let one = sql!("SELECT * FROM keys WHERE id = $1 FOR UPDATE", key.to_string());
        let live = sql!(
            "SELECT count(*) AS all_live, count(*) FILTER (WHERE name = $3) AS of_subject FROM keys
             WHERE creator = $1 AND revoked_at IS NULL AND id <> $2 AND expires_at > $4",
            id.to_string(),
            key.to_string(),
            name,
            *at,
        );
        let [trust, owner, key, live] = tx.all([trust, owner, one, live]).await?;
        Ok(LockedExchange {
            trust: first(&trust, rows::trust)?,
            owner: first(&owner, rows::user)?,
            key: first(&key, rows::key)?,
            live: LiveKeys { all: count(&live, "all_live")?, of_subject: count(&live, "of_subject")? },
        })
    }
}

#[async_trait]
impl Lock for SlackCode {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedSlackCode, DbError> {
        let Self(id, hash) = self;
        tx.execute(lock_all(ResourceKind::SlackWorkspace)).await?;
        let code = sql!("SELECT owner FROM slack_codes WHERE hash = $1", hash.0);
        let [workspace, user] = tx.all([SlackWorkspace::by_id(id), code]).await?;
        Ok(LockedSlackCode {
            workspace: first(&workspace, rows::slack_workspace)?,
            user: first(&user, rows::slack_code)?,
        })
    }
}

#[async_trait]
impl Lock for PullToChange {
    async fn lock(&self, tx: &mut (dyn Tx + '_), epoch: &Epoch) -> Result<LockedPull, DbError> {
        let Self(repository, number) = self;
        tx.execute(pulls::lock(repository)).await?;
        let last = sql!(
            "SELECT coalesce(max(place), 0) AS place FROM comments WHERE repository = $1 AND number = $2",
            repository,
            *number,
        );
        let drafts = sql!(
            "SELECT * FROM comments WHERE repository = $1 AND number = $2 AND draft <> 0 ORDER BY place",
            repository,
            *number,
        );
        let [pull, last, drafts] = tx.all([pull(repository, *number), last, drafts]).await?;
        let pull = first(&pull, rows::pull)?;
        let last = number_of(&last, "place")?;
        Ok(LockedPull {
            last_comment: pull.as_ref().map_or(last, |pull| epoch.continued(last, pull.created_at)),
            drafts: decoded(&drafts, rows::comment)?,
            pull,
        })
    }
}

#[async_trait]
impl Lock for PullOfBranch {
    async fn lock(&self, tx: &mut (dyn Tx + '_), epoch: &Epoch) -> Result<LockedBranch, DbError> {
        let Self(repository, head) = self;
        tx.execute(pulls::lock(repository)).await?;
        let open = sql!("SELECT * FROM pulls WHERE repository = $1 AND head = $2 AND state = 'open'", repository, head);
        let last = sql!("SELECT coalesce(max(number), 0) AS number FROM pulls WHERE repository = $1", repository);
        let [pull, last] = tx.all([open, last]).await?;
        Ok(LockedBranch {
            pull: first(&pull, rows::pull)?,
            last_pull: number_of(&last, "number")?.max(epoch.pulls_after()),
        })
    }
}

#[async_trait]
impl Lock for PullLines {
    async fn lock(&self, tx: &mut (dyn Tx + '_), _: &Epoch) -> Result<LockedLines, DbError> {
        let Self(repository, number) = self;
        tx.execute(pulls::lock(repository)).await?;
        let lines = sql!(
            "SELECT * FROM comments
             WHERE repository = $1 AND number = $2 AND draft = 0 AND path IS NOT NULL ORDER BY place",
            repository,
            *number,
        );
        let [pull, lines] = tx.all([pull(repository, *number), lines]).await?;
        Ok(LockedLines { pull: first(&pull, rows::pull)?, lines: decoded(&lines, rows::comment)? })
    }
}

fn pull(repository: &str, number: u64) -> Statement {
    sql!("SELECT * FROM pulls WHERE repository = $1 AND number = $2", repository, number)
}

fn was_deleted(name: String) -> Statement {
    sql!("SELECT 1 FROM deleted WHERE subject = $1", name)
}

fn first<T>(rows: &[Row], read: crate::sql::Read<T>) -> Result<Option<T>, DbError> {
    Ok(rows.first().map(read).transpose()?)
}

fn number_of(rows: &[Row], column: &str) -> Result<u64, DbError> {
    let number = rows.first().map(|row| row.number(column)).transpose()?.flatten();
    Ok(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
}

fn count(rows: &[Row], column: &str) -> Result<usize, DbError> {
    Ok(usize::try_from(number_of(rows, column)?).unwrap_or(usize::MAX))
}
