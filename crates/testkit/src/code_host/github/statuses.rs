//! Commit statuses, which every app and every user with write access can set, with any context.

use serde_json::{Value, json};

use super::super::state::{Repository, State, Status, User};
use super::super::{ApiRequest, Reply};
use super::answers::{AT, Kind, below, custom, error, filled, invalid, paged, refused_body, text};
use super::located;
use super::repository::{api, commit, is_commit, no_commit, show_minimal};
use super::users::show_user;

/// Returns the newest status of each context of a commit with its index among all statuses, the newest one first.
pub(super) fn latest<'a>(found: &'a Repository, sha: &str) -> Vec<(usize, &'a Status)> {
    let mut latest: Vec<(usize, &Status)> = Vec::new();
    for (at, status) in found.statuses.iter().enumerate().rev().filter(|(_, status)| status.sha == sha) {
        if !latest.iter().any(|(_, known)| known.context == status.context) {
            latest.push((at, status));
        }
    }
    latest
}

/// Answers operation `repos/get-combined-status-for-ref`: `failure` if a context has an error or a failure, `pending` if
/// there is no status or one is pending, otherwise `success`.
pub(super) fn combined(state: &State, call: &ApiRequest, found: &Repository, reference: &str) -> Reply {
    let Some(sha) = commit(found, reference) else { return error(404, "Not Found") };
    let latest = latest(found, &sha);
    let has = |wanted: &[&str]| latest.iter().any(|(_, status)| wanted.contains(&status.state.as_str()));
    let combined = match () {
        () if has(&["error", "failure"]) => "failure",
        () if latest.is_empty() || has(&["pending"]) => "pending",
        () => "success",
    };
    let listed: Vec<Value> = latest.iter().map(|(at, status)| show(state, found, *at, status)).collect();
    let url = format!("{}/commits/{sha}", api(state, found));
    let count = listed.len();
    paged(state, call, &below(found, &format!("commits/{reference}/status")), listed, |listed| {
        json!({
            "state": combined, "statuses": listed, "sha": sha, "total_count": count,
            "repository": show_minimal(state, found), "commit_url": url, "url": format!("{url}/status"),
        })
    })
}

/// Describes a status (schema `simple-commit-status`).
fn show(state: &State, found: &Repository, at: usize, status: &Status) -> Value {
    let id = found.id * 1_000_000 + at as u64 + 1;
    json!({
        "url": format!("{}/statuses/{}", api(state, found), status.sha), "avatar_url": format!("{}/avatars/1", state.url),
        "id": id, "node_id": format!("SC_{id}"), "state": status.state, "description": filled(&status.description),
        "target_url": filled(&status.url), "context": status.context, "created_at": AT, "updated_at": AT,
    })
}

/// Answers operation `repos/create-commit-status`.
pub(super) fn create(state: &mut State, call: &ApiRequest, user: &User, found: &Repository, sha: &str) -> Reply {
    const STATES: &[&str] = &["error", "failure", "pending", "success"];
    let kinds = [
        ("state", Kind::Choice(STATES)),
        ("target_url", Kind::Text),
        ("description", Kind::Text),
        ("context", Kind::Text),
    ];
    if let Some(reply) = refused_body(call, &["state"], &kinds) {
        return reply;
    }
    if !is_commit(found, sha) {
        return no_commit(sha);
    }
    let (description, url) = (text(&call.body, "description"), text(&call.body, "target_url"));
    if description.chars().count() > 140 {
        return custom("Status", "description", "description is too long (maximum is 140 characters)");
    }
    if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
        return custom("Status", "target_url", "target_url must use http(s) scheme");
    }
    let context = filled(text(&call.body, "context")).unwrap_or("default");
    if found.statuses.iter().filter(|known| known.sha == sha && known.context == context).count() >= 1000 {
        let text = "This SHA and context has reached the maximum number of statuses.";
        return invalid(json!([{"resource": "Status", "code": "custom", "message": text}]));
    }
    let status = Status {
        sha: sha.to_owned(),
        context: context.to_owned(),
        state: text(&call.body, "state").to_owned(),
        url: url.to_owned(),
        description: description.to_owned(),
        pipeline: 0,
    };
    let mut shown = show(state, found, found.statuses.len(), &status);
    shown["creator"] = show_user(state, user.id);
    state.by_id(found.id).unwrap().statuses.push(status);
    located(201, &shown)
}
