//! Tests of trusts, and of the exchange of a token for a key.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::AUTHORIZATION;
use journeyman_core::key::Scope;
use journeyman_core::ports::KeyStore as _;
use journeyman_testkit::FakeTokens;
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

const TRUSTS: &str = "/v2/oidc/trusts";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

fn rules() -> Value {
    json!({"name": "ci", "issuer": ISSUER, "claims": {"repository": "acme/*"}, "projects": ["shop"]})
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "http://localhost:8080", "sub": "repo:acme/shop:ref:x", "repository": "acme/shop"})
}

async fn create(service: &Service, body: Value) -> Value {
    let made = service.post(TRUSTS, &body.to_string()).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    assert_eq!(made.header("location"), path_of(&made.json()));
    assert_eq!(service.get(&path_of(&made.json())).await.header("etag"), made.header("etag"));
    made.json()
}

fn path_of(trust: &Value) -> String {
    format!("{TRUSTS}/{}", trust["id"].as_str().unwrap())
}

/// Sends a body to the exchange without a key.
async fn exchange_body(service: &Service, body: &Value) -> Answer {
    let without_key = |request: &mut Request<Body>| drop(request.headers_mut().remove(AUTHORIZATION));
    service.call("POST", "/v2/oidc/exchange", body.to_string(), without_key).await
}

async fn exchange(service: &Service, claims: &Value) -> Answer {
    exchange_body(service, &json!({"token": FakeTokens::sign(claims)})).await
}

async fn with_key(service: &Service, key: &str, method: &str, path: &str, body: &str) -> u16 {
    let value = format!("Bearer {key}").parse().unwrap();
    let change = |request: &mut Request<Body>| drop(request.headers_mut().insert(AUTHORIZATION, value));
    service.call(method, path, body.to_owned(), change).await.status.as_u16()
}

#[tokio::test]
async fn a_trust_is_created_read_changed_and_deleted() {
    let service = service().await;
    let made = create(&service, rules()).await;
    assert_eq!((&made["audience"], &made["scope"]), (&json!("http://localhost:8080"), &json!("jobs")), "the defaults");
    let path = path_of(&made);
    let read = service.get(&path).await;
    assert_eq!((read.status.as_u16(), read.json()), (200, made.clone()));
    assert_eq!(service.get(TRUSTS).await.json(), json!({"trusts": [made], "nextCursor": null}));
    let tag = read.header("etag").to_owned();
    let change = json!({"scope": "read", "audience": "x"}).to_string();
    let if_match = |tag: &str| {
        let value = tag.parse().unwrap();
        move |request: &mut Request<Body>| drop(request.headers_mut().insert("if-match", value))
    };
    let changed = service.call("PATCH", &path, change.clone(), if_match(&tag)).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["scope"]), (200, &json!("read")), "{changed:?}");
    let stale = service.call("PATCH", &path, change, if_match(&tag)).await;
    assert_eq!((stale.status.as_u16(), stale.code()), (412, "precondition_failed".to_owned()));
    let back = service.call("PATCH", &path, r#"{"audience":null}"#, |_| {}).await;
    assert_eq!(back.json()["audience"], "http://localhost:8080");
    let stale = service.call("DELETE", &path, "", if_match(&tag)).await;
    assert_eq!(stale.status.as_u16(), 412);
    for _ in 0..2 {
        assert_eq!(service.call("DELETE", &path, "", |_| {}).await.status.as_u16(), 204);
    }
    let gone = service.get(&path).await;
    assert_eq!((gone.status.as_u16(), gone.code()), (404, "trust_not_found".to_owned()));
    let actions: Vec<String> =
        service.store.audit(None, 100).await.unwrap().into_iter().map(|line| line.entry.action).collect();
    for action in ["trust.created", "trust.changed", "trust.removed"] {
        assert!(actions.iter().any(|known| known == action), "{action} is not in {actions:?}");
    }
}

#[tokio::test]
async fn a_repeated_creation_with_an_idempotency_key_gets_the_first_answer() {
    let service = service().await;
    let send = || {
        let change = |request: &mut Request<Body>| {
            drop(request.headers_mut().insert("idempotency-key", "once".parse().unwrap()));
        };
        service.call("POST", TRUSTS, rules().to_string(), change)
    };
    let (first, second) = (send().await, send().await);
    assert_eq!((second.status.as_u16(), second.header("idempotent-replayed")), (201, "true"));
    assert_eq!(first.json(), second.json());
    assert_eq!((first.header("etag"), second.header("etag")), ("\"v1.0\"", "\"v1.0\""));
    let taken = service.post(TRUSTS, &rules().to_string()).await;
    assert_eq!((taken.status.as_u16(), taken.code()), (409, "trust_exists".to_owned()));
}

#[tokio::test]
async fn rules_that_are_too_wide_or_not_valid_are_refused() {
    let service = service().await;
    for (field, value, text) in [
        ("claims", json!({}), "claims:"),
        ("claims", json!({"repository": "*/*"}), "wildcards"),
        ("claims", json!({"ref": "refs/heads/main"}), "repository"),
        ("claims", json!({"aud": "x"}), "always checked"),
        ("issuer", json!("http://id.example.com"), "issuer:"),
        ("projects", json!([]), "projects:"),
        ("projects", json!(["-"]), "projects:"),
        ("scope", json!("write"), "scope"),
        ("name", json!("a b"), "name:"),
        ("audience", json!(""), "audience:"),
    ] {
        let mut body = rules();
        body[field] = value;
        let refused = service.post(TRUSTS, &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{body}: {refused:?}");
        assert!(refused.text.contains(text), "{body}: {refused:?}");
    }
    let mut body = rules();
    body["projects"] = json!(["nowhere"]);
    let refused = service.post(TRUSTS, &body.to_string()).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (404, "project_not_found".to_owned()));
}

#[tokio::test]
async fn only_an_administrator_manages_trusts() {
    let service = service().await;
    let path = path_of(&create(&service, rules()).await);
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    for (method, path, body) in [
        ("GET", TRUSTS, ""),
        ("GET", path.as_str(), ""),
        ("POST", TRUSTS, &*rules().to_string()),
        ("PATCH", path.as_str(), r#"{"scope":"read"}"#),
        ("DELETE", path.as_str(), ""),
    ] {
        assert_eq!(with_key(&service, &limited, method, path, body).await, 403, "{method}");
        let expected = if method == "GET" { 200 } else { 403 };
        assert_eq!(with_key(&service, &reader, method, path, body).await, expected, "{method}");
    }
}

#[tokio::test]
async fn a_token_is_exchanged_for_a_key_that_creates_jobs_for_fifteen_minutes() {
    let service = service().await;
    let trust = create(&service, rules()).await;
    let made = exchange(&service, &claims()).await;
    assert_eq!((made.status.as_u16(), made.header("cache-control")), (201, "no-store"), "{made:?}");
    let body = made.json();
    assert_eq!(body["key"]["name"], "oidc:ci:repo:acme/shop:ref:x");
    assert_eq!((&body["key"]["scopes"], &body["key"]["projects"]), (&json!(["jobs"]), &json!(["shop"])));
    assert_eq!(body["key"]["expiresAt"], body["expiresAt"]);
    let secret = body["secret"].as_str().unwrap();
    let job = r#"{"prompt":"x"}"#;
    assert_eq!(with_key(&service, secret, "POST", "/v2/agent/shop/job", job).await, 201);
    assert_eq!(with_key(&service, secret, "GET", "/v2/keys", "").await, 403);
    assert_eq!(with_key(&service, secret, "POST", TRUSTS, &rules().to_string()).await, 403);
    assert!(!service.get(&path_of(&trust)).await.json()["lastUsedAt"].is_null());
    let lines = service.store.audit(None, 100).await.unwrap();
    let line = lines.into_iter().map(|line| line.entry).find(|entry| entry.action == "oidc.exchanged").unwrap();
    assert_eq!(line.actor, trust["id"].as_str().unwrap());
    assert!(line.subject.contains("sub repo:acme/shop:ref:x") && line.address.is_some(), "{line:?}");
    service.world.advance(Duration::from_secs(15 * 60 - 1));
    assert_eq!(with_key(&service, secret, "POST", "/v2/agent/shop/job", job).await, 201);
    service.world.advance(Duration::from_secs(1));
    let value = format!("Bearer {secret}").parse().unwrap();
    let change = |request: &mut Request<Body>| drop(request.headers_mut().insert(AUTHORIZATION, value));
    let refused = service.call("POST", "/v2/agent/shop/job", job, change).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (401, "expired_key".to_owned()));
    let again = exchange(&service, &claims()).await.json();
    let secret = again["secret"].as_str().unwrap();
    assert_eq!(with_key(&service, secret, "POST", "/v2/agent/shop/job", job).await, 201, "a new secret works");
    assert_eq!(again["key"]["id"], body["key"]["id"], "a token has one key");
}

#[tokio::test]
async fn a_token_has_one_key_however_often_it_is_exchanged() {
    let service = service().await;
    create(&service, rules()).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.extend(futures::future::join_all((0..10).map(|_| async { exchange(&service, &claims()).await })).await);
    }
    let (made, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(|answer| answer.status.as_u16() == 201);
    assert_eq!((made.len(), refused.len()), (20, 30));
    for answer in &refused {
        assert_eq!((answer.status.as_u16(), answer.code()), (429, "too_many_exchanges".to_owned()));
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=61).contains(&wait), "{wait}");
    }
    let mut living = 0;
    for answer in &made {
        let secret = answer.json()["secret"].as_str().unwrap().to_owned();
        living += usize::from(with_key(&service, &secret, "GET", "/v2/projects", "").await == 200);
    }
    assert_eq!(living, 1, "only the last secret works");
    let listed = service.get("/v2/keys?origin=exchanged").await.json();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1, "{listed}");
    let ordinary = service.get("/v2/keys").await.json();
    assert!(ordinary["keys"].as_array().unwrap().iter().all(|key| key["id"] != listed["keys"][0]["id"]), "{ordinary}");

    service.world.advance(Duration::from_secs(61));
    let again = exchange(&service, &claims()).await;
    assert_eq!((again.status.as_u16(), &again.json()["key"]["id"]), (201, &listed["keys"][0]["id"]));
    // A signature can have several forms, and other claims are another token.
    let mut other = claims();
    other["jti"] = json!("2");
    assert_ne!(exchange(&service, &other).await.json()["key"]["id"], listed["keys"][0]["id"]);

    let path = format!("/v2/keys/{}", listed["keys"][0]["id"].as_str().unwrap());
    assert_eq!(service.call("DELETE", &path, "", |_| {}).await.status.as_u16(), 204);
    service.world.advance(Duration::from_secs(60));
    let revoked = exchange(&service, &claims()).await;
    assert_eq!((revoked.status.as_u16(), revoked.code()), (403, "token_not_trusted".to_owned()), "{revoked:?}");
    assert!(revoked.text.contains("was revoked"), "{revoked:?}");
}

#[tokio::test]
async fn exchanged_keys_are_listed_in_pages() {
    let service = service().await;
    create(&service, rules()).await;
    for number in 0..3 {
        let mut token = claims();
        token["jti"] = json!(number);
        assert_eq!(exchange(&service, &token).await.status.as_u16(), 201);
        service.world.advance(Duration::from_secs(1));
    }
    let first = service.get("/v2/keys?origin=exchanged&limit=2").await.json();
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = service.get(&format!("/v2/keys?origin=exchanged&limit=2&cursor={cursor}")).await.json();
    assert_eq!((first["keys"].as_array().unwrap().len(), second["keys"].as_array().unwrap().len()), (2, 1));
    assert_eq!(second["nextCursor"], Value::Null);
    let refused = service.get("/v2/keys?origin=other").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_query".to_owned()));
}

#[tokio::test]
async fn tokens_that_no_trust_accepts_are_refused() {
    let service = service().await;
    create(&service, rules()).await;
    let stranger = exchange(&service, &json!({"iss": "https://elsewhere.test", "aud": "http://localhost:8080"})).await;
    assert_eq!((stranger.status.as_u16(), stranger.code()), (403, "token_not_trusted".to_owned()));
    assert!(service.tokens.asked().is_empty(), "an unknown issuer is sent no request");
    for (claim, value, shown) in [
        ("aud", json!("https://elsewhere.test"), "aud=https://elsewhere.test"),
        ("repository", json!("mallory/shop"), "repository=mallory/shop"),
        ("repository", json!("acme/shop/more"), "repository=acme/shop/more"),
        ("repository", Value::Null, "no repository"),
    ] {
        let mut changed = claims();
        (changed[claim], changed["private"]) = (value, json!("hidden"));
        let refused = exchange(&service, &changed).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (403, "token_not_trusted".to_owned()), "{changed}");
        assert!(refused.text.contains(shown), "{refused:?}");
        // Only claims that a trust looks at are shown, and no patterns.
        assert!(!refused.text.contains("hidden") && !refused.text.contains("acme/*"), "{refused:?}");
    }
    let named = json!({"token": FakeTokens::sign(&claims()), "trust": "other"});
    assert_eq!(exchange_body(&service, &named).await.code(), "token_not_trusted");
    let named = json!({"token": FakeTokens::sign(&claims()), "trust": "ci"});
    assert_eq!(exchange_body(&service, &named).await.status.as_u16(), 201);
}

#[tokio::test]
async fn broken_tokens_and_bodies_are_refused() {
    let service = service().await;
    create(&service, rules()).await;
    let forged = FakeTokens::sign(&claims()).replace(".good", ".bad");
    let refused = exchange_body(&service, &json!({"token": forged})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (401, "token_refused".to_owned()));
    assert_eq!(refused.header("www-authenticate"), "Bearer");
    for (body, status, code) in [
        (json!({"token": "x"}), 400, "invalid_body"),
        (json!({}), 400, "invalid_body"),
        (json!([]), 400, "invalid_body"),
        (json!({"token": "x".repeat(40_000)}), 413, "body_too_large"),
    ] {
        let refused = exchange_body(&service, &body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (status, code.to_owned()), "{refused:?}");
    }
    service.tokens.go_away(true);
    let away = exchange(&service, &claims()).await;
    assert_eq!((away.status.as_u16(), away.code()), (503, "issuer_unavailable".to_owned()));
}

#[tokio::test]
async fn refused_exchanges_are_limited_by_address_and_accepted_ones_are_not() {
    let service = service().await;
    create(&service, rules()).await;
    for number in 0..40 {
        let mut token = claims();
        token["jti"] = json!(number);
        assert_eq!(exchange(&service, &token).await.status.as_u16(), 201);
    }
    let body = json!({"token": "x"});
    let mut statuses = Vec::new();
    for _ in 0..31 {
        statuses.push(exchange_body(&service, &body).await.status.as_u16());
    }
    assert_eq!((statuses[29], statuses[30]), (400, 429));
    let limited = exchange(&service, &claims()).await;
    assert_eq!((limited.status.as_u16(), limited.code()), (429, "too_many_attempts".to_owned()));
    assert!(!limited.header("retry-after").is_empty());
    service.world.advance(Duration::from_secs(600));
    assert_eq!(exchange(&service, &claims()).await.status.as_u16(), 201);
}

#[tokio::test]
async fn tokens_of_an_issuer_that_cannot_be_reached_do_not_count_as_refused() {
    let service = service().await;
    create(&service, rules()).await;
    service.tokens.go_away(true);
    for attempt in 0..40 {
        let away = exchange(&service, &claims()).await;
        assert_eq!((away.status.as_u16(), away.code()), (503, "issuer_unavailable".to_owned()), "{attempt}");
    }
    service.tokens.go_away(false);
    assert_eq!(exchange(&service, &claims()).await.status.as_u16(), 201);
}

#[tokio::test]
async fn the_keys_of_a_trust_end_with_it() {
    let service = service().await;
    for (method, body, expected) in
        [("PATCH", r#"{"name":"renamed"}"#, 200), ("PATCH", r#"{"scope":"read"}"#, 401), ("DELETE", "", 401)]
    {
        let path = path_of(&create(&service, rules()).await);
        let secret = exchange(&service, &claims()).await.json()["secret"].as_str().unwrap().to_owned();
        assert_eq!(with_key(&service, &secret, "GET", "/v2/projects", "").await, 200);
        service.call(method, &path, body, |_| {}).await;
        assert_eq!(with_key(&service, &secret, "GET", "/v2/projects", "").await, expected, "{method} {body}");
        service.call("DELETE", &path, "", |_| {}).await;
    }
}
