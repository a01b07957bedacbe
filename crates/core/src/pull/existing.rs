//! Existing pull requests, on which a job works instead of opening one.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Url;

use super::HostPull;
use crate::branch::check_ref_name;
use crate::code_host::{HostName, HostRepository, PullRepository, PullState, RepositoryPath};
use crate::ids::Sha;
use crate::project::Project;
use crate::pull::Pull;

/// The segments of URLs that come before the number of a pull request on the known code hosts.
const SEGMENTS: [&str; 4] = ["pull", "pulls", "merge_requests", "pull-requests"];

/// The maximum length of the name of a pull request, in characters.
const NAME_CHARS: usize = 1000;

/// The name of a pull request in a request: its number, or the URL of its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullName {
    number: u64,
    url: Option<Url>,
}

/// An error for a text that names no pull request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither the number nor the URL of a pull request; write a number such as 12, or the URL of its page")]
pub struct InvalidPullName(String);

impl FromStr for PullName {
    type Err = InvalidPullName;

    /// Parses `12`, `#12`, `!12`, or a URL.
    fn from_str(text: &str) -> Result<Self, InvalidPullName> {
        let invalid = || InvalidPullName(text.chars().take(80).collect());
        let trimmed = text.trim();
        if trimmed.chars().count() > NAME_CHARS {
            return Err(invalid());
        }
        if let Some(number) = number(trimmed.strip_prefix(['#', '!']).unwrap_or(trimmed)) {
            return Ok(Self { number, url: None });
        }
        let url = Url::parse(trimmed).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(invalid)?;
        let segments: Vec<&str> = url.path_segments().ok_or_else(invalid)?.collect();
        let named = segments.windows(2).rev().find_map(|pair| number(pair[1]).filter(|_| SEGMENTS.contains(&pair[0])));
        Ok(Self { number: named.ok_or_else(invalid)?, url: Some(url) })
    }
}

impl From<u64> for PullName {
    fn from(number: u64) -> Self {
        Self { number, url: None }
    }
}

/// Parses a positive number that every store can hold.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && (1..=i64::MAX.unsigned_abs()).contains(number))
}

impl PullName {
    /// Returns the number.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether this can be the name of the pull request with this page. The URL may be that of a tab of the page.
    fn is_of(&self, page: &str) -> bool {
        let Some(url) = &self.url else { return true };
        let Ok(page) = Url::parse(page) else { return false };
        let same_host = url.host_str().map(str::to_lowercase) == page.host_str().map(str::to_lowercase)
            && url.port_or_known_default() == page.port_or_known_default();
        let (path, page) = (url.path().to_lowercase(), page.path().trim_end_matches('/').to_lowercase());
        same_host && path.strip_prefix(&page).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// An existing pull request that a job works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExistingPull {
    /// The pull request.
    pub pull: Pull,
    /// The branch with the commits.
    pub head: String,
    /// The newest commit of the branch when the job was created, if the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_sha: Option<Sha>,
    /// The branch to merge into.
    pub base: String,
}

/// The reason why a job cannot work on a pull request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUsable {
    /// The repository has no such pull request.
    #[error("{name} is not a pull request of {repository}, the repository of the project")]
    NotFound {
        /// The number or the URL.
        name: String,
        /// The path of the project's repository.
        repository: String,
    },
    /// The pull request was merged or closed.
    #[error("the pull request {url} is {}; create a job without it, which opens another pull request", .state.name())]
    Ended {
        /// The page.
        url: String,
        /// The state.
        state: PullState,
    },
    /// The branch is in a fork.
    #[error(
        "the branch of the pull request {url} is in another repository; journeyman pushes only to {repository}. Push \
         the branch there and open a pull request from it, or ask its author for the changes"
    )]
    Fork {
        /// The page.
        url: String,
        /// The path of the project's repository.
        repository: String,
    },
    /// Jobs do not push to the branch.
    #[error(
        "the pull request {url} merges the branch {head:?}, which is the default branch, or the project's ref or \
         pullRequest.base, or one of its pullRequest.protectedBranches, and jobs do not push to those"
    )]
    Protected {
        /// The page.
        url: String,
        /// The branch.
        head: String,
    },
    /// The service cannot use the name of the branch.
    #[error("the branch {head:?} of the pull request {url} has a name that jobs cannot use; rename the branch")]
    BranchName {
        /// The page.
        url: String,
        /// The branch.
        head: String,
    },
}

/// Decides whether a job can work on a pull request that was found by its number. `host` has the repository. `configured`
/// is the path in the address of the project, which differs from the current one after a rename; URLs with either path
/// name the pull request.
///
/// # Errors
/// The pull request does not exist, has ended, or has a branch that the service does not push to.
pub fn check(
    name: &PullName,
    found: Option<HostPull>,
    (host, repository): (HostName, &HostRepository),
    configured: Option<&RepositoryPath>,
    project: &Project,
) -> Result<ExistingPull, NotUsable> {
    let path = || repository.path.clone();
    let is_of = |pull: &HostPull| {
        let before = configured.and_then(|configured| page_at(&pull.url, &repository.path, configured));
        name.is_of(&pull.url) || before.is_some_and(|before| name.is_of(&before))
    };
    let Some(pull) = found.filter(is_of) else {
        let name = name.url.as_ref().map_or_else(|| format!("number {}", name.number), Url::to_string);
        return Err(NotUsable::NotFound { name, repository: path() });
    };
    let HostPull { url, head, .. } = &pull;
    let (url, head) = (url.clone(), head.clone());
    if pull.state != PullState::Open {
        return Err(NotUsable::Ended { url, state: pull.state });
    }
    if pull.is_from_fork {
        return Err(NotUsable::Fork { url, repository: path() });
    }
    if check_ref_name(&head).is_err() {
        return Err(NotUsable::BranchName { url, head });
    }
    let own = [&repository.default_branch, &project.reference, &project.settings.pull_request.base];
    if own.into_iter().flatten().any(|branch| *branch == head) || project.settings.pull_request.protects(&head) {
        return Err(NotUsable::Protected { url, head });
    }
    let repository = Some(PullRepository { host, id: repository.id.clone() });
    let (title, draft) = (Some(pull.title), pull.draft);
    let known = Pull { repository, title, draft, is_untouched: true, ..Pull::new(pull.number, url) };
    Ok(ExistingPull { pull: known, head, head_sha: pull.head_sha, base: pull.base })
}

/// Returns the page of a pull request as it would be if its repository had another path.
fn page_at(page: &str, current: &str, other: &RepositoryPath) -> Option<String> {
    let mut forms = path_forms(&RepositoryPath::parse(current)?).into_iter().zip(path_forms(other));
    forms.find(|(from, _)| page.contains(from.as_str())).map(|(from, to)| page.replacen(&from, &to, 1))
}

/// Returns the forms in which URLs of pages contain the path of a repository: the usual one, and that of Bitbucket Data
/// Center.
fn path_forms(path: &RepositoryPath) -> [String; 2] {
    let (owner, name) = path.parts();
    let project = match owner.strip_prefix('~') {
        Some(user) => format!("users/{user}"),
        None => format!("projects/{owner}"),
    };
    [format!("/{owner}/{name}/"), format!("/{project}/repos/{name}/")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    const PAGE: &str = "https://git.example/acme/shop/pull/12";

    fn found() -> HostPull {
        HostPull {
            number: 12,
            url: PAGE.to_owned(),
            state: PullState::Open,
            draft: false,
            title: String::new(),
            body: String::new(),
            head: "feature".to_owned(),
            head_sha: None,
            base: "main".to_owned(),
            is_from_fork: false,
        }
    }

    fn checked(name: &str, found: Option<HostPull>) -> Result<ExistingPull, NotUsable> {
        let repository = HostRepository {
            id: "7".to_owned(),
            path: "acme/shop".to_owned(),
            default_branch: Some("main".to_owned()),
            can_push: None,
            is_archived: false,
            ci_paths: Vec::new(),
        };
        let mut project = Project::new("shop".parse().unwrap(), "https://git.example/acme/shop", Timestamp::default());
        project.settings.pull_request.base = Some("develop".to_owned());
        let (host, configured) = (HostName("git.example".to_owned()), RepositoryPath::parse("acme/old-shop"));
        check(&name.parse().unwrap(), found, (host, &repository), configured.as_ref(), &project)
    }

    #[test]
    fn names_are_numbers_or_urls() {
        for (text, number) in [
            ("12", 12),
            (" #12 ", 12),
            ("!12", 12),
            ("https://github.com/a/b/pull/12", 12),
            ("https://github.com/a/b/pull/12/files?w=1#diff", 12),
            ("https://gitlab.com/a/b/c/-/merge_requests/12", 12),
            ("http://git.example:3000/a/b/pulls/12", 12),
            ("https://bitbucket.org/a/b/pull-requests/12/diff", 12),
            ("https://bb.example/projects/A/repos/b/pull-requests/12/overview", 12),
            ("https://j.example/projects/shop/pulls/12", 12),
        ] {
            assert_eq!(text.parse::<PullName>().map(|name| name.number()), Ok(number), "{text}");
        }
        for text in [
            "",
            "0",
            "-1",
            "+1",
            "1.5",
            "#",
            "twelve",
            "99999999999999999999",
            "https://github.com/a/b",
            "https://github.com/a/b/issues/12",
            "https://github.com/a/b/pull/x",
            "ftp://h/a/b/pull/12",
            "a/b#12",
        ] {
            assert!(text.parse::<PullName>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_open_pull_request_of_the_repository_can_be_used() {
        for name in [
            "12",
            PAGE,
            "https://GIT.example:443/Acme/shop/pull/12/files",
            // The path in the project's address, from before a rename.
            "https://git.example/acme/old-shop/pull/12",
            "https://git.example/Acme/Old-Shop/pull/12/files",
        ] {
            let existing = checked(name, Some(found())).unwrap();
            assert_eq!((existing.head.as_str(), existing.pull.number), ("feature", 12), "{name}");
            assert!(existing.pull.is_untouched);
        }
    }

    #[test]
    fn each_product_has_pages_with_another_path_of_the_repository() {
        for (page, current, other, expected) in [
            ("https://h.example/a/b/pull/1", "a/b", "c/d", Some("https://h.example/c/d/pull/1")),
            (
                "https://h.example/g/s/b/-/merge_requests/1",
                "g/s/b",
                "g/b",
                Some("https://h.example/g/b/-/merge_requests/1"),
            ),
            (
                "https://h.example/projects/A/repos/b/pull-requests/1",
                "A/b",
                "C/d",
                Some("https://h.example/projects/C/repos/d/pull-requests/1"),
            ),
            (
                "https://h.example/users/ada/repos/b/pull-requests/1",
                "~ada/b",
                "A/b",
                Some("https://h.example/projects/A/repos/b/pull-requests/1"),
            ),
            ("https://h.example/a/b/pull/1", "x/y", "c/d", None),
        ] {
            let other = RepositoryPath::parse(other).unwrap();
            assert_eq!(page_at(page, current, &other).as_deref(), expected, "{page}");
        }
    }

    #[test]
    fn other_pull_requests_are_refused_with_the_reason() {
        let with = |change: fn(&mut HostPull)| {
            let mut pull = found();
            change(&mut pull);
            Some(pull)
        };
        for (name, found, reason) in [
            ("12", None, "number 12 is not a pull request of acme/shop"),
            (
                "https://git.example/acme/other/pull/12",
                with(|_| ()),
                "acme/other/pull/12 is not a pull request of acme",
            ),
            (
                "https://git.example/other/old-shop/pull/12",
                with(|_| ()),
                "other/old-shop/pull/12 is not a pull request of acme",
            ),
            ("https://evil.example/acme/old-shop/pull/12", with(|_| ()), "is not a pull request of acme/shop"),
            ("https://evil.example/acme/shop/pull/12", with(|_| ()), "is not a pull request of acme/shop"),
            ("https://git.example:444/acme/shop/pull/12", with(|_| ()), "is not a pull request of acme/shop"),
            ("12", with(|pull| pull.state = PullState::Merged), "is merged"),
            ("12", with(|pull| pull.state = PullState::Closed), "is closed"),
            ("12", with(|pull| pull.is_from_fork = true), "in another repository; journeyman pushes only to acme/shop"),
            ("12", with(|pull| pull.head = "main".to_owned()), "jobs do not push to those"),
            ("12", with(|pull| pull.head = "develop".to_owned()), "jobs do not push to those"),
            ("12", with(|pull| pull.head = "--force".to_owned()), "rename the branch"),
        ] {
            let text = checked(name, found).unwrap_err().to_string();
            assert!(text.contains(reason), "{name}: {text}");
        }
    }
}
