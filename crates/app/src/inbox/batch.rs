//! Makes one message of the events that wait for a job.

use std::time::Duration;

use journeyman_core::code_host::PullRepository;
use journeyman_core::conversation::{CommentTarget, LineComment, Permission};
use journeyman_core::engine::{Admission, Prompt};
use journeyman_core::hook::{CommentAction, CommentKind, HookContent, HookEvent, HostComment, HostReview, HostUser};
use journeyman_core::idempotency::Claim;
use journeyman_core::ids::{JobId, MessageId};
use journeyman_core::inbox::batch::{authors, key, origin, prompt};
use journeyman_core::inbox::form::{Form, WrittenPrompt};
use journeyman_core::inbox::part::Part;
use journeyman_core::inbox::route::{Request, Review, addressed};
use journeyman_core::inbox::text::Shown;
use journeyman_core::inbox::version::{compare_texts, has_same_text};
use journeyman_core::inbox::{INBOX_LEASE, INBOX_LIMIT, InboxEvent, InboxState, Next, Outcome};
use journeyman_core::job::Job;
use journeyman_core::job::decide::Rejected;
use journeyman_core::message::{DeliveryMode, Message, MessageSource, MessageText, Origin, SourceAuthor};
use journeyman_core::ports::{StoreError, UpdateError};
use journeyman_core::project::DEFAULT_AUTOMATIC_PER_DAY;
use journeyman_core::prompt::MAX_PROMPT_CHARS;

use super::Problem;
use super::context::{Context, indexed};
use super::decide::{batch_lock, comment_target, done, ignored};
use super::versions::{message_of, withdrawn_by};
use crate::UseCases;

/// The delay until another attempt, if the code host, the store or a limit prevents a message.
const RETRY: Duration = Duration::from_secs(30);

/// The explanation of an event that ends a loop.
const LOOP: &str = "the job has had too many messages of bots today (limits.automaticPerDay); a person may comment";

/// The comments of a batch.
pub(super) struct Batch {
    number: u64,
    target: CommentTarget,
    pub(super) repository: PullRepository,
    parts: Vec<Part>,
    author: Option<SourceAuthor>,
    /// `true` if bots wrote all comments.
    is_automatic: bool,
    /// The events of the comments.
    numbers: Vec<u64>,
    /// The events of comments that were deleted, or no longer ask for anything.
    empty: Vec<u64>,
}

/// The time over which automatic messages are counted.
const DAY: Duration = Duration::from_secs(24 * 3600);

impl UseCases {
    /// Makes one message of the waiting events of a job. Returns false if another process does so now.
    pub(super) async fn send_batch(&self, job: JobId) -> Result<bool, StoreError> {
        let (store, now) = (&self.parts().store, self.parts().engine.now());
        let (name, holder) = (batch_lock(job), self.parts().ids.uuid(now));
        if !store.lock(name.clone(), holder, now, INBOX_LEASE).await? {
            return Ok(false);
        }
        let sent = tokio::time::timeout(INBOX_LIMIT, self.try_send(job)).await;
        let sent = sent.unwrap_or_else(|_| Err(Problem::timeout()));
        if let Err(problem) = &sent {
            tracing::warn!(%job, error = %problem.0, "the comments for a job could not be sent; they will be retried");
            store.postpone_events(job, now + RETRY).await?;
        }
        store.unlock(name, holder).await?;
        Ok(true)
    }

    async fn try_send(&self, id: JobId) -> Result<(), Problem> {
        let store = &self.parts().store;
        let mut events = store.waiting_events(id).await?;
        // One message answers to one conversation. Events of others are still due, and become the next message.
        let first = events.first().and_then(InboxEvent::read).and_then(comment_target);
        events.retain(|event| event.read().and_then(comment_target) == first);
        let numbers = |events: &[InboxEvent]| events.iter().map(|event| event.number).collect();
        let job = store.job(id).await?;
        let project = match &job {
            Some(job) => store.project(job.project.clone()).await?,
            None => None,
        };
        let (Some(job), Some(project)) = (job, project) else {
            return Ok(store.end_events(numbers(&events), InboxState::Ignored, Outcome::NoJob, None).await?);
        };
        let context = self.context(project).await?;
        let (events, withdrawn) = self.without_changes(events, &job, &context).await?;
        if events.is_empty() {
            return Ok(());
        }
        let numbers = numbers(&events);
        let Some(batch) = self.batch(&events, None, &context).await? else {
            return Ok(store.end_events(numbers, InboxState::Ignored, Outcome::Empty, None).await?);
        };
        if batch.is_automatic && self.is_at_limit(&job, &context).await? {
            let detail = Some(LOOP.to_owned());
            return Ok(store.end_events(numbers, InboxState::Failed, Outcome::RateLimited, detail).await?);
        }
        let (key, fingerprint) = key(&batch.parts, withdrawn);
        let claim = Claim { project: Some(job.project.clone()), caller: "inbox".to_owned(), key, fingerprint };
        let prompt = self.to_prompt(&batch, Some((&job, None)), &context).await?;
        let limits = &context.project.settings.limits;
        let limit = limits.message_per_hour.unwrap_or(self.parts().message_per_hour);
        let admission = Admission { idempotency: Some(claim), limit };
        match self.parts().engine.add_message(&job.project, job.id, prompt, admission).await {
            // A replay has stored the message before, but the events only if they were the same.
            Ok(accepted) if accepted.replayed => {
                Ok(store.end_events(numbers, InboxState::Ignored, Outcome::Duplicate, None).await?)
            }
            Ok(_) if batch.empty.is_empty() => Ok(()),
            Ok(_) => Ok(store.end_events(batch.empty, InboxState::Ignored, Outcome::Empty, None).await?),
            Err(UpdateError::Rejected(Rejected::Archived)) => {
                let detail = Some("the job is archived; unarchive it, and comment again".to_owned());
                self.tell_all(&events, Outcome::JobArchived, detail.as_deref(), &context).await?;
                Ok(store.end_events(numbers, InboxState::Ignored, Outcome::JobArchived, detail).await?)
            }
            Err(UpdateError::NotFound) => {
                Ok(store.end_events(numbers, InboxState::Ignored, Outcome::NoJob, None).await?)
            }
            Err(error) => {
                if let UpdateError::RateLimited(_, state) = &error {
                    self.tell_waits(&events, state, &context).await?;
                }
                Err(error.into())
            }
        }
    }

    /// Returns whether the job has had as many automatic messages in a day as the project permits. Two services that
    /// answer each other would not stop otherwise.
    async fn is_at_limit(&self, job: &Job, context: &Context) -> Result<bool, Problem> {
        let limit = context.project.settings.limits.automatic_per_day.unwrap_or(DEFAULT_AUTOMATIC_PER_DAY);
        let now = self.parts().engine.now();
        let is_by_bot = |message: &Message| {
            let author = message.source.as_ref().and_then(|source| source.author.as_ref());
            author.is_some_and(|author| context.identity.trusted_bots.contains(&author.id))
        };
        let counts = |message: &&Message| {
            message.created_at + DAY > now && (message.origin.is_automatic() || is_by_bot(message))
        };
        let messages = self.parts().store.messages(job.id).await?;
        Ok(messages.iter().filter(counts).count() >= usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// Carries out the events about comments that another process has made a message of meanwhile. Returns the others,
    /// and the number of the last event that has withdrawn a message of their comments.
    async fn without_changes(
        &self,
        events: Vec<InboxEvent>,
        job: &Job,
        context: &Context,
    ) -> Result<(Vec<InboxEvent>, Option<u64>), Problem> {
        let (mut others, mut withdrawn) = (Vec::new(), None);
        for event in events {
            let mut message = None;
            if let Some(read) = event.read()
                && let Some((_, key)) = addressed(read)
            {
                let known = self.versions(&event.host, &job.project, read, &key).await?;
                message = message_of(&known);
                withdrawn = withdrawn.max(withdrawn_by(&known));
                if let Some(message) = message
                    && let Next::Ends { state, outcome, detail } =
                        self.apply_version(read, &known, message, job, context).await?
                {
                    self.tell_all(std::slice::from_ref(&event), outcome, detail.as_deref(), context).await?;
                    self.parts().store.end_events(vec![event.number], state, outcome, detail).await?;
                }
            }
            if message.is_none() {
                others.push(event);
            }
        }
        Ok((others, withdrawn))
    }

    /// Collects the newest version of each comment. `change` is another version of one of them, which is not stored yet.
    /// Returns `None` if nothing is left.
    pub(super) async fn batch(
        &self,
        events: &[InboxEvent],
        change: Option<&HookEvent>,
        context: &Context,
    ) -> Result<Option<Batch>, Problem> {
        let Some(host) = events.first().map(|event| event.host.clone()) else { return Ok(None) };
        let (mut parts, mut deleted, mut first) = (Vec::new(), Vec::new(), None);
        let settings = &context.project.settings.comments;
        let is_bot = |user: &HostUser| context.identity.trusted_bots.contains(&user.id);
        for HookEvent { repository, content, .. } in self.newest(events, change).await? {
            let number = match &content {
                HookContent::Comment { number, action: CommentAction::Deleted, comment } => {
                    deleted.push((comment.kind, comment.id.clone()));
                    *number
                }
                // It was edited, and no longer asks for anything. A comment of a review needs no mention.
                HookContent::Comment { number, comment, .. }
                    if comment.review.is_none()
                        && context.identity.pull_comment_request(settings, comment) != Request::Message =>
                {
                    deleted.push((comment.kind, comment.id.clone()));
                    *number
                }
                HookContent::Comment { number, comment, .. } => {
                    add(&mut parts, Part::of_comment(&self.complete_comment(*number, comment, context).await?));
                    *number
                }
                HookContent::Review { action: CommentAction::Deleted, .. } => continue,
                HookContent::Review { number, review, .. } => {
                    let found = self.submitted(*number, review, context).await?;
                    let lines = self.lines(*number, &found, context).await?;
                    if context.identity.review_request(settings, &Review::new(&found, &lines)) != Request::Message {
                        continue;
                    }
                    for part in Part::of_review(&found, lines) {
                        add(&mut parts, part);
                    }
                    *number
                }
                _ => continue,
            };
            first = first.or(repository.map(|repository| (number, repository)));
        }
        parts.retain(|part| !deleted.iter().any(|(kind, id)| (part.kind, &part.id) == (*kind, id)));
        parts.retain(|part| !Shown::markdown(&part.body, context.identity.dialect).text.trim().is_empty());
        // A person answers for a message, if there is one among the authors.
        let mut authors = parts.iter().map(|part| &part.author);
        let author = authors.clone().find(|author| !is_bot(author)).or_else(|| authors.next()).cloned();
        let (Some((number, repository)), Some(author)) = (first, author) else { return Ok(None) };
        let is_automatic = is_bot(&author);
        let permission = self.permission(context, &author).await?.max(Permission::Write);
        let author = Some(SourceAuthor { id: author.id, name: author.name, permission });
        let is_empty = |event: &&InboxEvent| match event.read().map(|read| &read.content) {
            Some(HookContent::Comment { comment, .. }) => deleted.contains(&(comment.kind, comment.id.clone())),
            _ => false,
        };
        self.add_threads(&mut parts, events, number, context).await?;
        let (empty, rest): (Vec<_>, Vec<_>) = events.iter().partition(is_empty);
        let numbers = |events: Vec<&InboxEvent>| events.into_iter().map(|event| event.number).collect();
        let (numbers, empty) = (numbers(rest), numbers(empty));
        let repository = indexed(&host, &repository);
        let target =
            events.first().and_then(InboxEvent::read).and_then(comment_target).unwrap_or(CommentTarget::Pull(number));
        Ok(Some(Batch { number, target, repository, parts, author, is_automatic, numbers, empty }))
    }

    /// Returns a comment on a pull request with its position and its thread, which not all webhooks have.
    pub(super) async fn complete_comment(
        &self,
        number: u64,
        comment: &HostComment,
        context: &Context,
    ) -> Result<HostComment, Problem> {
        let comment = comment.clone();
        match context.discussion() {
            Some(discussion) if comment.kind == CommentKind::Pull && comment.position.is_none() => {
                Ok(discussion.complete_comment(number, comment).await?)
            }
            _ => Ok(comment),
        }
    }

    /// Returns a review with its ID, if the host did not show it when the event was decided.
    async fn submitted(&self, number: u64, review: &HostReview, context: &Context) -> Result<HostReview, Problem> {
        let (Some(discussion), true) = (context.discussion(), review.id.is_empty()) else { return Ok(review.clone()) };
        let reviews = discussion.reviews(number).await?;
        let is_it = |one: &HostReview| one.author.id == review.author.id && one.body.trim() == review.body.trim();
        Ok(reviews.into_iter().rev().find(is_it).unwrap_or_else(|| review.clone()))
    }

    /// Reads the comments of a review on lines as they are now.
    pub(super) async fn lines(
        &self,
        number: u64,
        review: &HostReview,
        context: &Context,
    ) -> Result<Vec<LineComment>, Problem> {
        let (Some(discussion), false) = (context.discussion(), review.id.is_empty()) else { return Ok(Vec::new()) };
        let mut lines = discussion.review(number, &review.id).await?;
        if lines.iter().any(|line| line.is_edited) && self.editor_unknown(context).await?.is_some() {
            for line in lines.iter_mut().filter(|line| line.is_edited) {
                if self.is_line_known(number, review, line, context).await? {
                    continue;
                }
                line.body =
                    format!("(This comment was edited, and it is not known by whom, so it is left out: {})", line.url);
                // A webhook about the edit that is part of the message says who made it, and replaces this text.
                line.version.clear();
            }
        }
        Ok(lines)
    }

    /// Returns whether a webhook has reported the text of a comment on a line, by someone who may push.
    async fn is_line_known(
        &self,
        number: u64,
        review: &HostReview,
        line: &LineComment,
        context: &Context,
    ) -> Result<bool, Problem> {
        let comment = HostComment {
            kind: CommentKind::Line,
            id: line.id.clone(),
            version: line.version.clone(),
            url: line.url.clone(),
            author: review.author.clone(),
            body: line.body.clone(),
            position: None,
            hunk: None,
            thread: None,
            review: None,
        };
        let content = HookContent::Comment { number, action: CommentAction::Edited, comment };
        let event = HookEvent { repository: None, sender: None, content };
        let Some((_, key)) = addressed(&event) else { return Ok(false) };
        let known = self.known_about(&context.forge.host(), &context.project.id, key).await?;
        let counts = |other: &&InboxEvent| other.outcome != Some(Outcome::NotPermitted);
        let mut versions = known.iter().filter(counts).filter_map(InboxEvent::read);
        Ok(versions.any(|other| has_same_text(&other.content, &event.content)))
    }

    /// Returns the message of a batch, with what was said around its comments. `of` is its job, unless it is new, and the
    /// ID of the message that is being written again.
    pub(super) async fn to_prompt(
        &self,
        batch: &Batch,
        of: Option<(&Job, Option<MessageId>)>,
        context: &Context,
    ) -> Result<Prompt, Problem> {
        let dialect = context.identity.dialect;
        let around = self.around(batch.target, &batch.parts, of, &batch.repository, context).await?;
        let (boundary, pages) = (self.boundary(), context.pages().await?);
        let form = Form::new(dialect, &boundary, pages.as_ref());
        let WrittenPrompt { text, files } = prompt(batch.target, &batch.parts, &around, form);
        let url = batch.parts.first().map_or("", |part| part.url.as_str());
        let text = within(text, url);
        let origin = origin(&batch.parts);
        let source = batch.parts.first().map(|first| MessageSource {
            origin,
            newer: None,
            repository: batch.repository.clone(),
            number: batch.number,
            id: first.id.clone(),
            url: first.url.clone(),
            author: batch.author.clone(),
            comments: batch.parts.iter().map(|part| part.source(dialect)).collect(),
            inbox: batch.numbers.clone(),
            logs: Vec::new(),
            files,
        });
        Ok(Prompt {
            text,
            origin,
            author: Some(authors(&batch.parts)),
            key: None,
            delivery: DeliveryMode::Queue,
            traceparent: None,
            source: source.map(Box::new),
        })
    }

    /// Changes a queued message whose comment was edited, or withdraws it if nothing is left of it.
    pub(super) async fn change_message(
        &self,
        job: &Job,
        message: MessageId,
        read: &HookEvent,
        context: &Context,
    ) -> Result<Next, Problem> {
        let store = &self.parts().store;
        let too_late = || ignored(Outcome::TooLate);
        let Some(source) = store.message(message).await?.and_then(|message| message.source) else {
            return Ok(too_late());
        };
        let events = store.inbox_of_message(message).await?;
        let text = match self.batch(&events, Some(read), context).await? {
            Some(batch) if source.origin == Origin::Issue => self.issue_text(source, &batch.parts, context).await?,
            Some(batch) => {
                let batch = Batch { numbers: source.inbox, ..batch };
                let Prompt { text, author, source, .. } =
                    self.to_prompt(&batch, Some((job, Some(message))), context).await?;
                Some(MessageText { prompt: text, author, source })
            }
            None => None,
        };
        let changed = match text {
            Some(text) => {
                (self.parts().engine.change_message(&job.project, job.id, message, text).await, Outcome::MessageChanged)
            }
            None => (self.parts().engine.withdraw(&job.project, job.id, message).await, Outcome::MessageWithdrawn),
        };
        match changed {
            (Ok(_), outcome) => Ok(done(outcome)),
            (Err(UpdateError::Rejected(Rejected::AlreadyDelivered) | UpdateError::NotFound), _) => Ok(too_late()),
            (Err(error), _) => Err(error.into()),
        }
    }
}

/// Returns the text of a message within the limit of prompts. `url` is the page of its first comment.
pub(super) fn within(text: String, url: &str) -> String {
    let whole = Shown { text: text.replace('\0', ""), notes: Vec::new() };
    whole.within(MAX_PROMPT_CHARS, url).with_notes()
}

/// Adds a comment, unless a newer version of it is among the parts: a comment of a review may have its own event too.
fn add(parts: &mut Vec<Part>, part: Part) {
    match parts.iter_mut().find(|known| (known.kind, &known.id) == (part.kind, &part.id)) {
        Some(known) if compare_texts(&known.version, &part.version).is_le() => *known = part,
        Some(_) => {}
        None => parts.push(part),
    }
}
