//! The state of a stand-in: repositories, users, tokens, pull requests, issues, comments, checks.

mod discussion;
mod repository;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::discussion::LAST_LINE;
pub use self::discussion::{Comment, CommentReply, CommentedOn, Review, ReviewComment};
use super::github::Records as GithubRecords;
use super::gitlab::Records;
use super::times::Times;

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The ID.
    pub id: u64,
    /// The name.
    pub name: String,
    /// `true` for a bot or an app.
    pub is_bot: bool,
}

/// A token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Token {
    /// The user of the token.
    pub user: u64,
    /// The only repository of the token; `None` for all.
    pub repository: Option<u64>,
    /// `false` if the token may only read.
    pub can_write: bool,
    /// `true` for a fine-grained token of GitHub, which may not read checks.
    pub is_fine_grained: bool,
    /// `true` if the token has expired.
    pub is_expired: bool,
    /// The end of the token, in the form of the host: `2027-01-31 08:15:54 UTC` on GitHub, `2027-01-31` on GitLab.
    pub expires_at: Option<String>,
    /// The installation of a GitHub App that has created the token.
    pub installation: Option<Installation>,
}

/// What an installation of a GitHub App gives a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// The owner who has installed the app.
    pub owner: String,
    /// The repositories; `None` for all of the owner.
    pub repositories: Option<BTreeSet<u64>>,
    /// The levels of the permissions, `read` or `write`, by their names.
    pub permissions: BTreeMap<String, String>,
}

/// A repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repository {
    /// The ID.
    pub id: u64,
    /// The current path.
    pub path: String,
    /// Earlier paths, which redirect to the current one.
    pub old_paths: Vec<String>,
    /// The folder on the disk, below the folder of the stand-in.
    pub folder: String,
    /// `true` if the repository is read-only.
    pub is_archived: bool,
    /// `true` if the repository has no issues, only pull requests. GitHub.
    pub has_no_issues: bool,
    /// The newest commit of each branch.
    pub branches: BTreeMap<String, String>,
    /// The parents of the newest commit of each branch, by that commit.
    pub parents: BTreeMap<String, Vec<String>>,
    /// Branches with the same commits as `main` are those whose commit is that of `main`.
    pub pulls: Vec<Pull>,
    /// The issues. They share their numbers with pull requests.
    pub issues: Vec<Issue>,
    /// The comments of pull requests and issues.
    pub comments: Vec<Comment>,
    /// The submitted reviews.
    pub reviews: Vec<Review>,
    /// The replies to comments on lines.
    pub replies: Vec<CommentReply>,
    /// The comments on lines whose threads are marked as resolved.
    pub resolved: BTreeSet<u64>,
    /// The comments whose threads accept no reply: the conversation is locked. On GitLab, members may reply.
    pub locked_threads: BTreeSet<u64>,
    /// The reactions to reviews. Only GitHub has them.
    pub review_reactions: BTreeMap<u64, Vec<String>>,
    /// The numbers of changes of comments. Only Bitbucket Data Center counts them.
    pub comment_versions: BTreeMap<u64, u64>,
    /// The comments that are tasks. Only Bitbucket Data Center has them.
    pub tasks: BTreeSet<u64>,
    /// The comments whose own state is resolved, which differs from that of their threads. Only Bitbucket Data Center has it.
    pub resolved_comments: BTreeSet<u64>,
    /// The anchors of comments on lines, in the form in which requests named them. Both products of Bitbucket and
    /// GitHub show them; Gitea has them for lines of the old version of a file.
    pub anchors: BTreeMap<u64, serde_json::Value>,
    /// The users who have created commit statuses, by the commit and the key. Only Bitbucket Cloud shows them.
    pub status_authors: BTreeMap<(String, String), u64>,
    /// The permissions of users: `admin`, `write`, `read`.
    pub permissions: BTreeMap<u64, &'static str>,
    /// The commit statuses, oldest first.
    pub statuses: Vec<Status>,
    /// The checks.
    pub checks: Vec<Check>,
    /// The merged results pipelines, oldest first. Only GitLab has them.
    pub merged_results: Vec<MergedResult>,
    /// The existing labels.
    pub labels: Vec<String>,
    /// The pipelines with their jobs and bridges, oldest first. Checks that none of them has are jobs of a pipeline for
    /// their commit. Only GitLab has them.
    pub pipelines: Vec<Pipeline>,
    /// The value of `detailed_merge_status` of open merge requests; empty for `checking`. Only GitLab has it.
    pub merge_status: String,
    /// The suites of the test reports of pipelines, by the ID of the pipeline. Only GitLab has them.
    pub test_suites: BTreeMap<u64, serde_json::Value>,
    /// The names of reviewers who have requested changes. Only GitLab has them.
    pub changes_requested: Vec<String>,
    /// The file with the pipelines, if a setting names one. Only GitLab has the setting.
    pub ci_config_path: String,
    /// What apps have written about checks, by the IDs of the checks. Only GitHub has it.
    pub outputs: BTreeMap<u64, Output>,
    /// The commits and names of workflows that wait for an approval, and have no jobs. Only GitHub has them.
    pub waiting_workflows: Vec<(String, String)>,
    /// `true` if `main` requires checks or approvals that pull requests still lack. Without it, the products that merge
    /// later merge at once, or refuse the request.
    pub has_requirements: bool,
    /// `true` if a setting forbids that pull requests are merged later. GitHub and Bitbucket Data Center have it.
    pub forbids_auto_merge: bool,
    /// The numbers of the pull requests that are merged when all requirements are met.
    pub auto_merges: Vec<u64>,
    /// What GitHub tells about the merge of open pull requests, in the form of its GraphQL interface.
    pub merge_state: serde_json::Value,
    /// What only GitLab records.
    pub gitlab: Records,
    /// What only GitHub records.
    pub github: GithubRecords,
}

/// What an app has written about a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The conclusion, which replaces the result of the check; empty for the result.
    pub conclusion: String,
    /// The title.
    pub title: String,
    /// The summary.
    pub summary: String,
    /// The text.
    pub text: String,
    /// The annotations.
    pub annotations: Vec<serde_json::Value>,
    /// `true` if an app other than GitHub Actions has made the check.
    pub is_of_app: bool,
}

/// A pipeline of GitLab.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pipeline {
    /// The ID.
    pub id: u64,
    /// The commit.
    pub sha: String,
    /// The branch, or `refs/merge-requests/…`.
    pub reference: String,
    /// `push`, `merge_request_event`, `parent_pipeline` for a child, or `external`.
    pub source: String,
    /// The status.
    pub status: String,
    /// The IDs of the checks that are its jobs.
    pub jobs: Vec<u64>,
    /// The jobs that start other pipelines.
    pub bridges: Vec<Bridge>,
}

/// A job of a pipeline that starts another pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bridge {
    /// The ID.
    pub id: u64,
    /// The name.
    pub name: String,
    /// The status. Without `strategy: depend`, it is `success` as soon as the other pipeline exists.
    pub status: String,
    /// `true` if its failure is allowed.
    pub allow_failure: bool,
    /// The project and the ID of the other pipeline, and its status.
    pub downstream: Option<(u64, u64, String)>,
}

/// The state of a pull request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PullState {
    /// Open.
    #[default]
    Open,
    /// Merged.
    Merged,
    /// Closed without a merge.
    Closed,
}

/// A pull request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pull {
    /// The number.
    pub number: u64,
    /// The state.
    pub state: PullState,
    /// `true` for a draft.
    pub draft: bool,
    /// The title, without a prefix for drafts.
    pub title: String,
    /// The description.
    pub body: String,
    /// The branch with the commits.
    pub head: String,
    /// The newest commit when the pull request ended; while it is open, that of the branch counts.
    pub ended_sha: Option<String>,
    /// The branch to merge into.
    pub base: String,
    /// The user who opened it.
    pub author: u64,
    /// The ID of the repository of the branch, if it is a fork.
    pub fork: Option<u64>,
    /// The labels.
    pub labels: Vec<String>,
    /// The names of users who were asked for a review.
    pub reviewers: Vec<String>,
    /// The names of assigned users.
    pub assignees: Vec<String>,
    /// A counter that grows with each change.
    pub version: u64,
}

/// An issue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issue {
    /// The number.
    pub number: u64,
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
    /// The author.
    pub author: u64,
    /// The labels.
    pub labels: Vec<String>,
    /// The users who have edited the text. Only GitLab shows them.
    pub editors: Vec<u64>,
}

/// A commit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The commit.
    pub sha: String,
    /// The name.
    pub context: String,
    /// The state, as the name that the product uses.
    pub state: String,
    /// The page.
    pub url: String,
    /// The description.
    pub description: String,
    /// The ID of its pipeline. Only GitLab has them.
    pub pipeline: u64,
}

/// A check: a CI job with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The ID.
    pub id: u64,
    /// The commit.
    pub sha: String,
    /// The name.
    pub name: String,
    /// `None` while the check runs; otherwise whether it succeeded.
    pub passed: Option<bool>,
    /// The log.
    pub log: String,
}

/// A pipeline that runs on the merge of a pull request into its target branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedResult {
    /// The number of the pull request.
    pub pull: u64,
    /// The commit of the pull request.
    pub head: String,
    /// The merge of that commit into the target branch.
    pub merge: String,
}

/// A file that people have uploaded to a stand-in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadedFile {
    /// The content.
    pub content: Vec<u8>,
    /// The type in the header `Content-Type`.
    pub content_type: String,
    /// The address to which the stand-in redirects, if it does not send the file itself.
    pub redirect: Option<String>,
    /// `true` if a request without a valid token gets status 404.
    pub is_private: bool,
}

/// The state of a stand-in.
#[derive(Debug)]
pub struct State {
    /// The URL of the stand-in.
    pub url: String,
    /// The users.
    pub users: Vec<User>,
    /// The tokens.
    pub tokens: BTreeMap<String, Token>,
    /// The repositories.
    pub repositories: Vec<Repository>,
    /// The ID of the app, its slug, and the users or organizations on which it is not installed.
    pub app: Option<App>,
    /// The codes of apps that were created from a manifest, each with the secret of its webhook, if it has one.
    pub manifest_codes: BTreeMap<String, Option<String>>,
    /// The user who added the labels of issues.
    pub labeler: u64,
    /// The users whose accounts are closed. Only Bitbucket Cloud and GitHub know them.
    pub closed: BTreeSet<u64>,
    /// `true` if a team of the organization may write issues and not push. Only Forgejo's repository has one.
    pub has_issue_team: bool,
    /// `true` if the teams of a repository cannot be read, as on old versions of Gitea.
    pub hides_teams: bool,
    /// The builds that users have reported to the whole instance and to no repository. Only Bitbucket Data Center has them.
    pub instance_builds: Vec<Status>,
    /// `true` if threads have no replies and no resolution, as on Gitea before version 1.26.
    pub lacks_replies: bool,
    /// `true` if the list of users ignores filters by permission. Only Bitbucket Data Center has the list.
    pub ignores_permissions: bool,
    /// The URL by which the stand-in names itself in redirects, as behind a proxy that it does not know; empty for its own.
    pub named: String,
    /// The files that people have uploaded, by the paths of their addresses.
    pub files: BTreeMap<String, UploadedFile>,
    /// The requests for files: the path, and whether the request had a credential.
    pub file_requests: Vec<(String, bool)>,
    pub(super) times: Times,
    next: u64,
}

/// A GitHub App.
#[derive(Default, Debug, Clone)]
pub struct App {
    /// The ID.
    pub id: u64,
    /// The slug.
    pub slug: String,
    /// The owners without an installation.
    pub missing: Vec<String>,
    /// The number of tokens that were issued.
    pub issued: u64,
    /// The permissions that the installations have only for reading.
    pub only_read: Vec<&'static str>,
    /// `true` if tokens get what `only_read` leaves of the permissions, instead of being refused.
    pub grants_less: bool,
    /// `true` if the installations have granted that workflows may be changed.
    pub has_workflows: bool,
    /// The owners who have suspended their installations.
    pub suspended: Vec<String>,
}

impl State {
    /// The token of the user `journeyman-bot`.
    pub const TOKEN: &str = "tok_journeyman-bot.0123456789abcdef";

    /// The ID of the user `journeyman-bot`.
    pub const BOT: u64 = 7001;

    pub(super) fn new(url: String) -> Self {
        let bot = User { id: Self::BOT, name: "journeyman-bot".to_owned(), is_bot: false };
        let token = Token { user: Self::BOT, can_write: true, ..Token::default() };
        let tokens = [(Self::TOKEN.to_owned(), token)].into();
        Self {
            url,
            users: vec![bot],
            tokens,
            repositories: Vec::new(),
            app: None,
            manifest_codes: BTreeMap::new(),
            labeler: Self::BOT,
            closed: BTreeSet::new(),
            has_issue_team: false,
            hides_teams: false,
            instance_builds: Vec::new(),
            ignores_permissions: false,
            lacks_replies: false,
            named: String::new(),
            files: BTreeMap::new(),
            file_requests: Vec::new(),
            times: Times::default(),
            next: 100,
        }
    }

    /// Returns a new ID.
    pub fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn add_repository(&mut self, path: &str, folder: String) {
        let id = self.id();
        let permissions = [(Self::BOT, "write")].into();
        self.repositories.push(Repository { id, path: path.to_owned(), folder, permissions, ..Repository::default() });
    }

    /// Adds a user with a permission (`admin`, `write`, `read`; empty for none) on all repositories, and returns the ID.
    pub fn add_user(&mut self, name: &str, permission: &'static str) -> u64 {
        let id = self.id();
        self.users.push(User { id, name: name.to_owned(), is_bot: false });
        for repository in self.repositories.iter_mut().filter(|_| !permission.is_empty()) {
            repository.permissions.insert(id, permission);
        }
        id
    }

    /// Finds a user by the ID.
    #[must_use]
    pub fn user(&self, id: u64) -> User {
        self.users.iter().find(|user| user.id == id).cloned().unwrap()
    }

    /// Finds a repository by its current path.
    pub fn by_path(&mut self, path: &str) -> Option<&mut Repository> {
        self.repositories.iter_mut().find(|repository| repository.path.eq_ignore_ascii_case(path))
    }

    /// Finds a repository by its ID.
    pub fn by_id(&mut self, id: u64) -> Option<&mut Repository> {
        self.repositories.iter_mut().find(|repository| repository.id == id)
    }

    /// Finds the repository that had a path before, unless another one has it now.
    #[must_use]
    pub fn renamed(&self, path: &str) -> Option<&Repository> {
        if self.repositories.iter().any(|repository| repository.path == path) {
            return None;
        }
        self.repositories.iter().find(|repository| repository.old_paths.iter().any(|old| old == path))
    }

    /// Renames a repository.
    pub fn rename(&mut self, from: &str, to: &str) {
        let repository = self.by_path(from).unwrap();
        repository.old_paths.push(from.to_owned());
        to.clone_into(&mut repository.path);
    }

    /// Returns the user and the token of a request, unless the token is unknown or has expired.
    #[must_use]
    pub fn signed_in(&self, token: Option<&str>) -> Option<(User, Token)> {
        let token = self.tokens.get(token?).filter(|token| !token.is_expired)?;
        Some((self.user(token.user), token.clone()))
    }

    /// Adds a comment, and returns its ID.
    pub fn add_comment(&mut self, path: &str, target: CommentedOn, author: u64, body: &str) -> u64 {
        let id = self.id();
        let comment = Comment { id, target, author, body: body.to_owned(), reactions: Vec::new() };
        self.by_path(path).unwrap().comments.push(comment);
        id
    }

    /// Adds a submitted review with comments on lines: the path, the line, and the text of each. Returns its ID.
    pub fn add_review(
        &mut self,
        path: &str,
        pull: u64,
        author: u64,
        body: &str,
        lines: Vec<(String, u64, String)>,
    ) -> u64 {
        let id = self.id();
        let comments = lines.into_iter().map(|(path, line, body)| {
            let id = self.id();
            ReviewComment { id, body, path, line, reactions: Vec::new() }
        });
        let review = Review { id, pull, author, body: body.to_owned(), comments: comments.collect() };
        self.by_path(path).unwrap().reviews.push(review);
        id
    }

    /// Ends a pull request.
    pub fn end(&mut self, path: &str, number: u64, state: PullState) {
        let repository = self.by_path(path).unwrap();
        let branches = repository.branches.clone();
        let pull = repository.pulls.iter_mut().find(|pull| pull.number == number).unwrap();
        pull.ended_sha = branches.get(&pull.head).cloned();
        pull.state = state;
        pull.version += 1;
    }
}
