//! The answers of GitHub, as far as the service needs them.

use journeyman_core::checks::{Check, CheckState};
use journeyman_core::code_host::PullState;
use journeyman_core::code_host::expiry::Expiry;
use journeyman_core::conversation::{LineComment, Said, ThreadComment};
use journeyman_core::hook::HostReview;
use journeyman_core::pull::HostPull;
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
    #[serde(default)]
    pub(super) id: Id,
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

    /// Converts the comment as part of a conversation; `None` if it is on no file.
    pub(super) fn into_said(self) -> Option<Said> {
        let review = Some(self.pull_request_review_id.0.clone()).filter(|id| !id.is_empty());
        let (at, author) = (self.updated_at.parse().ok(), self.user.clone().into());
        Some(Said::of_line(self.into_line()?, author, review, at))
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
    /// Returns the page.
    pub(super) fn into_url(self) -> String {
        self.html_url
    }

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
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    status: String,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    html_url: Option<String>,
}

impl WorkflowRun {
    /// Returns a check if the run waits for a person. Until someone approves it, it may have no jobs.
    pub(super) fn waiting(&self) -> Option<Check> {
        let state = state_of(&self.status, self.conclusion.as_deref());
        let name = if self.name.is_empty() { "GitHub Actions" } else { &self.name };
        let summary = Some("The workflow waits for an approval on its page.".to_owned());
        let check = || Check { url: self.html_url.clone(), summary, ..Check::new(name, state) };
        (state == CheckState::Waiting).then(check)
    }
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

/// What an app has written about the result of a check. The fields are those of `output` of a check run in GitHub's REST
/// description.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CheckOutput {
    pub(super) title: Option<String>,
    /// Markdown.
    pub(super) summary: Option<String>,
    /// Markdown.
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) annotations_count: u64,
}

impl CheckOutput {
    /// Returns whether there is more than a title.
    fn has_text(&self) -> bool {
        let is_written = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.trim().is_empty());
        is_written(&self.summary) || is_written(&self.text) || self.annotations_count > 0
    }
}

/// A remark of a check about lines of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Annotation {
    #[serde(deserialize_with = "or_default")]
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
    /// `notice`, `warning` or `failure`.
    #[serde(deserialize_with = "or_default")]
    annotation_level: String,
    title: Option<String>,
    message: Option<String>,
    raw_details: Option<String>,
}

impl Annotation {
    /// Returns the text of the annotation: the position, the level, and what the app says.
    pub(super) fn text(&self) -> String {
        let lines = match (self.start_line, self.end_line) {
            (Some(start), Some(end)) if end > start => format!(":{start}-{end}"),
            (Some(start), _) => format!(":{start}"),
            (None, _) => String::new(),
        };
        let parts = [&self.title, &self.message, &self.raw_details];
        let parts: Vec<&str> =
            parts.into_iter().flatten().map(String::as_str).filter(|part| !part.is_empty()).collect();
        format!("{}{lines}: {}: {}", self.path, self.annotation_level, parts.join("\n"))
    }
}

/// The beginning of the ID of a report. The IDs of logs are numbers.
pub(super) const REPORT: &str = "check-run/";

/// Returns the state of a check run, a job or a run of a workflow, which have the same values. A conclusion of
/// `action_required` and a status of `waiting` need a person: an approval, a deployment review, or what the app asks for.
fn state_of(status: &str, conclusion: Option<&str>) -> CheckState {
    match (status, conclusion) {
        ("completed", Some("success" | "neutral")) => CheckState::Passed,
        ("completed", Some("skipped" | "cancelled" | "stale")) => CheckState::Skipped,
        ("completed", Some("action_required")) | ("waiting" | "action_required", _) => CheckState::Waiting,
        ("completed", Some(_)) => CheckState::Failed,
        _ => CheckState::Pending,
    }
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
        let has_report = self.output.as_ref().is_some_and(CheckOutput::has_text);
        Check {
            log: is_job.then(|| self.id.0.clone()),
            report: has_report.then(|| format!("{REPORT}{}", self.id.0)),
            ..self.job_into_check()
        }
    }

    /// Converts a job of GitHub Actions.
    pub(super) fn job_into_check(self) -> Check {
        let state = state_of(&self.status, self.conclusion.as_deref());
        Check {
            url: self.html_url.or(self.details_url),
            summary: self.output.and_then(|output| output.title),
            log: Some(self.id.0),
            ..Check::new(self.name, state)
        }
    }

    /// Returns the report: what the app has written about the result.
    pub(super) fn into_output(self) -> CheckOutput {
        self.output.unwrap_or_default()
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
        Check { url: self.target_url, summary: self.description, ..Check::new(self.context, state) }
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

/// A part of a pull request, with its ID in the GraphQL interface.
#[derive(Debug, Deserialize)]
pub(super) struct Identified {
    pub(super) node_id: String,
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

/// Parses the end of a token, such as `2027-01-31 08:15:54 UTC` or `2027-01-31 08:15:54 -0700`.
pub(super) fn expiry(text: &str) -> Expiry {
    let mut parts = text.split_whitespace();
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return Expiry::Unknown };
    let zone = parts.next().filter(|zone| *zone != "UTC").unwrap_or("Z");
    format!("{day}T{time}{zone}").parse().map_or(Expiry::Unknown, Expiry::At)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_the_description_of_the_interface_lacks_are_known() {
        for (status, conclusion, expected) in [
            ("completed", Some("stale"), CheckState::Skipped),
            ("completed", Some("startup_failure"), CheckState::Failed),
            ("completed", Some("action_required"), CheckState::Waiting),
            ("waiting", None, CheckState::Waiting),
            ("requested", None, CheckState::Pending),
            ("queued", None, CheckState::Pending),
        ] {
            assert_eq!(state_of(status, conclusion), expected, "{status} {conclusion:?}");
        }
    }

    #[test]
    fn the_end_of_a_token_has_a_zone() {
        for (text, expected) in [
            ("2027-01-31 08:15:54 UTC", "2027-01-31T08:15:54Z"),
            ("2027-01-31 08:15:54 -0700", "2027-01-31T15:15:54Z"),
            ("2027-01-31 08:15:54", "2027-01-31T08:15:54Z"),
        ] {
            assert_eq!(expiry(text), Expiry::At(expected.parse().unwrap()), "{text}");
        }
        for text in ["", "soon", "2027-01-31", "2027-13-31 08:15:54 UTC"] {
            assert_eq!(expiry(text), Expiry::Unknown, "{text}");
        }
    }
}
