//! The wire format of pull requests: those of a job, and those of a project.

use journeyman_app::KnownComparison;
use journeyman_core::code_host::PullState;
use journeyman_core::ids::JobId;
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::pull::compared::NoComparison;
use journeyman_core::pull::{IndexedPull, LocalPull, MergeMethod, NewPull};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

impl From<PullRequestState> for PullState {
    fn from(state: PullRequestState) -> Self {
        match state {
            PullRequestState::Open => Self::Open,
            PullRequestState::Merged => Self::Merged,
            PullRequestState::Closed => Self::Closed,
        }
    }
}

/// The way in which the commits of a pull request get into the base branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PullRequestMergeMethod {
    /// A merge commit joins the branches.
    #[default]
    Merge,
    /// One commit has all changes.
    Squash,
    /// The commits are repeated on top of the base branch, without merges.
    Rebase,
}

impl From<PullRequestMergeMethod> for MergeMethod {
    fn from(method: PullRequestMergeMethod) -> Self {
        match method {
            PullRequestMergeMethod::Merge => Self::Merge,
            PullRequestMergeMethod::Squash => Self::Squash,
            PullRequestMergeMethod::Rebase => Self::Rebase,
        }
    }
}

/// A pull request to open for a branch that was pushed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenPullRequest {
    /// The branch with the commits.
    #[schema(min_length = 1, max_length = 200)]
    head: String,
    /// The branch to merge into; by default, the default branch of the repository.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    base: Option<String>,
    /// The title.
    #[schema(min_length = 1, max_length = 255)]
    title: String,
    /// The description, in Markdown; by default, it is empty.
    #[serde(default)]
    #[schema(max_length = 60_000)]
    body: String,
    /// `true` to open it as a draft; by default, `false`.
    #[serde(default)]
    draft: bool,
}

impl From<OpenPullRequest> for NewPull {
    fn from(new: OpenPullRequest) -> Self {
        let OpenPullRequest { head, base, title, body, draft } = new;
        Self { title, body, head, base, draft, ..Self::default() }
    }
}

/// A merge of a pull request.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct MergePullRequest {
    /// The method; by default, `merge`.
    pub(crate) method: PullRequestMergeMethod,
}

/// The files in which a pull request conflicts with its base.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PullConflicts {
    /// The paths of the first 100 files; none if the branches can be merged. Bytes of a path that are not UTF-8 are
    /// written as `\xNN`.
    files: Vec<String>,
    /// The number of files that are not named.
    more: usize,
}

/// The reason why a pull request was not compared with its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NotCompared {
    /// It was not compared yet.
    NotYet,
    /// Its branch is in a fork.
    InFork,
    /// One of the two branches does not exist.
    BranchMissing,
    /// The project has another repository now.
    OtherRepository,
    /// The code host says that it has ended, and no webhook has told of it yet.
    Ended,
}

impl From<NoComparison> for NotCompared {
    fn from(reason: NoComparison) -> Self {
        match reason {
            NoComparison::NotYet => Self::NotYet,
            NoComparison::InFork => Self::InFork,
            NoComparison::BranchMissing => Self::BranchMissing,
            NoComparison::OtherRepository => Self::OtherRepository,
            NoComparison::Ended => Self::Ended,
        }
    }
}

/// What clients see of a comparison with the base.
struct Compared {
    base: Option<String>,
    conflicts: Option<PullConflicts>,
    behind: Option<u64>,
    compared_at: Option<String>,
    not_compared: Option<NotCompared>,
}

impl Compared {
    fn of(known: Option<KnownComparison>) -> Self {
        let compared_at = known.as_ref().and_then(|known| known.at).map(|at| at.to_string());
        let (found, not_compared) = match known.map(|known| known.result) {
            Some(Ok(found)) => (Some(found), None),
            Some(Err(reason)) => (None, Some(reason.into())),
            None => (None, None),
        };
        Self {
            base: found.as_ref().map(|found| found.base.clone()),
            behind: found.as_ref().map(|found| found.behind),
            conflicts: found.map(|found| found.conflicts.into()),
            compared_at,
            not_compared,
        }
    }
}

impl From<Conflicts> for PullConflicts {
    fn from(Conflicts { files, more }: Conflicts) -> Self {
        Self { files, more }
    }
}

/// A pull request of a job. The description and the labels of those on other code hosts than the built-in one are on
/// the code host.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobPull {
    number: u64,
    url: String,
    /// The state, as the code host last reported it.
    state: PullRequestState,
    /// `true` if it was a draft when the code host was last asked.
    #[schema(required)]
    draft: Option<bool>,
    /// The title, as the code host last reported it; `null` if it is not known.
    #[schema(required)]
    title: Option<String>,
    /// The description, in Markdown.
    #[schema(required)]
    body: Option<String>,
    /// The branch with the commits.
    head: String,
    /// The branch to merge into; on other code hosts than the built-in one, `null` like `conflicts`.
    #[schema(required)]
    base: Option<String>,
    labels: Vec<String>,
    /// The files in which it conflicts with its base; `null` if it has ended, or if it was not compared.
    #[schema(required)]
    conflicts: Option<PullConflicts>,
    /// The number of commits of its base that it does not have, at most 1,000; `null` like `conflicts`.
    #[schema(required)]
    behind: Option<u64>,
    /// The time at which it was compared with its base. A repetition with the same result does not change it. `null` if
    /// it has ended, or if it was not compared yet.
    #[schema(required, format = DateTime)]
    compared_at: Option<String>,
    /// Why it was not compared with its base; `null` if it was, or if it has ended.
    #[schema(required)]
    not_compared: Option<NotCompared>,
    /// The time at which the job opened it.
    #[schema(format = DateTime)]
    created_at: String,
    /// The time at which the pull request was merged or closed; on other code hosts than the built-in one, the time at
    /// which this was recorded.
    #[schema(required, format = DateTime)]
    ended_at: Option<String>,
}

impl JobPull {
    /// Describes a pull request; `local` is what the built-in code host knows about it.
    pub(crate) fn of(pull: IndexedPull, local: Option<LocalPull>, comparison: Option<KnownComparison>) -> Self {
        let ended_at = local.as_ref().map_or(pull.ended_at, |local| local.ended_at);
        // A row without a title is of an older version, which did not record whether it is a draft either.
        let draft = pull.title.is_some().then_some(pull.draft);
        let state = local.as_ref().map_or(pull.state, |local| local.state);
        let Compared { base, conflicts, behind, compared_at, not_compared } = Compared::of(comparison);
        Self {
            number: pull.number,
            url: pull.url,
            state: state.into(),
            head: pull.head,
            created_at: pull.created_at.to_string(),
            ended_at: ended_at.map(|at| at.to_string()),
            draft: local.as_ref().map_or(draft, |local| Some(local.draft)),
            base: local.as_ref().map(|local| local.base.clone()).or(base),
            behind,
            conflicts,
            compared_at,
            not_compared,
            labels: local.as_ref().map(|local| local.labels.clone()).unwrap_or_default(),
            body: local.as_ref().map(|local| local.body.clone()),
            title: local.map_or(pull.title, |local| Some(local.title)),
        }
    }
}

/// A page of the pull requests of a job.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobPullList {
    /// The pull requests, oldest first. A follow-up message opens a new one if the last one was merged or closed.
    pub(crate) pulls: Vec<JobPull>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

/// A pull request of a project. The description and the labels of those on other code hosts than the built-in one are
/// on the code host.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProjectPull {
    number: u64,
    url: String,
    /// The state, as the code host last reported it.
    state: PullRequestState,
    /// `true` if it was a draft when the code host was last asked.
    #[schema(required)]
    draft: Option<bool>,
    /// The title, as the code host last reported it; `null` if it is not known.
    #[schema(required)]
    title: Option<String>,
    /// The description, in Markdown.
    #[schema(required)]
    body: Option<String>,
    /// The branch with the commits.
    head: String,
    /// The branch to merge into; on other code hosts than the built-in one, `null` like `conflicts`.
    #[schema(required)]
    base: Option<String>,
    labels: Vec<String>,
    /// The ID of the job that opened it or works on it; `null` if there is none.
    #[schema(required)]
    job: Option<String>,
    /// `true` if it can be merged now, `false` if its branches conflict or do not exist; `null` in lists, if it has ended,
    /// and on other code hosts.
    #[schema(required)]
    mergeable: Option<bool>,
    /// The files in which it conflicts with its base; `null` if it has ended, or if it was not compared.
    #[schema(required)]
    conflicts: Option<PullConflicts>,
    /// The number of commits of its base that it does not have, at most 1,000; `null` like `conflicts`.
    #[schema(required)]
    behind: Option<u64>,
    /// The time at which it was compared with its base. A repetition with the same result does not change it. `null` if
    /// it has ended, or if it was not compared yet.
    #[schema(required, format = DateTime)]
    compared_at: Option<String>,
    /// Why it was not compared with its base; `null` if it was, or if it has ended.
    #[schema(required)]
    not_compared: Option<NotCompared>,
    /// The time at which it was opened; on other code hosts, the time at which the job opened it or began to work on it.
    #[schema(format = DateTime)]
    created_at: String,
    /// The time at which it was merged or closed; on other code hosts, the time at which this was recorded.
    #[schema(required, format = DateTime)]
    ended_at: Option<String>,
    /// The name of the user or key that merged or closed it on the built-in code host; `null` if it is open, if its
    /// branches were merged by hand, if an older version recorded its end, and on other code hosts.
    #[schema(required)]
    ended_by: Option<String>,
    /// The merge commit on the built-in code host; `null` if it is not merged, if the base already contained its commits
    /// without one, if an older version recorded the merge, and on other code hosts.
    #[schema(required)]
    merge_commit: Option<String>,
}

impl ProjectPull {
    /// Describes a pull request of the built-in code host.
    pub(crate) fn of_local(
        pull: LocalPull,
        url: String,
        job: Option<JobId>,
        mergeable: Option<bool>,
        comparison: Option<KnownComparison>,
    ) -> Self {
        let Compared { conflicts, behind, compared_at, not_compared, .. } = Compared::of(comparison);
        Self {
            behind,
            conflicts,
            compared_at,
            not_compared,
            number: pull.number,
            url,
            state: pull.state.into(),
            draft: Some(pull.draft),
            title: Some(pull.title),
            body: Some(pull.body),
            head: pull.head,
            base: Some(pull.base),
            labels: pull.labels,
            job: job.map(|job| job.to_string()),
            mergeable,
            created_at: pull.created_at.to_string(),
            ended_at: pull.ended_at.map(|at| at.to_string()),
            ended_by: pull.ended_by,
            merge_commit: pull.merge_commit.map(String::from),
        }
    }

    /// Describes a pull request of another code host.
    pub(crate) fn of_indexed(pull: IndexedPull, comparison: Option<KnownComparison>) -> Self {
        let job = pull.job.to_string();
        let JobPull {
            number,
            url,
            state,
            draft,
            title,
            body,
            head,
            base,
            labels,
            conflicts,
            behind,
            compared_at,
            not_compared,
            created_at,
            ended_at,
        } = JobPull::of(pull, None, comparison);
        Self {
            number,
            url,
            state,
            draft,
            title,
            body,
            head,
            base,
            labels,
            job: Some(job),
            mergeable: None,
            conflicts,
            behind,
            compared_at,
            not_compared,
            created_at,
            ended_at,
            ended_by: None,
            merge_commit: None,
        }
    }
}

/// A page of the pull requests of a project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProjectPullList {
    /// The pull requests, newest first.
    pub(crate) pulls: Vec<ProjectPull>,
    /// The value of `cursor` for the next page; `null` on the last page.
    #[schema(required)]
    pub(crate) next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use journeyman_core::code_host::{HostName, PullRepository};
    use journeyman_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_pull_request_of_a_remote_host_has_the_title_and_the_end_of_the_index() {
        let pull = IndexedPull {
            repository: PullRepository { host: HostName("github.com".to_owned()), id: "17".to_owned() },
            number: 7,
            job: JobId::from_uuid(Uuid::nil()),
            project: "shop".parse().unwrap(),
            url: "https://github.com/acme/shop/pull/7".to_owned(),
            head: "fix".to_owned(),
            head_sha: None,
            title: Some("Fix it".to_owned()),
            draft: true,
            state: PullState::Merged,
            created_at: Timestamp::from_micros(0),
            ended_at: Some(Timestamp::from_micros(1_000_000)),
        };
        let shown = serde_json::to_value(JobPull::of(pull.clone(), None, None)).unwrap();
        assert_eq!((&shown["title"], &shown["draft"]), (&"Fix it".into(), &true.into()));
        assert_eq!(shown["endedAt"], Timestamp::from_micros(1_000_000).to_string());
        let of_project = serde_json::to_value(ProjectPull::of_indexed(pull.clone(), None)).unwrap();
        assert_eq!((&of_project["title"], &of_project["state"]), (&"Fix it".into(), &"merged".into()));
        assert_eq!(of_project["job"], JobId::from_uuid(Uuid::nil()).to_string());
        let old = IndexedPull { title: None, draft: false, ended_at: None, ..pull };
        let shown = serde_json::to_value(JobPull::of(old, None, None)).unwrap();
        assert!(["title", "draft", "endedAt"].iter().all(|field| shown[field].is_null()), "{shown}");
    }
}
