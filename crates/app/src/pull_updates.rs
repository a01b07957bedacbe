//! Keeps pull requests up to date with their bases: asks their jobs to merge the base, if the project wants it.

use journeyman_core::code_host::{PullRef, PullState};
use journeyman_core::engine::Prompt;
use journeyman_core::job::Job;
use journeyman_core::job::pull_updates::{OutdatedPull, UpdateDecision, decide_update};
use journeyman_core::message::{DeliveryMode, MessageSource, Origin};
use journeyman_core::ports::UpdateError;
use journeyman_core::project::{DEFAULT_AUTOMATIC_PER_DAY, KeepUpToDate, Project};
use journeyman_core::pull::base_comparison::{BaseComparison, request};

use crate::UseCases;
use crate::base_comparisons::open_pull;
use crate::inbox::Problem;

impl UseCases {
    /// Asks the job of an outdated pull request to merge the base, if the project wants it. A repetition asks nobody
    /// twice. A failure is logged, and left to the next comparison.
    pub(crate) async fn keep_pull_up_to_date(&self, project: &Project, pull: &PullRef, comparison: BaseComparison) {
        if let Err(Problem(error)) = self.keep_pull(project, pull, comparison).await {
            tracing::warn!(project = %project.id, number = pull.number, error, "a pull request could not be kept up to date");
        }
    }

    async fn keep_pull(&self, project: &Project, pull: &PullRef, comparison: BaseComparison) -> Result<(), Problem> {
        let is_outdated = match project.settings.pull_request.keep_up_to_date {
            KeepUpToDate::Off => false,
            KeepUpToDate::Conflicts => !comparison.conflicts.is_empty(),
            KeepUpToDate::Always => comparison.behind > 0,
        };
        if !is_outdated {
            return Ok(());
        }
        let store = &self.parts().store;
        let indexed = store.indexed_pull(pull.repository.clone(), pull.number).await?;
        let Some(indexed) = indexed.filter(|indexed| indexed.project == project.id) else { return Ok(()) };
        let Some(job) = store.job(indexed.job).await?.filter(|job| open_pull(job).as_ref() == Some(pull)) else {
            return Ok(());
        };
        let limits = &project.settings.limits;
        let most_per_day = limits.automatic_per_day.unwrap_or(DEFAULT_AUTOMATIC_PER_DAY);
        let now = self.parts().engine.now();
        let decision = decide_update(&job, pull, &comparison, most_per_day, now);
        if job.rests_since().is_none() || decision == UpdateDecision::Nothing {
            return Ok(());
        }
        // The comparison may use an older answer of the code host.
        let current = self.parts().forges.of(project).await?.pull(pull.number).await?;
        if current.is_none_or(|current| current.state != PullState::Open || current.base != comparison.base) {
            return Ok(());
        }
        let message = self.parts().engine.new_message(update_prompt(&job, pull, &comparison));
        let report = OutdatedPull { pull: pull.clone(), comparison, message, most_per_day };
        let limit = limits.message_per_hour.unwrap_or(self.parts().message_per_hour);
        match self.parts().engine.keep_up_to_date(&project.id, job.id, report, limit).await {
            Ok(_) | Err(UpdateError::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
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
        files: Vec::new(),
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
