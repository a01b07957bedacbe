//! The headers of responses.

use serde_json::{Value, json};

/// The operations that have a rate limit.
const LIMITED: [&str; 2] = ["createJob", "sendMessage"];

/// The operations that accept an idempotency key.
const IDEMPOTENT: [&str; 17] = [
    "createJob",
    "sendMessage",
    "retryJob",
    "cancelJob",
    "archiveJob",
    "unarchiveJob",
    "createProject",
    "createKey",
    "rotateKey",
    "createUser",
    "createUserLink",
    "createCodeHost",
    "createWebhook",
    "rotateWebhook",
    "createTemplate",
    "createTrust",
    "createSlackWorkspace",
];

/// The operations that create a resource with its own URL, at the path in `Location`.
const CREATING: [&str; 10] = [
    "createJob",
    "sendMessage",
    "createProject",
    "createKey",
    "createUser",
    "createCodeHost",
    "createWebhook",
    "createTemplate",
    "createTrust",
    "createSlackWorkspace",
];

/// The operations that change a resource and whose responses have an `ETag` header.
const TAGGED: [&str; 17] = [
    "createProject",
    "changeProject",
    "createKey",
    "rotateKey",
    "createUser",
    "changeUser",
    "createCodeHost",
    "replaceCodeHost",
    "createWebhook",
    "changeWebhook",
    "rotateWebhook",
    "createTemplate",
    "changeTemplate",
    "createTrust",
    "changeTrust",
    "createSlackWorkspace",
    "changeSlackWorkspace",
];

/// Returns the headers by name, as components of the document.
pub(super) fn components() -> Value {
    let text = |description: &str, example: &str| json!({ "description": description, "schema": { "type": "string" }, "example": example });
    json!({
        "X-Request-Id": text(
            "The ID of the request, which is also in the server's log; the client's own ID if it sent one",
            "req_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
        ),
        "Retry-After": {
            "description": "The seconds to wait before trying again",
            "schema": { "type": "integer", "minimum": 0 },
            "example": 2,
        },
        "RateLimit-Policy": text(
            "The limit and its window in seconds (draft-ietf-httpapi-ratelimit-headers-10)",
            "\"message\";q=100;w=3600",
        ),
        "RateLimit": text("The remaining uses, and the seconds until the limit is reset", "\"message\";r=99;t=3600"),
        "Idempotent-Replayed": text(
            "`true` if this is the response to an earlier request with the same idempotency key; nothing was stored",
            "true",
        ),
        "Location": text("The path of the created resource", "/v2/projects/shop"),
        "WWW-Authenticate": text("The authentication scheme", "Bearer"),
        "Allow": text("The methods that the path supports", "GET,HEAD"),
        "Accept-Encoding": text("The content encodings that are accepted, if the encoding was refused", "gzip, zstd"),
        "ETag": text("A tag that changes if any field changes", "\"33a64df551425fcc55e4d42a\""),
    })
}

/// Adds the headers of a response. `is_tagged` is true if the operation reads something that has an entity tag.
pub(super) fn add(operation: &str, status: &str, response: &mut Value, is_tagged: bool) {
    let is_done = status.starts_with('2');
    let mut names = vec!["X-Request-Id"];
    if matches!(status, "429" | "503" | "504") {
        names.push("Retry-After");
    }
    // The limit of refused exchanges is not announced.
    if (status == "429" && operation != "exchangeToken") || (is_done && LIMITED.contains(&operation)) {
        names.extend(["RateLimit-Policy", "RateLimit"]);
    }
    if is_done && IDEMPOTENT.contains(&operation) {
        names.push("Idempotent-Replayed");
    }
    match status {
        "401" => names.push("WWW-Authenticate"),
        "405" => names.push("Allow"),
        "415" => names.push("Accept-Encoding"),
        _ => {}
    }
    if is_done && CREATING.contains(&operation) {
        names.push("Location");
    }
    if (is_tagged || TAGGED.contains(&operation)) && (is_done || status == "304") {
        names.push("ETag");
    }
    let reference = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    response["headers"] = names.into_iter().map(|name| (name.to_owned(), reference(name))).collect();
}
