//! The comments of pull requests and issues on a code host.

use async_trait::async_trait;

use crate::hook::{HostComment, HostIssue, HostReview};
use crate::position::{Position, Thread};
use crate::time::Timestamp;

use super::{CommentFile, Conversation, ForgeError, NewReview};

/// A user of a code host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct HostUser {
    /// The ID, which stays the same when the user is renamed.
    pub id: String,
    /// The name to mention, without `@`.
    pub name: String,
    /// `true` if the host says that the user is a bot or an app.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_bot: bool,
}

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

/// The place of a comment that the service writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentPlace {
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

/// The kind of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentKind {
    /// A comment in the conversation of a pull request.
    Pull,
    /// A comment in the conversation of an issue.
    Issue,
    /// A comment on a line of a diff.
    Line,
    /// The text of a submitted review.
    Review,
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

/// The comments of pull requests and issues on a code host.
#[async_trait]
pub trait Discussion: Send + Sync {
    /// Returns the user as whom the service writes.
    async fn me(&self) -> Result<HostUser, ForgeError>;

    /// Returns the other names with which the host writes a mention of that user, without `@`.
    async fn aliases(&self) -> Result<Vec<String>, ForgeError> {
        Ok(Vec::new())
    }

    /// Writes a comment, unless the service has written one with the same marker. The marker is an HTML comment, which
    /// hosts keep and do not show. Returns the URL of the comment.
    async fn comment(&self, place: CommentPlace, marker: &str, text: &str) -> Result<String, ForgeError>;

    /// Returns whether [`Discussion::show`] can change the comments of the service on this code host.
    fn can_update(&self) -> bool {
        false
    }

    /// Shows a text in the comment of the service with a marker: changes the comment if it has another text, and writes
    /// it if there is none and `creates` is true. Otherwise, the change may wait: it leaves half of the limits of the host to
    /// others. Returns the URL of the comment; `None` if there is none.
    ///
    /// # Errors
    /// The host refused the text, could not be used, or has no comments that can be changed.
    async fn show(
        &self,
        place: CommentPlace,
        marker: &str,
        text: &str,
        creates: bool,
    ) -> Result<Option<String>, ForgeError> {
        let _ = (place, marker, text, creates);
        Err(ForgeError::Refused("comments cannot be changed on this code host".to_owned()))
    }

    /// Writes replies in threads, each unless the service has written one with the same marker there. Returns the results
    /// in the order of the replies.
    ///
    /// # Errors
    /// The host could not be used. Replies that were written before the error are found by the next attempt.
    async fn reply(&self, place: CommentPlace, replies: &[NewReply]) -> Result<Vec<Replied>, ForgeError> {
        let _ = place;
        let refused = || Replied::Refused("this code host has no replies".to_owned());
        Ok(replies.iter().map(|_| refused()).collect())
    }

    /// Marks the threads that contain these comments as resolved. On hosts without resolution, this does nothing.
    ///
    /// # Errors
    /// The host could not be used, or does not let the service resolve threads.
    async fn resolve(&self, place: CommentPlace, of: &[InThread]) -> Result<(), ForgeError> {
        let _ = (place, of);
        Ok(())
    }

    /// Reacts to a comment. Repeating a reaction has no effect. On hosts without reactions, this does nothing.
    async fn react(&self, comment: &CommentRef, reaction: Reaction) -> Result<(), ForgeError>;

    /// Returns the comments on lines of a submitted review, in the order of the diff.
    async fn review(&self, pull: u64, review: &str) -> Result<Vec<LineComment>, ForgeError>;

    /// Returns the submitted reviews of a pull request, oldest first. On hosts without reviews, there are none.
    async fn reviews(&self, pull: u64) -> Result<Vec<HostReview>, ForgeError>;

    /// Returns the submitted reviews that a webhook without the ID of its review can be about, oldest first: those of
    /// the same author that are not older. On hosts whose webhooks have the ID, there are none.
    async fn find_reviews(&self, pull: u64, review: &HostReview) -> Result<Vec<HostReview>, ForgeError> {
        let _ = (pull, review);
        Ok(Vec::new())
    }

    /// Adds the position, the thread and the review to a comment, if it has them and the webhook did not say so.
    async fn placed(&self, pull: u64, comment: HostComment) -> Result<HostComment, ForgeError> {
        let _ = pull;
        Ok(comment)
    }

    /// Writes a review of a pull request, unless the service has written one with the same marker. Comments that the host
    /// does not take stand in the text of the review. Returns the URL of the review, or of the comment with its text.
    async fn write_review(&self, pull: u64, review: &NewReview) -> Result<String, ForgeError> {
        self.comment(CommentPlace::Pull(pull), &review.marker, &review.whole_text()).await
    }

    /// Returns the threads that contain these comments on a pull request or an issue, each once. Threads that the host
    /// does not show, because a comment was deleted meanwhile, are missing. Drafts are left out.
    async fn threads(&self, place: CommentPlace, of: &[InThread]) -> Result<Vec<HostThread>, ForgeError> {
        let _ = (place, of);
        Ok(Vec::new())
    }

    /// Returns an issue; `None` if it does not exist. On hosts without issues, there are none.
    async fn issue(&self, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        let _ = number;
        Ok(None)
    }

    /// Returns the user who was the last to add a label to an issue, or to assign the service; `None` if no one did, or
    /// if webhooks of the host say who did.
    async fn issue_asker(&self, issue: u64, label: Option<&str>) -> Result<Option<HostUser>, ForgeError> {
        let _ = (issue, label);
        Ok(None)
    }

    /// Returns the people who have edited the title or the text of an issue and may lack the permission to push; `None` if
    /// there may be such people, and the host does not show them.
    async fn issue_editors(&self, issue: u64) -> Result<Option<Vec<HostUser>>, ForgeError> {
        let _ = issue;
        Ok(Some(Vec::new()))
    }

    /// Returns whether people who may not push may edit the comments of others. Polls do not show who has edited one.
    async fn lets_others_edit(&self) -> Result<bool, ForgeError> {
        Ok(false)
    }

    /// Returns the permission of a user; [`Permission::None`] if the host does not know the user.
    async fn permission(&self, user: &HostUser) -> Result<Permission, ForgeError>;

    /// Returns the conversation about a pull request or an issue: what was written or changed since a time, or all of it.
    /// Drafts, deleted comments and comments that only members see are left out. Of very long conversations, the newest
    /// comments are read.
    async fn conversation(&self, place: CommentPlace, since: Option<Timestamp>) -> Result<Conversation, ForgeError>;

    /// Returns the numbers of the issues of the same repository that the host itself links to an issue, such as its parent.
    /// On hosts without such links, there are none.
    async fn linked_issues(&self, issue: u64) -> Result<Vec<u64>, ForgeError> {
        let _ = issue;
        Ok(Vec::new())
    }

    /// Reads a file that a comment, a description or an issue refers to, with at most `limit` bytes. `url` is an address
    /// that [`crate::inbox::files::HostPages`] knows as one of the host. On hosts without files, there are none.
    async fn file(&self, of: &CommentRef, url: &str, limit: usize) -> Result<CommentFile, ForgeError> {
        let _ = (of, limit);
        Err(ForgeError::NotFound(format!("the code host has no files: {url}")))
    }
}
