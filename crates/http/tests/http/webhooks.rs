//! Tests of webhooks: their operations, deliveries, and who may manage them.

use std::time::Duration;

use journeyman_core::ids::WebhookId;
use journeyman_core::key::Scope;
use journeyman_testkit::until_async;
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

const HOOKS: &str = "/v2/projects/shop/webhooks";

async fn create(service: &Service, body: Value) -> Value {
    let made = service.post(HOOKS, &body.to_string()).await;
    assert_eq!((made.status.as_u16(), made.header("cache-control")), (201, "no-store"), "{made:?}");
    assert_eq!(made.header("location"), format!("{HOOKS}/{}", made.json()["id"].as_str().unwrap()));
    made.json()
}

async fn call(service: &Service, method: &str, path: &str, body: Value) -> Answer {
    service.call(method, path, body.to_string(), |_| {}).await
}

fn path_of(webhook: &Value) -> String {
    format!("{HOOKS}/{}", webhook["id"].as_str().unwrap())
}

fn id(webhook: &Value) -> WebhookId {
    webhook["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_webhook_is_created_read_changed_and_deleted() {
    let service = service().await;
    let made = create(&service, json!({"url": "https://hooks.example/a", "events": ["job.completed"]})).await;
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let path = path_of(&made);
    let read = service.get(&path).await;
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("secret");
    assert_eq!(read.json(), expected, "the secret is not shown again");
    assert_eq!((expected["enabled"].clone(), expected["format"].clone()), (json!(true), json!("standard")));
    let tag = read.header("etag").to_owned();
    let known = |request: &mut axum::http::Request<axum::body::Body>| {
        request.headers_mut().insert("if-none-match", tag.parse().unwrap());
    };
    assert_eq!(service.call("GET", &path, "", known).await.status.as_u16(), 304);
    let changed = call(&service, "PATCH", &path, json!({"enabled": false, "description": "CI"})).await;
    assert_eq!(changed.header("etag"), service.get(&path).await.header("etag"));
    let changed = changed.json();
    assert_eq!((changed["enabled"].clone(), changed["disabledReason"].clone()), (json!(false), json!("on_request")));
    assert_eq!((changed["description"].clone(), changed["events"].clone()), (json!("CI"), json!(["job.completed"])));
    let stale = |request: &mut axum::http::Request<axum::body::Body>| {
        request.headers_mut().insert("if-match", tag.parse().unwrap());
    };
    let refused = service.call("PATCH", &path, "{}", stale).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (412, "precondition_failed".to_owned()));
    let twice = [service.call("DELETE", &path, "", |_| {}).await, service.call("DELETE", &path, "", |_| {}).await];
    assert_eq!(twice.map(|answer| answer.status.as_u16()), [204, 204]);
    assert_eq!(service.get(&path).await.code(), "webhook_not_found");
    let never = service.call("DELETE", &format!("{HOOKS}/whk_{}", "0".repeat(32)), "", |_| {}).await;
    assert_eq!(never.code(), "webhook_not_found");
    assert_eq!(service.get(&format!("{HOOKS}/x")).await.code(), "webhook_not_found");
}

#[tokio::test]
async fn settings_that_are_not_valid_are_refused() {
    let service = service().await;
    let made = create(&service, json!({"url": "https://hooks.example/a"})).await;
    for (body, part) in [
        (json!({"url": "ftp://hooks.example/"}), "url: "),
        (json!({"url": "https://user:secret@hooks.example/"}), "url: "),
        (json!({"url": "https://hooks.example/", "events": ["job.exploded"]}), "there is no event"),
        (json!({"url": "https://hooks.example/", "format": "irc"}), "format: "),
        (json!({"url": "https://hooks.example/", "description": "x".repeat(201)}), "description: "),
        (json!({}), "url"),
    ] {
        let refused = service.post(HOOKS, &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{body}");
        assert!(refused.text.contains(part) && !refused.text.contains("secret"), "{body}: {}", refused.text);
        if body.get("url").is_some() {
            let changed = call(&service, "PATCH", &path_of(&made), body.clone()).await;
            assert_eq!((changed.status.as_u16(), changed.code()), (400, "invalid_body".to_owned()), "{body}");
        }
    }
    let replay = call(&service, "POST", &format!("{}/replay", path_of(&made)), json!({"since": "yesterday"})).await;
    assert_eq!((replay.code(), replay.text.contains("since: ")), ("invalid_body".to_owned(), true));
    let long = call(&service, "POST", &format!("{}/rotate", path_of(&made)), json!({"keepOldSeconds": 604_801})).await;
    assert_eq!((long.code(), long.text.contains("keepOldSeconds")), ("invalid_body".to_owned(), true));
}

#[tokio::test]
async fn events_are_delivered_and_the_log_of_deliveries_shows_the_results() {
    let service = service().await;
    let made =
        create(&service, json!({"url": "https://hooks.example/a", "events": ["job.completed", "job.failed"]})).await;
    service.job("x").await;
    service.work().await;
    assert_eq!(service.deliverer.deliver_due().await.unwrap(), 1);
    let received = service.endpoints.received(id(&made));
    assert_eq!(received[0].0.kind, "job.completed");
    service.endpoints.answer(id(&made), 500);
    service.job("y").await;
    service.work().await;
    service.deliverer.deliver_due().await.unwrap();
    let path = format!("{}/deliveries", path_of(&made));
    let page = service.get(&path).await.json();
    let [newest, oldest] = [&page["deliveries"][0], &page["deliveries"][1]];
    assert_eq!((oldest["state"].clone(), oldest["attempts"].clone()), (json!("delivered"), json!(1)));
    let last = json!({
        "at": oldest["lastAttempt"]["at"], "durationMs": 5, "status": 204, "response": "", "error": null,
    });
    assert_eq!(oldest["lastAttempt"], last);
    assert_eq!((newest["state"].clone(), newest["lastAttempt"]["status"].clone()), (json!("pending"), json!(500)));
    assert!(newest["nextAttemptAt"].is_string());
    assert!(service.get(&path_of(&made)).await.json()["failingSince"].is_string());
    let pending = service.get(&format!("{path}?state=pending")).await.json();
    assert_eq!(pending["deliveries"], json!([newest]));
    let first = service.get(&format!("{path}?limit=1")).await.json();
    let next = first["nextCursor"].as_str().unwrap();
    assert_eq!(service.get(&format!("{path}?limit=1&cursor={next}")).await.json()["deliveries"], json!([oldest]));
    // The endpoint works again.
    service.endpoints.answer(id(&made), 200);
    let again = format!("{path}/{}/redeliver", newest["id"].as_str().unwrap());
    assert_eq!(service.post(&again, "").await.status.as_u16(), 202);
    assert_eq!(service.deliverer.deliver_due().await.unwrap(), 1);
    assert_eq!(service.get(&path_of(&made)).await.json()["failingSince"], json!(null));
    let all =
        call(&service, "POST", &format!("{}/replay", path_of(&made)), json!({"since": "2020-01-01T00:00:00Z"})).await;
    assert_eq!((all.status.as_u16(), all.json()), (202, json!({"deliveries": 2})));
    service.deliverer.deliver_due().await.unwrap();
    assert_eq!(service.endpoints.received(id(&made)).len(), 5);
    for wrong in ["999", "x"] {
        let refused = service.post(format!("{path}/{wrong}/redeliver"), "").await;
        assert_eq!((refused.status.as_u16(), refused.code()), (404, "delivery_not_found".to_owned()), "{wrong}");
    }
    call(&service, "PATCH", &path_of(&made), json!({"enabled": false})).await;
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    let replay = call(&service, "POST", &format!("{}/replay", path_of(&made)), since).await;
    for refused in [service.post(&again, "").await, replay] {
        assert_eq!((refused.status.as_u16(), refused.code()), (409, "webhook_disabled".to_owned()));
    }
    for query in ["state=lost", "limit=0", "cursor=x"] {
        assert_eq!(service.get(&format!("{path}?{query}")).await.code(), "invalid_query", "{query}");
    }
}

#[tokio::test]
async fn requests_are_signed_with_both_secrets_during_a_rotation() {
    let service = service().await;
    let made = create(&service, json!({"url": "https://hooks.example/a", "events": ["job.created"]})).await;
    let rotate = async |body: Value| {
        let once = |request: &mut axum::http::Request<axum::body::Body>| {
            request.headers_mut().insert("idempotency-key", "once".parse().unwrap());
        };
        service.call("POST", &format!("{}/rotate", path_of(&made)), body.to_string(), once).await
    };
    let rotated = rotate(json!({"keepOldSeconds": 60})).await;
    assert_eq!((rotated.header("cache-control"), rotated.header("etag")), ("no-store", "\"v2\""));
    let again = rotate(json!({"keepOldSeconds": 60})).await;
    assert_eq!((again.header("idempotent-replayed"), again.text.clone()), ("true", rotated.text.clone()));
    assert_eq!((again.header("etag"), again.json()["etag"].clone()), ("\"v2\"", Value::Null));
    assert_eq!(rotate(json!({})).await.code(), "idempotency_key_reused");
    let rotated = rotated.json();
    assert_ne!(rotated["secret"], made["secret"]);
    assert!(rotated["oldSecretUntil"].is_string());
    service.job("x").await;
    service.deliverer.deliver_due().await.unwrap();
    service.world.advance(Duration::from_secs(61));
    service.job("y").await;
    service.deliverer.deliver_due().await.unwrap();
    let signatures: Vec<usize> =
        service.endpoints.received(id(&made)).into_iter().map(|(_, signatures)| signatures).collect();
    assert_eq!(signatures, [2, 1]);
}

#[tokio::test]
async fn a_test_sends_an_example_and_stores_nothing() {
    let service = service().await;
    let made = create(&service, json!({"url": "https://hooks.example/a"})).await;
    service.endpoints.answer(id(&made), 418);
    let result = service.post(format!("{}/test", path_of(&made)), "").await;
    assert_eq!((result.status.as_u16(), result.json()["status"].clone()), (200, json!(418)));
    let received = service.endpoints.received(id(&made));
    assert_eq!(received[0].0.data["title"], "A test of this webhook");
    let log = service.get(&format!("{}/deliveries", path_of(&made))).await.json();
    assert_eq!(
        (log["deliveries"].clone(), service.get(&path_of(&made)).await.json()["failingSince"].clone()),
        (json!([]), json!(null))
    );
}

#[tokio::test]
async fn a_repeated_creation_returns_the_same_secret() {
    let service = service().await;
    let body = r#"{"url":"https://hooks.example/a"}"#;
    let with = |request: &mut axum::http::Request<axum::body::Body>| {
        request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
    };
    let first = service.call("POST", HOOKS, body, with).await;
    let again = service.call("POST", HOOKS, body, with).await;
    assert_eq!((again.json(), again.header("idempotent-replayed")), (first.json(), "true"));
    assert_eq!(service.get(HOOKS).await.json()["webhooks"].as_array().unwrap().len(), 1);
    let other = service.call("POST", HOOKS, r#"{"url":"https://hooks.example/b"}"#, with).await;
    assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency_key_reused".to_owned()));
}

#[tokio::test]
async fn only_an_administrator_manages_webhooks() {
    let service = service().await;
    let made = create(&service, json!({"url": "https://hooks.example/a"})).await;
    let limited = service.make_key(|new| new.projects = Some(vec!["shop".parse().unwrap()])).await;
    let reader = service.make_key(|new| new.scopes = vec![Scope::Jobs]).await;
    for (key, method, path, code) in [
        (&limited, "GET", HOOKS.to_owned(), "key_limited"),
        (&limited, "POST", format!("{}/test", path_of(&made)), "key_limited"),
        (&reader, "GET", HOOKS.to_owned(), "scope_missing"),
        (&reader, "GET", path_of(&made), "scope_missing"),
        (&reader, "POST", HOOKS.to_owned(), "scope_missing"),
        (&reader, "DELETE", path_of(&made), "scope_missing"),
    ] {
        let value: axum::http::HeaderValue = format!("Bearer {key}").parse().unwrap();
        let with = |request: &mut axum::http::Request<axum::body::Body>| {
            request.headers_mut().insert("authorization", value);
        };
        let body = if method == "POST" { r#"{"url":"https://hooks.example/b"}"# } else { "" };
        let refused = service.call(method, &path, body, with).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (403, code.to_owned()), "{method} {path}");
    }
    assert_eq!(service.get("/v2/projects/none/webhooks").await.code(), "project_not_found");
    service.post("/v2/projects", r#"{"id":"zoo","repository":"local:zoo"}"#).await;
    let elsewhere = path_of(&made).replace("shop", "zoo");
    assert_eq!(service.get(&elsewhere).await.code(), "webhook_not_found", "of another project");
    assert_eq!(service.get(&format!("{elsewhere}/deliveries")).await.code(), "webhook_not_found");
}

#[tokio::test]
async fn the_loop_delivers_what_comes_while_it_runs() {
    let service = service().await;
    let made = create(&service, json!({"url": "https://hooks.example/a", "events": ["job.created"]})).await;
    let deliverer = service.deliverer.clone();
    let running = tokio::spawn(async move { deliverer.run().await });
    for _ in 0..20 {
        service.job("x").await;
    }
    let received = async || (service.endpoints.received(id(&made)).len() >= 20).then_some(());
    until_async("all events are delivered", received).await;
    running.abort();
}
