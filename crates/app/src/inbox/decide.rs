//! Decides what becomes of an event.

use std::time::Duration;

use journeyman_core::checks::WAKE_DELAY;
use journeyman_core::code_host::{PullRef, PullState};
use journeyman_core::conversation::{CommentRef, CommentTarget, Reaction};
use journeyman_core::engine::Control;
use journeyman_core::hook::{CommentAction, CommentKind, EventRepository, HookContent, HookEvent, HostComment};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::{JobId, ProjectId, Sha};
use journeyman_core::inbox::route::{Addressed, MARKER, Request, addressed, mentioned_request, request_of};
use journeyman_core::inbox::{Content, Decision, INBOX_LEASE, InboxEvent, InboxState, NewEvent, Next, Outcome, due_at};
use journeyman_core::job::Job;
use journeyman_core::poll::{POLLED, delivery};
use journeyman_core::ports::{ForgeError, UpdateError};
use journeyman_core::project::{Project, Reviews};
use journeyman_core::pull::compared::MovedBranch;
use journeyman_core::pull::{HostPull, IndexedPull, PullSummary};

use super::context::{Context, indexed};
use super::{Problem, ReadContent};
use crate::UseCases;

/// The answer to a request for help.
const HELP: &str = "Mention me in a comment, or submit a review, and I change this pull request. Several comments that \
                    arrive together become one task.\n\n- `@journeyman <what to do>`: send a task\n- `@journeyman review`: \
                    review a pull request that I do not work on\n- `@journeyman stop`: \
                    stop the current task, and withdraw those that wait\n- `@journeyman help`: show this text";

/// Why a review that mentions the service led to nothing, and the remedy.
pub(super) const REVIEWS_OFF: &str = "reviews and comments on lines are not read in this project (comments.reviews); mention me in a comment in the \
     conversation";

/// The number of branches of a push from which all pull requests of the repository are compared again.
const MOST_BRANCHES: usize = 10;

/// The delay until an event is tried again while another process makes a message of earlier ones.
pub(super) const BUSY_RETRY: Duration = Duration::from_secs(1);

/// Returns the name of the lock of the comments that wait for a job.
pub(super) fn batch_lock(job: JobId) -> String {
    format!("inbox/{job}")
}

/// Returns whether another attempt may succeed. A person may set another credential.
pub(super) const fn is_temporary(error: &ForgeError) -> bool {
    error.may_pass() || matches!(error, ForgeError::Credential(_))
}

pub(super) fn ends(state: InboxState, outcome: Outcome, detail: Option<String>) -> Next {
    Next::Ends { state, outcome, detail }
}

pub(super) fn ignored(outcome: Outcome) -> Next {
    ends(InboxState::Ignored, outcome, None)
}

pub(super) fn done(outcome: Outcome) -> Next {
    ends(InboxState::Done, outcome, None)
}

impl UseCases {
    /// Decides what becomes of an event with a content, and carries out what happens at once.
    pub(super) async fn decide(&self, event: &InboxEvent, content: &ReadContent) -> Result<Decision, Problem> {
        let mut decision = Decision {
            project: event.project.clone(),
            job: None,
            event: None,
            subject: None,
            next: ignored(Outcome::NotUsed),
        };
        let read = match content {
            Ok(read) => read,
            Err(detail) => {
                decision.next = ends(InboxState::Failed, Outcome::Unreadable, Some(detail.clone()));
                return Ok(decision);
            }
        };
        decision.event = Some(Box::new(read.clone()));
        match (&read.content, &read.repository) {
            (HookContent::Checks { sha, pull }, repository) => {
                let sha = self.checked_commit(event, repository.as_ref(), *pull).await?.unwrap_or_else(|| sha.clone());
                let mut woken = self.parts().store.wake_watches(sha, self.parts().engine.now() + WAKE_DELAY).await?;
                woken.retain(|(_, project)| may_concern(event, project));
                decision.next = if woken.is_empty() { ignored(Outcome::NoJob) } else { done(Outcome::ChecksQueued) };
                (decision.job, decision.project) = woken.into_iter().next().unzip();
            }
            (HookContent::Push { branches }, Some(repository)) => {
                let woken = self.wake_comparisons(event, repository, branches).await?;
                decision.next =
                    if woken.is_empty() { ignored(Outcome::NoJob) } else { done(Outcome::ComparisonQueued) };
                decision.project = woken.into_iter().next().or(decision.project);
                // Older versions cannot read it, and nothing needs it later.
                decision.event = None;
            }
            (HookContent::Access { added }, _) => decision.next = self.offered(event, added).await?,
            (HookContent::Pull { number, state, .. }, Some(repository)) => {
                if *state == PullState::Merged {
                    // Its base has moved, which may be that of others. Not all code hosts tell of pushes.
                    self.wake_comparisons(event, repository, &[]).await?;
                }
                self.record_pull(event, repository, *number, *state, &mut decision).await?;
            }
            (HookContent::Comment { .. } | HookContent::Review { .. }, Some(repository)) => {
                self.comment(event, read, repository, &mut decision).await?;
                let is_refused = matches!(decision.next, Next::Ends { outcome: Outcome::NotPermitted, .. });
                if let Some(subject) = decision.subject.as_mut().filter(|_| is_refused && event.event == POLLED) {
                    // A webhook about this version may say who has edited the comment, so it is no duplicate.
                    subject.push_str(&format!("/{POLLED}"));
                }
            }
            (HookContent::Issue { issue, .. }, Some(repository)) => {
                self.issue(event, read, repository, issue, &mut decision).await?;
            }
            _ => {}
        }
        self.tell_decision(event, read, &decision).await?;
        Ok(decision)
    }

    /// Reads the content of an event.
    pub(super) async fn read(&self, event: &InboxEvent) -> Result<ReadContent, Problem> {
        Ok(match &event.content {
            Some(Content::Read(read)) => Ok((**read).clone()),
            Some(Content::Raw(body)) => {
                let Some(id) = &event.code_host else { return Ok(Err("the event has no code host".to_owned())) };
                match self.parts().hooks.host(id, event.project.as_ref()).await? {
                    Some(host) => self.parts().hooks.read(&host, &event.event, body).map(HookEvent::bounded),
                    None => Err(format!("the code host {id} was removed")),
                }
            }
            None => Err("the body was removed".to_owned()),
        })
    }

    /// Returns the newest commit of the pull request whose checks have changed. The checks may run on another commit: the
    /// merge of the newest one into the target branch.
    async fn checked_commit(
        &self,
        event: &InboxEvent,
        repository: Option<&EventRepository>,
        pull: Option<u64>,
    ) -> Result<Option<Sha>, Problem> {
        let (Some(repository), Some(pull)) = (repository, pull) else { return Ok(None) };
        let known = self.parts().store.indexed_pull(indexed(&event.host, repository), pull).await?;
        Ok(known.and_then(|known| known.head_sha))
    }

    /// Makes the comparisons of pull requests due at once that a push to these branches concerns, or to any branch if
    /// there are none. Returns the projects.
    async fn wake_comparisons(
        &self,
        event: &InboxEvent,
        repository: &EventRepository,
        branches: &[String],
    ) -> Result<Vec<ProjectId>, Problem> {
        let repository = indexed(&event.host, repository);
        let moved = |branch| MovedBranch { repository: repository.clone(), branch, project: event.project.clone() };
        let each: Vec<MovedBranch> = match branches.len() {
            1..=MOST_BRANCHES => branches.iter().cloned().map(Some).map(moved).collect(),
            _ => vec![moved(None)],
        };
        let mut woken = Vec::new();
        for moved in each {
            woken.extend(self.parts().store.wake_comparisons(moved).await?);
        }
        Ok(woken)
    }

    /// Reports repositories to which the service was given access, but which no project has.
    async fn offered(&self, event: &InboxEvent, added: &[EventRepository]) -> Result<Next, Problem> {
        let mut unknown = Vec::new();
        for repository in added {
            if self.project_of(event, repository).await?.is_none() {
                unknown.push(repository.path.as_str());
            }
        }
        if unknown.is_empty() {
            return Ok(ignored(Outcome::NotUsed));
        }
        Ok(ends(InboxState::Ignored, Outcome::NoProject, Some(unknown.join(", "))))
    }

    async fn record_pull(
        &self,
        event: &InboxEvent,
        repository: &EventRepository,
        number: u64,
        state: PullState,
        decision: &mut Decision,
    ) -> Result<(), Problem> {
        let repository = indexed(&event.host, repository);
        let known = self.parts().store.indexed_pull(repository.clone(), number).await?;
        let Some(known) = known.filter(|known| may_concern(event, &known.project)) else {
            decision.next = ignored(Outcome::NoJob);
            return Ok(());
        };
        (decision.project, decision.job) = (Some(known.project.clone()), Some(known.job));
        let project = self.parts().store.project(known.project.clone()).await?;
        let Some((state, summary)) = self.current_state(&known, project.as_ref(), state).await? else {
            decision.next = ignored(Outcome::Duplicate);
            return Ok(());
        };
        let archives = project.is_some_and(|project| project.settings.pull_request.archive_on_merge);
        let (engine, pull) = (&self.parts().engine, PullRef { repository, number });
        match engine.record_pull(&known.project, known.job, pull, state, archives, summary).await {
            Ok(_) => decision.next = done(Outcome::PullRecorded),
            Err(UpdateError::NotFound) => decision.next = ignored(Outcome::NoJob),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the state of a pull request after an event with this state, and what the host says about it if it was
    /// asked; `None` if the event arrived late, because the pull request was merged before. Events arrive in any order, so
    /// only a merge, which is final, is taken from an event without a look at the host.
    async fn current_state(
        &self,
        known: &IndexedPull,
        project: Option<&Project>,
        state: PullState,
    ) -> Result<Option<(PullState, Option<PullSummary>)>, Problem> {
        if state == PullState::Merged || state == PullState::Closed && known.state == state {
            return Ok(Some((state, None)));
        }
        if known.state == PullState::Merged {
            return Ok(None);
        }
        let Some(project) = project else { return Ok(Some((state, None))) };
        let found = async {
            let forge = self.parts().forges.of(project).await?;
            // The project may have another repository now, whose pull request with this number is another one.
            match forge.repository().await? {
                now if now.id == known.repository.id => forge.pull(known.number).await,
                _ => Ok(None),
            }
        };
        let found = match found.await {
            // Only the title may have changed. The next event or turn brings it too, so this one does not wait.
            Err(_) if state == known.state => None,
            found => found?,
        };
        let summary = |pull: HostPull| (pull.state, Some(PullSummary { title: pull.title, draft: pull.draft }));
        Ok(Some(found.map_or((state, None), summary)))
    }

    /// Returns the job of the pull request or issue that a comment is on.
    async fn job_of(
        &self,
        event: &InboxEvent,
        repository: &EventRepository,
        read: &HookEvent,
    ) -> Result<Option<Job>, Problem> {
        let (store, repository) = (&self.parts().store, indexed(&event.host, repository));
        let id = match &read.content {
            HookContent::Comment { number, comment, .. } if comment.kind == CommentKind::Issue => {
                store.job_of_issue(repository, *number).await?
            }
            HookContent::Comment { number, .. } | HookContent::Review { number, .. } => {
                store.indexed_pull(repository, *number).await?.map(|pull| pull.job)
            }
            _ => None,
        };
        let Some(id) = id else { return Ok(None) };
        Ok(store.job(id).await?.filter(|job| may_concern(event, &job.project)))
    }

    async fn comment(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        repository: &EventRepository,
        decision: &mut Decision,
    ) -> Result<(), Problem> {
        let Some(author) = read.author() else { return Ok(()) };
        let Some(job) = self.job_of(event, repository, read).await? else {
            let Some(project) = self.project_of(event, repository).await? else {
                decision.next = ends(InboxState::Ignored, Outcome::NoProject, Some(repository.path.clone()));
                return Ok(());
            };
            decision.project = Some(project.id.clone());
            decision.next = ignored(Outcome::NoJob);
            return match is_of_issue(read) {
                true => self.issue_comment(event, read, repository, project, decision).await,
                false => self.pull_comment(event, read, repository, project, decision).await,
            };
        };
        (decision.project, decision.job) = (Some(job.project.clone()), Some(job.id));
        let Some(project) = self.parts().store.project(job.project.clone()).await? else {
            decision.next = ignored(Outcome::NoProject);
            return Ok(());
        };
        let context = self.context(project).await?;
        if !context.is_about(repository).await? {
            decision.next = ends(InboxState::Ignored, Outcome::NoProject, Some(repository.path.clone()));
            return Ok(());
        }
        let body = match &read.content {
            HookContent::Comment { comment, .. } => &comment.body,
            HookContent::Review { review, .. } => &review.body,
            _ => return Ok(()),
        };
        if let Some(outcome) = context.identity.ignores(author, body) {
            decision.next = ignored(outcome);
            return Ok(());
        }
        let resolved = self.resolved(event, read, &context).await?;
        let read = resolved.as_ref().unwrap_or(read);
        let Some((about, key)) = addressed(read) else { return Ok(()) };
        if let Some(resolved) = &resolved {
            decision.event = Some(Box::new(resolved.clone()));
        }
        if let HookContent::Comment { comment, .. } = &read.content
            && comment.review.is_some()
            && !about.is_change
        {
            decision.next = ignored(Outcome::PartOfReview);
            return Ok(());
        }
        decision.subject = Some(about.subject.clone());
        let mut known = self.versions(&event.host, &job.project, read, &key).await?;
        known.retain(|other| other.number != event.number);
        decision.next = match self.follow(event, read, &about, &known, &job, &context).await? {
            Some(next) => next,
            None => self.request(event, read, &about, &job, &context).await?,
        };
        Ok(())
    }

    /// Returns an event with what its webhook does not say: the review that was submitted, the review whose comment was
    /// edited, or the lines of a reply. Returns `None` if nothing is missing, or the host does not show it.
    pub(super) async fn resolved(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        context: &Context,
    ) -> Result<Option<HookEvent>, Problem> {
        match &read.content {
            HookContent::Review { .. } => self.resolved_review(event, read, context).await,
            // On some hosts, a reply does not say on which lines its thread is, and without them it is no review.
            HookContent::Comment { number, action, comment }
                if !context.identity.has_reviews && comment.position.is_none() && is_reply(comment) =>
            {
                let (number, action) = (*number, *action);
                let comment = self.complete_comment(number, comment, context).await?;
                let content = HookContent::Comment { number, action, comment };
                Ok(Some(HookEvent { content, ..read.clone() }))
            }
            HookContent::Comment { number, action: CommentAction::Edited, comment } if event.event != POLLED => {
                let Some((_, key)) = addressed(read) else { return Ok(None) };
                // Only the comments of a review are not reported when they are written.
                if !self.known_about(&event.host, &context.project.id, key).await?.is_empty() {
                    return Ok(None);
                }
                let (number, action) = (*number, CommentAction::Edited);
                let comment = self.complete_comment(number, comment, context).await?;
                let content = HookContent::Comment { number, action, comment };
                Ok(Some(HookEvent { content, ..read.clone() }))
            }
            _ => Ok(None),
        }
    }

    /// Finds the review of an event that does not say which review was submitted, so that a poll finds the same one. If
    /// the event can be about several reviews, the others are stored as a poll stores them.
    async fn resolved_review(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        context: &Context,
    ) -> Result<Option<HookEvent>, Problem> {
        let HookContent::Review { number, action, review } = &read.content else { return Ok(None) };
        let (Some(discussion), true) = (context.discussion(), review.id.is_empty()) else { return Ok(None) };
        let (number, action) = (*number, *action);
        let found = discussion.find_reviews(number, review).await?;
        let of_review = |review| HookEvent { content: HookContent::Review { number, action, review }, ..read.clone() };
        let mut events: Vec<HookEvent> = found.into_iter().map(of_review).collect();
        let newest = events.pop();
        for other in events {
            let Some(delivery) = delivery(&other) else { continue };
            let new = NewEvent {
                host: event.host.clone(),
                code_host: event.code_host.clone(),
                project: Some(context.project.id.clone()),
                delivery,
                event: POLLED.to_owned(),
                content: Content::Read(Box::new(other)),
                at: self.parts().engine.now(),
            };
            self.parts().store.receive(new).await?;
        }
        Ok(newest)
    }

    /// Carries out what a comment or review asks for. A task waits for other comments.
    async fn request(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        about: &Addressed<'_>,
        job: &Job,
        context: &Context,
    ) -> Result<Next, Problem> {
        let lines = match &read.content {
            HookContent::Review { number, review, .. } if !is_deleted(read) => {
                self.lines(*number, review, context).await?
            }
            _ => Vec::new(),
        };
        let settings = &context.project.settings.comments;
        let request = request_of(&context.identity, settings, read, &lines);
        if request == Request::None || is_deleted(read) {
            let is_refused = !is_deleted(read) && settings.reviews == Reviews::Off;
            let is_refused =
                is_refused && mentioned_request(&context.identity, settings, read, &lines) != Request::None;
            return Ok(ends(InboxState::Ignored, Outcome::NotAddressed, is_refused.then(|| REVIEWS_OFF.to_owned())));
        }
        if let Some(refused) = self.refused_event(read, about.author, context).await? {
            return Ok(refused);
        }
        match request {
            Request::Stop => self.stop(event, read, &about.subject, job, context).await,
            Request::Help => self.help(event, read, &about.subject, context).await,
            Request::Message | Request::None => self.waits(event, about.is_review, job, context).await,
        }
    }

    /// Answers with the list of commands.
    pub(super) async fn help(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        subject: &str,
        context: &Context,
    ) -> Result<Next, Problem> {
        if let (Some(discussion), Some(target)) = (context.discussion(), comment_target(read)) {
            let marker = format!("{MARKER}help:{} -->", digest(event, subject).1);
            discussion.comment(target, &marker, HELP).await?;
        }
        Ok(done(Outcome::Helped))
    }

    /// Cancels the job, and drops the comments that wait. The same comment cancels only once, however often it arrives.
    async fn stop(
        &self,
        event: &InboxEvent,
        read: &HookEvent,
        subject: &str,
        job: &Job,
        context: &Context,
    ) -> Result<Next, Problem> {
        let (fingerprint, digits) = digest(event, subject);
        let (project, key) = (Some(job.project.clone()), format!("stop/{digits}"));
        // Another process may be making a message of the comments that wait.
        let (store, now) = (&self.parts().store, self.parts().engine.now());
        let (name, holder) = (batch_lock(job.id), self.parts().ids.uuid(now));
        if !store.lock(name.clone(), holder, now, INBOX_LEASE).await? {
            return Ok(Next::Retries(now + BUSY_RETRY));
        }
        let claim = Claim { project, caller: "inbox".to_owned(), key, fingerprint };
        self.parts().engine.control(&job.project, job.id, Control::Cancel, Some(claim)).await?;
        let waiting = self.parts().store.waiting_events(job.id).await?;
        let before = waiting.iter().map(|event| event.number).filter(|number| *number < event.number).collect();
        let detail = Some("a later comment asked to stop".to_owned());
        self.parts().store.end_events(before, InboxState::Ignored, Outcome::Cancelled, detail).await?;
        store.unlock(name, holder).await?;
        self.react(context, read, Reaction::Done).await;
        Ok(done(Outcome::Cancelled))
    }

    /// Lets an event wait for others of its job.
    pub(super) async fn waits(
        &self,
        event: &InboxEvent,
        is_review: bool,
        job: &Job,
        context: &Context,
    ) -> Result<Next, Problem> {
        let waiting = self.parts().store.waiting_events(job.id).await?;
        let first = waiting.first().map_or(event.received_at, |first| first.received_at);
        Ok(Next::Waits(due_at(first, self.parts().engine.now(), is_review, context.settle())))
    }

    pub(super) async fn react(&self, context: &Context, read: &HookEvent, reaction: Reaction) {
        let (Some(discussion), HookContent::Comment { number, comment, .. }) = (context.discussion(), &read.content)
        else {
            return;
        };
        let comment = CommentRef { kind: comment.kind, number: *number, id: comment.id.clone() };
        if let Err(error) = discussion.react(&comment, reaction).await {
            tracing::warn!(project = %context.project.id, %error, "the reaction to a comment could not be set");
        }
    }

    /// Returns a random text that no comment can contain.
    pub(crate) fn boundary(&self) -> String {
        let mut bytes = [0; 9];
        self.parts().ids.fill(&mut bytes);
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("data-{digits}")
    }
}

/// Returns the hash of a comment in its version, and its digits.
pub(super) fn digest(event: &InboxEvent, subject: &str) -> (Fingerprint, String) {
    let fingerprint = Fingerprint::of("comment", format!("{}/{subject}", event.host).as_bytes());
    let digits = fingerprint.0.iter().map(|byte| format!("{byte:02x}")).collect();
    (fingerprint, digits)
}

/// Returns whether a comment answers another one.
fn is_reply(comment: &HostComment) -> bool {
    comment.thread.as_ref().is_some_and(|thread| thread.parent.is_some())
}

/// Returns whether a comment or review was deleted.
pub(super) fn is_deleted(read: &HookEvent) -> bool {
    matches!(
        &read.content,
        HookContent::Comment { action: CommentAction::Deleted, .. }
            | HookContent::Review { action: CommentAction::Deleted, .. }
    )
}

/// Returns whether an event is a comment on an issue.
pub(super) fn is_of_issue(read: &HookEvent) -> bool {
    matches!(&read.content, HookContent::Comment { comment, .. } if comment.kind == CommentKind::Issue)
}

/// Returns the conversation that a comment is part of.
pub(super) fn comment_target(read: &HookEvent) -> Option<CommentTarget> {
    match &read.content {
        HookContent::Comment { number, .. } if is_of_issue(read) => Some(CommentTarget::Issue(*number)),
        HookContent::Comment { number, .. } | HookContent::Review { number, .. } => Some(CommentTarget::Pull(*number)),
        _ => None,
    }
}

/// Returns whether an event may concern a project. The sender of a webhook with the secret of a project knows no secret
/// of other projects.
fn may_concern(event: &InboxEvent, project: &ProjectId) -> bool {
    event.project.as_ref().is_none_or(|own| own == project)
}
