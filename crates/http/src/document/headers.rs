//! The headers of answers.

use serde_json::{Value, json};

/// The operations that are counted against a limit, and that an idempotency key makes safe to repeat.
const ACCEPTING: [&str; 2] = ["createJob", "sendMessage"];

/// The operations that create something with an address of its own.
const CREATING: [&str; 2] = ["createJob", "createProject"];

/// The operations whose answers have a tag.
const TAGGED: [&str; 1] = ["getJob"];

/// The headers by name, as components.
pub(super) fn components() -> Value {
    let text = |description: &str, example: &str| json!({ "description": description, "schema": { "type": "string" }, "example": example });
    json!({
        "X-Request-Id": text(
            "The id under which the server's log knows the request; the client's own if it sent one",
            "req_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
        ),
        "Retry-After": {
            "description": "Seconds after which to try again",
            "schema": { "type": "integer", "minimum": 0 },
            "example": 2,
        },
        "RateLimit-Policy": text(
            "The limit and its window in seconds (draft-ietf-httpapi-ratelimit-headers-10)",
            "\"message\";q=100;w=3600",
        ),
        "RateLimit": text("What is left of the limit, and for how many seconds", "\"message\";r=99;t=3600"),
        "Idempotent-Replayed": text(
            "`true` if this is the answer of an earlier request with the same idempotency key, and nothing was stored",
            "true",
        ),
        "Location": text("The address of what was created", "/v2/projects/shop"),
        "ETag": text("Changes whenever a field does", "\"33a64df551425fcc55e4d42a\""),
    })
}

/// Adds the headers of a response.
pub(super) fn add(operation: &str, status: &str, response: &mut Value) {
    let is_done = status.starts_with('2');
    let mut names = vec!["X-Request-Id"];
    if matches!(status, "429" | "503" | "504") {
        names.push("Retry-After");
    }
    if status == "429" || (is_done && ACCEPTING.contains(&operation)) {
        names.extend(["RateLimit-Policy", "RateLimit"]);
    }
    if is_done && ACCEPTING.contains(&operation) {
        names.push("Idempotent-Replayed");
    }
    if status == "201" && CREATING.contains(&operation) {
        names.push("Location");
    }
    if TAGGED.contains(&operation) && (is_done || status == "304") {
        names.push("ETag");
    }
    let reference = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    response["headers"] = names.into_iter().map(|name| (name.to_owned(), reference(name))).collect();
}
