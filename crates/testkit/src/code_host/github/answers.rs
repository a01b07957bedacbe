//! The forms that all answers have: errors, pages, tags and the checks of bodies.

use serde_json::{Map, Value, json};

use super::super::state::{Repository, State};
use super::super::{ApiRequest, Reply};

/// The time at which everything was created whose time nobody compares.
pub(super) const AT: &str = "2027-01-15T08:00:00Z";

/// The page of the documentation in errors.
const PAGE: &str = "https://docs.github.com/enterprise-server@3.19/rest";

/// Returns an error (schema `basic-error`; with status 422, `validation-error`).
pub(super) fn error(status: u16, message: &str) -> Reply {
    let mut body = json!({"message": message, "documentation_url": PAGE});
    if status != 422 {
        body["status"] = status.to_string().into();
    }
    Reply::json(status, &body)
}

/// Returns the refusal of a request with these faults (schema `validation-error`).
pub(super) fn invalid(errors: Value) -> Reply {
    let body = json!({"message": "Validation Failed", "errors": errors, "documentation_url": PAGE});
    Reply::json(422, &body)
}

/// Returns the refusal of a request with this fault of a field.
pub(super) fn custom(resource: &str, field: &str, message: &str) -> Reply {
    invalid(json!([{"resource": resource, "field": field, "code": "custom", "message": message}]))
}

/// Returns the refusal of a review, which lists texts (schema `validation-error-simple`).
pub(super) fn unprocessable(message: &str) -> Reply {
    let body = json!({
        "message": "Unprocessable Entity", "errors": [message], "documentation_url": PAGE,
    });
    Reply::json(422, &body)
}

/// Returns the refusal of a credential that is unknown or has expired.
pub(in crate::code_host) fn unauthorized() -> Reply {
    error(401, "Bad credentials")
}

/// Returns a refusal because of a secondary rate limit, which may name the seconds to wait. Page "Rate limits for the
/// REST API", section "Exceeding the rate limit": the status is 403 or 429.
pub(in crate::code_host) fn throttled(seconds: Option<u64>) -> Reply {
    let text = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
    match seconds {
        Some(seconds) => error(429, text).header("retry-after", seconds.to_string()),
        None => error(403, text),
    }
}

/// Returns a refusal because of the primary rate limit, which is reset at a time in seconds since 1970. The same section
/// says that the status is 403 or 429 and `x-ratelimit-remaining` is 0; there is no `retry-after`.
pub(in crate::code_host) fn exhausted(reset: u64) -> Reply {
    let reply = error(403, "API rate limit exceeded for user ID 7001.");
    let headers = [("limit", "5000"), ("remaining", "0"), ("used", "5000"), ("resource", "core")];
    let reply = headers.iter().fold(reply, |reply, (name, value)| reply.header(&format!("x-ratelimit-{name}"), *value));
    reply.header("x-ratelimit-reset", reset.to_string())
}

/// What the value of a parameter in a body must be.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Boolean,
    List,
    Choice(&'static [&'static str]),
}

/// Returns the refusal of a body that lacks required parameters, or has values of other types than the description
/// says. The texts are those of GitHub's check of bodies against JSON schemas.
pub(super) fn refused_body(call: &ApiRequest, required: &[&str], kinds: &[(&str, Kind)]) -> Option<Reply> {
    let wrong = |what: String| error(422, &format!("Invalid request.\n\n{what}"));
    let Some(body) = call.body.as_object() else {
        return Some(wrong("For 'links/0/schema', nil is not an object.".to_owned()));
    };
    if let Some(name) = required.iter().find(|name| !body.contains_key(**name)) {
        return Some(wrong(format!("\"{name}\" wasn't supplied.")));
    }
    for (name, kind) in kinds {
        let Some(value) = body.get(*name) else { continue };
        if value.is_null() && !required.contains(name) {
            continue;
        }
        let (is_it, wanted) = match kind {
            Kind::Text => (value.is_string(), "a string".to_owned()),
            Kind::Boolean => (value.is_boolean(), "a boolean".to_owned()),
            Kind::List => (value.is_array(), "an array".to_owned()),
            Kind::Choice(all) => (value.as_str().is_some_and(|one| all.contains(&one)), format!("a member of {all:?}")),
        };
        if !is_it {
            return Some(wrong(format!("For 'properties/{name}', {value} is not {wanted}.")));
        }
    }
    None
}

/// Returns a text of a body, empty if it is missing.
pub(super) fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap_or_default()
}

/// Returns `null` for an empty text.
pub(super) fn filled(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Answers with a page of a list. Page "Using pagination in the REST API": 30 items are on a page unless the request
/// asks for others, at most 100, and the header `Link` names the other pages.
pub(super) fn page(state: &State, call: &ApiRequest, below: &str, items: Vec<Value>) -> Reply {
    paged(state, call, below, items, Value::Array)
}

/// Answers with a page of a list in an object, which also has the number of all items.
pub(super) fn counted(state: &State, call: &ApiRequest, below: &str, name: &str, items: Vec<Value>) -> Reply {
    let count = items.len();
    paged(state, call, below, items, |items| {
        let mut shown = Map::new();
        shown.insert("total_count".to_owned(), count.into());
        shown.insert(name.to_owned(), items.into());
        Value::Object(shown)
    })
}

/// Answers with a page of a list that `wrap` puts into the body.
pub(super) fn paged(
    state: &State,
    call: &ApiRequest,
    below: &str,
    items: Vec<Value>,
    wrap: impl FnOnce(Vec<Value>) -> Value,
) -> Reply {
    let number = |name: &str| call.parameter(name).and_then(|text| text.parse::<usize>().ok()).filter(|one| *one > 0);
    let (size, at) = (number("per_page").unwrap_or(30).min(100), number("page").unwrap_or(1));
    let last = items.len().div_ceil(size).max(1);
    let shown = items.into_iter().skip((at - 1) * size).take(size).collect();
    let reply = Reply::json(200, &wrap(shown));
    let kept: Vec<String> = call
        .query
        .iter()
        .filter(|(name, _)| name != "page")
        .map(|(name, value)| url::form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish())
        .collect();
    let link = |(page, relation): (usize, &str)| {
        let query: Vec<String> = kept.iter().cloned().chain([format!("page={page}")]).collect();
        format!("<{}/api/v3/{below}?{}>; rel=\"{relation}\"", named(state), query.join("&"))
    };
    let before = [(at - 1, "prev")].into_iter().filter(|_| at > 1);
    let after = [(at + 1, "next"), (last, "last")].into_iter().filter(|_| at < last);
    let first = [(1, "first")].into_iter().filter(|_| at > 1);
    let links: Vec<String> = before.chain(after).chain(first).map(link).collect();
    if links.is_empty() { reply } else { reply.header("link", links.join(", ")) }
}

/// Returns the path of something in a repository, as in the header `Link`: it names the repository by its ID.
pub(super) fn below(found: &Repository, rest: &str) -> String {
    format!("repositories/{}/{rest}", found.id)
}

/// Returns the URL by which the stand-in names itself.
pub(super) fn named(state: &State) -> &str {
    if state.named.is_empty() { &state.url } else { &state.named }
}

/// Adds the tag of an answer to a GET request, or answers that nothing has changed since the tag in the request. Page
/// "Best practices for using the REST API", section "Use conditional requests".
pub(super) fn tagged(call: &ApiRequest, reply: Reply) -> Reply {
    if call.method != http::Method::GET || reply.status != 200 {
        return reply;
    }
    let tag = format!("W/\"{:016x}\"", hash(&reply.body));
    let known = call.headers.get("if-none-match").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known = known.split(',').any(|one| one.trim().trim_start_matches("W/") == &tag[2..]);
    let reply = if is_known { Reply { status: 304, headers: Vec::new(), body: bytes::Bytes::new() } } else { reply };
    reply.header("etag", tag).header("cache-control", "private, max-age=60, s-maxage=60")
}

/// Returns a number that differs between texts (FNV-1a).
fn hash(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the times at which something was created and changed, as GitHub writes them.
pub(super) fn times(state: &State, key: &str) -> (String, String) {
    let (created, updated) = state.times.exact(key);
    (created.replace(".000", ""), updated.replace(".000", ""))
}

/// Returns whether something with this time of its last change is in the answer to a request with the parameter
/// `since`: things that were changed at that time or later (GraphQL, `IssueFilters.since`).
pub(super) fn is_since(call: &ApiRequest, item: &Value) -> bool {
    call.parameter("since").is_none_or(|since| {
        let parse = |text: &str| text.parse::<journeyman_core::time::Timestamp>().ok();
        parse(item["updated_at"].as_str().unwrap_or_default()) >= parse(since)
    })
}

/// Sorts a list of comments. The direction is ignored without the parameter `sort` (operations
/// `issues/list-comments-for-repo` and `pulls/list-review-comments`).
pub(super) fn sorted_comments(call: &ApiRequest, mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by_key(|item| item["id"].as_u64());
    let Some(sort) = call.parameter("sort") else { return items };
    let key = if sort == "updated" { "updated_at" } else { "created_at" };
    items.sort_by_key(|item| item[key].as_str().map(str::to_owned));
    if call.parameter("direction") != Some("asc") {
        items.reverse();
    }
    items
}
