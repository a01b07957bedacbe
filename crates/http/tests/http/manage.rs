//! Tests of the operations on projects and keys.

use journeyman_core::ports::KeyStore;
use serde_json::json;

use super::given::service;

#[tokio::test]
async fn a_project_is_created_read_changed_and_deleted() {
    let service = service().await;
    let body = json!({
        "id": "web", "repository": "https://example.com/web.git", "ref": "main",
        "codeHost": {"token": "ghp_hush"}, "secrets": {"NPM_TOKEN": "hush"}, "environment": {"CI": "1"},
    });
    let made = service.post("/v2/projects", &body.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert!(!made.text.contains("hush"), "{}", made.text);
    let project = made.json();
    assert_eq!(project["secrets"], json!(["NPM_TOKEN"]));
    assert_eq!(project["codeHost"], json!({"kind": null, "username": null, "hasToken": true}));
    assert_eq!((project["agent"].clone(), project["model"].clone()), (json!("journeyman"), json!("test/scripted")));
    assert!(project["cloneUrl"].is_null());
    let mut limits: Vec<&str> = project["limits"].as_object().unwrap().keys().map(String::as_str).collect();
    limits.sort_unstable();
    assert_eq!(
        limits,
        [
            "budget",
            "concurrentRuns",
            "continuations",
            "cpuMillis",
            "createPerHour",
            "diskBytes",
            "fileBytes",
            "memoryBytes",
            "messagePerHour",
            "modelCalls",
            "outputBytes",
            "processes",
            "runSeconds"
        ],
        "every limit is present, even if it is not set"
    );
    assert_eq!(service.get("/v2/projects/web").await.json(), project);

    let twice = service.post("/v2/projects", &body.to_string()).await;
    assert_eq!((twice.status.as_u16(), twice.code()), (409, "project_exists".to_owned()));

    let patch = r#"{"ref":null,"setup":"npm ci","secrets":{"NPM_TOKEN":null}}"#;
    let changed = service.call("PATCH", "/v2/projects/web", patch, |_| {}).await.json();
    assert_eq!((changed["ref"].is_null(), changed["setup"].clone()), (true, json!("npm ci")));
    assert_eq!(changed["secrets"], json!([]));
    assert_eq!(changed["codeHost"]["hasToken"], true);

    let deleted = service.call("DELETE", "/v2/projects/web", "", |_| {}).await;
    assert_eq!((deleted.status.as_u16(), deleted.text.as_str()), (204, ""));
    assert_eq!(service.get("/v2/projects/web").await.code(), "project_not_found");
    assert_eq!(service.call("DELETE", "/v2/projects/web", "", |_| {}).await.status, 404);
}

#[tokio::test]
async fn only_an_administrator_can_use_a_link_local_or_metadata_address_and_it_is_audited() {
    let service = service().await;
    let body = |id: &str, repository: &str| json!({"id": id, "repository": repository}).to_string();
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    let limited_call = async |method: &str, path: &str, body: String| {
        let value = format!("Bearer {limited}").parse().unwrap();
        service.call(method, path, body, |request| drop(request.headers_mut().insert("authorization", value))).await
    };
    for path in ["/v2/projects", "/v2/repository/test"] {
        let refused = limited_call("POST", path, body("a", "http://169.254.169.254/x")).await;
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
    }
    let patch = r#"{"repository":"http://169.254.169.254/x"}"#.to_owned();
    assert_eq!(limited_call("PATCH", "/v2/projects/shop", patch).await.status, 403);

    assert_eq!(service.post("/v2/projects", &body("one", "http://2852039166/x")).await.status, 201);
    assert_eq!(service.post("/v2/projects", &body("two", "git@links.example:x.git")).await.status, 201);
    assert_eq!(service.post("/v2/projects", &body("three", "https://example.com/x")).await.status, 201);
    let patch = r#"{"repository":"ssh://git@[fe80::1]/x"}"#;
    assert_eq!(service.call("PATCH", "/v2/projects/three", patch, |_| {}).await.status, 200);
    assert_eq!(service.call("PATCH", "/v2/projects/three", r#"{"setup":"true"}"#, |_| {}).await.status, 200);
    assert_eq!(
        service.post("/v2/repository/test", &body("four", "http://metadata.google.internal/x")).await.status,
        204
    );
    let lines = service.store.audit(None, 6).await.unwrap();
    let lines: Vec<String> =
        lines.iter().rev().map(|line| format!("{} {}", line.entry.action, line.entry.subject)).collect();
    assert_eq!(
        lines,
        [
            "project.created one (repository at 169.254.169.254, a cloud metadata service)",
            "project.created two (repository at links.example, which has the address 169.254.7.7, a link-local address)",
            "project.created three",
            "project.changed three (repository at fe80::1, a link-local address)",
            "project.changed three",
            "repository.tested four (repository at metadata.google.internal, a cloud metadata service)",
        ]
    );
}

#[tokio::test]
async fn a_project_with_active_jobs_is_not_deleted() {
    let service = service().await;
    service.job("x").await;
    let refused = service.call("DELETE", "/v2/projects/shop", "", |_| {}).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "project_busy".to_owned()));
}

#[tokio::test]
async fn each_error_in_a_project_has_its_code() {
    let service = service().await;
    for (body, code) in [
        (json!({"id": "a", "repository": "nonsense"}), "invalid_body"),
        (json!({"id": "A", "repository": "local:a"}), "invalid_body"),
        (json!({"id": "a", "repository": "local:a", "agent": "nobody"}), "unknown_agent"),
        (
            json!({"id": "a", "repository": "local:a", "agent": "other", "sandbox": {"permissions": "refuse"}}),
            "unsupported_policy",
        ),
        (
            json!({"id": "a", "repository": "local:a", "sandbox": {"permissionKinds": {"fetch": "refuse"}}}),
            "unsupported_policy",
        ),
        (json!([]), "invalid_body"),
    ] {
        let refused = service.post("/v2/projects", &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, code.to_owned()), "{body}");
    }
    let deep = format!(r#"{{"id":"a","repository":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
    assert_eq!(service.post("/v2/projects", &deep).await.code(), "invalid_json");
    let broken = service.post("/v2/projects", r#"{"id":"a","repository":"local:broken"}"#).await;
    assert_eq!((broken.status.as_u16(), broken.code()), (500, "internal".to_owned()));
    assert!(!broken.text.contains("full disk"), "the cause is only for the log: {}", broken.text);
    assert_eq!(service.get("/v2/projects/a").await.status, 404);
}

#[tokio::test]
async fn the_secret_of_a_key_is_shown_once() {
    let service = service().await;
    let body = json!({"name": "ci", "scopes": ["read"], "projects": ["shop"], "expiresAt": null, "allowedIps": ["10.0.0.0/8"]});
    let made = service.post("/v2/keys", &body.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.header("cache-control"), "no-store");
    let key = made.json();
    let secret = key["secret"].as_str().unwrap();
    assert!(secret.starts_with("jmn_") && secret.len() == 42);
    assert_eq!(key["allowedIps"], json!(["10.0.0.0/8"]));
    assert!(key["expiresAt"].is_null());
    let listed = service.get("/v2/keys").await;
    assert!(!listed.text.contains(secret) && !listed.text.contains("secret"));
    assert_eq!(listed.json()["keys"].as_array().unwrap().len(), 2);
    assert_eq!(listed.json()["keys"][0].as_object().unwrap().len(), 10);

    let unknown = service.post("/v2/keys", r#"{"name":"x","projects":["shop","nowhere"]}"#).await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (404, "project_not_found".to_owned()));
    assert!(unknown.text.contains("nowhere"), "{}", unknown.text);
    let default = service.post("/v2/keys", r#"{"name":"short"}"#).await.json();
    assert_eq!(default["scopes"], json!(["write"]));
    assert_eq!(default["expiresAt"], "2027-04-15T08:00:00.000Z", "90 days after 2027-01-15");
    for body in [
        json!({"name": ""}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["admin"]}),
        json!({"name": "x", "projects": ["A"]}),
        json!({"name": "x", "expiresAt": "2020-01-01T00:00:00Z"}),
        json!({"name": "x", "expiresAt": "tomorrow"}),
        json!({"name": "x", "allowedIps": ["here"]}),
        json!({}),
    ] {
        let refused = service.post("/v2/keys", &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{body}");
    }
    let unknown = service.call("DELETE", &format!("/v2/keys/key_{}", "f".repeat(32)), "", |_| {}).await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (404, "key_not_found".to_owned()));
}
