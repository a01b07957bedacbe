//! The document of a job, with the size of its change, which has a separate column: an older version, which does not
//! know the size, would drop it when it writes the document.

use journeyman_core::diff_stat::DiffStat;
use journeyman_core::ids::Sha;
use journeyman_core::job::{Branch, Job};
use journeyman_core::ports::StoreError;
use serde::{Deserialize, Serialize};

use super::{At, Columns, Read, to_json};

/// The content of the column `jobs.diff`: the size of the change, with the branch and the commit that it belongs to. An
/// older version that runs a turn changes the branch in the document and leaves the column; the size is then unknown.
#[derive(Serialize, Deserialize)]
struct JobDiff {
    stat: DiffStat,
    generation: u32,
    head: Sha,
}

impl JobDiff {
    fn is_of(&self, branch: &Branch) -> bool {
        self.generation == branch.generation && self.head == branch.head
    }
}

/// Decodes a job from the columns `id`, `state` and `diff`.
pub(crate) fn job<R: Columns>(row: &R) -> Read<Job, R> {
    let mut job = job_document(row)?;
    let diff: Option<JobDiff> = At::new("jobs", row, &["id"])?.json_or_null("diff")?;
    // A document that has the size was written after the column, by a version that does not know the column.
    if job.diff.is_none() {
        let diff = diff.filter(|diff| job.branch.as_ref().is_some_and(|branch| diff.is_of(branch)));
        job.diff = diff.map(|diff| diff.stat);
    }
    Ok(job)
}

/// Decodes the document of a job from the columns `id` and `state`, usually without the size of its change.
pub(crate) fn job_document<R: Columns>(row: &R) -> Read<Job, R> {
    At::new("jobs", row, &["id"])?.json("state")
}

/// Returns the value of the column `jobs.diff`, as JSON; `None` if the size of the change is not known.
pub(crate) fn job_diff(job: &Job) -> Result<Option<String>, StoreError> {
    let Some((stat, branch)) = job.diff.zip(job.branch.as_ref()) else { return Ok(None) };
    to_json(&JobDiff { stat, generation: branch.generation, head: branch.head.clone() }).map(Some)
}
