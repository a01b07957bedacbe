//! Tests of the events of a project and of all projects: pages, streams, cursors, and permissions.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use journeyman_core::ports::{Retention, Store};
use journeyman_testkit::within;
use serde_json::{Value, json};

use super::fixtures::{Service, service};

fn kinds(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// Reads a stream until a text has arrived.
async fn read_until(body: &mut Body, text: &mut String, end: &str) {
    while !text.contains(end) {
        let frame = within(end, body.frame()).await;
        text.push_str(std::str::from_utf8(frame.unwrap().unwrap().data_ref().unwrap()).unwrap());
    }
}

async fn as_limited(service: &Service, project: &str) -> impl Fn(&mut Request<Body>) + use<> {
    let key = service.make_key(|new| new.projects = Some(vec![project.parse().unwrap()])).await;
    let value: axum::http::HeaderValue = format!("Bearer {key}").parse().unwrap();
    move |request: &mut Request<Body>| drop(request.headers_mut().insert("authorization", value.clone()))
}

#[tokio::test]
async fn the_events_of_a_project_are_read_page_by_page_with_one_cursor() {
    let service = service().await;
    let job = service.job("x").await;
    service.work().await;
    let page = service.get("/v2/projects/shop/events?limit=2").await.json();
    assert_eq!((kinds(&page), page["hasMore"].clone()), (vec!["job.created", "message.finished"], json!(true)));
    let first = &page["events"][0];
    assert_eq!(first.as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "type", "timestamp", "data"]);
    let data = &first["data"];
    let fields = ["job", "projectId", "title", "messageId", "runId", "pullRequest", "reason"];
    let mut known: Vec<_> = data.as_object().unwrap().keys().map(String::as_str).collect();
    known.sort_by_key(|name| fields.iter().position(|field| field == name));
    assert_eq!(known, fields);
    assert_eq!(job, format!("/v2/agent/shop/job/{}", data["job"]["id"].as_str().unwrap()));
    assert_eq!(data["job"].as_object().unwrap().len(), 7, "the record");
    let next = page["nextCursor"].as_str().unwrap();
    let rest = service.get(&format!("/v2/projects/shop/events?cursor={next}")).await.json();
    assert_eq!((kinds(&rest), rest["hasMore"].clone()), (vec!["job.completed"], json!(false)));
    let end = rest["nextCursor"].as_str().unwrap().to_owned();
    let none = service.get(&format!("/v2/projects/shop/events?cursor={end}")).await.json();
    assert_eq!((kinds(&none), none["nextCursor"].clone()), (vec![], json!(end)), "the cursor stays");
    service.post("/v2/projects", r#"{"id":"zoo","repository":"local:zoo"}"#).await;
    service.post("/v2/agent/zoo/job", r#"{"prompt":"y"}"#).await;
    let after = |path: &str| format!("{path}?cursor={end}");
    let skipped = service.get(&after("/v2/projects/shop/events")).await.json();
    assert!(kinds(&skipped).is_empty() && skipped["nextCursor"] != json!(end), "the cursor passes other projects");
    assert_eq!(kinds(&service.get(&after("/v2/events")).await.json()), ["job.created"], "of all projects");
    let only = service.get("/v2/events?type=job.completed&type=job.failed").await.json();
    assert_eq!(kinds(&only), ["job.completed"]);
    for (query, part) in
        [("type=job.exploded", "job.created, job.completed"), ("cursor=x", "cursor"), ("limit=0", "limit")]
    {
        let refused = service.get(&format!("/v2/events?{query}")).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_query".to_owned()), "{query}");
        assert!(refused.text.contains(part), "{query}: {}", refused.text);
    }
}

#[tokio::test]
async fn a_key_sees_only_events_of_its_projects() {
    let service = service().await;
    service.job("x").await;
    service.post("/v2/projects", r#"{"id":"zoo","repository":"local:zoo"}"#).await;
    service.post("/v2/agent/zoo/job", r#"{"prompt":"y"}"#).await;
    let limited = as_limited(&service, "zoo").await;
    let own = service.call("GET", "/v2/events", "", &limited).await.json();
    assert_eq!(own["events"][0]["data"]["projectId"], "zoo");
    assert_eq!(own["events"].as_array().unwrap().len(), 1);
    for path in ["/v2/projects/shop/events", "/v2/projects/shop/events/stream"] {
        assert_eq!(service.call("GET", path, "", &limited).await.code(), "project_not_found", "{path}");
    }
}

#[tokio::test]
async fn a_cursor_whose_next_events_were_removed_is_refused() {
    let service = service().await;
    service.job("x").await;
    service.work().await;
    service.world.advance(Duration::from_hours(31 * 24));
    service.store.sweep(service.engine.now(), Retention::default(), 99).await.unwrap();
    for path in ["/v2/events?cursor=1", "/v2/events/stream?cursor=1", "/v2/projects/shop/events?cursor=99"] {
        let gone = service.get(path).await;
        assert_eq!((gone.status.as_u16(), gone.code()), (410, "cursor_expired".to_owned()), "{path}");
        assert!(gone.text.contains("begin without a cursor"), "{}", gone.text);
    }
    assert_eq!(service.get("/v2/events?cursor=3").await.status.as_u16(), 200, "nothing after it was removed");
    assert_eq!(service.get("/v2/events").await.json()["nextCursor"], "3");
}

#[tokio::test]
async fn a_stream_begins_with_the_next_event_or_after_the_last_one_that_was_received() {
    let service = service().await;
    service.job("x").await;
    let fresh = service.begin("GET", "/v2/events/stream?type=job.completed", "", |_| {}).await;
    assert_eq!(fresh.headers()["content-type"], "text/event-stream");
    let resumed =
        |request: &mut Request<Body>| drop(request.headers_mut().insert("last-event-id", "1".parse().unwrap()));
    let resumed = service.begin("GET", "/v2/projects/shop/events/stream?cursor=7", "", resumed).await;
    let (mut fresh, mut resumed) = (fresh.into_body(), resumed.into_body());
    service.work().await;
    let (mut seen, mut all) = (String::new(), String::new());
    read_until(&mut fresh, &mut seen, "\n\n").await;
    assert!(seen.starts_with("id: 1\n\n"), "the cursor at which it begins: {seen}");
    read_until(&mut fresh, &mut seen, "event: job.completed\ndata: {\"id\":\"3\",\"type\":\"job.completed\",").await;
    assert!(seen.contains("\n\nid: 3\nevent: job.completed"), "{seen}");
    read_until(&mut resumed, &mut all, "event: job.completed").await;
    assert!(all.starts_with("id: 1\n\nid: 2\nevent: message.finished\n"), "{all}");
    let from_cursor = service.begin("GET", "/v2/events/stream?cursor=0", "", |_| {}).await;
    let mut from_start = String::new();
    read_until(&mut from_cursor.into_body(), &mut from_start, "event: job.completed").await;
    assert!(from_start.starts_with("id: 0\n\nid: 1\nevent: job.created\n"), "{from_start}");
    let wrong = |request: &mut Request<Body>| drop(request.headers_mut().insert("last-event-id", "x".parse().unwrap()));
    let refused = service.call("GET", "/v2/events/stream", "", wrong).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_last_event_id".to_owned()));
    service.shutdown.cancel();
    while let Some(frame) = within("the end", fresh.frame()).await {
        frame.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_events_ends_when_its_key_is_revoked() {
    let service = service().await;
    let other = service.post("/v2/keys", r#"{"name":"other"}"#).await.json();
    let value = format!("Bearer {}", other["secret"].as_str().unwrap()).parse().unwrap();
    let with = |request: &mut Request<Body>| drop(request.headers_mut().insert("authorization", value));
    let response = service.begin("GET", "/v2/events/stream", "", with).await;
    service.call("DELETE", &format!("/v2/keys/{}", other["id"].as_str().unwrap()), "", |_| {}).await;
    let begun = tokio::time::Instant::now();
    response.into_body().collect().await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(16), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stream_sends_many_stored_events_without_waiting_for_new_ones() {
    let service = service().await;
    for _ in 0..70 {
        service.job("x").await;
    }
    service.work().await;
    let stream = service.begin("GET", "/v2/events/stream?cursor=0", "", |_| {}).await;
    let mut text = String::new();
    read_until(&mut stream.into_body(), &mut text, "id: 210\n").await;
    let numbers: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!(numbers, (0..=210).map(|number| number.to_string()).collect::<Vec<_>>());
}
