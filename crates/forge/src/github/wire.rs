//! The answers of GitHub, as far as the service needs them.

use journeyman_core::hook::HostReview;
use journeyman_core::ports::{Check, CheckState, LineComment, ThreadComment};
use journeyman_core::pull::{HostPull, PullState};
use serde::Deserialize;
use serde_json::Value;

use super::position::Located;
pub(super) use crate::json::User;
use crate::json::{Id, or_default, sha};

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) id: Id,
    pub(super) full_name: String,
    #[serde(default)]
    pub(super) default_branch: Option<String>,
    #[serde(default)]
    pub(super) archived: bool,
    #[serde(default)]
    pub(super) disabled: bool,
    #[serde(default)]
    pub(super) permissions: Option<Permissions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Permissions {
    #[serde(default)]
    pub(super) push: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct PullRequest {
    pub(super) number: u64,
    #[serde(default)]
    pub(super) node_id: String,
    html_url: String,
    state: String,
    #[serde(default)]
    pub(super) draft: bool,
    title: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    merged: bool,
    #[serde(default)]
    merged_at: Option<String>,
    head: End,
    base: End,
}

/// The head or the base of a pull request.
#[derive(Debug, Deserialize)]
struct End {
    #[serde(rename = "ref")]
    name: String,
    #[serde(default)]
    sha: String,
    /// `null` if the fork was deleted.
    #[serde(default)]
    repo: Option<EndRepository>,
}

#[derive(Debug, Deserialize)]
struct EndRepository {
    id: Id,
}

impl PullRequest {
    pub(super) fn into_pull(self) -> HostPull {
        let is_merged = self.merged || self.merged_at.is_some();
        let state = match self.state.as_str() {
            "open" => PullState::Open,
            _ if is_merged => PullState::Merged,
            _ => PullState::Closed,
        };
        let [head, base] = [&self.head, &self.base].map(|end| end.repo.as_ref().map(|repository| &repository.id));
        HostPull {
            number: self.number,
            url: self.html_url,
            state,
            draft: self.draft,
            title: self.title,
            body: self.body.unwrap_or_default(),
            head_sha: sha(&self.head.sha),
            is_from_fork: head != base,
            head: self.head.name,
            base: self.base.name,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub(super) html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) body: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReviewComment {
    id: Id,
    #[serde(default)]
    pub(super) pull_request_review_id: Id,
    #[serde(flatten)]
    located: Located,
    #[serde(default)]
    diff_hunk: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    #[serde(default)]
    updated_at: String,
    html_url: String,
}

impl ReviewComment {
    /// Returns the comment; `None` if it is on no file.
    pub(super) fn into_line(self) -> Option<LineComment> {
        Some(LineComment {
            position: self.located.position()?,
            thread: self.located.thread(&self.id.0),
            id: self.id.0,
            version: self.updated_at,
            body: self.body,
            url: self.html_url,
            hunk: self.diff_hunk,
            is_edited: false,
        })
    }

    /// Returns the comment with the ID of the first comment of its thread.
    pub(super) fn into_threaded(self) -> (String, ThreadComment) {
        let thread = self.located.thread(&self.id.0).and_then(|thread| thread.id);
        let comment = ThreadComment {
            id: self.id.0,
            author: self.user.into(),
            body: self.body,
            url: self.html_url,
            is_edited: false,
        };
        (thread.unwrap_or_else(|| comment.id.clone()), comment)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Review {
    id: Id,
    html_url: String,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    /// Absent while the review is a draft.
    #[serde(default)]
    submitted_at: Option<String>,
    #[serde(default)]
    state: String,
}

impl Review {
    /// Returns the review; `None` for a draft, and for one that was dismissed.
    pub(super) fn into_review(self) -> Option<HostReview> {
        let is_submitted = !matches!(self.state.as_str(), "PENDING" | "DISMISSED");
        Some(HostReview {
            id: self.id.0,
            version: self.submitted_at.filter(|_| is_submitted)?,
            url: self.html_url,
            author: self.user.into(),
            body: self.body,
            approves: self.state == "APPROVED",
        })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Granted {
    pub(super) permission: String,
    #[serde(default)]
    pub(super) user: Option<User>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckRuns {
    #[serde(default)]
    pub(super) check_runs: Vec<CheckRun>,
}

/// The runs of workflows of GitHub Actions.
#[derive(Debug, Deserialize)]
pub(super) struct WorkflowRuns {
    #[serde(default)]
    pub(super) workflow_runs: Vec<WorkflowRun>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkflowRun {
    pub(super) id: Id,
}

/// The jobs of a run of a workflow.
#[derive(Debug, Deserialize)]
pub(super) struct Jobs {
    #[serde(default)]
    pub(super) jobs: Vec<CheckRun>,
}

/// A check, or a job of GitHub Actions.
#[derive(Debug, Deserialize)]
pub(super) struct CheckRun {
    id: Id,
    name: String,
    status: String,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    html_url: Option<String>,
    #[serde(default)]
    details_url: Option<String>,
    #[serde(default)]
    output: Option<CheckOutput>,
    #[serde(default)]
    app: Option<CheckApp>,
}

#[derive(Debug, Deserialize)]
struct CheckOutput {
    #[serde(default)]
    title: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CheckApp {
    #[serde(default)]
    slug: Option<String>,
}

impl CheckRun {
    pub(super) fn into_check(self) -> Check {
        // A job of GitHub Actions has the same ID as its check, and a log.
        let is_job = self.app.as_ref().and_then(|app| app.slug.as_deref()) == Some("github-actions");
        Check { log: is_job.then(|| self.id.0.clone()), ..self.job_into_check() }
    }

    /// Converts a job of GitHub Actions.
    pub(super) fn job_into_check(self) -> Check {
        let state = match (self.status.as_str(), self.conclusion.as_deref()) {
            ("completed", Some("success" | "neutral")) => CheckState::Passed,
            ("completed", Some("skipped" | "cancelled" | "stale")) => CheckState::Skipped,
            ("completed", Some(_)) => CheckState::Failed,
            _ => CheckState::Pending,
        };
        Check {
            name: self.name,
            state,
            url: self.html_url.or(self.details_url),
            summary: self.output.and_then(|output| output.title),
            log: Some(self.id.0),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct CombinedStatus {
    #[serde(default)]
    pub(super) statuses: Vec<Status>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) context: String,
    state: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    target_url: Option<String>,
}

impl Status {
    pub(super) fn into_check(self) -> Check {
        let state = match self.state.as_str() {
            "success" => CheckState::Passed,
            "pending" => CheckState::Pending,
            _ => CheckState::Failed,
        };
        Check { name: self.context, state, url: self.target_url, summary: self.description, log: None }
    }
}

/// The answer to a query for the threads of a pull request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ThreadPage {
    pub(super) nodes: Vec<ReviewThread>,
    pub(super) page_info: PageInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PageInfo {
    pub(super) has_next_page: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) end_cursor: String,
}

/// A thread of comments on lines, as the GraphQL interface describes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ReviewThread {
    pub(super) id: String,
    pub(super) is_resolved: bool,
    comments: Nodes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Nodes {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    #[serde(default)]
    full_database_id: Id,
}

impl ReviewThread {
    /// Returns the ID of the first comment.
    pub(super) fn first(&self) -> Option<&str> {
        self.comments.nodes.first().map(|node| node.full_database_id.0.as_str())
    }
}

/// An answer of the GraphQL interface.
#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    #[serde(default)]
    pub(super) data: Value,
    #[serde(default)]
    pub(super) errors: Vec<GraphError>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphError {
    #[serde(default)]
    pub(super) message: String,
}
