//! The merge of pull requests of GitHub: what it waits for, and the request to merge when all requirements are met.

use std::time::Duration;

use journeyman_core::checks::Check;
use journeyman_core::code_host::HostRepository;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use serde_json::{Value, json};

use super::{Github, repository_path};
use crate::merge::{MergeNote, NOTHING_TO_WAIT_FOR, if_read};

/// The delays before a request to merge is repeated.
const DELAYS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// The query for the open pull requests of a commit. Only this interface tells about the merge queue and code owners.
const STATE: &str = "query($owner: String!, $name: String!, $sha: GitObjectID!) { repository(owner: $owner, name: $name) { \
                     object(oid: $sha) { ... on Commit { associatedPullRequests(first: 5) { nodes { number state \
                     headRefOid isDraft mergeStateStatus reviewDecision isInMergeQueue mergeQueueEntry { position state } \
                     autoMergeRequest { enabledAt } reviewRequests(first: 20) { nodes { asCodeOwner requestedReviewer { \
                     ... on User { login } ... on Team { combinedSlug } } } } baseRef { associatedPullRequests(first: 1, \
                     states: OPEN) { nodes { number } } } } } } } } }";

/// The query for what a request to merge needs.
const ALLOWED: &str = "query($owner: String!, $name: String!, $number: Int!) { repository(owner: $owner, name: $name) { \
                       autoMergeAllowed viewerDefaultMergeMethod pullRequest(number: $number) { id } } }";

/// The request to merge when all requirements are met.
const ENABLE: &str = "mutation($id: ID!, $method: PullRequestMergeMethod!) { enablePullRequestAutoMerge(input: \
                      {pullRequestId: $id, mergeMethod: $method}) { clientMutationId } }";

/// Returns what GitHub tells about the merges of the open pull requests whose newest commit this is.
pub(super) async fn notes(github: &Github, repository: &HostRepository, sha: &Sha) -> Vec<Check> {
    let read = async {
        let path = repository_path(repository)?;
        let (owner, name) = path.parts();
        let variables = json!({"owner": owner, "name": name, "sha": sha.as_str()});
        // The names of teams may be hidden from the credential, and the rest is told all the same.
        let graph = github.graph_answer(repository, STATE, variables).await?;
        let pulls = graph.data.pointer("/repository/object/associatedPullRequests/nodes").cloned();
        match (pulls, graph.errors.into_iter().next()) {
            (None, Some(error)) => Err(ForgeError::Refused(error.message)),
            (pulls, _) => Ok(pulls.unwrap_or_default()),
        }
    };
    let pulls = if_read(&repository.path, read.await);
    let open = pulls.as_array().into_iter().flatten();
    let open = open.filter(|pull| pull["state"] == "OPEN" && pull["headRefOid"] == sha.as_str());
    open.filter_map(described).collect()
}

fn described(pull: &Value) -> Option<Check> {
    let mut note = MergeNote::default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let status = text(&pull["mergeStateStatus"]);
    match status.as_str() {
        "BEHIND" => note.wait("its branch must be updated with the base branch"),
        "DIRTY" => note.wait("it conflicts with the base branch"),
        _ => {}
    }
    if pull["isDraft"] == true {
        note.wait("it is a draft");
    }
    match pull["reviewDecision"].as_str() {
        Some("REVIEW_REQUIRED") => note.wait("approvals are missing"),
        Some("CHANGES_REQUESTED") => note.wait("a reviewer has requested changes"),
        _ if status == "BLOCKED" && pull["isDraft"] != true => {
            note.wait("a rule of the base branch is not met, such as a check, an approval or a resolved conversation");
        }
        _ => {}
    }
    let requests: Vec<&Value> =
        pull.pointer("/reviewRequests/nodes").and_then(Value::as_array).into_iter().flatten().collect();
    let name = |request: &&Value| {
        let reviewer = &request["requestedReviewer"];
        let name = reviewer["login"].as_str().or(reviewer["combinedSlug"].as_str())?;
        let suffix = if request["asCodeOwner"] == true { " (code owner)" } else { "" };
        Some(format!("{name}{suffix}"))
    };
    note.reviews_of(&requests.iter().filter_map(name).collect::<Vec<_>>());
    if let Some(position) = pull.pointer("/mergeQueueEntry/position").and_then(Value::as_u64) {
        let state = match pull.pointer("/mergeQueueEntry/state").and_then(Value::as_str) {
            Some("AWAITING_CHECKS") => ", whose checks have not finished",
            Some("MERGEABLE") => ", and is about to be merged",
            Some("UNMERGEABLE") => ", and cannot be merged",
            _ => "",
        };
        note.facts.push(format!("It is number {position} in the merge queue{state}."));
    } else if pull["isInMergeQueue"] == true {
        note.facts.push("It is in the merge queue.".to_owned());
    }
    if pull["autoMergeRequest"].is_object() {
        note.facts.push("GitHub merges it when all requirements are met.".to_owned());
    }
    if let Some(number) = pull.pointer("/baseRef/associatedPullRequests/nodes/0/number").and_then(Value::as_u64) {
        note.stacked_on('#', number);
    }
    note.into_check("Pull request", &format!("#{}", pull["number"].as_u64().unwrap_or_default()))
}

/// Asks GitHub to merge a pull request when all requirements are met.
pub(super) async fn request(github: &Github, repository: &HostRepository, number: u64) -> Result<(), ForgeError> {
    let path = repository_path(repository)?;
    let (owner, name) = path.parts();
    let variables = json!({"owner": owner, "name": name, "number": number});
    let found = github.graph(repository, ALLOWED, variables).await?;
    if found.pointer("/repository/autoMergeAllowed") == Some(&Value::Bool(false)) {
        let text = "the repository does not allow auto-merge; allow it in its settings, under Pull Requests";
        return Err(ForgeError::Refused(text.to_owned()));
    }
    let id = found.pointer("/repository/pullRequest/id").and_then(Value::as_str);
    let id = id.ok_or_else(|| ForgeError::NotFound("GitHub does not show the pull request".to_owned()))?;
    let method = found.pointer("/repository/viewerDefaultMergeMethod").and_then(Value::as_str).unwrap_or("MERGE");
    let mut delays = DELAYS.into_iter();
    loop {
        match github.graph(repository, ENABLE, json!({"id": id, "method": method})).await {
            // GitHub finds out a moment after the opening of a pull request whether it can be merged.
            Err(ForgeError::Refused(text)) if text.to_lowercase().contains("unknown status") => match delays.next() {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(ForgeError::Refused(refusal(&text))),
            },
            Err(ForgeError::Refused(text)) => return Err(ForgeError::Refused(refusal(&text))),
            done => return done.map(drop),
        }
    }
}

/// Returns the reason for a refusal in the words of the service.
fn refusal(message: &str) -> String {
    let is = |part: &str| message.to_lowercase().contains(part);
    if is("clean status") || is("unstable status") || is("has_hooks status") {
        NOTHING_TO_WAIT_FOR.to_owned()
    } else if is("not allowed") {
        "the repository does not allow auto-merge, or not this way of merging; see its settings, under Pull Requests"
            .to_owned()
    } else {
        tracing::info!(message, "GitHub refuses to merge a pull request when all requirements are met");
        "GitHub refuses it; the message is in the log of the service".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(pull: Value) -> String {
        described(&pull).and_then(|check| check.summary).unwrap_or_default()
    }

    #[test]
    fn what_the_merge_waits_for_is_told_in_words() {
        let team = json!({"asCodeOwner": true, "requestedReviewer": {"combinedSlug": "acme/backend"}});
        let hidden = json!({"asCodeOwner": false, "requestedReviewer": null});
        for (pull, expected) in [
            (json!({"number": 7, "mergeStateStatus": "CLEAN"}), ""),
            (json!({"number": 7, "mergeStateStatus": "UNSTABLE", "isInMergeQueue": false}), ""),
            (
                json!({"number": 7, "mergeStateStatus": "BLOCKED", "reviewDecision": "REVIEW_REQUIRED", "reviewRequests":
                    {"nodes": [{"asCodeOwner": false, "requestedReviewer": {"login": "ada"}}, team, hidden]}}),
                "The pull request #7 waits: approvals are missing; a review is requested from ada, acme/backend (code \
                 owner).",
            ),
            (
                json!({"number": 7, "mergeStateStatus": "DIRTY", "isDraft": true, "reviewDecision": null}),
                "The pull request #7 waits: it conflicts with the base branch; it is a draft.",
            ),
            (
                json!({"number": 7, "mergeStateStatus": "BLOCKED", "autoMergeRequest": {"enabledAt": "x"}}),
                "The pull request #7 waits: a rule of the base branch is not met, such as a check, an approval or a \
                 resolved conversation. GitHub merges it when all requirements are met.",
            ),
            (
                json!({"number": 7, "mergeQueueEntry": {"position": 2, "state": "AWAITING_CHECKS"}}),
                "It is number 2 in the merge queue, whose checks have not finished.",
            ),
            (
                json!({"number": 7, "baseRef": {"associatedPullRequests": {"nodes": [{"number": 6}]}}}),
                "It is stacked on #6: its base branch is the branch of that one, which should be merged first.",
            ),
        ] {
            assert_eq!(summary(pull.clone()), expected, "{pull}");
        }
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_service() {
        assert_eq!(refusal("Pull request Pull request is in clean status"), NOTHING_TO_WAIT_FOR);
        assert!(refusal("Auto merge is not allowed for this repository").contains("does not allow auto-merge"));
        assert!(!refusal("<secret> of the host").contains("secret"));
    }
}
