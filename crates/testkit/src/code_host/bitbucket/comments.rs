//! The comments of pull requests.

use http::Method;
use serde_json::{Value, json};

use super::answers::{error, invalid, page, required, show_user, show_user_of, time};
use super::filter::filtered;
use super::sender::Sender;
use crate::code_host::state::{CommentedOn, LAST_LINE, Pull, Repository, ReviewComment, State};
use crate::code_host::{ApiRequest, Reply};

/// The fields by which comments are filtered and sorted.
const FIELDS: [&str; 8] =
    ["id", "created_on", "updated_on", "user.uuid", "content.raw", "deleted", "parent.id", "inline.path"];

/// A comment, or a reply to one.
struct CommentOrReply<'a> {
    id: u64,
    author: u64,
    body: &'a str,
    parent: Option<u64>,
    /// The comment on a line that begins the thread.
    line: Option<&'a ReviewComment>,
}

/// Returns all comments of a pull request, oldest first.
fn all<'a>(found: &'a Repository, pull: &Pull) -> Vec<CommentOrReply<'a>> {
    let target = CommentedOn::Pull(pull.number);
    let comments = found.comments.iter().filter(|one| one.target == target);
    let comments = comments.map(|one| CommentOrReply {
        id: one.id,
        author: one.author,
        body: &one.body,
        parent: None,
        line: None,
    });
    let reviews = found.reviews.iter().filter(|review| review.pull == pull.number);
    let lines = reviews.flat_map(|review| {
        let show = |line: &'a ReviewComment| CommentOrReply {
            id: line.id,
            author: review.author,
            body: &line.body,
            parent: None,
            line: Some(line),
        };
        review.comments.iter().map(show)
    });
    let mut listed: Vec<CommentOrReply<'_>> = comments.chain(lines).collect();
    let roots: Vec<_> = listed.iter().map(|one| (one.id, one.line)).collect();
    for (root, line) in roots {
        let replies = found.thread(root).into_iter();
        listed.extend(replies.map(|reply| CommentOrReply {
            id: reply.id,
            author: reply.author,
            body: &reply.body,
            parent: Some(reply.to),
            line,
        }));
    }
    listed.sort_by_key(|one| one.id);
    listed
}

/// Returns the anchor of a comment on a line, which replies inherit.
fn inline(found: &Repository, line: &ReviewComment) -> Value {
    let on_line = json!({"path": line.path, "from": null, "to": line.line, "start_from": null, "start_to": null});
    found.anchors.get(&line.id).cloned().unwrap_or(on_line)
}

fn show(state: &State, found: &Repository, pull: &Pull, one: &CommentOrReply<'_>) -> Value {
    let (created, updated) = state.times.of_comment(one.id);
    let url = format!("{}/{}/pull-requests/{}", state.url, found.path, pull.number);
    let mut shown = json!({
        "type": "pullrequest_comment",
        "id": one.id,
        "content": {"type": "rendered", "raw": one.body, "markup": "markdown", "html": format!("<p>{}</p>", one.body)},
        "user": show_user_of(state, one.author),
        "deleted": false,
        "pending": false,
        "pullrequest": {"type": "pullrequest", "id": pull.number, "title": pull.title},
        "created_on": time(created),
        "updated_on": time(updated),
        "links": {"html": {"href": format!("{url}/_/diff#comment-{}", one.id)}},
    });
    if let Some(line) = one.line {
        shown["inline"] = inline(found, line);
    }
    match one.parent {
        Some(parent) => shown["parent"] = json!({"id": parent}),
        None if found.resolved.contains(&one.id) => {
            shown["resolution"] = json!({"type": "comment_resolution", "created_on": time(updated)});
        }
        None => {}
    }
    shown
}

/// Answers a request about the comments of a pull request. The scope to read pull requests is enough for all of them.
pub(super) fn comments(
    state: &mut State,
    call: &ApiRequest,
    sender: &Sender,
    found: &Repository,
    (pull, below): (&Pull, &[&str]),
) -> Reply {
    let listed = all(found, pull);
    if below.is_empty() {
        return match call.method {
            Method::GET => {
                let shown = listed.iter().map(|one| show(state, found, pull, one)).collect();
                filtered(call, shown, &FIELDS).map_or_else(|refusal| refusal, |shown| page(state, call, 100, &shown))
            }
            Method::POST => add(state, call, sender, found, pull),
            _ => error(405, "Method not allowed"),
        };
    }
    let Some(one) = listed.iter().find(|one| one.id.to_string() == below[0]) else { return not_found(below[0]) };
    match (&call.method, &below[1..]) {
        (&Method::GET, []) => Reply::json(200, &show(state, found, pull, one)),
        (&Method::PUT, []) => edit(state, call, sender, found, (pull, one)),
        // POST and DELETE …/resolve: 403 "if the provided comment is not a top-level comment, or if the comment is not on the
        // diff".
        (&(Method::POST | Method::DELETE), ["resolve"]) if one.parent.is_some() || one.line.is_none() => {
            error(403, "Only top-level comments on the diff can be resolved.")
        }
        (&Method::POST, ["resolve"]) => {
            if !state.by_id(found.id).unwrap().resolved.insert(one.id) {
                return error(409, "The comment thread is already resolved.");
            }
            let at = time(state.times.of_comment(one.id).1);
            let user = show_user(&sender.user);
            Reply::json(200, &json!({"type": "comment_resolution", "user": user, "created_on": at}))
        }
        (&Method::DELETE, ["resolve"]) => match state.by_id(found.id).unwrap().resolved.remove(&one.id) {
            true => Reply::text(204, ""),
            false => error(404, "The comment thread is not resolved."),
        },
        _ => error(404, "Resource not found"),
    }
}

fn not_found(comment: &str) -> Reply {
    error(404, &format!("Comment {comment} not found"))
}

/// Returns the text in the body of a request.
fn raw(call: &ApiRequest) -> Option<&str> {
    call.body.pointer("/content/raw").and_then(Value::as_str).filter(|raw| !raw.is_empty())
}

/// Adds a comment, a comment on a line or a file, or a reply to any comment.
fn add(state: &mut State, call: &ApiRequest, sender: &Sender, found: &Repository, pull: &Pull) -> Reply {
    let Some(body) = raw(call) else { return required("content") };
    let (inline, author) = (&call.body["inline"], sender.user.id);
    let id = if let Some(parent) = call.body.pointer("/parent/id") {
        let Some(parent) = parent.as_u64() else {
            return invalid("parent", &["A valid integer is required.".to_owned()]);
        };
        // The answer for a parent that does not exist is unconfirmed.
        if !found.has_comment(pull.number, parent) {
            return not_found(&parent.to_string());
        }
        if found.locked_threads.contains(&found.root(parent)) {
            return error(403, "You may not reply to this comment.");
        }
        let id = state.id();
        state.by_id(found.id).unwrap().add_reply(id, parent, author, body);
        id
    } else if inline.is_object() {
        let anchor = match anchor(inline) {
            Ok(anchor) => anchor,
            Err(refusal) => return refusal,
        };
        let line = anchor["to"].as_u64().or_else(|| anchor["from"].as_u64()).unwrap_or_default();
        let path = anchor["path"].as_str().unwrap_or_default().to_owned();
        state.add_review(&found.path, pull.number, author, "", vec![(path, line, body.to_owned())]);
        let stored = state.by_id(found.id).unwrap();
        let id = stored.reviews.last().unwrap().comments[0].id;
        stored.anchors.insert(id, anchor);
        id
    } else {
        state.add_comment(&found.path, CommentedOn::Pull(pull.number), author, body)
    };
    shown(state, found, pull, id, 201)
}

/// Returns the anchor of a new comment on a line or a file. The path is required (`comment` in the description).
fn anchor(inline: &Value) -> Result<Value, Reply> {
    if inline["path"].as_str().is_none_or(str::is_empty) {
        return Err(invalid("inline", &["path: This field is required.".to_owned()]));
    }
    let mut anchor = json!({"path": inline["path"]});
    for name in ["from", "to", "start_from", "start_to"] {
        let line = &inline[name];
        if !line.is_null() && !line.is_u64() {
            return Err(invalid("inline", &[format!("{name}: A valid integer is required.")]));
        }
        // The answer for a line that is not in the diff is unconfirmed.
        if line.as_u64().is_some_and(|line| !(1..=LAST_LINE).contains(&line)) {
            return Err(error(400, "The line is not in the diff."));
        }
        anchor[name] = line.clone();
    }
    Ok(anchor)
}

/// Answers with a comment as it is now.
fn shown(state: &mut State, found: &Repository, pull: &Pull, id: u64, status: u16) -> Reply {
    let stored = state.by_id(found.id).unwrap().clone();
    let listed = all(&stored, pull);
    let one = listed.iter().find(|one| one.id == id).unwrap();
    Reply::json(status, &show(state, &stored, pull, one))
}

/// Changes a comment. Only its author may do so.
fn edit(
    state: &mut State,
    call: &ApiRequest,
    sender: &Sender,
    found: &Repository,
    (pull, one): (&Pull, &CommentOrReply<'_>),
) -> Reply {
    // PUT …/comments/{comment_id}: 403 "if the authenticated user does not have access to the comment".
    if one.author != sender.user.id {
        return error(403, "You do not have access to this comment.");
    }
    let Some(body) = raw(call) else { return required("content") };
    state.by_id(found.id).unwrap().edit(one.id, one.author, body);
    shown(state, found, pull, one.id, 200)
}
