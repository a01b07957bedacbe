//! The stored comparisons of pull requests with their bases, and when they are made again.
//!
//! 1. The store has a row for each project with open pull requests ([`DueComparison`]). A webhook, a push to the
//!    built-in code host, a merge, and each push of a job make it due at once. Nothing tells of some pushes, so it is
//!    also due after a time ([`next_comparison`]).
//! 2. A process claims the row, compares all open pull requests of the project, and stores the results
//!    ([`ComparedPull`]).
//! 3. Lists, pages and the command line show the stored results.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::base_comparison::{BaseComparison, Conflicts};
use crate::code_host::{PullRef, PullRepository};
use crate::ids::{ProjectId, Sha};
use crate::project::KeepUpToDate;
use crate::time::Timestamp;

/// The time limit of the comparison of a project. Its repository may have to be fetched.
pub const COMPARISON_LIMIT: Duration = Duration::from_secs(300);

/// The time for which a claimed project is hidden from other processes: the delay after the death of a process.
pub const COMPARISON_LEASE: Duration = Duration::from_secs(330);

/// The shortest time between the comparisons of a project, so that frequent pushes to a base cost a bounded amount.
pub const COMPARISON_PAUSE: Duration = Duration::from_secs(5);

/// The longest time until a comparison. One that is due later was stored before a clock was set back, and is due now.
pub const LONGEST_COMPARISON_DELAY: Duration = Duration::from_secs(3600);

/// The age from which the comparison of a project is repeated when a person looks at it.
pub const SEEN_AGE: Duration = Duration::from_secs(60);

/// Returns the longest time until the pull requests of a project are compared again if no event causes it earlier.
#[must_use]
pub const fn next_comparison(mode: KeepUpToDate) -> Duration {
    match mode {
        KeepUpToDate::Off => Duration::from_secs(600),
        KeepUpToDate::Conflicts | KeepUpToDate::Always => Duration::from_secs(30),
    }
}

/// The reason why a pull request has no comparison with its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoComparison {
    /// The branch with the commits is in a fork.
    InFork,
    /// One of the two branches does not exist.
    BranchMissing,
    /// The project has another repository now.
    OtherRepository,
    /// The code host says that it has ended, and no webhook has told of it yet.
    Ended,
    /// It was not compared yet, or a newer version has stored a reason that this version does not know.
    #[serde(other)]
    NotYet,
}

impl NoComparison {
    /// Returns the reason, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::InFork => "not compared: its branch is in a fork",
            Self::BranchMissing => "not compared: one of its branches does not exist",
            Self::OtherRepository => "not compared: the project has another repository now",
            Self::Ended => "not compared: it has ended",
            Self::NotYet => "not compared yet",
        }
    }
}

/// The result of a comparison with the base.
pub type Compared = Result<BaseComparison, NoComparison>;

/// A pull request that was compared with its base, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedPull {
    /// The pull request.
    pub pull: PullRef,
    /// The result.
    pub result: Compared,
    /// The time of the comparison. A repetition with the same result does not change it.
    pub at: Timestamp,
}

/// The part of [`ComparedPull::result`] that is stored as a JSON document. The name of the base has a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedDocument {
    /// The reason why there is no comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing: Option<NoComparison>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_sha: Option<Sha>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head_sha: Option<Sha>,
    #[serde(default)]
    behind: u64,
    #[serde(default)]
    conflicts: Conflicts,
}

impl ComparedDocument {
    /// Returns the document of a result.
    #[must_use]
    pub fn of(result: &Compared) -> Self {
        let none = Self { missing: None, base_sha: None, head_sha: None, behind: 0, conflicts: Conflicts::default() };
        match result {
            Err(reason) => Self { missing: Some(*reason), ..none },
            Ok(BaseComparison { base_sha, head_sha, behind, conflicts, .. }) => Self {
                base_sha: Some(base_sha.clone()),
                head_sha: Some(head_sha.clone()),
                behind: *behind,
                conflicts: conflicts.clone(),
                ..none
            },
        }
    }

    /// Returns the result. `base` is the name of the base.
    pub fn result(self, base: Option<String>) -> Compared {
        match (self.missing, base, self.base_sha, self.head_sha) {
            (None, Some(base), Some(base_sha), Some(head_sha)) => {
                let (behind, conflicts) = (self.behind, self.conflicts);
                Ok(BaseComparison { base, base_sha, head_sha, behind, conflicts })
            }
            (missing, ..) => Err(missing.unwrap_or(NoComparison::NotYet)),
        }
    }
}

/// A project whose pull requests are to be compared with their bases now. The process that claimed it has this record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueComparison {
    /// The project.
    pub project: ProjectId,
    /// The end of the lease.
    pub held_until: Timestamp,
    /// The number of claims: the fencing token.
    pub claims: u64,
}

/// The end of the comparison of a project, to store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedComparison {
    /// The results that are new or have changed.
    pub changed: Vec<ComparedPull>,
    /// The pull requests whose results are of no interest any more.
    pub removed: Vec<PullRef>,
    /// The time of the next comparison; `None` if only an event causes one, because no pull request is open.
    pub next: Option<Timestamp>,
    /// The time before which the project is not claimed again.
    pub held_until: Timestamp,
}

/// Branches that were pushed or merged, so that pull requests have to be compared again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedBranch {
    /// The repository.
    pub repository: PullRepository,
    /// The branch; `None` if it is not known, or if all pull requests of the repository may be concerned.
    pub branch: Option<String>,
    /// The only project that may be concerned; `None` for all projects with the repository.
    pub project: Option<ProjectId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison() -> BaseComparison {
        let sha = |digit: &str| digit.repeat(40).parse().unwrap();
        let conflicts = Conflicts { files: vec!["a".to_owned()], more: 2 };
        BaseComparison { base: "main".to_owned(), base_sha: sha("1"), head_sha: sha("2"), behind: 3, conflicts }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let reasons = [NoComparison::InFork, NoComparison::BranchMissing, NoComparison::OtherRepository];
        let missing = reasons.into_iter().chain([NoComparison::Ended, NoComparison::NotYet]).map(Err);
        for result in missing.chain([Ok(comparison())]) {
            let text = serde_json::to_string(&ComparedDocument::of(&result)).unwrap();
            let read: ComparedDocument = serde_json::from_str(&text).unwrap();
            assert_eq!(read.result(result.as_ref().ok().map(|found| found.base.clone())), result, "{text}");
        }
    }

    #[test]
    fn what_a_newer_version_has_stored_is_not_known_yet() {
        for text in [r#"{"missing":"new_reason"}"#, "{}", r#"{"behind":1,"other":2}"#] {
            let read: ComparedDocument = serde_json::from_str(text).unwrap();
            assert_eq!(read.result(Some("main".to_owned())), Err(NoComparison::NotYet), "{text}");
        }
    }

    #[test]
    fn a_project_that_wants_updates_is_compared_more_often() {
        let off = next_comparison(KeepUpToDate::Off);
        for mode in [KeepUpToDate::Conflicts, KeepUpToDate::Always] {
            assert!(next_comparison(mode) < off && next_comparison(mode) > COMPARISON_PAUSE);
        }
        assert!(off < LONGEST_COMPARISON_DELAY && COMPARISON_LIMIT < COMPARISON_LEASE);
    }
}
