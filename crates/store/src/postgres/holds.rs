//! Projects on hold.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{HoldStore, PROBE_TIME, StoreError};
use journeyman_core::project::hold::{Hold, HoldFailure};
use journeyman_core::retry::LONGEST_BACKOFF;
use journeyman_core::time::Timestamp;
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::PgError;
use super::pipeline::{Call, call};
use super::session::Session;
use crate::rows::{self, to_json};

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

#[async_trait]
impl HoldStore for PostgresStore {
    async fn hold_project(&self, id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError> {
        self.change_hold(id, |before| Some(Hold::after(before, &failure))).await
    }

    async fn release_project(&self, id: ProjectId) -> Result<(), StoreError> {
        self.read(call!("DELETE FROM project_holds WHERE project = $1", id.to_string())).await?;
        self.news.wakeups.work();
        Ok(())
    }

    async fn probe_project(&self, id: ProjectId, now: Timestamp) -> Result<(), StoreError> {
        let sooner = |before: Option<&Hold>| {
            before.map(|hold| Hold { next_probe_at: hold.next_probe_at.min(now), ..hold.clone() })
        };
        self.change_hold(id, sooner).await?;
        self.news.wakeups.work();
        Ok(())
    }

    async fn holds(&self) -> Result<BTreeMap<ProjectId, Hold>, StoreError> {
        let found = self.read(call!("SELECT * FROM project_holds")).await?;
        Ok(found.iter().map(rows::hold).collect::<Result<_, PgError>>()?)
    }
}

impl PostgresStore {
    /// Locks the project's row and replaces the project's hold with the result of `change`, which receives the current
    /// hold.
    async fn change_hold(
        &self,
        id: ProjectId,
        change: impl Fn(Option<&Hold>) -> Option<Hold> + Send,
    ) -> Result<Option<Hold>, StoreError> {
        let session = Session::open(&self.pool).await?;
        let look = [
            call!("BEGIN"),
            call!("SELECT id FROM projects WHERE id = $1 FOR UPDATE", id.to_string()),
            call!("SELECT * FROM project_holds WHERE project = $1 FOR UPDATE", id.to_string()),
        ];
        let mut found = session.run(&look).await?;
        let before = found.pop().unwrap_or_default().first().map(rows::hold::<Row>).transpose()?;
        let is_there = found.pop().is_some_and(|rows| !rows.is_empty());
        let after = change(before.as_ref().map(|(_, hold)| hold)).filter(|_| is_there);
        let Some(after) = after else {
            session.run(&[call!("ROLLBACK")]).await?;
            session.release();
            return Ok(None);
        };
        session.run(&[put(id.to_string(), &after)?, call!("COMMIT")]).await.map_err(PgError::of_commit)?;
        session.release();
        Ok(Some(after))
    }
}

/// Postpones the next probe of the project of the job in `row`, inside the transaction that claims the job.
pub(super) async fn begin_probe(session: &Session, row: &Row, now: Timestamp) -> Result<Probe, StoreError> {
    let project: String = row.try_get("project").map_err(PgError::from)?;
    let text = "SELECT * FROM project_holds WHERE project = $1 AND (next_probe_at <= $2 OR next_probe_at > $3)
                FOR UPDATE SKIP LOCKED";
    let times = [now, now + LONGEST_BACKOFF].map(Timestamp::as_micros);
    let found = session.run(&[call!(text, project.clone(), times[0], times[1])]).await?;
    let Some(row) = found.first().and_then(|rows| rows.first()) else { return Ok(Probe::Taken) };
    let (_, hold) = rows::hold(row)?;
    let hold = Hold { next_probe_at: now + PROBE_TIME, ..hold };
    session.run(&[put(project, &hold)?]).await?;
    Ok(Probe::Begun(Box::new(hold)))
}

fn put(project: String, hold: &Hold) -> Result<Call, StoreError> {
    Ok(call!(
        "INSERT INTO project_holds (project, next_probe_at, hold) VALUES ($1, $2, $3)
         ON CONFLICT (project) DO UPDATE SET next_probe_at = excluded.next_probe_at, hold = excluded.hold",
        project,
        hold.next_probe_at.as_micros(),
        to_json(hold)?,
    ))
}
