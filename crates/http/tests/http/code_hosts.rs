//! Tests of the operations on code hosts.

use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

fn github() -> Value {
    json!({ "id": "github", "kind": "github", "url": "https://github.com/", "token": "ghp_s3cret", "webhookSecret": "h00k" })
}

async fn put(service: &Service, body: &Value, tag: Option<&str>) -> Answer {
    service
        .call("PUT", "/v2/code-hosts/github", body.to_string(), |request| {
            if let Some(tag) = tag {
                request.headers_mut().insert("if-match", tag.parse().unwrap());
            }
        })
        .await
}

#[tokio::test]
async fn a_code_host_is_created_read_replaced_tested_and_removed() {
    let service = service().await;
    let made = service.post("/v2/code-hosts", &github().to_string()).await;
    assert_eq!((made.status.as_u16(), made.header("location")), (201, "/v2/code-hosts/github"), "{made:?}");
    assert!(!made.text.contains("s3cret") && !made.text.contains("h00k"), "{}", made.text);
    let read = service.get("/v2/code-hosts/github").await;
    assert_eq!((read.json(), read.header("etag")), (made.json(), "\"v1\""));
    let body = read.json();
    assert_eq!((&body["url"], &body["definedIn"]), (&json!("https://github.com"), &json!("store")));
    assert_eq!(body["webhookUrl"], "http://localhost:8080/hooks/github");
    let secrets = ["hasToken", "hasPrivateKey", "hasWebhookSecret"].map(|name| body[name].as_bool().unwrap());
    assert_eq!(secrets, [true, false, true]);
    let again = service
        .call("GET", "/v2/code-hosts/github", "", |request| {
            drop(request.headers_mut().insert("if-none-match", "\"v1\"".parse().unwrap()));
        })
        .await;
    assert_eq!(again.status, 304);

    let fields = json!({ "kind": "github", "url": "https://github.com", "webhookSecret": null, "trustedBots": ["7"] });
    assert_eq!(put(&service, &fields, Some("\"v9\"")).await.code(), "precondition_failed");
    let replaced = put(&service, &fields, Some("\"v1\"")).await;
    assert_eq!((replaced.status.as_u16(), replaced.header("etag")), (200, "\"v2\""), "{replaced:?}");
    let body = replaced.json();
    let secrets = ["hasToken", "hasWebhookSecret"].map(|name| body[name].as_bool().unwrap());
    assert_eq!((secrets, &body["trustedBots"]), ([true, false], &json!(["7"])));

    let checked = service.post("/v2/code-hosts/github/check", "").await;
    let findings = checked.json()["findings"].clone();
    assert_eq!((&findings[0]["check"], &findings[0]["health"]), (&json!("address"), &json!("ok")), "{checked:?}");
    assert_eq!(findings[1]["health"], "warning", "no webhook has arrived: {checked:?}");

    let listed = service.get("/v2/code-hosts").await.json();
    let ids: Vec<&str> =
        listed["codeHosts"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["github", "gitlab"]);
    let removed = service.call("DELETE", "/v2/code-hosts/github", "", |_| {}).await;
    let again = service.call("DELETE", "/v2/code-hosts/github", "", |_| {}).await;
    assert_eq!(again.status.as_u16(), 204, "a repetition");
    assert_eq!((removed.status.as_u16(), removed.text.as_str()), (204, ""));
    assert_eq!(service.get("/v2/code-hosts/github").await.code(), "code_host_not_found");
}

#[tokio::test]
async fn each_error_in_a_code_host_has_its_code_and_names_the_field() {
    let service = service().await;
    let with = |field: &str, value: Value| {
        let mut body = github();
        body[field] = value;
        body.to_string()
    };
    for (body, named) in [
        (with("id", json!("A b")), "id: "),
        (with("kind", json!("sourcehut")), "kind: "),
        (with("url", json!("github.com")), "url must be"),
        (with("apiUrl", json!("https://evil.example")), "apiUrl must be"),
        (with("appId", json!(7)), "not both"),
        (with("webhookSecret", json!("")), "webhookSecret must"),
        (with("trustedBots", json!(["a b"])), "trustedBots must"),
        (with("tokens", json!("x")), "unknown field"),
    ] {
        let refused = service.post("/v2/code-hosts", &body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{body}: {refused:?}");
        assert!(refused.text.contains(named), "{named}: {refused:?}");
    }
    service.post("/v2/code-hosts", &github().to_string()).await;
    let exists = service.post("/v2/code-hosts", &github().to_string()).await;
    assert_eq!((exists.status.as_u16(), exists.code()), (409, "code_host_exists".to_owned()));
    let moved = put(&service, &json!({ "kind": "github", "url": "https://ghe.example" }), None).await;
    assert!(moved.status == 400 && moved.text.contains("token must be entered again"), "{moved:?}");
    for (method, path, body, code) in [
        ("PUT", "/v2/code-hosts/gitlab", r#"{"kind":"gitlab","url":"https://a.example"}"#, "code_host_configured"),
        ("DELETE", "/v2/code-hosts/gitlab", "", "code_host_configured"),
        ("DELETE", "/v2/code-hosts/none", "", "code_host_not_found"),
        ("POST", "/v2/code-hosts/none/check", "", "code_host_not_found"),
        ("GET", "/v2/code-hosts/A_B", "", "code_host_not_found"),
    ] {
        assert_eq!(service.call(method, path, body, |_| {}).await.code(), code, "{method} {path}");
    }
}

#[tokio::test]
async fn a_key_for_some_projects_does_not_see_code_hosts() {
    let service = service().await;
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    for (method, path, body) in [
        ("GET", "/v2/code-hosts", String::new()),
        ("GET", "/v2/code-hosts/gitlab", String::new()),
        ("POST", "/v2/code-hosts", github().to_string()),
        ("POST", "/v2/code-hosts/gitlab/check", String::new()),
    ] {
        let value = format!("Bearer {limited}").parse().unwrap();
        let refused = service
            .call(method, path, body, |request| drop(request.headers_mut().insert("authorization", value)))
            .await;
        assert_eq!((refused.status.as_u16(), refused.code()), (403, "key_limited".to_owned()), "{method} {path}");
    }
}

#[tokio::test]
async fn a_repeated_creation_gets_the_first_answer() {
    let service = service().await;
    let create = async || {
        service
            .call("POST", "/v2/code-hosts", github().to_string(), |request| {
                drop(request.headers_mut().insert("idempotency-key", "once".parse().unwrap()));
            })
            .await
    };
    let first = create().await;
    let second = create().await;
    assert_eq!((second.status, second.text.as_str()), (first.status, first.text.as_str()));
    assert_eq!(second.header("idempotent-replayed"), "true");
}
