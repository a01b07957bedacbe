//! Keeps pull requests up to date with their bases: asks their jobs to merge the base, if the project wants it.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;
use journeyman_core::engine::Prompt;
use journeyman_core::job::Job;
use journeyman_core::job::command::PullRef;
use journeyman_core::message::{DeliveryMode, MessageSource, Origin};
use journeyman_core::ports::{Effort, NotCompared, OpenedRepository, StoreError, UpdateError};
use journeyman_core::project::{DEFAULT_AUTOMATIC_PER_DAY, KeepUpToDate, Project};
use journeyman_core::pull::PullState;
use journeyman_core::pull::base_comparison::{BaseComparison, request};
use journeyman_core::pull_updates::{OutdatedPull, UpdateDecision, decide_update};

use crate::UseCases;
use crate::base_comparisons::open_pull;
use crate::inbox::Problem;

/// The number of projects whose pull requests are compared at the same time.
const PROJECTS_AT_ONCE: usize = 4;

/// The time limit of a project. Its repository may have to be fetched.
const PROJECT_LIMIT: Duration = Duration::from_secs(300);

/// The job of an open pull request, in a project whose pull requests are kept up to date.
struct Kept<'a> {
    project: &'a Project,
    job: Job,
    pull: PullRef,
}

impl UseCases {
    /// Returns whether a project wants its pull requests to be kept up to date.
    ///
    /// # Errors
    /// The store failed.
    pub async fn are_updates_wanted(&self) -> Result<bool, StoreError> {
        Ok(self.parts().store.projects().await?.iter().any(is_wanted))
    }

    /// Asks the jobs of outdated pull requests to merge their bases. A repetition asks nobody twice. A project whose
    /// repository cannot be read is left to the next call.
    ///
    /// # Errors
    /// The store failed.
    pub async fn keep_pulls_up_to_date(&self) -> Result<(), StoreError> {
        let mut projects = self.parts().store.projects().await?;
        projects.retain(is_wanted);
        let each = projects.iter().map(|project| self.keep_project(project)).collect::<Vec<_>>();
        let ends: Vec<Result<(), StoreError>> = iter(each).buffer_unordered(PROJECTS_AT_ONCE).collect().await;
        ends.into_iter().collect()
    }

    async fn keep_project(&self, project: &Project) -> Result<(), StoreError> {
        let kept = self.kept_pulls(project).await?;
        if kept.is_empty() {
            return Ok(());
        }
        let work = async {
            let opened = self.parts().comparisons.open(project, Effort::Complete).await?;
            for one in &kept {
                // The others must not wait for one that fails.
                if let Err(Problem(error)) = self.keep_pull(one, &*opened).await {
                    tracing::warn!(job = %one.job.id, number = one.pull.number, error, "a pull request could not be kept up to date");
                }
            }
            Ok::<_, NotCompared>(())
        };
        match tokio::time::timeout(PROJECT_LIMIT, work).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(project = %project.id, %error, "pull requests are not kept up to date"),
            Err(_) => {
                tracing::warn!(project = %project.id, "the comparison of pull requests with their bases took too long")
            }
        }
        Ok(())
    }

    /// Returns the open pull requests of a project whose jobs rest.
    async fn kept_pulls<'a>(&self, project: &'a Project) -> Result<Vec<Kept<'a>>, StoreError> {
        let store = &self.parts().store;
        let mut kept = Vec::new();
        for indexed in store.indexed_pulls_in(project.id.clone()).await? {
            if indexed.state != PullState::Open {
                continue;
            }
            let Some(job) = store.job(indexed.job).await? else { continue };
            let Some(pull) = open_pull(&job).filter(|pull| pull.number == indexed.number) else { continue };
            if job.rests_since().is_some() {
                kept.push(Kept { project, job, pull });
            }
        }
        Ok(kept)
    }

    async fn keep_pull(&self, kept: &Kept<'_>, opened: &dyn OpenedRepository) -> Result<(), Problem> {
        let Kept { project, job, pull } = kept;
        let Some(comparison) = opened.compare(pull).await? else { return Ok(()) };
        let is_outdated = match project.settings.pull_request.keep_up_to_date {
            KeepUpToDate::Off => false,
            KeepUpToDate::Conflicts => !comparison.conflicts.is_empty(),
            KeepUpToDate::Always => comparison.behind > 0,
        };
        let limits = &project.settings.limits;
        let most_per_day = limits.automatic_per_day.unwrap_or(DEFAULT_AUTOMATIC_PER_DAY);
        let now = self.parts().engine.now();
        if !is_outdated || decide_update(job, pull, &comparison, most_per_day, now) == UpdateDecision::Nothing {
            return Ok(());
        }
        // The comparison may use an older answer of the code host.
        let current = self.parts().forges.of(project).await?.pull(pull.number).await?;
        if current.is_none_or(|current| current.state != PullState::Open || current.base != comparison.base) {
            return Ok(());
        }
        let message = self.parts().engine.new_message(update_prompt(job, pull, &comparison));
        let report = OutdatedPull { pull: pull.clone(), comparison, message, most_per_day };
        let limit = limits.message_per_hour.unwrap_or(self.parts().message_per_hour);
        match self.parts().engine.keep_up_to_date(&project.id, job.id, report, limit).await {
            Ok(_) | Err(UpdateError::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_wanted(project: &Project) -> bool {
    project.settings.pull_request.keep_up_to_date != KeepUpToDate::Off
}

/// Returns the message that has a pull request updated.
fn update_prompt(job: &Job, pull: &PullRef, comparison: &BaseComparison) -> Prompt {
    let source = MessageSource {
        origin: Origin::Check,
        newer: Some(Origin::Update),
        repository: pull.repository.clone(),
        number: pull.number,
        id: format!("{}..{}", comparison.base_sha, comparison.head_sha),
        url: job.pull.as_ref().map(|pull| pull.url.clone()).unwrap_or_default(),
        author: None,
        comments: Vec::new(),
        inbox: Vec::new(),
        logs: Vec::new(),
    };
    Prompt {
        text: request(&comparison.base, &comparison.conflicts),
        origin: Origin::Update,
        author: None,
        key: None,
        delivery: DeliveryMode::Queue,
        traceparent: None,
        source: Some(Box::new(source)),
    }
}
