//! Tells people at the code host why their comments led to nothing.

use journeyman_core::conversation::{CommentTarget, Reaction};
use journeyman_core::hook::{HookContent, HookEvent, HostUser};
use journeyman_core::inbox::route::addressed;
use journeyman_core::inbox::{Decision, InboxEvent, Next, Outcome, refusal};
use journeyman_core::poll::POLLED;
use journeyman_core::project::Answers;
use journeyman_core::rate::RateState;

use super::Problem;
use super::context::Context;
use super::decide::{comment_target, is_deleted, is_temporary};
use crate::UseCases;

impl UseCases {
    /// Tells the author of an event why it led to nothing: by a reaction, and in the conversation, once for each person and
    /// kind of reason.
    pub(super) async fn tell_decision(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        decision: &Decision,
    ) -> Result<(), Problem> {
        let Next::Ends { outcome, detail, .. } = &decision.next else { return Ok(()) };
        let Some(project) = decision.project.clone().filter(|_| refusal::text(*outcome, detail.as_deref()).is_some())
        else {
            return Ok(());
        };
        let read = decision.event.as_deref().unwrap_or(read);
        let is_edit = addressed(read).is_some_and(|(about, _)| about.is_change);
        if is_edit && *outcome == Outcome::NotPermitted && event.event == POLLED {
            // A webhook about this version may say who has edited the comment.
            return Ok(());
        }
        let Some(project) = self.parts().store.project(project).await? else { return Ok(()) };
        let context = self.context(project).await?;
        match &read.repository {
            Some(repository) if context.is_about(repository).await? => {
                self.tell_refusal(read, *outcome, detail.as_deref(), &context).await
            }
            _ => Ok(()),
        }
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
        let Some(author) = read.author().filter(|author| !is_bot(author, context)) else { return Ok(()) };
        let Some(text) = refusal::text(outcome, detail) else { return Ok(()) };
        if !is_deleted(read) {
            self.react(context, read, Reaction::Failed).await;
        }
        self.tell(read, &refusal::marker(&outcome.name(), author), &text, context).await
    }

    /// Tells the authors of events that their comments wait, because the messages of an hour are used up.
    pub(super) async fn tell_waits(
        &self,
        events: &[InboxEvent],
        state: &RateState,
        context: &Context,
    ) -> Result<(), Problem> {
        let text = refusal::waits(state);
        for read in events.iter().filter_map(InboxEvent::read) {
            if let Some(author) = read.author().filter(|author| !is_bot(author, context)) {
                self.tell(read, &refusal::marker("waits", author), &text, context).await?;
            }
        }
        Ok(())
    }

    /// Writes a comment into the conversation of an event, unless it is there, or the project wants no such comments.
    async fn tell(&self, read: &HookEvent, marker: &str, text: &str, context: &Context) -> Result<(), Problem> {
        let target = match &read.content {
            HookContent::Issue { issue, .. } => Some(CommentTarget::Issue(issue.number)),
            _ => comment_target(read),
        };
        let target = target.filter(|_| context.project.settings.comments.answers == Answers::Full);
        let (Some(discussion), Some(target)) = (context.discussion(), target) else { return Ok(()) };
        match discussion.comment(target, marker, text).await {
            Ok(_) => Ok(()),
            Err(error) if is_temporary(&error) => Err(error.into()),
            Err(error) => {
                tracing::warn!(project = %context.project.id, %error, "a person could not be told why nothing was done");
                Ok(())
            }
        }
    }
}

/// Returns whether a user is a bot. Bots are not answered, so that two of them do not answer each other.
fn is_bot(user: &HostUser, context: &Context) -> bool {
    user.is_bot || context.identity.trusted_bots.contains(&user.id)
}
