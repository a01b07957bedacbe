//! Tests of the server of the Agent2Agent protocol: the agent card, messages, tasks, streams and errors.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use http_body_util::BodyExt;
use journeyman_core::key::Scope;
use journeyman_testkit::{until_async, within};
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

async fn post(service: &Service, body: impl Into<Body>, change: impl FnOnce(&mut Request<Body>)) -> Answer {
    service
        .call("POST", "/a2a", body, |request| {
            request.headers_mut().insert("a2a-version", HeaderValue::from_static("1.0"));
            change(request);
        })
        .await
}

fn body(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": "r1", "method": method, "params": params }).to_string()
}

async fn call(service: &Service, method: &str, params: Value) -> Value {
    let answer = post(service, body(method, &params), |_| {}).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"), "{answer:?}");
    let answer = answer.json();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("r1")), "{answer}");
    answer
}

/// Calls a method that succeeds, and returns its result.
async fn result(service: &Service, method: &str, params: Value) -> Value {
    let answer = call(service, method, params).await;
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

/// Calls a method that is refused, and returns the code and the reason, or the name of the field, of the error.
async fn refused(service: &Service, method: &str, params: Value) -> (i64, String) {
    let answer = call(service, method, params).await;
    let error = &answer["error"];
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    let detail = &error["data"][0];
    let field = detail["fieldViolations"][0]["field"].as_str();
    let reason = field.or(detail["reason"].as_str()).unwrap_or_default().to_owned();
    assert!(reason.is_empty() || detail["@type"].as_str().unwrap().starts_with("type.googleapis.com/google.rpc."));
    (error["code"].as_i64().unwrap(), reason)
}

fn message(id: &str, text: &str) -> Value {
    json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] })
}

/// Returns the parameters of a message whose answer does not wait.
fn soon(message: Value) -> Value {
    json!({ "message": message, "configuration": { "returnImmediately": true } })
}

fn with(mut value: Value, name: &str, field: Value) -> Value {
    value[name] = field;
    value
}

async fn new_task(service: &Service, id: &str) -> Value {
    result(service, "SendMessage", soon(message(id, "Fix it"))).await["task"].clone()
}

async fn with_key(mut service: Service, key: String) -> Service {
    service.key = key;
    service
}

/// Reads the events of a stream until it ends.
async fn events(response: axum::response::Response) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let collected = within("the stream ends", response.into_body().collect()).await;
    let text = String::from_utf8(collected.unwrap().to_bytes().to_vec()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|line| serde_json::from_str::<Value>(line).unwrap()["result"].clone()).collect()
}

async fn open(service: &Service, method: &str, params: &Value) -> axum::response::Response {
    let version = |request: &mut Request<Body>| {
        request.headers_mut().insert("a2a-version", HeaderValue::from_static("1.0"));
    };
    service.begin("POST", "/a2a", body(method, params), version).await
}

#[tokio::test]
async fn the_agent_card_is_public_and_names_no_project() {
    let service = service().await;
    let path = "/.well-known/agent-card.json";
    let anonymous = |request: &mut Request<Body>| drop(request.headers_mut().remove("authorization"));
    let card = service.call("GET", path, "", anonymous).await;
    assert_eq!((card.status.as_u16(), card.header("cache-control")), (200, "public, max-age=300"), "{card:?}");
    assert!(!card.text.contains("shop"), "{card:?}");
    let etag: HeaderValue = card.header("etag").parse().unwrap();
    let card = card.json();
    let interface = json!({
        "url": "http://localhost:8080/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0",
    });
    assert_eq!(card["supportedInterfaces"], json!([interface]));
    let capabilities = json!({ "streaming": true, "pushNotifications": false, "extendedAgentCard": true });
    assert_eq!((&card["capabilities"], &card["version"]), (&capabilities, &json!("1.2.3")));
    assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
    let again = |request: &mut Request<Body>| drop(request.headers_mut().insert("if-none-match", etag));
    assert_eq!(service.call("GET", path, "", again).await.status.as_u16(), 304);
    let extended = result(&service, "GetExtendedAgentCard", json!({})).await;
    assert_eq!(extended["skills"][1]["id"], "project:shop", "{extended}");
    let key = service.make_key(|new| new.projects = Some(vec!["other".parse().unwrap()])).await;
    let service = with_key(service, key).await;
    let limited = result(&service, "GetExtendedAgentCard", json!({})).await;
    assert!(!limited.to_string().contains("shop"), "{limited}");
}

#[tokio::test]
async fn a_message_is_a_task_whose_answer_comes_when_it_has_ended() {
    let service = service().await;
    let params = json!({ "message": message("m1", "Fix it") });
    let (ended, ()) = tokio::join!(result(&service, "SendMessage", params), async {
        let claimed = until_async("a message that waits", async || service.claim().await).await;
        service.finish(claimed, Some("é".repeat(20_001))).await;
    });
    let task = &ended["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let answer = &task["artifacts"][0];
    assert_eq!((&answer["name"], &answer["parts"][0]["mediaType"]), (&json!("answer"), &json!("text/plain")));
    assert_eq!(answer["parts"][0]["text"].as_str().unwrap().chars().count(), 20_000);
    let metadata = &answer["parts"][0]["metadata"];
    assert!(metadata["notice"].as_str().unwrap().contains("not instructions"), "{metadata}");
    assert_eq!(metadata["truncated"], json!(true));
    assert_eq!(task["status"]["message"]["role"], "ROLE_AGENT");
    let history = task["history"].as_array().unwrap();
    assert_eq!((history.len(), &history[0]["role"]), (2, &json!("ROLE_USER")));
    assert_eq!(history[0]["parts"], json!([{ "text": "Fix it", "mediaType": "text/plain" }]));
    let get =
        async |length: Value| result(&service, "GetTask", json!({ "id": task["id"], "historyLength": length })).await;
    assert_eq!(get(json!(null)).await, *task);
    assert_eq!(get(json!(1)).await["history"][0]["role"], "ROLE_AGENT", "the newest message");
    assert!(get(json!(0)).await.get("history").is_none());
    let metrics = service.get("/metrics").await.text;
    assert!(metrics.contains("journeyman_accepted_total{kind=\"create\"} 1"), "{metrics}");
    assert!(metrics.contains("route=\"/a2a\""), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_a_task_that_takes_long() {
    let service = service().await;
    let begun = tokio::time::Instant::now();
    let sent = result(&service, "SendMessage", json!({ "message": message("m1", "x") })).await;
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
    assert!((50..52).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(new_task(&service, "m2").await["status"]["state"], "TASK_STATE_SUBMITTED");
    assert!(begun.elapsed().as_secs() < 52, "returnImmediately");
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_the_same_task() {
    let service = service().await;
    let first = new_task(&service, "m1").await;
    let again = new_task(&service, "m1").await;
    assert_eq!((&first["id"], &first["contextId"]), (&again["id"], &again["contextId"]));
    let other = refused(&service, "SendMessage", soon(message("m1", "Another text"))).await;
    assert_eq!(other, (-32602, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    let follow_up = || soon(with(message("m2", "More"), "contextId", first["contextId"].clone()));
    let one = result(&service, "SendMessage", follow_up()).await;
    let two = result(&service, "SendMessage", follow_up()).await;
    assert_eq!(one["task"]["id"], two["task"]["id"]);
    assert_eq!(one["task"]["status"]["message"]["parts"][0]["text"], "queued, 1 task before it");
    let all = result(&service, "ListTasks", json!({})).await;
    assert_eq!(all["totalSize"], json!(2), "{all}");
}

#[tokio::test]
async fn a_follow_up_has_the_context_and_a_task_of_its_own() {
    let service = service().await;
    let first = new_task(&service, "m1").await;
    service.work().await;
    let context = first["contextId"].clone();
    let second = soon(with(message("m2", "More"), "contextId", context.clone()));
    let second = result(&service, "SendMessage", second).await["task"].clone();
    assert_eq!(second["contextId"], context);
    assert_ne!(second["id"], first["id"]);
    for (field, code, reason) in [
        (json!({ "taskId": first["id"] }), -32004, "UNSUPPORTED_OPERATION"),
        (json!({ "taskId": second["id"] }), -32004, "UNSUPPORTED_OPERATION"),
        (json!({ "taskId": "msg_0" }), -32001, "TASK_NOT_FOUND"),
        (json!({ "taskId": first["id"], "contextId": "job_0" }), -32602, "message.contextId"),
        (json!({ "contextId": "job_0" }), -32602, "message.contextId"),
        (json!({ "contextId": context, "metadata": { "branch": "x" } }), -32602, "message.metadata.branch"),
        (json!({ "contextId": context, "metadata": { "project": "other" } }), -32602, "tenant"),
        (json!({ "contextId": context, "metadata": { "delivery": "now" } }), -32602, "message.metadata.delivery"),
        (json!({ "contextId": context, "metadata": { "delivery": "reject" } }), -32004, "UNSUPPORTED_OPERATION"),
    ] {
        let mut wrong = message("m3", "x");
        wrong.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
        assert_eq!(refused(&service, "SendMessage", soon(wrong)).await, (code, reason.to_owned()), "{field}");
    }
}

#[tokio::test]
async fn the_options_of_a_job_are_in_the_metadata_of_its_first_message() {
    let service = service().await;
    let options = json!({
        "ref": "dev", "branch": "fix-it", "title": "A title", "labels": ["bug"], "https://example.com/ext": 1,
    });
    let made = soon(with(message("m1", "x"), "metadata", options));
    let task = result(&service, "SendMessage", with(made, "tenant", json!("shop"))).await["task"].clone();
    assert_eq!((&task["metadata"]["project"], &task["metadata"]["title"]), (&json!("shop"), &json!("A title")));
    let details = format!("/v2/agent/shop/job/{}/details", task["contextId"].as_str().unwrap());
    let details = service.get(&details).await.json();
    assert_eq!((&details["branch"], &details["labels"]), (&json!("fix-it"), &json!(["bug"])), "{details}");
    for (metadata, reason) in [
        (json!({ "labels": "bug" }), "message.metadata.labels"),
        (json!({ "project": 7 }), "message.metadata.project"),
        (json!({ "project": "none" }), "tenant"),
        (json!({ "agent": "none" }), "UNKNOWN_AGENT"),
    ] {
        let wrong = soon(with(message("m2", "x"), "metadata", metadata.clone()));
        assert_eq!(refused(&service, "SendMessage", wrong).await, (-32602, reason.to_owned()), "{metadata}");
    }
    service.post("/v2/projects", r#"{"id":"other","repository":"local:other"}"#).await;
    let unclear = call(&service, "SendMessage", soon(message("m3", "x"))).await;
    assert!(unclear["error"]["message"].as_str().unwrap().contains("other, shop"), "{unclear}");
}

#[tokio::test]
async fn a_stream_begins_with_the_task_and_ends_with_its_final_state() {
    let service = service().await;
    let stream = open(&service, "SendStreamingMessage", &json!({ "message": message("m1", "x") })).await;
    let listed = result(&service, "ListTasks", json!({})).await;
    let id = listed["tasks"][0]["id"].clone();
    let other = open(&service, "SubscribeToTask", &json!({ "id": id })).await;
    service.work_with(Some("done".to_owned())).await;
    let seen = events(stream).await;
    assert_eq!(seen[0]["task"]["status"]["state"], "TASK_STATE_SUBMITTED", "{seen:?}");
    assert_eq!(seen[1]["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING");
    let artifact = seen.iter().find(|event| event["artifactUpdate"].is_object()).unwrap();
    assert_eq!(artifact["artifactUpdate"]["artifact"]["parts"][0]["text"], "done");
    let last = &seen.last().unwrap()["statusUpdate"];
    assert_eq!((&last["taskId"], &last["status"]["state"]), (&id, &json!("TASK_STATE_COMPLETED")));
    assert_eq!(events(other).await, seen, "all streams have the same events");
    let ended = refused(&service, "SubscribeToTask", json!({ "id": id })).await;
    assert_eq!(ended, (-32004, "UNSUPPORTED_OPERATION".to_owned()));
    let again = open(&service, "SendStreamingMessage", &json!({ "message": message("m1", "x") })).await;
    let again = events(again).await;
    assert_eq!((again.len(), &again[0]["task"]["status"]["state"]), (1, &json!("TASK_STATE_COMPLETED")));
}

#[tokio::test]
async fn a_stream_ends_when_the_server_stops() {
    let service = service().await;
    let stream = open(&service, "SendStreamingMessage", &json!({ "message": message("m1", "x") })).await;
    service.shutdown.cancel();
    assert_eq!(events(stream).await.len(), 1, "only the task");
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_task_ends_when_its_key_is_revoked() {
    let service = service().await;
    let other = service.post("/v2/keys", r#"{"name":"other","scopes":["jobs"]}"#).await.json();
    let value: HeaderValue = format!("Bearer {}", other["secret"].as_str().unwrap()).parse().unwrap();
    let change = |request: &mut Request<Body>| {
        request.headers_mut().insert("a2a-version", HeaderValue::from_static("1.0"));
        request.headers_mut().insert("authorization", value);
    };
    let sent = body("SendStreamingMessage", &json!({ "message": message("m1", "x") }));
    let stream = service.begin("POST", "/a2a", sent, change).await;
    service.call("DELETE", &format!("/v2/keys/{}", other["id"].as_str().unwrap()), "", |_| {}).await;
    let begun = tokio::time::Instant::now();
    events(stream).await;
    assert!(begun.elapsed() <= Duration::from_secs(16), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_task_is_canceled_unless_it_has_ended_or_others_wait_behind_it() {
    let service = service().await;
    let first = new_task(&service, "m1").await;
    let canceled = result(&service, "CancelTask", json!({ "id": first["id"] })).await;
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    let refusal = (-32002, "TASK_NOT_CANCELABLE".to_owned());
    assert_eq!(refused(&service, "CancelTask", json!({ "id": first["id"] })).await, refusal);
    let second = new_task(&service, "m2").await;
    service.claim().await.unwrap();
    let behind = soon(with(message("m3", "More"), "contextId", second["contextId"].clone()));
    let third = result(&service, "SendMessage", behind).await["task"].clone();
    assert_eq!(refused(&service, "CancelTask", json!({ "id": second["id"] })).await, refusal);
    for task in [&third, &second] {
        let canceled = result(&service, "CancelTask", json!({ "id": task["id"] })).await;
        assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    }
    let listed = result(&service, "ListTasks", json!({ "status": "TASK_STATE_CANCELED" })).await;
    assert_eq!(listed["totalSize"], json!(3));
}

#[tokio::test]
async fn a_failed_task_says_why() {
    let service = service().await;
    let task = new_task(&service, "m1").await;
    let (job, token) = service.claim().await.unwrap();
    let working = result(&service, "GetTask", json!({ "id": task["id"] })).await;
    assert_eq!(working["status"]["state"], "TASK_STATE_WORKING");
    let reason = journeyman_core::run::Reason::new(journeyman_core::run::ReasonCode::Internal, "it broke");
    let outcome = journeyman_core::job::command::Outcome::Failed { reason, retry: None };
    let usage = journeyman_core::run::Usage::default();
    let finished = journeyman_core::job::command::Report::Finished { outcome, usage };
    service.engine.report(job, token, finished).await.unwrap();
    let failed = result(&service, "GetTask", json!({ "id": task["id"] })).await;
    assert_eq!(failed["status"]["state"], "TASK_STATE_FAILED", "{failed}");
    assert_eq!(failed["status"]["message"]["parts"][0]["text"], "it broke");
}

#[tokio::test]
async fn tasks_are_listed_by_their_last_change_in_pages() {
    let service = service().await;
    let first = new_task(&service, "m1").await;
    service.world.advance(Duration::from_secs(1));
    let second = new_task(&service, "m2").await;
    service.world.advance(Duration::from_secs(1));
    let list = async |params: Value| result(&service, "ListTasks", params).await;
    let page = list(json!({ "pageSize": 1 })).await;
    assert_eq!((&page["tasks"][0]["id"], &page["pageSize"]), (&second["id"], &json!(1)));
    assert_eq!(page["totalSize"], json!(2));
    assert!(page["tasks"][0].get("artifacts").is_none() && page["tasks"][0].get("history").is_none(), "{page}");
    let rest = list(json!({ "pageSize": 1, "pageToken": page["nextPageToken"] })).await;
    assert_eq!((&rest["tasks"][0]["id"], &rest["nextPageToken"]), (&first["id"], &json!("")));
    let since = json!({ "statusTimestampAfter": second["status"]["timestamp"] });
    assert_eq!(list(since).await["totalSize"], json!(1));
    service.work_with(Some("done".to_owned())).await;
    let context = json!({ "contextId": first["contextId"], "includeArtifacts": true, "historyLength": 1 });
    let own = list(context).await;
    assert_eq!((&own["tasks"][0]["id"], &own["totalSize"]), (&first["id"], &json!(1)));
    assert_eq!(own["tasks"][0]["artifacts"][0]["parts"][0]["text"], "done");
    assert_eq!(own["tasks"][0]["history"].as_array().unwrap().len(), 1);
    for (params, expected) in [
        (json!({ "status": "TASK_STATE_COMPLETED" }), 2),
        (json!({ "status": "TASK_STATE_SUBMITTED" }), 0),
        (json!({ "status": "TASK_STATE_INPUT_REQUIRED" }), 0),
        (json!({ "contextId": "job_0" }), 0),
        (json!({ "tenant": "shop", "status": "TASK_STATE_UNSPECIFIED" }), 2),
    ] {
        assert_eq!(list(params.clone()).await["totalSize"], json!(expected), "{params}");
    }
    for (params, field) in [
        (json!({ "pageSize": 0 }), "pageSize"),
        (json!({ "pageSize": 101 }), "pageSize"),
        (json!({ "pageToken": "x" }), "pageToken"),
        (json!({ "status": "working" }), "status"),
        (json!({ "statusTimestampAfter": "now" }), "statusTimestampAfter"),
        (json!({ "historyLength": -1 }), "historyLength"),
        (json!({ "tenant": "none" }), "tenant"),
    ] {
        assert_eq!(refused(&service, "ListTasks", params).await, (-32602, field.to_owned()));
    }
}

#[tokio::test]
async fn what_is_not_supported_is_refused_with_the_error_of_the_protocol() {
    let service = service().await;
    let send = |part: Value| soon(json!({ "messageId": "m", "role": "ROLE_USER", "parts": [part] }));
    let configured = |configuration: Value| json!({ "message": message("m", "x"), "configuration": configuration });
    for (method, params, expected) in [
        ("GetTask", json!({ "id": "msg_0" }), (-32001, "TASK_NOT_FOUND")),
        ("GetTask", json!({ "id": "nonsense" }), (-32001, "TASK_NOT_FOUND")),
        ("GetTask", json!({}), (-32602, "params")),
        ("CancelTask", json!({ "id": "msg_0" }), (-32001, "TASK_NOT_FOUND")),
        ("SubscribeToTask", json!({ "id": "msg_0" }), (-32001, "TASK_NOT_FOUND")),
        ("CreateTaskPushNotificationConfig", json!({}), (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")),
        ("ListTaskPushNotificationConfigs", json!({}), (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED")),
        ("message/send", json!({}), (-32601, "")),
        ("DeleteEverything", json!({}), (-32601, "")),
        ("SendMessage", send(json!({ "data": { "a": 1 } })), (-32005, "CONTENT_TYPE_NOT_SUPPORTED")),
        (
            "SendMessage",
            send(json!({ "raw": "eA==", "mediaType": "image/png" })),
            (-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
        ),
        ("SendMessage", send(json!({})), (-32602, "message.parts[0]")),
        ("SendMessage", send(json!({ "text": "" })), (-32602, "INVALID_PROMPT")),
        ("SendMessage", send(json!({ "text": "x".repeat(100_001) })), (-32602, "PROMPT_TOO_LONG")),
        ("SendMessage", soon(with(message("m", "x"), "role", json!("ROLE_AGENT"))), (-32602, "message.role")),
        ("SendMessage", soon(message("", "x")), (-32602, "message.messageId")),
        ("SendMessage", soon(with(message("m", "x"), "parts", json!([]))), (-32602, "message.parts")),
        (
            "SendMessage",
            configured(json!({ "acceptedOutputModes": ["image/png"] })),
            (-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
        ),
        (
            "SendMessage",
            configured(json!({ "taskPushNotificationConfig": { "url": "https://example.com" } })),
            (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ),
    ] {
        let (code, reason) = expected;
        assert_eq!(refused(&service, method, params).await, (code, reason.to_owned()), "{method} {reason}");
    }
    assert_eq!(result(&service, "ListTasks", json!({})).await["totalSize"], json!(0), "nothing was stored");
}

#[tokio::test]
async fn a_request_names_the_version_of_the_protocol() {
    let service = service().await;
    let list = body("ListTasks", &json!({}));
    let code = async |path: &str, version: Option<&'static str>| {
        let set = |request: &mut Request<Body>| {
            if let Some(version) = version {
                request.headers_mut().insert("a2a-version", HeaderValue::from_static(version));
            }
        };
        service.call("POST", path, list.clone(), set).await.json()["error"]["code"].clone()
    };
    assert_eq!(code("/a2a", None).await, json!(-32009), "without the header, it is 0.3");
    assert_eq!(code("/a2a", Some("0.3")).await, json!(-32009));
    assert_eq!(code("/a2a", Some("1.0")).await, json!(null));
    assert_eq!(code("/a2a?A2A-Version=1.0", None).await, json!(null));
}

#[tokio::test]
async fn requests_that_are_not_allowed_get_a_status_of_http() {
    let service = service().await;
    let task = new_task(&service, "m1").await;
    let list = body("ListTasks", &json!({}));
    let anonymous = post(&service, list.clone(), |request| drop(request.headers_mut().remove("authorization"))).await;
    assert_eq!((anonymous.status.as_u16(), anonymous.header("www-authenticate")), (401, "Bearer realm=\"Journeyman\""));
    let foreign = |request: &mut Request<Body>| {
        drop(request.headers_mut().insert("origin", "https://attacker.example".parse().unwrap()));
    };
    assert_eq!(post(&service, list.clone(), foreign).await.code(), "foreign_origin");
    assert_eq!(post(&service, "x".repeat(2 << 20), |_| {}).await.code(), "body_too_large");
    let plain = |request: &mut Request<Body>| {
        drop(request.headers_mut().insert("content-type", "text/plain".parse().unwrap()));
    };
    assert_eq!(post(&service, list.clone(), plain).await.code(), "content_type_not_json");
    assert_eq!(post(&service, "{", |_| {}).await.json()["error"]["code"], json!(-32700));
    assert_eq!(post(&service, "[]", |_| {}).await.json()["error"]["code"], json!(-32600));
    assert_eq!(service.get("/a2a").await.code(), "method_not_allowed");

    let reader = service.make_key(|new| new.scopes = vec![Scope::Read]).await;
    let elsewhere = service.make_key(|new| new.projects = Some(vec!["other".parse().unwrap()])).await;
    let service = with_key(service, reader).await;
    assert_eq!(result(&service, "GetTask", json!({ "id": task["id"] })).await["id"], task["id"]);
    for (method, params) in [("SendMessage", soon(message("m2", "x"))), ("CancelTask", json!({ "id": task["id"] }))] {
        let answer = post(&service, body(method, &params), |_| {}).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (403, "scope_missing".to_owned()), "{method}");
    }
    let service = with_key(service, elsewhere).await;
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        let hidden = refused(&service, method, json!({ "id": task["id"] })).await;
        assert_eq!(hidden, (-32001, "TASK_NOT_FOUND".to_owned()), "{method}");
    }
    let follow_up = soon(with(message("m3", "x"), "contextId", task["contextId"].clone()));
    let hidden = refused(&service, "SendMessage", follow_up).await;
    assert_eq!(hidden, (-32602, "message.contextId".to_owned()));
    assert_eq!(result(&service, "ListTasks", json!({})).await["totalSize"], json!(0));
    let of_context = json!({ "contextId": task["contextId"] });
    assert_eq!(result(&service, "ListTasks", of_context).await["totalSize"], json!(0));
}
