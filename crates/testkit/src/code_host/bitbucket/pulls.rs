//! Pull requests and their comments.

use http::Method;
use serde_json::{Value, json};

use super::{Sender, TIME, bad_filter, conditions, error, id_of, invalid, page, show_user, show_user_of, uuid};
use crate::code_host::state::{Comment, LAST_LINE, Place, Pull, PullState, Repository, ReviewComment, State, User};
use crate::code_host::{Call, Reply};

/// Returns a pull request. Lists lack the reviewers.
pub(super) fn show_pull(state: &State, found: &Repository, pull: &Pull, is_single: bool) -> Value {
    let short = |hash: &str| json!({"type": "commit", "hash": hash.chars().take(12).collect::<String>()});
    let own = json!({"type": "repository", "full_name": found.path, "uuid": uuid(found.id)});
    let source = match pull.fork {
        Some(fork) => json!({"type": "repository", "full_name": "another/fork", "uuid": uuid(fork)}),
        None => own.clone(),
    };
    let head = found.sha_of(pull);
    let base = found.branches.get(&pull.base).cloned().unwrap_or_default();
    let url = format!("{}/{}/pull-requests/{}", state.url, found.path, pull.number);
    let mut shown = json!({
        "type": "pullrequest",
        "id": pull.number,
        "title": pull.title,
        "description": pull.body,
        "state": match pull.state {
            PullState::Open => "OPEN",
            PullState::Merged => "MERGED",
            PullState::Closed => "DECLINED",
        },
        "draft": pull.draft,
        "close_source_branch": false,
        "author": show_user_of(state, pull.author),
        "source": {"branch": {"name": pull.head}, "commit": short(&head), "repository": source},
        "destination": {"branch": {"name": pull.base}, "commit": short(&base), "repository": own},
        "merge_commit": (pull.state == PullState::Merged).then(|| short(&base)),
        "created_on": TIME,
        "updated_on": TIME,
        "links": {"html": {"href": url}},
    });
    if is_single {
        let reviewers = state.users.iter().filter(|user| pull.reviewers.contains(&user.name));
        shown["reviewers"] = reviewers.map(show_user).collect();
        shown["participants"] = json!([]);
    }
    shown
}

/// Answers a request about pull requests.
pub(super) fn pulls(state: &mut State, call: &Call, sender: &Sender, found: &Repository, below: &[&str]) -> Reply {
    let number: u64 = below.first().and_then(|number| number.parse().ok()).unwrap_or_default();
    let pull = found.pulls.iter().find(|pull| pull.number == number);
    match (&call.method, below, pull) {
        (&Method::GET, [], _) => list_pulls(state, call, found),
        (&Method::POST, [], _) if !sender.token.can_write => sender.lacks("pullrequest:write"),
        (&Method::POST, [], _) if !sender.pushes(found) => error(403, "You do not have access to this repository."),
        (&Method::POST, [], _) => create_pull(state, call, sender, found),
        (&Method::GET, [_], Some(pull)) => Reply::json(200, &show_pull(state, found, pull, true)),
        (&Method::PUT, [_], Some(_)) if !sender.token.can_write => sender.lacks("pullrequest:write"),
        (&Method::PUT, [_], Some(pull)) => update_pull(state, call, found, pull),
        (_, [_, "comments"], Some(pull)) => comments(state, call, sender, found, pull),
        (&Method::PUT, [_, "comments", id], Some(pull)) => edit(state, call, sender, found, (pull, id)),
        (&Method::POST, [_, "comments", id, "resolve"], Some(pull)) => resolve(state, found, pull, id),
        _ => error(404, "Pull request not found"),
    }
}

pub(super) fn list_pulls(state: &State, call: &Call, found: &Repository) -> Reply {
    let Some(conditions) = conditions(call) else { return bad_filter() };
    let known = ["source.branch.name", "destination.branch.name", "source.repository.full_name"];
    if conditions.iter().any(|(field, _)| !known.contains(&field.as_str())) {
        return bad_filter();
    }
    let states = call.query.iter().filter(|(name, _)| name == "state").map(|(_, value)| value.as_str());
    let mut states: Vec<&str> = states.collect();
    if states.is_empty() {
        states.push("OPEN");
    }
    let mut shown: Vec<Value> = found.pulls.iter().map(|pull| show_pull(state, found, pull, false)).collect();
    shown.retain(|pull| {
        let field = |field: &str| pull.pointer(&format!("/{}", field.replace('.', "/"))).and_then(Value::as_str);
        let has_state = states.iter().any(|state| pull["state"] == *state);
        has_state && conditions.iter().all(|(name, value)| field(name) == Some(value))
    });
    match call.parameter("sort") {
        None | Some("-created_on" | "-updated_on") => shown.reverse(),
        Some("created_on" | "updated_on") => {}
        Some(_) => return error(400, "Invalid sort field"),
    }
    page(state, call, 50, &shown)
}

pub(super) fn create_pull(state: &mut State, call: &Call, sender: &Sender, found: &Repository) -> Reply {
    let text = |place: &str| call.body.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let Some(title) = text("/title").filter(|title| !title.is_empty()) else { return required("title") };
    let Some(head) = text("/source/branch/name") else { return required("source") };
    let base = text("/destination/branch/name").unwrap_or_else(|| "main".to_owned());
    for (field, branch) in [("source", &head), ("destination", &base)] {
        if !found.branches.contains_key(branch) {
            return invalid(field, &[format!("branch not found: {branch}")]);
        }
    }
    if found.branches[&head] == found.branches[&base] {
        return error(400, "There are no changes to be pulled");
    }
    let body = text("/description").unwrap_or_default();
    let is_open = |pull: &&mut Pull| pull.head == head && pull.base == base && pull.state == PullState::Open;
    // A second one changes the first.
    if let Some(known) = state.by_id(found.id).unwrap().pulls.iter_mut().find(is_open) {
        (known.title, known.body) = (title, body);
        let known = known.clone();
        return Reply::json(201, &show_pull(state, found, &known, true));
    }
    let draft = call.body["draft"] == true;
    let number = found.next_number();
    let pull = Pull { number, draft, title, body, head, base, author: sender.user.id, ..Pull::default() };
    state.by_id(found.id).unwrap().pulls.push(pull.clone());
    Reply::json(201, &show_pull(state, found, &pull, true))
}

pub(super) fn required(field: &str) -> Reply {
    invalid(field, &["This field is required.".to_owned()])
}

/// Changes a pull request. What the request does not name is removed, except for the branches.
pub(super) fn update_pull(state: &mut State, call: &Call, found: &Repository, pull: &Pull) -> Reply {
    if pull.state != PullState::Open {
        return error(400, "This pull request is already closed.");
    }
    let Some(title) = call.body["title"].as_str().filter(|title| !title.is_empty()) else { return required("title") };
    let (mut reviewers, mut faults) = (Vec::new(), Vec::new());
    for reviewer in call.body["reviewers"].as_array().into_iter().flatten() {
        let id = reviewer["uuid"].as_str().and_then(id_of);
        let is_it = |user: &&User| Some(user.id) == id && !state.closed.contains(&user.id);
        let Some(user) = state.users.iter().find(is_it) else {
            return invalid("reviewers", &["Malformed reviewers list".to_owned()]);
        };
        if user.id == pull.author {
            faults.push(format!("{} is the author and cannot be included as a reviewer.", user.name));
        } else if !found.permissions.contains_key(&user.id) {
            faults.push(format!(
                "{} is not a member of this workspace and cannot be added to this pull request",
                user.name
            ));
        }
        reviewers.push(user.name.clone());
    }
    if !faults.is_empty() {
        return invalid("reviewers", &faults);
    }
    let changed = Pull {
        title: title.to_owned(),
        body: call.body["description"].as_str().unwrap_or_default().to_owned(),
        draft: call.body["draft"] == true,
        reviewers,
        version: pull.version + 1,
        ..pull.clone()
    };
    let stored = state.by_id(found.id).unwrap();
    *stored.pulls.iter_mut().find(|known| known.number == pull.number).unwrap() = changed.clone();
    Reply::json(200, &show_pull(state, found, &changed, true))
}

/// Answers a request about the comments of a pull request, among which are those on lines.
pub(super) fn comments(state: &mut State, call: &Call, sender: &Sender, found: &Repository, pull: &Pull) -> Reply {
    let base = format!("{}/{}/pull-requests/{}/_/diff", state.url, found.path, pull.number);
    let show = |state: &State, id: u64, author: u64, body: &str| {
        json!({
            "type": "pullrequest_comment",
            "id": id,
            "content": {"type": "rendered", "raw": body, "markup": "markdown"},
            "user": show_user_of(state, author),
            "deleted": false,
            "pending": false,
            "created_on": TIME,
            "updated_on": TIME,
            "links": {"html": {"href": format!("{base}#comment-{id}")}},
        })
    };
    if call.method == Method::POST {
        // The scope to read pull requests is enough.
        let body = call.body.pointer("/content/raw").and_then(Value::as_str).unwrap_or_default().to_owned();
        if body.is_empty() {
            return required("content");
        }
        let inline = &call.body["inline"];
        if inline.is_object() {
            let line = inline["to"].as_u64().or_else(|| inline["from"].as_u64()).unwrap_or_default();
            let path = inline["path"].as_str().unwrap_or_default().to_owned();
            if path.is_empty() || !(1..=LAST_LINE).contains(&line) {
                return error(400, "The line is not in the diff.");
            }
            state.add_review(&found.path, pull.number, sender.user.id, "", vec![(path, line, body.clone())]);
            let id = state.by_path(&found.path).unwrap().reviews.last().unwrap().comments[0].id;
            return Reply::json(201, &show(state, id, sender.user.id, &body));
        }
        if let Some(parent) = call.body.pointer("/parent/id") {
            return reply(state, sender, found, pull, (parent, &body), &base);
        }
        let id = state.add_comment(&found.path, Place::Pull(pull.number), sender.user.id, &body);
        return Reply::json(201, &show(state, id, sender.user.id, &body));
    }
    if call.method != Method::GET || call.parameter("q").is_some() {
        return error(400, "Bad request");
    }
    let of_pull = found.comments.iter().filter(|comment| comment.place == Place::Pull(pull.number));
    let mut listed: Vec<(u64, Value)> =
        of_pull.map(|Comment { id, author, body, .. }| (*id, show(state, *id, *author, body))).collect();
    for review in found.reviews.iter().filter(|review| review.pull == pull.number) {
        for ReviewComment { id, body, path, line, .. } in &review.comments {
            let mut shown = show(state, *id, review.author, body);
            let inline = json!({"path": path, "from": null, "to": line});
            shown["inline"] = inline.clone();
            if found.resolved.contains(id) {
                shown["resolution"] = json!({"type": "comment_resolution", "created_on": TIME});
            }
            listed.push((*id, shown));
            for reply in found.thread(*id) {
                let mut shown = show(state, reply.id, reply.author, &reply.body);
                (shown["inline"], shown["parent"]) = (inline.clone(), json!({"id": reply.to}));
                listed.push((reply.id, shown));
            }
        }
    }
    listed.sort_by_key(|(id, _)| *id);
    let listed: Vec<Value> = listed.into_iter().map(|(_, shown)| shown).collect();
    page(state, call, 100, &listed)
}

/// Replies to a comment, which may be a reply.
fn reply(
    state: &mut State,
    sender: &Sender,
    found: &Repository,
    pull: &Pull,
    (parent, body): (&Value, &str),
    page: &str,
) -> Reply {
    let Some(parent) = parent.as_u64() else { return invalid("parent", &["A valid integer is required.".to_owned()]) };
    let root = found.root(parent);
    if !found.has_line(pull.number, root) {
        return error(404, &format!("Comment {parent} not found"));
    }
    if found.locked_threads.contains(&root) {
        return error(403, "You may not reply to this comment.");
    }
    let id = state.id();
    state.by_id(found.id).unwrap().add_reply(id, parent, sender.user.id, body);
    let shown = json!({
        "type": "pullrequest_comment", "id": id, "content": {"raw": body}, "user": show_user(&sender.user),
        "parent": {"id": parent}, "deleted": false, "links": {"html": {"href": format!("{page}#comment-{id}")}},
    });
    Reply::json(201, &shown)
}

/// Changes a comment. Only its author may do so.
fn edit(state: &mut State, call: &Call, sender: &Sender, found: &Repository, (pull, id): (&Pull, &str)) -> Reply {
    let body = call.body.pointer("/content/raw").and_then(Value::as_str).unwrap_or_default();
    if body.is_empty() {
        return required("content");
    }
    let id = id.parse().unwrap_or_default();
    if !state.by_id(found.id).unwrap().edit(id, sender.user.id, body) {
        return error(404, &format!("Comment {id} not found"));
    }
    let page = format!("{}/{}/pull-requests/{}/_/diff#comment-{id}", state.url, found.path, pull.number);
    Reply::json(200, &json!({"id": id, "content": {"raw": body}, "links": {"html": {"href": page}}}))
}

/// Marks a thread as resolved, by its first comment.
fn resolve(state: &mut State, found: &Repository, pull: &Pull, id: &str) -> Reply {
    let id = id.parse().unwrap_or_default();
    if !found.has_line(pull.number, id) {
        return error(404, &format!("Comment {id} not found"));
    }
    if !state.by_id(found.id).unwrap().resolved.insert(id) {
        return error(409, "The comment thread is already resolved.");
    }
    Reply::json(200, &json!({"type": "comment_resolution", "created_on": TIME}))
}
