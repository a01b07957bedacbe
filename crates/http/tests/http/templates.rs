//! Tests of the templates of projects.

use axum::body::Body;
use axum::http::Request;
use axum::http::header::AUTHORIZATION;
use journeyman_core::key::Scope;
use journeyman_core::ports::KeyStore as _;
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

const TEMPLATES: &str = "/v2/projects/shop/templates";

fn values() -> Value {
    json!({"name": "Fix a bug", "prompt": "Fix this bug:\n", "labels": ["ui", "bug", "ui"]})
}

async fn create(service: &Service, body: Value) -> Value {
    let made = service.post(TEMPLATES, &body.to_string()).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    assert_eq!(made.header("location"), path_of(&made.json()));
    assert_eq!(service.get(&path_of(&made.json())).await.header("etag"), made.header("etag"));
    made.json()
}

fn path_of(template: &Value) -> String {
    format!("{TEMPLATES}/{}", template["id"].as_str().unwrap())
}

async fn patch(service: &Service, path: &str, body: Value) -> Answer {
    service.call("PATCH", path, body.to_string(), |_| {}).await
}

fn if_match(tag: &str) -> impl FnOnce(&mut Request<Body>) + use<> {
    let value = tag.parse().unwrap();
    move |request: &mut Request<Body>| drop(request.headers_mut().insert("if-match", value))
}

async fn with_key(service: &Service, key: &str, method: &str, path: &str, body: &str) -> u16 {
    let value = format!("Bearer {key}").parse().unwrap();
    let change = |request: &mut Request<Body>| drop(request.headers_mut().insert(AUTHORIZATION, value));
    service.call(method, path, body.to_owned(), change).await.status.as_u16()
}

#[tokio::test]
async fn a_template_is_created_read_changed_and_deleted() {
    let service = service().await;
    let made = create(&service, values()).await;
    assert_eq!((&made["description"], &made["agent"], &made["model"]), (&json!(""), &Value::Null, &Value::Null));
    assert_eq!(made["labels"], json!(["bug", "ui"]), "sorted, and each once");
    let path = path_of(&made);
    let read = service.get(&path).await;
    assert_eq!((read.status.as_u16(), read.json()), (200, made.clone()));
    assert_eq!(service.get(TEMPLATES).await.json(), json!({"templates": [made], "nextCursor": null}));
    let tag = read.header("etag").to_owned();

    let change = json!({"model": "test/scripted", "agent": "journeyman", "labels": []}).to_string();
    let changed = service.call("PATCH", &path, change.clone(), if_match(&tag)).await;
    let mut expected = made;
    (expected["model"], expected["agent"], expected["labels"]) =
        (json!("test/scripted"), json!("journeyman"), json!([]));
    assert_eq!((changed.status.as_u16(), changed.json()), (200, expected), "{changed:?}");
    assert_eq!(changed.header("etag"), service.get(&path).await.header("etag"));
    let stale = service.call("PATCH", &path, change, if_match(&tag)).await;
    assert_eq!((stale.status.as_u16(), stale.code()), (412, "precondition_failed".to_owned()));
    let back = patch(&service, &path, json!({"model": null, "description": "d"})).await.json();
    assert_eq!(
        (&back["model"], &back["agent"], &back["description"]),
        (&Value::Null, &json!("journeyman"), &json!("d"))
    );

    assert_eq!(service.call("DELETE", &path, "", if_match(&tag)).await.status.as_u16(), 412);
    for _ in 0..2 {
        assert_eq!(service.call("DELETE", &path, "", |_| {}).await.status.as_u16(), 204);
    }
    for missing in [&path, &format!("{TEMPLATES}/tpl_{}", "0".repeat(32)), &format!("{TEMPLATES}/x")] {
        let gone = service.get(missing).await;
        assert_eq!((gone.status.as_u16(), gone.code()), (404, "template_not_found".to_owned()), "{missing}");
    }
    let lines = service.store.audit(None, 100).await.unwrap();
    let id = path.rsplit('/').next().unwrap();
    for action in ["template.created", "template.changed", "template.removed"] {
        let line = lines.iter().find(|line| line.entry.action == action).unwrap();
        assert_eq!(line.entry.subject, format!("shop/{id} (Fix a bug)"), "{action}");
    }
}

#[tokio::test]
async fn templates_are_listed_by_name_in_pages() {
    let service = service().await;
    for name in ["b", "C", "a"] {
        create(&service, json!({"name": name, "prompt": "x"})).await;
    }
    let names = |page: &Value| -> Vec<String> {
        page["templates"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = service.get(&format!("{TEMPLATES}?limit=2")).await.json();
    assert_eq!(names(&first), ["a", "b"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = service.get(&format!("{TEMPLATES}?limit=2&cursor={cursor}")).await.json();
    assert_eq!((names(&second), &second["nextCursor"]), (vec!["C".to_owned()], &Value::Null));
    for query in ["limit=0", "cursor=x"] {
        assert_eq!(service.get(&format!("{TEMPLATES}?{query}")).await.code(), "invalid_query", "{query}");
    }
}

#[tokio::test]
async fn a_page_ends_early_after_long_prompts() {
    let service = service().await;
    for name in ["a", "b", "c", "d"] {
        create(&service, json!({"name": name, "prompt": "🦀".repeat(100_000)})).await;
    }
    let first = service.get(TEMPLATES).await.json();
    assert_eq!(first["templates"].as_array().unwrap().len(), 3, "1.2 MB");
    assert!(first["nextCursor"].is_string());
}

#[tokio::test]
async fn values_that_are_not_valid_are_refused() {
    let service = service().await;
    let path = path_of(&create(&service, values()).await);
    for (field, value, code, text) in [
        ("name", json!(""), "invalid_body", "name: "),
        ("name", json!("tpl_x"), "invalid_body", "name: must not begin"),
        ("description", json!("x".repeat(201)), "invalid_body", "description: "),
        ("prompt", json!(""), "invalid_body", "prompt must have"),
        ("prompt", json!("x".repeat(100_001)), "invalid_body", "100001 characters"),
        ("prompt", json!(7), "invalid_body", "prompt: "),
        ("agent", json!("nobody"), "unknown_agent", "no agent"),
        ("model", json!(""), "invalid_body", "model: "),
        ("labels", json!(["a,b"]), "invalid_body", "labels: "),
        ("labels", json!([" "]), "invalid_body", "labels: "),
    ] {
        let mut body = values();
        body["name"] = json!("Another");
        body[field] = value.clone();
        for refused in
            [service.post(TEMPLATES, &body.to_string()).await, patch(&service, &path, json!({field: value})).await]
        {
            assert_eq!((refused.status.as_u16(), refused.code()), (400, code.to_owned()), "{field}: {refused:?}");
            assert!(refused.text.contains(text), "{field}: {refused:?}");
        }
    }
    let missing = service.post(TEMPLATES, r#"{"name":"Another"}"#).await;
    assert_eq!((missing.status.as_u16(), missing.code()), (400, "invalid_body".to_owned()));
    assert_eq!(service.get(TEMPLATES).await.json()["templates"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_name_is_used_once_and_a_project_has_fifty_templates() {
    let service = service().await;
    create(&service, values()).await;
    let other = path_of(&create(&service, json!({"name": "Other", "prompt": "x"})).await);
    let again = service.post(TEMPLATES, r#"{"name":"FIX A BUG","prompt":"x"}"#).await;
    let renamed = patch(&service, &other, json!({"name": "fix a Bug"})).await;
    for taken in [again, renamed] {
        assert_eq!((taken.status.as_u16(), taken.code()), (409, "template_exists".to_owned()), "{taken:?}");
    }
    let own = patch(&service, &other, json!({"name": "OTHER"})).await;
    assert_eq!((own.status.as_u16(), &own.json()["name"]), (200, &json!("OTHER")), "its own name in capital letters");
    for number in 2..50 {
        create(&service, json!({"name": number.to_string(), "prompt": "x"})).await;
    }
    let many = service.post(TEMPLATES, r#"{"name":"more","prompt":"x"}"#).await;
    assert_eq!((many.status.as_u16(), many.code()), (409, "too_many_templates".to_owned()));
}

#[tokio::test]
async fn a_repeated_creation_with_an_idempotency_key_gets_the_first_answer() {
    let service = service().await;
    let send = |body: Value| {
        let change = |request: &mut Request<Body>| {
            drop(request.headers_mut().insert("idempotency-key", "once".parse().unwrap()));
        };
        service.call("POST", TEMPLATES, body.to_string(), change)
    };
    let (first, second) = (send(values()).await, send(values()).await);
    assert_eq!((second.status.as_u16(), second.header("idempotent-replayed")), (201, "true"));
    assert_eq!((first.json(), first.header("etag")), (second.json(), second.header("etag")));
    assert_eq!(send(json!({"name": "x", "prompt": "x"})).await.code(), "idempotency_key_reused");
}

#[tokio::test]
async fn keys_of_the_project_read_templates_and_only_an_administrator_changes_them() {
    let service = service().await;
    let path = path_of(&create(&service, values()).await);
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    let elsewhere = service.make_key(|key| key.projects = Some(vec!["other".parse().unwrap()])).await;
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    let body = json!({"name": "b", "prompt": "x"}).to_string();
    for (method, path, body) in [
        ("GET", TEMPLATES, ""),
        ("GET", path.as_str(), ""),
        ("POST", TEMPLATES, body.as_str()),
        ("PATCH", path.as_str(), r#"{"name":"c"}"#),
        ("DELETE", path.as_str(), ""),
    ] {
        let expected = if method == "GET" { 200 } else { 403 };
        assert_eq!(with_key(&service, &limited, method, path, body).await, expected, "{method} limited");
        assert_eq!(with_key(&service, &reader, method, path, body).await, expected, "{method} reader");
        assert_eq!(with_key(&service, &elsewhere, method, path, body).await, 404, "{method} elsewhere");
    }
}

#[tokio::test]
async fn a_template_is_found_only_in_its_project() {
    let service = service().await;
    let made = create(&service, values()).await;
    let other = json!({"id": "other", "repository": "local:other"});
    assert_eq!(service.post("/v2/projects", &other.to_string()).await.status.as_u16(), 201);
    let path = format!("/v2/projects/other/templates/{}", made["id"].as_str().unwrap());
    for answer in [
        service.get(&path).await,
        patch(&service, &path, json!({"name": "x"})).await,
        service.call("DELETE", &path, "", |_| {}).await,
    ] {
        assert_eq!((answer.status.as_u16(), answer.code()), (404, "template_not_found".to_owned()), "{answer:?}");
    }
    assert_eq!(service.get("/v2/projects/other/templates").await.json()["templates"], json!([]));
    assert_eq!(service.get("/v2/projects/none/templates").await.code(), "project_not_found");
    let name = json!({"name": "Fix a bug", "prompt": "x"}).to_string();
    assert_eq!(service.post("/v2/projects/other/templates", &name).await.status.as_u16(), 201, "the same name");
}
