//! The answers of Gitea and Forgejo, as far as the service needs them.

use std::collections::HashMap;

use journeyman_core::checks::{Check, CheckState};
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::{HostThread, LineComment, Said, ThreadComment};
use journeyman_core::hook::{HostReview, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::position::{DiffSide, Position, Thread};
use journeyman_core::pull::HostPull;
use journeyman_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::json::{Id, or_default, sha};

/// The prefix that the service writes before the title of a draft.
const DRAFT: &str = "WIP: ";

/// The prefixes that mark a draft, unless the settings of a server have others.
const DRAFTS: [&str; 2] = ["wip:", "[wip]"];

/// Returns the title without a prefix that marks a draft.
fn undrafted(title: &str) -> &str {
    let after = |prefix: &&str| {
        let (start, rest) = title.split_at_checked(prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then(|| rest.trim_start())
    };
    DRAFTS.iter().find_map(after).unwrap_or(title)
}

/// Returns the title with the prefix of a draft, or without one.
pub(super) fn titled(title: &str, draft: bool) -> String {
    let title = undrafted(title);
    if draft { format!("{DRAFT}{title}") } else { title.to_owned() }
}

/// A user. The answers have the name twice, as `login` and as `username`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) id: Id,
    pub(super) login: String,
}

impl From<User> for HostUser {
    fn from(user: User) -> Self {
        // Bots have accounts like people.
        Self { id: user.id.0, name: user.login, is_bot: false }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) id: Id,
    pub(super) full_name: String,
    #[serde(default)]
    pub(super) default_branch: Option<String>,
    #[serde(default)]
    pub(super) archived: bool,
    #[serde(default)]
    pub(super) permissions: Option<Permissions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Permissions {
    #[serde(default)]
    pub(super) push: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Branch {
    pub(super) commit: Commit,
}

#[derive(Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct PullRequest {
    number: u64,
    html_url: String,
    state: String,
    /// Missing before version 1.22.
    #[serde(default)]
    draft: Option<bool>,
    title: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    merged: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) assignees: Vec<User>,
    head: End,
    base: End,
    /// Forgejo: 1 if someone has pushed the commits to a reference for review, and no branch has them.
    #[serde(default)]
    flow: u64,
}

/// The head or the base of a pull request.
#[derive(Debug, Deserialize)]
struct End {
    /// The name of the branch, also after it was deleted.
    #[serde(default)]
    label: String,
    /// The name of the branch, or `refs/pull/…` after it was deleted.
    #[serde(rename = "ref")]
    name: String,
    #[serde(default)]
    sha: String,
    /// −1 if the fork was deleted.
    #[serde(default)]
    repo_id: Id,
}

impl End {
    fn branch(&self) -> &str {
        if self.label.is_empty() { &self.name } else { &self.label }
    }
}

impl PullRequest {
    fn is_from_fork(&self) -> bool {
        self.flow == 1 || self.head.repo_id != self.base.repo_id
    }

    /// Returns whether the pull request is that of a branch of the repository.
    pub(super) fn is_of(&self, branch: &str) -> bool {
        self.head.branch() == branch && !self.is_from_fork()
    }

    /// Describes the pull request. Once it has ended, hosts show the newest commit of its branch, which may have been
    /// pushed later, so its own one is left out.
    pub(super) fn into_pull(self) -> HostPull {
        let state = match self.state.as_str() {
            "open" => PullState::Open,
            _ if self.merged => PullState::Merged,
            _ => PullState::Closed,
        };
        let title = undrafted(&self.title);
        let draft = self.draft.unwrap_or(title != self.title);
        let is_from_fork = self.is_from_fork();
        HostPull {
            number: self.number,
            url: self.html_url,
            state,
            draft,
            title: if draft { title.to_owned() } else { self.title },
            body: self.body.unwrap_or_default(),
            head_sha: sha(&self.head.sha).filter(|_| state == PullState::Open),
            is_from_fork,
            head: self.head.branch().to_owned(),
            base: self.base.branch().to_owned(),
        }
    }
}

/// The references of a repository that begin with a name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum References {
    /// The only one, which has exactly this name.
    One(Reference),
    /// All of them.
    All(Vec<Reference>),
}

impl References {
    /// Returns the commit of a reference.
    pub(super) fn commit(&self, name: &str) -> Option<Sha> {
        let all = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::All(all) => all.as_slice(),
        };
        all.iter().find(|one| one.name == name).and_then(|one| sha(&one.object.sha))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Reference {
    #[serde(rename = "ref")]
    name: String,
    object: Object,
}

#[derive(Debug, Deserialize)]
struct Object {
    #[serde(default)]
    sha: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Label {
    pub(super) id: i64,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    #[serde(default)]
    pub(super) id: Id,
    pub(super) html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) body: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
}

/// An entry of the timeline of an issue.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
    /// `1` for a label that was added, and empty for one that was removed.
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default)]
    label: Value,
    #[serde(default, deserialize_with = "or_default")]
    assignee: User,
    #[serde(default, deserialize_with = "or_default")]
    removed_assignee: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) created_at: String,
}

impl Change {
    /// Returns whether the label was added.
    pub(super) fn adds(&self, label: &str) -> bool {
        let name = self.label["name"].as_str().unwrap_or_default();
        self.kind == "label" && self.body == "1" && name.eq_ignore_ascii_case(label)
    }

    /// Returns whether the user was assigned.
    pub(super) fn assigns(&self, user: &HostUser) -> bool {
        self.kind == "assignees" && !self.removed_assignee && self.assignee.id.0 == user.id
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Review {
    #[serde(default)]
    id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
    #[serde(default, deserialize_with = "or_default")]
    state: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    dismissed: bool,
    /// The number of comments on lines.
    #[serde(default)]
    comments_count: Option<u64>,
    /// The time at which the reviewer began to write.
    #[serde(default, deserialize_with = "or_default")]
    submitted_at: String,
    #[serde(default, deserialize_with = "or_default")]
    updated_at: String,
    /// Empty if the review has no comment of its own.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    pull_request_url: String,
}

impl Review {
    /// Returns the ID.
    pub(super) fn id(&self) -> &str {
        &self.id.0
    }

    /// Returns whether there may be comments on lines.
    pub(super) fn has_comments(&self) -> bool {
        self.comments_count != Some(0)
    }

    /// Returns the ID of the comment that has the text; it is in the address of the review.
    pub(super) fn comment(&self) -> Option<&str> {
        self.html_url.rsplit_once("#issuecomment-").map(|(_, comment)| comment)
    }

    /// Returns what orders reviews by their submission. The submission updates a review that was a draft before.
    pub(super) fn age(&self) -> (Option<Timestamp>, u64) {
        let time = |text: &str| text.parse().ok();
        (time(&self.updated_at).or_else(|| time(&self.submitted_at)), self.id.0.parse().unwrap_or_default())
    }

    /// Returns the review; `None` for a draft, for a request to review, and for a review that was dismissed.
    pub(super) fn into_review(self) -> Option<HostReview> {
        let is_submitted = matches!(self.state.as_str(), "APPROVED" | "COMMENT" | "REQUEST_CHANGES");
        (is_submitted && !self.dismissed).then(|| HostReview {
            approves: self.state == "APPROVED",
            id: self.id.0,
            version: self.submitted_at,
            url: if self.html_url.is_empty() { self.pull_request_url } else { self.html_url },
            author: self.user.into(),
            body: self.body,
        })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ReviewComment {
    id: Id,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
    path: String,
    /// The line in the new version; 0 for a removed line.
    #[serde(default)]
    position: u64,
    /// The line in the old version; 0 for other lines.
    #[serde(default)]
    original_position: u64,
    /// The commit that has written the line.
    #[serde(default, deserialize_with = "or_default")]
    commit_id: String,
    /// The user who has marked the thread as resolved.
    #[serde(default, deserialize_with = "or_default")]
    resolver: User,
    #[serde(default)]
    diff_hunk: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    updated_at: String,
    html_url: String,
}

impl ReviewComment {
    /// Returns the line and the version of the file that it is numbered in.
    fn line(&self) -> Option<(u64, DiffSide)> {
        let lines = [(self.position, DiffSide::New), (self.original_position, DiffSide::Old)];
        lines.into_iter().find(|(line, _)| *line > 0)
    }

    /// Returns the ID.
    pub(super) fn id(&self) -> &str {
        &self.id.0
    }

    /// Returns the key that sorts comments in the order of the diff.
    pub(super) fn sort_key(&self) -> (String, Option<u64>, u64) {
        (self.path.clone(), self.line().map(|(line, _)| line), self.number())
    }

    fn number(&self) -> u64 {
        self.id.0.parse().unwrap_or_default()
    }

    /// Returns whether two comments of a review are in the same thread: they are on the same line.
    fn is_with(&self, other: &Self) -> bool {
        (&self.path, self.line()) == (&other.path, other.line())
    }

    /// Returns the thread of a comment; `all` are those of its review. The host has no IDs of threads, so it is that of the
    /// first comment.
    pub(super) fn thread(&self, all: &[Self]) -> Thread {
        let same = all.iter().filter(|other| self.is_with(other));
        let first = same.clone().min_by_key(|other| other.number()).map_or(self.id(), Self::id).to_owned();
        let parent = (first != self.id.0).then(|| first.clone());
        // The host marks one of the comments.
        let is_resolved = same.clone().any(|other| !other.resolver.id.0.is_empty());
        Thread { id: Some(first), parent, is_resolved: Some(is_resolved) }
    }

    /// Returns the threads of the comments of a review, each with the comments oldest first.
    pub(super) fn into_threads(mut all: Vec<Self>) -> Vec<HostThread> {
        all.sort_by_key(Self::number);
        let threads: Vec<Thread> = all.iter().map(|comment| comment.thread(&all)).collect();
        let mut found: Vec<HostThread> = Vec::new();
        for (thread, comment) in threads.into_iter().zip(all) {
            let (id, is_resolved) = (thread.id.unwrap_or_default(), thread.is_resolved);
            let comment = ThreadComment {
                is_edited: comment.created_at != comment.updated_at,
                id: comment.id.0,
                author: comment.user.into(),
                body: comment.body,
                url: comment.html_url,
            };
            match found.iter_mut().find(|known| known.id == id) {
                Some(known) => known.comments.push(comment),
                None => found.push(HostThread { id, is_resolved, comments: vec![comment] }),
            }
        }
        found
    }

    /// Converts the comment, which is in a thread and belongs to a review, as part of a conversation.
    pub(super) fn into_said(self, thread: Thread, review: &str) -> Said {
        let (at, author) = (self.updated_at.parse().ok(), self.user.clone().into());
        Said::of_line(self.into_line(thread), author, Some(review.to_owned()), at)
    }

    /// Converts the comment, which is in a thread.
    pub(super) fn into_line(self, thread: Thread) -> LineComment {
        let path = self.path.clone();
        let position = match self.line() {
            Some(line) => Position::between(path, None, line),
            None => Position::somewhere_in(path),
        };
        LineComment {
            id: self.id.0,
            version: self.updated_at.clone(),
            body: self.body,
            url: self.html_url,
            // The host does not tell whether the line was changed: the commit is the one that has written it.
            position: Position { commit: sha(&self.commit_id), ..position },
            hunk: self.diff_hunk.filter(|hunk| !hunk.is_empty()),
            thread: Some(thread),
            // A push that outdates the line changes the time too.
            is_edited: self.created_at != self.updated_at,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Granted {
    pub(super) permission: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
}

/// A team of an organization that has access to a repository.
#[derive(Debug, Deserialize)]
pub(super) struct Team {
    #[serde(default)]
    pub(super) id: Id,
    #[serde(default)]
    permission: String,
    /// The permission on each part of the repository.
    #[serde(default, deserialize_with = "or_default")]
    units_map: HashMap<String, String>,
}

impl Team {
    /// Returns whether all members may push.
    pub(super) fn may_push(&self) -> bool {
        let on_code = self.units_map.get("repo.code").map_or("", String::as_str);
        matches!(self.permission.as_str(), "admin" | "owner") || matches!(on_code, "write" | "admin" | "owner")
    }

    /// Returns whether its members may write something else, such as issues, but not push.
    pub(super) fn writes_without_code(&self) -> bool {
        let writes = |permission: &str| matches!(permission, "write" | "admin");
        !self.may_push() && (writes(&self.permission) || self.units_map.values().any(|permission| writes(permission)))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct CombinedStatus {
    /// The newest of each context.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) statuses: Vec<Status>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) context: String,
    status: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    target_url: String,
}

impl Status {
    /// `base` is the address of the interface.
    pub(super) fn into_check(self, base: &str, sha: &Sha) -> Check {
        let state = match self.status.as_str() {
            "success" | "warning" => CheckState::Passed,
            "pending" => CheckState::Pending,
            "skipped" => CheckState::Skipped,
            _ => CheckState::Failed,
        };
        // The pages of Actions have an address without a host.
        let url = Url::parse(base).and_then(|base| base.join(&self.target_url)).ok();
        Check {
            url: url.filter(|_| !self.target_url.is_empty()).map(Into::into),
            log: JobPage::of(sha, &self.target_url).map(|page| page.to_string()),
            summary: Some(self.description).filter(|text| !text.is_empty()),
            ..Check::new(self.context, state)
        }
    }
}

/// The page of a job of Actions: `/<owner>/<name>/actions/runs/<run>/jobs/<job>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobPage {
    /// The commit.
    pub(super) sha: String,
    /// The ID of the run, or before version 1.26 of Gitea and on Forgejo its number in the repository.
    run: u64,
    /// The ID of the job, or in the same cases its position in the run, from 0.
    job: u64,
}

impl std::fmt::Display for JobPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.sha, self.run, self.job)
    }
}

impl JobPage {
    /// Reads the address of a page. Those of other CI systems have a host.
    fn of(sha: &Sha, url: &str) -> Option<Self> {
        let path = url.strip_prefix('/')?;
        let mut parts = path.split_once("/actions/runs/")?.1.split('/');
        let run = parts.next()?.parse().ok()?;
        let job = parts.next().filter(|part| *part == "jobs").and_then(|_| parts.next())?.parse().ok()?;
        Some(Self { sha: sha.to_string(), run, job })
    }

    /// Parses the written form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let sha = parts.next().and_then(sha)?.to_string();
        Some(Self { sha, run: parts.next()?.parse().ok()?, job: parts.next()?.parse().ok()? })
    }

    /// Returns whether the page is of the run with this page.
    pub(super) fn is_of_run(&self, url: &str) -> bool {
        url.ends_with(&format!("/actions/runs/{}", self.run))
    }

    /// Returns the ID of the job with this page; `jobs` are those of the run. Forgejo does not tell their pages.
    pub(super) fn find(&self, jobs: Vec<Job>) -> Option<String> {
        let end = format!("/actions/runs/{}/jobs/{}", self.run, self.job);
        let position = usize::try_from(self.job).ok();
        let is_it = |(index, job): &(usize, Job)| match &job.html_url {
            Some(url) => url.ends_with(&end),
            None => Some(*index) == position,
        };
        jobs.into_iter().enumerate().find(is_it).map(|(_, job)| job.id.0)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Runs {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) workflow_runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Run {
    pub(super) id: Id,
    #[serde(default)]
    pub(super) html_url: String,
}

/// The jobs of a run.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Jobs {
    /// A list of all jobs: the form of Forgejo.
    All(Vec<Job>),
    /// A page of jobs: the form of Gitea.
    Page {
        #[serde(default, deserialize_with = "or_default")]
        jobs: Vec<Job>,
    },
}

impl Jobs {
    pub(super) fn into_list(self) -> Vec<Job> {
        let (Self::Page { jobs } | Self::All(jobs)) = self;
        jobs
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Job {
    id: Id,
    #[serde(default)]
    html_url: Option<String>,
}

#[cfg(test)]
mod tests;
