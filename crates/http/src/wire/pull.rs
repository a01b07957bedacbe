//! The wire format of a job's pull requests.

use journeyman_core::pull::{LocalPull, PullState};
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

/// A pull request of a job. On code hosts other than the built-in one, only the number and the URL are known.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobPull {
    number: u64,
    url: String,
    #[schema(required)]
    state: Option<PullRequestState>,
    #[schema(required)]
    draft: Option<bool>,
    #[schema(required)]
    title: Option<String>,
    /// The description, in Markdown.
    #[schema(required)]
    body: Option<String>,
    /// The branch with the commits.
    #[schema(required)]
    head: Option<String>,
    /// The branch to merge into.
    #[schema(required)]
    base: Option<String>,
    labels: Vec<String>,
    #[schema(required, format = DateTime)]
    created_at: Option<String>,
    /// The time at which the pull request was merged or closed.
    #[schema(required, format = DateTime)]
    ended_at: Option<String>,
}

impl JobPull {
    /// Describes a pull request of the built-in code host, or, if `known` is `None`, of another one.
    pub(crate) fn of(number: u64, url: String, known: Option<LocalPull>) -> Self {
        let Some(pull) = known else {
            return Self {
                number,
                url,
                state: None,
                draft: None,
                title: None,
                body: None,
                head: None,
                base: None,
                labels: Vec::new(),
                created_at: None,
                ended_at: None,
            };
        };
        Self {
            number,
            url,
            state: Some(pull.state.into()),
            draft: Some(pull.draft),
            title: Some(pull.title),
            body: Some(pull.body),
            head: Some(pull.head),
            base: Some(pull.base),
            labels: pull.labels,
            created_at: Some(pull.created_at.to_string()),
            ended_at: pull.ended_at.map(|at| at.to_string()),
        }
    }
}

/// The list of all pull requests of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPullList {
    /// The pull requests, oldest first. A follow-up message opens a new one if the last one was merged or closed.
    pub(crate) pulls: Vec<JobPull>,
}
