//! Threads of comments on lines, and reactions to reviews.

use serde_json::{Value, json};

use super::{error, invalid, show_user};
use crate::code_host::state::{Place, Repository, Review, State, User};
use crate::code_host::{Call, Reply};

/// Answers a query for the threads of a pull request, one on each page.
pub(super) fn review_threads(state: &mut State, variables: &Value) -> Reply {
    let path = ["owner", "name"].map(|name| variables[name].as_str().unwrap_or_default()).join("/");
    let Some(found) = state.by_path(&path) else {
        let errors = json!([{"type": "NOT_FOUND", "message": "Could not resolve to a Repository"}]);
        return Reply::json(200, &json!({"data": {"repository": null}, "errors": errors}));
    };
    let of_pull = found.reviews.iter().filter(|review| Some(review.pull) == variables["number"].as_u64());
    let comments: Vec<u64> = of_pull.flat_map(|review| &review.comments).map(|comment| comment.id).collect();
    let page: usize = variables["after"].as_str().map_or(0, |after| after.parse().unwrap());
    let show = |id: &u64| {
        json!({
            "id": format!("PRRT_{id}"),
            "isResolved": found.resolved.contains(id),
            "comments": {"nodes": [{"fullDatabaseId": id.to_string()}]},
        })
    };
    let next = page + 1;
    let threads = json!({
        "nodes": comments.get(page).map(show).into_iter().collect::<Vec<_>>(),
        "pageInfo": {"hasNextPage": next < comments.len(), "endCursor": next.to_string()},
    });
    Reply::json(200, &json!({"data": {"repository": {"pullRequest": {"reviewThreads": threads}}}}))
}

fn unresolved() -> Reply {
    Reply::json(
        200,
        &json!({"data": null, "errors": [{"type": "NOT_FOUND", "message": "Could not resolve to a node"}]}),
    )
}

/// Returns the number in an ID of a node, which begins with its kind.
fn node(variables: &Value, kind: &str) -> Option<u64> {
    variables["id"].as_str()?.strip_prefix(kind)?.parse().ok()
}

pub(super) fn resolve(state: &mut State, variables: &Value) -> Reply {
    let Some(id) = node(variables, "PRRT_") else { return unresolved() };
    let has = |repository: &&mut Repository| {
        repository.reviews.iter().flat_map(|review| &review.comments).any(|comment| comment.id == id)
    };
    let Some(found) = state.repositories.iter_mut().find(has) else { return unresolved() };
    found.resolved.insert(id);
    Reply::json(200, &json!({"data": {"resolveReviewThread": {"clientMutationId": null}}}))
}

pub(super) fn react(state: &mut State, variables: &Value) -> Reply {
    let Some(id) = node(variables, "PRR_") else { return unresolved() };
    let has = |repository: &&mut Repository| repository.reviews.iter().any(|review| review.id == id);
    let Some(found) = state.repositories.iter_mut().find(has) else { return unresolved() };
    let content = variables["content"].as_str().unwrap_or_default().to_owned();
    let reactions = found.review_reactions.entry(id).or_default();
    if !reactions.contains(&content) {
        reactions.push(content);
    }
    Reply::json(200, &json!({"data": {"addReaction": {"clientMutationId": null}}}))
}

/// Replies to the first comment of a thread. Replies to replies are not supported.
pub(super) fn reply(
    state: &mut State,
    call: &Call,
    user: &User,
    found: &Repository,
    (number, comment): (&str, &str),
) -> Reply {
    let (number, comment) = (number.parse().unwrap_or_default(), comment.parse().unwrap_or_default());
    let body = call.body["body"].as_str().unwrap_or_default();
    if found.replies.iter().any(|reply| reply.id == comment) {
        return invalid(json!([{"resource": "PullRequestReviewComment", "field": "in_reply_to", "code": "invalid"}]));
    }
    if !found.has_line(number, comment) {
        return error(404, "Not Found");
    }
    if found.locked_threads.contains(&comment) {
        return error(403, "Unable to create comment because issue is locked.");
    }
    if body.trim().is_empty() || body.chars().count() > 65_536 {
        return invalid(json!([{"resource": "PullRequestReviewComment", "field": "body", "code": "missing_field"}]));
    }
    let id = state.id();
    state.by_id(found.id).unwrap().add_reply(id, comment, user.id, body);
    let url = format!("{}/{}/pull/{number}#discussion_r{id}", state.url, found.path);
    let shown = json!({
        "id": id, "in_reply_to_id": comment, "user": show_user(user), "body": body, "html_url": url,
        "updated_at": "2026-01-01T00:00:00Z",
    });
    Reply::json(201, &shown)
}

pub(super) fn review(state: &State, found: &Repository, (number, review): (&str, &str)) -> Reply {
    let is_it =
        |known: &&Review| (known.pull.to_string(), known.id.to_string()) == (number.to_owned(), review.to_owned());
    let Some(known) = found.reviews.iter().find(is_it) else { return error(404, "Not Found") };
    let url = format!("{}/{}/pull/{number}#pullrequestreview-{review}", state.url, found.path);
    let shown = json!({
        "id": known.id, "node_id": format!("PRR_{}", known.id), "user": show_user(&state.user(known.author)),
        "body": known.body, "state": "COMMENTED", "html_url": url,
    });
    Reply::json(200, &shown)
}

/// Changes a comment in a conversation. Only its author, and people who may push, may do so.
pub(super) fn edit(state: &mut State, call: &Call, user: &User, found: &Repository, comment: &str) -> Reply {
    let id = comment.parse().unwrap_or_default();
    let Some(known) = found.comments.iter().find(|known| known.id == id) else { return error(404, "Not Found") };
    let body = call.body["body"].as_str().unwrap_or_default();
    if body.is_empty() || body.chars().count() > 65_536 {
        return invalid(json!([{"resource": "IssueComment", "field": "data", "code": "unprocessable"}]));
    }
    state.by_id(found.id).unwrap().edit(id, known.author, body);
    let (Place::Pull(number) | Place::Issue(number)) = known.place;
    let url = format!("{}/{}/pull/{number}#issuecomment-{id}", state.url, found.path);
    let shown = json!({
        "id": id, "user": show_user(user), "body": body, "html_url": url, "updated_at": "2026-01-01T00:00:00Z",
    });
    Reply::json(200, &shown)
}
