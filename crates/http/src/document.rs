//! The OpenAPI 3.1 document. The operations are collected from the handlers; this module adds the parts that all
//! operations share.
//!
//! `docs/openapi.json` is a copy of the document. `make openapi` regenerates it, and a test checks that it is current.

mod examples;
mod headers;
mod permissions;
pub(crate) mod schemas;

use std::sync::LazyLock;

use axum::body::Bytes;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::error::{ErrorBody, ErrorCode};
use crate::openapi::{IfNoneMatchHeader, error_response};
use crate::wire::feed::WebhookBody;
use crate::wire::message::Delivery;

/// The statuses that every operation can return.
const EVERYWHERE: [u16; 1] = [405];

/// The statuses that every operation with a request body can return.
const WITH_BODY: [u16; 1] = [408];

/// Returns the document for this version, as the server returns it at `/openapi.json`.
#[must_use]
pub fn document(version: &str) -> Value {
    let (described, open) = (crate::routes::api().into_openapi(), crate::routes::open().into_openapi());
    finish(described.merge_from(open), version)
}

/// The document of a server, which is built when it is first read.
pub(crate) struct Document(LazyLock<Value, Box<dyn FnOnce() -> Value + Send>>);

impl Document {
    /// Creates the document with the collected operations.
    pub(crate) fn new(collected: OpenApi, version: String) -> Self {
        Self(LazyLock::new(Box::new(move || finish(collected, &version))))
    }

    /// Returns the document.
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the text of the document.
    pub(crate) fn bytes(&self) -> Bytes {
        self.value().to_string().into()
    }
}

/// Completes the document with the parts that all operations share.
fn finish(document: OpenApi, version: &str) -> Value {
    let mut collected = json_of(&document);
    let mut schemas = take(&mut collected["components"], "schemas");
    schemas.insert(ErrorBody::name().into_owned(), json_of(&ErrorBody::schema()));
    schemas.insert(<ErrorCode as ToSchema>::name().into_owned(), schemas::error_codes());
    schemas.insert(Delivery::name().into_owned(), json_of(&Delivery::schema()));
    schemas.extend(crate::wire::event::kinds::schemas());
    schemas.insert(WebhookBody::name().into_owned(), json_of(&WebhookBody::schema()));
    schemas::adjust(&mut schemas);

    let mut paths = take(&mut collected, "paths");
    for (path, item) in &mut paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            finish_operation(operation, method == "get");
            let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
            permissions::add(&id, method, path, operation);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Journeyman",
            "version": version,
            "description": "Runs AI coding agents on git repositories: a prompt becomes a pull request, and a \
                            follow-up message extends it. Every request but the exchange of a token needs the \
                            header `Authorization: Bearer <key>`.",
            "contact": { "name": "The founders of Journeyman" },
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The server that serves this document" }],
        "security": [{ "key": [] }],
        "tags": tags(),
        "paths": paths,
        "webhooks": { "event": { "post": sent_event() } },
        "components": {
            "schemas": schemas,
            "headers": headers::components(),
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "jmn_…",
                    "description": "An API key of this service; see Keys",
                },
            },
        },
    })
}

/// Returns the description of the requests to the endpoint of a webhook.
fn sent_event() -> Value {
    let header = |name: &str, text: &str, example: &str| {
        json!({
            "name": name,
            "in": "header",
            "required": true,
            "description": text,
            "schema": { "type": "string" },
            "example": example,
        })
    };
    json!({
        "tags": ["Webhooks"],
        "operationId": "receiveEvent",
        "summary": "An event is sent to the endpoint of a webhook",
        "description": "The request is signed as Standard Webhooks says: verify it before you use it. A request can come \
                        more than once, with the same `webhook-id`.",
        "security": [],
        "parameters": [
            header("webhook-id", "The ID of the message, the same in all attempts", "evt_4711_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7"),
            header("webhook-timestamp", "The time of the attempt, in seconds since 1970", "1795338250"),
            header("webhook-signature", "The signatures, separated by spaces", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
        ],
        "requestBody": {
            "required": true,
            "content": {
                "application/json": {
                    "schema": { "$ref": "#/components/schemas/WebhookBody" },
                    "example": examples::sent_event(),
                },
            },
        },
        "responses": {
            "204": { "description": "Accepted; any status from 200 to 299 has this effect" },
            "410": { "description": "The endpoint is gone: the webhook is disabled" },
            "default": { "description": "A failure: the event is sent again later" },
        },
    })
}

fn tags() -> Value {
    let tags = [
        ("Slack", "Workspaces whose channels are connected with projects"),
        ("Webhooks", "Endpoints that receive the events of a project"),
        ("Events", "What happens to the jobs of a project, for integrations"),
        ("Jobs", "Work on one branch, carried out by an agent"),
        ("Messages", "Inputs to a job; the first is the prompt that creates the job"),
        ("Projects", "Repositories, and the settings for the agents that work on them"),
        ("Templates", "Prompts of a project that people choose when they create a job"),
        ("Pull requests", "The pull requests of a project's repository"),
        ("Keys", "The API keys of clients; managing keys and projects needs a key that is not limited to projects"),
        ("Users", "The users of the dashboard, and links with which they set their passwords"),
        ("Trusts", "Rules about which tokens of CI services and other OpenID issuers are exchanged for keys"),
        ("Code hosts", "GitHub, GitLab, and other servers of repositories, with the credentials of the service"),
        ("Inbox", "What code hosts reported, and what became of it"),
        ("System", "Information about the installation"),
    ];
    tags.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect()
}

fn finish_operation(operation: &mut Value, is_get: bool) {
    let is_tagged = is_get && operation.pointer("/responses/200/content/application~1json").is_some();
    if is_tagged {
        describe_tag(operation);
    }
    // A parameter is never null; an optional one is left out.
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        schemas::without_null(&mut parameter["schema"]);
    }
    let mut responses = take(operation, "responses");
    let body = operation.get("requestBody").map_or(&[][..], |_| &WITH_BODY);
    for status in EVERYWHERE.iter().chain(body) {
        responses.insert(status.to_string(), json_of(&error_response(*status)));
    }
    responses.sort_keys();
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    for (status, response) in &mut responses {
        headers::add(&id, status, response, is_tagged);
    }
    operation["responses"] = Value::Object(responses);
    examples::add(&id, operation);
}

/// Adds what all answers with an entity tag have: the header of the request, and the status 304.
fn describe_tag(operation: &mut Value) {
    let header = IfNoneMatchHeader::into_params(|| None);
    let parameters = operation.as_object_mut().map(|operation| operation.entry("parameters").or_insert(json!([])));
    if let Some(Value::Array(parameters)) = parameters
        && parameters.iter().all(|known| known["name"] != "If-None-Match")
    {
        parameters.extend(header.iter().map(json_of));
    }
    if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
        responses.entry("304").or_insert(json!({ "description": "Nothing has changed" }));
    }
}

/// Takes the object in a field. Returns an empty object if the field has none.
fn take(value: &mut Value, field: &str) -> Map<String, Value> {
    match value.get_mut(field).map(Value::take) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Converts a part of the document to JSON, which does not fail for these types.
fn json_of(part: &impl serde::Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
