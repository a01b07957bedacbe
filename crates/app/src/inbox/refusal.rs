//! Tells people at the code host why their comments led to nothing.

use journeyman_core::hook::{HookContent, HookEvent};
use journeyman_core::inbox::route::{Request, addressed};
use journeyman_core::inbox::{Decision, InboxEvent, Next, Outcome, refusal};
use journeyman_core::poll::POLLED;
use journeyman_core::ports::{CommentKind, CommentPlace, Reaction};
use journeyman_core::project::{Answers, Project};

use super::Problem;
use super::context::Context;
use super::decide::{is_deleted, is_temporary, place};
use crate::UseCases;

impl UseCases {
    /// Tells the author of an event why it led to nothing: by a reaction, and in the conversation, once for each person and
    /// kind of reason. Bots are not answered, so that two of them do not answer each other.
    pub(super) async fn tell_decision(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        decision: &Decision,
    ) -> Result<(), Problem> {
        let Next::Ends { outcome, detail, .. } = &decision.next else { return Ok(()) };
        let Some(project) = decision.project.clone().filter(|_| refusal::text(*outcome, None).is_some()) else {
            return Ok(());
        };
        let read = decision.event.as_deref().unwrap_or(read);
        let is_edit = addressed(read).is_some_and(|(about, _)| about.is_change);
        if is_edit && *outcome == Outcome::NotPermitted && event.event == POLLED {
            // A webhook about this version may say who has edited the comment.
            return Ok(());
        }
        if *outcome == Outcome::NoJob && !read.text().is_some_and(|text| text.contains('@')) {
            // Most comments on pull requests of others are not for the service, which then asks the host nothing.
            return Ok(());
        }
        let Some(project) = self.parts().store.project(project).await? else { return Ok(()) };
        match self.tell_about(read, *outcome, detail.as_deref(), project).await {
            // The event ends whether this can be said or not.
            Err(error) if *outcome == Outcome::NoJob => {
                tracing::debug!(error = %error.0, "it is not known whether a comment asks for work");
                Ok(())
            }
            told => told,
        }
    }

    async fn tell_about(
        &self,
        read: &HookEvent,
        outcome: Outcome,
        detail: Option<&str>,
        project: Project,
    ) -> Result<(), Problem> {
        let context = self.context(project).await?;
        let is_own = match &read.repository {
            Some(repository) => context.is_about(repository).await?,
            None => false,
        };
        if !is_own || outcome == Outcome::NoJob && !self.asks_without_job(read, &context).await? {
            return Ok(());
        }
        self.tell_refusal(read, outcome, detail, &context).await
    }

    /// Returns whether someone who may push has asked for work on a pull request that has no job.
    async fn asks_without_job(&self, read: &HookEvent, context: &Context) -> Result<bool, Problem> {
        let (Some(author), Some(body)) = (read.author(), read.text()) else { return Ok(false) };
        let is_of_pull = match &read.content {
            HookContent::Comment { comment, .. } => comment.kind != CommentKind::Issue,
            HookContent::Review { .. } => true,
            _ => false,
        };
        let is_mention = context.identity.comment_request(&context.project.settings.comments, body) == Request::Message;
        if !is_of_pull || !is_mention || is_deleted(read) || context.identity.ignores(author, body).is_some() {
            return Ok(false);
        }
        Ok(self.refused_event(read, author, context).await?.is_none())
    }

    /// Tells the authors of events that end together, as [`Self::tell_decision`] does.
    pub(super) async fn tell_all(
        &self,
        events: &[InboxEvent],
        outcome: Outcome,
        detail: Option<&str>,
        context: &Context,
    ) -> Result<(), Problem> {
        for read in events.iter().filter_map(InboxEvent::read) {
            self.tell_refusal(read, outcome, detail, context).await?;
        }
        Ok(())
    }

    async fn tell_refusal(
        &self,
        read: &HookEvent,
        outcome: Outcome,
        detail: Option<&str>,
        context: &Context,
    ) -> Result<(), Problem> {
        let (Some(discussion), Some(author)) = (context.discussion(), read.author()) else { return Ok(()) };
        let Some(text) = refusal::text(outcome, detail) else { return Ok(()) };
        if author.is_bot || context.identity.trusted_bots.contains(&author.id) {
            return Ok(());
        }
        if !is_deleted(read) {
            self.react(context, read, Reaction::Failed).await;
        }
        let place = match &read.content {
            HookContent::Issue { issue, .. } => Some(CommentPlace::Issue(issue.number)),
            _ => place(read),
        };
        let Some(place) = place.filter(|_| context.project.settings.comments.answers == Answers::Full) else {
            return Ok(());
        };
        match discussion.comment(place, &refusal::marker(outcome, author), &text).await {
            Ok(_) => Ok(()),
            Err(error) if is_temporary(&error) => Err(error.into()),
            Err(error) => {
                tracing::warn!(project = %context.project.id, %error, "a person could not be told why nothing was done");
                Ok(())
            }
        }
    }
}
