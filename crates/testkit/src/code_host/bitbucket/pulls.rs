//! Pull requests.

use http::Method;
use serde_json::{Value, json};

use super::answers::{error, id_of, invalid, page, required, show_user, show_user_of, time, uuid};
use super::comments::comments;
use super::filter::filtered;
use super::sender::Sender;
use crate::code_host::state::{CommentedOn, Pull, PullState, Repository, State, User};
use crate::code_host::{ApiRequest, Reply};

/// The fields by which pull requests are filtered and sorted.
const FIELDS: [&str; 11] = [
    "id",
    "title",
    "description",
    "state",
    "draft",
    "author.uuid",
    "source.branch.name",
    "source.repository.full_name",
    "destination.branch.name",
    "created_on",
    "updated_on",
];

/// Returns a pull request. Lists lack the reviewers and the participants (`pullrequest` in the description).
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
    let (created, updated) = state.times.of_pull(found.id, pull.number);
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
        "comment_count": comment_count(found, pull),
        "task_count": 0,
        "reason": "",
        "created_on": time(created),
        "updated_on": time(updated),
        "links": {"html": {"href": url}},
    });
    if is_single {
        let reviewers = state.users.iter().filter(|user| pull.reviewers.contains(&user.name));
        let reviewers: Vec<Value> = reviewers.map(show_user).collect();
        let participant = |user: &Value| {
            json!({
                "type": "participant", "user": user, "role": "REVIEWER", "approved": false, "state": null,
                "participated_on": null,
            })
        };
        shown["participants"] = reviewers.iter().map(participant).collect();
        shown["reviewers"] = reviewers.into();
    }
    shown
}

fn comment_count(found: &Repository, pull: &Pull) -> usize {
    let reviews = found.reviews.iter().filter(|review| review.pull == pull.number);
    let lines = reviews.flat_map(|review| review.comments.iter().map(|line| line.id));
    let general = found.comments.iter().filter(|one| one.target == CommentedOn::Pull(pull.number)).map(|one| one.id);
    general.chain(lines).map(|root| 1 + found.thread(root).len()).sum()
}

/// Answers a request about pull requests.
pub(super) fn pulls(
    state: &mut State,
    call: &ApiRequest,
    sender: &Sender,
    found: &Repository,
    below: &[&str],
) -> Reply {
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
        (_, [_, "comments", rest @ ..], Some(pull)) => comments(state, call, sender, found, (pull, rest)),
        _ => error(404, "Pull request not found"),
    }
}

pub(super) fn list_pulls(state: &State, call: &ApiRequest, found: &Repository) -> Reply {
    let states = call.query.iter().filter(|(name, _)| name == "state").map(|(_, value)| value.as_str());
    let mut states: Vec<&str> = states.collect();
    if states.is_empty() {
        states.push("OPEN");
    }
    let mut shown: Vec<Value> = found.pulls.iter().map(|pull| show_pull(state, found, pull, false)).collect();
    if !states.iter().all(|state| ["OPEN", "MERGED", "DECLINED", "SUPERSEDED"].contains(state)) {
        return error(400, "Invalid state");
    }
    shown.retain(|pull| states.iter().any(|state| pull["state"] == *state));
    // The order without a parameter is unconfirmed.
    shown.reverse();
    filtered(call, shown, &FIELDS).map_or_else(|refusal| refusal, |shown| page(state, call, 50, &shown))
}

pub(super) fn create_pull(state: &mut State, call: &ApiRequest, sender: &Sender, found: &Repository) -> Reply {
    let text = |pointer: &str| call.body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
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
    let reviewers = match reviewers(state, call, found, sender.user.id) {
        Ok(reviewers) => reviewers,
        Err(refusal) => return refusal,
    };
    let body = text("/description").unwrap_or_default();
    let is_open = |pull: &&mut Pull| pull.head == head && pull.base == base && pull.state == PullState::Open;
    // A second one changes the first; unconfirmed.
    if let Some(known) = state.by_id(found.id).unwrap().pulls.iter_mut().find(is_open) {
        (known.title, known.body) = (title, body);
        let known = known.clone();
        return Reply::json(201, &show_pull(state, found, &known, true));
    }
    let draft = call.body["draft"] == true;
    let number = found.next_number();
    let pull = Pull { number, draft, title, body, head, base, reviewers, author: sender.user.id, ..Pull::default() };
    state.by_id(found.id).unwrap().pulls.push(pull.clone());
    Reply::json(201, &show_pull(state, found, &pull, true))
}

/// Returns the reviewers in the body, who are members of the workspace and not the author.
fn reviewers(state: &State, call: &ApiRequest, found: &Repository, author: u64) -> Result<Vec<String>, Reply> {
    let (mut reviewers, mut faults) = (Vec::new(), Vec::new());
    for reviewer in call.body["reviewers"].as_array().into_iter().flatten() {
        let id = reviewer["uuid"].as_str().and_then(id_of);
        let is_it = |user: &&User| Some(user.id) == id && !state.closed.contains(&user.id);
        let Some(user) = state.users.iter().find(is_it) else {
            return Err(invalid("reviewers", &["Malformed reviewers list".to_owned()]));
        };
        if user.id == author {
            faults.push(format!("{} is the author and cannot be included as a reviewer.", user.name));
        } else if !found.permissions.contains_key(&user.id) {
            let name = &user.name;
            faults.push(format!("{name} is not a member of this workspace and cannot be added to this pull request"));
        }
        if !reviewers.contains(&user.name) {
            reviewers.push(user.name.clone());
        }
    }
    if faults.is_empty() { Ok(reviewers) } else { Err(invalid("reviewers", &faults)) }
}

/// Changes a pull request. What the request does not name is removed, except for the branches
/// (confluence.atlassian.com/bitbucket/pullrequests-resource-423626332.html). Only open ones can be changed, and the title is
/// required.
pub(super) fn update_pull(state: &mut State, call: &ApiRequest, found: &Repository, pull: &Pull) -> Reply {
    if pull.state != PullState::Open {
        return error(400, "This pull request is already closed.");
    }
    let Some(title) = call.body["title"].as_str().filter(|title| !title.is_empty()) else { return required("title") };
    let reviewers = match reviewers(state, call, found, pull.author) {
        Ok(reviewers) => reviewers,
        Err(refusal) => return refusal,
    };
    let base = call.body.pointer("/destination/branch/name").and_then(Value::as_str).unwrap_or(&pull.base);
    if !found.branches.contains_key(base) {
        return invalid("destination", &[format!("branch not found: {base}")]);
    }
    let changed = Pull {
        title: title.to_owned(),
        body: call.body["description"].as_str().unwrap_or_default().to_owned(),
        draft: call.body["draft"] == true,
        base: base.to_owned(),
        reviewers,
        version: pull.version + 1,
        ..pull.clone()
    };
    let stored = state.by_id(found.id).unwrap();
    *stored.pulls.iter_mut().find(|known| known.number == pull.number).unwrap() = changed.clone();
    Reply::json(200, &show_pull(state, found, &changed, true))
}
