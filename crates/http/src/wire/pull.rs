//! The wire format of a job's pull requests.

use journeyman_core::pull::{IndexedPull, LocalPull, PullState};
use serde::Serialize;
use utoipa::ToSchema;

/// The state of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PullRequestState {
    /// The pull request is neither merged nor closed.
    Open,
    /// The pull request was merged.
    Merged,
    /// The pull request was closed without being merged.
    Closed,
}

impl From<PullState> for PullRequestState {
    fn from(state: PullState) -> Self {
        match state {
            PullState::Open => Self::Open,
            PullState::Merged => Self::Merged,
            PullState::Closed => Self::Closed,
        }
    }
}

/// A pull request of a job. The title, the text and the labels of those on other code hosts than the built-in one are
/// on the code host.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobPull {
    number: u64,
    url: String,
    /// The state, as the code host last reported it.
    state: PullRequestState,
    #[schema(required)]
    draft: Option<bool>,
    #[schema(required)]
    title: Option<String>,
    /// The description, in Markdown.
    #[schema(required)]
    body: Option<String>,
    /// The branch with the commits.
    head: String,
    /// The branch to merge into.
    #[schema(required)]
    base: Option<String>,
    labels: Vec<String>,
    /// The time at which the job opened it.
    #[schema(format = DateTime)]
    created_at: String,
    /// The time at which the pull request was merged or closed.
    #[schema(required, format = DateTime)]
    ended_at: Option<String>,
}

impl JobPull {
    /// Describes a pull request; `local` is what the built-in code host knows about it.
    pub(crate) fn of(pull: IndexedPull, local: Option<LocalPull>) -> Self {
        let ended_at = local.as_ref().and_then(|local| local.ended_at);
        let state = local.as_ref().map_or(pull.state, |local| local.state);
        Self {
            number: pull.number,
            url: pull.url,
            state: state.into(),
            head: pull.head,
            created_at: pull.created_at.to_string(),
            ended_at: ended_at.map(|at| at.to_string()),
            draft: local.as_ref().map(|local| local.draft),
            base: local.as_ref().map(|local| local.base.clone()),
            labels: local.as_ref().map(|local| local.labels.clone()).unwrap_or_default(),
            body: local.as_ref().map(|local| local.body.clone()),
            title: local.map(|local| local.title),
        }
    }
}

/// The list of all pull requests of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPullList {
    /// The pull requests, oldest first. A follow-up message opens a new one if the last one was merged or closed.
    pub(crate) pulls: Vec<JobPull>,
}
