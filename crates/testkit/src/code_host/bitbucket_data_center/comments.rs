//! Comments and reactions of pull requests.

use http::Method;
use serde_json::{Value, json};

use super::{EMOTICONS, Request, TEXT_CHARS, error, invalid, page, show_user, text, unknown};
use crate::code_host::Reply;
use crate::code_host::state::{Comment, CommentReply, LAST_LINE, Place, Pull, Repository, State};

pub(super) fn show_comment(state: &State, repository: &Repository, id: u64, author: u64, body: &str) -> Value {
    json!({
        "id": id,
        "version": 0,
        "text": body,
        "author": show_user(&state.user(author)),
        "createdDate": 1_767_225_600_000_u64,
        "updatedDate": 1_767_225_600_000_u64,
        "severity": "NORMAL",
        "state": "OPEN",
        "comments": [],
        "properties": {"repositoryId": repository.id},
    })
}

/// Lists what happened to a pull request, newest first. The comments of a review are separate.
pub(super) fn activities(state: &State, request: &Request<'_>, pull: &Pull) -> Reply {
    let repository = &request.repository;
    let commented = |id: u64, author: u64, body: &str| {
        let comment = show_comment(state, repository, id, author, body);
        json!({"id": id, "action": "COMMENTED", "commentAction": "ADDED", "comment": comment})
    };
    let mut listed = vec![json!({"id": 1, "action": "OPENED", "user": show_user(&state.user(pull.author))})];
    let is_here = |comment: &&Comment| comment.place == Place::Pull(pull.number);
    for comment in repository.comments.iter().filter(is_here) {
        listed.push(commented(comment.id, comment.author, &comment.body));
    }
    for review in repository.reviews.iter().filter(|review| review.pull == pull.number) {
        for comment in &review.comments {
            let mut shown = commented(comment.id, review.author, &comment.body);
            shown["commentAnchor"] = json!({"path": comment.path, "line": comment.line, "lineType": "ADDED"});
            shown["comment"]["threadResolved"] = repository.resolved.contains(&comment.id).into();
            shown["comment"]["comments"] = replies(state, repository, comment.id);
            listed.push(shown);
            for reply in repository.thread(comment.id) {
                let mut shown = commented(reply.id, reply.author, &reply.body);
                shown["commentAction"] = "REPLIED".into();
                listed.push(shown);
            }
        }
    }
    listed.reverse();
    page(request.call, &listed)
}

/// Returns the replies to a comment, each with the replies to it.
fn replies(state: &State, repository: &Repository, to: u64) -> Value {
    let found = repository.replies.iter().filter(|reply| reply.to == to);
    let show = |reply: &CommentReply| {
        let mut shown = show_comment(state, repository, reply.id, reply.author, &reply.body);
        shown["comments"] = replies(state, repository, reply.id);
        shown
    };
    found.map(show).collect()
}

pub(super) fn comment(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
    let Request { call, user, repository, .. } = request;
    let body = text(call, "text");
    if body.trim().is_empty() || body.chars().count() > TEXT_CHARS {
        return invalid("text", "The comment must have 1 to 32768 characters.");
    }
    let anchor = &call.body["anchor"];
    if anchor.is_object() {
        let line = anchor["line"].as_u64().unwrap_or_default();
        let is_known = matches!(
            (anchor["lineType"].as_str(), anchor["fileType"].as_str()),
            (Some("ADDED" | "CONTEXT"), Some("TO")) | (Some("REMOVED" | "CONTEXT"), Some("FROM"))
        );
        if !is_known || !(1..=LAST_LINE).contains(&line) {
            // The status and the name of the exception are unconfirmed.
            return error(400, "validation.ArgumentValidationException", "The line is not in the diff.");
        }
        let path = anchor["path"].as_str().unwrap_or_default().to_owned();
        state.add_review(&repository.path, pull.number, user.id, "", vec![(path, line, body.clone())]);
        let id = state.by_path(&repository.path).unwrap().reviews.last().unwrap().comments[0].id;
        return Reply::json(201, &show_comment(state, repository, id, user.id, &body));
    }
    if let Some(parent) = call.body.pointer("/parent/id") {
        let Some(parent) = parent.as_u64() else { return invalid("parent", "The ID of the parent must be a number.") };
        let root = repository.root(parent);
        if !repository.has_line(pull.number, root) {
            return no_comment(pull, parent);
        }
        if repository.locked_threads.contains(&root) {
            return error(403, "AuthorisationException", "You may not reply to this comment.");
        }
        let id = state.id();
        state.by_id(repository.id).unwrap().add_reply(id, parent, user.id, &body);
        return Reply::json(201, &show_comment(state, repository, id, user.id, &body));
    }
    let id = state.add_comment(&repository.path, Place::Pull(pull.number), user.id, &body);
    Reply::json(201, &show_comment(state, repository, id, user.id, &body))
}

fn no_comment(pull: &Pull, comment: u64) -> Reply {
    let text = format!("Comment {comment} does not exist on pull request {}.", pull.number);
    error(404, "comment.NoSuchCommentException", &text)
}

/// Returns the author and the text of a comment or a reply.
fn found_comment(repository: &Repository, pull: &Pull, id: u64) -> Option<(u64, String)> {
    let is_here = |comment: &&Comment| comment.place == Place::Pull(pull.number);
    let comments = repository.comments.iter().filter(is_here).map(|one| (one.id, one.author, &one.body));
    let reviews = repository.reviews.iter().filter(|review| review.pull == pull.number);
    let lines = reviews.flat_map(|review| review.comments.iter().map(|line| (line.id, review.author, &line.body)));
    let replies = repository.replies.iter().map(|one| (one.id, one.author, &one.body));
    let mut all = comments.chain(lines).chain(replies);
    all.find(|(known, ..)| *known == id).map(|(_, author, body)| (author, body.clone()))
}

/// Shows a comment with its version.
pub(super) fn one_comment(state: &State, request: &Request<'_>, pull: &Pull, id: &str) -> Reply {
    shown_comment(state, &request.repository, pull, id.parse().unwrap_or_default())
}

fn shown_comment(state: &State, repository: &Repository, pull: &Pull, id: u64) -> Reply {
    let Some((author, body)) = found_comment(repository, pull, id) else { return no_comment(pull, id) };
    let mut shown = show_comment(state, repository, id, author, &body);
    shown["version"] = repository.comment_versions.get(&id).copied().unwrap_or_default().into();
    shown["threadResolved"] = repository.resolved.contains(&id).into();
    Reply::json(200, &shown)
}

/// Changes the text of a comment, which only its author may do, or whether its thread is resolved.
pub(super) fn change_comment(state: &mut State, request: &Request<'_>, pull: &Pull, id: &str) -> Reply {
    let Request { call, user, repository, .. } = request;
    let id = id.parse().unwrap_or_default();
    let Some((author, _)) = found_comment(repository, pull, id) else { return no_comment(pull, id) };
    let Some(version) = call.body["version"].as_u64() else { return invalid("version", "The version is required.") };
    if version != repository.comment_versions.get(&id).copied().unwrap_or_default() {
        return error(409, "comment.CommentOutOfDateException", "The comment has been updated since.");
    }
    let (text, is_resolved) = (call.body["text"].as_str(), call.body["threadResolved"].as_bool());
    if text.is_some_and(|text| text.trim().is_empty() || text.chars().count() > TEXT_CHARS) {
        return invalid("text", "The comment must have 1 to 32768 characters.");
    }
    if text.is_some() && author != user.id {
        return error(403, "AuthorisationException", "Only the author may change the text of a comment.");
    }
    let stored = state.by_id(repository.id).unwrap();
    if let Some(text) = text {
        stored.edit(id, user.id, text);
    }
    match is_resolved {
        Some(true) => drop(stored.resolved.insert(id)),
        Some(false) => drop(stored.resolved.remove(&id)),
        None => {}
    }
    *stored.comment_versions.entry(id).or_default() += 1;
    let stored = stored.clone();
    shown_comment(state, &stored, pull, id)
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
    let (number, comment) = (number.parse().unwrap_or_default(), comment.parse::<u64>().unwrap_or_default());
    let repository = state.by_id(request.repository.id).unwrap();
    let reviews = repository.reviews.iter_mut().filter(|review| review.pull == number);
    let lines = reviews.flat_map(|review| &mut review.comments).map(|line| (line.id, &mut line.reactions));
    let comments = repository.comments.iter_mut().filter(|one| one.place == Place::Pull(number));
    let mut all = comments.map(|one| (one.id, &mut one.reactions)).chain(lines);
    let Some((_, reactions)) = all.find(|(id, _)| *id == comment) else {
        let text = format!("Comment {comment} does not exist on pull request {number}.");
        return error(404, "comment.NoSuchCommentException", &text);
    };
    if !reactions.iter().any(|known| known == emoticon) {
        reactions.push((*emoticon).to_owned());
    }
    Reply::json(200, &json!({"emoticon": {"shortcut": emoticon}, "user": show_user(request.user)}))
}
