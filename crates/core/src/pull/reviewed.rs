//! Pull requests that a job only reviews.

use serde::{Deserialize, Serialize};

use super::HostPull;
use crate::code_host::{HostKind, PullState};

/// A pull request that a job reviews. The job reads its branch, also in a fork, and pushes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReviewedPull {
    /// The number in the repository.
    pub number: u64,
    /// The page.
    pub url: String,
    /// The branch with the commits.
    pub head: String,
    /// The branch to merge into.
    pub base: String,
    /// `true` if the branch is in another repository.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_from_fork: bool,
}

/// The reason why a pull request cannot be reviewed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReviewable {
    /// The repository has no such pull request.
    #[error("number {0} is not a pull request of the repository")]
    NotFound(u64),
    /// The pull request was merged or closed.
    #[error("the pull request is {}, so there is nothing to review", .0.name())]
    Ended(PullState),
    /// The host does not show the commits of forks.
    #[error(
        "the branch of the pull request is in another repository, and the code host has no ref for its commits; push the \
         branch to this repository"
    )]
    Fork,
}

impl ReviewedPull {
    /// Returns a pull request as one to review. `kind` is the product that has it; `None` for the built-in code host.
    ///
    /// # Errors
    /// The pull request does not exist or has ended, or its commits cannot be fetched.
    pub fn new(number: u64, found: Option<HostPull>, kind: Option<HostKind>) -> Result<Self, NotReviewable> {
        let found = found.ok_or(NotReviewable::NotFound(number))?;
        if found.state != PullState::Open {
            return Err(NotReviewable::Ended(found.state));
        }
        if found.is_from_fork && kind.and_then(|kind| kind.pull_ref(number)).is_none() {
            return Err(NotReviewable::Fork);
        }
        let HostPull { number, url, head, base, is_from_fork, .. } = found;
        Ok(Self { number, url, head, base, is_from_fork })
    }
}

impl HostKind {
    /// Returns the ref of the base repository that has the newest commit of a pull request, also of one from a fork; `None`
    /// if the host has none, as Bitbucket Cloud.
    ///
    /// Sources: GitHub Docs, "Checking out pull requests locally"; GitLab Docs, "Merge requests: Git refs"; the
    /// documentation of Gitea and Forgejo on pull requests (the refs of GitHub); Atlassian's knowledge base, "How to fetch
    /// pull requests" of Bitbucket Data Center.
    #[must_use]
    pub fn pull_ref(self, number: u64) -> Option<String> {
        match self {
            Self::Github | Self::Gitea | Self::Forgejo => Some(format!("refs/pull/{number}/head")),
            Self::Gitlab => Some(format!("refs/merge-requests/{number}/head")),
            Self::BitbucketDataCenter => Some(format!("refs/pull-requests/{number}/from")),
            Self::Bitbucket => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_pull_request_can_be_reviewed_if_its_commits_can_be_fetched() {
        let pull = |state, is_from_fork| HostPull {
            number: 7,
            url: "https://h.example/acme/shop/pull/7".to_owned(),
            state,
            draft: true,
            title: "Sort".to_owned(),
            body: String::new(),
            head: "sort".to_owned(),
            head_sha: None,
            base: "main".to_owned(),
            is_from_fork,
        };
        let new = |found, kind| ReviewedPull::new(7, found, kind).map(|reviewed| reviewed.head);
        let open = |is_from_fork| Some(pull(PullState::Open, is_from_fork));
        for kind in HostKind::ALL {
            assert_eq!(new(open(false), Some(kind)), Ok("sort".to_owned()), "{kind:?}");
            let of_fork = new(open(true), Some(kind));
            assert_eq!(of_fork.is_ok(), kind != HostKind::Bitbucket, "{kind:?}: {of_fork:?}");
        }
        assert_eq!(new(open(false), None), Ok("sort".to_owned()), "the built-in code host");
        assert_eq!(new(None, None), Err(NotReviewable::NotFound(7)));
        assert_eq!(new(Some(pull(PullState::Merged, false)), None), Err(NotReviewable::Ended(PullState::Merged)));
    }
}
