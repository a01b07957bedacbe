//! The probe of a project on hold by a claim.

use journeyman_core::ids::ProjectId;
use journeyman_core::ports::PROBE_TIME;
use journeyman_core::project::hold::Hold;
use journeyman_core::time::Timestamp;
use rusqlite::Connection;

use super::error::ReadError;
use super::tx::execute;
use super::write::Session;
use crate::rows;
use crate::sql::holds::put;

/// Postpones the next probe of the project of a claimed job, and returns the project's hold.
pub(super) fn begin_probe(db: &Session<'_>, project: &ProjectId, now: Timestamp) -> Result<Option<Hold>, ReadError> {
    let Some(hold) = hold_of(db, project)? else { return Ok(None) };
    let hold = Hold { next_probe_at: now + PROBE_TIME, ..hold };
    db.changed_related();
    execute(db, &put(project, &hold)?)?;
    Ok(Some(hold))
}

fn hold_of(db: &Connection, project: &ProjectId) -> Result<Option<Hold>, ReadError> {
    let mut query = db.prepare_cached("SELECT * FROM project_holds WHERE project = ?1")?;
    let mut rows = query.query([project.as_str()])?;
    Ok(rows.next()?.map(rows::hold).transpose()?.map(|(_, hold)| hold))
}
