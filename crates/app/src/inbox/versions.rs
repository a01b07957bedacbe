//! Decides about comments of which other versions have arrived, in any order.

use journeyman_core::code_host::HostName;
use journeyman_core::hook::{HookContent, HookEvent};
use journeyman_core::ids::{MessageId, ProjectId};
use journeyman_core::inbox::route::{Addressed, Request, addressed};
use journeyman_core::inbox::version::{is_newer, is_same};
use journeyman_core::inbox::{InboxEvent, InboxState, Next, Outcome};
use journeyman_core::job::Job;
use journeyman_core::poll::{POLLED, is_known};
use journeyman_core::ports::StoreError;

use super::Problem;
use super::context::Context;
use super::decide::{ends, ignored, is_deleted};
use crate::UseCases;

impl UseCases {
    /// Returns the events about a comment or review that were decided before, oldest first. The comments on lines of a
    /// review are known by the review too.
    pub(super) async fn versions(
        &self,
        host: &HostName,
        project: &ProjectId,
        read: &HookEvent,
        key: &str,
    ) -> Result<Vec<InboxEvent>, Problem> {
        let mut known = self.known_about(host, project, key.to_owned()).await?;
        if let HookContent::Comment { number, comment, .. } = &read.content
            && let Some(review) = &comment.review
        {
            known.extend(self.known_about(host, project, format!("review/{number}/{review}")).await?);
        }
        Ok(known)
    }

    /// Returns the events of a project about a comment or review, oldest first. The sender of a webhook of another
    /// project may name any comment of the host.
    pub(crate) async fn known_about(
        &self,
        host: &HostName,
        project: &ProjectId,
        key: String,
    ) -> Result<Vec<InboxEvent>, StoreError> {
        let mut known = self.parts().store.events_about(host.clone(), key).await?;
        known.retain(|event| event.project.as_ref() == Some(project));
        Ok(known)
    }

    /// Decides about a version of a comment if other versions have arrived before. Returns `None` if this version decides
    /// by itself what it asks for.
    pub(super) async fn follow(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        about: &Addressed<'_>,
        known: &[InboxEvent],
        job: &Job,
        context: &Context,
    ) -> Result<Option<Next>, Problem> {
        // A poll that was refused may not have known who edited the comment, which a webhook says.
        let is_refused = |other: &&InboxEvent| other.event == POLLED && other.outcome == Some(Outcome::NotPermitted);
        let is_it = |other: &HookEvent| is_same(&other.content, &read.content);
        let mut carried_out = known.iter().filter(|other| !is_refused(other)).filter_map(InboxEvent::read);
        if carried_out.any(is_it) || (event.event == POLLED && is_known(read, known)) {
            return Ok(Some(ignored(Outcome::Duplicate)));
        }
        let is_waiting = known.iter().any(|other| other.state == InboxState::Waiting);
        let message = message_of(known);
        if !is_waiting && message.is_none() {
            return Ok(is_settled(read, known).then(overtaken));
        }
        if let Some(message) = message.filter(|_| !is_waiting)
            && let Some(next) = ended(read, known, message, job)
        {
            return Ok(Some(next));
        }
        let settings = &context.project.settings.comments;
        if read.text().is_some_and(|text| context.identity.request(settings, text) == Request::Stop) {
            return Ok(None);
        }
        if !is_deleted(read)
            && let Some(refused) = self.refused_event(read, about.author, context).await?
        {
            return Ok(Some(refused));
        }
        // The batch takes the newest version of each comment. It also changes messages, one after the other.
        let is_complete = message.is_some() || (about.is_review && !about.is_change);
        Ok(Some(self.waits(event, is_complete, job, context).await?))
    }

    /// Applies a version of a comment to the message that contains another version.
    pub(super) async fn apply_version(
        &self,
        read: &HookEvent,
        known: &[InboxEvent],
        message: MessageId,
        job: &Job,
        context: &Context,
    ) -> Result<Next, Problem> {
        if let Some(next) = ended(read, known, message, job) {
            return Ok(next);
        }
        self.change_message(job, message, read, context).await
    }

    /// Returns the newest version of each comment and review of these events and of `change`, in the order of their
    /// arrival. Of two edits within one second, the one that arrived last counts.
    pub(super) async fn newest(
        &self,
        events: &[InboxEvent],
        change: Option<&HookEvent>,
    ) -> Result<Vec<HookEvent>, Problem> {
        let (mut found, mut keys) = (Vec::new(), Vec::new());
        for event in events {
            let Some(read) = event.read() else { continue };
            let Some((_, key)) = addressed(read).filter(|(_, key)| !keys.contains(key)) else { continue };
            let Some(project) = &event.project else { continue };
            let known = self.known_about(&event.host, project, key.clone()).await?;
            let counts = |other: &&InboxEvent| other.outcome != Some(Outcome::NotPermitted);
            let versions = known.iter().filter(counts).filter_map(InboxEvent::read);
            let changed = change.filter(|change| addressed(change).is_some_and(|(_, changed)| changed == key));
            let review = versions.clone().chain(changed).find_map(review_of);
            let newest = versions
                .chain(changed)
                .fold(read, |newest, other| if is_newer(&newest.content, &other.content) { newest } else { other });
            let mut newest = newest.clone();
            if let HookContent::Comment { comment, .. } = &mut newest.content {
                comment.review = review.map(str::to_owned);
            }
            found.push(newest);
            keys.push(key);
        }
        let is_new = |change: &&HookEvent| addressed(change).is_some_and(|(_, key)| !keys.contains(&key));
        found.extend(change.filter(is_new).cloned());
        Ok(found)
    }
}

/// Returns the review that a comment is part of. Not all webhooks about the comment say so.
fn review_of(event: &HookEvent) -> Option<&str> {
    match &event.content {
        HookContent::Comment { comment, .. } => comment.review.as_deref(),
        _ => None,
    }
}

/// Returns the end of a version that changes nothing: a later version has arrived, or the agent has the message.
fn ended(read: &HookEvent, known: &[InboxEvent], message: MessageId, job: &Job) -> Option<Next> {
    let is_later = |other: &HookEvent| is_newer(&other.content, &read.content);
    if known.iter().filter_map(InboxEvent::read).any(is_later) {
        return Some(overtaken());
    }
    (!job.queue.contains(&message)).then(|| ignored(Outcome::TooLate))
}

/// Returns the message that contains one of these versions, unless a version has withdrawn it. A later one may ask again.
pub(super) fn message_of(known: &[InboxEvent]) -> Option<MessageId> {
    let withdrawn = withdrawn_by(known);
    known.iter().rev().find_map(|event| event.message.filter(|_| withdrawn.is_none_or(|number| number < event.number)))
}

/// Returns the number of the last of these versions that has withdrawn a message.
pub(super) fn withdrawn_by(known: &[InboxEvent]) -> Option<u64> {
    let numbers =
        known.iter().filter(|event| event.outcome == Some(Outcome::MessageWithdrawn)).map(|event| event.number);
    numbers.max()
}

/// Returns whether a later version has decided already: it was deleted, or asked for something that was carried out.
fn is_settled(read: &HookEvent, known: &[InboxEvent]) -> bool {
    let settles = |other: &InboxEvent| {
        other.read().is_some_and(|later| {
            is_newer(&later.content, &read.content) && (is_deleted(later) || other.state == InboxState::Done)
        })
    };
    known.iter().any(settles)
}

/// Returns whether a later version of a comment is known, by someone who may push.
pub(super) fn is_overtaken(read: &HookEvent, known: &[InboxEvent]) -> bool {
    let counts = |other: &&InboxEvent| other.outcome != Some(Outcome::NotPermitted);
    let mut versions = known.iter().filter(counts).filter_map(InboxEvent::read);
    versions.any(|other| is_newer(&other.content, &read.content))
}

pub(super) fn overtaken() -> Next {
    let detail = Some("a later version of it arrived before".to_owned());
    ends(InboxState::Ignored, Outcome::Duplicate, detail)
}
