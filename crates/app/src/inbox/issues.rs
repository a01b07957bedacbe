//! Makes jobs of issues.

use journeyman_core::conversation::Permission;
use journeyman_core::engine::{NewJob, Prompt};
use journeyman_core::hook::{EventRepository, HookContent, HookEvent, HostIssue, HostUser, IssueAction};
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::inbox::form::{Form, WrittenPrompt};
use journeyman_core::inbox::issue::{issue_comment_prompt, issue_prompt};
use journeyman_core::inbox::part::Part;
use journeyman_core::inbox::route::is_for_new_job;
use journeyman_core::inbox::text::Shown;
use journeyman_core::inbox::{Decision, InboxEvent, InboxState, Next, Outcome};
use journeyman_core::job::JobOptions;
use journeyman_core::message::{DeliveryMode, MessageSource, MessageText, Origin, SourceAuthor};
use journeyman_core::project::Project;
use journeyman_core::retry::backoff;

use super::Problem;
use super::batch::within;
use super::context::{Context, indexed};
use super::decide::{done, ends, ignored, is_temporary};
use super::new_jobs::{Created, too_many};
use crate::UseCases;

/// Returns an issue without the label that makes it a job, which says nothing about it.
fn without_trigger(issue: &HostIssue, context: &Context) -> HostIssue {
    let mut issue = issue.clone();
    let trigger = context.project.settings.comments.issue_label();
    issue.labels.retain(|label| trigger.is_none_or(|trigger| !label.eq_ignore_ascii_case(trigger)));
    issue
}

impl UseCases {
    /// Decides about an issue: with the label, an assignment or a mention, it becomes a job.
    pub(super) async fn issue(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        repository: &EventRepository,
        issue: &HostIssue,
        decision: &mut Decision,
    ) -> Result<(), Problem> {
        let Some(project) = self.project_of(event, repository).await? else {
            decision.next = ends(InboxState::Ignored, Outcome::NoProject, Some(repository.path.clone()));
            return Ok(());
        };
        decision.project = Some(project.id.clone());
        let context = self.context(project).await?;
        if !is_for_new_job(&context.identity, &context.project.settings.comments, read) {
            decision.next = ignored(Outcome::NotAddressed);
            return Ok(());
        }
        let index = indexed(&event.host, repository);
        if let Some(job) = self.parts().store.job_of_issue(index.clone(), issue.number).await? {
            decision.job = Some(job);
            decision.next = ignored(Outcome::Duplicate);
            return Ok(());
        }
        let Some(requester) = self.requester(read, issue, &context).await? else {
            let detail = Some("the code host does not say who added the label or assigned the service".to_owned());
            decision.next = ends(InboxState::Ignored, Outcome::NotAddressed, detail);
            return Ok(());
        };
        if let Some(outcome) = context.identity.ignores(&requester, "") {
            decision.next = ignored(outcome);
            return Ok(());
        }
        if let Some(refused) = self.refused(&requester, &context).await? {
            decision.next = refused;
            return Ok(());
        }
        let permission = self.permission(&context, &requester).await?;
        let source = MessageSource {
            origin: Origin::Issue,
            newer: None,
            repository: index,
            number: issue.number,
            id: issue.number.to_string(),
            url: issue.url.clone(),
            author: Some(SourceAuthor { id: requester.id.clone(), name: requester.name.clone(), permission }),
            comments: Vec::new(),
            inbox: vec![event.number],
            logs: Vec::new(),
            files: Vec::new(),
        };
        let is_request = self.is_request(issue, &context).await?;
        let around = self.around_issue(issue, None, &context).await?;
        let (boundary, pages, issue) = (self.boundary(), context.pages().await?, &without_trigger(issue, &context));
        let form = Form::new(context.identity.dialect, &boundary, pages.as_ref());
        let WrittenPrompt { text, files } = issue_prompt(issue, is_request, &around, form);
        let source = MessageSource { files, ..source };
        if !self.store_subject(event, decision).await? {
            return Ok(());
        }
        decision.next = match self.create_from_issue(&context, issue, text, source, decision).await? {
            Created::Job => done(Outcome::JobCreated),
            Created::Before => ignored(Outcome::Duplicate),
            Created::TooMany => too_many("add the label again later"),
            Created::BranchTaken(..) => ignored(Outcome::Duplicate),
        };
        Ok(())
    }

    /// Decides about a comment on an issue that has no job: a mention makes a job of the issue.
    pub(super) async fn issue_comment(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        repository: &EventRepository,
        project: Project,
        decision: &mut Decision,
    ) -> Result<(), Problem> {
        let context = self.context(project).await?;
        let HookContent::Comment { number, comment, .. } = &read.content else { return Ok(()) };
        if !self.asks_for_job(event, read, &context, decision).await? {
            return Ok(());
        }
        let index = indexed(&event.host, repository);
        if let Some(job) = self.parts().store.job_of_issue(index.clone(), *number).await?
            && let Some(job) = self.parts().store.job(job).await?
            && job.project != context.project.id
        {
            // The webhook or poll is that of another project with this repository.
            return Ok(());
        }
        let issue = match context.discussion() {
            Some(discussion) => discussion.issue(*number).await?,
            None => None,
        };
        // It was deleted meanwhile, or the code host has no issues.
        let Some(issue) = issue else { return Ok(()) };
        let permission = self.permission(&context, &comment.author).await?;
        let part = Part::of_comment(comment);
        let author = SourceAuthor { id: comment.author.id.clone(), name: comment.author.name.clone(), permission };
        let source = MessageSource {
            origin: Origin::Issue,
            newer: None,
            repository: index,
            number: issue.number,
            id: issue.number.to_string(),
            url: issue.url.clone(),
            author: Some(author),
            comments: vec![part.source(context.identity.dialect)],
            inbox: vec![event.number],
            logs: Vec::new(),
            files: Vec::new(),
        };
        let is_request = self.is_request(&issue, &context).await?;
        let WrittenPrompt { text, files } = self.with_comment(&issue, &part, is_request, &context).await?;
        let source = MessageSource { files, ..source };
        if !self.store_subject(event, decision).await? {
            return Ok(());
        }
        decision.next = match self.create_from_issue(&context, &issue, text, source, decision).await? {
            Created::Job => done(Outcome::JobCreated),
            // Another event has just made a job of the issue, which gets the comment as a message.
            Created::Before => Next::Retries(self.parts().engine.now() + backoff(event.attempts, self.permille())),
            Created::TooMany => too_many("comment again later"),
            Created::BranchTaken(..) => ignored(Outcome::Duplicate),
        };
        Ok(())
    }

    /// Returns the text of a message that a comment on an issue has become, after an edit of the comment; `None` if the
    /// issue was deleted.
    pub(super) async fn issue_text(
        &self,
        source: MessageSource,
        parts: &[Part],
        context: &Context,
    ) -> Result<Option<MessageText>, Problem> {
        let (Some(discussion), Some(part)) = (context.discussion(), parts.first()) else { return Ok(None) };
        let Some(issue) = discussion.issue(source.number).await? else { return Ok(None) };
        let is_request = self.is_request(&issue, context).await?;
        let WrittenPrompt { text, files } = self.with_comment(&issue, part, is_request, context).await?;
        let prompt = within(text, &issue.url);
        let author = source.author.as_ref().map(|author| author.name.clone());
        let source = MessageSource { comments: vec![part.source(context.identity.dialect)], files, ..source };
        Ok(Some(MessageText { prompt, author, source: Some(Box::new(source)) }))
    }

    /// Returns the prompt for a comment that makes a job of an issue.
    async fn with_comment(
        &self,
        issue: &HostIssue,
        part: &Part,
        is_request: bool,
        context: &Context,
    ) -> Result<WrittenPrompt, Problem> {
        let around = self.around_issue(issue, Some(part), context).await?;
        let (boundary, pages) = (self.boundary(), context.pages().await?);
        let form = Form::new(context.identity.dialect, &boundary, pages.as_ref());
        Ok(issue_comment_prompt(&without_trigger(issue, context), part, is_request, &around, form))
    }

    /// Returns whether the text of an issue is a request: all people who have written or edited it may push. The text of
    /// others is data.
    pub(super) async fn is_request(&self, issue: &HostIssue, context: &Context) -> Result<bool, Problem> {
        if !self.is_trusted(&issue.author, context).await? {
            return Ok(false);
        }
        let Some(discussion) = context.discussion() else { return Ok(false) };
        let editors = match discussion.issue_editors(issue.number).await {
            Ok(editors) => editors,
            Err(error) if is_temporary(&error) => return Err(error.into()),
            Err(error) => {
                let (project, issue) = (&context.project.id, issue.number);
                tracing::warn!(%project, issue, %error, "the editors of an issue could not be read");
                None
            }
        };
        let Some(editors) = editors else { return Ok(false) };
        for editor in &editors {
            if !self.is_trusted(editor, context).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn is_trusted(&self, user: &HostUser, context: &Context) -> Result<bool, Problem> {
        let is_trusted_bot = context.identity.trusted_bots.contains(&user.id);
        Ok(is_trusted_bot || self.permission(context, user).await? >= Permission::Write)
    }

    /// Returns the person who asks for a job about an issue: the one who caused the event, unless the host does not say
    /// what was changed. Then someone else may have added the label before.
    async fn requester(
        &self,
        read: &HookEvent,
        issue: &HostIssue,
        context: &Context,
    ) -> Result<Option<HostUser>, Problem> {
        match (&read.content, context.discussion()) {
            (HookContent::Issue { action: IssueAction::Updated, .. }, Some(discussion)) => {
                let label = context.project.settings.comments.issue_label();
                Ok(discussion.issue_requester(issue.number, label).await?)
            }
            _ => Ok(Some(read.sender.clone().unwrap_or_else(|| issue.author.clone()))),
        }
    }

    async fn create_from_issue(
        &self,
        context: &Context,
        issue: &HostIssue,
        text: String,
        source: MessageSource,
        decision: &mut Decision,
    ) -> Result<Created, Problem> {
        let author = source.author.as_ref().map(|author| author.name.clone());
        let key = format!("issue/{}/{}/{}", source.repository.host, source.repository.id, issue.number);
        let fingerprint = Fingerprint::of("issue", key.as_bytes());
        let prompt = Prompt {
            text: within(text, &issue.url),
            origin: Origin::Issue,
            author,
            key: None,
            delivery: DeliveryMode::Queue,
            traceparent: None,
            source: Some(Box::new(source)),
        };
        let title = Some(journeyman_core::prompt::title_of(&Shown::plain(&issue.title).text));
        let options = JobOptions { title, ..JobOptions::default() };
        let new = NewJob { options, ..NewJob::new(prompt) };
        self.create_for(context, new, (key, fingerprint), decision).await
    }
}
