//! Tests of users and their links.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::AUTHORIZATION;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::UserId;
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::ports::{KeyStore as _, UserStore as _};
use journeyman_core::time::Clock as _;
use journeyman_core::user::{Identity, PasswordHash, Session, TokenHash, User};
use journeyman_testkit::Seeds as _;
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

const USERS: &str = "/v2/users";
const LINK: &str = "http://localhost:8080/setup?link=";

fn path_of(user: &Value) -> String {
    format!("{USERS}/{}", user["id"].as_str().unwrap())
}

async fn create(service: &Service, name: &str, role: &str) -> Value {
    let made = service.post(USERS, &json!({"name": name, "role": role}).to_string()).await;
    assert_eq!(made.status.as_u16(), 201, "{made:?}");
    assert_eq!((made.header("location"), made.header("cache-control")), (path_of(&made.json()).as_str(), "no-store"));
    assert_eq!(service.get(&path_of(&made.json())).await.header("etag"), made.header("etag"));
    made.json()
}

async fn change(service: &Service, user: &Value, changes: &Value) -> Answer {
    service.call("PATCH", &path_of(user), changes.to_string(), |_| {}).await
}

/// Returns whether the store has a link.
async fn is_valid(service: &Service, url: &Value) -> bool {
    let token = url.as_str().unwrap().strip_prefix(LINK).unwrap();
    service.store.link(TokenHash::of(token)).await.unwrap().is_some()
}

/// Creates a key for all projects that belongs to a user, and returns its secret.
async fn key_of(service: &Service, user: &Value) -> String {
    let new =
        NewKey { name: "own".into(), scopes: vec![Scope::Write], projects: None, expires_at: None, allowed_ips: None };
    let owner = user["id"].as_str().unwrap();
    let made = new.make((owner, Some(owner.parse().unwrap())), service.world.now(), &*service.world);
    let (key, secret) = made.unwrap();
    let audit = AuditEntry {
        at: service.world.now(),
        actor: owner.to_owned(),
        action: "key.created".into(),
        subject: "x".into(),
        address: None,
    };
    service.store.create_key(key, audit).await.unwrap();
    secret
}

fn bearer(key: &str) -> impl FnOnce(&mut Request<Body>) + use<> {
    let value = format!("Bearer {key}").parse().unwrap();
    move |request| drop(request.headers_mut().insert(AUTHORIZATION, value))
}

fn header(name: &'static str, value: &str) -> impl FnOnce(&mut Request<Body>) + use<> {
    let value = value.parse().unwrap();
    move |request| drop(request.headers_mut().insert(name, value))
}

#[tokio::test]
async fn a_user_is_created_with_a_link_and_changed() {
    let service = service().await;
    let made = create(&service, "Ada@example.com", "viewer").await;
    assert!(is_valid(&service, &made["link"]["url"]).await, "{made}");
    let read = service.get(&path_of(&made)).await;
    let mut shown = made.clone();
    shown.as_object_mut().unwrap().remove("link");
    assert_eq!(read.json(), shown, "only the response to the creation has the link");
    let fields = ["name", "role", "hasPassword", "hasIdentity", "signedInAt", "disabledAt"].map(|name| &shown[name]);
    assert_eq!(
        fields,
        [&json!("ada@example.com"), &json!("viewer"), &json!(false), &json!(false), &Value::Null, &Value::Null]
    );
    assert_eq!(service.get(USERS).await.json(), json!({"users": [shown], "nextCursor": null}));

    let tag = read.header("etag").to_owned();
    let both = json!({"role": "member", "disabled": true}).to_string();
    let changed = service.call("PATCH", &path_of(&made), both.clone(), header("if-match", &tag)).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["role"]), (200, &json!("member")), "{changed:?}");
    assert!(changed.json()["disabledAt"].is_string(), "{changed:?}");
    assert_eq!(service.get(&path_of(&made)).await.header("etag"), changed.header("etag"));
    let stale = service.call("PATCH", &path_of(&made), both, header("if-match", &tag)).await;
    assert_eq!((stale.status.as_u16(), stale.code()), (412, "precondition_failed".to_owned()));
    assert!(!is_valid(&service, &made["link"]["url"]).await, "disabling deletes the links");
    let refused = service.post(format!("{}/link", path_of(&made)), "").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "user_disabled".to_owned()));

    let nothing = change(&service, &made, &json!({})).await;
    assert_eq!((nothing.status.as_u16(), nothing.header("etag")), (200, changed.header("etag")), "nothing changed");
    let enabled = change(&service, &made, &json!({"disabled": false})).await;
    assert_eq!((&enabled.json()["role"], &enabled.json()["disabledAt"]), (&json!("member"), &Value::Null));
    let mut actions: Vec<String> =
        service.store.audit(None, 100).await.unwrap().into_iter().map(|line| line.entry.action).collect();
    actions.retain(|action| action.starts_with("user."));
    let expected = ["user.enabled", "user.disabled", "user.role.member", "user.link", "user.created"];
    assert_eq!(actions, expected, "newest first, and refusals have no entry");
}

#[tokio::test]
async fn a_key_that_expires_makes_no_administrators() {
    let service = service().await;
    let end = service.world.now() + Duration::from_secs(60);
    let key = service.make_key(|new| new.expires_at = Some(end)).await;
    let call = async |method: &str, path: String, body: Value| {
        let answer = service.call(method, &path, body.to_string(), bearer(&key)).await;
        (answer.status.as_u16(), answer)
    };
    let (status, made) = call("POST", USERS.into(), json!({"name": "ada", "role": "member"})).await;
    assert_eq!(status, 201, "{made:?}");
    let (member, admin) = (made.json(), create(&service, "grace", "administrator").await);
    // Otherwise the first one is the last administrator.
    create(&service, "lin", "administrator").await;
    for (method, path, body) in [
        ("POST", USERS.to_owned(), json!({"name": "eve", "role": "administrator"})),
        ("PATCH", path_of(&member), json!({"role": "administrator"})),
        ("POST", format!("{}/link", path_of(&admin)), Value::Null),
    ] {
        let (status, refused) = call(method, path.clone(), body).await;
        assert_eq!((status, refused.code()), (403, "key_limited".to_owned()), "{method} {path}");
    }
    assert_eq!(call("PATCH", path_of(&admin), json!({"disabled": true})).await.0, 200, "it may take rights away");
    let (status, refused) = call("PATCH", path_of(&admin), json!({"disabled": false})).await;
    assert_eq!((status, refused.code()), (403, "key_limited".to_owned()));
    assert_eq!(call("POST", format!("{}/link", path_of(&member)), Value::Null).await.0, 200);
    assert_eq!(call("PATCH", path_of(&member), json!({"disabled": true})).await.0, 200);
    assert_eq!(call("PATCH", path_of(&member), json!({"disabled": false})).await.0, 200);
}

#[tokio::test]
async fn a_link_is_in_one_response_and_replaces_the_earlier_ones() {
    let service = service().await;
    let made = create(&service, "ada", "member").await;
    let path = format!("{}/link", path_of(&made));
    let second = service.post(&path, "").await;
    assert_eq!((second.status.as_u16(), second.header("cache-control")), (200, "no-store"), "{second:?}");
    let expires: journeyman_core::time::Timestamp = second.json()["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!(expires > service.world.now(), "{second:?}");
    assert!(!is_valid(&service, &made["link"]["url"]).await);
    assert!(is_valid(&service, &second.json()["url"]).await);
    for path in [USERS.to_owned(), path_of(&made), "/v2/audit".to_owned(), "/v2/audit/export".to_owned()] {
        let read = service.get(&path).await;
        assert!(!read.text.contains("link="), "{path}: {read:?}");
    }
    let unknown = service.post(format!("{USERS}/user_{}/link", "0".repeat(32)), "").await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (404, "user_not_found".to_owned()));
}

#[tokio::test]
async fn a_repeated_request_with_an_idempotency_key_gets_the_first_link() {
    let service = service().await;
    let body = r#"{"name":"ada"}"#;
    let send = |path: &str, body: &'static str, key: &str| {
        let (service, path, once) = (&service, path.to_owned(), header("idempotency-key", key));
        async move { service.call("POST", &path, body, once).await }
    };
    let (first, second) = (send(USERS, body, "a").await, send(USERS, body, "a").await);
    assert_eq!(first.json()["role"], "member", "the default");
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 201), "{second:?}");
    assert_eq!((first.header("idempotent-replayed"), second.header("idempotent-replayed")), ("", "true"));
    assert_eq!((second.json(), second.header("cache-control")), (first.json(), "no-store"));
    let other = send(USERS, r#"{"name":"bob"}"#, "a").await;
    assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency_key_reused".to_owned()));

    let path = format!("{}/link", path_of(&first.json()));
    let (first, second) = (send(&path, "", "b").await, send(&path, "", "b").await);
    assert_eq!((second.status.as_u16(), second.header("idempotent-replayed")), (200, "true"), "{second:?}");
    assert_eq!((second.json(), second.header("cache-control")), (first.json(), "no-store"));
    assert!(is_valid(&service, &second.json()["url"]).await, "the repetition has not replaced the link");
}

#[tokio::test]
async fn users_are_listed_in_pages_by_name() {
    let service = service().await;
    for name in ["eve", "ada", "bob"] {
        create(&service, name, "viewer").await;
    }
    let first = service.get(&format!("{USERS}?limit=2")).await.json();
    let names = |page: &Value| -> Vec<String> {
        page["users"].as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["ada", "bob"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = service.get(&format!("{USERS}?limit=2&cursor={cursor}")).await.json();
    assert_eq!((names(&second), &second["nextCursor"]), (vec!["eve".to_owned()], &Value::Null));
    let wrong = service.get(&format!("{USERS}?cursor=x")).await;
    assert_eq!((wrong.status.as_u16(), wrong.code()), (400, "invalid_query".to_owned()));
}

#[tokio::test]
async fn the_last_administrator_is_protected() {
    let service = service().await;
    let ada = create(&service, "ada", "administrator").await;
    for changes in [json!({"role": "member"}), json!({"disabled": true}), json!({"role": "viewer", "disabled": true})] {
        let refused = change(&service, &ada, &changes).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (409, "last_administrator".to_owned()), "{changes}");
        assert!(refused.text.contains("make another user an administrator first"), "{refused:?}");
    }
    create(&service, "bob", "administrator").await;
    assert_eq!(change(&service, &ada, &json!({"disabled": true})).await.status.as_u16(), 200);
    let refused = change(&service, &ada, &json!({"role": "member"})).await;
    assert_eq!(refused.status.as_u16(), 200, "a disabled administrator may not sign in: {refused:?}");
}

#[tokio::test]
async fn an_administrator_disconnects_a_user_who_has_a_password() {
    let service = service().await;
    let ada = create(&service, "ada", "member").await;
    let id: UserId = ada["id"].as_str().unwrap().parse().unwrap();
    let line = |action: &str| AuditEntry {
        at: service.world.now(),
        actor: id.to_string(),
        action: action.to_owned(),
        subject: id.to_string(),
        address: None,
    };
    let connected = change(&service, &ada, &json!({"hasIdentity": true})).await;
    assert_eq!((connected.status.as_u16(), connected.code()), (409, "identity_missing".to_owned()), "{connected:?}");
    assert_eq!(change(&service, &ada, &json!({"hasIdentity": false})).await.status.as_u16(), 200, "nothing changes");

    let identity = Identity { issuer: "https://id.example.com".to_owned(), subject: "7".to_owned() };
    service.store.connect_identity(id, identity, line("user.identity.connected")).await.unwrap();
    let refused = change(&service, &ada, &json!({"hasIdentity": false})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "password_missing".to_owned()), "{refused:?}");
    assert_eq!(change(&service, &ada, &json!({"hasIdentity": true})).await.status.as_u16(), 200, "nothing changes");

    let token = ada["link"]["url"].as_str().unwrap().strip_prefix(LINK).unwrap();
    let password = Some(PasswordHash("hash".to_owned()));
    let user = User { password: password.clone(), ..service.store.user(id).await.unwrap().unwrap() };
    service.store.use_link(TokenHash::of(token), user, line("user.password")).await.unwrap();
    let now = service.world.now();
    let hash = TokenHash([7; 32]);
    let session =
        Session { hash, user: id, created_at: now, seen_at: now, proven_at: Some(now), address: None, browser: None };
    service.store.start_session(session, password, line("session.started")).await.unwrap();
    let changed = change(&service, &ada, &json!({"hasIdentity": false})).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["hasIdentity"]), (200, &json!(false)), "{changed:?}");
    assert!(service.store.session(hash).await.unwrap().is_none(), "the session may have begun with the identity");
    let last = service.store.audit(None, 1).await.unwrap().remove(0).entry;
    assert_eq!((last.action.as_str(), last.subject), ("user.identity.disconnected", id.to_string()));
}

#[tokio::test]
async fn requests_that_are_not_valid_or_in_conflict_change_nothing() {
    let service = service().await;
    let ada = create(&service, "ada", "member").await;
    let taken = service.post(USERS, r#"{"name":" ADA "}"#).await;
    assert_eq!((taken.status.as_u16(), taken.code()), (409, "user_exists".to_owned()), "{taken:?}");
    for body in [r#"{"name":"a b"}"#, r#"{"name":""}"#, r#"{"name":"bob","role":"root"}"#, "{}"] {
        let refused = service.post(USERS, body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{body}");
    }
    for changes in [json!({"role": "root"}), json!({"disabled": "yes"})] {
        let refused = change(&service, &ada, &changes).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid_body".to_owned()), "{changes}");
    }
    for id in [format!("user_{}", "0".repeat(32)), "user_1".to_owned()] {
        let path = format!("{USERS}/{id}");
        for (method, body) in [("GET", ""), ("PATCH", "{}")] {
            let unknown = service.call(method, &path, body, |_| {}).await;
            assert_eq!(
                (unknown.status.as_u16(), unknown.code()),
                (404, "user_not_found".to_owned()),
                "{method} {path}"
            );
        }
    }
    assert_eq!(service.get(USERS).await.json()["users"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn only_a_key_for_all_projects_with_the_scope_write_manages_users() {
    let service = service().await;
    let ada = create(&service, "ada", "viewer").await;
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    let worker = service.make_key(|key| key.scopes = vec![Scope::Jobs]).await;
    let reader = service.make_key(|key| key.scopes = vec![Scope::Read]).await;
    let (path, link) = (path_of(&ada), format!("{}/link", path_of(&ada)));
    for (name, key, code) in
        [("limited", &limited, "key_limited"), ("jobs", &worker, "scope_missing"), ("read", &reader, "scope_missing")]
    {
        for (method, path, body) in [
            ("POST", USERS, r#"{"name":"eve","role":"administrator"}"#),
            ("PATCH", path.as_str(), r#"{"role":"administrator"}"#),
            ("POST", link.as_str(), ""),
        ] {
            let refused = service.call(method, path, body, bearer(key)).await;
            assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, code), "{name}: {method} {path}");
        }
    }
    for path in [USERS, path.as_str()] {
        assert_eq!(service.call("GET", path, "", bearer(&limited)).await.status.as_u16(), 403, "{path}");
        assert_eq!(service.call("GET", path, "", bearer(&reader)).await.status.as_u16(), 200, "{path}");
    }
    assert!(is_valid(&service, &ada["link"]["url"]).await);
    assert_eq!(service.get(USERS).await.json()["users"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_keys_of_a_user_end_with_the_rights_of_the_user() {
    let service = service().await;
    create(&service, "ada", "administrator").await;
    for (name, changes) in [("bob", json!({"disabled": true})), ("eve", json!({"role": "member"}))] {
        let bob = create(&service, name, "administrator").await;
        let own = key_of(&service, &bob).await;
        assert_eq!(service.call("GET", USERS, "", bearer(&own)).await.status.as_u16(), 200);
        // The key may take the rights from its own user.
        let changed = service.call("PATCH", &path_of(&bob), changes.to_string(), bearer(&own)).await;
        assert_eq!(changed.status.as_u16(), 200, "{changed:?}");
        let ended = service.call("GET", USERS, "", bearer(&own)).await;
        assert_eq!((ended.status.as_u16(), ended.code()), (401, "unknown_key".to_owned()), "{changes}");
    }
}
