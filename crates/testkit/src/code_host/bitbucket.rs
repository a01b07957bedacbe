//! The interface of Bitbucket Cloud.
//!
//! Basic authentication is that of an API token: the rights are those of the user. A bearer token is an access token of
//! a workspace or, if it is for one repository, of that repository: the rights are its scopes, which are all that are
//! useful, or only those to read. The service has no redirects for renamed repositories, and no archived repositories;
//! one that the state calls archived is in read-only mode, as when a workspace exceeds the limits of its plan.
//!
//! One thing is not as in the service: an access token of a workspace may read its user at `/user`. The service answers
//! access tokens with status 403 there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use super::state::{Check, Comment, Place, Pull, PullState, Repository, ReviewComment, State, Status, Token, User};
use super::{Call, Reply};

/// The time of everything.
const TIME: &str = "2026-01-01T00:00:00.000000+00:00";

/// The sender of a request.
struct Sender {
    user: User,
    token: Token,
    /// `true` for an access token.
    is_access_token: bool,
}

impl Sender {
    /// Finds the sender of a request; `None` if the credential is not valid.
    fn of(state: &State, call: &Call) -> Option<Self> {
        let value = call.headers.get("authorization")?.to_str().ok()?;
        let (kind, text) = value.split_once(' ')?;
        let basic = match kind {
            "Basic" => Some(String::from_utf8(STANDARD.decode(text).ok()?).ok()?),
            "Bearer" => None,
            _ => return None,
        };
        let (user, token) = state.signed_in(call.token().as_deref())?;
        let is_access_token = basic.is_none();
        // The name of an API token's user is the email address. Access tokens have none.
        let is_valid = match basic.as_deref().and_then(|basic| basic.split_once(':')) {
            Some((email, _)) => email.contains('@') && token.repository.is_none() && !user.is_bot,
            None => is_access_token,
        };
        is_valid.then_some(Self { user, token, is_access_token })
    }

    /// Returns whether the token may read accounts: its own user, and the members of workspaces.
    fn reads_accounts(&self) -> bool {
        !self.is_access_token || (self.token.repository.is_none() && !self.user.is_bot)
    }

    /// Returns whether the token may administer a repository.
    fn administers(&self, repository: &Repository) -> bool {
        let is_admin = repository.permissions.get(&self.user.id) == Some(&"admin");
        self.token.can_write && (self.is_access_token || is_admin)
    }

    /// Returns whether the token may push to a repository.
    fn pushes(&self, repository: &Repository) -> bool {
        let may = matches!(repository.permissions.get(&self.user.id), Some(&("admin" | "write")));
        self.token.can_write && (self.is_access_token || may)
    }

    fn scopes(&self) -> &'static str {
        match (self.is_access_token, self.token.can_write) {
            (true, true) => "repository:admin, repository:write, pullrequest:write, pipeline",
            (true, false) => "repository, pullrequest, pipeline",
            (false, true) => {
                "read:user:bitbucket, admin:repository:bitbucket, write:repository:bitbucket, \
                 write:pullrequest:bitbucket, read:pipeline:bitbucket"
            }
            (false, false) => {
                "read:user:bitbucket, read:repository:bitbucket, read:pullrequest:bitbucket, read:pipeline:bitbucket"
            }
        }
    }

    /// Refuses a request because of a missing scope.
    fn lacks(&self, scope: &str) -> Reply {
        let granted: Vec<&str> = self.scopes().split(", ").collect();
        let message = "Your credentials lack one or more required privilege scopes.";
        let detail = json!({"required": [scope], "granted": granted});
        Reply::json(403, &json!({"type": "error", "error": {"message": message, "detail": detail}}))
    }
}

fn error(status: u16, message: &str) -> Reply {
    Reply::json(status, &json!({"type": "error", "error": {"message": message}}))
}

/// Refuses the values of fields.
fn invalid(field: &str, faults: &[String]) -> Reply {
    let message = format!("{field}: {}", faults.join(" "));
    Reply::json(400, &json!({"type": "error", "error": {"message": message, "fields": {field: faults}}}))
}

fn uuid(id: u64) -> String {
    format!("{{{id}}}")
}

fn id_of(uuid: &str) -> Option<u64> {
    uuid.strip_prefix('{')?.strip_suffix('}')?.parse().ok()
}

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &Call) -> Reply {
    let Some(("2.0", rest)) = call.segments.split_first().map(|(version, rest)| (version.as_str(), rest)) else {
        return error(404, "Resource not found");
    };
    let Some(sender) = Sender::of(state, call) else {
        let message = "Token is invalid, expired, or not supported for this endpoint.";
        return error(401, message).header("www-authenticate", "Basic realm=\"Bitbucket.org HTTP\"");
    };
    let parts: Vec<&str> = rest.iter().map(String::as_str).collect();
    let reply = match (&call.method, parts.as_slice()) {
        (&Method::GET, ["user"]) if !sender.reads_accounts() => sender.lacks("account"),
        (&Method::GET, ["user"]) => Reply::json(200, &show_user(&sender.user)),
        (&Method::GET, ["user", "workspaces", workspace, "permissions", "repositories"]) => {
            own_permissions(state, call, &sender, workspace)
        }
        (&Method::GET, ["workspaces", workspace, below @ ..]) => members(state, call, &sender, workspace, below),
        (_, ["repositories", workspace, slug, below @ ..]) => {
            let by_id = id_of(slug).and_then(|id| state.by_id(id)).map(|found| found.path.clone());
            let path = by_id.unwrap_or_else(|| format!("{workspace}/{slug}"));
            repository(state, call, &sender, &path, below)
        }
        _ => error(404, "Resource not found"),
    };
    reply.header("x-oauth-scopes", sender.scopes())
}

/// Answers with a page of a list.
fn page(state: &State, call: &Call, most: usize, items: &[Value]) -> Reply {
    let number = |name: &str, default: usize| match call.parameter(name) {
        Some(text) => text.parse().unwrap_or(0),
        None => default,
    };
    let (length, at) = (number("pagelen", 10), number("page", 1));
    if length == 0 || length > most {
        return error(400, "Invalid pagelen");
    }
    if at == 0 {
        return error(400, "Invalid page");
    }
    let values: Vec<&Value> = items.iter().skip((at - 1) * length).take(length).collect();
    let mut body = json!({"pagelen": length, "page": at, "size": items.len(), "values": values});
    if items.len() > at * length {
        let (path, query) = call.target.split_once('?').unwrap_or((&call.target, ""));
        let kept: Vec<&str> = query.split('&').filter(|one| !one.is_empty() && !one.starts_with("page=")).collect();
        let query = if kept.is_empty() { String::new() } else { format!("{}&", kept.join("&")) };
        body["next"] = json!(format!("{}{path}?{query}page={}", state.url, at + 1));
    }
    Reply::json(200, &body)
}

/// Returns the conditions of a filter, each of which compares a field with a text; `None` if it has another form.
fn conditions(call: &Call) -> Option<Vec<(String, String)>> {
    let Some(filter) = call.parameter("q") else { return Some(Vec::new()) };
    let condition = |text: &str| {
        let (field, value) = text.split_once('=')?;
        let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
        Some((field.trim().to_owned(), value.replace("\\\"", "\"").replace("\\\\", "\\")))
    };
    filter.split(" AND ").map(condition).collect()
}

fn bad_filter() -> Reply {
    error(400, "Invalid filter query")
}

fn show_user(user: &User) -> Value {
    json!({
        "type": if user.is_bot { "app_user" } else { "user" },
        "uuid": uuid(user.id),
        "display_name": user.name,
        "nickname": user.name,
        "account_id": format!("557058:{}", user.id),
        "links": {},
    })
}

fn show_user_of(state: &State, id: u64) -> Value {
    state.users.iter().find(|user| user.id == id).map_or(Value::Null, show_user)
}

/// Answers with the permissions that the user has on repositories of a workspace.
fn own_permissions(state: &State, call: &Call, sender: &Sender, workspace: &str) -> Reply {
    if sender.is_access_token {
        return sender.lacks("account");
    }
    let Some(conditions) = conditions(call) else { return bad_filter() };
    if conditions.iter().any(|(field, _)| field != "repository.full_name") {
        return bad_filter();
    }
    let is_it = |found: &&Repository| {
        found.path.starts_with(&format!("{workspace}/")) && conditions.iter().all(|(_, value)| found.path == *value)
    };
    let show = |found: &Repository| {
        let permission = found.permissions.get(&sender.user.id)?;
        Some(json!({
            "type": "repository_permission",
            "permission": permission,
            "user": show_user(&sender.user),
            "repository": {"type": "repository", "full_name": found.path, "uuid": uuid(found.id)},
        }))
    };
    let listed: Vec<Value> = state.repositories.iter().filter(is_it).filter_map(show).collect();
    page(state, call, 100, &listed)
}

/// Answers a request about the members of a workspace. Members are the users with a permission on a repository.
fn members(state: &mut State, call: &Call, sender: &Sender, workspace: &str, below: &[&str]) -> Reply {
    let is_member = |user: &&User| {
        let mut within = state.repositories.iter().filter(|one| one.path.starts_with(&format!("{workspace}/")));
        !user.is_bot && within.any(|one| one.permissions.contains_key(&user.id))
    };
    let show = |user: &User| json!({"type": "workspace_membership", "user": show_user(user)});
    match below {
        ["members", ..] if !sender.reads_accounts() => sender.lacks("account"),
        ["members"] if call.parameter("q").is_some() => bad_filter(),
        ["members"] => {
            let listed: Vec<Value> = state.users.iter().filter(is_member).map(show).collect();
            page(state, call, 100, &listed)
        }
        ["members", member] => {
            let found = state.users.iter().filter(is_member).find(|user| uuid(user.id) == *member);
            found.map_or_else(|| error(404, "Membership not found"), |user| Reply::json(200, &show(user)))
        }
        ["permissions", "repositories", slug] => {
            let path = format!("{workspace}/{slug}");
            let Some(found) = state.by_path(&path).cloned() else { return no_repository(&path) };
            permissions(state, call, sender, &found)
        }
        _ => error(404, "Resource not found"),
    }
}

/// Answers with the permissions of users on a repository.
fn permissions(state: &State, call: &Call, sender: &Sender, found: &Repository) -> Reply {
    if !sender.administers(found) {
        return sender.lacks("repository:admin");
    }
    let Some(conditions) = conditions(call) else { return bad_filter() };
    if conditions.iter().any(|(field, _)| field != "user.uuid") {
        return bad_filter();
    }
    let granted = found.permissions.iter().filter(|(id, _)| conditions.iter().all(|(_, value)| uuid(**id) == *value));
    let show = |(id, permission): (&u64, &&str)| {
        let user = show_user_of(state, *id);
        json!({"type": "repository_permission", "permission": permission, "user": user})
    };
    let listed: Vec<Value> = granted.map(show).collect();
    page(state, call, 100, &listed)
}

fn no_repository(path: &str) -> Reply {
    error(404, &format!("Repository {path} not found"))
}

/// Answers a request about a repository.
fn repository(state: &mut State, call: &Call, sender: &Sender, path: &str, below: &[&str]) -> Reply {
    let Some(found) = state.by_path(path).cloned() else { return no_repository(path) };
    let may_see = match sender.is_access_token {
        true => sender.token.repository.is_none_or(|id| id == found.id),
        false => found.permissions.contains_key(&sender.user.id),
    };
    if !may_see {
        return error(403, "You do not have access to view this repository.");
    }
    if call.method != Method::GET && found.is_archived {
        return error(403, "This repository is in read-only mode.");
    }
    match (&call.method, below) {
        (&Method::GET, []) => Reply::json(200, &show_repository(state, &found)),
        (_, ["pullrequests", below @ ..]) => pulls(state, call, sender, &found, below),
        (_, ["commit", commit, below @ ..]) => commits(state, call, &found, commit, below),
        (&Method::GET, ["pipelines", below @ ..]) => pipelines(state, call, &found, below),
        _ => error(404, "Resource not found"),
    }
}

fn show_repository(state: &State, found: &Repository) -> Value {
    let slug = found.path.rsplit('/').next().unwrap();
    let main = (!found.branches.is_empty()).then(|| json!({"type": "branch", "name": "main"}));
    json!({
        "type": "repository",
        "uuid": uuid(found.id),
        "full_name": found.path,
        "name": slug,
        "slug": slug,
        "mainbranch": main,
        "is_private": true,
        "links": {"html": {"href": format!("{}/{}", state.url, found.path)}},
    })
}

/// Returns a pull request. Lists lack the reviewers.
fn show_pull(state: &State, found: &Repository, pull: &Pull, is_single: bool) -> Value {
    let short = |hash: &str| json!({"type": "commit", "hash": hash.chars().take(12).collect::<String>()});
    let own = json!({"type": "repository", "full_name": found.path, "uuid": uuid(found.id)});
    let source = match pull.fork {
        Some(fork) => json!({"type": "repository", "full_name": "somebody/fork", "uuid": uuid(fork)}),
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
fn pulls(state: &mut State, call: &Call, sender: &Sender, found: &Repository, below: &[&str]) -> Reply {
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
        _ => error(404, "Pull request not found"),
    }
}

fn list_pulls(state: &State, call: &Call, found: &Repository) -> Reply {
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

fn create_pull(state: &mut State, call: &Call, sender: &Sender, found: &Repository) -> Reply {
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

fn required(field: &str) -> Reply {
    invalid(field, &["This field is required.".to_owned()])
}

/// Changes a pull request. What the request does not name is removed, except for the branches.
fn update_pull(state: &mut State, call: &Call, found: &Repository, pull: &Pull) -> Reply {
    if pull.state != PullState::Open {
        return error(400, "This pull request is already closed.");
    }
    let Some(title) = call.body["title"].as_str().filter(|title| !title.is_empty()) else { return required("title") };
    let (mut reviewers, mut faults) = (Vec::new(), Vec::new());
    for reviewer in call.body["reviewers"].as_array().into_iter().flatten() {
        let id = reviewer["uuid"].as_str().and_then(id_of);
        let Some(user) = state.users.iter().find(|user| Some(user.id) == id) else {
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
fn comments(state: &mut State, call: &Call, sender: &Sender, found: &Repository, pull: &Pull) -> Reply {
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
            shown["inline"] = json!({"path": path, "from": null, "to": line});
            listed.push((*id, shown));
        }
    }
    listed.sort_by_key(|(id, _)| *id);
    let listed: Vec<Value> = listed.into_iter().map(|(_, shown)| shown).collect();
    page(state, call, 100, &listed)
}

/// Finds a commit by its hash, of which the first characters are enough. The state knows the newest commits of branches
/// only; a full hash may be that of another commit.
fn full_hash(found: &Repository, hash: &str) -> Option<String> {
    let ended = found.pulls.iter().filter_map(|pull| pull.ended_sha.as_ref());
    let mut known = found.branches.values().chain(ended);
    let is_full = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let full = known.find(|full| hash.len() >= 7 && full.starts_with(hash)).cloned();
    full.or_else(|| is_full.then(|| hash.to_owned()))
}

/// Answers a request about a commit.
fn commits(state: &mut State, call: &Call, found: &Repository, commit: &str, below: &[&str]) -> Reply {
    let Some(sha) = full_hash(found, commit) else { return error(404, &format!("Commit not found: {commit}")) };
    match (&call.method, below) {
        (&Method::GET, []) => Reply::json(200, &json!({"type": "commit", "hash": sha})),
        (&Method::GET, ["statuses"]) => {
            let mut latest: Vec<&Status> = Vec::new();
            for status in found.statuses.iter().rev().filter(|status| status.sha == sha) {
                if !latest.iter().any(|known| known.context == status.context) {
                    latest.push(status);
                }
            }
            let mut listed: Vec<Value> = latest.into_iter().map(show_status).collect();
            listed.extend(pipeline_of(found, &sha).map(|number| pipeline_status(state, found, &sha, number)));
            page(state, call, 100, &listed)
        }
        (&Method::POST, ["statuses", "build"]) => set_status(state, call, found, &sha),
        _ => error(404, "Resource not found"),
    }
}

fn show_status(status: &Status) -> Value {
    json!({
        "type": "build",
        "key": status.context,
        "name": status.context,
        "state": status.state,
        "url": status.url,
        "description": status.description,
        "refname": null,
        "created_on": TIME,
        "updated_on": TIME,
    })
}

/// Sets a build status. Reading the repository is enough.
fn set_status(state: &mut State, call: &Call, found: &Repository, sha: &str) -> Reply {
    let text = |name: &str| call.body[name].as_str().unwrap_or_default().to_owned();
    let (key, name, url) = (text("key"), text("state"), text("url"));
    if key.is_empty() || key.chars().count() > 40 {
        return required("key");
    }
    if !["INPROGRESS", "SUCCESSFUL", "FAILED", "STOPPED"].contains(&name.as_str()) {
        return invalid("state", &[format!("{name} is not a valid choice")]);
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return invalid("url", &["Enter a valid URL.".to_owned()]);
    }
    if text("description").chars().count() > 255 {
        return invalid("description", &["Ensure this value has at most 255 characters".to_owned()]);
    }
    let description = text("description");
    let status = Status { sha: sha.to_owned(), context: key, state: name, url, description };
    let statuses = &mut state.by_id(found.id).unwrap().statuses;
    statuses.retain(|known| known.sha != status.sha || known.context != status.context);
    statuses.push(status.clone());
    Reply::json(201, &show_status(&status))
}

/// Returns the commits with checks, in the order of their pipelines. The checks of a commit are the steps of its
/// pipeline.
fn commits_with_pipelines(found: &Repository) -> Vec<&str> {
    let mut commits: Vec<&str> = Vec::new();
    for check in &found.checks {
        if !commits.contains(&check.sha.as_str()) {
            commits.push(&check.sha);
        }
    }
    commits
}

/// Returns the number of the pipeline of a commit, from 1.
fn pipeline_of(found: &Repository, sha: &str) -> Option<usize> {
    commits_with_pipelines(found).iter().position(|known| *known == sha).map(|place| place + 1)
}

/// Returns the state of a pipeline; `None` while it runs, otherwise whether it succeeded.
fn passed(found: &Repository, sha: &str) -> Option<bool> {
    let mut steps = found.checks.iter().filter(|check| check.sha == sha).map(|check| check.passed);
    steps.try_fold(true, |all, passed| passed.map(|passed| all && passed))
}

/// Returns the build status that a pipeline sets.
fn pipeline_status(state: &State, found: &Repository, sha: &str, number: usize) -> Value {
    let passed = passed(found, sha);
    json!({
        "type": "build",
        "key": (3_343_800 + number).to_string(),
        "name": format!("Pipeline #{number} for main"),
        "state": passed.map_or("INPROGRESS", |passed| if passed { "SUCCESSFUL" } else { "FAILED" }),
        "url": format!("{}/{}/addon/pipelines/home#!/results/{number}", state.url, found.path),
        "description": "",
        "refname": "main",
        "created_on": TIME,
        "updated_on": TIME,
    })
}

fn run_state(passed: Option<bool>) -> Value {
    match passed {
        Some(passed) => json!({"name": "COMPLETED", "result": {"name": if passed { "SUCCESSFUL" } else { "FAILED" }}}),
        None => json!({"name": "IN_PROGRESS", "stage": {"name": "RUNNING"}}),
    }
}

/// Answers a request about pipelines. The UUID of a pipeline is its number.
fn pipelines(state: &State, call: &Call, found: &Repository, below: &[&str]) -> Reply {
    let commits = commits_with_pipelines(found);
    let sha_of = |pipeline: &str| Some(*commits.get(usize::try_from(id_of(pipeline)?).ok()?.checked_sub(1)?)?);
    match below {
        [] => {
            let wanted = call.parameter("target.commit.hash");
            let numbered = commits.iter().zip(1_u64..).filter(|(sha, _)| wanted.is_none_or(|wanted| wanted == **sha));
            let show = |(sha, number): (&&str, u64)| {
                json!({
                    "type": "pipeline",
                    "uuid": uuid(number),
                    "build_number": number,
                    "state": run_state(passed(found, sha)),
                    "target": {"type": "pipeline_ref_target", "ref_name": "main", "commit": {"hash": sha}},
                })
            };
            let listed: Vec<Value> = numbered.map(show).collect();
            page(state, call, 100, &listed)
        }
        [pipeline, "steps"] => {
            let Some(sha) = sha_of(pipeline) else { return error(404, "Pipeline not found") };
            let show = |check: &Check| {
                let state = run_state(check.passed);
                json!({"type": "pipeline_step", "uuid": uuid(check.id), "name": check.name, "state": state})
            };
            let listed: Vec<Value> = found.checks.iter().filter(|check| check.sha == sha).map(show).collect();
            page(state, call, 100, &listed)
        }
        [pipeline, "steps", step, "log"] => {
            let is_it = |check: &&Check| Some(check.sha.as_str()) == sha_of(pipeline) && uuid(check.id) == *step;
            match found.checks.iter().find(is_it) {
                Some(check) if check.passed.is_none() => Reply::text(200, check.log.clone()),
                Some(check) => {
                    let target = format!("{}/logs/{}", state.url.replace("127.0.0.1", "localhost"), check.id);
                    Reply::text(307, "").header("location", target)
                }
                None => error(404, "Log not found"),
            }
        }
        _ => error(404, "Resource not found"),
    }
}
