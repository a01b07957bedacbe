//! The conversation about a pull request or an issue on a code host, and the files in it.

use bytes::Bytes;

use crate::hook::{HostComment, HostReview};
use crate::time::Timestamp;

use super::{CommentKind, HostUser, LineComment};

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

/// The answer to a request for a file of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentFile {
    /// The content.
    Content(Bytes),
    /// The file is larger than the limit.
    TooLarge,
}
