//! Tests of authentication and permissions.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use journeyman_core::key::{Scope, parse_network};
use journeyman_core::ports::ClientConnection;
use journeyman_testkit::until_async;

use super::fixtures::{Answer, Service, service};

const JOBS: &str = "/v2/agent/shop/jobs";

fn bearer(key: &str) -> impl FnOnce(&mut Request<Body>) {
    let value = format!("Bearer {key}").parse().unwrap();
    move |request| drop(request.headers_mut().insert("authorization", value))
}

async fn with(service: &Service, method: &str, path: &str, key: &str) -> Answer {
    service.call(method, path, r#"{"prompt":"x"}"#, bearer(key)).await
}

#[tokio::test]
async fn a_request_without_a_usable_key_gets_401_and_the_reason() {
    let service = service().await;
    let expired = service.make_key(|key| key.expires_at = Some("2027-01-15T09:00:00Z".parse().unwrap())).await;
    service.world.advance(Duration::from_secs(365 * 24 * 3600));
    let mut damaged = service.key.clone();
    damaged.replace_range(10..11, if &damaged[10..11] == "x" { "y" } else { "x" });
    let unknown = "jmn_00000000000000000000000000000000".to_owned();
    for (key, code) in [(damaged, "malformed_key"), (unknown, "malformed_key"), (expired, "expired_key")] {
        let answer = with(&service, "GET", JOBS, &key).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (401, code.to_owned()));
        assert!(answer.header("www-authenticate").starts_with("Bearer"), "{answer:?}");
        assert!(!answer.text.contains(&key), "the key is in {answer:?}");
    }
    let none = service.call("GET", JOBS, "", |request| drop(request.headers_mut().remove("authorization"))).await;
    assert_eq!((none.status.as_u16(), none.code()), (401, "no_key".to_owned()));
}

#[tokio::test]
async fn unknown_and_revoked_keys_get_the_same_error() {
    let service = service().await;
    let keys = service.get("/v2/keys").await.json();
    let other = service.post("/v2/keys", r#"{"name":"other"}"#).await.json();
    let (id, secret) = (other["id"].as_str().unwrap(), other["secret"].as_str().unwrap());
    assert_eq!(with(&service, "GET", JOBS, secret).await.status, 200);
    let deleted = service.call("DELETE", &format!("/v2/keys/{id}"), "", |_| {}).await;
    assert_eq!((deleted.status.as_u16(), deleted.text.as_str()), (204, ""));
    let revoked = with(&service, "GET", JOBS, secret).await;
    // A key of the right form that another installation made.
    let elsewhere = super::fixtures::service().await;
    for _ in 0..9 {
        elsewhere.make_key(|_| {}).await;
    }
    let stranger = elsewhere.make_key(|key| key.name = "x".into()).await;
    let unknown = with(&service, "GET", JOBS, &stranger).await;
    assert_eq!(revoked.code(), "unknown_key");
    assert_eq!((unknown.status.as_u16(), unknown.code()), (401, "unknown_key".to_owned()));
    assert_eq!(revoked.json()["error"], unknown.json()["error"]);
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_with_the_read_scope_cannot_write() {
    let service = service().await;
    let job = service.job("x").await;
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    for (method, path) in [("GET", JOBS), ("HEAD", JOBS), ("GET", &*job), ("GET", "/v2/projects"), ("GET", "/v2/keys")]
    {
        assert_eq!(with(&service, method, path, &reader).await.status, 200, "{method} {path}");
    }
    for (method, path) in [
        ("POST", "/v2/agent/shop/job".to_owned()),
        ("POST", format!("{job}/message")),
        ("POST", format!("{job}/cancel")),
        ("POST", "/v2/keys".to_owned()),
        ("PATCH", "/v2/projects/shop".to_owned()),
        ("DELETE", "/v2/projects/shop".to_owned()),
    ] {
        let answer = with(&service, method, &path, &reader).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (403, "scope_missing".to_owned()), "{method} {path}");
    }
}

#[tokio::test]
async fn a_key_with_the_jobs_scope_works_with_jobs_and_changes_nothing_else() {
    let service = service().await;
    let job = service.job("x").await;
    let worker = service.make_key(|key| key.scopes = vec![Scope::Jobs]).await;
    let send =
        async |method: &str, path: &str, body: &'static str| service.call(method, path, body, bearer(&worker)).await;
    for (method, path, body, expected) in [
        ("GET", "/v2/projects", "", 200),
        ("GET", &*job, "", 200),
        ("POST", "/v2/agent/shop/job", r#"{"prompt":"x"}"#, 201),
        ("POST", &format!("{job}/message"), r#"{"prompt":"y"}"#, 200),
        ("POST", &format!("{job}/retry"), "", 200),
        ("POST", &format!("{job}/cancel"), "", 200),
    ] {
        assert_eq!(send(method, path, body).await.status, expected, "{method} {path}");
    }
    let sent = service.post(&format!("{job}/message"), r#"{"prompt":"z"}"#).await;
    assert_eq!(sent.status, 200);
    let messages = service.get(&format!("{job}/messages")).await.json();
    let queued = messages["messages"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(send("DELETE", &format!("{job}/message/{queued}"), "").await.status, 200);
    for (method, path, body) in [
        ("POST", &*format!("{job}/archive"), ""),
        ("POST", &format!("{job}/unarchive"), ""),
        ("POST", "/v2/keys", r#"{"name":"more"}"#),
        ("POST", "/v2/projects", r#"{"id":"more","repository":"local:more"}"#),
        ("PATCH", "/v2/projects/shop", "{}"),
        ("DELETE", "/v2/projects/shop", ""),
    ] {
        let answer = send(method, path, body).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (403, "scope_missing".to_owned()), "{method} {path}");
        assert!(answer.text.contains(r#"the scope \"write\""#), "{method} {path}: {}", answer.text);
    }
    let push = send("GET", "/git/shop.git/info/refs?service=git-receive-pack", "").await;
    assert_eq!(push.status, 403, "{push:?}");
}

#[tokio::test]
async fn a_key_can_be_asked_what_it_may_do() {
    let service = service().await;
    for (scope, is_limited, manages) in [
        (Scope::Write, false, true),
        (Scope::Write, true, false),
        (Scope::Jobs, false, false),
        (Scope::Read, true, false),
    ] {
        let secret = service
            .make_key(|key| {
                key.scopes = vec![scope];
                key.projects = is_limited.then(|| vec!["shop".parse().unwrap()]);
            })
            .await;
        let me = with(&service, "GET", "/v2/me", &secret).await;
        assert!(me.header("etag").starts_with("\"v1."), "{me:?}");
        let me = me.json();
        assert_eq!(me["key"]["scopes"], serde_json::json!([scope.name()]), "{me}");
        assert_eq!((&me["managesProjects"], me["key"]["projects"].is_null()), (&manages.into(), !is_limited), "{me}");
        assert!(secret.starts_with(me["key"]["prefix"].as_str().unwrap()), "{me}");
    }
}

#[tokio::test]
async fn the_agents_that_jobs_can_name_are_listed() {
    let service = service().await;
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    let answer = with(&service, "GET", "/v2/agents", &reader).await;
    let (tag, listed) = (answer.header("etag").to_owned(), answer.json());
    let again = service
        .call("GET", "/v2/agents", "", |request| {
            bearer(&reader)(request);
            request.headers_mut().insert("if-none-match", tag.parse().unwrap());
        })
        .await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    let expected = serde_json::json!({"agents": [
        {"id": "journeyman", "name": "journeyman", "dialects": [], "asks": ["edit", "execute"], "resumes": true},
        {"id": "other", "name": "other", "dialects": [], "asks": [], "resumes": true},
    ]});
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn a_limited_key_sees_its_projects_and_others_do_not_exist_for_it() {
    let service = service().await;
    let job = service.job("x").await;
    let made = service.post("/v2/projects", r#"{"id":"bakery","repository":"local:bakery"}"#).await;
    assert_eq!(made.status, 201);
    let baker = service.make_key(|key| key.projects = Some(vec!["bakery".parse().unwrap()])).await;
    let listed = with(&service, "GET", "/v2/projects", &baker).await.json();
    assert_eq!(listed["projects"].as_array().unwrap().len(), 1);
    assert_eq!(listed["projects"][0]["id"], "bakery");

    let hidden = with(&service, "GET", "/v2/projects/shop", &baker).await;
    let missing = with(&service, "GET", "/v2/projects/nowhere", &baker).await;
    assert_eq!((hidden.status.as_u16(), hidden.json()["error"].clone()), (404, missing.json()["error"].clone()));
    let other_path = job.replace("shop", "bakery");
    for (method, path) in [
        ("GET", job.clone()),
        ("POST", format!("{job}/message")),
        ("GET", other_path.clone()),
        ("POST", format!("{other_path}/message")),
        ("POST", format!("{other_path}/cancel")),
        ("GET", format!("{other_path}/messages")),
        ("GET", format!("{other_path}/events")),
        ("GET", format!("{other_path}/diff")),
    ] {
        assert_eq!(with(&service, method, &path, &baker).await.status, 404, "{method} {path}");
    }
    for (method, path) in [("GET", "/v2/keys"), ("POST", "/v2/keys"), ("DELETE", "/v2/keys/key_1")] {
        let answer = with(&service, method, path, &baker).await;
        assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
    }
    // With another repository in its project, the key could read a repository that it may not see.
    for (method, path, body) in [
        ("PATCH", "/v2/projects/bakery", r#"{"repository":"local:shop"}"#),
        ("POST", "/v2/projects", r#"{"id":"bakery","repository":"local:shop"}"#),
        ("POST", "/v2/projects", r#"{"id":"cellar","repository":"local:cellar"}"#),
        ("DELETE", "/v2/projects/bakery", ""),
    ] {
        let refused = service.call(method, path, body, bearer(&baker)).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (403, "key_limited".to_owned()), "{method} {path}");
    }
    assert_eq!(with(&service, "GET", "/v2/projects/bakery", &baker).await.json()["repository"], "local:bakery");
}

#[tokio::test]
async fn a_key_with_an_ip_allowlist_is_refused_from_other_addresses() {
    let service = service().await;
    let fixed = service.make_key(|key| key.allowed_ips = Some(vec![parse_network("192.0.2.0/24").unwrap()])).await;
    assert_eq!(with(&service, "GET", JOBS, &fixed).await.status, 200);
    let from = |peer: &'static str, forwarded: &'static str| {
        let key = bearer(&fixed);
        move |request: &mut Request<Body>| {
            key(request);
            let peer: std::net::SocketAddr = peer.parse().unwrap();
            request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
            request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        }
    };
    for (peer, forwarded, status) in [
        ("203.0.113.1:1", "192.0.2.7", 403),
        ("10.0.0.1:1", "192.0.2.7", 200),
        ("10.0.0.1:1", "192.0.2.7, 203.0.113.1", 403),
        ("10.0.0.1:1", "nonsense", 403),
    ] {
        let answer = service.call("GET", JOBS, "", from(peer, forwarded)).await;
        assert_eq!(answer.status, status, "{peer} {forwarded}");
    }
}

#[tokio::test]
async fn a_foreign_origin_is_refused_and_no_response_allows_it() {
    let service = service().await;
    for (origin, status) in [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost:9999", 403),
        ("http://localhost:8080", 200),
        ("http://127.0.0.1:8080", 200),
    ] {
        let answer = service
            .call("GET", JOBS, "", |request| drop(request.headers_mut().insert("origin", origin.parse().unwrap())))
            .await;
        assert_eq!(answer.status, status, "{origin}");
        assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")), "{answer:?}");
        if status == 403 {
            assert_eq!(answer.code(), "foreign_origin");
        }
    }
}

#[tokio::test]
async fn git_may_send_the_key_as_a_password() {
    let service = service().await;
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    let basic = |key: &str| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("me:{key}"));
        let value = format!("Basic {pair}").parse().unwrap();
        move |request: &mut Request<Body>| drop(request.headers_mut().insert("authorization", value))
    };
    let fetch = service.call("POST", "/git/shop.git/git-upload-pack", "", basic(&reader)).await;
    assert_eq!((fetch.status.as_u16(), fetch.text.as_str()), (200, "POST shop/git-upload-pack by ci"));
    assert_eq!(fetch.header("x-git"), "1");
    let push = service.call("POST", "/git/shop.git/git-receive-pack", "", basic(&reader)).await;
    assert_eq!(push.status, 403);
    let push = service.call("POST", "/git/shop.git/git-receive-pack", "", basic(&service.key)).await;
    assert_eq!(push.status, 200);
    let nothing = service.call("POST", "/git/shop.git/nothing", "", basic(&service.key)).await;
    assert_eq!((nothing.status.as_u16(), nothing.code()), (404, "repository_not_found".to_owned()));
    let elsewhere = service.call("POST", "/git/nowhere.git/git-upload-pack", "", basic(&service.key)).await;
    assert_eq!(elsewhere.status, 404);

    let path = "/git/shop.git/info/refs";
    let answer = service.call("GET", path, "", |request| drop(request.headers_mut().remove("authorization"))).await;
    assert_eq!(answer.status, 401, "{path}");
    assert!(answer.header("www-authenticate").starts_with("Basic"), "git asks for a password");
    let api = service.call("GET", JOBS, "", basic(&service.key)).await;
    assert_eq!(api.status, 401, "the interface accepts no password, because browsers send passwords automatically");
}

#[tokio::test]
async fn the_last_use_of_a_key_is_stored() {
    let service = service().await;
    service.get(JOBS).await;
    until_async("the last use is stored", async || {
        let keys = service.get("/v2/keys").await.json();
        keys["keys"][0]["lastUsedAt"].is_string().then_some(())
    })
    .await;
}

#[derive(Default)]
struct RecordingConnection(std::sync::Mutex<Vec<bool>>);

impl ClientConnection for RecordingConnection {
    fn set_authenticated(&self, authenticated: bool) {
        self.0.lock().unwrap().push(authenticated);
    }
}

#[tokio::test]
async fn the_connection_of_each_request_is_marked_as_authenticated_or_not() {
    let service = service().await;
    let damaged = "jmn_00000000000000000000000000000000";
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    for (method, path, key, expected) in [
        ("GET", JOBS, service.key.as_str(), &[true][..]),
        ("GET", JOBS, damaged, &[false]),
        ("GET", "/git/shop.git/info/refs?service=git-upload-pack", damaged, &[false]),
        // The key is valid, but lacks the scope for this request.
        ("POST", "/v2/agent/shop/job", &reader, &[]),
        ("GET", "/healthz", damaged, &[]),
        ("GET", "/login", &service.key, &[]),
        // Pages require a session.
        ("GET", "/projects", &service.key, &[false]),
    ] {
        let recorded = std::sync::Arc::new(RecordingConnection::default());
        let connection = std::sync::Arc::clone(&recorded) as std::sync::Arc<dyn ClientConnection>;
        service
            .call(method, path, r#"{"prompt":"x"}"#, |request| {
                bearer(key)(request);
                request.extensions_mut().insert(connection);
            })
            .await;
        assert_eq!(*recorded.0.lock().unwrap(), expected, "{method} {path} {key}");
    }
}

#[tokio::test]
async fn the_document_says_which_key_each_operation_needs() {
    let service = service().await;
    let hook = service.post("/v2/projects/shop/webhooks", r#"{"url":"https://hooks.example/"}"#).await.json();
    let hook = hook["id"].as_str().unwrap().to_owned();
    let job = service.job("x").await;
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    let worker = service.make_key(|key| key.scopes = vec![Scope::Jobs]).await;
    let document = journeyman_http::document("1");
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let needed = &operation["x-required-key"];
            // A stream does not end.
            if path.ends_with("/stream") || operation["operationId"] == "exchangeToken" {
                continue;
            }
            let id = match path {
                _ if path.contains("/webhooks/") => hook.as_str(),
                _ if path.starts_with("/v2/agent/") => job.rsplit('/').next().unwrap(),
                _ => "job_1",
            };
            let path = path.replace("{projectId}", "shop").replace("{id}", id).replace("{deliveryId}", "1");
            let path = path.replace("{messageId}", "msg_1").replace("{codeHost}", "gitlab").replace("{number}", "1");
            let body = operation.pointer("/requestBody/content/application~1json/example");
            let body = body.map_or_else(String::new, ToString::to_string);
            let scope = needed["scope"].as_str().unwrap();
            for (name, key, is_refused) in [
                ("limited", &limited, needed["allProjects"] == true),
                ("read", &reader, scope != "read"),
                ("jobs", &worker, scope == "write"),
            ] {
                let method = method.to_ascii_uppercase();
                let call = service.call(&method, &path, body.clone(), |request| {
                    // Without it, the answer for the events of a job is a stream, which does not end.
                    request.headers_mut().insert("accept", "application/json".parse().unwrap());
                    bearer(key)(request);
                });
                let answer = call.await;
                assert_eq!(answer.status == 403, is_refused, "{method} {path} with the key {name}: {answer:?}");
                if is_refused {
                    // The permission counts first, whatever else is wrong with the request.
                    let path = format!("{path}?limit=x&state=x&cursor=x");
                    let broken = service.call(&method, &path, "{", |request| {
                        request.headers_mut().insert("idempotency-key", "".parse().unwrap());
                        bearer(key)(request);
                    });
                    assert_eq!(broken.await.status, 403, "{method} {path} with the key {name}");
                }
            }
        }
    }
}
