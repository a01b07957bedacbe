//! The cost of model calls.

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::model::budget::Used;
use journeyman_core::ports::{NewReservation, Reservation, ReserveError, SpendingStore, StoreError, Sums};
use journeyman_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::error::OpError;
use crate::spending::{Sum, amount, check, rows, used};

#[async_trait]
impl SpendingStore for SqliteStore {
    async fn reserve(&self, new: NewReservation) -> Result<Reservation, ReserveError> {
        self.writer
            .write(move |db| {
                replace_expired(db, &new.sums.project, new.now)?;
                check(&new, read(db, &new.sums)?).map_err(|refusal| OpError::Refused(ReserveError::from(refusal)))?;
                let text = "INSERT INTO reservations (project, job, day, micros, estimate, expires_at)
                     SELECT id, ?2, ?3, ?4, ?5, ?6 FROM projects WHERE id = ?1";
                let Sums { project, job, day } = &new.sums;
                let inserted = db.prepare_cached(text)?.execute(params![
                    project.as_str(),
                    job.to_string(),
                    day,
                    amount(new.micros),
                    amount(new.estimate),
                    new.expires_at.as_micros()
                ])?;
                let number = if inserted == 0 { 0 } else { db.last_insert_rowid() };
                Ok::<_, OpError<ReserveError>>(Reservation { number, estimate: new.estimate })
            })
            .await
    }

    async fn renew(&self, reservation: &Reservation, expires_at: Timestamp) -> Result<(), StoreError> {
        let number = reservation.number;
        self.writer
            .write(move |db| {
                let text = "UPDATE reservations SET expires_at = ?2 WHERE number = ?1";
                db.prepare_cached(text)?.execute(params![number, expires_at.as_micros()])?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn settle(&self, sums: &Sums, reservation: Option<&Reservation>, micros: u64) -> Result<(), StoreError> {
        let (sums, reservation) = (sums.clone(), reservation.cloned());
        self.writer
            .write(move |db| {
                let booked = match reservation {
                    Some(Reservation { number, estimate }) => {
                        let text = "DELETE FROM reservations WHERE number = ?1";
                        let ended = db.prepare_cached(text)?.execute([number])?;
                        if ended == 0 { amount(estimate) } else { 0 }
                    }
                    None => 0,
                };
                add(db, &sums, amount(micros) - booked)?;
                Ok::<_, OpError<StoreError>>(())
            })
            .await
    }

    async fn used(&self, sums: &Sums) -> Result<[Used; 3], StoreError> {
        self.readers.find(|db| Ok(read(db, sums)?))
    }
}

/// Replaces the reservations of a project that have expired with their estimates.
fn replace_expired(db: &Connection, project: &ProjectId, now: Timestamp) -> rusqlite::Result<()> {
    let text = "DELETE FROM reservations WHERE project = ?1 AND expires_at <= ?2 RETURNING job, day, estimate";
    let mut expired = db.prepare_cached(text)?;
    let expired = expired.query_map(params![project.as_str(), now.as_micros()], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    for row in expired.collect::<rusqlite::Result<Vec<_>>>()? {
        let (job, day, estimate) = row;
        for (kind, subject) in [("job", job), ("day", day.to_string()), ("project", String::new())] {
            add_to(db, project, kind, &subject, estimate)?;
        }
    }
    Ok(())
}

/// Adds an amount, which may be negative, to sums.
fn add(db: &Connection, sums: &Sums, micros: i64) -> rusqlite::Result<()> {
    for Sum { kind, subject } in rows(sums) {
        add_to(db, &sums.project, kind, &subject, micros)?;
    }
    Ok(())
}

fn add_to(db: &Connection, project: &ProjectId, kind: &str, subject: &str, micros: i64) -> rusqlite::Result<()> {
    // A call that ends after its project was deleted is not recorded.
    // SQLite would turn a sum that is too large for an integer into an inexact number.
    let text = "INSERT INTO spending (project, kind, subject, micros)
         SELECT id, ?2, ?3, max(0, ?4) FROM projects WHERE id = ?1
         ON CONFLICT DO UPDATE SET micros = CASE
             WHEN ?4 > 9223372036854775807 - micros THEN 9223372036854775807
             ELSE max(0, micros + ?4) END";
    db.prepare_cached(text)?.execute(params![project.as_str(), kind, subject, micros])?;
    Ok(())
}

fn read(db: &Connection, sums: &Sums) -> rusqlite::Result<[Used; 3]> {
    let mut found = [Used::default(); 3];
    for (sum, Sum { kind, subject }) in found.iter_mut().zip(rows(sums)) {
        let text = "SELECT micros FROM spending WHERE project = ?1 AND kind = ?2 AND subject = ?3";
        let mut query = db.prepare_cached(text)?;
        let spent = query.query_row(params![sums.project.as_str(), kind, subject], |row| row.get(0)).optional()?;
        // The sum of few rows: calls in progress. `total` is inexact above 2^53, far above any budget in dollars.
        let text = "SELECT CAST(min(total(micros), 9223372036854774784) AS INTEGER) FROM reservations
                    WHERE project = ?1 AND (?2 = 'project' OR (?2 = 'job' AND job = ?3) OR (?2 = 'day' AND day = ?3 + 0))";
        let mut query = db.prepare_cached(text)?;
        let set_aside = query.query_row(params![sums.project.as_str(), kind, subject], |row| row.get(0))?;
        *sum = used(spent.unwrap_or_default(), set_aside);
    }
    Ok(found)
}
