//! Pull requests.

use http::Method;
use serde_json::{Value, json};

use super::answers::{PACKAGE, error, invalid, not_permitted, page, parts_of, show_repository, show_user, unknown};
use super::comments::{activities, change_comment, comment, one_comment};
use super::request::{Request, TEXT_CHARS, level, level_in, text};
use crate::code_host::state::{CommentedOn, Pull, PullState, Repository, State};
use crate::code_host::{ApiRequest, Reply};

/// The time of requests for later merges, in milliseconds since 1970.
const CREATED: u64 = 1_767_225_600_000;

/// Answers a request about a pull request.
pub(super) fn in_pull(state: &mut State, request: &Request<'_>, pull: &Pull, below: &[&str]) -> Reply {
    match (&request.call.method, below) {
        (&Method::GET, []) => Reply::json(200, &show_pull(state, &request.repository, pull)),
        (&Method::PUT, []) => change_pull(state, request, pull),
        (&Method::GET, ["merge"]) if pull.state != PullState::Open => not_open(),
        (&Method::GET, ["merge"]) => Reply::json(200, &mergeability(&request.repository)),
        (&Method::POST, ["merge"]) => merge(state, request, pull),
        (&Method::GET, ["auto-merge"]) if request.repository.auto_merges.contains(&pull.number) => {
            let to = format!("refs/heads/{}", pull.base);
            let from = request.repository.sha_of(pull);
            Reply::json(200, &json!({"autoSubject": true, "createdDate": CREATED, "fromHash": from, "toRefId": to}))
        }
        // The answer without a request for a merge is unconfirmed.
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
    let vetoes = vetoes(repository);
    json!({"canMerge": vetoes.is_empty(), "conflicted": false, "outcome": "CLEAN", "vetoes": vetoes})
}

fn vetoes(repository: &Repository) -> Vec<Value> {
    let veto = json!({
        "summaryMessage": "Not all required builds are successful.",
        "detailedMessage": "You cannot merge this pull request while it has failed or missing builds.",
    });
    repository.has_requirements.then_some(veto).into_iter().collect()
}

fn not_open() -> Reply {
    error(409, "pull.IllegalPullRequestStateException", "This pull request is not open.")
}

/// Returns the error for an old version (confluence.atlassian.com/bitbucketserverkb, page 792309002).
fn out_of_date(state: &State, repository: &Repository, pull: &Pull, expected: i64) -> Reply {
    let body = json!({"errors": [{
        "context": null,
        "message": "You are attempting to modify a pull request based on out-of-date information.",
        "exceptionName": format!("{PACKAGE}.pull.PullRequestOutOfDateException"),
        "currentVersion": pull.version,
        "expectedVersion": expected,
        "pullRequest": show_pull(state, repository, pull),
    }]});
    Reply::json(409, &body)
}

/// Merges a pull request, at once unless a merge check prevents it.
fn merge(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
    let Request { call, user, token, repository } = request;
    let Repository { path, has_requirements, forbids_auto_merge, .. } = repository;
    // POST …/merge needs REPO_WRITE.
    if level(repository, user, token) < 2 {
        return not_permitted();
    }
    let is_later = call.body["autoMerge"] == true;
    if is_later && *forbids_auto_merge {
        return error(403, "pull.AutoMergeNotEnabledException", "Auto-merge is not enabled.");
    }
    if pull.state != PullState::Open {
        return not_open();
    }
    // The version is a part of the query or of the body. Without it, it is -1 (page 792309002).
    let in_query = || call.parameter("version").and_then(|version| version.parse().ok());
    let expected = call.body["version"].as_i64().or_else(in_query).unwrap_or(-1);
    if u64::try_from(expected) != Ok(pull.version) {
        return out_of_date(state, repository, pull, expected);
    }
    if *has_requirements && !is_later {
        let body = json!({"errors": [{
            "context": null,
            "message": "Merge checks have vetoed the merge.",
            "exceptionName": format!("{PACKAGE}.pull.PullRequestMergeVetoedException"),
            "conflicted": false,
            "vetoes": vetoes(repository),
        }]});
        return Reply::json(409, &body);
    }
    match *has_requirements {
        true => state.by_path(path).unwrap().auto_merges.push(pull.number),
        false => state.end(path, pull.number, PullState::Merged),
    }
    let merged = state.by_path(path).unwrap().clone();
    let pull = merged.pulls.iter().find(|one| one.number == pull.number).unwrap();
    Reply::json(200, &show_pull(state, &merged, pull))
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
        let mut repository = show_repository(repository);
        repository["id"] = id.into();
        let full = format!("refs/heads/{branch}");
        json!({"id": full, "displayId": branch, "latestCommit": commit, "type": "BRANCH", "repository": repository})
    };
    let base = repository.branches.get(&pull.base).cloned().unwrap_or_default();
    let reviewer = |name: &String| {
        let user = state.users.iter().find(|user| user.name == *name).map(show_user);
        json!({"user": user, "role": "REVIEWER", "approved": false, "status": "UNAPPROVED"})
    };
    let page = format!("{}/projects/{project}/repos/{slug}/pull-requests/{}", state.url, pull.number);
    let (created, updated) = state.times.of_pull(repository.id, pull.number);
    let author = show_user(&state.user(pull.author));
    let mut shown = json!({
        "id": pull.number,
        "version": pull.version,
        "title": pull.title,
        "state": name,
        "open": is_open,
        "closed": !is_open,
        "draft": pull.draft,
        "locked": false,
        "createdDate": created * 1000,
        "updatedDate": updated * 1000,
        "fromRef": end(&pull.head, &repository.sha_of(pull), pull.fork.unwrap_or(repository.id)),
        "toRef": end(&pull.base, &base, repository.id),
        "author": {"user": author, "role": "AUTHOR", "approved": false, "status": "UNAPPROVED"},
        "reviewers": pull.reviewers.iter().map(reviewer).collect::<Vec<_>>(),
        "participants": [],
        "links": {"self": [{"href": page}]},
    });
    if !is_open {
        shown["closedDate"] = (updated * 1000).into();
    }
    if !pull.body.is_empty() {
        shown["description"] = pull.body.as_str().into();
    }
    shown
}

/// Returns the numbers of comments and tasks, which lists show unless the parameter `withProperties` is `false`.
fn properties(repository: &Repository, pull: &Pull) -> Value {
    let reviews = repository.reviews.iter().filter(|review| review.pull == pull.number);
    let lines = reviews.flat_map(|review| review.comments.iter().map(|line| line.id));
    let general =
        repository.comments.iter().filter(|one| one.target == CommentedOn::Pull(pull.number)).map(|one| one.id);
    let roots: Vec<u64> = general.chain(lines).collect();
    let replies = roots.iter().flat_map(|root| repository.thread(*root)).map(|reply| reply.id);
    let all: Vec<u64> = roots.iter().copied().chain(replies).collect();
    let tasks: Vec<&u64> = all.iter().filter(|id| repository.tasks.contains(id)).collect();
    let resolved = tasks.iter().filter(|id| repository.resolved_comments.contains(id)).count();
    json!({"commentCount": all.len(), "openTaskCount": tasks.len() - resolved, "resolvedTaskCount": resolved})
}

/// Lists pull requests. Those from forks are not outgoing.
pub(super) fn list_pulls(state: &State, request: &Request<'_>) -> Reply {
    let Request { call, repository, .. } = request;
    let wanted = call.parameter("state").unwrap_or("OPEN");
    let is_outgoing = match call.parameter("direction") {
        None | Some("INCOMING") => false,
        Some("OUTGOING") => true,
        Some(_) => return invalid("direction", "The direction is invalid."),
    };
    if !["ALL", "OPEN", "MERGED", "DECLINED"].contains(&wanted) {
        return invalid("state", "The state is invalid.");
    }
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
    let is_draft = call.parameter("draft").map(|draft| draft == "true");
    let part = call.parameter("filterText").unwrap_or_default().to_lowercase();
    let has_text = |text: &str| text.to_lowercase().contains(&part);
    let mut listed: Vec<&Pull> = repository.pulls.iter().rev().filter(has_branch).filter(has_state).collect();
    listed.retain(|pull| !is_outgoing || pull.fork.is_none());
    listed.retain(|pull| is_draft.is_none_or(|is_draft| pull.draft == is_draft));
    listed.retain(|pull| has_text(&pull.title) || has_text(&pull.body));
    match call.parameter("order") {
        None | Some("NEWEST") => {}
        Some("OLDEST") => listed.reverse(),
        Some(_) => return invalid("order", "The order is invalid."),
    }
    let show = |pull: &Pull| {
        let mut shown = show_pull(state, repository, pull);
        if call.parameter("withProperties") != Some("false") {
            shown["properties"] = properties(repository, pull);
        }
        shown
    };
    page(call, &listed.into_iter().map(show).collect::<Vec<_>>())
}

/// Returns the error for the title or the description of a pull request.
fn wrong_text(call: &ApiRequest, has_title: bool) -> Option<Reply> {
    let title = text(call, "title");
    if has_title && (title.trim().is_empty() || title.chars().count() > 255) {
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
    let Some(id) = end["id"].as_str() else { return Err(invalid(name, "The ID of the branch must be specified.")) };
    existing_branch(&request.repository, id)
}

/// Returns the name of a branch by its full name.
fn existing_branch(repository: &Repository, id: &str) -> Result<String, Reply> {
    match id.strip_prefix("refs/heads/").filter(|branch| repository.branches.contains_key(*branch)) {
        Some(branch) => Ok(branch.to_owned()),
        None => {
            let text = format!("Branch {id} does not exist in this repository.");
            Err(error(404, "repository.NoSuchBranchException", &text))
        }
    }
}

/// Returns the error for the branches of a new pull request, or of one whose target changes.
fn wrong_branches(state: &State, repository: &Repository, head: &str, base: &str) -> Option<Reply> {
    if head == base {
        let text = "Pull requests must have different source and target branches.";
        return Some(error(409, "pull.InvalidPullRequestTargetException", text));
    }
    let is_same = |pull: &&Pull| pull.head == head && pull.base == base && pull.fork.is_none();
    if let Some(existing) = repository.pulls.iter().filter(is_same).find(|pull| pull.state == PullState::Open) {
        let body = json!({"errors": [{
            "context": null,
            "message": "Only one pull request may be open for a given source and target branch",
            "exceptionName": format!("{PACKAGE}.pull.DuplicatePullRequestException"),
            "existingPullRequest": show_pull(state, repository, existing),
        }]});
        return Some(Reply::json(409, &body));
    }
    if repository.branches[head] == repository.branches[base] {
        let text = format!("{base} is already up-to-date with branch {head}.");
        return Some(error(409, "pull.EmptyPullRequestException", &text));
    }
    None
}

pub(super) fn create_pull(state: &mut State, request: &Request<'_>) -> Reply {
    let Request { call, user, repository, .. } = request;
    if let Some(reply) = wrong_text(call, true) {
        return reply;
    }
    let (head, base) = match (branch(request, "fromRef"), branch(request, "toRef")) {
        (Ok(head), Ok(base)) => (head, base),
        (Err(reply), _) | (_, Err(reply)) => return reply,
    };
    if let Some(reply) = wrong_branches(state, repository, &head, &base) {
        return reply;
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
    let mut names: Vec<String> = Vec::new();
    for reviewer in request.call.body["reviewers"].as_array().into_iter().flatten() {
        match reviewer["user"]["name"].as_str() {
            Some(name) if names.iter().any(|known| known == name) => {}
            Some(name) => names.push(name.to_owned()),
            None => return Err(invalid("reviewers", "The name of a reviewer must be specified.")),
        }
    }
    let (mut errors, mut valid) = (Vec::new(), Vec::new());
    for name in &names {
        let fault = match state.users.iter().find(|user| user.name == *name) {
            None => "is not a user.",
            Some(user) if user.id == author => "is the author of the pull request.",
            Some(user) if level_in(&request.repository, user.id) == 0 => "does not have permission to review.",
            Some(user) => {
                valid.push(show_user(user));
                continue;
            }
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
        "validReviewers": valid,
    }]});
    Err(Reply::json(409, &body))
}

/// Changes a pull request. A title that is missing stays (github.com/b1ff/atlassian-dc-mcp/issues/84). Reviewers that are
/// missing are removed (the same issue), and so is a description; the last is unconfirmed.
pub(super) fn change_pull(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
    let Request { call, user, token, repository } = request;
    // PUT …/pull-requests/{id} needs REPO_WRITE, or REPO_READ of the author.
    if pull.author != user.id && level(repository, user, token) < 2 {
        return not_permitted();
    }
    let Some(version) = call.body["version"].as_i64() else {
        return invalid("version", "The version of the pull request must be specified.");
    };
    let is_other = |name: &Value| *name != state.user(pull.author).name;
    if call.body.pointer("/author/user/name").is_some_and(is_other) {
        return invalid("author", "The author of a pull request cannot be changed.");
    }
    if call.body["participants"].as_array().is_some_and(|participants| !participants.is_empty()) {
        return invalid("participants", "The participants of a pull request cannot be changed.");
    }
    if let Some(reply) = wrong_text(call, !call.body["title"].is_null()) {
        return reply;
    }
    if u64::try_from(version) != Ok(pull.version) {
        return out_of_date(state, repository, pull, version);
    }
    if pull.state != PullState::Open {
        return not_open();
    }
    let base = match new_base(state, request, pull) {
        Ok(base) => base,
        Err(reply) => return reply,
    };
    let reviewers = match reviewers(state, request, pull.author) {
        Ok(reviewers) => reviewers,
        Err(reply) => return reply,
    };
    let changed = Pull {
        version: pull.version + 1,
        title: call.body["title"].as_str().unwrap_or(&pull.title).to_owned(),
        body: text(call, "description"),
        draft: call.body["draft"].as_bool().unwrap_or(pull.draft),
        base,
        reviewers,
        ..pull.clone()
    };
    let stored = state.by_id(repository.id).unwrap().pulls.iter_mut().find(|stored| stored.number == pull.number);
    *stored.unwrap() = changed.clone();
    Reply::json(200, &show_pull(state, repository, &changed))
}

/// Returns the target branch that a change of a pull request names.
fn new_base(state: &State, request: &Request<'_>, pull: &Pull) -> Result<String, Reply> {
    let reference = &request.call.body["toRef"]["id"];
    if request.call.body["toRef"].is_null() || *reference == format!("refs/heads/{}", pull.base) {
        return Ok(pull.base.clone());
    }
    let Some(base) = reference.as_str().filter(|id| !id.trim().is_empty()) else {
        return Err(invalid("toRef", "The ID of the target branch must not be blank."));
    };
    let base = existing_branch(&request.repository, base)?;
    wrong_branches(state, &request.repository, &pull.head, &base).map_or(Ok(base), Err)
}
