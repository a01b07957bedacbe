//! Pull requests of projects.

use serde::{Deserialize, Serialize};

use super::job::{NotCompared, PullConflicts, PullRequestState};

open_enum! {
    /// The way in which the commits of a pull request get into the base branch.
    PullRequestMergeMethod {
        /// A merge commit joins the branches.
        Merge = "merge",
        /// One commit has all changes.
        Squash = "squash",
        /// The commits are repeated on top of the base branch, without merges.
        Rebase = "rebase",
    }
}

/// A pull request to open for a branch that was pushed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenPullRequest {
    /// The branch with the commits.
    pub head: String,
    /// The branch to merge into; `None` means the default branch of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The title.
    pub title: String,
    /// The description, in Markdown.
    pub body: String,
    /// `true` to open it as a draft.
    pub draft: bool,
}

impl OpenPullRequest {
    /// Returns a pull request into the default branch, without a description.
    pub fn new(head: impl Into<String>, title: impl Into<String>) -> Self {
        Self { head: head.into(), base: None, title: title.into(), body: String::new(), draft: false }
    }

    /// Sets `base`.
    #[must_use]
    pub fn base(mut self, value: impl Into<String>) -> Self {
        self.base = Some(value.into());
        self
    }

    /// Sets `body`.
    #[must_use]
    pub fn body(mut self, value: impl Into<String>) -> Self {
        self.body = value.into();
        self
    }

    /// Sets `draft`.
    #[must_use]
    pub fn draft(mut self, value: bool) -> Self {
        self.draft = value;
        self
    }
}

/// A pull request of a project. The text, the labels and the base branch of those on other code hosts than the built-in
/// one are on the code host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProjectPull {
    /// The number.
    pub number: u64,
    /// The URL.
    pub url: String,
    /// The state, as the code host last reported it.
    pub state: PullRequestState,
    /// `true` if it was a draft when the code host was last asked.
    pub draft: Option<bool>,
    /// The title, as the code host last reported it; `None` if it is not known.
    pub title: Option<String>,
    /// The description, in Markdown.
    pub body: Option<String>,
    /// The branch with the commits.
    pub head: String,
    /// The branch to merge into.
    pub base: Option<String>,
    /// The labels.
    pub labels: Vec<String>,
    /// The ID of the job that opened it or works on it; `None` if there is none.
    pub job: Option<String>,
    /// `true` if it can be merged now, `false` if its branches conflict or do not exist; `None` in lists, if it has
    /// ended, and on other code hosts.
    pub mergeable: Option<bool>,
    /// The files in which it conflicts with its base; `None` if it has ended, or if they could not be found out.
    #[serde(default)]
    pub conflicts: Option<PullConflicts>,
    /// The number of commits of its base that it does not have, at most 1,000; `None` like `conflicts`.
    #[serde(default)]
    pub behind: Option<u64>,
    /// The time at which it was compared with its base; `None` if it has ended, or if it was not compared yet.
    #[serde(default)]
    pub compared_at: Option<String>,
    /// Why it was not compared with its base; `None` if it was, or if it has ended.
    #[serde(default)]
    pub not_compared: Option<NotCompared>,
    /// The time at which it was opened; on other code hosts, the time at which the job opened it or began to work on it.
    pub created_at: String,
    /// The time at which it was merged or closed; on other code hosts, the time at which this was recorded.
    pub ended_at: Option<String>,
    /// The name of the user or key that merged or closed it on the built-in code host; `None` if it is open, if its
    /// branches were merged by hand, if an older version recorded its end, and on other code hosts.
    pub ended_by: Option<String>,
    /// The merge commit on the built-in code host; `None` if it is not merged, if the base already contained its commits
    /// without one, if an older version recorded the merge, and on other code hosts.
    pub merge_commit: Option<String>,
}
