//! Code hosts, which store repositories and open pull requests.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::code_host::{CodeHost, HostName};
use crate::finding::Finding;
use crate::hook::{HostComment, HostIssue, HostReview};
use crate::hosted_storage::{HostedStorage, StorageRecord};
use crate::ids::Sha;
use crate::job::PullRepository;
use crate::message::SourceAuthor;
use crate::poll::{PollQuery, Polled};
use crate::position::{Position, Thread};
use crate::project::{Host, Project, RestrictedHost, SecretChanges, repository_host};
use crate::pull::{HostPull, NewPull, PullChange};
use crate::run::{Reason, ReasonCode};

use super::StoreError;

/// A user name and a password or token for git over HTTP. `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user name.
    pub username: String,
    /// The password or token.
    pub password: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("username", &self.username).finish_non_exhaustive()
    }
}

/// A remote repository that git fetches from and pushes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// A URL or a path, never with a credential.
    pub url: String,
    /// The credential, if the remote requires one.
    pub credential: Option<Credential>,
    /// `true` if `url` is the path of a repository that only the service writes to. Its refs may be read directly.
    pub is_ours: bool,
    /// The addresses that the host of `url` may have.
    pub reach: Reach,
}

/// The addresses that the host in the URL of a remote may have. It depends on who has chosen the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Public addresses, and those in the networks that the operator has allowed. The host has been chosen by a repository
    /// or a server, or its name may be answered differently each time.
    #[default]
    Public,
    /// Also private addresses: the host is a configured code host, or an administrator has entered the address itself. A
    /// name must not resolve to a link-local address or a metadata service.
    Private,
}

/// The servers that git has reached for an operation, with their addresses, for the audit log.
#[derive(Debug, Clone, Default)]
pub struct ReachedServers(Arc<Mutex<BTreeSet<String>>>);

impl ReachedServers {
    /// Records a server, such as `git.example.com (93.184.216.34)`.
    pub fn add(&self, server: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(server);
    }

    /// Returns the recorded servers, separated by commas; `None` if there is none.
    #[must_use]
    pub fn list(&self) -> Option<String> {
        let servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        (!servers.is_empty()).then(|| servers.join(", "))
    }
}

/// An error from a code host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The remote does not support pull requests. The reason explains why.
    #[error("{}", .0.text)]
    NoPulls(Reason),
    /// The code host refused the credential, or the service has none.
    #[error("the code host refused the credential: {0}")]
    Credential(String),
    /// The repository, pull request or user does not exist, or the credential may not see it.
    #[error("the code host did not find it: {0}")]
    NotFound(String),
    /// The credential does not permit the request.
    #[error("the code host denied the request: {0}")]
    Denied(String),
    /// The code host refused the request, and would refuse another attempt too.
    #[error("the code host refused the request: {0}")]
    Refused(String),
    /// The code host accepts no more requests for some time.
    #[error("the code host accepts no more requests for {} s (rate limit)", .0.as_secs())]
    RateLimited(Duration),
    /// The request failed, and may have taken effect nevertheless.
    #[error("the request to the code host failed: {0}")]
    Unclear(String),
}

impl ForgeError {
    /// Returns whether another attempt may succeed without a change by a person.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::RateLimited(_) | Self::Unclear(_) => true,
            Self::NoPulls(_) | Self::Credential(_) | Self::NotFound(_) | Self::Denied(_) | Self::Refused(_) => false,
        }
    }
}

/// The reason why nothing was imported, and the remedy, as sentences for people. It contains no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportFailed(pub String);

/// A repository as its code host describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRepository {
    /// The ID, which stays the same when the repository is renamed. On the built-in host, the name.
    pub id: String,
    /// The current path, such as `owner/name`.
    pub path: String,
    /// The default branch; `None` for an empty repository on some hosts.
    pub default_branch: Option<String>,
    /// `true` if the credential may push; `None` if the host does not say.
    pub can_push: Option<bool>,
    /// `true` if the repository is read-only.
    pub is_archived: bool,
    /// The paths of the files that the host runs as pipelines, if its settings name other ones than the usual ones.
    pub ci_paths: Vec<String>,
}

impl HostRepository {
    /// Returns the reason why nothing can be pushed to the repository, if the host says so.
    #[must_use]
    pub fn read_only(&self) -> Option<Reason> {
        let path = &self.path;
        if self.is_archived {
            let text = format!("the repository {path} is archived, so it is read-only; unarchive it");
            return Some(Reason::new(ReasonCode::RepositoryArchived, text));
        }
        let text = || format!("the credential may read {path} but not push to it; give it write access");
        (self.can_push == Some(false)).then(|| Reason::new(ReasonCode::PermissionMissing, text()))
    }
}

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

/// The state of a commit status that the service sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusState {
    /// The job is working.
    Pending,
    /// The job has completed.
    Success,
    /// The job has failed.
    Failure,
}

/// A commit status that the service sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// The state.
    pub state: StatusState,
    /// A line of text, at most 140 characters.
    pub description: String,
    /// The page of the job.
    pub url: String,
    /// The branch that the commit was pushed to.
    pub branch: String,
}

/// The state of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The check has not finished.
    Pending,
    /// The check succeeded, or does not prevent a merge.
    Passed,
    /// The check failed.
    Failed,
    /// The check was skipped or canceled.
    Skipped,
    /// The check continues when a person acts: approves a run, starts a manual job, or does what the check asks for.
    Waiting,
    /// The entry does not count in the result, and is shown in words: people without access to the repository can have
    /// written it, or it only says something about the pull request.
    Ignored,
}

impl CheckState {
    /// Returns the state for people, as the end of "the check …".
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Pending => "has not finished",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "was skipped",
            Self::Waiting => "waits for a person",
            Self::Ignored => "does not count as a check",
        }
    }

    /// Returns the nearest state that versions up to 0.9 know. They would refuse a stored check with another one.
    const fn known_before(self) -> Self {
        match self {
            Self::Waiting => Self::Pending,
            Self::Ignored => Self::Skipped,
            known => known,
        }
    }
}

/// A check of a commit: a CI job, or a commit status of another service.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "StoredCheck", into = "StoredCheck")]
pub struct Check {
    /// The name.
    pub name: String,
    /// The state.
    pub state: CheckState,
    /// The page of the check.
    pub url: Option<String>,
    /// A line of text about the result.
    pub summary: Option<String>,
    /// The ID of the CI job whose log can be read; `None` if there is no log.
    pub log: Option<String>,
    /// The ID of the report, which [`Checks::log`] reads as it reads logs: the summary, the text and the annotations of the
    /// check. `None` if there is none.
    pub report: Option<String>,
    /// The result when the check last finished on this commit, passed or failed; `None` before that. The service fills it
    /// in ([`crate::checks::compared`]), because hosts show only the newest attempt.
    pub finished: Option<CheckState>,
    /// `true` if the check both failed and passed on this commit, so that its result says little about the commit. The
    /// service fills it in.
    pub is_flaky: bool,
}

impl Check {
    /// Returns a check with a name and a state, and nothing else.
    #[must_use]
    pub fn new(name: impl Into<String>, state: CheckState) -> Self {
        let name = name.into();
        Self { name, state, url: None, summary: None, log: None, report: None, finished: None, is_flaky: false }
    }
}

/// The form in which a check is stored.
#[derive(serde::Serialize, serde::Deserialize)]
struct StoredCheck {
    name: String,
    state: CheckState,
    /// The state, if older versions do not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    newer: Option<CheckState>,
    url: Option<String>,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    log: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    report: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished: Option<CheckState>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_flaky: bool,
}

impl From<Check> for StoredCheck {
    fn from(check: Check) -> Self {
        let Check { name, state, url, summary, log, report, finished, is_flaky } = check;
        let known = state.known_before();
        let newer = (known != state).then_some(state);
        Self { name, state: known, newer, url, summary, log, report, finished, is_flaky }
    }
}

impl From<StoredCheck> for Check {
    fn from(stored: StoredCheck) -> Self {
        let StoredCheck { name, state, newer, url, summary, log, report, finished, is_flaky } = stored;
        Self { name, state: newer.unwrap_or(state), url, summary, log, report, finished, is_flaky }
    }
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

/// A repository on a code host.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Returns the name of the host in the index of pull requests.
    fn host(&self) -> HostName;

    /// Returns the remote, with a credential that remains valid for at least ten minutes.
    async fn remote(&self) -> Result<Remote, ForgeError>;

    /// Describes the repository. The answer may be a minute old.
    async fn repository(&self) -> Result<HostRepository, ForgeError>;

    /// Returns the description of the repository from an answer that is known, such as that of [`Forge::remote`], without
    /// asking; `None` if there is none.
    fn known_repository(&self) -> Option<HostRepository> {
        None
    }

    /// Returns the repository as pull requests name it; `None` if the remote gives repositories no ID. The answer may be a
    /// minute old.
    async fn identity(&self) -> Result<Option<PullRepository>, ForgeError> {
        Ok(None)
    }

    /// Returns the address with which the host recognizes a user in commits, without showing the user's own address; `None`
    /// if the host has none.
    fn no_reply_address(&self, user: &SourceAuthor) -> Option<String> {
        let _ = user;
        None
    }

    /// Forgets the answers that were kept, for a person who tests the repository after a change.
    fn forget(&self) {}

    /// Returns the pull requests of a branch of this repository, in all states, newest first.
    async fn find_pulls(&self, head: &str) -> Result<Vec<HostPull>, ForgeError>;

    /// Opens a pull request. Sets no labels, reviewers and assignees; [`Forge::update_pull`] does.
    async fn create_pull(&self, new: &NewPull) -> Result<CreatedPull, ForgeError>;

    /// Returns a pull request; `None` if it does not exist.
    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError>;

    /// Changes a pull request. Labels, reviewers and assignees are added to those that it has.
    async fn update_pull(&self, number: u64, change: &PullChange) -> Result<(), ForgeError>;

    /// Returns the comments of pull requests and issues; `None` if the host has none.
    fn discussion(&self) -> Option<&dyn Discussion>;

    /// Returns the checks of commits; `None` if the host has none.
    fn checks(&self) -> Option<&dyn Checks>;

    /// Returns the changes of the repository, which can be polled; `None` if the host cannot be polled.
    fn changes(&self) -> Option<&dyn Changes> {
        None
    }
}

/// The changes of a repository on a code host: comments, reviews, pull requests and issues.
#[async_trait]
pub trait Changes: Send + Sync {
    /// Returns what has changed since the position of the query. If much has changed, the rest follows with the next
    /// poll. Deleted comments, and on some hosts edited ones, are not reported.
    async fn poll(&self, query: &PollQuery) -> Result<Polled, ForgeError>;
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
}

/// The checks of commits on a code host.
#[async_trait]
pub trait Checks: Send + Sync {
    /// Returns the checks of a commit, without the status that the service itself sets.
    async fn of_commit(&self, sha: &Sha) -> Result<Vec<Check>, ForgeError>;

    /// Returns the end of the log of a CI job, at most `limit` bytes; `None` if there is no log.
    async fn log(&self, log: &str, limit: usize) -> Result<Option<Vec<u8>>, ForgeError>;

    /// Sets the commit status of the service.
    async fn set_status(&self, sha: &Sha, status: &CommitStatus) -> Result<(), ForgeError>;
}

/// The result of [`Forge::create_pull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedPull {
    /// The pull request was opened.
    Created(HostPull),
    /// The branch already has an open pull request.
    AlreadyExists,
    /// The branch has no commits that its base does not have.
    NoChanges,
}

/// The code hosts of projects.
#[async_trait]
pub trait Forges: Send + Sync {
    /// Returns the project's repository on its code host.
    async fn of(&self, project: &Project) -> Result<Arc<dyn Forge>, ForgeError>;

    /// Creates the empty repository of a project on the built-in code host, if it does not exist.
    async fn prepare(&self, project: &Project) -> Result<(), ForgeError>;

    /// Tests whether jobs can work on the repository of a project, and returns what was found. The project may be new.
    /// `secrets` are the changes to its secrets that will be stored, such as a new credential. A repository on the
    /// built-in code host can always be used.
    ///
    /// # Errors
    /// Returns the reason why the repository cannot be read or pushed to, and the remedy.
    async fn check(&self, project: &Project, secrets: &SecretChanges) -> Result<Vec<Finding>, Reason>;

    /// As [`Forges::check`], and records the servers that git reaches.
    ///
    /// # Errors
    /// As [`Forges::check`].
    async fn check_and_record(
        &self,
        project: &Project,
        secrets: &SecretChanges,
        _reached: &ReachedServers,
    ) -> Result<Vec<Finding>, Reason> {
        self.check(project, secrets).await
    }

    /// Returns the code host of a project's repository; `None` for the built-in one and for plain remotes.
    async fn code_host(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError>;

    /// Copies the branches and tags of a remote into the repository of a project on the built-in code host, which has none.
    /// They are on disk when this returns. A push that arrives first wins: nothing is imported then. An import that was
    /// interrupted can be repeated. Returns what of the repository was not copied, as sentences for people. The servers that
    /// git reaches are recorded.
    ///
    /// # Errors
    /// Nothing was imported.
    async fn import(
        &self,
        _project: &Project,
        _from: &Remote,
        _reached: &ReachedServers,
    ) -> Result<Option<String>, ImportFailed> {
        Err(ImportFailed("Only the built-in code host can import a repository.".to_owned()))
    }

    /// Removes a repository of the built-in code host with its pull requests and objects, unless a project uses it. It is
    /// safe to repeat.
    ///
    /// # Errors
    /// The repository is still there, or a part of it. Another attempt may succeed.
    async fn remove(&self, _repository: &str) -> Result<(), ForgeError> {
        Ok(())
    }

    /// Returns the space that the repository of a project on the built-in code host takes; `None` if it was not measured
    /// yet, or is elsewhere.
    async fn storage(&self, _project: &Project) -> Option<StorageRecord> {
        None
    }

    /// Returns the space that all repositories of the built-in code host take, according to their last measurements.
    ///
    /// # Errors
    /// The repositories cannot be listed.
    async fn storage_of_all(&self) -> Result<HostedStorage, ForgeError> {
        Ok(HostedStorage::default())
    }

    /// Returns the addresses of a host name; empty if it cannot be resolved.
    async fn addresses(&self, name: &str) -> Vec<IpAddr>;

    /// Returns the addresses that the host of a URL may have if an administrator has entered the URL.
    ///
    /// # Errors
    /// The store failed.
    async fn reach(&self, _url: &str) -> Result<Reach, StoreError> {
        Ok(Reach::Public)
    }

    /// Returns the host of a repository if only an administrator may name it: it is, or resolves to, a link-local
    /// address or the metadata service of a cloud.
    async fn restricted_host(&self, repository: &str) -> Option<RestrictedHost> {
        let host = repository_host(repository)?;
        if let Some(found) = host.restricted() {
            return Some(found);
        }
        let Host::Name(name) = &host else { return None };
        self.addresses(name).await.into_iter().find_map(|address| host.restricted_at(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_can_read_stored_checks() {
        for (state, known) in [
            (CheckState::Pending, "pending"),
            (CheckState::Passed, "passed"),
            (CheckState::Failed, "failed"),
            (CheckState::Skipped, "skipped"),
            (CheckState::Waiting, "pending"),
            (CheckState::Ignored, "skipped"),
        ] {
            let check = Check { report: Some("1".to_owned()), is_flaky: true, ..Check::new("test", state) };
            let stored = serde_json::to_value(&check).unwrap();
            assert_eq!(stored["state"], known);
            assert_eq!(serde_json::from_value::<Check>(stored).unwrap(), check);
        }
        let old = serde_json::json!({"name": "test", "state": "failed", "url": null, "summary": "1 failed"});
        let check = Check { summary: Some("1 failed".to_owned()), ..Check::new("test", CheckState::Failed) };
        assert_eq!(serde_json::from_value::<Check>(old).unwrap(), check);
        assert_eq!(serde_json::to_value(Check::new("a", CheckState::Passed)).unwrap().as_object().unwrap().len(), 5);
    }
}
