//! The interface of code hosts that [`HostedRepository`](super::HostedRepository) works with.

use async_trait::async_trait;
use journeyman_core::checks::{Check, CommitStatus, OWN_STATUS};
use journeyman_core::code_host::expiry::Expiry;
use journeyman_core::code_host::{HostRepository, RepositoryPath};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, NewReview, Permission, Reaction,
    ReviewComment,
};
use journeyman_core::hook::{HostComment, HostIssue, HostReview, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::inbox::files::HostPages;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{CommentFile, CreatedPull, Credential, ForgeError};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::time::Timestamp;

use crate::account::Account;

/// The context of the status that the service sets on commits.
pub(crate) const STATUS: &str = OWN_STATUS;

/// The interface of a code host. Repositories are passed as their current description, whose path is up to date after a
/// rename.
#[async_trait]
pub(crate) trait Api: Send + Sync {
    /// Describes a repository.
    async fn repository(&self, path: &RepositoryPath) -> Result<HostRepository, ForgeError>;

    /// Describes the repository with an ID, which had this path before.
    async fn repository_by_id(&self, path: &RepositoryPath, id: &str) -> Result<HostRepository, ForgeError> {
        let _ = (path, id);
        Err(ForgeError::NotFound("the code host finds repositories only by their path".to_owned()))
    }

    /// Returns a credential for git, which is valid for at least ten minutes.
    async fn git_credential(&self, repository: &RepositoryPath) -> Result<Credential, ForgeError>;

    /// Describes the credential, for the test of a code host.
    async fn account(&self) -> Result<Account, ForgeError>;

    /// Returns the end of the credential.
    async fn expiry(&self) -> Result<Expiry, ForgeError> {
        Ok(Expiry::Unknown)
    }

    /// Returns the user as whom the service acts.
    async fn me(&self, repository: &HostRepository) -> Result<HostUser, ForgeError>;

    /// Returns the other names with which the host writes a mention of that user, without `@`.
    async fn aliases(&self, me: &HostUser) -> Result<Vec<String>, ForgeError> {
        let _ = me;
        Ok(Vec::new())
    }

    /// Returns the pull requests of a branch of the repository, in all states, newest first.
    async fn find_pulls(&self, repository: &HostRepository, head: &str) -> Result<Vec<HostPull>, ForgeError>;

    /// Opens a pull request to the branch `base`.
    async fn create_pull(
        &self,
        repository: &HostRepository,
        new: &NewPull,
        base: &str,
    ) -> Result<CreatedPull, ForgeError>;

    /// Returns a pull request; `None` if it does not exist.
    async fn pull(&self, repository: &HostRepository, number: u64) -> Result<Option<HostPull>, ForgeError>;

    /// Changes a pull request.
    async fn update_pull(
        &self,
        repository: &HostRepository,
        number: u64,
        change: &PullChange,
    ) -> Result<(), ForgeError>;

    /// Asks the host to merge an open pull request when all requirements are met
    /// ([`auto_merge`](journeyman_core::ports::Forge::auto_merge)).
    async fn auto_merge(&self, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
        let _ = (repository, number);
        Err(ForgeError::Refused("the interface of the code host has no request for it".to_owned()))
    }

    /// Returns the comments in a conversation.
    async fn comments(&self, repository: &HostRepository, target: CommentTarget) -> Result<Vec<Written>, ForgeError>;

    /// Writes a comment, and returns its URL.
    async fn add_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        text: &str,
    ) -> Result<String, ForgeError>;

    /// Returns whether half of the limits on written content is used.
    fn is_busy(&self) -> bool {
        false
    }

    /// Changes the text of a comment in a conversation.
    async fn update_comment(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        comment: &str,
        text: &str,
    ) -> Result<(), ForgeError>;

    /// Writes a reply to a comment in a thread, and returns its URL.
    async fn add_reply(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        to: (&HostThread, &InThread),
        text: &str,
    ) -> Result<String, ForgeError>;

    /// Marks threads as resolved that are not.
    async fn resolve(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        threads: &[HostThread],
    ) -> Result<(), ForgeError>;

    /// Reacts to a comment.
    async fn react(
        &self,
        repository: &HostRepository,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), ForgeError>;

    /// Returns the comments on lines of a submitted review.
    async fn review(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &str,
    ) -> Result<Vec<LineComment>, ForgeError>;

    /// Returns the submitted reviews of a pull request, oldest first. A host without reviews has none.
    async fn reviews(&self, repository: &HostRepository, pull: u64) -> Result<Vec<HostReview>, ForgeError> {
        let _ = (repository, pull);
        Ok(Vec::new())
    }

    /// Returns the submitted reviews that a webhook without the ID of its review can be about, oldest first.
    async fn find_reviews(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &HostReview,
    ) -> Result<Vec<HostReview>, ForgeError> {
        let _ = (repository, pull, review);
        Ok(Vec::new())
    }

    /// Adds the position, the thread and the review to a comment, if it has them and the webhook did not say so.
    async fn complete_comment(
        &self,
        repository: &HostRepository,
        pull: u64,
        comment: HostComment,
    ) -> Result<HostComment, ForgeError> {
        let _ = (repository, pull);
        Ok(comment)
    }

    /// Writes a review with its comments on lines in one request, and returns its URL; `None` if the host only takes the
    /// comments one by one.
    async fn add_review(
        &self,
        repository: &HostRepository,
        pull: u64,
        review: &NewReview,
    ) -> Result<Option<String>, ForgeError> {
        let _ = (repository, pull, review);
        Ok(None)
    }

    /// Writes a comment on lines of the diff of a pull request at a commit. `text` is that of the comment with its marker.
    async fn add_line_comment(
        &self,
        repository: &HostRepository,
        pull: u64,
        (commit, comment): (&Sha, &ReviewComment),
        text: &str,
    ) -> Result<(), ForgeError> {
        let _ = (repository, pull, commit, comment, text);
        Err(ForgeError::Refused("the host takes comments on lines only with a review".to_owned()))
    }

    /// Returns the threads that contain these comments, each once, without drafts.
    async fn threads(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        of: &[InThread],
    ) -> Result<Vec<HostThread>, ForgeError>;

    /// Returns an issue; an error if it does not exist.
    async fn issue(&self, repository: &HostRepository, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        let _ = (repository, number);
        Ok(None)
    }

    /// Returns the user who was the last to add a label to an issue, or to assign the service.
    async fn issue_requester(
        &self,
        repository: &HostRepository,
        issue: u64,
        label: Option<&str>,
        me: &HostUser,
    ) -> Result<Option<HostUser>, ForgeError> {
        let _ = (repository, issue, label, me);
        Ok(None)
    }

    /// Returns the people who have edited the title or the text of an issue and may lack the permission to push; `None` if
    /// there may be such people, and the host does not show them.
    async fn issue_editors(
        &self,
        repository: &HostRepository,
        issue: u64,
    ) -> Result<Option<Vec<HostUser>>, ForgeError> {
        let _ = (repository, issue);
        Ok(Some(Vec::new()))
    }

    /// Returns whether people who may not push may edit the comments of others.
    async fn lets_others_edit(&self, repository: &HostRepository) -> Result<bool, ForgeError> {
        let _ = repository;
        Ok(false)
    }

    /// Returns what has changed since the position of a query.
    async fn poll(&self, repository: &HostRepository, query: &PollQuery) -> Result<Polled, ForgeError>;

    /// Returns the conversation about a pull request or an issue since a time, or all of it.
    async fn conversation(
        &self,
        repository: &HostRepository,
        target: CommentTarget,
        since: Option<Timestamp>,
    ) -> Result<Conversation, ForgeError>;

    /// Returns the numbers of the issues of the repository that the host itself links to an issue.
    async fn linked_issues(&self, repository: &HostRepository, issue: u64) -> Result<Vec<u64>, ForgeError> {
        let _ = (repository, issue);
        Ok(Vec::new())
    }

    /// Reads a file of a comment, with at most `limit` bytes. `url` is an address that `pages` knows as one of the host.
    async fn file(
        &self,
        repository: &HostRepository,
        pages: &HostPages,
        of: &CommentRef,
        url: &str,
        limit: usize,
    ) -> Result<CommentFile, ForgeError>;

    /// Returns the permission of a user.
    async fn permission(&self, repository: &HostRepository, user: &HostUser) -> Result<Permission, ForgeError>;

    /// Returns the checks of a commit, without the status [`STATUS`].
    async fn checks(&self, repository: &HostRepository, sha: &Sha) -> Result<Vec<Check>, ForgeError>;

    /// Returns the end of the log of a CI job.
    async fn check_log(
        &self,
        repository: &HostRepository,
        log: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ForgeError>;

    /// Sets the status [`STATUS`] of a commit.
    async fn set_status(&self, repository: &HostRepository, sha: &Sha, status: &CommitStatus)
    -> Result<(), ForgeError>;
}

/// A comment in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) id: String,
    /// The ID of the author.
    pub(crate) author: String,
    pub(crate) url: String,
    pub(crate) body: String,
}
