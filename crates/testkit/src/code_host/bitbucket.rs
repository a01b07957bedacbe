//! The interface of Bitbucket Cloud.
//!
//! Basic authentication is that of an API token: the rights are those of the user. A bearer token is an access token of
//! a workspace or, if it is for one repository, of that repository: the rights are its scopes, which are all that are
//! useful, or only those to read. The service has no redirects for renamed repositories, and no archived repositories;
//! one that the state calls archived is in read-only mode, as when a workspace exceeds the limits of its plan.
//!
//! One thing is not as in the service: an access token of a workspace may read its user at `/user`. The service answers
//! access tokens with status 403 there.

mod comments;
mod commits;
mod filter;
mod pulls;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

use self::commits::{commits, pipelines};
use self::filter::filtered;
use self::pulls::pulls;
use super::state::{Repository, State, Token, User};
use super::{ApiRequest, Reply};

/// The time of everything without a time of its own.
const TIME: &str = "2026-01-01T00:00:00.000000+00:00";

/// Writes a time in seconds since 1970.
fn time(seconds: i64) -> String {
    Timestamp::from_micros(seconds * 1_000_000).to_string().replace('Z', "000+00:00")
}

/// The sender of a request.
struct Sender {
    user: User,
    token: Token,
    /// `true` for an access token.
    is_access_token: bool,
}

impl Sender {
    /// Finds the sender of a request; `None` if the credential is not valid.
    fn of(state: &State, call: &ApiRequest) -> Option<Self> {
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
                "read:user:bitbucket, read:workspace:bitbucket, admin:repository:bitbucket, write:repository:bitbucket, \
                 write:pullrequest:bitbucket, read:pipeline:bitbucket"
            }
            (false, false) => {
                "read:user:bitbucket, read:workspace:bitbucket, read:repository:bitbucket, \
                 read:pullrequest:bitbucket, read:pipeline:bitbucket"
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

fn required(field: &str) -> Reply {
    invalid(field, &["This field is required.".to_owned()])
}

fn uuid(id: u64) -> String {
    format!("{{{id}}}")
}

fn id_of(uuid: &str) -> Option<u64> {
    uuid.strip_prefix('{')?.strip_suffix('}')?.parse().ok()
}

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &ApiRequest) -> Reply {
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
fn page(state: &State, call: &ApiRequest, most: usize, items: &[Value]) -> Reply {
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
fn own_permissions(state: &State, call: &ApiRequest, sender: &Sender, workspace: &str) -> Reply {
    if sender.is_access_token {
        return sender.lacks("account");
    }
    let show = |found: &Repository| {
        let permission = found.permissions.get(&sender.user.id)?;
        Some(json!({
            "type": "repository_permission",
            "permission": permission,
            "user": show_user(&sender.user),
            "repository": short_repository(found),
        }))
    };
    let is_it = |found: &&Repository| found.path.starts_with(&format!("{workspace}/"));
    let listed: Vec<Value> = state.repositories.iter().filter(is_it).filter_map(show).collect();
    if listed.is_empty() {
        return error(403, "You do not have access to this workspace.");
    }
    let fields = ["permission", "repository.name", "repository.full_name"];
    filtered(call, listed, &fields).map_or_else(|refusal| refusal, |listed| page(state, call, 100, &listed))
}

/// Answers a request about the members of a workspace. Members are the users with a permission on a repository.
fn members(state: &mut State, call: &ApiRequest, sender: &Sender, workspace: &str, below: &[&str]) -> Reply {
    let is_member = |user: &&User| {
        let mut within = state.repositories.iter().filter(|one| one.path.starts_with(&format!("{workspace}/")));
        !user.is_bot && !state.closed.contains(&user.id) && within.any(|one| one.permissions.contains_key(&user.id))
    };
    let show = |user: &User| json!({"type": "workspace_membership", "user": show_user(user)});
    match below {
        ["members", ..] if !sender.reads_accounts() => sender.lacks("account"),
        // The only filter is by the addresses of users.
        ["members"] if call.parameter("q").is_some() => error(400, "Invalid filter query"),
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
fn permissions(state: &State, call: &ApiRequest, sender: &Sender, found: &Repository) -> Reply {
    if !sender.administers(found) {
        return sender.lacks("repository:admin");
    }
    let show = |(id, permission): (&u64, &&str)| {
        let user = show_user_of(state, *id);
        let repository = short_repository(found);
        json!({"type": "repository_permission", "permission": permission, "user": user, "repository": repository})
    };
    let listed: Vec<Value> = found.permissions.iter().map(show).collect();
    let fields = ["permission", "user.uuid", "user.display_name"];
    filtered(call, listed, &fields).map_or_else(|refusal| refusal, |listed| page(state, call, 100, &listed))
}

fn short_repository(found: &Repository) -> Value {
    let name = found.path.rsplit('/').next();
    json!({"type": "repository", "full_name": found.path, "name": name, "uuid": uuid(found.id)})
}

fn no_repository(path: &str) -> Reply {
    error(404, &format!("Repository {path} not found"))
}

/// Answers a request about a repository.
fn repository(state: &mut State, call: &ApiRequest, sender: &Sender, path: &str, below: &[&str]) -> Reply {
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
        (_, ["commit", commit, below @ ..]) => commits(state, call, sender, &found, (commit, below)),
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
