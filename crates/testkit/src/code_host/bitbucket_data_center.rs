//! The interface of Bitbucket Data Center, version 9. Answers of the product that no document confirms are marked with
//! "unconfirmed".

use http::Method;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::state::{Comment, Place, Pull, PullState, Repository, State, Status, Token, User};
use super::{Call, Reply};

/// The package of the exceptions.
const PACKAGE: &str = "com.atlassian.bitbucket";

/// The maximum length of a description or a comment, in characters; unconfirmed.
const TEXT_CHARS: usize = 32_768;

/// The emoticons that the pages offer for reactions; whether others are accepted is unconfirmed.
const EMOTICONS: [&str; 5] = ["thumbsup", "thumbsdown", "heart", "thinking_face", "laughing"];

/// A request of a user about a repository.
struct Request<'a> {
    call: &'a Call,
    user: &'a User,
    token: &'a Token,
    repository: Repository,
}

fn error(status: u16, exception: &str, message: &str) -> Reply {
    let exception = format!("{PACKAGE}.{exception}");
    Reply::json(status, &json!({"errors": [{"context": null, "message": message, "exceptionName": exception}]}))
}

/// Returns the error for a field of the body.
fn invalid(field: &str, message: &str) -> Reply {
    Reply::json(400, &json!({"errors": [{"context": field, "message": message, "exceptionName": null}]}))
}

fn not_permitted() -> Reply {
    error(401, "AuthorisationException", "You are not permitted to access this resource")
}

/// Returns the answer for an address that does not exist, which is no error of the application.
fn unknown() -> Reply {
    let text = "<status><status-code>404</status-code><message>HTTP 404 Not Found</message></status>";
    Reply::text(404, format!("<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>{text}"))
}

/// Returns the page of a list that the query names.
fn page(call: &Call, items: &[Value]) -> Reply {
    let number = |name: &str| call.parameter(name).and_then(|text| text.parse::<usize>().ok());
    let (start, limit) = (number("start").unwrap_or_default(), number("limit").unwrap_or(25).clamp(1, 100));
    let values: Vec<&Value> = items.iter().skip(start).take(limit).collect();
    let next = (start + limit < items.len()).then_some(start + limit);
    let body = json!({
        "size": values.len(),
        "limit": limit,
        "isLastPage": next.is_none(),
        "values": values,
        "start": start,
        "nextPageStart": next,
    });
    Reply::json(200, &body)
}

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &Call) -> Reply {
    let authorization = call.headers.get("authorization").and_then(|value| value.to_str().ok());
    let Some(authorization) = authorization else { return anonymous(call) };
    let Some((user, token)) = state.signed_in(authorization.strip_prefix("Bearer ")) else {
        let text = "Authentication failed. Please check your credentials and try again.";
        return error(401, "auth.IncorrectPasswordAuthenticationException", text);
    };
    let name: String = form_urlencoded::byte_serialize(user.name.as_bytes()).collect();
    let is_json = call.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let reply = if call.method != Method::GET && !is_json {
        Reply::text(403, "XSRF check failed")
    } else {
        signed_in(state, call, &user, &token)
    };
    reply.header("x-ausername", name)
}

/// Answers a request without a token.
fn anonymous(call: &Call) -> Reply {
    match parts(call).as_slice() {
        ["rest", "api", "latest" | "1.0", "application-properties"] => properties(),
        _ => not_permitted(),
    }
}

fn parts(call: &Call) -> Vec<&str> {
    call.segments.iter().map(String::as_str).collect()
}

fn properties() -> Reply {
    Reply::json(200, &json!({"version": "9.2.0", "buildNumber": "9002000", "displayName": "Bitbucket"}))
}

fn signed_in(state: &mut State, call: &Call, user: &User, token: &Token) -> Reply {
    let parts = parts(call);
    let ["rest", module, "latest" | "1.0", below @ ..] = parts.as_slice() else { return unknown() };
    match (*module, &call.method, below) {
        ("api", &Method::GET, ["application-properties"]) => properties(),
        ("api", &Method::GET, ["users"]) => users(state, call),
        ("api", &Method::GET, ["users", slug]) => match state.users.iter().find(|user| slug_of(user) == *slug) {
            Some(user) => Reply::json(200, &show_user(user)),
            None => error(404, "user.NoSuchUserException", &format!("There is no user with the slug {slug}.")),
        },
        ("api", &Method::GET, ["repos"]) => repositories(state, call, user, token),
        ("build-status", &Method::GET, ["commits", sha]) => builds(state, call, user, token, sha),
        ("api" | "comment-likes", _, ["projects", project, "repos", slug, below @ ..]) => {
            let repository = match find(state, user, token, project, slug) {
                Ok(repository) => repository,
                Err(reply) => return reply,
            };
            let request = Request { call, user, token, repository };
            if *module == "api" { in_repository(state, &request, below) } else { react(state, &request, below) }
        }
        _ => unknown(),
    }
}

/// Returns the level of a permission, from 1 for reading.
fn level_of(permission: &str) -> u8 {
    match permission {
        "admin" | "REPO_ADMIN" => 3,
        "write" | "REPO_WRITE" => 2,
        "read" | "REPO_READ" => 1,
        _ => 0,
    }
}

fn level_in(repository: &Repository, user: u64) -> u8 {
    repository.permissions.get(&user).copied().map_or(0, level_of)
}

/// Returns the level of a token, which is at most that of its user.
fn level(repository: &Repository, user: &User, token: &Token) -> u8 {
    if token.repository.is_some_and(|id| id != repository.id) {
        return 0;
    }
    level_in(repository, user.id).min(if token.can_write { 3 } else { 1 })
}

/// Finds a repository. Its earlier paths find it too, since version 5; whether the product redirects instead is
/// unconfirmed.
fn find(state: &mut State, user: &User, token: &Token, project: &str, slug: &str) -> Result<Repository, Reply> {
    let path = format!("{project}/{slug}");
    let path = state.renamed(&path).map_or(path, |repository| repository.path.clone());
    let is_in_project = |repository: &Repository| parts_of(repository).0.eq_ignore_ascii_case(project);
    if let Some(repository) = state.by_path(&path) {
        return if level(repository, user, token) == 0 { Err(not_permitted()) } else { Ok(repository.clone()) };
    }
    Err(if state.repositories.iter().any(is_in_project) {
        let text = format!("Repository {project}/{slug} does not exist.");
        error(404, "repository.NoSuchRepositoryException", &text)
    } else {
        error(404, "project.NoSuchProjectException", &format!("Project {project} does not exist."))
    })
}

fn parts_of(repository: &Repository) -> (&str, &str) {
    repository.path.split_once('/').unwrap()
}

fn slug_of(user: &User) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    user.name.to_lowercase().chars().map(plain).collect()
}

fn show_user(user: &User) -> Value {
    let kind = if user.is_bot { "SERVICE" } else { "NORMAL" };
    json!({"id": user.id, "name": user.name, "slug": slug_of(user), "displayName": user.name, "active": true, "type": kind})
}

fn show_repository(repository: &Repository) -> Value {
    let (project, slug) = parts_of(repository);
    json!({
        "id": repository.id,
        "slug": slug,
        "name": slug,
        "scmId": "git",
        "state": "AVAILABLE",
        "archived": repository.is_archived,
        "public": false,
        "project": {"id": 1, "key": project, "name": project, "type": "NORMAL"},
    })
}

/// Lists users, whose names contain the filter and who have the permissions. Unknown parameters are ignored.
fn users(state: &mut State, call: &Call) -> Reply {
    let filter = call.parameter("filter").unwrap_or_default().to_lowercase();
    let mut found: Vec<User> = state.users.clone();
    found.retain(|user| user.name.to_lowercase().contains(&filter));
    for number in 1.. {
        let root = format!("permission.{number}");
        let Some(wanted) = call.parameter(&root) else { break };
        let below = |name: &str| call.parameter(&format!("{root}.{name}")).map(str::to_owned);
        if wanted == "LICENSED_USER" {
            continue;
        }
        let (Some(project), Some(slug)) = (below("projectKey"), below("repositorySlug")) else {
            return invalid(&root, "The repository of the permission must be specified.");
        };
        let Some(repository) = state.by_path(&format!("{project}/{slug}")).filter(|_| level_of(wanted) > 0) else {
            return invalid(&root, "The permission filter is invalid.");
        };
        found.retain(|user| level_in(repository, user.id) >= level_of(wanted));
    }
    page(call, &found.iter().map(show_user).collect::<Vec<_>>())
}

/// Lists the repositories on which the user has a permission.
fn repositories(state: &State, call: &Call, user: &User, token: &Token) -> Reply {
    let wanted = level_of(call.parameter("permission").unwrap_or("REPO_READ"));
    if wanted == 0 {
        return invalid("permission", "The permission is invalid.");
    }
    let has_name = |repository: &&Repository| {
        call.parameter("name").is_none_or(|name| parts_of(repository).1.eq_ignore_ascii_case(name.trim()))
    };
    let listed = state.repositories.iter().filter(has_name);
    let listed = listed.filter(|repository| level(repository, user, token) >= wanted);
    page(call, &listed.map(show_repository).collect::<Vec<_>>())
}

/// Lists the statuses of a commit in all repositories, newest first.
fn builds(state: &State, call: &Call, user: &User, token: &Token, sha: &str) -> Reply {
    let mut listed = Vec::new();
    for repository in state.repositories.iter().filter(|repository| level(repository, user, token) > 0) {
        for status in repository.statuses.iter().rev().filter(|status| status.sha == sha) {
            listed.push(json!({
                "key": status.context,
                "name": status.context,
                "state": status.state,
                "url": status.url,
                "description": status.description,
                "updatedDate": 1_767_225_600_000_u64,
            }));
        }
        for check in repository.checks.iter().filter(|check| check.sha == sha) {
            let state = match check.passed {
                None => "INPROGRESS",
                Some(true) => "SUCCESSFUL",
                Some(false) => "FAILED",
            };
            let url = format!("https://ci.example/{}", check.id);
            listed.push(json!({"key": format!("CI-{}", check.id), "name": check.name, "state": state, "url": url}));
        }
    }
    page(call, &listed)
}

/// Answers a request about a repository.
fn in_repository(state: &mut State, request: &Request<'_>, below: &[&str]) -> Reply {
    let Request { call, user, token, repository } = request;
    if call.method != Method::GET {
        // The product also permits readers to open pull requests and to comment. A token that may only read stands for
        // one without the permission.
        if level(repository, user, token) < 2 {
            return not_permitted();
        }
        if repository.is_archived && below.first() == Some(&"pull-requests") {
            let text = format!("The repository {} is read-only", repository.path);
            // The name of the exception is unconfirmed.
            return error(409, "repository.RepositoryReadOnlyException", &text);
        }
    }
    match (&call.method, below) {
        (&Method::GET, []) => Reply::json(200, &show_repository(repository)),
        (&Method::GET, ["default-branch"]) if repository.branches.is_empty() => Reply::text(204, ""),
        (&Method::GET, ["default-branch"]) => {
            Reply::json(200, &json!({"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"}))
        }
        (&Method::POST, ["commits", sha, "builds"]) => set_build(state, request, sha),
        (&Method::GET, ["pull-requests"]) => list_pulls(state, request),
        (&Method::POST, ["pull-requests"]) => create_pull(state, request),
        (_, ["pull-requests", number, below @ ..]) => {
            let number: u64 = number.parse().unwrap_or_default();
            let Some(pull) = repository.pulls.iter().find(|pull| pull.number == number) else {
                let text = format!("Pull request {number} does not exist in {}.", repository.path);
                return error(404, "pull.NoSuchPullRequestException", &text);
            };
            in_pull(state, request, pull, below)
        }
        _ => unknown(),
    }
}

/// Answers a request about a pull request.
fn in_pull(state: &mut State, request: &Request<'_>, pull: &Pull, below: &[&str]) -> Reply {
    match (&request.call.method, below) {
        (&Method::GET, []) => Reply::json(200, &show_pull(state, &request.repository, pull)),
        (&Method::PUT, []) => change_pull(state, request, pull),
        (&Method::GET, ["activities"]) => activities(state, request, pull),
        (&Method::GET, ["comments"]) if request.call.parameter("path").is_none() => {
            invalid("path", "The path query parameter is required when retrieving comments.")
        }
        (&Method::POST, ["comments"]) => comment(state, request, pull),
        _ => unknown(),
    }
}

fn show_pull(state: &State, repository: &Repository, pull: &Pull) -> Value {
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
fn list_pulls(state: &State, request: &Request<'_>) -> Reply {
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

fn text(call: &Call, name: &str) -> String {
    call.body[name].as_str().unwrap_or_default().to_owned()
}

/// Returns the error for the title or the description of a pull request.
fn wrong_text(call: &Call) -> Option<Reply> {
    let title = text(call, "title");
    if title.trim().is_empty() || title.chars().count() > 255 {
        return Some(invalid("title", "Please supply a title of at most 255 characters."));
    }
    let is_long = text(call, "description").chars().count() > TEXT_CHARS;
    is_long.then(|| invalid("description", "The description is too long."))
}

/// Returns the branch of a source or target; the repository must be the one of the request.
fn branch(request: &Request<'_>, name: &str) -> Result<String, Reply> {
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

fn create_pull(state: &mut State, request: &Request<'_>) -> Reply {
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
fn reviewers(state: &State, request: &Request<'_>, author: u64) -> Result<Vec<String>, Reply> {
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
fn change_pull(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
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

fn show_comment(state: &State, repository: &Repository, id: u64, author: u64, body: &str) -> Value {
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
fn activities(state: &State, request: &Request<'_>, pull: &Pull) -> Reply {
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
            listed.push(shown);
        }
    }
    listed.reverse();
    page(request.call, &listed)
}

fn comment(state: &mut State, request: &Request<'_>, pull: &Pull) -> Reply {
    let Request { call, user, repository, .. } = request;
    let body = text(call, "text");
    if body.trim().is_empty() || body.chars().count() > TEXT_CHARS {
        return invalid("text", "The comment must have 1 to 32768 characters.");
    }
    let id = state.add_comment(&repository.path, Place::Pull(pull.number), user.id, &body);
    Reply::json(201, &show_comment(state, repository, id, user.id, &body))
}

/// Reacts to a comment.
fn react(state: &mut State, request: &Request<'_>, below: &[&str]) -> Reply {
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

/// Sets the status of a commit, which replaces that with the same key.
fn set_build(state: &mut State, request: &Request<'_>, sha: &str) -> Reply {
    let call = request.call;
    let field = |name: &str| text(call, name);
    if sha.len() != 40 || !sha.chars().all(|c| c.is_ascii_hexdigit()) {
        return invalid("commitId", "The commit must be a full hash.");
    }
    if field("key").is_empty() || field("key").chars().count() > 255 {
        return invalid("key", "The key must have 1 to 255 characters.");
    }
    if !["SUCCESSFUL", "FAILED", "INPROGRESS", "CANCELLED", "UNKNOWN"].contains(&field("state").as_str()) {
        return invalid("state", "The state is invalid.");
    }
    if !field("url").starts_with("http") || field("url").chars().count() > 450 {
        return invalid("url", "The URL must be absolute, and have at most 450 characters.");
    }
    if field("description").chars().count() > 255 {
        return invalid("description", "The description may have at most 255 characters.");
    }
    let status = Status {
        sha: sha.to_owned(),
        context: field("key"),
        state: field("state"),
        url: field("url"),
        description: field("description"),
    };
    let statuses = &mut state.by_id(request.repository.id).unwrap().statuses;
    statuses.retain(|known| known.sha != status.sha || known.context != status.context);
    statuses.push(status);
    Reply::text(204, "")
}
