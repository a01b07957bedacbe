//! The cost of model calls.

use async_trait::async_trait;
use journeyman_core::model::budget::{Scope, Used};
use journeyman_core::ports::{NewReservation, Reservation, ReserveError, SpendingStore, StoreError, Sums};
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Query, call};
use crate::spending::{amount, check, used};

/// Reads what three scopes have used. `$1` is the project, `$2` the job, `$3` the day, and `$4` to `$6` are the budgets.
macro_rules! used {
    () => {
        "asked (place, kind, subject, most) AS (
            VALUES (1, 'job', $2::text, $4::bigint), (2, 'day', $3::bigint::text, $5::bigint), (3, 'project', '', $6::bigint)
        ), held AS (
            SELECT asked.*, coalesce(spending.micros, 0) AS micros,
                   (SELECT LEAST(coalesce(sum(reservations.micros), 0), 9223372036854775807)::bigint FROM reservations
                    WHERE reservations.project = $1
                      AND CASE asked.kind WHEN 'job' THEN job = $2 WHEN 'day' THEN day = $3 ELSE true END) AS set_aside
            FROM asked
            LEFT JOIN spending
            ON spending.project = $1 AND spending.kind = asked.kind AND spending.subject = asked.subject
        )"
    };
}

/// Adds the amounts of the rows `added` (kind, subject, micros) to the sums of the project `$1`, if it exists.
macro_rules! add {
    () => {
        "INSERT INTO spending (project, kind, subject, micros)
         SELECT projects.id, kind, subject, greatest(0, least(9223372036854775807, added.micros))::bigint FROM added, projects WHERE projects.id = $1
         ON CONFLICT (project, kind, subject) DO UPDATE
         SET micros = greatest(0, least(9223372036854775807,
             spending.micros::numeric + (SELECT added.micros FROM added
                                         WHERE added.kind = excluded.kind AND added.subject = excluded.subject)))::bigint"
    };
}

const USED: &str = concat!("WITH ", used!(), " SELECT micros, set_aside FROM held ORDER BY place");

/// Adds a reservation unless it would exceed a budget, and returns what was used before.
const RESERVE: &str = concat!(
    "WITH ",
    used!(),
    ", added AS (
        INSERT INTO reservations (project, job, day, micros, estimate, expires_at)
        SELECT id, $2, $3, $7::bigint, $8, $9 FROM projects
        WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM held WHERE micros::numeric + set_aside + $7::bigint > most)
        RETURNING number
     )
     SELECT micros, set_aside, coalesce((SELECT number FROM added), 0) AS number FROM held ORDER BY place"
);

/// Replaces the reservations of the project that have expired with their estimates.
const REPLACE_EXPIRED: &str = concat!(
    "WITH expired AS (
        DELETE FROM reservations WHERE project = $1 AND expires_at <= $2 RETURNING job, day, estimate
     ), added AS (
        SELECT kind, subject, sum(estimate) AS micros FROM expired
        CROSS JOIN LATERAL (VALUES ('job', job), ('day', day::text), ('project', '')) AS sums (kind, subject)
        GROUP BY kind, subject
     ) ",
    add!()
);

/// Ends a reservation and adds a cost; if the reservation had expired, the cost replaces its estimate.
const SETTLE: &str = concat!(
    "WITH ended AS (DELETE FROM reservations WHERE number = $5 RETURNING 1),
     added AS (
        SELECT kind, subject, $4::bigint::numeric - CASE WHEN EXISTS (SELECT 1 FROM ended) THEN 0 ELSE $6::bigint END AS micros
        FROM (VALUES ('job', $2::text), ('day', $3::bigint::text), ('project', '')) AS sums (kind, subject)
     ) ",
    add!()
);

#[async_trait]
impl SpendingStore for PostgresStore {
    async fn reserve(&self, new: NewReservation) -> Result<Reservation, ReserveError> {
        let Sums { project, job, day } = &new.sums;
        // A budget above the largest integer is no limit, because a sum stops there.
        let limit = |scope| new.budgets.of(scope).and_then(|limit| i64::try_from(limit).ok());
        let reserve = call!(
            RESERVE,
            project.to_string(),
            job.to_string(),
            *day,
            limit(Scope::Job),
            limit(Scope::Day),
            limit(Scope::Project),
            amount(new.micros),
            amount(new.estimate),
            new.expires_at.as_micros(),
        );
        let replace = call!(REPLACE_EXPIRED, project.to_string(), new.now.as_micros());
        let answers = self.write(vec![lock(&new.sums), replace, reserve]).await.map_err(StoreError::from)?;
        let rows = answers.last().map(Vec::as_slice).unwrap_or_default();
        check(&new, read(rows).map_err(StoreError::from)?)?;
        let number = rows.first().map(|row| row.try_get("number")).transpose();
        let number = number.map_err(PgError::from).map_err(StoreError::from)?.unwrap_or_default();
        Ok(Reservation { number, estimate: new.estimate })
    }

    async fn renew(&self, reservation: &Reservation, expires_at: Timestamp) -> Result<(), StoreError> {
        let text = "UPDATE reservations SET expires_at = $2 WHERE number = $1";
        self.write(vec![call!(text, reservation.number, expires_at.as_micros())]).await?;
        Ok(())
    }

    async fn settle(&self, sums: &Sums, reservation: Option<&Reservation>, micros: u64) -> Result<(), StoreError> {
        let (number, estimate) = reservation.map_or((0, 0), |of| (of.number, amount(of.estimate)));
        let Sums { project, job, day } = sums;
        let settle = call!(SETTLE, project.to_string(), job.to_string(), *day, amount(micros), number, estimate);
        self.write(vec![lock(sums), settle]).await?;
        Ok(())
    }

    async fn used(&self, sums: &Sums) -> Result<[Used; 3], StoreError> {
        let Sums { project, job, day } = sums;
        let none = None::<i64>;
        let rows = self.read(call!(USED, project.to_string(), job.to_string(), *day, none, none, none)).await?;
        Ok(read(&rows)?)
    }
}

/// Serializes the calls of a project: a sum that does not exist yet has no row to lock.
fn lock(sums: &Sums) -> Query {
    call!("SELECT pg_advisory_xact_lock(hashtextextended('spending/' || $1, 0))", sums.project.to_string())
}

fn read(rows: &[Row]) -> Result<[Used; 3], PgError> {
    let mut found = [Used::default(); 3];
    for (sum, row) in found.iter_mut().zip(rows) {
        *sum = used(row.try_get("micros")?, row.try_get("set_aside")?);
    }
    Ok(found)
}
