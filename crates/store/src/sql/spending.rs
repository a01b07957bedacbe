//! The cost of model calls. Each operation on a project's sums takes one round trip.

use async_trait::async_trait;
use journeyman_core::model::budget::{Scope, Used, check_all};
use journeyman_core::ports::{NewReservation, Reservation, ReserveError, SpendingStore, StoreError, Sums};
use journeyman_core::time::Timestamp;

use super::{Database, Row, SqlStore, Statement, sql};
use crate::rows::Columns as _;

/// Reads what three scopes have used. `$1` is the project, `$2` the job, `$3` the day, and `$4` to `$6` are the budgets.
/// The sum of reservations, which are few, is inexact above 2^53, far above any budget in dollars: SQLite has no larger
/// exact sums.
macro_rules! held {
    () => {
        "WITH asked (place, kind, subject, most) AS (
            VALUES (1, 'job', $2::text, $4::bigint), (2, 'day', $3::text, $5::bigint), (3, 'project', '', $6::bigint)
        ), held AS (
            SELECT asked.*, coalesce(spending.micros, 0) AS micros,
                   (SELECT CAST(least(coalesce(sum(CAST(reservations.micros AS double precision)), 0), 9223372036854774784)
                                AS bigint) FROM reservations
                    WHERE reservations.project = $1
                      AND CASE asked.kind WHEN 'job' THEN job = asked.subject
                                          WHEN 'day' THEN CAST(day AS text) = asked.subject ELSE true END) AS set_aside
            FROM asked
            LEFT JOIN spending
            ON spending.project = $1 AND spending.kind = asked.kind AND spending.subject = asked.subject
        ) "
    };
}

/// Adds the amounts of the rows `added` (kind, subject, micros), which may be negative, to the sums of the project `$1`, if
/// it exists. A sum stops at 0 and at the largest number.
macro_rules! add {
    ($added:literal) => {
        concat!(
            "WITH added (kind, subject, micros) AS (",
            $added,
            ") INSERT INTO spending (project, kind, subject, micros)
             SELECT projects.id, kind, subject, greatest(0, added.micros) FROM added, projects WHERE projects.id = $1
             ON CONFLICT (project, kind, subject) DO UPDATE
             SET micros = (SELECT CASE WHEN added.micros > 9223372036854775807 - spending.micros THEN 9223372036854775807
                                       ELSE greatest(0, spending.micros + added.micros) END
                           FROM added WHERE added.kind = excluded.kind AND added.subject = excluded.subject)"
        )
    };
}

#[async_trait]
impl<B: Database> SpendingStore for SqlStore<B> {
    async fn reserve(&self, new: NewReservation) -> Result<Reservation, ReserveError> {
        let mut statements = vec![lock(&new.sums)];
        statements.extend(replace_expired(&new));
        statements.extend([used(&new.sums), add_reservation(&new)]);
        let mut answers = self.run_all(statements).await?;
        let (added, found) = (answers.pop().unwrap_or_default(), answers.pop().unwrap_or_default());
        check_all(&new.budgets, Sums::SCOPES.into_iter().zip(read(&found)?), new.micros)?;
        let number = added.first().map(|row| row.number("number")).transpose()?.flatten();
        Ok(Reservation { number: number.unwrap_or_default(), estimate: new.estimate })
    }

    async fn renew(&self, reservation: &Reservation, expires_at: Timestamp) -> Result<(), StoreError> {
        let renew = sql!("UPDATE reservations SET expires_at = $2 WHERE number = $1", reservation.number, expires_at);
        self.run(vec![renew]).await.map(drop)
    }

    async fn settle(&self, sums: &Sums, reservation: Option<&Reservation>, micros: u64) -> Result<(), StoreError> {
        let (number, estimate) = reservation.map_or((0, 0), |of| (of.number, of.estimate));
        // If the reservation had expired, the cost replaces its estimate.
        let add = sql!(
            add!(
                "SELECT kind, subject,
                     $4::bigint - CASE WHEN EXISTS (SELECT 1 FROM reservations WHERE number = $5) THEN 0 ELSE $6::bigint END
                 FROM (SELECT 'job' AS kind, $2::text AS subject UNION ALL SELECT 'day', $3::text
                       UNION ALL SELECT 'project', '') AS sums"
            ),
            sums.project.as_str(),
            sums.job.to_string(),
            sums.day.to_string(),
            micros,
            number,
            estimate,
        );
        let end = sql!("DELETE FROM reservations WHERE number = $1", number);
        self.run(vec![lock(sums), add, end]).await.map(drop)
    }

    async fn used(&self, sums: &Sums) -> Result<[Used; 3], StoreError> {
        read(&self.look_up(used(sums)).await?)
    }
}

/// Serializes the calls of a project: a sum that does not exist yet has no row to lock.
fn lock(sums: &Sums) -> Statement {
    sql!(
        sqlite: "",
        postgres: "SELECT pg_advisory_xact_lock(hashtextextended('spending/' || $1, 0))";
        sums.project.as_str(),
    )
}

/// Returns the statements that replace the reservations of the project that have expired with their estimates. They lock
/// the reservations first, so that none of them is renewed in the meantime.
fn replace_expired(new: &NewReservation) -> [Statement; 3] {
    let (project, now) = (new.sums.project.as_str(), new.now);
    [
        sql!(
            sqlite: "",
            postgres: "SELECT 1 FROM reservations WHERE project = $1 AND expires_at <= $2 FOR UPDATE";
            project,
            now,
        ),
        sql!(
            add!(
                "WITH expired AS (
                     SELECT job, day, estimate FROM reservations WHERE project = $1 AND expires_at <= $2
                 )
                 SELECT kind, subject,
                     CAST(least(sum(CAST(estimate AS double precision)), 9223372036854774784) AS bigint)
                 FROM (SELECT 'job' AS kind, job AS subject, estimate FROM expired
                       UNION ALL SELECT 'day', CAST(day AS text), estimate FROM expired
                       UNION ALL SELECT 'project', '', estimate FROM expired) AS sums
                 GROUP BY kind, subject"
            ),
            project,
            now,
        ),
        sql!("DELETE FROM reservations WHERE project = $1 AND expires_at <= $2", project, now),
    ]
}

/// Returns the query for what the scopes of sums have used.
fn used(sums: &Sums) -> Statement {
    let Sums { project, job, day } = sums;
    let none = None::<i64>;
    sql!(
        concat!(held!(), "SELECT micros, set_aside FROM held ORDER BY place"),
        project.as_str(),
        job.to_string(),
        day.to_string(),
        none,
        none,
        none,
    )
}

/// Returns the statement that adds a reservation unless it would exceed a budget.
fn add_reservation(new: &NewReservation) -> Statement {
    let Sums { project, job, day } = &new.sums;
    // A budget above the largest integer is no limit, because a sum stops there.
    let limit = |scope| new.budgets.of(scope).and_then(|limit| i64::try_from(limit).ok());
    sql!(
        concat!(
            held!(),
            "INSERT INTO reservations (project, job, day, micros, estimate, expires_at)
             SELECT id, $2, CAST($3 AS bigint), $7::bigint, $8::bigint, $9::bigint FROM projects
             WHERE id = $1 AND NOT EXISTS (
                 SELECT 1 FROM held WHERE CASE WHEN most - micros < set_aside THEN true
                                               ELSE most - micros - set_aside < $7::bigint END
             )
             RETURNING number"
        ),
        project.as_str(),
        job.to_string(),
        day.to_string(),
        limit(Scope::Job),
        limit(Scope::Day),
        limit(Scope::Project),
        new.micros,
        new.estimate,
        new.expires_at,
    )
}

/// Decodes the rows of [`used`]. Amounts are never negative.
fn read(found: &[Row]) -> Result<[Used; 3], StoreError> {
    let mut all = [Used::default(); 3];
    for (used, row) in all.iter_mut().zip(found) {
        let amount = |column| Ok::<_, StoreError>(u64::try_from(row.number(column)?.unwrap_or(0)).unwrap_or(0));
        *used = Used { spent: amount("micros")?, set_aside: amount("set_aside")? };
    }
    Ok(all)
}
