//! Pull requests of projects.

use reqwest::Method;
use serde_json::json;

use crate::call::Call;
use crate::client::Client;
use crate::models::{OpenPullRequest, ProjectPull, PullRequestMergeMethod, PullRequestState};
use crate::pager::Pager;

/// The operations on the pull requests of projects. For those of one job, see
/// [`JobHandle::pulls`](crate::JobHandle::pulls).
#[derive(Debug, Clone)]
pub struct Pulls {
    pub(crate) client: Client,
}

impl Pulls {
    /// Lists the pull requests of a project in a state, by default those that are open, newest first. On other code hosts
    /// than the built-in one, these are those of jobs.
    pub fn list(&self, project: &str, state: Option<PullRequestState>) -> Pager<ProjectPull> {
        let state = state.map(|state| ("state", state.to_string()));
        self.client.list(&["v2", "projects", project, "pulls"], "pulls").pairs(state.into_iter().collect())
    }

    /// Opens a pull request on the built-in code host for a branch that was pushed. If the branch has an open one with the
    /// same values, returns that one.
    pub fn open(&self, project: &str, new: &OpenPullRequest) -> Call<ProjectPull> {
        self.client.call(Method::POST, &["v2", "projects", project, "pulls"]).harmless().json(new)
    }

    /// Returns a pull request of the built-in code host, and whether it can be merged now.
    pub fn get(&self, project: &str, number: u64) -> Call<ProjectPull> {
        let number = number.to_string();
        self.client.get(&["v2", "projects", project, "pulls", &number])
    }

    /// Merges a pull request of the built-in code host with a merge commit. Merging it again changes nothing.
    pub fn merge(&self, project: &str, number: u64) -> Call<ProjectPull> {
        let number = number.to_string();
        self.client.call(Method::POST, &["v2", "projects", project, "pulls", &number, "merge"]).harmless()
    }

    /// Merges a pull request of the built-in code host. Merging it again changes nothing.
    pub fn merge_with(&self, project: &str, number: u64, method: &PullRequestMergeMethod) -> Call<ProjectPull> {
        self.merge(project, number).json(&json!({ "method": method }))
    }
}
