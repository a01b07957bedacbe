//! Build statuses of commits.

use serde_json::{Value, json};

use super::answers::{error, invalid, page};
use super::request::{Request, level, text};
use crate::code_host::state::{Repository, State, Status, Token, User};
use crate::code_host::{ApiRequest, Reply};

/// The time of all builds, in milliseconds since 1970.
const BUILT: u64 = 1_767_225_600_000;

/// Lists the builds of a commit in all repositories, newest first, with those that belong to none. Every user with a
/// license may read and write here. The list has the 100 most recent ones (GET /build-status/latest/commits/{commitId}).
pub(super) fn builds(state: &State, call: &ApiRequest, user: &User, token: &Token, sha: &str) -> Reply {
    let of_none = state.instance_builds.iter().filter(|status| status.sha == sha).map(show_build);
    let visible = state.repositories.iter().filter(|repository| level(repository, user, token) > 0);
    let listed = of_none.chain(visible.flat_map(|repository| builds_of(repository, sha)));
    let mut listed: Vec<Value> = listed.take(100).collect();
    match call.parameter("orderBy") {
        None | Some("NEWEST") => {}
        Some("OLDEST") => listed.reverse(),
        Some("STATUS") => listed.sort_by_key(|build| build["state"].to_string()),
        Some(_) => return invalid("orderBy", "The order is invalid."),
    }
    page(call, &listed)
}

fn show_build(status: &Status) -> Value {
    json!({
        "key": status.context,
        "name": status.context,
        "state": status.state,
        "url": status.url,
        "description": status.description,
        "createdDate": BUILT,
        "updatedDate": BUILT,
    })
}

/// Returns the builds of a commit in a repository, newest first.
fn builds_of(repository: &Repository, sha: &str) -> Vec<Value> {
    let statuses = repository.statuses.iter().rev().filter(|status| status.sha == sha).map(show_build);
    let checks = repository.checks.iter().filter(|check| check.sha == sha).map(|check| {
        let state = match check.passed {
            None => "INPROGRESS",
            Some(true) => "SUCCESSFUL",
            Some(false) => "FAILED",
        };
        let url = format!("https://ci.example/{}", check.id);
        json!({
            "key": format!("CI-{}", check.id),
            "name": check.name,
            "state": state,
            "url": url,
            "createdDate": BUILT,
            "updatedDate": BUILT,
        })
    });
    statuses.chain(checks).collect()
}

/// Returns a build of a repository by its key. The name of the exception is unconfirmed.
pub(super) fn build(repository: &Repository, call: &ApiRequest, sha: &str) -> Reply {
    let Some(key) = call.parameter("key").filter(|key| !key.is_empty()) else {
        return invalid("key", "The key is missing.");
    };
    match builds_of(repository, sha).iter().find(|build| build["key"] == *key) {
        Some(build) => Reply::json(200, build),
        None => error(404, "build.status.NoSuchBuildStatusException", &format!("There is no build {key}.")),
    }
}

/// Sets the status of a commit, which replaces that with the same key. The limits are those of `RestBuildStatusSetRequest`.
pub(super) fn set_build(state: &mut State, request: &Request<'_>, sha: &str) -> Reply {
    let call = request.call;
    let field = |name: &str| text(call, name);
    if sha.len() != 40 || !sha.chars().all(|c| c.is_ascii_hexdigit()) {
        return invalid("commitId", "The commit must be a full hash.");
    }
    // The limit of the description is that of the older operation, POST /build-status/latest/commits/{commitId}.
    let limits = [
        ("key", 255),
        ("url", 450),
        ("name", 255),
        ("description", 255),
        ("buildNumber", 255),
        ("parent", 1024),
        ("ref", 1024),
    ];
    for (name, limit) in limits {
        let is_valid = |value: &Value| value.as_str().is_some_and(|text| text.chars().count() <= limit);
        let is_given = !call.body[name].is_null();
        if is_given && !is_valid(&call.body[name]) {
            return invalid(name, &format!("The value must be a text of at most {limit} characters."));
        }
    }
    for name in ["key", "state", "url"] {
        if field(name).trim().is_empty() {
            return invalid(name, "The value is required.");
        }
    }
    if !["SUCCESSFUL", "FAILED", "INPROGRESS", "CANCELLED", "UNKNOWN"].contains(&field("state").as_str()) {
        return invalid("state", "The state is invalid.");
    }
    if !field("ref").is_empty() && !field("ref").starts_with("refs/") {
        return invalid("ref", "The reference must begin with refs/.");
    }
    // Whether other addresses are refused is unconfirmed.
    if !field("url").starts_with("http") {
        return invalid("url", "The URL must be absolute.");
    }
    let status = Status {
        sha: sha.to_owned(),
        context: field("key"),
        state: field("state"),
        url: field("url"),
        description: field("description"),
        pipeline: 0,
    };
    let statuses = &mut state.by_id(request.repository.id).unwrap().statuses;
    statuses.retain(|known| known.sha != status.sha || known.context != status.context);
    statuses.push(status);
    Reply::text(204, "")
}
