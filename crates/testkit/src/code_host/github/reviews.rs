//! Reviews, comments on lines, and replies to them.

use http::Method;
use serde_json::{Value, json};

use super::super::state::{LAST_LINE, Pull, Repository, Review, State, User};
use super::super::{ApiRequest, Reply};
use super::answers::{
    Kind, below, error, invalid, is_since, page, refused_body, sorted_comments, text, times, unprocessable,
};
use super::located;
use super::repository::{api, is_commit, no_commit};
use super::users::{association, show_user};

/// What the IDs of the reviews of replies add to the IDs of the replies: each reply is in a review of its own.
const OF_REPLY: u64 = 1_000_000;

/// Answers a request for the reviews or the comments on lines of a pull request.
pub(super) fn answer(
    state: &mut State,
    call: &ApiRequest,
    user: &User,
    found: &Repository,
    pull: &Pull,
    parts: &[&str],
) -> Reply {
    let rest = format!("pulls/{}/{}", pull.number, parts.join("/"));
    match (&call.method, parts) {
        (&Method::GET, ["comments"]) => {
            let listed = lines(state, found, pull).into_iter().filter(|line| is_since(call, line)).collect();
            page(state, call, &below(found, &rest), sorted_comments(call, listed))
        }
        (&Method::POST, ["comments", comment, "replies"]) => reply(state, call, user, found, pull, comment),
        (&Method::GET, ["reviews"]) => page(state, call, &below(found, &rest), list(state, found, pull, user)),
        (&Method::POST, ["reviews"]) => create(state, call, user, found, pull),
        (&Method::GET, ["reviews", id]) => {
            let id: u64 = id.parse().unwrap_or_default();
            let is_it = |review: &Value| review["id"] == id;
            match list(state, found, pull, user).into_iter().find(is_it) {
                Some(review) => Reply::json(200, &review),
                None => error(404, "Not Found"),
            }
        }
        _ => error(404, "Not Found"),
    }
}

/// Returns the state and the commit of a review.
fn record(found: &Repository, pull: &Pull, review: u64) -> (String, String) {
    let known = found.github.reviews.get(&review).cloned();
    known.unwrap_or_else(|| ("COMMENTED".to_owned(), found.sha_of(pull)))
}

/// Returns the reviews of a pull request, oldest first. Only their authors see those that are pending.
fn list(state: &State, found: &Repository, pull: &Pull, user: &User) -> Vec<Value> {
    let mut listed = Vec::new();
    for review in found.reviews.iter().filter(|review| review.pull == pull.number) {
        let (status, commit) = record(found, pull, review.id);
        if status != "PENDING" || review.author == user.id {
            let at = times(state, &format!("review/{}", review.id)).0;
            listed.push(show(state, found, pull, review, (&status, &commit, &at)));
        }
        for reply in review.comments.iter().flat_map(|line| found.thread(line.id)) {
            let at = times(state, &format!("comment/{}", reply.id)).0;
            let of_reply = Review {
                id: OF_REPLY + reply.id,
                pull: pull.number,
                author: reply.author,
                body: String::new(),
                comments: Vec::new(),
            };
            listed.push(show(state, found, pull, &of_reply, ("COMMENTED", &commit, &at)));
        }
    }
    listed.sort_by_key(|review| review["submitted_at"].as_str().map(str::to_owned));
    listed
}

/// Describes a review (schema `pull-request-review`). One that is pending has no time.
fn show(
    state: &State,
    found: &Repository,
    pull: &Pull,
    review: &Review,
    (status, commit, at): (&str, &str, &str),
) -> Value {
    let page = format!("{}/{}/pull/{}#pullrequestreview-{}", state.url, found.path, pull.number, review.id);
    let url = format!("{}/pulls/{}", api(state, found), pull.number);
    let mut shown = json!({
        "id": review.id, "node_id": format!("PRR_{}", review.id), "user": show_user(state, review.author),
        "body": review.body, "state": status, "html_url": page, "pull_request_url": url,
        "_links": {"html": {"href": page}, "pull_request": {"href": url}}, "commit_id": commit,
        "author_association": association(found, review.author),
    });
    if status != "PENDING" {
        shown["submitted_at"] = at.into();
    }
    shown
}

/// Returns the comments on lines of a pull request with the replies, except those of pending reviews.
fn lines(state: &State, found: &Repository, pull: &Pull) -> Vec<Value> {
    let mut listed = Vec::new();
    for review in found.reviews.iter().filter(|review| review.pull == pull.number) {
        let (status, commit) = record(found, pull, review.id);
        if status == "PENDING" {
            continue;
        }
        for line in &review.comments {
            let show = |id: u64, review: u64, author: u64, body: &str| {
                show_line(state, found, pull, line.id, (id, review, author, body, &commit))
            };
            listed.push(show(line.id, review.id, review.author, &line.body));
            for reply in found.thread(line.id) {
                let mut shown = show(reply.id, OF_REPLY + reply.id, reply.author, &reply.body);
                // A reply to a reply answers the first comment.
                shown["in_reply_to_id"] = line.id.into();
                listed.push(shown);
            }
        }
    }
    listed
}

/// Describes a comment in the thread of a comment on a line (schema `pull-request-review-comment`). When later commits
/// have changed the line, `line`, `start_line` and `position` are `null` (types of webhooks, `PullRequestReviewComment`).
fn show_line(
    state: &State,
    found: &Repository,
    pull: &Pull,
    root: u64,
    (id, review, author, body, commit): (u64, u64, u64, &str, &str),
) -> Value {
    let all = found.reviews.iter().flat_map(|review| &review.comments);
    let line = all.into_iter().find(|line| line.id == root).unwrap();
    let anchor = found.anchors.get(&root).cloned().unwrap_or_default();
    let is_current = !found.github.outdated.contains(&root);
    let start = &anchor["start_line"];
    let url = format!("{}/pulls/{}", api(state, found), pull.number);
    let this = format!("{}/pulls/comments/{id}", api(state, found));
    let page = format!("{}/{}/pull/{}#discussion_r{id}", state.url, found.path, pull.number);
    let (created, updated) = times(state, &format!("comment/{id}"));
    json!({
        "url": this, "pull_request_review_id": review, "id": id, "node_id": format!("PRRC_{id}"),
        "diff_hunk": "@@ -1 +1,2 @@\n # Shop\n+more", "path": line.path,
        "position": is_current.then_some(line.line), "original_position": line.line,
        "commit_id": if is_current { found.sha_of(pull) } else { commit.to_owned() }, "original_commit_id": commit,
        "user": show_user(state, author), "body": body, "created_at": created, "updated_at": updated,
        "html_url": page, "pull_request_url": url, "author_association": association(found, author),
        "_links": {"self": {"href": this}, "html": {"href": page}, "pull_request": {"href": url}},
        "start_line": if is_current { start } else { &Value::Null }, "original_start_line": start,
        "start_side": anchor["start_side"], "line": is_current.then_some(line.line), "original_line": line.line,
        "side": anchor["side"].as_str().unwrap_or("RIGHT"), "subject_type": "line",
    })
}

/// Returns the refusal of a comment of a new review.
fn refused_line(comment: &Value) -> Option<Reply> {
    for name in ["path", "body"] {
        if !comment[name].is_string() {
            let what = format!("No subschema in \"anyOf\" matched.\n\"{name}\" wasn't supplied.");
            return Some(error(422, &format!("Invalid request.\n\n{what}")));
        }
    }
    if text(comment, "body").trim().is_empty() {
        return Some(unprocessable("Body can't be blank"));
    }
    let is_in_diff = |line: &Value| line.as_u64().is_some_and(|line| (1..=LAST_LINE).contains(&line));
    let is_side = |side: &Value| side.is_null() || side == "LEFT" || side == "RIGHT";
    if comment["line"].is_null() && is_in_diff(&comment["position"]) {
        return None;
    }
    let sides = [&comment["side"], &comment["start_side"]];
    if !is_in_diff(&comment["line"]) || !sides.into_iter().all(is_side) {
        return Some(unprocessable("Line could not be resolved"));
    }
    let start = &comment["start_line"];
    if !start.is_null() {
        if !is_in_diff(start) {
            return Some(unprocessable("Start line could not be resolved"));
        }
        let is_same_side = comment["start_side"].is_null() || comment["start_side"] == comment["side"];
        if is_same_side && start.as_u64() >= comment["line"].as_u64() {
            return Some(unprocessable("Pull request review thread start line must precede the end line."));
        }
    }
    None
}

/// Answers operation `pulls/create-review`. Without an event, the review is pending, of which each user can have one.
/// All comments must be on lines of the diff, otherwise there is no review.
fn create(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, pull: &Pull) -> Reply {
    let kinds = [
        ("commit_id", Kind::Text),
        ("body", Kind::Text),
        ("event", Kind::Choice(&["APPROVE", "REQUEST_CHANGES", "COMMENT"])),
        ("comments", Kind::List),
    ];
    if let Some(reply) = refused_body(call, &[], &kinds) {
        return reply;
    }
    let (event, body) = (text(&call.body, "event"), text(&call.body, "body"));
    let comments = call.body["comments"].as_array().cloned().unwrap_or_default();
    if let Some(reply) = comments.iter().find_map(refused_line) {
        return reply;
    }
    let head = found.sha_of(pull);
    let commit = call.body["commit_id"].as_str().unwrap_or(&head);
    if !is_commit(found, commit) {
        return no_commit(commit);
    }
    if body.chars().count() > 65_536 {
        return unprocessable("Body is too long (maximum is 65536 characters)");
    }
    let is_pending = |review: &&Review| record(found, pull, review.id).0 == "PENDING";
    let mut own = found.reviews.iter().filter(|one| one.pull == pull.number && one.author == user.id);
    let status = match event {
        "COMMENT" if body.is_empty() && comments.is_empty() => return unprocessable("Review body can't be blank"),
        "REQUEST_CHANGES" if body.is_empty() => return unprocessable("Review body can't be blank"),
        "APPROVE" if pull.author == user.id => return unprocessable("Review Can not approve your own pull request"),
        "REQUEST_CHANGES" if pull.author == user.id => {
            return unprocessable("Review Can not request changes on your own pull request");
        }
        _ if own.any(|review| is_pending(&review)) => {
            return unprocessable("User can only have one pending review per pull request");
        }
        "COMMENT" => "COMMENTED",
        "APPROVE" => "APPROVED",
        "REQUEST_CHANGES" => "CHANGES_REQUESTED",
        _ => "PENDING",
    };
    let lines = comments.iter().map(|comment| {
        let line = comment["line"].as_u64().or(comment["position"].as_u64()).unwrap_or_default();
        (text(comment, "path").to_owned(), line, text(comment, "body").to_owned())
    });
    let id = state.add_review(&found.path, pull.number, user.id, body, lines.collect());
    let repository = state.by_id(found.id).unwrap();
    let review = repository.reviews.iter().find(|review| review.id == id).cloned().unwrap();
    for (line, comment) in review.comments.iter().zip(comments) {
        repository.anchors.insert(line.id, comment);
    }
    repository.github.reviews.insert(id, (status.to_owned(), commit.to_owned()));
    let at = times(state, &format!("review/{id}")).0;
    Reply::json(200, &show(state, found, pull, &review, (status, commit, &at)))
}

/// Answers operation `pulls/create-reply-for-review-comment`. Only the first comment of a thread can be answered.
fn reply(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, pull: &Pull, comment: &str) -> Reply {
    let comment = comment.parse().unwrap_or_default();
    if let Some(reply) = refused_body(call, &["body"], &[("body", Kind::Text)]) {
        return reply;
    }
    let refused = |field: &str, code: &str| {
        invalid(json!([{"resource": "PullRequestReviewComment", "field": field, "code": code}]))
    };
    if found.replies.iter().any(|reply| reply.id == comment) {
        return refused("in_reply_to", "invalid");
    }
    if !found.has_line(pull.number, comment) {
        return error(404, "Not Found");
    }
    if found.locked_threads.contains(&comment) {
        return error(403, "Unable to create comment because issue is locked.");
    }
    let body = text(&call.body, "body");
    if body.trim().is_empty() {
        return refused("body", "missing_field");
    }
    if body.chars().count() > 65_536 {
        return super::answers::custom(
            "PullRequestReviewComment",
            "body",
            "body is too long (maximum is 65536 characters)",
        );
    }
    let id = state.id();
    state.by_id(found.id).unwrap().add_reply(id, comment, user.id, body);
    let head = found.sha_of(pull);
    let mut shown = show_line(state, found, pull, comment, (id, OF_REPLY + id, user.id, body, &head));
    shown["in_reply_to_id"] = comment.into();
    located(201, &shown)
}
