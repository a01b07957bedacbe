//! The interface of Bitbucket Cloud.
//!
//! Basic authentication is that of an API token: the rights are those of the user. A bearer token is an access token of
//! a workspace or, if it is for one repository, of that repository: the rights are its scopes, which are all that are
//! useful, or only those to read. The service has no redirects for renamed repositories, and no archived repositories;
//! one that the state calls archived is in read-only mode, as when a workspace exceeds the limits of its plan.
//!
//! One thing is not as in the service: an access token of a workspace may read its user at `/user`. The service answers
//! access tokens with status 403 there.

mod answers;
mod comments;
mod commits;
mod filter;
mod pulls;
mod sender;

use http::Method;
use serde_json::{Value, json};

use self::answers::{error, id_of, page, show_user, show_user_of, uuid};
use self::commits::{commits, pipelines};
use self::filter::filtered;
use self::pulls::pulls;
use self::sender::Sender;
use super::state::{Repository, State, User};
use super::{ApiRequest, Reply};

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
