//! Conversations on code hosts: comments, threads, reviews, and the people who write them.

use crate::hook::{CommentKind, HostComment, HostReview, HostUser};
use crate::ids::Sha;
use crate::position::{DiffSide, Position, Thread};
use crate::time::Timestamp;

/// The permission of a user on a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// No permission beyond that of everyone, or unknown.
    None,
    /// The user may read.
    Read,
    /// The user may push.
    Write,
    /// The user may change the settings.
    Admin,
}

/// The target of a comment by the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentTarget {
    /// A pull request, by its number.
    Pull(u64),
    /// An issue, by its number.
    Issue(u64),
}

/// A comment that exists on a code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentRef {
    /// The kind of the comment, because hosts number the kinds separately.
    pub kind: CommentKind,
    /// The pull request or issue.
    pub number: u64,
    /// The ID.
    pub id: String,
}

/// A reaction to a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// The comment was received: eyes.
    Seen,
    /// The request was carried out: a rocket, or what the host has instead.
    Done,
    /// The request could not be carried out: a confused face, or what the host has instead.
    Failed,
}

/// A comment on a line of a diff.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LineComment {
    /// The ID of the comment.
    pub id: String,
    /// The version of the comment: the time of its last change, as the host writes it.
    pub version: String,
    /// The text.
    pub body: String,
    /// The page of the comment.
    pub url: String,
    /// The position in the changes.
    #[serde(flatten)]
    pub position: Position,
    /// The part of the diff that the comment is about: usually the one that ends at its last line.
    pub hunk: Option<String>,
    /// The thread.
    #[serde(default)]
    pub thread: Option<Thread>,
    /// `true` if the comment was changed since it was written, and the host does not show by whom. Only hosts on which
    /// people who may not push can edit the comments of others say so.
    pub is_edited: bool,
}

/// A comment of which the thread is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InThread {
    /// The kind of the comment.
    pub kind: CommentKind,
    /// The ID of the comment.
    pub id: String,
    /// What is known of the thread.
    pub thread: Thread,
    /// The ID of the review that the comment is part of, if it is known.
    pub review: Option<String>,
}

/// A thread of comments on a code host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostThread {
    /// The ID of the thread, as in [`Thread::id`].
    pub id: String,
    /// Whether people have marked the thread as resolved; `None` if the host does not tell it.
    pub is_resolved: Option<bool>,
    /// The comments, oldest first.
    pub comments: Vec<ThreadComment>,
}

/// A comment of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadComment {
    /// The ID.
    pub id: String,
    /// The author.
    pub author: HostUser,
    /// The text, in Markdown.
    pub body: String,
    /// The page.
    pub url: String,
    /// `true` if the comment was changed since it was written, and the host does not show by whom, as in
    /// [`LineComment::is_edited`].
    pub is_edited: bool,
}

/// A reply that the service writes in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReply {
    /// A comment of the thread.
    pub to: InThread,
    /// The marker, by which a repeated attempt finds the reply.
    pub marker: String,
    /// The text, in Markdown.
    pub text: String,
}

/// The result of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replied {
    /// The reply is in the thread, at this URL.
    Written(String),
    /// The code host does not accept the reply, for this reason, and will not accept it later either.
    Refused(String),
}

/// What people have said about a pull request or an issue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The pull request; `None` for an issue, which [`super::Discussion::issue`] describes.
    pub subject: Option<Subject>,
    /// The comments, the texts of submitted reviews, and the comments on lines, oldest first.
    pub comments: Vec<Said>,
    /// `true` if there are older comments, which were not read.
    pub is_incomplete: bool,
}

impl Conversation {
    /// Returns a conversation with the comments in the order of their times. Those from before `since` and those without
    /// a text are left out; those without a time are first.
    #[must_use]
    pub fn new(
        subject: Option<Subject>,
        mut comments: Vec<Said>,
        is_incomplete: bool,
        since: Option<Timestamp>,
    ) -> Self {
        comments.retain(|said| said.is_since(since) && !said.comment.body.trim().is_empty());
        comments.sort_by_key(|said| said.at);
        Self { subject, comments, is_incomplete }
    }
}

/// The title and the description of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The title.
    pub title: String,
    /// The description, in Markdown.
    pub body: String,
    /// The page.
    pub url: String,
    /// The user who has opened it.
    pub author: HostUser,
}

/// A comment of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The comment.
    pub comment: HostComment,
    /// The time of its last change, or of its creation if the host does not tell the change.
    pub at: Option<Timestamp>,
    /// `true` if the comment was changed since it was written, and the host does not show by whom.
    pub is_edited: bool,
}

impl Said {
    /// Returns the text of a review.
    #[must_use]
    pub fn of_review(review: HostReview, at: Option<Timestamp>) -> Self {
        let comment = HostComment {
            kind: CommentKind::Review,
            id: review.id,
            version: review.version,
            url: review.url,
            author: review.author,
            body: review.body,
            position: None,
            hunk: None,
            thread: None,
            review: None,
        };
        Self { comment, at, is_edited: false }
    }

    /// Returns a comment on a line.
    #[must_use]
    pub fn of_line(line: LineComment, author: HostUser, review: Option<String>, at: Option<Timestamp>) -> Self {
        let is_edited = line.is_edited;
        let comment = HostComment {
            kind: CommentKind::Line,
            id: line.id,
            version: line.version,
            url: line.url,
            author,
            body: line.body,
            position: Some(line.position),
            hunk: line.hunk,
            thread: line.thread,
            review,
        };
        Self { comment, at, is_edited }
    }

    /// Returns whether the comment was written or changed at `since` or later. One whose time is unknown was.
    #[must_use]
    pub fn is_since(&self, since: Option<Timestamp>) -> bool {
        match (self.at, since) {
            (Some(at), Some(since)) => at >= since,
            _ => true,
        }
    }
}

/// A review to write. It is a comment: it neither approves the pull request nor requests changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReview {
    /// The marker, by which a repeated attempt finds the review.
    pub marker: String,
    /// The commit that was reviewed.
    pub commit: Sha,
    /// The text of the review, in Markdown.
    pub text: String,
    /// The comments on lines of the diff.
    pub comments: Vec<ReviewComment>,
}

impl NewReview {
    /// Returns the text of the review with all comments on lines.
    #[must_use]
    pub fn whole_text(&self) -> String {
        self.text_with(&self.comments.iter().collect::<Vec<_>>())
    }

    /// Returns the text of the review with these comments on lines.
    #[must_use]
    pub fn text_with(&self, comments: &[&ReviewComment]) -> String {
        let comments = comments.iter().map(|comment| format!("**{}**\n\n{}", comment.lines(), comment.body));
        std::iter::once(self.text.clone()).chain(comments).collect::<Vec<_>>().join("\n\n")
    }
}

/// A comment on lines of the diff of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewComment {
    /// The path of the file after the change, or before it if the file was deleted.
    pub path: String,
    /// The path before the change.
    pub old_path: String,
    /// The first line, if there are several. All lines are in one hunk of the diff.
    pub first: Option<DiffLine>,
    /// The last line.
    pub last: DiffLine,
    /// The text, in Markdown.
    pub body: String,
}

impl ReviewComment {
    /// Returns the marker of the comment, for hosts on which each comment is written by itself. `review` is that of its
    /// review, and `index` the index of the comment.
    #[must_use]
    pub fn marker(review: &str, index: usize) -> String {
        format!("{}:{} -->", review.trim_end_matches(" -->"), index + 1)
    }

    /// Returns the lines for people, such as "`src/a.rs`, lines 3–5", in Markdown.
    #[must_use]
    pub fn lines(&self) -> String {
        let side = if self.last.new.is_some() { DiffSide::New } else { DiffSide::Old };
        let numbered = |line: DiffLine| match line.new {
            Some(new) => (new, DiffSide::New),
            None => (line.old.unwrap_or_default(), DiffSide::Old),
        };
        let path = if side == DiffSide::New { &self.path } else { &self.old_path };
        Position::between(path.clone(), self.first.map(numbered), numbered(self.last)).to_string()
    }
}

/// A line of a diff, by its numbers in both versions of the file, from 1. An added line has no old number, and a removed
/// line no new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffLine {
    /// The number in the old version.
    pub old: Option<u64>,
    /// The number in the new version.
    pub new: Option<u64>,
}
