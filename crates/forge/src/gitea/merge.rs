//! The merge of pull requests of Gitea and Forgejo: what it waits for, and the request to merge when the checks pass.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, StatusCode};
use journeyman_core::checks::Check;
use journeyman_core::code_host::HostRepository;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde_json::json;

use super::Gitea;
use crate::http::encoded;
use crate::json::{User, or_default};
use crate::merge::{MergeNote, NOTHING_TO_WAIT_FOR, if_read};

/// The delays before a request to merge is repeated. After a pull request was opened, the host looks for conflicts, and
/// refuses the request meanwhile (status 405).
const DELAYS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// An open pull request.
#[derive(Deserialize)]
struct Open {
    number: u64,
    #[serde(default, deserialize_with = "or_default")]
    draft: bool,
    /// `false` also while the host looks for conflicts.
    #[serde(default)]
    mergeable: Option<bool>,
    head: End,
    base: End,
    #[serde(default, deserialize_with = "or_default")]
    requested_reviewers: Vec<User>,
    #[serde(default, deserialize_with = "or_default")]
    requested_reviewers_teams: Vec<Team>,
}

#[derive(Deserialize)]
struct End {
    #[serde(rename = "ref", default)]
    name: String,
    #[serde(default)]
    sha: String,
}

#[derive(Deserialize)]
struct Team {
    #[serde(default)]
    name: String,
}

/// A branch with its protection.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Protected {
    required_approvals: u64,
    enable_status_check: bool,
}

/// A review (`PullReview` in the description of the interface).
#[derive(Deserialize)]
struct Review {
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    /// `APPROVED`, `REQUEST_CHANGES`, `COMMENT`, `PENDING` or `REQUEST_REVIEW`.
    #[serde(default)]
    state: String,
    /// `true` if the review counts for the protection of the branch.
    #[serde(default)]
    official: bool,
    #[serde(default)]
    stale: bool,
    #[serde(default)]
    dismissed: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Combined {
    /// `pending`, `success`, `failure` and others; empty without a status.
    state: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Style {
    default_merge_style: String,
}

/// Returns what the host tells about the merges of the open pull requests whose newest commit this is.
pub(super) async fn notes(gitea: &Gitea, repository: &HostRepository, sha: &Sha) -> Vec<Check> {
    let read = async {
        let all: Vec<Option<Open>> = gitea.get(repository, "/pulls?state=open&limit=50").await?;
        let all: Vec<Open> = all.into_iter().flatten().collect();
        let mut notes = Vec::new();
        for pull in all.iter().filter(|pull| pull.head.sha == sha.as_str()) {
            let branch = protection(gitea, repository, &pull.base.name).await?;
            let reviews: Vec<Review> = match branch.required_approvals {
                0 => Vec::new(),
                _ => gitea.get(repository, &format!("/pulls/{}/reviews?limit=50", pull.number)).await?,
            };
            notes.extend(described(pull, &branch, &reviews, &all));
        }
        Ok(notes)
    };
    if_read(&repository.path, read.await)
}

fn described(pull: &Open, branch: &Protected, reviews: &[Review], all: &[Open]) -> Option<Check> {
    let mut note = MergeNote::default();
    match (pull.draft, pull.mergeable) {
        (true, _) => note.wait("it is a draft"),
        (false, Some(false)) => note.wait("it cannot be merged now, for example because of a conflict"),
        _ => {}
    }
    // The last verdict of each reviewer counts.
    let counts = |review: &&Review| review.official && !review.dismissed && !review.stale;
    let verdicts =
        reviews.iter().filter(counts).filter(|review| matches!(&*review.state, "APPROVED" | "REQUEST_CHANGES"));
    let last: BTreeMap<&str, &str> = verdicts.map(|review| (review.user.name(), &*review.state)).collect();
    let approvals = last.values().filter(|state| **state == "APPROVED").count() as u64;
    if approvals < branch.required_approvals {
        note.wait(format!("it has {approvals} of {} required approvals", branch.required_approvals));
    }
    let asks = last.iter().filter(|(_, state)| **state == "REQUEST_CHANGES");
    note.changes_by(&asks.map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
    let people = pull.requested_reviewers.iter().map(|user| user.name().to_owned());
    let teams = pull.requested_reviewers_teams.iter().map(|team| format!("the team {}", team.name));
    note.reviews_of(&people.chain(teams).collect::<Vec<_>>());
    if let Some(other) = all.iter().find(|other| other.head.name == pull.base.name && other.number != pull.number) {
        note.stacked_on('#', other.number);
    }
    note.into_check("Pull request", &format!("#{}", pull.number))
}

async fn protection(gitea: &Gitea, repository: &HostRepository, branch: &str) -> Result<Protected, ForgeError> {
    let segments: Vec<String> = branch.split('/').map(encoded).collect();
    gitea.get(repository, &format!("/branches/{}", segments.join("/"))).await
}

/// Asks the host to merge a pull request when its checks pass.
pub(super) async fn request(gitea: &Gitea, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
    let pull: Open = gitea.get(repository, &format!("/pulls/{number}")).await?;
    // The host waits only for checks, and older versions merge at once if the checks have passed, even without the
    // required approvals.
    let is_checked = protection(gitea, repository, &pull.base.name).await?.enable_status_check;
    let combined: Combined = gitea.get(repository, &format!("/commits/{}/status", pull.head.sha)).await?;
    if !is_checked || !matches!(combined.state.as_str(), "" | "pending") {
        return Err(ForgeError::Refused(NOTHING_TO_WAIT_FOR.to_owned()));
    }
    let style: Style = gitea.get(repository, "").await?;
    let style = if style.default_merge_style.is_empty() { "merge" } else { style.default_merge_style.as_str() };
    let body = json!({"Do": style, "merge_when_checks_succeed": true, "head_commit_id": pull.head.sha});
    let mut delays = DELAYS.into_iter();
    loop {
        let answer = gitea.send(repository, Method::POST, &format!("/pulls/{number}/merge"), Some(&body)).await?;
        match answer.status {
            // It is requested already.
            StatusCode::CONFLICT => return Ok(()),
            StatusCode::METHOD_NOT_ALLOWED => match delays.next() {
                Some(delay) => tokio::time::sleep(delay).await,
                None => {
                    let text = "the host says that it cannot be merged now, for example because of a conflict, or because \
                                the service's user may not merge";
                    return Err(ForgeError::Refused(text.to_owned()));
                }
            },
            _ => return answer.ok().map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn open(value: Value) -> Open {
        serde_json::from_value(value).unwrap()
    }

    fn review(name: &str, state: &str) -> Review {
        serde_json::from_value(json!({"user": {"login": name}, "state": state, "official": true})).unwrap()
    }

    #[test]
    fn approvals_and_reviewers_are_told() {
        let end = |name: &str| json!({"ref": name, "sha": "a"});
        let pull = open(json!({
            "number": 7, "mergeable": true, "head": end("work"), "base": end("step"),
            "requested_reviewers": [{"login": "cy"}], "requested_reviewers_teams": [{"name": "backend"}],
        }));
        let below = open(json!({"number": 6, "head": end("step"), "base": end("main")}));
        let branch = Protected { required_approvals: 2, enable_status_check: false };
        let reviews = [
            review("ada", "REQUEST_CHANGES"),
            review("ada", "APPROVED"),
            review("bob", "REQUEST_CHANGES"),
            Review { official: false, ..review("eve", "APPROVED") },
            Review { stale: true, ..review("dan", "APPROVED") },
        ];
        let check = described(&pull, &branch, &reviews, &[below]).unwrap();
        assert_eq!(
            check.summary.unwrap(),
            "The pull request #7 waits: it has 1 of 2 required approvals; changes are requested by bob; a review is \
             requested from cy, the team backend. It is stacked on #6: its base branch is the branch of that one, which \
             should be merged first."
        );
        let plain = open(json!({"number": 1, "mergeable": true, "head": end("a"), "base": end("main")}));
        assert_eq!(described(&plain, &Protected::default(), &[], &[]), None);
        let old = open(json!({"number": 1, "head": end("a"), "base": end("main")}));
        assert_eq!(described(&old, &Protected::default(), &[], &[]), None);
    }
}
