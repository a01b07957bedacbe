//! Writes the reviews of jobs.

use journeyman_core::inbox::review;
use journeyman_core::inbox::route::MARKER;
use journeyman_core::job::Job;
use journeyman_core::message::Message;
use journeyman_core::ports::{Discussion, beginning};

use super::{Failed, HostEffects};

/// The maximum size of a diff whose lines are found, in bytes. Findings in the rest of a larger one stand in the text of
/// the review.
const DIFF_BYTES: usize = 32 << 20;

impl HostEffects {
    /// Writes the review that the answer of a message is, and returns its page; `None` if nothing was reviewed.
    pub(super) async fn write_review(
        &self,
        job: &Job,
        message: &Message,
        discussion: &dyn Discussion,
    ) -> Result<Option<String>, Failed> {
        let (Some(reviewed), Some(branch)) = (&job.options.review, &job.branch) else { return Ok(None) };
        let Some(project) = self.cases.parts().store.project(job.project.clone()).await? else { return Ok(None) };
        let later = |error: String| Failed::Later(format!("the changes that were reviewed cannot be read: {error}"));
        let diff = self.diffs.diff(&project, job).await.map_err(|error| later(error.to_string()))?;
        let (diff, _) = beginning(diff, DIFF_BYTES).await.map_err(|error| later(error.to_string()))?;
        let answer = message.answer.as_deref().unwrap_or_default();
        let marker = format!("{MARKER}review:{} -->", message.id);
        let review = review::review(answer, &String::from_utf8_lossy(&diff), &branch.head, (marker, &self.url(job)));
        Ok(Some(discussion.write_review(reviewed.number, &review).await?))
    }
}
