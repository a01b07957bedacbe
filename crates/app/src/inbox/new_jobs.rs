//! Makes jobs of comments: what the comments on issues and on pull requests without a job have in common.

use journeyman_core::conversation::Permission;
use journeyman_core::engine::{Admission, NewJob};
use journeyman_core::hook::{HookContent, HookEvent};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::JobId;
use journeyman_core::inbox::route::{Request, addressed, mentioned_request};
use journeyman_core::inbox::{Decision, INBOX_LEASE, InboxEvent, InboxState, Next, Outcome};
use journeyman_core::ports::{Decided, UpdateError};
use journeyman_core::project::ReviewRequests;

use super::Problem;
use super::context::Context;
use super::decide::{BUSY_RETRY, ends, ignored, is_deleted, is_of_issue};
use super::versions::{is_overtaken, overtaken};
use crate::UseCases;

/// The result of an attempt to make a job.
pub(super) enum Created {
    /// The job was created.
    Job,
    /// The claim was used before.
    Before,
    /// The project may create no more jobs in this hour.
    TooMany,
    /// Another job works on the branch.
    BranchTaken(String, JobId),
}

/// Returns whether a comment or review on a pull request asks for a review, which the project offers.
pub(super) fn asks_for_review(read: &HookEvent, context: &Context) -> bool {
    let settings = &context.project.settings.comments;
    let is_of_pull = !is_of_issue(read) && settings.review_requests != ReviewRequests::Off;
    is_of_pull && read.text().is_some_and(|text| context.identity.asks_for_review(settings, text))
}

/// Returns the permission that the author of a comment or review needs.
pub(super) fn least_permission(read: &HookEvent, context: &Context) -> Permission {
    match context.project.settings.comments.review_requests {
        ReviewRequests::Read if asks_for_review(read, context) => Permission::Read,
        _ => Permission::Write,
    }
}

/// Returns the end of an event if the project may create no more jobs in this hour.
pub(super) fn too_many(remedy: &str) -> Next {
    let text = format!("the hourly limit of new jobs of the project is used up; {remedy}");
    ends(InboxState::Failed, Outcome::RateLimited, Some(text))
}

impl UseCases {
    /// Returns whether a comment or review asks for a job by a mention, and its author may. Otherwise, the decision says
    /// what becomes of it.
    pub(super) async fn asks_for_job(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        context: &Context,
        decision: &mut Decision,
    ) -> Result<bool, Problem> {
        let (Some(author), Some(body)) = (read.author(), read.text()) else { return Ok(false) };
        if let Some(outcome) = context.identity.ignores(author, body) {
            decision.next = ignored(outcome);
            return Ok(false);
        }
        let Some((about, key)) = addressed(read) else { return Ok(false) };
        decision.subject = Some(about.subject.clone());
        let mut known = self.versions(&event.host, &context.project.id, read, &key).await?;
        known.retain(|other| other.number != event.number);
        if is_overtaken(read, &known) {
            decision.next = overtaken();
            return Ok(false);
        }
        let lines = match &read.content {
            HookContent::Review { number, review, .. } if !is_deleted(read) => {
                self.lines(*number, review, context).await?
            }
            _ => Vec::new(),
        };
        let request = mentioned_request(&context.identity, &context.project.settings.comments, read, &lines);
        if is_deleted(read) || matches!(request, Request::None | Request::Stop) {
            // An earlier version may become a job now. Then this event changes its message.
            let is_open = known.iter().any(|other| other.state == InboxState::Received);
            decision.next = match is_open {
                true => Next::Retries(self.parts().engine.now() + BUSY_RETRY),
                false if is_of_issue(read) && !is_deleted(read) => ignored(Outcome::NotAddressed),
                false => ignored(Outcome::NoJob),
            };
            return Ok(false);
        }
        if let Some(refused) = self.refused_below(least_permission(read, context), read, author, context).await? {
            decision.next = refused;
            return Ok(false);
        }
        if request == Request::Help {
            decision.next = self.help(event, read, &about.subject, context).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Stores the project and the subject of an event before the event makes a job, because the transaction that creates
    /// the job ends the event. Later versions of the comment are compared with this one. Returns false if the event is a
    /// duplicate, or if another process decides about it now.
    pub(super) async fn store_subject(&self, event: &InboxEvent, decision: &Decision) -> Result<bool, Problem> {
        let next = Next::Retries(self.parts().engine.now() + INBOX_LEASE);
        let noted = Decision { next, ..decision.clone() };
        let decided = self.parts().store.decide_event(event.number, event.attempts, noted).await?;
        Ok(decided == Decided::Stored)
    }

    /// Creates a job once for each key.
    pub(super) async fn create_for(
        &self,
        context: &Context,
        new: NewJob,
        (key, fingerprint): (String, Fingerprint),
        decision: &mut Decision,
    ) -> Result<Created, Problem> {
        let project = &context.project;
        let claim = Claim { project: Some(project.id.clone()), caller: "inbox".to_owned(), key, fingerprint };
        let limit = project.settings.limits.create_per_hour.unwrap_or(self.parts().create_per_hour);
        let admission = Admission { idempotency: Some(claim), limit };
        match self.parts().engine.create_job(project, new, admission).await {
            Ok(accepted) => {
                decision.job = Some(accepted.record.id);
                // The transaction that created the job has ended the event. A replay is another event.
                Ok(if accepted.replayed { Created::Before } else { Created::Job })
            }
            Err(UpdateError::RateLimited(..)) => Ok(Created::TooMany),
            Err(UpdateError::BranchTaken(branch, holder)) => Ok(Created::BranchTaken(branch, holder)),
            Err(error) => Err(error.into()),
        }
    }
}
