//! The comparisons of pull requests with their bases.

use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::code_host::{HostName, PullRef};
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{ComparisonStore, StoreError};
use journeyman_core::pull::compared::{
    ComparedDocument, ComparedPull, DueComparison, EndedComparison, LONGEST_COMPARISON_DELAY, MovedBranch,
};
use journeyman_core::time::Timestamp;

use super::{Database, SqlStore, Statement, decoded, sql};
use crate::rows::{self, to_json};

/// Selects the projects that have open pull requests and are not on the schedule.
macro_rules! missing {
    () => {
        "SELECT id AS project FROM projects
         WHERE NOT EXISTS (SELECT 1 FROM comparison_schedule WHERE project = projects.id)
               AND (EXISTS (SELECT 1 FROM job_pulls WHERE project = projects.id AND state = 'open')
                    OR EXISTS (SELECT 1 FROM pulls WHERE repository = substr(projects.repository, 7) AND state = 'open'
                                                         AND projects.repository LIKE 'local:%'))"
    };
}

/// The condition for rows of the schedule that are due: they are neither held nor in the future, as far as the clock was
/// not set back.
macro_rules! due {
    () => {
        "(due_at <= $1 OR due_at > $2) AND (held_until <= $1 OR held_until > $2)"
    };
}

/// The condition for a row of the schedule whose last comparison is old.
macro_rules! old {
    () => {
        "project = $1 AND due_at > 0 AND held_until < $2"
    };
}

#[async_trait]
impl<B: Database> ComparisonStore for SqlStore<B> {
    async fn plan_comparisons(&self) -> Result<(), StoreError> {
        // Most of the time none is missing. A read shows this without a transaction that writes.
        if self.query(sql!(concat!(missing!(), " LIMIT 1"))).await?.is_empty() {
            return Ok(());
        }
        let add = sql!(concat!(
            "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
             SELECT project, 0, 0, 0 FROM (",
            missing!(),
            ") AS missing WHERE true ORDER BY project ON CONFLICT DO NOTHING"
        ));
        self.run(vec![add]).await?;
        Ok(())
    }

    async fn wake_comparisons(&self, moved: MovedBranch) -> Result<Vec<ProjectId>, StoreError> {
        let MovedBranch { repository, branch, project } = moved;
        let wake = sql!(
            "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
             SELECT project, 0, 0, 0 FROM (
                 SELECT pull.project FROM job_pulls AS pull
                 LEFT JOIN base_comparisons AS known USING (host, repository, number)
                 WHERE pull.host = $1 AND pull.repository = $2 AND pull.state = 'open'
                       AND ($1 = $5 OR $3::text IS NULL OR pull.head = $3 OR known.base IS NULL OR known.base = $3)
                 UNION SELECT projects.id FROM projects
                 JOIN pulls ON projects.repository = 'local:' || pulls.repository
                 WHERE $1 = $5 AND pulls.repository = $2 AND pulls.state = 'open'
             ) AS concerned WHERE $4::text IS NULL OR project = $4 ORDER BY project
             ON CONFLICT (project) DO UPDATE SET due_at = 0 RETURNING project",
            repository.host.0,
            repository.id,
            branch,
            project.as_ref().map(ProjectId::as_str),
            HostName::local().0,
        );
        decoded(&self.run(vec![wake]).await?, rows::project_of_schedule)
    }

    async fn refresh_comparison(&self, project: ProjectId, before: Timestamp) -> Result<(), StoreError> {
        let find = sql!(concat!("SELECT 1 FROM comparison_schedule WHERE ", old!()), project.as_str(), before);
        if self.query(find).await?.is_empty() {
            return Ok(());
        }
        let refresh =
            sql!(concat!("UPDATE comparison_schedule SET due_at = 0 WHERE ", old!()), project.as_str(), before);
        self.run(vec![refresh]).await?;
        Ok(())
    }

    async fn claim_comparisons(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<DueComparison>, StoreError> {
        let never = now + LONGEST_COMPARISON_DELAY;
        let due = sql!(concat!("SELECT 1 FROM comparison_schedule WHERE ", due!(), " LIMIT 1"), now, never);
        let claim = sql!(
            concat!(
                "UPDATE comparison_schedule SET due_at = $3, held_until = $3, claims = claims + 1
                 WHERE project IN (SELECT project FROM comparison_schedule WHERE ",
                due!(),
                " ORDER BY due_at, project LIMIT $4 FOR UPDATE SKIP LOCKED) RETURNING *"
            ),
            now,
            never,
            now + lease,
            limit,
        );
        decoded(&self.claim(due, claim).await?, rows::due_comparison)
    }

    async fn end_comparison(&self, due: &DueComparison, end: EndedComparison) -> Result<bool, StoreError> {
        let (project, claims, lease) = (due.project.as_str(), due.claims, due.held_until);
        // The statements after it have no effect without this row.
        let mut statements = vec![sql!(
            "SELECT 1 FROM comparison_schedule WHERE project = $1 AND claims = $2 FOR UPDATE",
            project,
            claims,
        )];
        for compared in &end.changed {
            statements.push(put(due, compared)?);
        }
        statements.extend(end.removed.iter().map(|pull| remove(due, pull)));
        // A row that is due before the end of the lease was woken.
        if end.next.is_none() {
            statements.push(sql!(
                "DELETE FROM comparison_schedule WHERE project = $1 AND claims = $2 AND due_at >= $3",
                project,
                claims,
                lease,
            ));
        }
        statements.push(sql!(
            "UPDATE comparison_schedule
             SET due_at = CASE WHEN due_at < $3 THEN due_at ELSE coalesce($4, due_at) END, held_until = $5
             WHERE project = $1 AND claims = $2",
            project,
            claims,
            lease,
            end.next,
            end.held_until,
        ));
        let answers = self.run_all(statements).await?;
        Ok(answers.first().is_some_and(|rows| !rows.is_empty()))
    }

    async fn comparisons(&self, pulls: Vec<PullRef>) -> Result<Vec<ComparedPull>, StoreError> {
        let query = sql!(
            sqlite:
                "SELECT * FROM base_comparisons WHERE (host, repository, number) IN
                 (SELECT value, ?2 ->> key, ?3 ->> key FROM json_each(?1))",
            postgres:
                "SELECT * FROM base_comparisons WHERE (host, repository, number) IN
                 (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]))";
            Vec::from_iter(pulls.iter().map(|pull| pull.repository.host.0.clone())),
            Vec::from_iter(pulls.iter().map(|pull| pull.repository.id.clone())),
            Vec::from_iter(pulls.iter().map(|pull| pull.number)).as_slice(),
        );
        self.all(query, rows::compared_pull).await
    }

    async fn comparisons_in(&self, project: ProjectId) -> Result<Vec<ComparedPull>, StoreError> {
        let query = sql!("SELECT * FROM base_comparisons WHERE project = $1", project.as_str());
        self.all(query, rows::compared_pull).await
    }
}

/// Returns the statement that stores a result, if the project is still claimed.
fn put(due: &DueComparison, compared: &ComparedPull) -> Result<Statement, StoreError> {
    let PullRef { repository, number } = &compared.pull;
    Ok(sql!(
        "INSERT INTO base_comparisons (host, repository, number, project, base, result, compared_at)
         SELECT $1::text, $2::text, $3::bigint, $4::text, $5::text, $6::text, $7::bigint
         WHERE EXISTS (SELECT 1 FROM comparison_schedule WHERE project = $4 AND claims = $8)
         ON CONFLICT (host, repository, number) DO UPDATE
         SET project = $4, base = $5, result = $6, compared_at = $7",
        &repository.host.0,
        &repository.id,
        *number,
        due.project.as_str(),
        compared.result.as_ref().ok().map(|found| found.base.as_str()),
        to_json(&ComparedDocument::of(&compared.result))?,
        compared.at,
        due.claims,
    ))
}

/// Returns the statement that removes a result, if the project is still claimed.
fn remove(due: &DueComparison, pull: &PullRef) -> Statement {
    sql!(
        "DELETE FROM base_comparisons
         WHERE host = $1 AND repository = $2 AND number = $3
               AND EXISTS (SELECT 1 FROM comparison_schedule WHERE project = $4 AND claims = $5)",
        &pull.repository.host.0,
        &pull.repository.id,
        pull.number,
        due.project.as_str(),
        due.claims,
    )
}

/// Returns the statement that makes the project of an open pull request due at once.
pub(crate) fn wake(project: &ProjectId) -> Statement {
    sql!(
        "INSERT INTO comparison_schedule (project, due_at, held_until, claims) VALUES ($1, 0, 0, 0)
         ON CONFLICT (project) DO UPDATE SET due_at = 0",
        project.as_str(),
    )
}

/// Returns the statement that makes the project of a pull request due at once, if it is open.
pub(crate) fn wake_of_pull(pull: &PullRef) -> Statement {
    sql!(
        "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
         SELECT project, 0, 0, 0 FROM job_pulls
         WHERE host = $1 AND repository = $2 AND number = $3 AND state = 'open'
         ON CONFLICT (project) DO UPDATE SET due_at = 0",
        &pull.repository.host.0,
        &pull.repository.id,
        pull.number,
    )
}
