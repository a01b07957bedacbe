//! Projects on hold.

use std::collections::BTreeMap;

use async_trait::async_trait;
use journeyman_core::ids::ProjectId;
use journeyman_core::ports::{HoldStore, StoreError};
use journeyman_core::project::hold::{Hold, HoldFailure};
use journeyman_core::time::Timestamp;

use super::{Database, DbError, SqlStore, Statement, Tx, sql};
use crate::rows::{self, to_json};

#[async_trait]
impl<B: Database> HoldStore for SqlStore<B> {
    async fn hold_project(&self, id: ProjectId, failure: HoldFailure) -> Result<Option<Hold>, StoreError> {
        let hold = self.transact(move |tx| {
            let failure = failure.clone();
            Box::pin(change(tx, id.clone(), move |before| Some(Hold::after(before.as_ref(), &failure))))
        });
        hold.await
    }

    async fn release_project(&self, id: ProjectId) -> Result<(), StoreError> {
        self.transact(move |tx| Box::pin(release(tx, id.clone()))).await?;
        self.wakeups().work();
        Ok(())
    }

    async fn probe_project(&self, id: ProjectId, now: Timestamp) -> Result<(), StoreError> {
        let sooner =
            move |before: Option<Hold>| before.map(|hold| Hold { next_probe_at: hold.next_probe_at.min(now), ..hold });
        self.transact(move |tx| Box::pin(change(tx, id.clone(), sooner))).await?;
        self.wakeups().work();
        Ok(())
    }

    async fn holds(&self) -> Result<BTreeMap<ProjectId, Hold>, StoreError> {
        Ok(self.all(sql!("SELECT * FROM project_holds"), rows::hold).await?.into_iter().collect())
    }
}

/// Locks the project's row and replaces the project's hold with the result of `next`, which receives the current hold.
async fn change(
    tx: &mut (dyn Tx + '_),
    project: ProjectId,
    next: impl FnOnce(Option<Hold>) -> Option<Hold> + Send,
) -> Result<Option<Hold>, DbError> {
    let id = project.as_str();
    tx.execute(sql!("SELECT id FROM projects WHERE id = $1 FOR UPDATE", id)).await?;
    tx.execute(sql!("SELECT project FROM project_holds WHERE project = $1 FOR UPDATE", id)).await?;
    let query = sql!("SELECT id, hold FROM projects LEFT JOIN project_holds ON project = id WHERE id = $1", id);
    let Some(before) = tx.one(query, rows::hold_or_null).await? else { return Ok(None) };
    let after = next(before);
    if let Some(after) = &after {
        tx.changed_related();
        tx.execute(put(&project, after)?).await?;
    }
    Ok(after)
}

async fn release(tx: &mut (dyn Tx + '_), project: ProjectId) -> Result<(), DbError> {
    tx.changed_related();
    tx.execute(sql!("DELETE FROM project_holds WHERE project = $1", project.as_str())).await?;
    Ok(())
}

/// Returns the statement that stores the hold of a project.
pub(crate) fn put(project: &ProjectId, hold: &Hold) -> Result<Statement, StoreError> {
    Ok(sql!(
        "INSERT INTO project_holds (project, next_probe_at, hold) VALUES ($1, $2, $3)
         ON CONFLICT (project) DO UPDATE SET next_probe_at = excluded.next_probe_at, hold = excluded.hold",
        project.as_str(),
        hold.next_probe_at,
        to_json(hold)?,
    ))
}
