//! The interface of GitLab (Free edition, version 19), whose projects are private. It follows the pages of
//! <https://docs.gitlab.com/api/>; where these leave a rule open, it follows `lib/api` in GitLab's source. Comments name
//! the page or the file.

mod discussions;
mod issues;
mod merge;
mod notes;
mod params;
mod pipelines;
mod pulls;
mod records;
mod repository;
mod statuses;

use http::Method;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::stamp::{issue_key, stamp};
use super::state::{CommentedOn, Repository, State, User};
use super::times::Times;
use super::{ApiRequest, Reply};
pub use records::Records;

/// The time of what has no known time.
const TIME: &str = "2026-01-01T00:00:00.000Z";

/// The roles (Project members API, "Roles").
const REPORTER: u64 = 20;
const DEVELOPER: u64 = 30;
const MAINTAINER: u64 = 40;

/// A request about a repository.
struct Request<'a> {
    call: &'a ApiRequest,
    user: User,
    users: Vec<User>,
    url: String,
    /// The repository before the request, or after a change of it.
    found: Repository,
    times: Times,
}

fn message(status: u16, message: impl Into<Value>) -> Reply {
    Reply::json(status, &json!({"message": message.into()}))
}

fn error(status: u16, error: &str) -> Reply {
    Reply::json(status, &json!({"error": error}))
}

/// Returns the answer of a record that is not valid (REST API troubleshooting, "Status code 400").
fn invalid(field: &str, text: &str) -> Reply {
    message(400, json!({field: [text]}))
}

/// Returns the answer of a record that was looked up by its ID, and does not exist.
fn no_record() -> Reply {
    message(404, "404 Not found")
}

fn forbidden() -> Reply {
    message(403, "403 Forbidden")
}

/// Returns the answer to a request without a valid token, or with a role that may not merge.
pub(super) fn unauthorized() -> Reply {
    message(401, "401 Unauthorized")
}

/// Returns the answer to a request above a rate limit: text and headers (User and IP rate limits, "Response headers" and
/// "Use a custom rate limit response"). `RateLimit-Reset` is left out, because it is a time of day, and clients in tests
/// have a clock of their own.
pub(super) fn throttled(seconds: u64) -> Reply {
    Reply::text(429, "Retry later\n")
        .header("retry-after", seconds.to_string())
        .header("ratelimit-limit", "60")
        .header("ratelimit-name", "throttle_authenticated_api")
        .header("ratelimit-observed", "61")
        .header("ratelimit-remaining", "0")
}

/// Answers a request. The order of the refusals is that of GitLab: the token, the parameters, the project, the role.
pub(super) fn answer(state: &mut State, call: &ApiRequest) -> Reply {
    let parts: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    let ["api", "v4", parts @ ..] = parts.as_slice() else { return error(404, "404 Not Found") };
    let token = token(call);
    let Some((user, rights)) = state.signed_in(token.as_deref()) else {
        return refused(state, call, token.as_deref(), parts);
    };
    if call.method != Method::GET && !rights.can_write {
        return insufficient_scope();
    }
    match (&call.method, parts) {
        (&Method::GET, ["user"]) => Reply::json(200, &show_full_user(&state.url, &user)),
        (&Method::GET, ["personal_access_tokens", "self"]) => {
            let scopes: &[&str] = if rights.can_write { &["api"] } else { &["read_api"] };
            let shown = json!({
                "id": 4,
                "name": "journeyman",
                "revoked": false,
                "created_at": TIME,
                "description": null,
                "scopes": scopes,
                "user_id": user.id,
                "last_used_at": TIME,
                "active": true,
                "expires_at": rights.expires_at,
            });
            Reply::json(200, &shown)
        }
        // Users API, "List users": `username` ignores case; the newest come first.
        (&Method::GET, ["users"]) => {
            let wanted = params::text(call, "username");
            let is_it = |user: &&User| wanted.as_ref().is_none_or(|wanted| user.name.eq_ignore_ascii_case(wanted));
            let listed = state.users.iter().rev().filter(is_it).map(|user| show_user(&state.url, user));
            page(call, &state.url, listed.collect())
        }
        (&Method::GET, ["users", id]) => match id.parse::<u64>() {
            Err(_) => error(400, "id is invalid"),
            Ok(id) => match state.users.iter().find(|user| user.id == id) {
                Some(user) => Reply::json(200, &show_full_user(&state.url, user)),
                None => message(404, "404 User Not Found"),
            },
        },
        (_, ["projects", project, below @ ..]) => {
            if let Some(refusal) = params::check(call, below) {
                return refusal;
            }
            match find(state, call, &user, project, below) {
                Ok(found) if rights.repository.is_none_or(|id| id == found.id) => {
                    let (users, url, times) = (state.users.clone(), state.url.clone(), state.times.clone());
                    let request = Request { call, user, users, url, found, times };
                    request.check(below).unwrap_or_else(|| request.answer(state, below))
                }
                Ok(_) => message(404, "404 Project Not Found"),
                Err(reply) => reply,
            }
        }
        _ => error(404, "404 Not Found"),
    }
}

/// Returns the token of a request, in the headers that GitLab accepts (REST API authentication).
fn token(call: &ApiRequest) -> Option<String> {
    let text = |name: &str| call.headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    text("private-token").or_else(bearer).map(str::to_owned)
}

/// Returns the answer to a request without a valid token. Private projects do not exist for the operations that GitLab
/// offers to everybody: those without `before { authenticate! }` in `lib/api`.
fn refused(state: &State, call: &ApiRequest, token: Option<&str>, parts: &[&str]) -> Reply {
    if let Some(token) = token {
        let is_known = state.tokens.contains_key(token);
        let text = "Token is expired. You can either do re-authorization or token refresh.";
        let expired = || Reply::json(401, &json!({"error": "invalid_token", "error_description": text}));
        return if is_known { expired() } else { unauthorized() };
    }
    let is_for_everybody = match parts {
        ["projects", _, "repository", "commits", _, "statuses"] => false,
        ["projects", _] | ["projects", _, "repository" | "pipelines", ..] => true,
        ["projects", _, "merge_requests" | "issues", below @ ..] => {
            !below.iter().any(|part| ["notes", "discussions", "resource_label_events"].contains(part))
        }
        _ => false,
    };
    if call.method == Method::GET && is_for_everybody { message(404, "404 Project Not Found") } else { unauthorized() }
}

fn insufficient_scope() -> Reply {
    let text = "The request requires higher privileges than provided by the access token.";
    Reply::json(403, &json!({"error": "insufficient_scope", "error_description": text, "scope": "api"}))
}

/// Finds the project of a request, by its ID or its path. Projects that the user may not read do not exist for the user
/// (`find_project!` in `lib/api/helpers.rb`).
fn find(state: &mut State, call: &ApiRequest, user: &User, project: &str, below: &[&str]) -> Result<Repository, Reply> {
    let missing = || message(404, "404 Project Not Found");
    let may_see = |found: &&Repository| found.permissions.contains_key(&user.id);
    if let Ok(id) = project.parse() {
        return state.by_id(id).map(|found| &*found).filter(may_see).cloned().ok_or_else(missing);
    }
    // REST API, "Redirects".
    if let Some(moved) = state.renamed(project).filter(may_see) {
        if call.method != Method::GET {
            return Err(message(405, "Non GET methods are not allowed for moved projects"));
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

/// Returns a page of a list, with the headers of offset-based pagination (REST API, "Pagination").
fn page(call: &ApiRequest, url: &str, items: Vec<Value>) -> Reply {
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
    let previous = (at > 1).then(|| at - 1);
    let next = (at < pages).then(|| at + 1);
    let mut links: Vec<String> = previous.map(|page| link(page, "prev")).into_iter().collect();
    links.extend(next.map(|page| link(page, "next")));
    links.extend([link(1, "first"), link(pages, "last")]);
    let shown = |page: Option<usize>| page.map_or_else(String::new, |page| page.to_string());
    let chosen = items.iter().skip((at - 1) * per).take(per).cloned().collect();
    Reply::json(200, &Value::Array(chosen))
        .header("link", links.join(", "))
        .header("x-page", at.to_string())
        .header("x-per-page", per.to_string())
        .header("x-prev-page", shown(previous))
        .header("x-next-page", shown(next))
        .header("x-total", items.len().to_string())
        .header("x-total-pages", pages.to_string())
}

/// Shows a user as in other records (`API::Entities::UserBasic`).
fn show_user(url: &str, user: &User) -> Value {
    json!({
        "id": user.id,
        "username": user.name,
        "public_email": null,
        "name": user.name,
        "state": "active",
        "locked": false,
        "avatar_url": null,
        "web_url": format!("{url}/{}", user.name),
    })
}

/// Shows a user as the operations about one user do (Users API, "Get a single user").
fn show_full_user(url: &str, user: &User) -> Value {
    let mut shown = show_user(url, user);
    shown["created_at"] = TIME.into();
    shown["bio"] = "".into();
    shown["bot"] = user.is_bot.into();
    shown
}

const fn level(permission: &str) -> u64 {
    match permission.as_bytes() {
        b"admin" => MAINTAINER,
        b"write" => DEVELOPER,
        _ => REPORTER,
    }
}

/// Returns whether a text is a full hash.
fn is_hash(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Sorts items by a property and, when it is equal, by their IDs.
fn sort(items: &mut [Value], property: &str, is_ascending: bool) {
    items.sort_by_key(|item| (item[property].as_str().map(str::to_owned), item["id"].as_u64()));
    if !is_ascending {
        items.reverse();
    }
}

impl Request<'_> {
    fn level(&self) -> u64 {
        self.found.permissions.get(&self.user.id).map_or(0, |permission| level(permission))
    }

    /// Refuses changes of an archived project. Roles are checked by each operation.
    fn check(&self, below: &[&str]) -> Option<Reply> {
        if self.call.method == Method::GET || !self.found.is_archived {
            return None;
        }
        Some(match below {
            [.., "award_emoji"] => message(404, "404 Award Emoji Not Found"),
            ["merge_requests", _, "merge"] => unauthorized(),
            _ => forbidden(),
        })
    }

    /// Returns the request with the repository after a change.
    fn renewed(&self, state: &mut State) -> Self {
        stamp(state);
        let found = state.by_id(self.found.id).unwrap().clone();
        let (users, url, times) = (state.users.clone(), self.url.clone(), state.times.clone());
        Self { call: self.call, user: self.user.clone(), users, url, found, times }
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
            (&Method::GET, ["issues"]) => self.issues(),
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
            (&Method::GET, ["pipelines", id]) => self.pipeline(id),
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

    /// Answers a request about the notes and reactions of a merge request or an issue.
    fn conversation(&self, state: &mut State, target: CommentedOn, rest: &[&str]) -> Reply {
        match rest {
            ["notes"] | ["notes", _] => self.notes(state, target, rest),
            ["discussions", ..] => self.discussions(state, target, rest),
            ["award_emoji"] if self.call.method == Method::POST => self.award(state, target, None),
            ["notes", note, "award_emoji"] if self.call.method == Method::POST => {
                self.award(state, target, note.parse().ok())
            }
            _ => error(404, "404 Not Found"),
        }
    }

    fn web_url(&self) -> String {
        format!("{}/{}", self.url, self.found.path)
    }

    fn show_person(&self, id: u64) -> Value {
        self.users.iter().find(|user| user.id == id).map_or(Value::Null, |user| show_user(&self.url, user))
    }

    fn show_people(&self, names: &[String]) -> Vec<Value> {
        let known = names.iter().filter_map(|name| self.users.iter().find(|user| user.name == *name));
        known.map(|user| show_user(&self.url, user)).collect()
    }

    /// Returns the times at which a merge request or an issue was created and changed.
    fn times_of(&self, target: CommentedOn) -> (String, String) {
        self.times.exact(&match target {
            CommentedOn::Pull(number) => format!("{}/{number}", self.found.id),
            CommentedOn::Issue(number) => issue_key(&self.found, number),
        })
    }

    /// Filters and sorts merge requests or issues by the parameters of their lists (Merge requests API and Issues API,
    /// "List project merge requests" and "List project issues"). Orders that the stand-in does not know are that of
    /// creation.
    fn listed(&self, mut items: Vec<Value>) -> Vec<Value> {
        let time = |item: &Value, name: &str| item[name].as_str().and_then(|text| text.parse().ok());
        for name in ["created", "updated"] {
            let after = params::time(self.call, &format!("{name}_after"));
            let before = params::time(self.call, &format!("{name}_before"));
            items.retain(|item| {
                let at = time(item, &format!("{name}_at"));
                after.is_none_or(|after| at >= Some(after)) && before.is_none_or(|before| at <= Some(before))
            });
        }
        if let Some(author) = params::integer(self.call, "author_id") {
            items.retain(|item| item["author"]["id"] == author);
        }
        if let Some(author) = params::text(self.call, "author_username") {
            items.retain(|item| item["author"]["username"] == *author);
        }
        if let Some(iids) = params::list(self.call, "iids") {
            let iids: Vec<u64> = iids.iter().filter_map(|iid| iid.parse().ok()).collect();
            items.retain(|item| item["iid"].as_u64().is_some_and(|iid| iids.contains(&iid)));
        }
        for label in params::list(self.call, "labels").unwrap_or_default() {
            items.retain(|item| item["labels"].as_array().is_some_and(|labels| labels.contains(&label.clone().into())));
        }
        if let Some(wanted) = params::text(self.call, "state").filter(|state| state != "all") {
            items.retain(|item| item["state"] == *wanted);
        }
        let order = params::text(self.call, "order_by");
        let known = ["updated_at", "merged_at", "title"];
        let order = order.filter(|order| known.contains(&order.as_str())).unwrap_or_else(|| "created_at".to_owned());
        sort(&mut items, &order, params::text(self.call, "sort").as_deref() == Some("asc"));
        items
    }
}
