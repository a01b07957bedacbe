//! Tests of the operations on projects and keys.

use journeyman_core::audit::AuditEntry;
use journeyman_core::ports::KeyStore;
use journeyman_core::time::Clock as _;
use serde_json::json;

use super::fixtures::{Answer, Service, service};

#[tokio::test]
async fn a_project_is_created_read_changed_and_deleted() {
    let service = service().await;
    let body = json!({
        "id": "web", "repository": "https://example.com/web.git", "ref": "main",
        "codeHost": {"token": "ghp_s3cret"}, "secrets": {"NPM_TOKEN": "s3cret"}, "environment": {"CI": "1"},
    });
    let made = service.post("/v2/projects", &body.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert!(!made.text.contains("s3cret"), "{}", made.text);
    let project = made.json();
    assert_eq!(project["secrets"], json!(["NPM_TOKEN"]));
    let host = json!({"kind": null, "host": null, "username": null, "hasToken": true, "hasWebhookSecret": false, "allowForcePush": false});
    assert_eq!(project["codeHost"], host);
    assert_eq!((project["agent"].clone(), project["model"].clone()), (json!("journeyman"), json!("test/scripted")));
    assert!(project["cloneUrl"].is_null());
    let mut limits: Vec<&str> = project["limits"].as_object().unwrap().keys().map(String::as_str).collect();
    limits.sort_unstable();
    assert_eq!(
        limits,
        [
            "automaticPerDay",
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
    assert_eq!(service.call("DELETE", "/v2/projects/web", "", |_| {}).await.status, 204, "a repetition");
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
        200
    );
    let lines = service.store.audit(None, 7).await.unwrap();
    let lines: Vec<String> =
        lines.iter().rev().map(|line| format!("{} {}", line.entry.action, line.entry.subject)).collect();
    assert_eq!(
        lines,
        [
            "project.created one (repository at 169.254.169.254, a cloud metadata service)",
            "project.created two (repository at links.example, which has the address 169.254.7.7, a link-local address)",
            "project.created three (repository at example.com, which cannot be resolved)",
            "project.changed three (repository at fe80::1, a link-local address)",
            "project.changed three",
            "repository.tested four (repository at metadata.google.internal, a cloud metadata service)",
            "repository.reached four (repository at metadata.google.internal (192.0.2.1))",
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
async fn a_rotated_key_has_a_new_secret_and_the_old_one_works_as_long_as_was_asked() {
    let service = service().await;
    for (body, overlap) in [("", 0), (r#"{"keepOldSeconds":3600}"#, 3600)] {
        let made = service.post("/v2/keys", r#"{"name":"ci","scopes":["jobs"]}"#).await.json();
        let (id, old) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap().to_owned());
        let path = format!("/v2/keys/{id}");
        let me = async |secret: &str| {
            let value = format!("Bearer {secret}").parse().unwrap();
            let change = |request: &mut axum::http::Request<axum::body::Body>| {
                request.headers_mut().insert("authorization", value);
            };
            service.call("GET", "/v2/me", "", change).await
        };
        assert_eq!(me(&old).await.status, 200);
        let rotated = service
            .call("POST", &format!("{path}/rotate"), body, |request| {
                request.headers_mut().insert("idempotency-key", "once".parse().unwrap());
                if body.is_empty() {
                    request.headers_mut().remove("content-type");
                }
            })
            .await;
        assert_eq!((rotated.status.as_u16(), rotated.header("cache-control")), (200, "no-store"), "{rotated:?}");
        let tag = rotated.header("etag").to_owned();
        let rotated = rotated.json();
        let new = rotated["secret"].as_str().unwrap().to_owned();
        assert_ne!(new, old);
        assert_eq!((&rotated["id"], &rotated["scopes"]), (&made["id"], &json!(["jobs"])), "{rotated}");
        assert!(new.starts_with(rotated["prefix"].as_str().unwrap()), "{rotated}");
        assert_eq!(rotated["oldSecretUntil"].is_null(), overlap == 0, "{rotated}");
        assert!(tag.starts_with("\"v2.") && rotated["etag"].is_null(), "{tag}: {rotated}");
        let stored = service.get(&path).await;
        assert!(stored.header("etag").starts_with("\"v2."), "{stored:?}");
        let shown = me(&new).await.json();
        assert_eq!((&shown["key"]["id"], &shown["key"]["prefix"]), (&made["id"], &rotated["prefix"]));
        if overlap > 0 {
            assert_eq!(me(&old).await.status, 200, "the old secret still works");
            service.world.advance(std::time::Duration::from_secs(overlap));
        }
        let refused = me(&old).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (401, "unknown_key".to_owned()));
        assert_eq!(me(&new).await.status, 200);
        // The next key of the loop uses the idempotency key for another request.
        service.world.advance(std::time::Duration::from_secs(24 * 3600));
    }
    let actions: Vec<String> =
        service.store.audit(None, 4).await.unwrap().into_iter().map(|line| line.entry.action).collect();
    assert_eq!(actions, ["key.rotated", "key.created", "key.rotated", "key.created"]);
}

#[tokio::test]
async fn a_rotation_that_is_repeated_or_not_possible_changes_nothing() {
    let service = service().await;
    let made = service.post("/v2/keys", r#"{"name":"ci"}"#).await.json();
    let path = format!("/v2/keys/{}", made["id"].as_str().unwrap());
    let rotate = async |path: &str, body: &'static str, header: Option<(&'static str, &str)>| {
        service
            .call("POST", &format!("{path}/rotate"), body, |request| {
                if let Some((name, value)) = header {
                    request.headers_mut().insert(name, value.parse().unwrap());
                }
            })
            .await
    };
    let once = Some(("idempotency-key", "once"));
    let first = rotate(&path, "{}", once).await;
    let again = rotate(&path, "{}", once).await;
    assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (200, "true"), "{again:?}");
    assert_eq!((&again.text, again.header("etag")), (&first.text, "\"v2.0\""));
    assert_eq!((first.header("etag"), service.get(&path).await.header("etag")), ("\"v2.0\"", "\"v2.0\""));
    let other = format!("/v2/keys/key_{}", "f".repeat(32));
    for (path, body, header, status, code) in [
        (&path, r#"{"keepOldSeconds":1}"#, once, 422, "idempotency_key_reused"),
        (&path, r#"{"keepOldSeconds":604801}"#, None, 400, "invalid_body"),
        (&path, r#"{"keepOldSeconds":-1}"#, None, 400, "invalid_body"),
        (&path, "[]", None, 400, "invalid_body"),
        (&path, "{}", Some(("content-type", "text/plain")), 415, "content_type_not_json"),
        (&path, "{}", Some(("if-match", "\"v1\"")), 412, "precondition_failed"),
        (&other, "{}", None, 404, "key_not_found"),
        (&"/v2/keys/x".to_owned(), "{}", None, 404, "key_not_found"),
    ] {
        let refused = rotate(path, body, header).await;
        assert_eq!((refused.status.as_u16(), &*refused.code()), (status, code), "{path} {body} {header:?}");
    }
    let untyped = service
        .call("POST", &format!("{path}/rotate"), "{}", |request| drop(request.headers_mut().remove("content-type")))
        .await;
    assert_eq!((untyped.status.as_u16(), untyped.code()), (415, "content_type_not_json".to_owned()));
    assert!(service.get(&path).await.header("etag").starts_with("\"v2."), "only the first rotation has an effect");
    assert_eq!(service.call("DELETE", &path, "", |_| {}).await.status, 204);
    let ended = rotate(&path, "{}", None).await;
    assert_eq!((ended.status.as_u16(), ended.code()), (409, "key_ended".to_owned()));
}

#[tokio::test]
async fn the_audit_log_is_listed_in_pages() {
    let service = service().await;
    for name in ["first", "second", "third"] {
        assert_eq!(service.post("/v2/keys", &json!({ "name": name }).to_string()).await.status, 201);
    }
    let (mut cursor, mut entries, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let page = service.get(&format!("/v2/audit?limit=2{cursor}")).await.json();
        entries.extend(page["entries"].as_array().unwrap().clone());
        pages += 1;
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let whole = service.get("/v2/audit").await.json();
    assert_eq!((&whole["entries"], &whole["nextCursor"]), (&json!(entries), &json!(null)));
    assert!(pages >= 2, "{entries:?}");
    let newest = &entries[0];
    assert_eq!(
        (&newest["action"], &newest["actorName"], &newest["address"]),
        (&json!("key.created"), &json!("ci"), &json!("192.0.2.1"))
    );
    let keys = service.get("/v2/keys").await.json();
    assert_eq!(newest["subject"], keys["keys"][0]["id"], "{newest}");
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    for (path, key, status, code) in [
        ("/v2/audit?limit=0", &service.key, 400, "invalid_query"),
        ("/v2/audit?cursor=x", &service.key, 400, "invalid_query"),
        ("/v2/audit", &limited, 403, "key_limited"),
        ("/v2/audit/export", &limited, 403, "key_limited"),
    ] {
        let value = format!("Bearer {key}").parse().unwrap();
        let refused =
            service.call("GET", path, "", |request| drop(request.headers_mut().insert("authorization", value))).await;
        assert_eq!((refused.status.as_u16(), &*refused.code()), (status, code), "{path}");
    }
}

#[tokio::test]
async fn the_whole_audit_log_is_exported_as_a_table_without_formulas() {
    let service = service().await;
    let note = async |number: u64, actor: &str| {
        let entry = AuditEntry {
            at: service.world.now(),
            actor: actor.to_owned(),
            action: "user.sign_in_failed".to_owned(),
            subject: number.to_string(),
            address: None,
        };
        service.store.note(entry).await.unwrap();
    };
    for number in 0..1_100 {
        note(number, "ada").await;
    }
    note(1_100, "=1+1, \"x\"\nnext").await;
    let table = service.get("/v2/audit/export").await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8; header=present");
    assert_eq!(table.header("content-disposition"), "attachment; filename=\"audit.csv\"");
    let (head, rest) = table.text.split_once("\r\n").unwrap();
    assert_eq!(head, "id,at,actor,actorName,action,subject,address");
    let first = ",\"'=1+1, \"\"x\"\"\nnext\",,user.sign_in_failed,1100,\r\n";
    assert!(rest.contains(first), "{}", &rest[..200]);
    let subjects: Vec<u64> = rest
        .lines()
        .filter(|line| line.contains(",ada,"))
        .map(|line| line.split(',').nth(5).unwrap().parse().unwrap())
        .collect();
    assert_eq!(subjects, (0..1_100).rev().collect::<Vec<_>>());
    assert_eq!(table.text.matches("actorName").count(), 1);
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
    assert_eq!(listed.json()["keys"][0].as_object().unwrap().len(), 11);

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
        json!({"name": "x", "allowedIps": null}),
        json!({"name": "x", "projects": null}),
        json!({"name": "x", "scopes": null}),
        json!({}),
    ] {
        let refused = service.post("/v2/keys", &body.to_string()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{body}");
    }
    let unknown = service.call("DELETE", &format!("/v2/keys/key_{}", "f".repeat(32)), "", |_| {}).await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (404, "key_not_found".to_owned()));
}

/// Sends a request with a header.
#[tokio::test]
async fn a_key_inherits_the_limits_of_the_key_that_creates_it_and_cannot_widen_them() {
    let service = service().await;
    let end = service.world.now() + std::time::Duration::from_secs(8);
    let nets = vec![journeyman_core::key::parse_network("192.0.2.0/24").unwrap()];
    let secret = service.make_key(|new| (new.expires_at, new.allowed_ips) = (Some(end), Some(nets))).await;
    let create = async |body: serde_json::Value| {
        let own = format!("Bearer {secret}").parse().unwrap();
        let change = |request: &mut axum::http::Request<axum::body::Body>| {
            request.headers_mut().insert("authorization", own);
        };
        service.call("POST", "/v2/keys", body.to_string(), change).await
    };
    let child = create(json!({"name": "child"})).await.json();
    assert_eq!((&child["expiresAt"], &child["allowedIps"]), (&json!(end.to_string()), &json!(["192.0.2.0/24"])));
    for (field, value) in
        [("expiresAt", json!(null)), ("expiresAt", json!("2099-01-01T00:00:00Z")), ("allowedIps", json!(["0.0.0.0/0"]))]
    {
        let refused = create(json!({"name": "wide", field: value})).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (403, "key_limited".to_owned()), "{field}: {refused:?}");
        assert!(refused.text.contains(field), "{refused:?}");
    }
}

async fn with(service: &Service, method: &str, path: &str, body: &str, header: (&'static str, &str)) -> Answer {
    let value = header.1.parse().unwrap();
    service.call(method, path, body.to_owned(), |request| drop(request.headers_mut().insert(header.0, value))).await
}

#[tokio::test]
async fn a_version_that_the_client_has_is_not_sent_again() {
    let service = service().await;
    let key = service.post("/v2/keys", r#"{"name":"ci"}"#).await;
    let path = key.header("location").to_owned();
    for path in ["/v2/projects/shop", &path] {
        let read = service.get(path).await;
        let tag = read.header("etag").to_owned();
        assert!(tag.starts_with("\"v1"), "{path}: {tag}");
        let again = with(&service, "GET", path, "", ("if-none-match", &tag)).await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{path}");
        assert_eq!(again.header("etag"), tag, "{path}");
        let other = with(&service, "GET", path, "", ("if-none-match", "\"v0\"")).await;
        assert_eq!((other.status.as_u16(), other.text), (200, read.text), "{path}");
    }
    let project = service.post("/v2/projects", r#"{"id":"web","repository":"local:web"}"#).await;
    for (created, tag) in [(&key, "\"v1.0\""), (&project, "\"v1\"")] {
        let read = service.get(created.header("location")).await;
        assert_eq!((created.header("etag"), read.header("etag")), (tag, tag), "{created:?}");
    }
}

#[tokio::test]
async fn a_change_with_if_match_is_refused_once_the_version_has_changed() {
    let service = service().await;
    let (path, patch) = ("/v2/projects/shop", r#"{"setup":"true"}"#);
    let read = service.get(path).await.header("etag").to_owned();
    let changed = with(&service, "PATCH", path, patch, ("if-match", &read)).await;
    assert_eq!((changed.status.as_u16(), changed.header("etag")), (200, "\"v2\""), "{changed:?}");
    for method in ["PATCH", "DELETE"] {
        let late = with(&service, method, path, patch, ("if-match", &read)).await;
        assert_eq!((late.status.as_u16(), late.code().as_str()), (412, "precondition_failed"), "{method}: {late:?}");
        let weak = with(&service, method, path, patch, ("if-match", "W/\"v2\"")).await;
        assert_eq!(weak.status.as_u16(), 412, "{method}: weak tags never match (RFC 9110, section 13.1.1)");
    }
    assert_eq!(service.get(path).await.header("etag"), "\"v2\"", "refused changes change nothing");
    let deleted = with(&service, "DELETE", path, "", ("if-match", "\"v1\", \"v2\"")).await;
    assert_eq!(deleted.status.as_u16(), 204, "{deleted:?}");

    let key = service.post("/v2/keys", r#"{"name":"ci"}"#).await.header("location").to_owned();
    let late = with(&service, "DELETE", &key, "", ("if-match", "\"v7\"")).await;
    assert_eq!((late.status.as_u16(), late.code().as_str()), (412, "precondition_failed"), "{late:?}");
    let tag = service.get(&key).await.header("etag").to_owned();
    assert_eq!(with(&service, "DELETE", &key, "", ("if-match", &tag)).await.status.as_u16(), 204);
}

#[tokio::test]
async fn a_repeated_creation_gets_the_first_response() {
    let service = service().await;
    let project = r#"{"id":"web","repository":"local:web"}"#;
    let key = r#"{"name":"ci","projects":["shop"]}"#;
    let job = r#"{"prompt":"x"}"#;
    for (name, path, body, other) in [
        ("project", "/v2/projects", project, r#"{"id":"web","repository":"local:other"}"#),
        ("key", "/v2/keys", key, r#"{"name":"other"}"#),
        ("job", "/v2/agent/shop/job", job, r#"{"prompt":"y"}"#),
    ] {
        let once = ("idempotency-key", name);
        let first = with(&service, "POST", path, body, once).await;
        assert_eq!((first.status.as_u16(), first.header("idempotent-replayed")), (201, ""), "{path}: {first:?}");
        let again = with(&service, "POST", path, body, once).await;
        assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (201, "true"), "{path}: {again:?}");
        assert_eq!(again.text, first.text, "{path}");
        for name in ["content-type", "location", "etag", "cache-control"] {
            assert_eq!(again.header(name), first.header(name), "{path}: {name}");
        }
        assert!(first.header("location").starts_with(path), "{path}: {first:?}");
        let reused = with(&service, "POST", path, other, once).await;
        assert_eq!((reused.status.as_u16(), reused.code().as_str()), (422, "idempotency_key_reused"), "{path}");
    }
    assert_eq!(service.get("/v2/keys").await.json()["keys"].as_array().unwrap().len(), 2, "with the service's key");
    assert_eq!(service.get("/v2/agent/shop/jobs").await.json()["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_repeated_action_on_a_job_is_carried_out_once() {
    let service = service().await;
    let job = service.job("x").await;
    for action in ["cancel", "archive", "unarchive", "retry"] {
        let path = format!("{job}/{action}");
        let first = with(&service, "POST", &path, "", ("idempotency-key", action)).await;
        assert_eq!((first.status.as_u16(), first.header("idempotent-replayed")), (200, ""), "{action}: {first:?}");
        let before = service.log_length(&job).await;
        let again = with(&service, "POST", &path, "", ("idempotency-key", action)).await;
        assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (200, "true"), "{action}: {again:?}");
        assert_eq!((again.text, service.log_length(&job).await), (first.text, before), "{action}");
    }
    let reused = with(&service, "POST", &format!("{job}/archive"), "", ("idempotency-key", "cancel")).await;
    assert_eq!((reused.status.as_u16(), reused.code().as_str()), (422, "idempotency_key_reused"), "{reused:?}");
}
