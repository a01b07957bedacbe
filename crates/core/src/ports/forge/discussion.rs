//! The comments of pull requests and issues on a code host.

use async_trait::async_trait;

use super::conversation::CommentFile;
use super::error::ForgeError;
use crate::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, NewReply, NewReview, Permission,
    Reaction, Replied,
};
use crate::hook::{HostComment, HostIssue, HostReview, HostUser};
use crate::time::Timestamp;

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
    async fn comment(&self, target: CommentTarget, marker: &str, text: &str) -> Result<String, ForgeError>;

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
        target: CommentTarget,
        marker: &str,
        text: &str,
        creates: bool,
    ) -> Result<Option<String>, ForgeError> {
        let _ = (target, marker, text, creates);
        Err(ForgeError::Refused("comments cannot be changed on this code host".to_owned()))
    }

    /// Writes replies in threads, each unless the service has written one with the same marker there. Returns the results
    /// in the order of the replies.
    ///
    /// # Errors
    /// The host could not be used. Replies that were written before the error are found by the next attempt.
    async fn reply(&self, target: CommentTarget, replies: &[NewReply]) -> Result<Vec<Replied>, ForgeError> {
        let _ = target;
        let refused = || Replied::Refused("this code host has no replies".to_owned());
        Ok(replies.iter().map(|_| refused()).collect())
    }

    /// Marks the threads that contain these comments as resolved. On hosts without resolution, this does nothing.
    ///
    /// # Errors
    /// The host could not be used, or does not let the service resolve threads.
    async fn resolve(&self, target: CommentTarget, of: &[InThread]) -> Result<(), ForgeError> {
        let _ = (target, of);
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
    async fn complete_comment(&self, pull: u64, comment: HostComment) -> Result<HostComment, ForgeError> {
        let _ = pull;
        Ok(comment)
    }

    /// Writes a review of a pull request, unless the service has written one with the same marker. Comments that the host
    /// does not take stand in the text of the review. Returns the URL of the review, or of the comment with its text.
    async fn write_review(&self, pull: u64, review: &NewReview) -> Result<String, ForgeError> {
        self.comment(CommentTarget::Pull(pull), &review.marker, &review.whole_text()).await
    }

    /// Returns the threads that contain these comments on a pull request or an issue, each once. Threads that the host
    /// does not show, because a comment was deleted meanwhile, are missing. Drafts are left out.
    async fn threads(&self, target: CommentTarget, of: &[InThread]) -> Result<Vec<HostThread>, ForgeError> {
        let _ = (target, of);
        Ok(Vec::new())
    }

    /// Returns an issue; `None` if it does not exist. On hosts without issues, there are none.
    async fn issue(&self, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        let _ = number;
        Ok(None)
    }

    /// Returns the user who was the last to add a label to an issue, or to assign the service; `None` if no one did, or
    /// if webhooks of the host say who did.
    async fn issue_requester(&self, issue: u64, label: Option<&str>) -> Result<Option<HostUser>, ForgeError> {
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
    async fn conversation(&self, target: CommentTarget, since: Option<Timestamp>) -> Result<Conversation, ForgeError>;

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
