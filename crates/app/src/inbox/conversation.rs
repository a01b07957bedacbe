//! Reads what was said around the comments of a message: the description, the reviews and the other comments of a pull
//! request or an issue, and the issues that it links to.

use std::collections::BTreeSet;
use std::time::Duration;

use journeyman_core::code_host::PullRepository;
use journeyman_core::conversation::{CommentTarget, Conversation, Said};
use journeyman_core::hook::{CommentKind, HostIssue, HostUser};
use journeyman_core::ids::MessageId;
use journeyman_core::inbox::around::{self, Around, MOST_LINKED};
use journeyman_core::inbox::earlier::{Doubt, EarlierComment};
use journeyman_core::inbox::files::HostPages;
use journeyman_core::inbox::part::Part;
use journeyman_core::inbox::route::Request;
use journeyman_core::job::Job;
use journeyman_core::message::{Message, MessageSource, MessageStatus, Origin};
use journeyman_core::ports::ForgeError;
use journeyman_core::time::Timestamp;

use super::Problem;
use super::context::Context;
use super::decide::is_temporary;
use crate::UseCases;

/// The time before an earlier message that is read again. The clock of the host may differ, and it writes times in whole
/// seconds. A comment that comes twice does less harm than one that is missing.
const CLOCKS: Duration = Duration::from_secs(30);

/// The earlier messages of a job from a pull request or an issue.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The time of the newest one; `None` if there is none.
    since: Option<Timestamp>,
    /// The comments that they contain.
    known: BTreeSet<(u8, String)>,
}

impl Before {
    /// Reads the messages of a job. `changed` is a message that is being written again.
    fn of(
        messages: &[Message],
        changed: Option<MessageId>,
        repository: &PullRepository,
        target: CommentTarget,
    ) -> Self {
        let mut before = Self::default();
        for message in messages {
            let Some(source) = message.source.as_ref().filter(|source| source.repository.id == repository.id) else {
                continue;
            };
            if Some(message.id) == changed || message.status == MessageStatus::Withdrawn || !is_from(source, target) {
                continue;
            }
            before.since = before.since.max(Some(message.created_at));
            before.known.extend(source.comments.iter().map(|comment| key(comment.kind, &comment.id)));
        }
        before
    }
}

/// Returns whether a message came from the conversation of a pull request or an issue.
fn is_from(source: &MessageSource, target: CommentTarget) -> bool {
    let of_issue = |source: &MessageSource| source.comments.iter().any(|comment| comment.kind == CommentKind::Issue);
    match (source.newer.unwrap_or(source.origin), target) {
        (Origin::Issue, CommentTarget::Issue(number)) => source.number == number,
        (Origin::Comment | Origin::Review, CommentTarget::Issue(number)) => source.number == number && of_issue(source),
        (Origin::Comment | Origin::Review, CommentTarget::Pull(number)) => source.number == number && !of_issue(source),
        _ => false,
    }
}

/// Returns what identifies a comment. Hosts number the kinds of comments separately.
fn key(kind: CommentKind, id: &str) -> (u8, String) {
    let kind = match kind {
        CommentKind::Pull | CommentKind::Issue => 0,
        CommentKind::Line => 1,
        CommentKind::Review => 2,
    };
    (kind, id.to_owned())
}

impl UseCases {
    /// Returns what was said around the comments of a message. What the message, its threads or earlier messages of the job
    /// have is left out, and what the service has written. If the code host refuses to show the conversation, the message
    /// says so.
    pub(super) async fn around(
        &self,
        target: CommentTarget,
        parts: &[Part],
        job: Option<(&Job, Option<MessageId>)>,
        repository: &PullRepository,
        context: &Context,
    ) -> Result<Around, Problem> {
        let Some(discussion) = context.discussion() else { return Ok(Around::default()) };
        let before = match job {
            Some((job, changed)) => {
                Before::of(&self.parts().store.messages(job.id).await?, changed, repository, target)
            }
            None => Before::default(),
        };
        let url = parts.first().map(|part| part.url.clone()).unwrap_or_default();
        let around = Around { url, is_continued: before.since.is_some(), ..Around::default() };
        let since = before.since.map(|since| since - CLOCKS);
        let mut read = match discussion.conversation(target, since).await {
            Ok(read) => read,
            Err(error) => return self.unread(error, around, context),
        };
        let in_threads: BTreeSet<&str> =
            parts.iter().flat_map(|part| &part.earlier.comments).map(|comment| comment.id.as_str()).collect();
        let of_message: BTreeSet<_> = parts.iter().map(|part| key(part.kind, &part.id)).collect();
        // A later comment that asks for something becomes a message of its own.
        let is_of_message = |said: &Said| of_message.contains(&key(said.comment.kind, &said.comment.id));
        let first = read.comments.iter().filter(|said| is_of_message(said)).filter_map(|said| said.at).min();
        let asks = |said: &Said| {
            let settings = &context.project.settings.comments;
            context.identity.pull_comment_request(settings, &said.comment) == Request::Message
        };
        let is_later = |said: &Said| said.at.is_none_or(|at| first.is_none_or(|first| at >= first));
        read.comments.retain(|said| !(is_later(said) && asks(said)));
        let is_new = |kind: CommentKind, id: &str| {
            let key = key(kind, id);
            !of_message.contains(&key) && !before.known.contains(&key) && !in_threads.contains(id)
        };
        self.collect(read, around, is_new, context).await
    }

    /// Turns a conversation into the part of a message. `is_new` says which comments the agent does not have.
    async fn collect(
        &self,
        mut read: Conversation,
        mut around: Around,
        is_new: impl Fn(CommentKind, &str) -> bool + Send,
        context: &Context,
    ) -> Result<Around, Problem> {
        read.comments.retain(|said| is_new(said.comment.kind, &said.comment.id));
        // Only the first message from a page has the description.
        let subject = read.subject.filter(|_| !around.is_continued);
        // Hosts do not tell who has edited a description.
        let is_edited = subject.is_some() || read.comments.iter().any(|said| said.is_edited);
        let authors = subject.iter().map(|subject| &subject.author);
        let authors = authors.chain(read.comments.iter().rev().map(|said| &said.comment.author));
        let doubts = self.doubts(authors, is_edited, context).await?;
        // What the service has written into the description, the agent has written or read before.
        let subject = subject.filter(|subject| !doubts.is_service(&subject.author));
        if let Some(subject) = &subject {
            around.url.clone_from(&subject.url);
            around.description = around::described(subject, doubts.of(&subject.author, true));
        }
        let all = read.comments.len();
        read.comments.retain(|said| !doubts.is_service(&said.comment.author));
        around.own = all - read.comments.len();
        around.comments = read
            .comments
            .iter()
            .map(|said| around::said(said, doubts.of(&said.comment.author, said.is_edited)))
            .collect();
        around.is_incomplete = read.is_incomplete;
        Ok(around)
    }

    /// Returns the part of a message that says that the conversation could not be read. A failure that may pass is an error.
    fn unread(&self, error: ForgeError, around: Around, context: &Context) -> Result<Around, Problem> {
        if is_temporary(&error) {
            return Err(error.into());
        }
        tracing::warn!(project = %context.project.id, %error, "the conversation around comments could not be read");
        Ok(Around { problem: Some(error.to_string()), ..around })
    }

    /// Returns what was said around an issue that becomes a job: its comments, and the issues that it links to. `part` is the
    /// comment that asks for the job, if there is one.
    pub(super) async fn around_issue(
        &self,
        issue: &HostIssue,
        part: Option<&Part>,
        context: &Context,
    ) -> Result<Around, Problem> {
        let Some(discussion) = context.discussion() else { return Ok(Around::default()) };
        let around = Around { url: issue.url.clone(), ..Around::default() };
        let read = match discussion.conversation(CommentTarget::Issue(issue.number), None).await {
            Ok(read) => read,
            Err(error) => return self.unread(error, around, context),
        };
        let is_new = |kind: CommentKind, id: &str| part.is_none_or(|part| key(part.kind, &part.id) != key(kind, id));
        let mut around = self.collect(read, around, is_new, context).await?;
        let texts = std::iter::once(issue.body.as_str()).chain(part.map(|part| part.body.as_str()));
        self.add_linked(issue.number, texts, &mut around, context).await?;
        Ok(around)
    }

    /// Adds the issues that the texts of an issue refer to, and those that the host links to it.
    async fn add_linked(
        &self,
        issue: u64,
        texts: impl Iterator<Item = &str> + Send,
        around: &mut Around,
        context: &Context,
    ) -> Result<(), Problem> {
        let (Some(discussion), Some(pages)) = (context.discussion(), context.pages().await?) else { return Ok(()) };
        let mut numbers = Vec::new();
        for text in texts {
            numbers.extend(pages.issues_in(text, context.identity.dialect));
        }
        match discussion.linked_issues(issue).await {
            Ok(linked) => numbers.extend(linked),
            Err(error) if is_temporary(&error) => return Err(error.into()),
            Err(error) => around.problem = Some(error.to_string()),
        }
        let mut known = BTreeSet::from([issue]);
        numbers.retain(|number| known.insert(*number));
        for (index, number) in numbers.iter().enumerate() {
            if around.linked.len() == MOST_LINKED {
                around.more_linked = numbers.len() - index;
                break;
            }
            match discussion.issue(*number).await {
                Ok(Some(found)) => around.linked.push(self.linked(&found, context).await?),
                // It is a pull request, or does not exist.
                Ok(None) => {}
                Err(error) if is_temporary(&error) => return Err(error.into()),
                Err(error) => around.problem = Some(error.to_string()),
            }
        }
        Ok(())
    }

    async fn linked(&self, issue: &HostIssue, context: &Context) -> Result<EarlierComment, Problem> {
        let is_service = |user: &HostUser| context.identity.me.as_ref().is_some_and(|me| me.id == user.id);
        let doubt = match self.is_request(issue, context).await? {
            true => None,
            false if is_service(&issue.author) => Some(Doubt::Service),
            false => Some(Doubt::NotPermitted),
        };
        Ok(around::linked(issue, doubt))
    }
}

impl Context {
    /// Returns the pages of the repository on its code host; `None` for the built-in one.
    pub(super) async fn pages(&self) -> Result<Option<HostPages>, Problem> {
        let Some(host) = &self.host else { return Ok(None) };
        Ok(HostPages::new(host, &self.forge.repository().await?.path))
    }
}
