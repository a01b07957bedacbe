//! The cost of model calls.

use async_trait::async_trait;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::model::price::Budgets;
use journeyman_core::ports::{Spend, SpendError, SpendingStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use crate::spending::{check_budgets, sums};

/// Adds a cost to the three sums unless one would exceed its limit, and returns the previous sums.
const SPEND: &str = "
    WITH asked (place, kind, subject, most) AS (
        VALUES (1, 'job', $2::text, $5::bigint), (2, 'day', $3::text, $6::bigint), (3, 'project', '', $7::bigint)
    ), held AS (
        SELECT asked.*, coalesce(spending.micros, 0) AS micros FROM asked
        LEFT JOIN spending ON spending.project = $1 AND spending.kind = asked.kind AND spending.subject = asked.subject
    ), added AS (
        INSERT INTO spending (project, kind, subject, micros)
        SELECT projects.id, kind, subject, greatest(0, $4::bigint) FROM held, projects
        WHERE projects.id = $1 AND NOT EXISTS (SELECT 1 FROM held WHERE micros::numeric + $4 > most)
        ON CONFLICT (project, kind, subject) DO UPDATE
        SET micros = greatest(0, least(9223372036854775807, spending.micros::numeric + $4))::bigint
    )
    SELECT micros FROM held ORDER BY place";

#[async_trait]
impl SpendingStore for PostgresStore {
    async fn spend(&self, spend: Spend) -> Result<(), SpendError> {
        let [job, day, project] = sums(&spend);
        // The lock serializes calls of a project: a sum that does not exist yet has no row to lock.
        let lock =
            call!("SELECT pg_advisory_xact_lock(hashtextextended('spending/' || $1, 0))", spend.project.to_string());
        let add = call!(
            SPEND,
            spend.project.to_string(),
            job.subject,
            day.subject,
            spend.micros,
            job.limit,
            day.limit,
            project.limit
        );
        let answers = self.write(vec![lock, add]).await.map_err(StoreError::from)?;
        let held = answers.last().map(|rows| micros(rows)).transpose().map_err(StoreError::from)?.unwrap_or_default();
        Ok(check_budgets(&spend, held)?)
    }

    async fn spent(&self, project: ProjectId, job: JobId, day: i64) -> Result<[u64; 3], StoreError> {
        let spend = Spend { project, job, day, micros: 0, budgets: Budgets::default() };
        let [job, day, _] = sums(&spend);
        let rows = self.read(read(&spend, job.subject, day.subject)).await?;
        Ok(micros(&rows)?.map(|held| u64::try_from(held).unwrap_or(0)))
    }
}

fn read(spend: &Spend, job: String, day: String) -> Call {
    call!(
        "SELECT coalesce(spending.micros, 0) AS micros
         FROM (VALUES (1, 'job', $2), (2, 'day', $3), (3, 'project', '')) AS asked (place, kind, subject)
         LEFT JOIN spending ON spending.project = $1 AND spending.kind = asked.kind AND spending.subject = asked.subject
         ORDER BY place",
        spend.project.to_string(),
        job,
        day
    )
}

fn micros(rows: &[Row]) -> Result<[i64; 3], PgError> {
    let mut found = [0; 3];
    for (place, row) in found.iter_mut().zip(rows) {
        *place = row.try_get("micros")?;
    }
    Ok(found)
}
