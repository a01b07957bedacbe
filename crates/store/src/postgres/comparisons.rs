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

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::rows::{self, to_json};

/// Selects the projects that have open pull requests and are not on the schedule.
const MISSING: &str = "SELECT id AS project FROM projects
    WHERE NOT EXISTS (SELECT 1 FROM comparison_schedule WHERE project = projects.id)
          AND (EXISTS (SELECT 1 FROM job_pulls WHERE project = projects.id AND state = 'open')
               OR EXISTS (SELECT 1 FROM pulls WHERE repository = substr(projects.repository, 7) AND state = 'open'
                                                    AND projects.repository LIKE 'local:%'))";

#[async_trait]
impl ComparisonStore for PostgresStore {
    async fn plan_comparisons(&self) -> Result<(), StoreError> {
        let missing = self.read(call!(MISSING)).await?;
        let add = "INSERT INTO comparison_schedule (project, due_at, held_until, claims) VALUES ($1, 0, 0, 0)
                   ON CONFLICT DO NOTHING";
        let projects = missing.iter().map(rows::project_of_schedule).collect::<Result<Vec<_>, PgError>>()?;
        if !projects.is_empty() {
            self.write(projects.into_iter().map(|project| call!(add, project.to_string())).collect()).await?;
        }
        Ok(())
    }

    async fn wake_comparisons(&self, moved: MovedBranch) -> Result<Vec<ProjectId>, StoreError> {
        let text = "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
                    SELECT project, 0, 0, 0 FROM (
                        SELECT pull.project FROM job_pulls AS pull
                        LEFT JOIN base_comparisons AS known USING (host, repository, number)
                        WHERE host = $1 AND repository = $2 AND pull.state = 'open'
                              AND ($1 = $5 OR $3::text IS NULL OR pull.head = $3 OR known.base IS NULL
                                   OR known.base = $3)
                        UNION SELECT projects.id FROM projects
                        JOIN pulls ON projects.repository = 'local:' || pulls.repository
                        WHERE $1 = $5 AND pulls.repository = $2 AND pulls.state = 'open'
                    ) AS concerned WHERE $4::text IS NULL OR project = $4 ORDER BY project
                    ON CONFLICT (project) DO UPDATE SET due_at = 0 RETURNING project";
        let MovedBranch { repository, branch, project } = moved;
        let only = project.map(|project| project.to_string());
        let wake = call!(text, repository.host.0, repository.id, branch, only, HostName::local().0);
        let answers = self.write(vec![wake]).await?;
        Ok(answers.iter().flatten().map(rows::project_of_schedule).collect::<Result<_, PgError>>()?)
    }

    async fn refresh_comparison(&self, project: ProjectId, before: Timestamp) -> Result<(), StoreError> {
        let old = "SELECT 1 FROM comparison_schedule WHERE project = $1 AND due_at > 0 AND held_until < $2";
        if self.read(call!(old, project.to_string(), before.as_micros())).await?.is_empty() {
            return Ok(());
        }
        let text = "UPDATE comparison_schedule SET due_at = 0 WHERE project = $1 AND due_at > 0 AND held_until < $2";
        self.write(vec![call!(text, project.to_string(), before.as_micros())]).await?;
        Ok(())
    }

    async fn claim_comparisons(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<DueComparison>, StoreError> {
        let [from, never, until] = [now, now + LONGEST_COMPARISON_DELAY, now + lease].map(Timestamp::as_micros);
        let text = "UPDATE comparison_schedule SET due_at = $3, held_until = $3, claims = claims + 1
                    WHERE project IN (
                        SELECT project FROM comparison_schedule
                        WHERE (due_at <= $1 OR due_at > $2) AND (held_until <= $1 OR held_until > $2)
                        ORDER BY due_at, project LIMIT $4 FOR UPDATE SKIP LOCKED)
                    RETURNING *";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let answers = self.write(vec![call!(text, from, never, until, limit)]).await?;
        Ok(answers.iter().flatten().map(rows::due_comparison).collect::<Result<_, PgError>>()?)
    }

    async fn end_comparison(&self, due: &DueComparison, end: EndedComparison) -> Result<bool, StoreError> {
        let (project, claims) = (due.project.to_string(), i64::try_from(due.claims).unwrap_or(i64::MAX));
        let (lease, held_until) = (due.held_until.as_micros(), end.held_until.as_micros());
        // The statements after it have no effect without this row.
        let own = "SELECT 1 FROM comparison_schedule WHERE project = $1 AND claims = $2 FOR UPDATE";
        let mut calls = vec![call!(own, project.clone(), claims)];
        for compared in &end.changed {
            calls.push(put(due, claims, compared)?);
        }
        let remove = "DELETE FROM base_comparisons
                      WHERE host = $1 AND repository = $2 AND number = $3
                            AND EXISTS (SELECT 1 FROM comparison_schedule WHERE project = $4 AND claims = $5)";
        for pull in end.removed {
            let (number, repository) = (number(&pull), pull.repository);
            calls.push(call!(remove, repository.host.0, repository.id, number, project.clone(), claims));
        }
        // A row that is due before the end of the lease was woken.
        if end.next.is_none() {
            let text = "DELETE FROM comparison_schedule WHERE project = $1 AND claims = $2 AND due_at >= $3";
            calls.push(call!(text, project.clone(), claims, lease));
        }
        let text = "UPDATE comparison_schedule
                    SET due_at = CASE WHEN due_at < $3 THEN due_at ELSE coalesce($4, due_at) END, held_until = $5
                    WHERE project = $1 AND claims = $2";
        calls.push(call!(text, project, claims, lease, end.next.map(Timestamp::as_micros), held_until));
        let answers = self.write(calls).await?;
        Ok(answers.first().is_some_and(|rows| !rows.is_empty()))
    }

    async fn comparisons(&self, pulls: Vec<PullRef>) -> Result<Vec<ComparedPull>, StoreError> {
        let hosts: Vec<String> = pulls.iter().map(|pull| pull.repository.host.0.clone()).collect();
        let repositories: Vec<String> = pulls.iter().map(|pull| pull.repository.id.clone()).collect();
        let numbers: Vec<i64> = pulls.iter().map(number).collect();
        let text = "SELECT * FROM base_comparisons WHERE (host, repository, number) IN
                    (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]))";
        let found = self.read(call!(text, hosts, repositories, numbers)).await?;
        Ok(found.iter().map(rows::compared_pull).collect::<Result<_, PgError>>()?)
    }

    async fn comparisons_in(&self, project: ProjectId) -> Result<Vec<ComparedPull>, StoreError> {
        let found = self.read(call!("SELECT * FROM base_comparisons WHERE project = $1", project.to_string())).await?;
        Ok(found.iter().map(rows::compared_pull).collect::<Result<_, PgError>>()?)
    }
}

fn number(pull: &PullRef) -> i64 {
    i64::try_from(pull.number).unwrap_or(i64::MAX)
}

/// Returns the statement that stores a result, if the project is still claimed.
fn put(due: &DueComparison, claims: i64, compared: &ComparedPull) -> Result<Call, StoreError> {
    let PullRef { repository, .. } = &compared.pull;
    Ok(call!(
        "INSERT INTO base_comparisons (host, repository, number, project, base, result, compared_at)
         SELECT $1::text, $2::text, $3::bigint, $4::text, $5::text, $6::text, $7::bigint
         WHERE EXISTS (SELECT 1 FROM comparison_schedule WHERE project = $4 AND claims = $8)
         ON CONFLICT (host, repository, number) DO UPDATE
         SET project = $4, base = $5, result = $6, compared_at = $7",
        repository.host.0.clone(),
        repository.id.clone(),
        number(&compared.pull),
        due.project.to_string(),
        compared.result.as_ref().ok().map(|found| found.base.clone()),
        to_json(&ComparedDocument::of(&compared.result))?,
        compared.at.as_micros(),
        claims,
    ))
}

/// Returns the statement that makes the project of an open pull request due at once.
pub(super) fn wake(project: &ProjectId) -> Call {
    call!(
        "INSERT INTO comparison_schedule (project, due_at, held_until, claims) VALUES ($1, 0, 0, 0)
         ON CONFLICT (project) DO UPDATE SET due_at = 0",
        project.to_string(),
    )
}

/// Returns the statement that makes the project of a pull request due at once, if it is open.
pub(super) fn wake_of_pull(pull: &PullRef) -> Call {
    call!(
        "INSERT INTO comparison_schedule (project, due_at, held_until, claims)
         SELECT project, 0, 0, 0 FROM job_pulls
         WHERE host = $1 AND repository = $2 AND number = $3 AND state = 'open'
         ON CONFLICT (project) DO UPDATE SET due_at = 0",
        pull.repository.host.0.clone(),
        pull.repository.id.clone(),
        number(pull),
    )
}
