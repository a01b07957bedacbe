//! Tests of the limits of what callers use at the same time. The clients of the tests do not read their responses.

use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::json;

use super::fixtures::{Service, service};

/// Sends a request with a key, and returns the response without reading its body.
async fn unread(service: &Service, key: &str, method: &str, path: &str, body: &str) -> Response<Body> {
    let value = format!("Bearer {key}").parse().unwrap();
    let change = |request: &mut Request<Body>| {
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, value);
        headers.insert("host", "localhost:8080".parse().unwrap());
        headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
        headers.insert("mcp-protocol-version", "2025-06-18".parse().unwrap());
        headers.insert("a2a-version", "1.0".parse().unwrap());
    };
    service.begin(method, path, body.to_owned(), change).await
}

/// Checks that responses which were not read use up the limit of a key, that another key is served meanwhile, and that a
/// response which ends makes room.
async fn check(service: &Service, each: usize, class: &str, (method, path, body): (&str, &str, &str)) {
    let (one, other) = (service.make_key(|_| {}).await, service.make_key(|_| {}).await);
    let mut held = Vec::new();
    for _ in 0..each {
        let response = unread(service, &one, method, path, body).await;
        assert_eq!(response.status().as_u16(), 200, "{path}");
        held.push(response);
    }
    let used = format!("journeyman_limit_used{{class=\"{class}\"}} {}\n", held.len());
    let metrics = service.get("/metrics").await.text;
    assert!(class == "memory_kib" || metrics.contains(&used), "{metrics}");
    let refused = unread(service, &one, method, path, body).await;
    assert_eq!(refused.status().as_u16(), 429, "{path}");
    assert_eq!(refused.headers()["retry-after"], "10", "{path}");
    let error = refused.into_body().collect().await.unwrap().to_bytes();
    let error: serde_json::Value = serde_json::from_slice(&error).unwrap();
    assert_eq!(error["code"], "limit_reached", "{error}");
    assert!(error["error"].as_str().unwrap().starts_with("you have as many"), "{error}");
    assert_eq!(unread(service, &other, method, path, body).await.status().as_u16(), 200, "another key is served");
    held.pop();
    assert_eq!(unread(service, &one, method, path, body).await.status().as_u16(), 200, "there is room again");
    drop(held);
    let metrics = service.get("/metrics").await.text;
    for line in
        [format!("limit_used{{class=\"{class}\"}} 0\n"), format!("limit_refused_total{{class=\"{class}\"}} 1\n")]
    {
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn diffs_that_are_not_read_use_up_the_limit_of_their_key_only() {
    let service = service().await;
    let job = service.job("endless diff").await;
    check(&service, 2, "git", ("GET", &format!("{job}/diff"), "")).await;
}

#[tokio::test]
async fn packs_that_are_not_read_use_up_the_limit_of_their_key_only() {
    let service = service().await;
    check(&service, 2, "git", ("POST", "/git/shop.git/git-upload-pack", "x")).await;
}

#[tokio::test]
async fn pushes_have_a_smaller_limit_than_other_requests_for_git() {
    let service = service().await;
    check(&service, 1, "pushes", ("POST", "/git/shop.git/git-receive-pack", "x")).await;
    // What only lists refs is no push.
    let key = service.make_key(|_| {}).await;
    let held = unread(&service, &key, "POST", "/git/shop.git/git-receive-pack", "x").await;
    let path = "/git/shop.git/info/refs?service=git-receive-pack";
    assert_eq!(unread(&service, &key, "GET", path, "").await.status().as_u16(), 200);
    drop(held);
}

#[tokio::test]
async fn open_streams_use_up_the_limit_of_their_key_only() {
    let service = service().await;
    let job = service.job("x").await;
    check(&service, 3, "streams", ("GET", &format!("{job}/events/stream"), "")).await;
    let service = self::service().await;
    check(&service, 3, "streams", ("GET", "/v2/events/stream", "")).await;
}

#[tokio::test]
async fn calls_of_both_protocols_share_a_limit() {
    for path in ["/mcp", "/a2a"] {
        let service = service().await;
        let method = if path == "/mcp" { "tools/list" } else { "ListTasks" };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).to_string();
        check(&service, 3, "calls", ("POST", path, &body)).await;
    }
}

#[tokio::test]
async fn large_responses_that_are_not_read_use_up_the_memory_of_their_key_only() {
    let service = service().await;
    let job = service.job(&"x".repeat(90_000)).await;
    check(&service, 1, "memory_kib", ("GET", &format!("{job}/messages"), "")).await;
}

#[tokio::test]
async fn an_answer_to_a_change_is_sent_also_above_the_limit() {
    let service = service().await;
    let key = service.make_key(|_| {}).await;
    let job = service.job(&"x".repeat(90_000)).await;
    let held = unread(&service, &key, "GET", &format!("{job}/messages"), "").await;
    let job = job.rsplit('/').next().unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": job}}).to_string();
    assert_eq!(unread(&service, &key, "POST", "/a2a", &call).await.status().as_u16(), 200);
    drop(held);
}

#[tokio::test]
async fn a_refused_stream_of_a_new_task_stores_nothing() {
    let service = service().await;
    let key = service.make_key(|_| {}).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(unread(&service, &key, "GET", "/v2/events/stream", "").await);
    }
    let message = json!({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage",
        "params": {"tenant": "shop", "message": message}});
    let refused = unread(&service, &key, "POST", "/a2a", &call.to_string()).await;
    assert_eq!(refused.status().as_u16(), 429);
    assert_eq!(service.get("/v2/jobs").await.json()["jobs"], json!([]));
    drop(held);
    let stream = unread(&service, &key, "POST", "/a2a", &call.to_string()).await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
}
