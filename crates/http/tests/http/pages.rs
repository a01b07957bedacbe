//! Tests of the dashboard in the complete router: it accepts sessions and no keys, the interface accepts keys and no
//! sessions, and a form has the rights of its user.

use axum::body::Body;
use axum::http::Request;
use journeyman_core::audit::AuditEntry;
use journeyman_core::ids::UserId;
use journeyman_core::ports::{JobStore, KeyStore};
use journeyman_core::time::Clock;
use journeyman_core::user::{Role, Session, TokenHash, User};
use journeyman_testkit::Seeds as _;
use uuid::Uuid;

use super::fixtures::{Answer, Service, service};

async fn signed_in(service: &Service, role: Role) -> String {
    let now = service.world.now();
    let (actor, action, subject) = ("cli".to_owned(), "made".to_owned(), "test".to_owned());
    let line = AuditEntry { at: now, actor, action, subject, address: None };
    let user = User {
        id: UserId::from_uuid(Uuid::from_u128(1 + role as u128)),
        name: format!("a-{}", role.name()),
        role,
        password: None,
        identity: None,
        second_factor: None,
        passkeys: Default::default(),
        created_at: now,
        signed_in_at: None,
        disabled_at: None,
        version: 1,
    };
    service.store.create_user(user.clone(), line.clone()).await.unwrap();
    let token = format!("token-{}", role.name());
    let hash = TokenHash::of(&token);
    let session = Session {
        hash,
        user: user.id,
        created_at: now,
        seen_at: now,
        proven_at: Some(now),
        address: None,
        browser: None,
    };
    service.store.start_session(session, None, line).await.unwrap();
    token
}

async fn send(service: &Service, token: &str, method: &str, path: &str, form: &str) -> Answer {
    let cookie = format!("journeyman={token}").parse().unwrap();
    let with = |request: &mut Request<Body>| {
        let headers = request.headers_mut();
        headers.remove("authorization");
        headers.insert("cookie", cookie);
        headers.insert("origin", "http://localhost:8080".parse().unwrap());
        headers.insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
    };
    service.call(method, path, form.to_owned(), with).await
}

#[tokio::test]
async fn pages_accept_no_keys_and_the_interface_accepts_no_sessions() {
    let service = service().await;
    let page = service.get("/projects/shop/jobs").await;
    assert_eq!((page.status.as_u16(), page.header("location")), (303, "/login?next=%2Fprojects%2Fshop%2Fjobs"));
    let token = signed_in(&service, Role::Administrator).await;
    for path in ["/v2/projects", "/git/shop.git/info/refs?service=git-upload-pack"] {
        assert_eq!(send(&service, &token, "GET", path, "").await.status, 401, "{path}");
    }
    assert_eq!(send(&service, &token, "GET", "/projects/shop/jobs", "").await.status, 200);
}

#[tokio::test]
async fn a_job_that_is_created_on_a_page_has_its_user_as_author() {
    let service = service().await;
    let token = signed_in(&service, Role::Member).await;
    let sent = send(&service, &token, "POST", "/projects/shop/jobs", "prompt=Fix+it&once=k1").await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let again = send(&service, &token, "POST", "/projects/shop/jobs", "prompt=Fix+it&once=k1").await;
    assert_eq!(again.header("location"), sent.header("location"), "a form that is sent twice creates one job");
    let id = sent.header("location").rsplit('/').next().unwrap().parse().unwrap();
    let messages = service.store.messages(id).await.unwrap();
    let origin = serde_json::to_value(messages[0].origin).unwrap();
    assert_eq!((messages[0].author.as_deref(), origin), (Some("a-member"), "dashboard".into()));
}

#[tokio::test]
async fn a_user_s_role_limits_which_keys_the_user_manages() {
    let service = service().await;
    let member = signed_in(&service, Role::Member).await;
    let form = "name=ci&scope=write&days=30&project=shop";
    let page = send(&service, &member, "POST", "/keys", form).await;
    assert!(page.status == 303 && page.header("location").starts_with("/secrets/"), "{page:?}");
    let keys = service.store.keys().await.unwrap();
    let own =
        keys.iter().find(|key| key.name == "ci" && key.creator.as_deref().is_some_and(|by| by.starts_with("usr_")));
    let own = own.expect("the key has a creator");
    assert_eq!(own.projects.as_ref().map(Vec::len), Some(1));
    let refused = send(&service, &member, "POST", "/keys", "name=all&scope=write&days=30").await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let others = keys.iter().find(|key| key.id != own.id).unwrap();
    let path = format!("/keys/{}/revoke", others.id);
    assert_eq!(send(&service, &member, "POST", &path, "").await.status, 404, "the key of another user is not visible");
    assert_eq!(send(&service, &member, "POST", &format!("/keys/{}/revoke", own.id), "").await.status, 303);

    let administrator = signed_in(&service, Role::Administrator).await;
    assert_eq!(send(&service, &administrator, "POST", &path, "").await.status, 303);
    let lines = service.store.audit(None, 2).await.unwrap();
    assert_eq!(lines[0].entry.action, "key.revoked");
    assert!(lines[0].entry.actor.starts_with("usr_"), "{lines:?}");
}

#[tokio::test]
async fn an_unreadable_repository_is_reported_before_the_project_is_created() {
    let service = service().await;
    let token = signed_in(&service, Role::Administrator).await;
    let form = "id=gone&where=remote&repository=https://gone.example/a.git";
    let refused = send(&service, &token, "POST", "/projects", form).await;
    assert_eq!(refused.status, 422);
    assert!(
        refused.text.contains("The repository does not exist.") && refused.text.contains("name=\"untested\""),
        "{refused:?}"
    );
    let made = send(&service, &token, "POST", "/projects", &format!("{form}&untested=on")).await;
    assert_eq!((made.status.as_u16(), made.header("location")), (303, "/projects/gone/jobs?done=created"));
    for (path, body, status) in [
        ("/v2/repository/test", r#"{"id":"a","repository":"https://gone.example/a.git"}"#, 422),
        ("/v2/repository/test", r#"{"id":"a","repository":"local:a"}"#, 200),
        ("/v2/repository/test", r#"{"id":"shop","repository":"local:a"}"#, 409),
        ("/v2/projects/shop/test", r#"{"repository":"https://gone.example/a.git"}"#, 422),
        ("/v2/projects/shop/test", r#"{"codeHost":{"token":"x"}}"#, 200),
        ("/v2/projects/nowhere/test", "{}", 404),
    ] {
        let answer = service.post(path, body).await;
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
    }
}

#[tokio::test]
async fn a_message_from_a_page_has_the_trace_context_of_its_request() {
    let service = service().await;
    let token = signed_in(&service, Role::Member).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let with = |request: &mut Request<Body>| {
        let headers = request.headers_mut();
        headers.remove("authorization");
        headers.insert("cookie", format!("journeyman={token}").parse().unwrap());
        headers.insert("origin", "http://localhost:8080".parse().unwrap());
        headers.insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
        headers.insert("traceparent", parent.parse().unwrap());
    };
    let sent = service.call("POST", "/projects/shop/jobs", "prompt=x", with).await;
    assert_eq!(sent.status.as_u16(), 303, "{sent:?}");
    let id = sent.header("location").rsplit('/').next().unwrap().parse().unwrap();
    let messages = service.store.messages(id).await.unwrap();
    let stored = messages[0].traceparent.as_ref().map(|context| context.as_str());
    assert_eq!(stored, Some(parent), "without an exporter, it is the context of the client");
}
