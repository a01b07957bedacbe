//! The server of the Agent2Agent protocol (A2A 1.0) at `/a2a`, with which other agents send messages to jobs and follow
//! them (<https://a2a-protocol.org/latest/specification/>). Its binding is JSON-RPC.
//!
//! A context of the protocol is a job, and a task is a message of it; both have the same IDs. Nothing else is stored, so
//! any machine answers each request.

mod artifacts;
mod card;
mod error;
mod send;
mod stream;
mod tasks;
mod wire;

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::error::{Failure, Kind, RpcError};
use crate::app::App;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::{Authenticated, json_bytes};

/// The path of the interface.
const PATH: &str = "/a2a";

/// The version of the protocol.
const VERSION: &str = "1.0";

/// The name of the header, and of the query parameter, with the version that a client uses.
const VERSION_NAME: &str = "a2a-version";

/// Returns the route `/a2a`. The layer around it must add the [`Caller`] to each request.
pub(crate) fn routes() -> Router<App> {
    Router::new().route(PATH, post(answer))
}

/// Returns the route of the agent card, which needs no key.
pub(crate) fn card_routes() -> Router<App> {
    Router::new().route("/.well-known/agent-card.json", get(card::public))
}

/// A call of a method.
struct RpcCall {
    app: App,
    caller: Caller,
    /// The ID of the request, which its answer repeats.
    id: Value,
}

/// The method of a request, and its parameters.
struct Rpc {
    method: String,
    params: Value,
}

async fn answer(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    request: Request,
) -> Result<Response, ApiError> {
    let version = version(&request);
    let bytes = json_bytes(request, &app).await?;
    let (id, read) = match serde_json::from_slice(&bytes) {
        Ok(body) => rpc(body),
        Err(error) => (Value::Null, Err(RpcError::not_json(&error))),
    };
    let call = RpcCall { app, caller, id };
    let done = match (read, check_version(&version)) {
        (Ok(Rpc { method, params }), Ok(())) => run(&call, &method, params).await,
        (Err(error), _) => Err(Failure::Refused(error)),
        (_, Err(failure)) => Err(failure),
    };
    match done {
        Ok(response) => Ok(response),
        Err(Failure::Refused(error)) => Ok(error.into_response(&call.id)),
        Err(Failure::Http(error)) => Err(error),
    }
}

/// Returns the version that a request names in a header, or else in its query; an empty text if it names none.
fn version(request: &Request) -> String {
    let header = request.headers().get(VERSION_NAME).and_then(|value| value.to_str().ok());
    let query = || {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name.eq_ignore_ascii_case(VERSION_NAME)).map(|(_, value)| value.into_owned())
    };
    header.map(str::to_owned).or_else(query).unwrap_or_default().trim().to_owned()
}

/// Checks the version that a client uses. A third number, the patch version, does not matter.
fn check_version(version: &str) -> Result<(), Failure> {
    if version == VERSION || version.strip_prefix(VERSION).is_some_and(|patch| patch.starts_with('.')) {
        return Ok(());
    }
    // The specification takes a request without the header for one of version 0.3.
    let asked: String = if version.is_empty() { "0.3".to_owned() } else { version.chars().take(20).collect() };
    let text = format!("version {asked} of A2A is not supported; send the header \"A2A-Version: {VERSION}\"");
    Err(Failure::of(Kind::VersionNotSupported, text))
}

/// Returns the ID of a request, `null` if it has none, and its method.
fn rpc(body: Value) -> (Value, Result<Rpc, RpcError>) {
    let Value::Object(mut fields) = body else {
        return (Value::Null, Err(RpcError::invalid_request("the body must be one request, as a JSON object")));
    };
    let id = fields.remove("id").unwrap_or_default();
    if !id.is_string() && !id.is_number() {
        return (Value::Null, Err(RpcError::invalid_request("id: must be a string or a number")));
    }
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return (id, Err(RpcError::invalid_request("jsonrpc: must be \"2.0\"")));
    }
    let Some(Value::String(method)) = fields.remove("method") else {
        return (id, Err(RpcError::invalid_request("method: must be a string")));
    };
    let params = match fields.remove("params") {
        None | Some(Value::Null) => Ok(json!({})),
        Some(params @ Value::Object(_)) => Ok(params),
        Some(_) => Err(RpcError::invalid("params", "must be an object")),
    };
    (id, params.map(|params| Rpc { method, params }))
}

async fn run(call: &RpcCall, method: &str, params: Value) -> Result<Response, Failure> {
    match method {
        "SendMessage" => call.result(&send::send(call, params).await?),
        "SendStreamingMessage" => stream::send(call, params).await,
        "GetTask" => call.result(&tasks::get(call, read(params)?).await?),
        "ListTasks" => call.result(&tasks::list(call, read(params)?).await?),
        "CancelTask" => call.result(&tasks::cancel(call, read(params)?).await?),
        "SubscribeToTask" => stream::subscribe(call, read(params)?).await,
        "GetExtendedAgentCard" => call.result(&card::extended(call).await?),
        "CreateTaskPushNotificationConfig"
        | "GetTaskPushNotificationConfig"
        | "ListTaskPushNotificationConfigs"
        | "DeleteTaskPushNotificationConfig" => Err(Failure::no_push()),
        _ => Err(Failure::Refused(RpcError::method_not_found(method))),
    }
}

impl RpcCall {
    /// Returns the answer with a result.
    fn result(&self, result: &impl Serialize) -> Result<Response, Failure> {
        Ok(Json(self.envelope(result)?).into_response())
    }

    fn envelope(&self, result: &impl Serialize) -> Result<Value, Failure> {
        let result = serde_json::to_value(result).map_err(|error| ApiError::internal(&error))?;
        Ok(json!({ "jsonrpc": "2.0", "id": self.id, "result": result }))
    }
}

/// Reads the parameters of a method. Unknown fields are ignored.
fn read<T: DeserializeOwned>(params: Value) -> Result<T, Failure> {
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "params" } else { &path };
        Failure::invalid(field, error.inner().to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_the_interface_is_accepted() {
        for version in ["1.0", "1.0.0", "1.0.7"] {
            assert!(check_version(version).is_ok(), "{version}");
        }
        for version in ["", "0.3", "1", "1.1", "1.00", "2.0", "x"] {
            assert!(check_version(version).is_err(), "{version}");
        }
    }

    #[test]
    fn a_request_is_an_object_with_an_id_a_method_and_an_object_of_parameters() {
        let code = |body: Value| {
            let (id, read) = rpc(body);
            read.err().map(|error| (id, error.code()))
        };
        assert_eq!(code(json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask" })), None);
        assert_eq!(code(json!({ "jsonrpc": "2.0", "id": "x", "method": "GetTask", "params": {} })), None);
        for (body, expected) in [
            (json!([]), (json!(null), -32600)),
            (json!({ "jsonrpc": "2.0", "method": "GetTask" }), (json!(null), -32600)),
            (json!({ "jsonrpc": "2.0", "id": {}, "method": "GetTask" }), (json!(null), -32600)),
            (json!({ "jsonrpc": "1.0", "id": 1, "method": "GetTask" }), (json!(1), -32600)),
            (json!({ "jsonrpc": "2.0", "id": 1, "method": 7 }), (json!(1), -32600)),
            (json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": [] }), (json!(1), -32602)),
        ] {
            assert_eq!(code(body.clone()), Some(expected), "{body}");
        }
    }
}
