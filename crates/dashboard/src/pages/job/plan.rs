//! The plan of the agent before the part of a conversation that a page shows.

use journeyman_core::ids::JobId;
use journeyman_core::ports::StoreError;

use super::messages_and_runs::MessagesAndRuns;
use crate::Shared;
use crate::conversation::Plan;

/// Returns the newest plan before the window that begins after `start`. A run that has ended has stopped its plan.
pub(super) async fn plan_before(
    shared: &Shared,
    history: &MessagesAndRuns,
    job: JobId,
    start: u64,
) -> Result<Option<Plan>, StoreError> {
    if start == 0 {
        return Ok(None);
    }
    let Some(entry) = shared.services.store.plan_before(job, start.saturating_add(1)).await? else { return Ok(None) };
    let run = entry.run_id.map(|run| run.to_string()).unwrap_or_default();
    let mut plan = Plan::new(run.clone(), &entry.data);
    if history.running().map(|run| run.id) != entry.run_id {
        plan.stop(&run);
    }
    Ok(Some(plan))
}
