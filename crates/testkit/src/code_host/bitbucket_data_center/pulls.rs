//! Pull requests.

use http::Method;
use serde_json::{Value, json};

use super::comments::{activities, change_comment, comment, one_comment};
use super::{PACKAGE, Request, TEXT_CHARS, error, invalid, level_in, page, parts_of, show_user, unknown};
use crate::code_host::state::{Pull, PullState, Repository, State};
use crate::code_host::{Call, Reply};

/// Answers a request about a pull request.
pub(super) fn in_pull(state: &mut State, request: &Request<'_>, pull: &Pull, below: &[&str]) -> Reply {
    match (&request.call.method, below) {
        (&Method::GET, []) => Reply::json(200, &show_pull(state, &request.repository, pull)),
        (&Method::PUT, []) => change_pull(state, request, pull),
        (&Method::GET, ["merge"]) => Reply::json(200, &mergeability(&request.repository)),
        (&Method::POST, ["merge"]) => merge(state, request, pull),
        (&Method::GET, ["auto-merge"]) if request.repository.auto_merges.contains(&pull.number) => {
            Reply::json(200, &json!({"autoSubject": true}))
        }
        (&Method::GET, ["auto-merge"]) => Reply::text(204, ""),
        (&Method::GET, ["activities"]) => activities(state, request, pull),
        (&Method::GET, ["comments"]) if request.call.parameter("path").is_none() => {
            invalid("path", "The path query parameter is required when retrieving comments.")
        }
        (&Method::POST, ["comments"]) => comment(state, request, pull),
        (&Method::GET, ["comments", id]) => one_comment(state, request, pull, id),
        (&Method::PUT, ["comments", id]) => change_comment(state, request, pull, id),
        _ => unknown(),
    }
}

/// Describes whether the pull requests of a repository can be merged.
fn mergeability(repository: &Repository) -> Value {
    let veto = json!({"summaryMessage": "Not all required builds are successful.", "detailedMessage": "..."});
    let vetoes: Vec<Value> = repository.has_requirements.then_some(veto).into_iter().collect();
    json!({"canMerge": vetoes.is_empty(), "conflicted": false, "outcome": "CLEAN", "vetoes": vetoes})
}

/// Merges a pull request, at once unless a merge check prevents it.
fn merge(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
    let Repository { path, has_requirements, forbids_auto_merge, .. } = &request.repository;
    let is_later = request.call.body["autoMerge"] == true;
    if is_later && *forbids_auto_merge {
        return error(403, "pull.AutoMergeNotEnabledException", "Auto-merge is not enabled.");
    }
    if request.call.body["version"] != show_pull(state, &request.repository, pull)["version"] {
        return error(409, "pull.PullRequestOutOfDateException", "The pull request is out of date.");
    }
    if *has_requirements && !is_later {
        return error(409, "pull.PullRequestMergeVetoedException", "The merge was vetoed.");
    }
    let found = state.by_path(path).unwrap();
    match *has_requirements {
        true => found.auto_merges.push(pull.number),
        false => found.pulls.iter_mut().find(|one| one.number == pull.number).unwrap().state = PullState::Merged,
    }
    Reply::json(200, &json!({"id": pull.number}))
}

pub(super) fn show_pull(state: &State, repository: &Repository, pull: &Pull) -> Value {
    let (project, slug) = parts_of(repository);
    let is_open = pull.state == PullState::Open;
    let name = match pull.state {
        PullState::Open => "OPEN",
        PullState::Merged => "MERGED",
        PullState::Closed => "DECLINED",
    };
    let end = |branch: &str, commit: &str, id: u64| {
        let repository = json!({"id": id, "slug": slug, "project": {"key": project}});
        let full = format!("refs/heads/{branch}");
        json!({"id": full, "displayId": branch, "latestCommit": commit, "type": "BRANCH", "repository": repository})
    };
    let base = repository.branches.get(&pull.base).cloned().unwrap_or_default();
    let reviewer = |name: &String| {
        let user = state.users.iter().find(|user| user.name == *name).map(show_user);
        json!({"user": user, "role": "REVIEWER", "approved": false, "status": "UNAPPROVED"})
    };
    let page = format!("{}/projects/{project}/repos/{slug}/pull-requests/{}", state.url, pull.number);
    let mut shown = json!({
        "id": pull.number,
        "version": pull.version,
        "title": pull.title,
        "state": name,
        "open": is_open,
        "closed": !is_open,
        "draft": pull.draft,
        "locked": false,
        "createdDate": 1_767_225_600_000_u64,
        "updatedDate": 1_767_225_600_000_u64,
        "fromRef": end(&pull.head, &repository.sha_of(pull), pull.fork.unwrap_or(repository.id)),
        "toRef": end(&pull.base, &base, repository.id),
        "author": {"user": show_user(&state.user(pull.author)), "role": "AUTHOR"},
        "reviewers": pull.reviewers.iter().map(reviewer).collect::<Vec<_>>(),
        "links": {"self": [{"href": page}]},
    });
    if !pull.body.is_empty() {
        shown["description"] = pull.body.as_str().into();
    }
    shown
}

/// Lists pull requests. Those from forks are not outgoing.
pub(super) fn list_pulls(state: &State, request: &Request<'_>) -> Reply {
    let Request { call, repository, .. } = request;
    let wanted = call.parameter("state").unwrap_or("OPEN");
    let is_outgoing = call.parameter("direction").unwrap_or("INCOMING") == "OUTGOING";
    let has_branch = |pull: &&Pull| {
        let branch = if is_outgoing { &pull.head } else { &pull.base };
        call.parameter("at").is_none_or(|at| at.strip_prefix("refs/heads/") == Some(branch))
    };
    let has_state = |pull: &&Pull| match pull.state {
        _ if wanted == "ALL" => true,
        PullState::Open => wanted == "OPEN",
        PullState::Merged => wanted == "MERGED",
        PullState::Closed => wanted == "DECLINED",
    };
    let listed = repository.pulls.iter().rev().filter(has_branch).filter(has_state);
    let listed = listed.filter(|pull| !is_outgoing || pull.fork.is_none());
    page(call, &listed.map(|pull| show_pull(state, repository, pull)).collect::<Vec<_>>())
}

pub(super) fn text(call: &Call, name: &str) -> String {
    call.body[name].as_str().unwrap_or_default().to_owned()
}

/// Returns the error for the title or the description of a pull request.
pub(super) fn wrong_text(call: &Call) -> Option<Reply> {
    let title = text(call, "title");
    if title.trim().is_empty() || title.chars().count() > 255 {
        return Some(invalid("title", "Please supply a title of at most 255 characters."));
    }
    let is_long = text(call, "description").chars().count() > TEXT_CHARS;
    is_long.then(|| invalid("description", "The description is too long."))
}

/// Returns the branch of a source or target; the repository must be the one of the request.
pub(super) fn branch(request: &Request<'_>, name: &str) -> Result<String, Reply> {
    let (project, slug) = parts_of(&request.repository);
    let end = &request.call.body[name];
    let is_here = |field: &Value, expected: &str| field.as_str().is_some_and(|one| one.eq_ignore_ascii_case(expected));
    if !is_here(&end["repository"]["slug"], slug) || !is_here(&end["repository"]["project"]["key"], project) {
        return Err(invalid(name, "The repository must be specified."));
    }
    let branch = end["id"].as_str().and_then(|id| id.strip_prefix("refs/heads/"));
    match branch.filter(|branch| request.repository.branches.contains_key(*branch)) {
        Some(branch) => Ok(branch.to_owned()),
        None => {
            let text = format!("Branch {} does not exist in this repository.", end["id"]);
            // The name of the exception is unconfirmed.
            Err(error(404, "repository.NoSuchBranchException", &text))
        }
    }
}

pub(super) fn create_pull(state: &mut State, request: &Request<'_>) -> Reply {
    let Request { call, user, repository, .. } = request;
    if let Some(reply) = wrong_text(call) {
        return reply;
    }
    let (head, base) = match (branch(request, "fromRef"), branch(request, "toRef")) {
        (Ok(head), Ok(base)) => (head, base),
        (Err(reply), _) | (_, Err(reply)) => return reply,
    };
    let is_same = |pull: &&Pull| pull.head == head && pull.base == base && pull.state == PullState::Open;
    if let Some(existing) = repository.pulls.iter().find(is_same) {
        let body = json!({"errors": [{
            "context": null,
            "message": "Only one pull request may be open for a given source and target branch",
            "exceptionName": format!("{PACKAGE}.pull.DuplicatePullRequestException"),
            "existingPullRequest": show_pull(state, repository, existing),
        }]});
        return Reply::json(409, &body);
    }
    if repository.branches[&head] == repository.branches[&base] {
        let text = format!("{base} is already up-to-date with branch {head}.");
        return error(409, "pull.EmptyPullRequestException", &text);
    }
    let reviewers = match reviewers(state, request, user.id) {
        Ok(reviewers) => reviewers,
        Err(reply) => return reply,
    };
    let pull = Pull {
        number: repository.next_number(),
        draft: call.body["draft"] == true,
        title: text(call, "title"),
        body: text(call, "description"),
        head,
        base,
        author: user.id,
        reviewers,
        ..Pull::default()
    };
    state.by_id(repository.id).unwrap().pulls.push(pull.clone());
    Reply::json(201, &show_pull(state, repository, &pull))
}

/// Returns the reviewers in the body, who must be users that may read, and not the author.
pub(super) fn reviewers(state: &State, request: &Request<'_>, author: u64) -> Result<Vec<String>, Reply> {
    let listed = request.call.body["reviewers"].as_array().cloned().unwrap_or_default();
    let names: Vec<String> =
        listed.iter().map(|one| one["user"]["name"].as_str().unwrap_or_default().to_owned()).collect();
    let mut errors = Vec::new();
    for name in &names {
        let fault = match state.users.iter().find(|user| user.name == *name) {
            None => "is not a user.",
            Some(user) if user.id == author => "is the author of the pull request.",
            Some(user) if level_in(&request.repository, user.id) == 0 => "does not have permission to review.",
            Some(_) => continue,
        };
        errors.push(json!({"context": name, "message": format!("{name} {fault}"), "exceptionName": null}));
    }
    if errors.is_empty() {
        return Ok(names);
    }
    let body = json!({"errors": [{
        "context": "reviewers",
        "message": "Errors encountered while adding some reviewers to this pull request.",
        "exceptionName": format!("{PACKAGE}.pull.InvalidPullRequestReviewersException"),
        "reviewerErrors": errors,
    }]});
    Err(Reply::json(409, &body))
}

/// Changes a pull request. A description and reviewers that are missing are cleared; unconfirmed.
pub(super) fn change_pull(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
    let Request { call, repository, .. } = request;
    let Some(version) = call.body["version"].as_u64() else {
        return invalid("version", "The version of the pull request must be specified.");
    };
    if let Some(reply) = wrong_text(call) {
        return reply;
    }
    if version != pull.version {
        let body = json!({"errors": [{
            "context": null,
            "message": "You are attempting to modify a pull request based on out-of-date information.",
            "exceptionName": format!("{PACKAGE}.pull.PullRequestOutOfDateException"),
            "currentVersion": pull.version,
            "expectedVersion": version,
        }]});
        return Reply::json(409, &body);
    }
    if pull.state != PullState::Open {
        let text = "This pull request is closed and cannot be changed.";
        return error(409, "pull.IllegalPullRequestStateException", text);
    }
    let reviewers = match reviewers(state, request, pull.author) {
        Ok(reviewers) => reviewers,
        Err(reply) => return reply,
    };
    let changed = Pull {
        version: pull.version + 1,
        title: text(call, "title"),
        body: text(call, "description"),
        draft: call.body["draft"].as_bool().unwrap_or(pull.draft),
        reviewers,
        ..pull.clone()
    };
    let stored = state.by_id(repository.id).unwrap().pulls.iter_mut().find(|stored| stored.number == pull.number);
    *stored.unwrap() = changed.clone();
    Reply::json(200, &show_pull(state, repository, &changed))
}
