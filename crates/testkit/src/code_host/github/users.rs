//! Users, and what they may do.

use serde_json::{Value, json};

use super::super::Reply;
use super::super::state::{Repository, State, User};
use super::answers::{AT, error};

/// Returns the user of an ID; `null` if the account was deleted (schema `nullable-simple-user`).
pub(super) fn show_user(state: &State, id: u64) -> Value {
    match state.users.iter().find(|user| user.id == id) {
        Some(user) if !state.closed.contains(&id) => simple_user(&state.url, user),
        _ => Value::Null,
    }
}

/// Describes a user (schema `simple-user`).
pub(super) fn simple_user(url: &str, user: &User) -> Value {
    let (kind, node) = if user.is_bot { ("Bot", "BOT") } else { ("User", "U") };
    let page = match user.name.strip_suffix("[bot]") {
        Some(slug) => format!("{url}/apps/{slug}"),
        None => format!("{url}/{}", user.name),
    };
    account(url, &user.name, user.id, kind, &page, node)
}

/// Describes the owner of a repository: an organization, unless a user has the name.
pub(super) fn show_owner(state: &State, login: &str) -> Value {
    match state.users.iter().find(|user| user.name.eq_ignore_ascii_case(login)) {
        Some(user) => simple_user(&state.url, user),
        None => account(&state.url, login, 9001, "Organization", &format!("{}/{login}", state.url), "O"),
    }
}

fn account(url: &str, login: &str, id: u64, kind: &str, page: &str, node: &str) -> Value {
    let encoded = login.replace('[', "%5B").replace(']', "%5D");
    let api = format!("{url}/api/v3/users/{encoded}");
    let mut shown = json!({
        "login": login, "id": id, "node_id": format!("{node}_{id}"), "avatar_url": format!("{url}/avatars/u/{id}"),
        "gravatar_id": "", "url": api, "html_url": page, "type": kind, "site_admin": false,
    });
    for name in ["followers", "following", "gists", "starred", "subscriptions", "repos", "events", "received_events"] {
        shown[format!("{name}_url")] = format!("{api}/{name}").into();
    }
    shown["organizations_url"] = format!("{api}/orgs").into();
    shown
}

/// Answers operation `users/get-by-username`. Names are not case sensitive.
pub(super) fn by_name(state: &State, name: &str) -> Reply {
    match named(state, name) {
        Some(user) => Reply::json(200, &public_user(state, user)),
        None => error(404, "Not Found"),
    }
}

/// Describes a user with the public profile (schema `public-user`).
pub(super) fn public_user(state: &State, user: &User) -> Value {
    let mut shown = simple_user(&state.url, user);
    for name in ["name", "company", "location", "email", "hireable", "bio"] {
        shown[name] = Value::Null;
    }
    for name in ["public_repos", "public_gists", "followers", "following"] {
        shown[name] = 0.into();
    }
    shown["blog"] = "".into();
    shown["created_at"] = AT.into();
    shown["updated_at"] = AT.into();
    shown
}

fn named<'a>(state: &'a State, name: &str) -> Option<&'a User> {
    let is_it = |user: &&User| user.name.eq_ignore_ascii_case(name) && !state.closed.contains(&user.id);
    state.users.iter().find(is_it)
}

/// Returns the role of a user: `none` without one.
pub(super) fn role(found: &Repository, user: u64) -> &'static str {
    found.permissions.get(&user).copied().unwrap_or("none")
}

/// Returns whether a user may push.
pub(super) fn may_push(found: &Repository, user: u64) -> bool {
    matches!(role(found, user), "admin" | "maintain" | "write")
}

/// Returns how an author belongs to a repository (schema `author-association`).
pub(super) fn association(found: &Repository, user: u64) -> &'static str {
    if role(found, user) == "none" { "NONE" } else { "COLLABORATOR" }
}

/// Answers operation `repos/get-collaborator-permission-level`: the legacy permissions have no `maintain` and `triage`,
/// and people without access have `none`. Apps are not users.
pub(super) fn permission(state: &State, found: &Repository, name: &str) -> Reply {
    let Some(user) = named(state, name) else { return error(404, "Not Found") };
    if user.is_bot {
        return error(404, &format!("{name} is not a user"));
    }
    let role = role(found, user.id);
    let permission = match role {
        "maintain" => "write",
        "triage" => "read",
        other => other,
    };
    let mut shown = simple_user(&state.url, user);
    shown["permissions"] = permissions(role);
    shown["role_name"] = role.into();
    Reply::json(200, &json!({"permission": permission, "role_name": role, "user": shown}))
}

/// Returns what a role allows.
pub(super) fn permissions(role: &str) -> Value {
    let level = ["none", "read", "triage", "write", "maintain", "admin"].iter().position(|known| *known == role);
    let has = |least: usize| level.is_some_and(|level| level >= least);
    json!({"pull": has(1), "triage": has(2), "push": has(3), "maintain": has(4), "admin": has(5)})
}
