//! Carries out effects on code hosts: reactions, answers, and the statuses of commits.

use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::checks;
use journeyman_core::code_host::PullRepository;
use journeyman_core::conversation::{CommentRef, CommentTarget, Reaction};
use journeyman_core::ids::{JobId, MessageId, Sha};
use journeyman_core::job::effect::Effect;
use journeyman_core::job::{Job, pull_updates};
use journeyman_core::message::{MessageSource, MessageStatus};
use journeyman_core::ports::{Diffs, Discussion, EffectError, EffectHandler, Forge, ForgeError};
use journeyman_core::project::{Answers, Project};

use self::failed::Failed;
use self::repository::is_at;
use crate::UseCases;
use crate::summary::Summary;

pub(crate) mod failed;
pub(crate) mod repository;
mod review;
mod status;

/// Carries out effects on code hosts.
#[derive(Clone)]
pub struct HostEffects {
    cases: UseCases,
    diffs: Arc<dyn Diffs>,
}

impl HostEffects {
    /// Returns the handler over these use cases, which reads the changes that jobs review from `diffs`.
    #[must_use]
    pub const fn new(cases: UseCases, diffs: Arc<dyn Diffs>) -> Self {
        Self { cases, diffs }
    }
}

#[async_trait]
impl EffectHandler for HostEffects {
    fn kinds(&self) -> &'static [&'static str] {
        &[
            Effect::ACKNOWLEDGE,
            Effect::ANSWER,
            Effect::REPORT_CHECKS,
            Effect::REPORT_OUTDATED,
            Effect::SET_STATUS,
            Effect::REMOVE_REPOSITORY,
        ]
    }

    async fn carry_out(&self, effect: &Effect) -> Result<(), EffectError> {
        let done = match effect {
            Effect::Acknowledge { job, message } => self.acknowledge(*job, *message).await,
            Effect::Answer { job, message } => self.answer(*job, *message).await,
            Effect::ReportChecks { job, sha } => self.report_checks(*job, sha).await,
            Effect::ReportOutdated { job, base } => self.report_outdated(*job, base).await,
            Effect::SetStatus { job, sha, .. } => self.cases.set_status(*job, sha).await,
            Effect::RemoveRepository { repository } => {
                self.cases.parts().forges.remove(repository).await.map_err(Failed::from)
            }
            Effect::RemoveBlobs { .. } => Err(Failed::Later("this part of the service has no blobs".to_owned())),
        };
        match done {
            Ok(()) => Ok(()),
            Err(Failed::Later(error)) => Err(EffectError(error)),
            Err(Failed::Never(error)) => {
                tracing::warn!(kind = effect.kind(), error, "an effect on a code host is not possible");
                Ok(())
            }
        }
    }
}

impl HostEffects {
    /// Returns the job with its repository; `None` if either no longer exists.
    async fn find(&self, job: JobId) -> Result<Option<(Job, Arc<dyn Forge>)>, Failed> {
        Ok(self.find_with_project(job).await?.map(|(job, _, forge)| (job, forge)))
    }

    /// Returns the job with its project and its repository; `None` if one of them no longer exists.
    async fn find_with_project(&self, job: JobId) -> Result<Option<(Job, Project, Arc<dyn Forge>)>, Failed> {
        let parts = self.cases.parts();
        let Some(job) = parts.store.job(job).await? else { return Ok(None) };
        let Some(project) = parts.store.project(job.project.clone()).await? else { return Ok(None) };
        let forge = parts.forges.of(&project).await?;
        Ok(Some((job, project, forge)))
    }

    async fn is_at(forge: &dyn Forge, repository: &PullRepository) -> Result<bool, Failed> {
        Ok(is_at(forge, repository).await?)
    }

    /// Reacts to the comments of a message, and writes the first version of its summary.
    async fn acknowledge(&self, job: JobId, message: MessageId) -> Result<(), Failed> {
        let Some((job, project, forge)) = self.find_with_project(job).await? else { return Ok(()) };
        let Some(message) = self.cases.parts().store.message(message).await? else { return Ok(()) };
        let (Some(discussion), Some(source)) = (forge.discussion(), &message.source) else { return Ok(()) };
        if !Self::is_at(&*forge, &source.repository).await? {
            return Ok(());
        }
        react(discussion, source, Reaction::Seen).await?;
        if project.settings.comments.answers == Answers::Full && discussion.can_update() {
            let summary = Summary { job: &job, message: &message, discussion };
            self.cases.show_progress(&summary, None, true).await?;
        }
        Ok(())
    }

    /// Answers a message: in its summary, which replaces the progress, and with replies in threads.
    async fn answer(&self, job: JobId, message: MessageId) -> Result<(), Failed> {
        let Some((job, project, forge)) = self.find_with_project(job).await? else { return Ok(()) };
        let Some(message) = self.cases.parts().store.message(message).await? else { return Ok(()) };
        let (Some(discussion), Some(source)) = (forge.discussion(), &message.source) else { return Ok(()) };
        if !Self::is_at(&*forge, &source.repository).await? {
            return Ok(());
        }
        let summary = Summary { job: &job, message: &message, discussion };
        if job.options.review.is_some() && message.status == MessageStatus::Finished {
            if let Some(review) = self.write_review(&job, &message, discussion).await? {
                self.cases.show_review(&summary, &review).await?;
            }
            return react(discussion, source, Reaction::Done).await;
        }
        if !self.cases.show_answer(&summary, project.settings.comments.resolve).await? {
            return Ok(());
        }
        let is_done = message.status == MessageStatus::Finished;
        react(discussion, source, if is_done { Reaction::Done } else { Reaction::Failed }).await
    }

    /// Comments why the failed checks of a commit are not repaired. A comment about an older commit is left out.
    async fn report_checks(&self, job: JobId, sha: &Sha) -> Result<(), Failed> {
        let Some((job, forge)) = self.find(job).await? else { return Ok(()) };
        let (Some(discussion), Some(pull), Some(checks)) = (forge.discussion(), &job.pull, &job.checks) else {
            return Ok(());
        };
        let watch = self.cases.parts().store.watch_of(job.id).await?.filter(|watch| watch.sha == *sha);
        let seen = watch.map(|watch| watch.checks).unwrap_or_default();
        let text = checks::report(checks, &seen, &self.url(&job)).filter(|_| checks.sha == *sha);
        let Some(text) = text else { return Ok(()) };
        let Some(repository) = &pull.repository else { return Ok(()) };
        if !Self::is_at(&*forge, repository).await? {
            return Ok(());
        }
        discussion.comment(CommentTarget::Pull(pull.number), &checks::report_marker(checks), &text).await?;
        Ok(())
    }

    /// Comments why the pull request is not updated. A comment about an older commit of the base is left out.
    async fn report_outdated(&self, job: JobId, base: &Sha) -> Result<(), Failed> {
        let Some((job, forge)) = self.find(job).await? else { return Ok(()) };
        let (Some(discussion), Some(pull), Some(updates)) = (forge.discussion(), &job.pull, &job.updates) else {
            return Ok(());
        };
        let text = pull_updates::report(updates, &self.url(&job)).filter(|_| updates.base == *base);
        let (Some(text), Some(repository)) = (text, &pull.repository) else { return Ok(()) };
        if !Self::is_at(&*forge, repository).await? {
            return Ok(());
        }
        discussion.comment(CommentTarget::Pull(pull.number), &pull_updates::report_marker(updates), &text).await?;
        Ok(())
    }

    fn url(&self, job: &Job) -> String {
        self.cases.job_page(job)
    }
}

/// Reacts to all comments of a message. A comment that was deleted meanwhile, or to which the service may not react, is
/// left out.
async fn react(discussion: &dyn Discussion, source: &MessageSource, reaction: Reaction) -> Result<(), Failed> {
    for comment in &source.comments {
        let at = CommentRef { kind: comment.kind, number: source.number, id: comment.id.clone() };
        match discussion.react(&at, reaction).await {
            Ok(()) | Err(ForgeError::NotFound(_) | ForgeError::Denied(_) | ForgeError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
