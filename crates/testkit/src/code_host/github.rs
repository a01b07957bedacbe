//! The interface of GitHub Enterprise Server. It follows GitHub's OpenAPI description (`ghes-3.19`), the schema of its
//! GraphQL interface, and the pages of docs.github.com. The names of operations are those of the description.

mod access;
mod answers;
mod apps;
mod checks;
mod graph;
mod issues;
mod merging;
mod pulls;
mod reactions;
mod records;
mod repository;
mod reviews;
mod statuses;
mod users;

use http::Method;
use serde_json::Value;

use self::answers::error;
use self::records::Subject;
use super::state::{Repository, State, Token, User};
use super::{ApiRequest, Reply};

pub(super) use self::answers::{exhausted, throttled, unauthorized};
pub use self::records::Records;

/// The version of the interface (page "API versions").
const VERSION: &str = "2022-11-28";

/// Answers a request.
pub(super) fn answer(state: &mut State, call: &ApiRequest) -> Reply {
    let [api, v3, rest @ ..] = call.segments.as_slice() else { return error(404, "Not Found") };
    if api != "api" || (v3 != "v3" && v3 != "graphql") {
        return error(404, "Not Found");
    }
    if !call.headers.contains_key("user-agent") {
        // Page "Getting started with the REST API", section "User agent".
        return error(403, "Request forbidden by administrative rules.");
    }
    if v3 == "graphql" {
        let is_it = call.method == Method::POST && rest.is_empty();
        return if is_it { graph::graphql(state, call) } else { error(404, "Not Found") };
    }
    if let Some(version) = call.headers.get("x-github-api-version").and_then(|value| value.to_str().ok())
        && version != VERSION
    {
        return error(400, &format!("\"{version}\" is not a supported version."));
    }
    let parts: Vec<&str> = rest.iter().map(String::as_str).collect();
    let reply = rest_answer(state, call, &parts);
    answers::tagged(call, reply)
}

fn rest_answer(state: &mut State, call: &ApiRequest, parts: &[&str]) -> Reply {
    match (&call.method, parts) {
        (&Method::POST, ["app-manifests", code, "conversions"]) => return apps::created(state, code),
        (_, ["app", ..] | ["repos", _, _, "installation"]) => return apps::answer(state, call, parts),
        _ => {}
    }
    let (user, token) = match access::signed_in(state, call) {
        Ok(known) => known,
        // Without a credential, private repositories look as if they did not exist.
        Err(reply) if access::token(call).is_none() && parts.first() != Some(&"user") => {
            return if reply.status == 401 { error(404, "Not Found") } else { reply };
        }
        Err(reply) => return reply,
    };
    let reply = signed_in(state, call, &user, &token, parts);
    match token.expires_at {
        // Page "Token expiration and revocation".
        Some(at) => reply.header("github-authentication-token-expiration", at),
        None => reply,
    }
}

/// Answers a request with a valid token.
fn signed_in(state: &mut State, call: &ApiRequest, user: &User, token: &Token, parts: &[&str]) -> Reply {
    match (&call.method, parts) {
        (&Method::GET, ["user"]) if token.installation.is_some() => {
            error(403, "Resource not accessible by integration")
        }
        (&Method::GET, ["user"]) => Reply::json(200, &users::public_user(state, user)),
        (&Method::GET, ["users", name]) => users::by_name(state, name),
        (_, ["repositories", id, below @ ..]) => {
            let found = id.parse().ok().and_then(|id| state.by_id(id)).map(|found| found.clone());
            below_repository(state, call, user, token, found, below)
        }
        (_, ["repos", owner, name, below @ ..]) => {
            let path = format!("{owner}/{name}");
            if let Some(reply) = repository::moved(state, call, &path, below) {
                return reply;
            }
            let found = state.by_path(&path).map(|found| found.clone());
            below_repository(state, call, user, token, found, below)
        }
        _ => error(404, "Not Found"),
    }
}

/// Answers a request about a repository.
fn below_repository(
    state: &mut State,
    call: &ApiRequest,
    user: &User,
    token: &Token,
    found: Option<Repository>,
    below: &[&str],
) -> Reply {
    let Some(found) = found.filter(|found| access::may_read(found, user, token)) else {
        return error(404, "Not Found");
    };
    if let Some(reply) = access::refusal(call, below, &found, user, token) {
        return reply;
    }
    match (&call.method, below) {
        (&Method::GET, []) => repository::show(state, &found, user, token),
        (&Method::POST, ["pulls", "comments", comment, "reactions"]) => {
            let subject = Subject::Line(comment.parse().unwrap_or_default());
            reactions::answer(state, call, user, &found, subject)
        }
        (_, ["pulls", parts @ ..]) => pulls::answer(state, call, user, &found, parts),
        (_, ["issues", parts @ ..]) => issues::answer(state, call, user, &found, parts),
        (&Method::GET, ["collaborators", name, "permission"]) => users::permission(state, &found, name),
        (&Method::GET, ["commits", reference, "check-runs"]) => checks::list(state, call, &found, reference),
        (&Method::GET, ["commits", reference, "status"]) => statuses::combined(state, call, &found, reference),
        (&Method::GET, ["check-runs", id, parts @ ..]) => checks::one(state, call, &found, id, parts),
        (&Method::GET, ["actions", parts @ ..]) => checks::actions(state, call, &found, parts),
        (&Method::POST, ["statuses", sha]) => statuses::create(state, call, user, &found, sha),
        _ => error(404, "Not Found"),
    }
}

/// Answers that something was created, with its address in the header `Location`.
fn located(status: u16, shown: &Value) -> Reply {
    Reply::json(status, shown).header("location", answers::text(shown, "url"))
}
