//! The interface of GitLab (Free edition, version 19), whose projects are private.

mod discussion;
mod pipelines;
mod pulls;

use http::Method;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::state::{Repository, State, User};
use super::{Call, Reply};

/// The emoji that the stand-in knows.
const EMOJI: [&str; 10] =
    ["thumbsup", "thumbsdown", "eyes", "rocket", "confused", "tada", "heart", "smile", "white_check_mark", "x"];

/// The prefixes that mark the title of a draft.
const DRAFTS: [&str; 3] = ["draft:", "[draft]", "(draft)"];

/// The first ID of the notes that GitLab writes itself.
const FIRST_SYSTEM_NOTE: u64 = 2_000_000;

const DEVELOPER: u64 = 30;

/// A request about a repository.
struct Request<'a> {
    call: &'a Call,
    user: User,
    users: Vec<User>,
    url: String,
    /// The repository before the request.
    found: Repository,
}

fn message(status: u16, message: impl Into<Value>) -> Reply {
    Reply::json(status, &json!({"message": message.into()}))
}

fn error(status: u16, error: &str) -> Reply {
    Reply::json(status, &json!({"error": error}))
}

/// Returns the answer of a record that is not valid.
fn invalid(field: &str, text: &str) -> Reply {
    message(400, json!({field: [text]}))
}

/// Returns the answer of a record that was looked up by its ID, and does not exist.
fn no_record() -> Reply {
    message(404, "404 Not found")
}

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &Call) -> Reply {
    let parts: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    let ["api", "v4", parts @ ..] = parts.as_slice() else { return error(404, "404 Not Found") };
    let token = token(call);
    let Some((user, rights)) = state.signed_in(token.as_deref()) else {
        return refused(state, token.as_deref(), parts);
    };
    if call.method != Method::GET && !rights.can_write {
        return insufficient_scope();
    }
    match (&call.method, parts) {
        (&Method::GET, ["user"]) => {
            let mut shown = show_user(&state.url, &user);
            shown["bot"] = user.is_bot.into();
            Reply::json(200, &shown)
        }
        (&Method::GET, ["personal_access_tokens", "self"]) => {
            let token = state.signed_in(call.token().as_deref()).map(|(_, token)| token).unwrap_or_default();
            Reply::json(200, &json!({"id": 4, "revoked": false, "active": true, "expires_at": token.expires_at}))
        }
        (&Method::GET, ["users"]) => {
            let wanted = call.parameter("username").unwrap_or_default();
            let is_it = |user: &&User| wanted.is_empty() || user.name.eq_ignore_ascii_case(wanted);
            let listed = state.users.iter().filter(is_it).map(|user| show_user(&state.url, user));
            page(call, &state.url, listed.collect())
        }
        (&Method::GET, ["users", id]) => match state.users.iter().find(|user| user.id.to_string() == *id) {
            Some(user) => {
                let mut shown = show_user(&state.url, user);
                shown["bot"] = user.is_bot.into();
                Reply::json(200, &shown)
            }
            None => message(404, "404 User Not Found"),
        },
        (_, ["projects", project, below @ ..]) => match find(state, call, &user, project, below) {
            Ok(found) if rights.repository.is_none_or(|id| id == found.id) => {
                let (users, url) = (state.users.clone(), state.url.clone());
                let request = Request { call, user, users, url, found };
                request.check(below).unwrap_or_else(|| request.answer(state, below))
            }
            Ok(_) => message(404, "404 Project Not Found"),
            Err(reply) => reply,
        },
        _ => error(404, "404 Not Found"),
    }
}

/// Returns the token of a request, in the headers that GitLab accepts.
fn token(call: &Call) -> Option<String> {
    let text = |name: &str| call.headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    text("private-token").or_else(bearer).map(str::to_owned)
}

/// Returns the answer to a request without a valid token.
fn refused(state: &State, token: Option<&str>, parts: &[&str]) -> Reply {
    match token {
        Some(token) if state.tokens.contains_key(token) => {
            let text = "Token is expired. You can either do re-authorization or token refresh.";
            Reply::json(401, &json!({"error": "invalid_token", "error_description": text}))
        }
        None if parts.first() == Some(&"projects") => message(404, "404 Project Not Found"),
        _ => message(401, "401 Unauthorized"),
    }
}

fn insufficient_scope() -> Reply {
    let text = "The request requires higher privileges than provided by the access token.";
    Reply::json(403, &json!({"error": "insufficient_scope", "error_description": text, "scope": "api"}))
}

/// Finds the project of a request, by its ID or its path.
fn find(state: &mut State, call: &Call, user: &User, project: &str, below: &[&str]) -> Result<Repository, Reply> {
    let missing = || message(404, "404 Project Not Found");
    let may_see = |found: &&Repository| found.permissions.contains_key(&user.id);
    if let Ok(id) = project.parse() {
        return state.by_id(id).map(|found| &*found).filter(may_see).cloned().ok_or_else(missing);
    }
    if let Some(moved) = state.renamed(project).filter(may_see) {
        if call.method != Method::GET {
            return Err(message(405, "405 Non GET methods are not allowed for moved projects"));
        }
        let encoded = below.iter().map(|part| form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>());
        let path: String = encoded.map(|part| format!("/{part}")).collect();
        let query = call.target.split_once('?').map_or_else(String::new, |(_, query)| format!("?{query}"));
        let target = format!("{}/api/v4/projects/{}{path}{query}", state.url, moved.id);
        let reply = Reply::text(301, format!("This resource has been moved permanently to {target}"));
        return Err(reply.header("location", target));
    }
    state.by_path(project).map(|found| &*found).filter(may_see).cloned().ok_or_else(missing)
}

/// Returns a page of a list, with the headers of offset-based pagination.
fn page(call: &Call, url: &str, items: Vec<Value>) -> Reply {
    let number = |name: &str, otherwise: usize| {
        call.parameter(name).and_then(|text| text.parse().ok()).filter(|number| *number > 0).unwrap_or(otherwise)
    };
    let (at, per) = (number("page", 1), number("per_page", 20).min(100));
    let pages = items.len().div_ceil(per).max(1);
    let path = call.target.split('?').next().unwrap();
    let link = |page: usize, name: &str| {
        let others = call.query.iter().filter(|(known, _)| known != "page" && known != "per_page");
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(others).extend_pairs([("page", page), ("per_page", per)].map(|(k, v)| (k, v.to_string())));
        format!("<{url}{path}?{}>; rel=\"{name}\"", query.finish())
    };
    let mut links = Vec::new();
    if at > 1 {
        links.push(link(at - 1, "prev"));
    }
    if at < pages {
        links.push(link(at + 1, "next"));
    }
    links.extend([link(1, "first"), link(pages, "last")]);
    let next = if at < pages { (at + 1).to_string() } else { String::new() };
    let chosen = items.iter().skip((at - 1) * per).take(per).cloned().collect();
    Reply::json(200, &Value::Array(chosen))
        .header("link", links.join(", "))
        .header("x-page", at.to_string())
        .header("x-per-page", per.to_string())
        .header("x-next-page", next)
        .header("x-total", items.len().to_string())
        .header("x-total-pages", pages.to_string())
}

fn show_user(url: &str, user: &User) -> Value {
    let page = format!("{url}/{}", user.name);
    json!({"id": user.id, "username": user.name, "name": user.name, "state": "active", "web_url": page})
}

const fn level(permission: &str) -> u64 {
    match permission.as_bytes() {
        b"admin" => 40,
        b"write" => DEVELOPER,
        _ => 20,
    }
}

/// Splits a title into whether it is that of a draft, and the rest.
fn split_title(title: &str) -> (bool, &str) {
    let (mut draft, mut rest) = (false, title);
    while let Some(prefix) = DRAFTS.iter().find(|prefix| rest.to_ascii_lowercase().starts_with(**prefix)) {
        (draft, rest) = (true, rest[prefix.len()..].trim_start());
    }
    (draft, rest)
}

/// Returns the texts of a list, which may also be one text with commas.
fn list_of(value: &Value) -> Option<Vec<String>> {
    let texts: Vec<String> = match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => {
            values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect()
        }
        _ => return None,
    };
    let parts = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
    Some(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

/// Checks the texts of a merge request.
fn check_texts(body: &Value) -> Option<Reply> {
    let title = body["title"].as_str();
    if title.is_some_and(|title| title.trim().is_empty()) {
        return Some(invalid("title", "can't be blank"));
    }
    for (name, most) in [("title", 255), ("description", 1_048_576)] {
        if body[name].as_str().is_some_and(|text| text.chars().count() > most) {
            return Some(invalid(name, &format!("is too long (maximum is {most} characters)")));
        }
    }
    None
}

impl Request<'_> {
    fn level(&self) -> u64 {
        self.found.permissions.get(&self.user.id).map_or(0, |permission| level(permission))
    }

    /// Refuses a change of an archived project, and one for which the user lacks the role.
    fn check(&self, below: &[&str]) -> Option<Reply> {
        if self.call.method == Method::GET {
            return None;
        }
        let for_everybody = matches!(below, [_, _, "notes" | "award_emoji"] | [_, _, "notes", _, "award_emoji"]);
        let is_refused = self.found.is_archived || (!for_everybody && self.level() < DEVELOPER);
        is_refused.then(|| message(403, "403 Forbidden"))
    }

    fn answer(&self, state: &mut State, below: &[&str]) -> Reply {
        match (&self.call.method, below) {
            (&Method::GET, []) => Reply::json(200, &self.show_project()),
            (&Method::GET, ["merge_requests"]) => self.pulls(),
            (&Method::POST, ["merge_requests"]) => self.create_pull(state),
            (_, ["merge_requests", number, rest @ ..]) => {
                let number: u64 = number.parse().unwrap_or_default();
                match self.found.pulls.iter().find(|pull| pull.number == number) {
                    Some(pull) => self.pull(state, pull, rest),
                    None => no_record(),
                }
            }
            (_, ["issues", number, rest @ ..]) => {
                let number: u64 = number.parse().unwrap_or_default();
                match self.found.issues.iter().find(|issue| issue.number == number) {
                    Some(issue) => self.issue(state, issue, rest),
                    None => no_record(),
                }
            }
            (&Method::GET, ["members", "all", id]) => self.member(id),
            (&Method::GET, ["repository", "branches", name]) => self.branch(name),
            (&Method::GET, ["repository", "compare"]) => self.compare(),
            (&Method::GET, ["repository", "commits", sha, "statuses"]) => self.statuses(sha),
            (&Method::GET, ["repository", "commits", sha, "merge_requests"]) => self.pulls_of(sha),
            (&Method::GET, ["repository", "commits", sha]) => self.commit(sha),
            (&Method::POST, ["statuses", sha]) => self.set_status(state, sha),
            (&Method::GET, ["pipelines"]) => self.list_pipelines(),
            (&Method::GET, ["pipelines", id, below]) => self.in_pipeline(id, below),
            (&Method::GET, ["jobs", id, "trace"]) => {
                match self.found.checks.iter().find(|check| check.id.to_string() == *id) {
                    Some(check) => Reply::text(200, check.log.clone()),
                    None => no_record(),
                }
            }
            _ => error(404, "404 Not Found"),
        }
    }

    fn web_url(&self) -> String {
        format!("{}/{}", self.url, self.found.path)
    }

    fn show_project(&self) -> Value {
        json!({
            "id": self.found.id,
            "path_with_namespace": self.found.path,
            "default_branch": self.found.branches.contains_key("main").then_some("main"),
            "empty_repo": self.found.branches.is_empty(),
            "archived": self.found.is_archived,
            "visibility": "private",
            "ci_config_path": Some(&self.found.ci_config_path).filter(|path| !path.is_empty()),
            "web_url": self.web_url(),
            "http_url_to_repo": format!("{}.git", self.web_url()),
            "merge_requests_enabled": true,
            "permissions": {
                "project_access": {"access_level": self.level(), "notification_level": 3},
                "group_access": null,
            },
        })
    }

    fn show_people(&self, names: &[String]) -> Vec<Value> {
        let known = names.iter().filter_map(|name| self.users.iter().find(|user| user.name == *name));
        known.map(|user| show_user(&self.url, user)).collect()
    }

    fn member(&self, id: &str) -> Reply {
        let Ok(id) = id.parse::<u64>() else { return error(400, "user_id is invalid") };
        let user = self.users.iter().find(|user| user.id == id);
        let (Some(user), Some(permission)) = (user, self.found.permissions.get(&id)) else { return no_record() };
        let mut shown = show_user(&self.url, user);
        shown["access_level"] = level(permission).into();
        shown["membership_state"] = "active".into();
        Reply::json(200, &shown)
    }

    fn branch(&self, name: &str) -> Reply {
        let Some(sha) = self.found.branches.get(name) else { return message(404, "404 Branch Not Found") };
        let shown = json!({
            "name": name,
            "commit": {"id": sha},
            "merged": false,
            "protected": name == "main",
            "default": name == "main",
            "can_push": name != "main" || self.level() > DEVELOPER,
        });
        Reply::json(200, &shown)
    }

    fn compare(&self) -> Reply {
        let mut ends = Vec::new();
        for name in ["from", "to"] {
            let Some(end) = self.call.parameter(name) else { return error(400, &format!("{name} is missing")) };
            let of_branch = self.found.branches.get(end);
            match of_branch.or_else(|| self.found.branches.values().find(|sha| *sha == end)) {
                Some(sha) => ends.push(sha),
                None => return message(404, "404 Ref Not Found"),
            }
        }
        let is_same = ends[0] == ends[1];
        // The stand-in knows only the newest commits.
        let commits = if is_same { json!([]) } else { json!([{"id": ends[1]}]) };
        let shown = json!({
            "commit": commits.get(0),
            "commits": commits,
            "diffs": [],
            "compare_timeout": false,
            "compare_same_ref": is_same,
        });
        Reply::json(200, &shown)
    }

    /// Describes the merge of a merged results pipeline.
    fn commit(&self, sha: &str) -> Reply {
        match self.found.merged_results.iter().find(|result| result.merge == sha) {
            Some(result) => {
                Reply::json(200, &json!({"id": sha, "parent_ids": [self.found.branches.get("main"), result.head]}))
            }
            None => message(404, "404 Commit Not Found"),
        }
    }
}

/// Returns whether a text is a full hash.
fn is_hash(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
