//! The merge of pull requests of Bitbucket Data Center: what it waits for, and the request to merge when all merge checks
//! pass.

use http::{Method, StatusCode};
use journeyman_core::checks::Check;
use journeyman_core::code_host::HostRepository;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde_json::json;

use super::wire::{PullRequest, User};
use super::{BitbucketDataCenter, Location};
use crate::json::or_default;
use crate::merge::{MergeNote, NOTHING_TO_WAIT_FOR, if_read};

/// The maximum length of the text of a veto, in characters.
const VETO_CHARS: usize = 200;

/// An open pull request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    id: u64,
    #[serde(default, deserialize_with = "or_default")]
    draft: bool,
    from_ref: End,
    to_ref: End,
    #[serde(default)]
    reviewers: Vec<Reviewer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    /// The full name, such as `refs/heads/main`.
    id: String,
    #[serde(default)]
    latest_commit: String,
}

#[derive(Deserialize)]
struct Reviewer {
    user: User,
    /// `UNAPPROVED`, `NEEDS_WORK` or `APPROVED`.
    #[serde(default)]
    status: String,
}

/// Whether a pull request can be merged (`GET …/pull-requests/{pullRequestId}/merge`).
#[derive(Default, Deserialize)]
#[serde(default)]
struct Mergeability {
    conflicted: bool,
    vetoes: Vec<Veto>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Veto {
    #[serde(deserialize_with = "or_default")]
    summary_message: String,
}

/// Returns what the host tells about the merges of the open pull requests whose newest commit this is.
pub(super) async fn notes(client: &BitbucketDataCenter, repository: &HostRepository, sha: &Sha) -> Vec<Check> {
    let read = async {
        let location = Location::current(repository)?;
        let path = format!("{}?state=OPEN&order=NEWEST&limit=100", location.pulls());
        let all: Vec<Open> = client.list(&path, |_| true).await?;
        let mut notes = Vec::new();
        for pull in all.iter().filter(|pull| pull.from_ref.latest_commit == sha.as_str()) {
            let path = format!("{}/{}/merge", location.pulls(), pull.id);
            let merge: Mergeability = client.get(&path).await?;
            let is_requested = !merge.vetoes.is_empty() && is_requested(client, &location, pull.id).await?;
            notes.extend(described(pull, merge, is_requested, &all));
        }
        Ok::<_, ForgeError>(notes)
    };
    if_read(&repository.path, read.await)
}

/// Returns whether a pull request is merged when all merge checks pass. Versions before 8.15 have no such requests.
async fn is_requested(client: &BitbucketDataCenter, location: &Location, number: u64) -> Result<bool, ForgeError> {
    let answer = client.call(Method::GET, &format!("{}/{number}/auto-merge", location.pulls()), None).await?;
    Ok(answer.status == StatusCode::OK)
}

/// Asks the host to merge a pull request when all merge checks pass.
pub(super) async fn request(
    client: &BitbucketDataCenter,
    repository: &HostRepository,
    number: u64,
) -> Result<(), ForgeError> {
    let path = format!("{}/{number}", Location::current(repository)?.pulls());
    let merge: Mergeability = client.get(&format!("{path}/merge")).await?;
    if merge.conflicted {
        return Err(ForgeError::Refused("the pull request conflicts with its target branch".to_owned()));
    }
    // Without a merge check that has not passed, the host would merge at once.
    if merge.vetoes.is_empty() {
        return Err(ForgeError::Refused(NOTHING_TO_WAIT_FOR.to_owned()));
    }
    let pull: PullRequest = client.get(&path).await?;
    let body = json!({"autoMerge": true, "version": pull.version});
    let answer = client.call(Method::POST, &format!("{path}/merge"), Some(&body)).await?;
    match answer.status {
        StatusCode::FORBIDDEN => {
            let text = "auto-merge is not enabled for the repository; enable it in its settings";
            Err(ForgeError::Refused(text.to_owned()))
        }
        StatusCode::CONFLICT => {
            let text = "the host refuses it; versions before 8.15 have no auto-merge";
            Err(ForgeError::Refused(format!("{text}: {}", answer.described())))
        }
        _ => client.accepted(answer).await.map(drop),
    }
}

fn described(pull: &Open, merge: Mergeability, is_requested: bool, all: &[Open]) -> Option<Check> {
    let mut note = MergeNote::default();
    if pull.draft {
        note.wait("it is a draft");
    }
    if merge.conflicted {
        note.wait("it conflicts with its target branch");
    }
    for veto in merge.vetoes {
        let text: String = veto.summary_message.split_whitespace().collect::<Vec<_>>().join(" ");
        let text: String = text.trim_end_matches('.').chars().take(VETO_CHARS).collect();
        note.wait(if text.is_empty() { "a merge check of the repository has not passed".to_owned() } else { text });
    }
    let in_state = |state: &str| {
        let found = pull.reviewers.iter().filter(|reviewer| reviewer.status == state);
        found.map(|reviewer| reviewer.user.name.clone()).collect::<Vec<_>>()
    };
    note.changes_by(&in_state("NEEDS_WORK"));
    note.reviews_of(&in_state("UNAPPROVED"));
    if is_requested {
        note.facts.push("Bitbucket merges it when all merge checks pass.".to_owned());
    }
    if let Some(other) = all.iter().find(|other| other.from_ref.id == pull.to_ref.id) {
        note.stacked_on('#', other.id);
    }
    note.into_check("Pull request", &format!("#{}", pull.id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vetoes_and_reviewers_are_told() {
        let user = |name: &str| json!({"id": 1, "name": name});
        let pull: Open = serde_json::from_value(json!({
            "id": 7, "fromRef": {"id": "refs/heads/work", "latestCommit": "a"}, "toRef": {"id": "refs/heads/step"},
            "reviewers": [
                {"user": user("ada"), "status": "APPROVED"}, {"user": user("bob"), "status": "NEEDS_WORK"},
                {"user": user("cy"), "status": "UNAPPROVED"},
            ],
        }))
        .unwrap();
        let below: Open = serde_json::from_value(json!({
            "id": 6, "fromRef": {"id": "refs/heads/step"}, "toRef": {"id": "refs/heads/main"},
        }))
        .unwrap();
        let merge: Mergeability = serde_json::from_value(json!({
            "canMerge": false, "conflicted": true, "vetoes": [{"summaryMessage": "Not enough\napprovals."}, {}],
        }))
        .unwrap();
        assert_eq!(
            described(&pull, merge, true, &[below]).unwrap().summary.unwrap(),
            "The pull request #7 waits: it conflicts with its target branch; Not enough approvals; a merge check of the \
             repository has not passed; changes are requested by bob; a review is requested from cy. Bitbucket \
             merges it when all merge checks pass. It is stacked on #6: its base branch is the branch of that one, which \
             should be merged first."
        );
    }
}
