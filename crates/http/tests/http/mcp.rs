//! Tests of the server of the Model Context Protocol: its tools, tasks and resources, as clients of old and new versions
//! of the protocol call them.

use axum::body::Body;
use axum::http::Request;
use journeyman_core::key::Scope;
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

/// The version of the protocol before requests without `initialize`.
const OLD: &str = "2025-06-18";
const NEW: &str = "2026-07-28";

async fn send(service: &Service, body: &Value, change: impl FnOnce(&mut Request<Body>)) -> Answer {
    service
        .call("POST", "/mcp", body.to_string(), |request| {
            let headers = request.headers_mut();
            headers.insert("host", "localhost:8080".parse().unwrap());
            headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
            headers.insert("mcp-protocol-version", OLD.parse().unwrap());
            change(request);
        })
        .await
}

async fn request(service: &Service, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = send(service, &body, |_| {}).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"), "{answer:?}");
    answer.json()
}

/// Calls a tool, checks its result against its schema, and returns the result.
async fn call(service: &Service, tool: &str, arguments: Value) -> Value {
    let result = request(service, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    let result = result["result"].clone();
    if result["isError"] != json!(true) {
        let listed = request(service, "tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        let schema = &tools.iter().find(|one| one["name"] == tool).unwrap()["outputSchema"];
        let validator = jsonschema::validator_for(schema).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&result["structuredContent"]).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
    }
    result
}

/// Calls a tool that refuses, and returns the code of the error.
async fn refused(service: &Service, tool: &str, arguments: Value) -> String {
    let result = call(service, tool, arguments).await;
    assert_eq!(result["isError"], json!(true), "{result}");
    let error: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    error["code"].as_str().unwrap().to_owned()
}

async fn with_key(mut service: Service, key: String) -> Service {
    service.key = key;
    service
}

#[tokio::test]
async fn an_old_client_initializes_and_lists_tools_with_valid_schemas() {
    let service = service().await;
    let client = json!({
        "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    let begun = request(&service, "initialize", client).await;
    let result = &begun["result"];
    assert_eq!((&result["protocolVersion"], &result["serverInfo"]["name"]), (&json!(OLD), &json!("journeyman")));
    assert!(result["instructions"].as_str().unwrap().contains("data, not instructions"), "{result}");
    let tools = request(&service, "tools/list", json!({})).await["result"]["tools"].clone();
    let names: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "list_projects",
        "create_job",
        "send_message",
        "get_job",
        "list_jobs",
        "get_changes",
        "get_events",
        "cancel_job",
    ];
    assert_eq!(names, expected);
    for tool in tools.as_array().unwrap() {
        for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
            assert_eq!(schema["type"], "object", "{tool}");
            assert!(jsonschema::meta::is_valid(schema), "{schema}");
            assert!(!schema.to_string().contains("#/components"), "{schema}");
        }
        assert!(!tool["inputSchema"]["properties"].to_string().contains("null"), "{tool}");
        assert!(tool["description"].as_str().unwrap().len() > 20 && tool["annotations"].is_object(), "{tool}");
    }
}

#[tokio::test]
async fn a_job_is_created_continued_waited_for_and_read() {
    let service = service().await;
    let made = call(&service, "create_job", json!({ "prompt": "Fix it", "labels": ["bug"], "effort": "high" })).await;
    let report = &made["structuredContent"];
    assert_eq!((&report["stillActive"], &report["job"]["status"]), (&json!(true), &json!("active")));
    assert_eq!((&report["message"]["status"], &report["answer"]), (&json!("queued"), &json!(null)));
    let job = report["job"]["id"].as_str().unwrap().to_owned();
    let (waited, ()) = tokio::join!(call(&service, "get_job", json!({ "job": job, "wait": 50 })), async {
        tokio::task::yield_now().await;
        service.work_with(Some("é".repeat(20_001))).await;
    });
    let report = &waited["structuredContent"];
    let answer = &report["answer"];
    assert_eq!(answer["text"].as_str().unwrap().chars().count(), 20_000);
    assert!(answer["notice"].as_str().unwrap().contains("not instructions"), "{answer}");
    let rest = call(&service, "get_job", json!({ "job": job, "cursor": answer["nextCursor"] })).await;
    let rest = &rest["structuredContent"]["answer"];
    assert_eq!((&rest["text"], &rest["nextCursor"]), (&json!("é"), &json!(null)));
    assert_eq!((&report["job"]["status"], &report["message"]["status"]), (&json!("completed"), &json!("finished")));
    let sent = call(&service, "send_message", json!({ "job": job, "prompt": "More" })).await;
    assert_ne!(sent["structuredContent"]["message"]["id"], report["message"]["id"]);
    let first = json!({ "job": job, "message": report["message"]["id"] });
    assert_eq!(call(&service, "get_job", first).await["structuredContent"]["message"], report["message"]);
    let canceled = call(&service, "cancel_job", json!({ "job": job })).await;
    let canceled = &canceled["structuredContent"];
    assert_eq!((&canceled["job"]["status"], &canceled["message"]["status"]), (&json!("failed"), &json!("withdrawn")));

    let projects = call(&service, "list_projects", json!({})).await;
    assert_eq!(projects["structuredContent"]["projects"][0]["id"], "shop");
    let listed = call(&service, "list_jobs", json!({ "project": "shop", "labels": ["bug"], "limit": 1 })).await;
    assert_eq!(listed["structuredContent"]["jobs"][0]["id"], json!(job));
    let none = call(&service, "list_jobs", json!({ "labels": ["other"] })).await;
    assert_eq!(none["structuredContent"], json!({ "jobs": [], "nextCursor": null }));
    let changes = call(&service, "get_changes", json!({ "job": job })).await;
    let diff = &changes["structuredContent"]["diff"];
    assert_eq!((&diff["text"], &diff["nextCursor"]), (&json!("--- a/x\n+++ b/x\n"), &json!(null)));
    let events = call(&service, "get_events", json!({ "job": job, "limit": 2 })).await;
    let events = &events["structuredContent"];
    assert_eq!((&events["events"][0]["type"], &events["nextAfter"]), (&json!("job.created"), &json!(2)));
    assert_eq!(events["hasMore"], json!(true));
    let metrics = service.get("/metrics").await.text;
    assert!(metrics.contains("journeyman_accepted_total{kind=\"create\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_repeated_call_with_the_same_key_has_no_second_effect() {
    let service = service().await;
    let create = || call(&service, "create_job", json!({ "prompt": "x", "project": "shop", "idempotencyKey": "k" }));
    let (first, again) = (create().await, create().await);
    assert_eq!(first["structuredContent"]["message"], again["structuredContent"]["message"]);
    assert_eq!(first["structuredContent"]["job"], again["structuredContent"]["job"]);
    let order = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let one = order(r#"{"prompt":"m","project":"shop","metadata":{"a":"1","b":"2"},"idempotencyKey":"o"}"#);
    let two = order(r#"{"idempotencyKey":"o","metadata":{"b":"2","a":"1"},"project":"shop","prompt":"m"}"#);
    let (one, two) = (call(&service, "create_job", one).await, call(&service, "create_job", two).await);
    assert_eq!(one["structuredContent"]["job"]["id"], two["structuredContent"]["job"]["id"], "in another order");
    let other = json!({ "prompt": "y", "project": "shop", "idempotencyKey": "k" });
    assert_eq!(refused(&service, "create_job", other).await, "idempotency_key_reused");
    let long = json!({ "prompt": "x", "project": "shop", "idempotencyKey": "k".repeat(256) });
    assert_eq!(refused(&service, "create_job", long).await, "invalid_argument");
}

#[tokio::test]
async fn wrong_calls_are_refused_with_a_reason_that_the_model_can_read() {
    let service = service().await;
    let job = service.job("x").await.rsplit('/').next().unwrap().to_owned();
    for (tool, arguments, code) in [
        ("create_job", json!({}), "invalid_argument"),
        ("create_job", json!({ "prompt": 7 }), "invalid_argument"),
        ("create_job", json!({ "prompt": "", "project": "shop" }), "invalid_prompt"),
        ("create_job", json!({ "prompt": "x", "project": "none" }), "project_not_found"),
        ("create_job", json!({ "prompt": "x", "project": "NOT AN ID" }), "project_not_found"),
        ("send_message", json!({ "job": "job_0", "prompt": "x" }), "job_not_found"),
        ("get_job", json!({ "job": job, "wait": 51 }), "invalid_argument"),
        ("get_job", json!({ "job": job, "message": "msg_0" }), "message_not_found"),
        ("get_job", json!({ "job": job, "cursor": "nonsense" }), "invalid_argument"),
        ("get_changes", json!({ "job": job, "cursor": "99:5" }), "invalid_argument"),
        ("get_events", json!({ "job": job, "limit": 0 }), "invalid_argument"),
        ("list_jobs", json!({ "project": "none" }), "project_not_found"),
        ("list_jobs", json!({ "limit": 101 }), "invalid_query"),
        ("list_jobs", json!({ "cursor": "x" }), "invalid_query"),
        ("list_jobs", json!({ "q": "\0" }), "invalid_argument"),
    ] {
        assert_eq!(refused(&service, tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
    let unknown = request(&service, "tools/call", json!({ "name": "delete_all", "arguments": {} })).await;
    assert_eq!(unknown["error"]["code"], json!(-32602), "{unknown}");
}

#[tokio::test]
async fn a_key_can_do_with_tools_what_it_may_do() {
    let service = service().await;
    let job = service.job("x").await.rsplit('/').next().unwrap().to_owned();
    service.post("/v2/projects", r#"{"id":"other","repository":"local:other"}"#).await;
    assert_eq!(refused(&service, "create_job", json!({ "prompt": "x" })).await, "invalid_argument", "two projects");
    let reader = service.make_key(|new| new.scopes = vec![Scope::Read]).await;
    let elsewhere = service
        .make_key(|new| {
            new.scopes = vec![Scope::Jobs];
            new.projects = Some(vec!["other".parse().unwrap()]);
        })
        .await;
    let service = with_key(service, reader).await;
    assert_eq!(call(&service, "get_job", json!({ "job": job })).await["isError"], json!(false));
    for (tool, arguments) in [
        ("create_job", json!({ "prompt": "x", "project": "shop" })),
        ("send_message", json!({ "prompt": "x", "job": job })),
        ("cancel_job", json!({ "job": job })),
    ] {
        assert_eq!(refused(&service, tool, arguments).await, "scope_missing", "{tool}");
    }
    let service = with_key(service, elsewhere).await;
    for tool in ["get_job", "cancel_job", "get_changes", "get_events"] {
        assert_eq!(refused(&service, tool, json!({ "job": job })).await, "job_not_found", "{tool}");
    }
    assert_eq!(refused(&service, "create_job", json!({ "prompt": "x", "project": "shop" })).await, "project_not_found");
    assert_eq!(call(&service, "list_jobs", json!({})).await["structuredContent"]["jobs"], json!([]));
    let projects = call(&service, "list_projects", json!({})).await;
    assert_eq!(projects["structuredContent"]["projects"].as_array().unwrap().len(), 1);
    assert_eq!(
        call(&service, "create_job", json!({ "prompt": "x" })).await["isError"],
        json!(false),
        "the only project"
    );
}

#[tokio::test]
async fn requests_without_a_key_or_for_another_server_are_refused() {
    let service = service().await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let anonymous = send(&service, &list, |request| drop(request.headers_mut().remove("authorization"))).await;
    assert_eq!((anonymous.status.as_u16(), anonymous.header("www-authenticate")), (401, "Bearer realm=\"Journeyman\""));
    let host = |host: &'static str| {
        let list = list.clone();
        let service = &service;
        async move {
            send(service, &list, |request| drop(request.headers_mut().insert("host", host.parse().unwrap()))).await
        }
    };
    assert_eq!(host("attacker.example").await.status.as_u16(), 403);
    assert_eq!(host("127.0.0.1:9").await.status.as_u16(), 200);
    let foreign = |request: &mut Request<Body>| {
        drop(request.headers_mut().insert("origin", "https://attacker.example".parse().unwrap()));
    };
    assert_eq!(send(&service, &list, foreign).await.code(), "foreign_origin");
    let large = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "x": "x".repeat(2 << 20) } });
    assert_eq!(send(&service, &large, |_| {}).await.code(), "body_too_large");
    let local = |request: &mut Request<Body>| {
        let headers = request.headers_mut();
        headers.insert("host", "localhost".parse().unwrap());
        headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
    };
    assert_eq!(service.call("POST", "/mcp", "{", local).await.code(), "invalid_json");
    let plain = |request: &mut Request<Body>| {
        local(request);
        drop(request.headers_mut().insert("content-type", "text/plain".parse().unwrap()));
    };
    assert_eq!(service.call("POST", "/mcp", list.to_string(), plain).await.code(), "content_type_not_json");
    let read = |request: &mut Request<Body>| drop(request.headers_mut().insert("host", "localhost".parse().unwrap()));
    assert_eq!(service.call("GET", "/mcp", "", read).await.status.as_u16(), 405, "there are no sessions");
}

/// Sends a request of a client that supports tasks.
async fn modern(service: &Service, method: &str, name: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = send(service, &body, |request| {
        let headers = request.headers_mut();
        headers.insert("mcp-protocol-version", NEW.parse().unwrap());
        headers.insert("mcp-method", method.parse().unwrap());
        headers.insert("mcp-name", name.parse().unwrap());
    });
    answer.await.json()
}

#[tokio::test]
async fn a_client_that_supports_tasks_gets_the_message_as_a_task() {
    let service = service().await;
    let create = |arguments: Value| {
        let params = json!({ "name": "create_job", "arguments": arguments });
        modern(&service, "tools/call", "create_job", params)
    };
    let made = create(json!({ "prompt": "x", "idempotencyKey": "k" })).await;
    let task = made["result"].clone();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{made}");
    assert_eq!((&task["statusMessage"], &task["ttlMs"]), (&json!("queued"), &json!(null)));
    let again = create(json!({ "prompt": "x", "idempotencyKey": "k" })).await;
    assert_eq!(again["result"]["taskId"], task["taskId"], "the same task");
    let id = task["taskId"].as_str().unwrap().to_owned();
    let get = async |id: &str| modern(&service, "tasks/get", id, json!({ "taskId": id })).await;
    assert_eq!(get(&id).await["result"]["status"], "working");
    service.work().await;
    let ended = get(&id).await;
    assert_eq!((&ended["result"]["status"], &ended["result"]["resultType"]), (&json!("completed"), &json!("complete")));
    let result = &ended["result"]["result"];
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["job"]["status"]),
        (&json!(false), &json!("completed"))
    );
    assert_eq!(result["structuredContent"]["message"]["id"], json!(id));

    let second = create(json!({ "prompt": "y" })).await["result"]["taskId"].as_str().unwrap().to_owned();
    let canceled = modern(&service, "tasks/cancel", &second, json!({ "taskId": second })).await;
    assert_eq!(canceled["result"]["resultType"], "complete", "{canceled}");
    assert_eq!(get(&second).await["result"]["status"], "cancelled");
    for unknown in ["msg_0", "nonsense"] {
        assert_eq!(get(unknown).await["error"]["code"], json!(-32602), "{unknown}");
    }
    // A run is not stopped for one message if others wait behind it.
    let third = create(json!({ "prompt": "a" })).await["result"]["taskId"].as_str().unwrap().to_owned();
    service.claim().await.unwrap();
    let job = service.get("/v2/agent/shop/jobs?limit=1").await.json()["jobs"][0]["id"].as_str().unwrap().to_owned();
    let behind = json!({ "name": "send_message", "arguments": { "job": job, "prompt": "b" } });
    let behind = modern(&service, "tools/call", "send_message", behind).await;
    let fourth = behind["result"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(behind["result"]["statusMessage"], "queued, 1 message before it");
    modern(&service, "tasks/cancel", &third, json!({ "taskId": third })).await;
    assert_eq!(get(&third).await["result"]["status"], "working");
    modern(&service, "tasks/cancel", &fourth, json!({ "taskId": fourth })).await;
    assert_eq!(get(&fourth).await["result"]["status"], "cancelled");
    modern(&service, "tasks/cancel", &third, json!({ "taskId": third })).await;
    assert_eq!(get(&third).await["result"]["status"], "cancelled");
    let plain = create(json!({ "prompt": "z", "background": true })).await;
    assert_eq!(plain["result"]["resultType"], "complete");
    assert_eq!(plain["result"]["structuredContent"]["stillActive"], json!(true));
    let elsewhere = service.make_key(|new| new.projects = Some(vec!["other".parse().unwrap()])).await;
    let service = with_key(service, elsewhere).await;
    let hidden = modern(&service, "tasks/get", &id, json!({ "taskId": id })).await;
    assert_eq!(hidden["error"]["code"], json!(-32602), "of a project that the key does not see");
}

#[tokio::test]
async fn a_failed_message_is_a_completed_task_whose_result_is_an_error() {
    let service = service().await;
    let params = json!({ "name": "create_job", "arguments": { "prompt": "x" } });
    let made = modern(&service, "tools/call", "create_job", params).await;
    let id = made["result"]["taskId"].as_str().unwrap().to_owned();
    let (job, token) = service.claim().await.unwrap();
    let reason = journeyman_core::run::Reason::new(journeyman_core::run::ReasonCode::Internal, "it broke");
    let outcome = journeyman_core::job::command::Outcome::Failed { reason, retry: None };
    let usage = journeyman_core::run::Usage::default();
    let finished = journeyman_core::job::command::Report::Finished { outcome, usage };
    service.engine.report(job, token, finished).await.unwrap();
    let ended = modern(&service, "tasks/get", &id, json!({ "taskId": id })).await;
    assert_eq!(ended["result"]["status"], "completed", "{ended}");
    let result = &ended["result"]["result"];
    assert_eq!(result["isError"], json!(true));
    assert_eq!(result["structuredContent"]["details"]["failure"]["text"], "it broke");
}

#[tokio::test]
async fn a_new_client_discovers_the_server_without_initializing() {
    let service = service().await;
    let found = modern(&service, "server/discover", "", json!({})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap_or_else(|| unreachable!("{found}")).clone();
    assert!(versions.contains(&json!(NEW)), "{found}");
    let extensions = &found["result"]["capabilities"]["extensions"];
    assert!(extensions["io.modelcontextprotocol/tasks"].is_object(), "{found}");
}

#[tokio::test]
async fn the_transcript_of_a_job_is_a_resource() {
    let service = service().await;
    let job = service.job("Fix the tax").await.rsplit('/').next().unwrap().to_owned();
    service.work().await;
    let templates = request(&service, "resources/templates/list", json!({})).await;
    let template = &templates["result"]["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(template, "journeyman://job/{id}/transcript{?after}");
    assert_eq!(request(&service, "resources/list", json!({})).await["result"]["resources"], json!([]));
    let uri = format!("journeyman://job/{job}/transcript");
    let read = request(&service, "resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("[Written by an agent")
            && text.contains("Fix the tax")
            && text.contains("[The run ended: succeeded]"),
        "{text}"
    );
    let rest = request(&service, "resources/read", json!({ "uri": format!("{uri}?after=3") })).await;
    assert!(!rest["result"]["contents"][0]["text"].as_str().unwrap().contains("Fix the tax"));
    for wrong in ["journeyman://job/job_0/transcript", "journeyman://x", &format!("{uri}?after=x")] {
        let missing = request(&service, "resources/read", json!({ "uri": wrong })).await;
        assert_eq!(missing["error"]["code"], json!(-32002), "{wrong}: {missing}");
        assert_eq!(missing["error"]["data"], json!({ "uri": wrong }), "{wrong}: {missing}");
    }
}
