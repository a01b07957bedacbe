//! Comments and reactions of pull requests.

use http::Method;
use serde_json::{Value, json};

use super::answers::{PACKAGE, error, invalid, not_permitted, page, show_user, unknown};
use super::request::{Request, TEXT_CHARS, level, text};
use crate::code_host::Reply;
use crate::code_host::state::{CommentedOn, LAST_LINE, Pull, Repository, ReviewComment, State};

/// The emoticons that the pages offer for reactions; whether others are accepted is unconfirmed.
const EMOTICONS: [&str; 5] = ["thumbsup", "thumbsdown", "heart", "thinking_face", "laughing"];

/// A comment or a reply.
struct CommentOrReply<'a> {
    id: u64,
    author: u64,
    body: &'a str,
    line: Option<&'a ReviewComment>,
}

/// Returns all comments of a pull request that begin threads.
fn roots<'a>(repository: &'a Repository, pull: &Pull) -> Vec<CommentOrReply<'a>> {
    let target = CommentedOn::Pull(pull.number);
    let comments = repository.comments.iter().filter(|one| one.target == target);
    let comments = comments.map(|one| CommentOrReply { id: one.id, author: one.author, body: &one.body, line: None });
    let reviews = repository.reviews.iter().filter(|review| review.pull == pull.number);
    let lines = reviews.flat_map(|review| {
        let found = |line: &'a ReviewComment| CommentOrReply {
            id: line.id,
            author: review.author,
            body: &line.body,
            line: Some(line),
        };
        review.comments.iter().map(found)
    });
    comments.chain(lines).collect()
}

/// Returns a comment or a reply of a pull request.
fn found<'a>(repository: &'a Repository, pull: &Pull, id: u64) -> Option<CommentOrReply<'a>> {
    let root = repository.root(id);
    let begins = roots(repository, pull).into_iter().find(|one| one.id == root)?;
    if root == id {
        return Some(begins);
    }
    let reply = repository.replies.iter().find(|reply| reply.id == id)?;
    Some(CommentOrReply { id, author: reply.author, body: &reply.body, line: None })
}

/// Returns the version of a comment, which changes with the text.
fn version(state: &State, repository: &Repository, id: u64) -> u64 {
    let (created, updated) = state.times.of_comment(id);
    let counted = repository.comment_versions.get(&id).copied().unwrap_or_default();
    counted.max(u64::from(created != updated))
}

/// Returns the anchor of a comment on a line or a file. Its path is a text, as in the examples of the documentation of
/// 7.21; the schema has an object.
fn anchor(repository: &Repository, line: &ReviewComment) -> Value {
    let on_line = json!({
        "diffType": "EFFECTIVE", "fileType": "TO", "line": line.line, "lineType": "ADDED", "path": line.path,
    });
    repository.anchors.get(&line.id).cloned().unwrap_or(on_line)
}

/// Shows a comment, with the replies to it below `comments`.
fn show(state: &State, repository: &Repository, one: &CommentOrReply<'_>) -> Value {
    let (created, updated) = state.times.of_comment(one.id);
    let severity = if repository.tasks.contains(&one.id) { "BLOCKER" } else { "NORMAL" };
    let own_state = if repository.resolved_comments.contains(&one.id) { "RESOLVED" } else { "OPEN" };
    let replies = repository.replies.iter().filter(|reply| reply.to == one.id);
    let replies =
        replies.map(|reply| CommentOrReply { id: reply.id, author: reply.author, body: &reply.body, line: None });
    let mut shown = json!({
        "id": one.id,
        "version": version(state, repository, one.id),
        "text": one.body,
        "author": show_user(&state.user(one.author)),
        "createdDate": created * 1000,
        "updatedDate": updated * 1000,
        "severity": severity,
        "state": own_state,
        // Replies have it too (github.com/pdogra1299/bitbucket-mcp-server/issues/19).
        "threadResolved": repository.resolved.contains(&repository.root(one.id)),
        "comments": replies.map(|reply| show(state, repository, &reply)).collect::<Vec<_>>(),
        "properties": {"repositoryId": repository.id},
    });
    if let Some(line) = one.line {
        shown["anchor"] = anchor(repository, line);
    }
    shown
}

/// Lists what happened to a pull request, newest first. The comments of a review are separate. Whether replies are also
/// activities of their own is unconfirmed.
pub(super) fn activities(state: &State, request: &Request<'_>, pull: &Pull) -> Reply {
    let repository = &request.repository;
    let activity = |id: u64, user: u64, at: i64, action: &str| json!({"id": id, "createdDate": at * 1000, "user": show_user(&state.user(user)), "action": action});
    let commented = |one: &CommentOrReply<'_>, action: &str| {
        let mut shown = activity(one.id, one.author, state.times.of_comment(one.id).0, "COMMENTED");
        shown["commentAction"] = action.into();
        shown["comment"] = show(state, repository, one);
        if let Some(line) = one.line {
            shown["commentAnchor"] = anchor(repository, line);
        }
        shown
    };
    let mut listed = vec![activity(1, pull.author, state.times.of_pull(repository.id, pull.number).0, "OPENED")];
    for root in roots(repository, pull) {
        listed.push(commented(&root, "ADDED"));
        for reply in repository.thread(root.id) {
            let reply = CommentOrReply { id: reply.id, author: reply.author, body: &reply.body, line: None };
            listed.push(commented(&reply, "REPLIED"));
        }
    }
    listed.reverse();
    page(request.call, &listed)
}

/// Returns the error for a text, a severity or a state.
fn wrong_fields(body: &Value) -> Option<Reply> {
    let text = body["text"].as_str().unwrap_or_default();
    if !body["text"].is_null() && (text.trim().is_empty() || text.chars().count() > TEXT_CHARS) {
        return Some(invalid("text", "The comment must have 1 to 32768 characters."));
    }
    let is_one_of = |name: &str, known: &[&str]| {
        body[name].is_null() || body[name].as_str().is_some_and(|value| known.contains(&value))
    };
    if !is_one_of("severity", &["NORMAL", "BLOCKER"]) {
        return Some(invalid("severity", "The severity is invalid."));
    }
    let is_state = is_one_of("state", &["OPEN", "PENDING", "RESOLVED"]);
    (!is_state).then(|| invalid("state", "The state is invalid."))
}

/// Returns the error for the anchor of a comment (POST …/comments).
fn wrong_anchor(anchor: &Value) -> Option<Reply> {
    let refused = |text: &str| Some(invalid("anchor", text));
    let is_given = |name: &str| !anchor[name].is_null();
    if anchor["path"].as_str().is_none_or(str::is_empty) {
        return refused("The path is required.");
    }
    let has_hashes = is_given("fromHash") && is_given("toHash");
    match anchor["diffType"].as_str() {
        Some("EFFECTIVE") => {}
        Some("COMMIT" | "RANGE") if has_hashes => {}
        // "if no diffType is provided and no fromHash/toHash pair is provided the diffType will be resolved to 'EFFECTIVE'.
        // In any other cases the diffType is REQUIRED."
        None if !is_given("diffType") && !has_hashes => {}
        _ => return refused("The diffType is required, and those of commits need fromHash and toHash."),
    }
    if is_given("multilineMarker") && !is_line_type(&anchor["multilineMarker"]["startLineType"]) {
        return refused("The startLineType is required.");
    }
    if !is_given("line") {
        return None;
    }
    let is_side = match anchor["lineType"].as_str() {
        Some("ADDED") => anchor["fileType"] == "TO",
        Some("REMOVED") => anchor["fileType"] == "FROM",
        Some("CONTEXT") => ["TO", "FROM"].iter().any(|side| anchor["fileType"] == **side),
        _ => false,
    };
    let is_in_diff = |line: &u64| (1..=LAST_LINE).contains(line);
    if !is_side || !anchor["line"].as_u64().is_some_and(|line| is_in_diff(&line)) {
        // The status and the name of the exception are unconfirmed.
        return Some(error(400, "validation.ArgumentValidationException", "The line is not in the diff."));
    }
    None
}

fn is_line_type(value: &Value) -> bool {
    ["ADDED", "CONTEXT", "REMOVED"].iter().any(|known| value == *known)
}

/// Adds a comment, a comment on a line or a file, or a reply to any comment.
pub(super) fn comment(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
    let Request { call, user, repository, .. } = request;
    let body = text(call, "text");
    if body.is_empty() {
        return invalid("text", "The text is required.");
    }
    if let Some(reply) = wrong_fields(&call.body) {
        return reply;
    }
    let anchor = &call.body["anchor"];
    let id = if let Some(parent) = call.body.pointer("/parent/id") {
        let Some(parent) = parent.as_u64() else { return invalid("parent", "The ID of the parent must be a number.") };
        if !repository.has_comment(pull.number, parent) {
            return no_comment(pull, parent);
        }
        // The product locks no threads. This stands for a permission that ends.
        if repository.locked_threads.contains(&repository.root(parent)) {
            return not_permitted();
        }
        let id = state.id();
        state.by_id(repository.id).unwrap().add_reply(id, parent, user.id, &body);
        id
    } else if anchor.is_object() {
        if let Some(reply) = wrong_anchor(anchor) {
            return reply;
        }
        let (path, line) = (anchor["path"].as_str().unwrap_or_default(), anchor["line"].as_u64().unwrap_or_default());
        state.add_review(&repository.path, pull.number, user.id, "", vec![(path.to_owned(), line, body)]);
        let stored = state.by_id(repository.id).unwrap();
        let id = stored.reviews.last().unwrap().comments[0].id;
        let mut anchor = anchor.clone();
        if anchor["diffType"].is_null() {
            anchor["diffType"] = "EFFECTIVE".into();
        }
        stored.anchors.insert(id, anchor);
        id
    } else {
        state.add_comment(&repository.path, CommentedOn::Pull(pull.number), user.id, &body)
    };
    let stored = state.by_id(repository.id).unwrap();
    if call.body["severity"] == "BLOCKER" {
        stored.tasks.insert(id);
    }
    let stored = stored.clone();
    Reply { status: 201, ..shown(state, &stored, pull, id) }
}

fn no_comment(pull: &Pull, comment: u64) -> Reply {
    let text = format!("Comment {comment} does not exist on pull request {}.", pull.number);
    error(404, "comment.NoSuchCommentException", &text)
}

/// Shows a comment with its version.
pub(super) fn one_comment(state: &State, request: &Request<'_>, pull: &Pull, id: &str) -> Reply {
    shown(state, &request.repository, pull, id.parse().unwrap_or_default())
}

fn shown(state: &State, repository: &Repository, pull: &Pull, id: u64) -> Reply {
    let Some(one) = found(repository, pull, id) else { return no_comment(pull, id) };
    Reply::json(200, &show(state, repository, &one))
}

/// Changes a comment. Only its author may change the text; the author of the pull request and administrators may change
/// the rest too (PUT …/comments/{commentId}).
pub(super) fn change_comment(state: &mut State, request: &Request<'_>, pull: &Pull, id: &str) -> Reply {
    let Request { call, user, token, repository } = request;
    let id = id.parse().unwrap_or_default();
    let Some(one) = found(repository, pull, id) else { return no_comment(pull, id) };
    let is_author = one.author == user.id;
    let Some(expected) = call.body["version"].as_u64() else { return invalid("version", "The version is required.") };
    let current = version(state, repository, id);
    if expected != current {
        let body = json!({"errors": [{
            "context": null,
            "message": "You are attempting to modify a comment based on out-of-date information.",
            "exceptionName": format!("{PACKAGE}.comment.CommentOutOfDateException"),
            "currentVersion": current,
            "expectedVersion": expected,
        }]});
        return Reply::json(409, &body);
    }
    if let Some(reply) = wrong_fields(&call.body) {
        return reply;
    }
    let text = call.body["text"].as_str();
    if text.is_some_and(|text| text != one.body) && !is_author {
        return not_permitted();
    }
    let has_others = ["threadResolved", "severity", "state"].iter().any(|name| !call.body[*name].is_null());
    if has_others && !is_author && pull.author != user.id && level(repository, user, token) < 3 {
        return not_permitted();
    }
    let stored = state.by_id(repository.id).unwrap();
    if let Some(text) = text.filter(|_| is_author) {
        stored.edit(id, user.id, text);
    }
    let root = stored.root(id);
    match call.body["threadResolved"].as_bool() {
        Some(true) => drop(stored.resolved.insert(root)),
        Some(false) => drop(stored.resolved.remove(&root)),
        None => {}
    }
    match call.body["severity"].as_str() {
        Some("BLOCKER") => drop(stored.tasks.insert(id)),
        Some(_) => drop(stored.tasks.remove(&id)),
        None => {}
    }
    match call.body["state"].as_str() {
        Some("RESOLVED") => drop(stored.resolved_comments.insert(id)),
        Some(_) => drop(stored.resolved_comments.remove(&id)),
        None => {}
    }
    stored.comment_versions.insert(id, current + 1);
    let stored = stored.clone();
    shown(state, &stored, pull, id)
}

/// Reacts to a comment.
pub(super) fn react(state: &mut State, request: &Request<'_>, below: &[&str]) -> Reply {
    let ["pull-requests", number, "comments", comment, "reactions", emoticon] = below else { return unknown() };
    if request.call.method != Method::PUT {
        return unknown();
    }
    if !EMOTICONS.contains(emoticon) {
        // The status and the name of the exception are unconfirmed.
        return error(400, "validation.ArgumentValidationException", &format!("There is no emoticon {emoticon}."));
    }
    let (number, comment): (u64, u64) = (number.parse().unwrap_or_default(), comment.parse().unwrap_or_default());
    let Some(pull) = request.repository.pulls.iter().find(|pull| pull.number == number) else {
        let text = format!("Pull request {number} does not exist.");
        return error(404, "pull.NoSuchPullRequestException", &text);
    };
    let Some(one) = found(&request.repository, pull, comment) else { return no_comment(pull, comment) };
    let reply = Reply::json(
        200,
        &json!({
            "comment": show(state, &request.repository, &one),
            "emoticon": {"shortcut": emoticon},
            "user": show_user(request.user),
        }),
    );
    let repository = state.by_id(request.repository.id).unwrap();
    let lines = repository.reviews.iter_mut().flat_map(|review| &mut review.comments);
    let lines = lines.map(|line| (line.id, &mut line.reactions));
    let mut all = repository.comments.iter_mut().map(|one| (one.id, &mut one.reactions)).chain(lines);
    // The state keeps no reactions to replies.
    if let Some((_, reactions)) = all.find(|(id, _)| *id == comment)
        && !reactions.iter().any(|known| known == emoticon)
    {
        reactions.push((*emoticon).to_owned());
    }
    reply
}
