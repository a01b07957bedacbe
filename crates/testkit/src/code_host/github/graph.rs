//! The GraphQL interface.

use serde_json::{Value, json};

use super::{error, threads};
use crate::code_host::state::{Pull, PullState, Repository, State};
use crate::code_host::{Call, Reply};

/// Answers a request.
pub(super) fn graphql(state: &mut State, call: &Call) -> Reply {
    if state.signed_in(call.token().as_deref()).is_none() {
        return error(401, "Bad credentials");
    }
    if call.body["query"].as_str().is_some_and(|query| query.contains("reviewThreads")) {
        return threads::review_threads(state, &call.body["variables"]);
    }
    let (query, id) = (call.body["query"].as_str().unwrap_or_default(), call.body["variables"]["id"].as_str());
    if query.contains("resolveReviewThread") {
        return threads::resolve(state, &call.body["variables"]);
    }
    if query.contains("addReaction") {
        return threads::react(state, &call.body["variables"]);
    }
    if query.contains("mergeStateStatus") {
        return merge_states(state, &call.body["variables"]);
    }
    if query.contains("autoMergeAllowed") {
        return auto_merge_allowed(state, &call.body["variables"]);
    }
    let parts: Vec<u64> = id.unwrap_or_default().split('_').filter_map(|part| part.parse().ok()).collect();
    let [repository, number] = parts.as_slice() else {
        return Reply::json(200, &json!({"data": null, "errors": [{"message": "Could not resolve to a node"}]}));
    };
    let found = state.by_id(*repository).unwrap();
    if query.contains("enablePullRequestAutoMerge") {
        let method = call.body["variables"]["method"].as_str();
        if !found.has_requirements || method != Some("SQUASH") {
            let text = "Pull request Pull request is in clean status";
            return Reply::json(200, &json!({"data": null, "errors": [{"type": "UNPROCESSABLE", "message": text}]}));
        }
        found.auto_merges.push(*number);
        return Reply::json(200, &json!({"data": {"enablePullRequestAutoMerge": {"clientMutationId": null}}}));
    }
    let pull = found.pulls.iter_mut().find(|pull| pull.number == *number).unwrap();
    pull.draft = query.contains("convertPullRequestToDraft");
    Reply::json(200, &json!({"data": {}}))
}

/// Returns the repository that the variables of a query name.
fn named<'a>(state: &'a mut State, variables: &Value) -> Option<&'a mut Repository> {
    let (owner, name) = (variables["owner"].as_str()?, variables["name"].as_str()?);
    state.by_path(&format!("{owner}/{name}"))
}

/// Answers the query for the open pull requests of a commit.
fn merge_states(state: &mut State, variables: &Value) -> Reply {
    let Some(found) = named(state, variables) else {
        return Reply::json(200, &json!({"data": {"repository": null}, "errors": [{"message": "NOT_FOUND"}]}));
    };
    let sha = variables["sha"].as_str().unwrap_or_default();
    let open = found.pulls.iter().filter(|pull| pull.state == PullState::Open && found.sha_of(pull) == sha);
    let show = |pull: &Pull| {
        let mut shown = json!({
            "number": pull.number, "state": "OPEN", "headRefOid": sha, "isDraft": pull.draft,
            "mergeStateStatus": "CLEAN", "reviewDecision": null, "isInMergeQueue": false,
            "autoMergeRequest": found.auto_merges.contains(&pull.number).then(|| json!({"enabledAt": "2026-01-01T00:00:00Z"})),
        });
        if let (Some(shown), Some(more)) = (shown.as_object_mut(), found.merge_state.as_object()) {
            shown.extend(more.clone());
        }
        shown
    };
    let nodes: Vec<Value> = open.map(show).collect();
    let object = json!({"associatedPullRequests": {"nodes": nodes}});
    Reply::json(200, &json!({"data": {"repository": {"object": object}}}))
}

/// Answers the query for what a request to merge later needs.
fn auto_merge_allowed(state: &mut State, variables: &Value) -> Reply {
    let Some(found) = named(state, variables) else {
        return Reply::json(200, &json!({"data": {"repository": null}, "errors": [{"message": "NOT_FOUND"}]}));
    };
    let id = format!("PR_{}_{}", found.id, variables["number"]);
    let repository = json!({
        "autoMergeAllowed": !found.forbids_auto_merge, "viewerDefaultMergeMethod": "SQUASH", "pullRequest": {"id": id},
    });
    Reply::json(200, &json!({"data": {"repository": repository}}))
}
