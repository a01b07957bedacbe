//! The probe of a project on hold by a claim.

use journeyman_core::ports::{PROBE_TIME, StoreError};
use journeyman_core::project::hold::Hold;
use journeyman_core::retry::LONGEST_BACKOFF;
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;

use super::error::PgError;
use super::pipeline::call;
use super::session::Session;
use crate::rows;
use crate::sql::holds::put;

/// The role of a claim in probing its project.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The project is not on hold.
    None,
    /// Only this claim probes the project.
    Begun(Box<Hold>),
    /// Another claim probes the project.
    Taken,
}

/// Postpones the next probe of the project of the job in `row`, inside the transaction that claims the job.
pub(super) async fn begin_probe(session: &Session, row: &Row, now: Timestamp) -> Result<Probe, StoreError> {
    let project: String = row.try_get("project").map_err(PgError::from)?;
    let text = "SELECT * FROM project_holds WHERE project = $1 AND (next_probe_at <= $2 OR next_probe_at > $3)
                FOR UPDATE SKIP LOCKED";
    let times = [now, now + LONGEST_BACKOFF].map(Timestamp::as_micros);
    let found = session.run(&[call!(text, project, times[0], times[1])]).await?;
    let Some(row) = found.first().and_then(|rows| rows.first()) else { return Ok(Probe::Taken) };
    let (project, hold) = rows::hold(row)?;
    let hold = Hold { next_probe_at: now + PROBE_TIME, ..hold };
    session.run(&[put(&project, &hold)?.into()]).await?;
    Ok(Probe::Begun(Box::new(hold)))
}
