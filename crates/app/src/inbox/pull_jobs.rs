//! Makes jobs of mentions on pull requests that no job works on.

use journeyman_core::engine::{NewJob, Prompt};
use journeyman_core::hook::{EventRepository, HookContent, HookEvent, HostUser};
use journeyman_core::inbox::part::Part;
use journeyman_core::inbox::review::{self, Described};
use journeyman_core::inbox::route::addressed;
use journeyman_core::inbox::text::Shown;
use journeyman_core::inbox::{Content, Decision, InboxEvent, InboxState, Next, Outcome};
use journeyman_core::job::JobOptions;
use journeyman_core::job::decide::Rejected;
use journeyman_core::message::{DeliveryMode, MessageSource, Origin, SourceAuthor};
use journeyman_core::poll::POLLED;
use journeyman_core::ports::UpdateError;
use journeyman_core::project::{Project, Reviews};
use journeyman_core::prompt::{MAX_PROMPT_CHARS, title_of};
use journeyman_core::pull::existing::{ExistingPull, NotUsable, PullName, check};
use journeyman_core::pull::reviewed::ReviewedPull;
use journeyman_core::retry::backoff;

use super::Problem;
use super::context::{Context, indexed};
use super::decide::{REVIEWS_OFF, digest, done, ends, ignored, is_deleted, is_temporary};
use super::new_jobs::{Created, asks_for_review, least_permission, too_many};
use super::versions::{is_overtaken, message_of, overtaken};
use crate::UseCases;

impl UseCases {
    /// Decides about a comment or a review on a pull request that has no job: a mention makes a job that works on it.
    pub(super) async fn pull_comment(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        repository: &EventRepository,
        project: Project,
        decision: &mut Decision,
    ) -> Result<(), Problem> {
        let is_review = matches!(read.content, HookContent::Review { .. });
        let mentions_someone = read.text().is_some_and(|text| text.contains('@'));
        if !is_review && !mentions_someone && !self.has_asked(event, read, &project).await? {
            // Most comments on pull requests of others are not for the service, which then asks the host nothing.
            return Ok(());
        }
        if let Err(error) = self.parts().forges.of(&project).await
            && !is_temporary(&error)
        {
            let detail = format!("the repository of the project cannot be read: {error}");
            decision.next = ends(InboxState::Ignored, Outcome::NoProject, Some(detail));
            return Ok(());
        }
        let context = self.context(project).await?;
        if !context.is_about(repository).await? {
            decision.next = ends(InboxState::Ignored, Outcome::NoProject, Some(repository.path.clone()));
            return Ok(());
        }
        let resolved = self.resolved(event, read, &context).await?;
        let read = resolved.as_ref().unwrap_or(read);
        let Some((about, _)) = addressed(read) else { return Ok(()) };
        if let Some(resolved) = &resolved {
            decision.event = Some(Box::new(resolved.clone()));
        }
        // Polls read only the reviews of pull requests that have a job.
        if let HookContent::Comment { comment, .. } = &read.content
            && comment.review.is_some()
            && !about.is_change
            && event.event != POLLED
        {
            decision.next = ignored(Outcome::PartOfReview);
            return Ok(());
        }
        if let Some(next) = self.changed_review_request(event, read, &context).await? {
            decision.subject = Some(about.subject.clone());
            decision.next = next;
            return Ok(());
        }
        if !self.asks_for_job(event, read, &context, decision).await? {
            return Ok(());
        }
        decision.next = match asks_for_review(read, &context) {
            true => self.review_job(event, read, &context, about.number, decision).await?,
            false => self.pull_job(event, read, &context, about.number, decision).await?,
        };
        Ok(())
    }

    /// Returns whether an earlier version of an edited or deleted comment has become a message.
    async fn has_asked(&self, event: &InboxEvent, read: &HookEvent, project: &Project) -> Result<bool, Problem> {
        let Some((_, key)) = addressed(read).filter(|(about, _)| about.is_change) else { return Ok(false) };
        let known = self.known_about(&event.host, &project.id, key).await?;
        Ok(known.iter().any(|other| other.message.is_some()))
    }

    /// Carries out the edit or the deletion of a comment that has asked for a review: a request that still waits is
    /// withdrawn. Returns `None` if the event decides by itself what it asks for, as an edit then does.
    async fn changed_review_request(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        context: &Context,
    ) -> Result<Option<Next>, Problem> {
        let Some((about, key)) = addressed(read).filter(|(about, _)| about.is_change) else { return Ok(None) };
        let mut known = self.versions(&event.host, &context.project.id, read, &key).await?;
        known.retain(|other| other.number != event.number);
        let Some(message) = message_of(&known) else { return Ok(None) };
        if is_overtaken(read, &known) {
            return Ok(Some(overtaken()));
        }
        if !is_deleted(read)
            && let Some(refused) =
                self.refused_below(least_permission(read, context), read, about.author, context).await?
        {
            return Ok(Some(refused));
        }
        let Some(job) = known.iter().rev().find(|other| other.message == Some(message)).and_then(|other| other.job)
        else {
            return Ok(None);
        };
        match self.parts().engine.withdraw(&context.project.id, job, message).await {
            Ok(_) if is_deleted(read) => Ok(Some(done(Outcome::MessageWithdrawn))),
            Ok(_) => Ok(None),
            Err(UpdateError::Rejected(Rejected::AlreadyDelivered) | UpdateError::NotFound) => {
                Ok(Some(ignored(Outcome::TooLate)))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn pull_job(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        context: &Context,
        number: u64,
        decision: &mut Decision,
    ) -> Result<Next, Problem> {
        let told = |detail: String| ends(InboxState::Ignored, Outcome::NoJob, Some(detail));
        let later = || Next::Retries(self.parts().engine.now() + backoff(event.attempts, self.permille()));
        let existing = match self.usable_pull(context, number).await? {
            Ok(existing) => existing,
            Err(refusal) => return Ok(told(refusal.to_string())),
        };
        let Some((about, _)) = addressed(read) else { return Ok(ignored(Outcome::NoJob)) };
        if !self.store_subject(event, decision).await? {
            return Ok(ignored(Outcome::Duplicate));
        }
        let event = InboxEvent {
            project: Some(context.project.id.clone()),
            content: Some(Content::Read(Box::new(read.clone()))),
            ..event.clone()
        };
        let Some(batch) = self.batch(std::slice::from_ref(&event), None, context).await? else {
            let is_off = context.project.settings.comments.reviews == Reviews::Off;
            let detail = is_off.then(|| REVIEWS_OFF.to_owned());
            return Ok(ends(InboxState::Ignored, Outcome::NotAddressed, detail));
        };
        let title = existing.pull.title.as_ref().map(|title| title_of(&Shown::plain(title).text));
        let options = JobOptions { title, pull: Some(Box::new(existing)), ..JobOptions::default() };
        let new = NewJob { options, ..NewJob::new(self.to_prompt(&batch, None, context).await?) };
        let (fingerprint, digits) = digest(&event, &about.subject);
        Ok(match self.create_for(context, new, (format!("pull/{digits}"), fingerprint), decision).await? {
            Created::Job => done(Outcome::JobCreated),
            Created::Before => ignored(Outcome::Duplicate),
            Created::TooMany => too_many("comment again later"),
            Created::BranchTaken(branch, holder) => {
                let known = self.parts().store.indexed_pull(batch.repository.clone(), number).await?;
                match known {
                    // Another comment has just made the job, which gets this one as a message.
                    Some(known) if known.job == holder => later(),
                    _ => told(format!(
                        "the job {holder} works on the branch {branch:?}; send it a message, or archive it and comment again"
                    )),
                }
            }
        })
    }

    /// Makes a job that reviews a pull request. Each request makes another one.
    async fn review_job(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        context: &Context,
        number: u64,
        decision: &mut Decision,
    ) -> Result<Next, Problem> {
        let found = context.forge.pull(number).await?;
        let described = found.clone();
        let reviewed = match ReviewedPull::new(number, found, context.kind()) {
            Ok(reviewed) => reviewed,
            Err(refusal) => return Ok(ends(InboxState::Ignored, Outcome::NoJob, Some(refusal.to_string()))),
        };
        let (Some((about, _)), Some(described)) = (addressed(read), described) else {
            return Ok(ignored(Outcome::NoJob));
        };
        if !self.store_subject(event, decision).await? {
            return Ok(ignored(Outcome::Duplicate));
        }
        let HostUser { id, name, .. } = about.author.clone();
        let dialect = context.identity.dialect;
        let (comments, url, body) = match &read.content {
            HookContent::Comment { comment, .. } => {
                (vec![Part::of_comment(comment).source(dialect)], comment.url.clone(), comment.body.as_str())
            }
            HookContent::Review { review, .. } => (Vec::new(), review.url.clone(), review.body.as_str()),
            _ => return Ok(ignored(Outcome::NoJob)),
        };
        let words = Described { title: &described.title, body: &described.body, dialect };
        let text = review::prompt(&reviewed, words, (&name, body, &url), &self.boundary());
        let permission = self.permission(context, about.author).await?;
        let source = MessageSource {
            origin: Origin::Comment,
            newer: None,
            repository: indexed(&event.host, &context.repository().await?),
            number,
            id: comments.first().map(|comment| comment.id.clone()).unwrap_or_default(),
            url,
            author: Some(SourceAuthor { id, name: name.clone(), permission }),
            comments,
            inbox: vec![event.number],
            logs: Vec::new(),
            files: Vec::new(),
        };
        let prompt = Prompt {
            text: text.chars().take(MAX_PROMPT_CHARS).collect(),
            origin: Origin::Comment,
            author: Some(name),
            key: None,
            delivery: DeliveryMode::Queue,
            traceparent: None,
            source: Some(Box::new(source)),
        };
        let title = Some(title_of(&format!("Review #{number}: {}", Shown::plain(&described.title).text)));
        let options = JobOptions { title, review: Some(Box::new(reviewed)), ..JobOptions::default() };
        let new = NewJob { options, ..NewJob::new(prompt) };
        let (fingerprint, digits) = digest(event, &about.subject);
        Ok(match self.create_for(context, new, (format!("review/{digits}"), fingerprint), decision).await? {
            Created::Job => done(Outcome::JobCreated),
            Created::Before | Created::BranchTaken(..) => ignored(Outcome::Duplicate),
            Created::TooMany => too_many("comment again later"),
        })
    }

    /// Returns the pull request for a job, if one can work on it.
    async fn usable_pull(&self, context: &Context, number: u64) -> Result<Result<ExistingPull, NotUsable>, Problem> {
        let repository = context.forge.repository().await?;
        let found = context.forge.pull(number).await?;
        let of = (context.forge.host(), &repository);
        Ok(check(&PullName::from(number), found, of, None, &context.project))
    }
}
