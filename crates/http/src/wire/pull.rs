//! Pull requests of a job.

use journeyman_core::pull::{LocalPull, PullState};
use serde::Serialize;
use utoipa::ToSchema;

/// The state of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PullRequestState {
    /// It can be merged.
    Open,
    /// It was merged.
    Merged,
    /// It was closed without being merged.
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

/// A pull request of a job. Of one at another code host only number and URL are known.
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
    /// The branch that they are to be merged into.
    #[schema(required)]
    base: Option<String>,
    labels: Vec<String>,
    #[schema(required, format = DateTime)]
    created_at: Option<String>,
    /// When it was merged or closed.
    #[schema(required, format = DateTime)]
    ended_at: Option<String>,
}

impl JobPull {
    /// One of which only the address is known, or one of the built-in code host.
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

/// All pull requests of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobPullList {
    /// Oldest first: a job has a new one after a follow-up to a job whose pull request was merged or closed.
    pub(crate) pulls: Vec<JobPull>,
}
