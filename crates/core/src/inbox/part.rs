//! A part of a message: a comment or a review, with what it is about.

use super::earlier::Earlier;
use super::text::{Dialect, Shown};
use crate::conversation::{InThread, LineComment};
use crate::hook::{CommentKind, HostComment, HostReview, HostUser};
use crate::message::SourceComment;
use crate::position::{Position, Thread};
use crate::suggestion::Replaces;

/// A comment, as part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The kind.
    pub kind: CommentKind,
    /// The ID.
    pub id: String,
    /// The version.
    pub version: String,
    /// The page.
    pub url: String,
    /// The author.
    pub author: HostUser,
    /// The text.
    pub body: String,
    /// The position of a comment on lines or on a file.
    pub position: Option<Position>,
    /// The part of the diff that the comment is about.
    pub hunk: Option<String>,
    /// The lines that suggestions in the text replace.
    pub replaces: Replaces,
    /// The thread; `None` if the comment cannot be part of one.
    pub thread: Option<Thread>,
    /// The ID of the review that the comment is part of, if it is known.
    pub review: Option<String>,
    /// The earlier comments of the thread.
    pub earlier: Earlier,
}

impl Part {
    /// Returns a comment that is not read as part of a review.
    #[must_use]
    pub fn of_comment(comment: &HostComment) -> Self {
        Self {
            kind: comment.kind,
            id: comment.id.clone(),
            version: comment.version.clone(),
            url: comment.url.clone(),
            author: comment.author.clone(),
            body: comment.body.clone(),
            position: comment.position.clone(),
            hunk: comment.hunk.clone(),
            replaces: Replaces::default(),
            thread: comment.thread.clone(),
            review: comment.review.clone(),
            earlier: Earlier::default(),
        }
    }

    /// Returns the parts of a review: its text, if it has one, and its comments on lines.
    #[must_use]
    pub fn of_review(review: &HostReview, lines: Vec<LineComment>) -> Vec<Self> {
        let text = (!review.body.trim().is_empty()).then(|| Self {
            kind: CommentKind::Review,
            id: review.id.clone(),
            version: review.version.clone(),
            url: review.url.clone(),
            author: review.author.clone(),
            body: review.body.clone(),
            position: None,
            hunk: None,
            replaces: Replaces::default(),
            thread: None,
            review: None,
            earlier: Earlier::default(),
        });
        let lines = lines.into_iter().map(|line| Self {
            kind: CommentKind::Line,
            id: line.id,
            version: line.version,
            url: line.url,
            author: review.author.clone(),
            body: line.body,
            position: Some(line.position),
            hunk: line.hunk,
            replaces: Replaces::default(),
            thread: line.thread,
            review: Some(review.id.clone()),
            earlier: Earlier::default(),
        });
        text.into_iter().chain(lines).collect()
    }

    /// Returns the comment with its thread, if the thread can have earlier comments.
    #[must_use]
    pub fn in_thread(&self) -> Option<InThread> {
        let thread = self.thread.clone().filter(|thread| thread.may_have_earlier(&self.id))?;
        Some(InThread { kind: self.kind, id: self.id.clone(), thread, review: self.review.clone() })
    }

    /// Returns the comment as the source of a message. `dialect` is that of its code host.
    #[must_use]
    pub fn source(&self, dialect: Dialect) -> SourceComment {
        let title = crate::prompt::title_of(&Shown::markdown(&self.body, dialect).text);
        let is_answered_there = self.position.is_some()
            || self.kind == CommentKind::Line
            || self.thread.as_ref().is_some_and(|thread| thread.may_have_earlier(&self.id));
        let thread = self.thread.clone().filter(|_| is_answered_there);
        SourceComment {
            kind: self.kind,
            id: self.id.clone(),
            url: self.url.clone(),
            title,
            review: self.review.clone().filter(|_| thread.is_some()),
            thread,
            path: self.position.as_ref().map(|position| position.path.clone()),
        }
    }
}
