//! A code host that exists only in memory. A test sets what people write there, and which requests fail.

mod hooks;
mod repository;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use journeyman_core::checks::{Check, CommitStatus};
use journeyman_core::code_host::{CodeHost, HostKind, PullRepository};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, LineComment, NewReview, Permission, Reaction,
};
use journeyman_core::hook::{EventRepository, HostIssue, HostReview, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::ports::{CommentFile, ForgeError};
use journeyman_core::pull::HostPull;

/// A request to a [`MemoryHost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCall {
    /// Describes the repository.
    Repository,
    /// Reads, opens or changes pull requests.
    Pulls,
    /// Reads who the service is.
    Me,
    /// Writes or changes a comment.
    Comment,
    /// Writes replies in threads.
    Reply,
    /// Marks threads as resolved.
    Resolve,
    /// Reacts to a comment.
    React,
    /// Reads reviews and their comments.
    Reviews,
    /// Reads threads of comments.
    Threads,
    /// Reads a conversation.
    Conversation,
    /// Reads a file of a comment.
    File,
    /// Reads an issue, who asks for a job about it, or who may have edited it or its comments.
    Issue,
    /// Reads the permission of a user.
    Permission,
    /// Reads checks and logs.
    Checks,
    /// Sets a status.
    SetStatus,
    /// Reads what has changed: nothing.
    Poll,
}

/// The moment at which a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the effect.
    Before,
    /// After the effect.
    After,
}

/// A comment that the service has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The conversation.
    pub target: CommentTarget,
    /// The marker.
    pub marker: String,
    /// The text, without the marker.
    pub text: String,
}

/// A reply that the service has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenReply {
    /// The ID of the comment that it answers.
    pub to: String,
    /// The marker.
    pub marker: String,
    /// The text, without the marker.
    pub text: String,
}

/// A code host with one repository. Cheap to clone: the clones share their state.
#[derive(Debug, Clone, Default)]
pub struct MemoryHost(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    permissions: BTreeMap<String, Result<Permission, ForgeError>>,
    trusted_bots: BTreeSet<String>,
    /// The product; `None` means GitHub.
    kind: Option<HostKind>,
    pulls: Vec<HostPull>,
    reviews: Vec<(u64, HostReview, Vec<LineComment>)>,
    threads: Vec<(CommentTarget, HostThread)>,
    conversations: Vec<(CommentTarget, Conversation)>,
    linked: BTreeMap<u64, Vec<u64>>,
    files: BTreeMap<String, CommentFile>,
    issues: BTreeMap<u64, HostIssue>,
    requesters: BTreeMap<u64, HostUser>,
    /// The users who have edited the text of an issue; `None` if the host does not show them.
    editors: BTreeMap<u64, Option<Vec<HostUser>>>,
    lets_others_edit: bool,
    written: Vec<Written>,
    written_reviews: Vec<(u64, NewReview)>,
    /// The texts that comments had before they were changed, with their markers.
    replaced: Vec<Written>,
    replies: Vec<WrittenReply>,
    /// The IDs of the threads that the service has marked as resolved.
    resolved: Vec<String>,
    has_no_replies: bool,
    reactions: Vec<(CommentRef, Reaction)>,
    statuses: Vec<(Sha, CommitStatus)>,
    checks: BTreeMap<Sha, Vec<Check>>,
    /// The repository that the project has now, if it is another one than at first.
    replacement: Option<EventRepository>,
    faults: Vec<Fault>,
    calls: Vec<HostCall>,
}

#[derive(Debug)]
struct Fault {
    call: HostCall,
    moment: Moment,
    error: ForgeError,
    times: u32,
}

impl MemoryHost {
    /// The ID of the code host, which is part of the URL of its webhooks.
    pub const ID: &str = "memory";

    /// The address of its repository.
    pub const REPOSITORY: &str = "https://host.example/acme/shop.git";

    /// Returns the code host.
    #[must_use]
    pub fn code_host(&self) -> CodeHost {
        let id = Self::ID.parse().unwrap();
        let kind = self.state().kind.unwrap_or(HostKind::Github);
        let host = CodeHost::of_address(id, kind, "https://host.example".to_owned());
        CodeHost { trusted_bots: self.state().trusted_bots.clone(), ..host }
    }

    /// Makes the host another product.
    pub fn be(&self, kind: HostKind) {
        self.state().kind = Some(kind);
    }

    /// Returns the repository as events name it.
    #[must_use]
    pub fn repository() -> EventRepository {
        EventRepository { id: "42".to_owned(), path: "acme/shop".to_owned() }
    }

    /// Returns the repository in the index of pull requests.
    #[must_use]
    pub fn indexed(&self) -> PullRepository {
        PullRepository { host: self.code_host().name(), id: Self::repository().id }
    }

    /// Returns the user as whom the service writes.
    #[must_use]
    pub fn me() -> HostUser {
        HostUser { id: "7".to_owned(), name: "journeyman-bot".to_owned(), is_bot: false }
    }

    /// Returns a user whose ID is the name, with a permission.
    #[must_use]
    pub fn user(&self, name: &str, permission: Permission) -> HostUser {
        let user = HostUser { id: format!("id-{name}"), name: name.to_owned(), is_bot: false };
        self.permit(&user, Ok(permission));
        user
    }

    /// Sets the answer to a request for a user's permission.
    pub fn permit(&self, user: &HostUser, answer: Result<Permission, ForgeError>) {
        self.state().permissions.insert(user.id.clone(), answer);
    }

    /// Lets the comments of a bot count.
    pub fn trust(&self, bot: &HostUser) {
        self.state().trusted_bots.insert(bot.id.clone());
    }

    /// Adds a pull request, or replaces the one with its number.
    pub fn put_pull(&self, pull: HostPull) {
        let mut state = self.state();
        state.pulls.retain(|known| known.number != pull.number);
        state.pulls.push(pull);
    }

    /// Adds a submitted review of a pull request, or replaces the one with its ID.
    pub fn put_review(&self, pull: u64, review: HostReview, lines: Vec<LineComment>) {
        let mut state = self.state();
        state.reviews.retain(|(_, known, _)| known.id != review.id);
        state.reviews.push((pull, review, lines));
    }

    /// Adds a thread of comments, or replaces the one with its ID.
    pub fn put_thread(&self, target: CommentTarget, thread: HostThread) {
        let mut state = self.state();
        state.threads.retain(|(_, known)| known.id != thread.id);
        state.threads.push((target, thread));
    }

    /// Sets the conversation about a pull request or an issue.
    pub fn put_conversation(&self, target: CommentTarget, conversation: Conversation) {
        let mut state = self.state();
        state.conversations.retain(|(known, _)| *known != target);
        state.conversations.push((target, conversation));
    }

    /// Sets the issues that the host links to an issue.
    pub fn put_linked(&self, issue: u64, linked: &[u64]) {
        self.state().linked.insert(issue, linked.to_vec());
    }

    /// Stores a file at an address.
    pub fn put_file(&self, url: &str, file: CommentFile) {
        self.state().files.insert(url.to_owned(), file);
    }

    /// Stores an issue.
    pub fn put_issue(&self, issue: HostIssue) {
        self.state().issues.insert(issue.number, issue);
    }

    /// Sets the user who was the last to add the label to an issue, or to assign the service.
    pub fn put_requester(&self, issue: u64, user: &HostUser) {
        self.state().requesters.insert(issue, user.clone());
    }

    /// Sets the users who have edited the text of an issue; `None` if the host does not show them.
    pub fn put_editors(&self, issue: u64, editors: Option<&[HostUser]>) {
        self.state().editors.insert(issue, editors.map(<[_]>::to_vec));
    }

    /// Lets people who may not push edit the comments of others.
    pub fn let_others_edit(&self) {
        self.state().lets_others_edit = true;
    }

    /// Sets the checks of a commit.
    pub fn put_checks(&self, sha: Sha, checks: Vec<Check>) {
        self.state().checks.insert(sha, checks);
    }

    /// Lets the project have another repository.
    pub fn replace(&self, repository: EventRepository) {
        self.state().replacement = Some(repository);
    }

    /// Lets the next `times` requests of a kind fail.
    pub fn fail(&self, call: HostCall, moment: Moment, error: ForgeError, times: u32) {
        self.state().faults.push(Fault { call, moment, error, times });
    }

    /// Returns the reviews that the service has written, with the numbers of their pull requests.
    #[must_use]
    pub fn written_reviews(&self) -> Vec<(u64, NewReview)> {
        self.state().written_reviews.clone()
    }

    /// Returns the comments that the service has written, oldest first.
    #[must_use]
    pub fn written(&self) -> Vec<Written> {
        self.state().written.clone()
    }

    /// Returns the texts that comments of the service had before they were changed, oldest first.
    #[must_use]
    pub fn replaced(&self) -> Vec<Written> {
        self.state().replaced.clone()
    }

    /// Returns the replies that the service has written, oldest first.
    #[must_use]
    pub fn replies(&self) -> Vec<WrittenReply> {
        self.state().replies.clone()
    }

    /// Returns the IDs of the threads that the service has marked as resolved.
    #[must_use]
    pub fn resolved(&self) -> Vec<String> {
        self.state().resolved.clone()
    }

    /// Lets the code host be one without replies and without resolution of threads.
    pub fn remove_replies(&self) {
        self.state().has_no_replies = true;
    }

    /// Returns the reactions to a comment, oldest first.
    #[must_use]
    pub fn reactions(&self, comment: &str) -> Vec<Reaction> {
        let state = self.state();
        state.reactions.iter().filter(|(known, _)| known.id == comment).map(|(_, reaction)| *reaction).collect()
    }

    /// Returns the statuses of a commit, oldest first.
    #[must_use]
    pub fn statuses(&self, sha: &Sha) -> Vec<CommitStatus> {
        let state = self.state();
        state.statuses.iter().filter(|(known, _)| known == sha).map(|(_, status)| status.clone()).collect()
    }

    /// Returns the number of requests of a kind.
    #[must_use]
    pub fn count(&self, call: HostCall) -> usize {
        self.state().calls.iter().filter(|known| **known == call).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Carries out a request, unless it fails.
    async fn call<R: Send>(
        &self,
        call: HostCall,
        effect: impl FnOnce(&mut State) -> Result<R, ForgeError> + Send,
    ) -> Result<R, ForgeError> {
        // A test that drops the caller here simulates its death before the effect, and below after it.
        tokio::task::yield_now().await;
        let answer = self.answer(call, effect);
        tokio::task::yield_now().await;
        answer
    }

    fn answer<R>(
        &self,
        call: HostCall,
        effect: impl FnOnce(&mut State) -> Result<R, ForgeError>,
    ) -> Result<R, ForgeError> {
        let mut state = self.state();
        state.calls.push(call);
        let planned = state.faults.iter_mut().find(|fault| fault.call == call && fault.times > 0);
        let fault = planned.map(|fault| {
            fault.times -= 1;
            (fault.moment, fault.error.clone())
        });
        match fault {
            Some((Moment::Before, error)) => Err(error),
            Some((Moment::After, error)) => effect(&mut state).and(Err(error)),
            None => effect(&mut state),
        }
    }
}
