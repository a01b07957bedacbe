//! The examples for curl, made of the OpenAPI document.

use serde_json::Value;

use super::spec::{Operation, Spec};
use crate::shell;

/// The IDs in the paths of examples.
const IDS: [(&str, &str); 11] = [
    ("{projectId}", "shop"),
    ("{messageId}", "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8"),
    ("{deliveryId}", "4711"),
    ("{codeHost}", "gitlab"),
    ("{number}", "7"),
    ("/users/{id}", "/users/usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac"),
    ("/keys/{id}", "/keys/key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa"),
    ("/trusts/{id}", "/trusts/trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab"),
    ("/templates/{id}", "/templates/tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab"),
    ("/workspaces/{id}", "/workspaces/slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7"),
    ("/webhooks/{id}", "/webhooks/whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab"),
];

/// Returns the request of an operation with the body of its example.
pub(super) fn request(spec: &Spec, operation: &Operation) -> String {
    let mut path = operation.path.clone();
    for (name, value) in IDS {
        path = path.replace(name, value);
    }
    path = path.replace("{id}", "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7");
    let method = match operation.method.as_str() {
        "GET" => String::new(),
        method => format!(" -X {method}"),
    };
    let is_stream = operation.path.ends_with("/stream");
    let flags = if is_stream { " -N" } else { "" };
    let mut lines = vec![format!("curl --fail-with-body{flags}{method} \"$JOURNEYMAN_URL{path}\"")];
    if operation.needs_key() {
        lines.push("-H \"Authorization: Bearer $JOURNEYMAN_KEY\"".to_owned());
    }
    if operation.id == "listEvents" {
        lines.push("-H 'Accept: application/json'".to_owned());
    }
    let is_key = |parameter: &Value| spec.resolve(parameter)["name"] == "Idempotency-Key";
    if operation.parameters().iter().any(is_key) {
        lines.push("-H \"Idempotency-Key: $(uuidgen)\"".to_owned());
    }
    if let Some(body) = operation.value.pointer("/requestBody/content/application~1json/example") {
        lines.push("-H 'Content-Type: application/json'".to_owned());
        let body = serde_json::to_string_pretty(body).unwrap_or_default();
        lines.push(format!("-d {}", shell::word(&body)));
    }
    lines.join(" \\\n  ")
}
