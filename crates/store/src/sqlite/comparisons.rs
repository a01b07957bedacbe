//! The comparisons of pull requests with their bases.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::HostName;
use journeyman_core::ids::ProjectId;
use journeyman_core::job::command::PullRef;
use journeyman_core::ports::{ComparisonStore, StoreError};
use journeyman_core::pull::compared::{
    ComparedDocument, ComparedPull, DueComparison, EndedComparison, LONGEST_COMPARISON_DELAY, MovedBranch,
};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::error::{OpError, ReadError};
use super::rows::collect;
use crate::rows::{self, to_json};

/// Selects whether a row of the schedule is due: it is neither held nor in the future, as far as the clock was not set
/// back.
const IS_DUE: &str = "(due_at <= ?1 OR due_at > ?2) AND (held_until <= ?1 OR held_until > ?2)";

#[async_trait]
impl ComparisonStore for SqliteStore {
    async fn plan_comparisons(&self) -> Result<(), StoreError> {
        let missing = "SELECT id FROM projects
             WHERE NOT EXISTS (SELECT 1 FROM comparison_schedule WHERE project = projects.id)
                   AND (EXISTS (SELECT 1 FROM job_pulls WHERE project = projects.id AND state = 'open')
                        OR EXISTS (SELECT 1 FROM pulls WHERE repository = substr(projects.repository, 7)
                                                             AND state = 'open' AND projects.repository LIKE 'local:%'))";
        // Most of the time none is missing. A read shows this without a transaction of the writer.
        if !self.readers.read(move |db| Ok(db.prepare_cached(missing)?.exists([])?)).await? {
            return Ok(());
        }
        self.writer
            .write(move |db| {
                db.prepare_cached(&format!(
                    "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
                     SELECT id, 0, 0, 0 FROM ({missing}) WHERE true ON CONFLICT DO NOTHING"
                ))?
                .execute([])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn wake_comparisons(&self, moved: MovedBranch) -> Result<Vec<ProjectId>, StoreError> {
        self.writer
            .write(move |db| {
                let mut wake = db.prepare_cached(
                    "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
                     SELECT project, 0, 0, 0 FROM (
                         SELECT pull.project FROM job_pulls AS pull
                         LEFT JOIN base_comparisons AS known USING (host, repository, number)
                         WHERE pull.host = ?1 AND pull.repository = ?2 AND pull.state = 'open'
                               AND (?1 = ?5 OR ?3 IS NULL OR pull.head = ?3 OR known.base IS NULL OR known.base = ?3)
                         UNION SELECT projects.id FROM projects
                         JOIN pulls ON projects.repository = 'local:' || pulls.repository
                         WHERE ?1 = ?5 AND pulls.repository = ?2 AND pulls.state = 'open'
                     ) WHERE ?4 IS NULL OR project = ?4
                     ON CONFLICT (project) DO UPDATE SET due_at = 0 RETURNING project",
                )?;
                let MovedBranch { repository, branch, project } = &moved;
                let only = project.as_ref().map(ProjectId::as_str);
                let local = HostName::local().0;
                let mut found = wake.query(params![repository.host.0, repository.id, branch, only, local])?;
                Ok::<_, OpError<StoreError>>(collect(&mut found, |row| rows::project_of_schedule(row))?)
            })
            .await
    }

    async fn refresh_comparison(&self, project: ProjectId, before: Timestamp) -> Result<(), StoreError> {
        let old = "project = ?1 AND due_at > 0 AND held_until < ?2";
        let values = (project.to_string(), before.as_micros());
        let (text, wanted) = (format!("SELECT 1 FROM comparison_schedule WHERE {old}"), values.clone());
        if !self.readers.read(move |db| Ok(db.prepare_cached(&text)?.exists(wanted)?)).await? {
            return Ok(());
        }
        self.writer
            .write(move |db| {
                db.prepare_cached(&format!("UPDATE comparison_schedule SET due_at = 0 WHERE {old}"))?
                    .execute(values.clone())?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn claim_comparisons(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<DueComparison>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_COMPARISON_DELAY, now + lease].map(Timestamp::as_micros);
        // Most of the time nothing is due. A read shows this without a transaction of the writer.
        let text = format!("SELECT 1 FROM comparison_schedule WHERE {IS_DUE} LIMIT 1");
        if !self.readers.find(|db| Ok(db.prepare_cached(&text)?.exists(params![from, never])?))? {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.writer
            .write(move |db| {
                let mut claim = db.prepare_cached(&format!(
                    "UPDATE comparison_schedule SET due_at = ?3, held_until = ?3, claims = claims + 1
                     WHERE project IN (SELECT project FROM comparison_schedule WHERE {IS_DUE}
                                       ORDER BY due_at, project LIMIT ?4)
                     RETURNING *"
                ))?;
                let mut found = claim.query(params![from, never, until, limit])?;
                Ok::<_, OpError<StoreError>>(collect(&mut found, |row| rows::due_comparison(row))?)
            })
            .await
    }

    async fn end_comparison(&self, due: &DueComparison, end: EndedComparison) -> Result<bool, StoreError> {
        let due = due.clone();
        self.writer
            .write(move |db| {
                let (project, lease) = (due.project.as_str(), due.held_until.as_micros());
                let claims = i64::try_from(due.claims).unwrap_or(i64::MAX);
                // A row that is due before the end of the lease was woken.
                let ended = match end.next {
                    Some(next) => db
                        .prepare_cached(
                            "UPDATE comparison_schedule
                             SET due_at = CASE WHEN due_at < ?3 THEN due_at ELSE ?4 END, held_until = ?5
                             WHERE project = ?1 AND claims = ?2",
                        )?
                        .execute(params![project, claims, lease, next.as_micros(), end.held_until.as_micros()])?,
                    None => {
                        let removed = db
                            .prepare_cached(
                                "DELETE FROM comparison_schedule WHERE project = ?1 AND claims = ?2 AND due_at >= ?3",
                            )?
                            .execute(params![project, claims, lease])?;
                        let kept = db
                            .prepare_cached(
                                "UPDATE comparison_schedule SET held_until = ?3 WHERE project = ?1 AND claims = ?2",
                            )?
                            .execute(params![project, claims, end.held_until.as_micros()])?;
                        removed + kept
                    }
                };
                if ended == 0 {
                    return Ok::<_, OpError<StoreError>>(false);
                }
                for compared in &end.changed {
                    put(db, &due.project, compared)?;
                }
                for pull in &end.removed {
                    db.prepare_cached(
                        "DELETE FROM base_comparisons WHERE host = ?1 AND repository = ?2 AND number = ?3",
                    )?
                    .execute(params![pull.repository.host.0, pull.repository.id, number(pull)])?;
                }
                Ok(true)
            })
            .await
    }

    async fn comparisons(&self, pulls: Vec<PullRef>) -> Result<Vec<ComparedPull>, StoreError> {
        self.readers
            .read(move |db| {
                let text = "SELECT * FROM base_comparisons WHERE host = ?1 AND repository = ?2 AND number = ?3";
                let (mut query, mut all) = (db.prepare_cached(text)?, Vec::new());
                for pull in &pulls {
                    let mut found = query.query(params![pull.repository.host.0, pull.repository.id, number(pull)])?;
                    all.extend(collect(&mut found, |row| rows::compared_pull(row))?);
                }
                Ok(all)
            })
            .await
    }

    async fn comparisons_in(&self, project: ProjectId) -> Result<Vec<ComparedPull>, StoreError> {
        self.readers
            .read(move |db| {
                let mut query = db.prepare_cached("SELECT * FROM base_comparisons WHERE project = ?1")?;
                collect(&mut query.query([project.as_str()])?, |row| rows::compared_pull(row))
            })
            .await
    }
}

fn number(pull: &PullRef) -> i64 {
    i64::try_from(pull.number).unwrap_or(i64::MAX)
}

fn put(db: &Connection, project: &ProjectId, compared: &ComparedPull) -> Result<(), ReadError> {
    let PullRef { repository, .. } = &compared.pull;
    db.prepare_cached(
        "INSERT OR REPLACE INTO base_comparisons (host, repository, number, project, base, result, compared_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        repository.host.0,
        repository.id,
        number(&compared.pull),
        project.as_str(),
        compared.result.as_ref().ok().map(|found| found.base.as_str()),
        to_json(&ComparedDocument::of(&compared.result))?,
        compared.at.as_micros(),
    ])?;
    Ok(())
}

/// Makes the project of an open pull request due at once.
pub(super) fn wake(db: &Connection, project: &ProjectId) -> Result<(), ReadError> {
    db.prepare_cached(
        "INSERT INTO comparison_schedule (project, due_at, held_until, claims) VALUES (?1, 0, 0, 0)
         ON CONFLICT (project) DO UPDATE SET due_at = 0",
    )?
    .execute([project.as_str()])?;
    Ok(())
}

/// Makes the project of a pull request due at once, if it is open.
pub(super) fn wake_of_pull(db: &Connection, pull: &PullRef) -> Result<(), ReadError> {
    db.prepare_cached(
        "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
         SELECT project, 0, 0, 0 FROM job_pulls
         WHERE host = ?1 AND repository = ?2 AND number = ?3 AND state = 'open'
         ON CONFLICT (project) DO UPDATE SET due_at = 0",
    )?
    .execute(params![pull.repository.host.0, pull.repository.id, number(pull)])?;
    Ok(())
}
