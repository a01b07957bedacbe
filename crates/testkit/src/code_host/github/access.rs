//! Credentials, and what they allow.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;

use super::super::state::{Repository, State, Token, User};
use super::super::{ApiRequest, Reply};
use super::answers::{error, unauthorized};
use super::users::may_push;

/// Returns the token of a request. Page "Authenticating to the REST API": the header `Authorization` has the token after
/// `Bearer` or `token`, or as a password.
pub(super) fn token(call: &ApiRequest) -> Option<String> {
    let value = call.headers.get("authorization")?.to_str().ok()?;
    let (scheme, value) = value.split_once(' ')?;
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" | "token" => Some(value.trim().to_owned()),
        "basic" => {
            let decoded = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
            decoded.split_once(':').map(|(_, password)| password.to_owned())
        }
        _ => None,
    }
}

/// Returns the user and the token of a request, or the refusal. Tokens of an app end with its installation, and do
/// nothing while the installation is suspended (page "Suspending a GitHub App installation").
pub(super) fn signed_in(state: &State, call: &ApiRequest) -> Result<(User, Token), Reply> {
    let token = token(call).ok_or_else(|| error(401, "Requires authentication"))?;
    let (user, token) = state.signed_in(Some(&token)).ok_or_else(unauthorized)?;
    if let (Some(installation), Some(app)) = (&token.installation, &state.app) {
        let is_owner = |owner: &String| owner.eq_ignore_ascii_case(&installation.owner);
        if app.missing.iter().any(is_owner) {
            return Err(unauthorized());
        }
        if app.suspended.iter().any(is_owner) {
            return Err(error(403, "This installation has been suspended"));
        }
    }
    Ok((user, token))
}

/// Returns whether a token reads a repository. Without access, it looks as if there were none (page "Troubleshooting the
/// REST API", section "404 Not Found for an existing resource"). Repositories of the stand-in are private.
pub(super) fn may_read(found: &Repository, user: &User, token: &Token) -> bool {
    token.reaches(found) && (user.is_bot || found.permissions.contains_key(&user.id))
}

/// Returns the refusal of a request to a repository, if the token lacks a permission.
pub(super) fn refusal(
    call: &ApiRequest,
    below: &[&str],
    found: &Repository,
    user: &User,
    token: &Token,
) -> Option<Reply> {
    let is_write = call.method != Method::GET;
    if is_write && found.is_archived {
        return Some(error(403, "Repository was archived so is read-only."));
    }
    let (names, level) = (permissions_for(below), if is_write { "write" } else { "read" });
    let accepted: Vec<String> = names.iter().map(|name| format!("{name}={level}")).collect();
    let refused = |who: &str| {
        let reply = error(403, &format!("Resource not accessible by {who}"));
        Some(reply.header("x-accepted-github-permissions", accepted.join("; ")))
    };
    if let Some(installation) = &token.installation {
        let has = |name: &&str| match installation.permissions.get(*name).map(String::as_str) {
            Some("write" | "admin") => true,
            Some("read") => !is_write,
            _ => *name == "metadata" && !is_write,
        };
        return if names.iter().any(has) { None } else { refused("integration") };
    }
    if (is_write && !token.can_write) || (token.is_fine_grained && names == ["checks"]) {
        return refused("personal access token");
    }
    let needs_push = matches!(below, ["statuses", ..] | ["pulls", _, "requested_reviewers"] | ["issues", _, "labels"]);
    if is_write && needs_push && !user.is_bot && !may_push(found, user.id) {
        return Some(error(403, "Must have push access to repository"));
    }
    None
}

/// Returns the permissions of which one is needed (page "Permissions required for GitHub Apps").
fn permissions_for(below: &[&str]) -> &'static [&'static str] {
    match below {
        ["pulls", ..] => &["pull_requests"],
        ["issues", ..] => &["issues", "pull_requests"],
        ["commits", _, "check-runs"] | ["check-runs", ..] => &["checks"],
        ["commits", _, "status"] | ["statuses", ..] => &["statuses"],
        ["actions", ..] => &["actions"],
        _ => &["metadata"],
    }
}
