//! How pull requests compare with their bases, for people and clients who wait for the answer.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;
use journeyman_core::job::Job;
use journeyman_core::job::command::PullRef;
use journeyman_core::ports::Effort;
use journeyman_core::project::Project;
use journeyman_core::pull::PullState;
use journeyman_core::pull::base_comparison::BaseComparison;

use crate::UseCases;

/// The number of pull requests that are compared at the same time.
const AT_ONCE: usize = 2;

impl UseCases {
    /// Returns how open pull requests of the project compare with their bases, in the same order; `None` for one that was
    /// not found out within `limit`, cannot be compared, or has ended. The caller may see the project.
    pub async fn comparisons(
        &self,
        project: &Project,
        pulls: &[PullRef],
        limit: Duration,
    ) -> Vec<Option<BaseComparison>> {
        let mut found = vec![None; pulls.len()];
        if pulls.is_empty() {
            return found;
        }
        let work = async {
            let opened = self.parts().comparisons.open(project, Effort::Quick).await?;
            let opened = &*opened;
            let compare = |(place, pull): (usize, PullRef)| async move { (place, opened.compare(&pull).await) };
            let each = pulls.iter().cloned().enumerate().map(compare).collect::<Vec<_>>();
            let mut each = iter(each).buffer_unordered(AT_ONCE);
            while let Some((place, comparison)) = each.next().await {
                match comparison {
                    Ok(comparison) => found[place] = comparison,
                    Err(error) => {
                        let number = pulls[place].number;
                        tracing::info!(project = %project.id, number, %error, "a pull request was not compared with its base");
                    }
                }
            }
            Ok::<_, journeyman_core::ports::NotCompared>(())
        };
        match tokio::time::timeout(limit, work).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::info!(project = %project.id, %error, "pull requests were not compared with their bases")
            }
            Err(_) => tracing::info!(project = %project.id, "pull requests were not compared with their bases in time"),
        }
        found
    }

    /// Returns how the open pull request of a job compares with its base, like [`UseCases::comparisons`].
    pub async fn comparison_of_job(&self, project: &Project, job: &Job, limit: Duration) -> Option<BaseComparison> {
        let pull = open_pull(job)?;
        self.comparisons(project, &[pull], limit).await.into_iter().next().flatten()
    }
}

/// Returns the open pull request of a job; `None` if there is none, or if an older version opened it.
pub(crate) fn open_pull(job: &Job) -> Option<PullRef> {
    let pull = job.pull.as_ref().filter(|pull| pull.state == PullState::Open)?;
    Some(PullRef { repository: pull.repository.clone()?, number: pull.number })
}
