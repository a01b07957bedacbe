//! Who may do what: each page and each form, for each role.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use journeyman_core::ports::{KeyStore, UserStore};
use journeyman_core::pull::PullState;
use journeyman_core::user::Role;
use serde_json::json;

use super::pulls::{Fake, detail};
use super::{House, house, job};

/// What an administrator, a member and a viewer get.
const PAGES: &[(&str, [u16; 3])] = &[
    ("/", [303, 303, 303]),
    ("/projects", [200, 200, 200]),
    ("/projects/new", [200, 403, 403]),
    ("/projects/shop", [303, 303, 303]),
    ("/projects/nowhere/jobs", [404, 404, 404]),
    ("/projects/shop/jobs", [200, 200, 200]),
    ("/projects/shop/jobs/new", [200, 200, 403]),
    ("/projects/shop/jobs/JOB", [200, 200, 200]),
    ("/projects/shop/jobs/job_nowhere", [404, 404, 404]),
    ("/projects/shop/jobs/JOB/changes", [200, 200, 200]),
    ("/projects/shop/jobs/JOB/runs", [200, 200, 200]),
    ("/projects/shop/jobs/JOB/events", [200, 200, 200]),
    ("/projects/shop/jobs/JOB/record", [200, 200, 200]),
    ("/projects/shop/pulls", [200, 200, 200]),
    ("/projects/shop/pulls/7", [200, 200, 200]),
    ("/projects/shop/settings/repository", [200, 200, 200]),
    ("/projects/shop/settings/agent", [200, 200, 200]),
    ("/projects/shop/settings/environment", [200, 200, 200]),
    ("/projects/shop/settings/sandbox", [200, 200, 200]),
    ("/projects/shop/settings/pull-requests", [200, 200, 200]),
    ("/projects/shop/settings/limits", [200, 200, 200]),
    ("/projects/shop/settings/use", [200, 200, 200]),
    ("/projects/shop/settings/nothing", [404, 404, 404]),
    ("/keys", [200, 200, 403]),
    ("/keys/new", [200, 200, 403]),
    ("/system", [200, 200, 200]),
    ("/users", [200, 403, 403]),
    ("/audit", [200, 403, 403]),
    ("/account", [200, 200, 200]),
];

const FORMS: &[(&str, &str, [u16; 3])] = &[
    ("/projects", "id=a&where=hosted", [303, 403, 403]),
    ("/projects/shop/delete", "id=shop", [303, 403, 403]),
    ("/projects/shop/settings/agent", "agent=journeyman&model=m", [303, 403, 403]),
    ("/projects/shop/settings/repository", "repository=local:shop", [303, 403, 403]),
    ("/projects/shop/jobs", "prompt=x", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/messages", "prompt=x", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/messages/msg_1/withdraw", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/retry", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/cancel", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/archive", "", [303, 303, 403]),
    ("/projects/shop/jobs/JOB/unarchive", "", [303, 303, 403]),
    ("/projects/shop/pulls/7/merge", "", [303, 303, 403]),
    ("/projects/shop/pulls/7/close", "", [303, 303, 403]),
    ("/projects/shop/pulls/7/comments", "body=x", [303, 303, 403]),
    ("/keys", "name=x", [200, 200, 403]),
    ("/keys/key_1/revoke", "", [303, 303, 403]),
    ("/users", "name=bob&role=member", [200, 403, 403]),
    ("/users/VIEWER/role", "role=viewer", [303, 403, 403]),
    ("/users/VIEWER/link", "", [200, 403, 403]),
    ("/users/VIEWER/disable", "", [303, 403, 403]),
    ("/users/VIEWER/enable", "", [303, 403, 403]),
];

async fn with_job() -> (House, String) {
    let house = house(Arc::new(Fake::with(detail(PullState::Open)))).await;
    let id = job::given(&house, "Fix the typo").await;
    (house, id.to_string())
}

#[tokio::test]
async fn each_page_is_for_those_whom_it_is_for() {
    let (house, id) = with_job().await;
    for (path, expected) in PAGES {
        let path = path.replace("JOB", &id);
        for (role, expected) in Role::ALL.into_iter().zip(expected) {
            let page = house.send(Some(role), Method::GET, &path, "").await;
            assert_eq!(page.status.as_u16(), *expected, "{path} for {}: {}", role.name(), page.body);
            if page.status == StatusCode::OK {
                assert!(page.body.contains("<h1"), "{path}: a page has a heading");
            }
        }
        let page = house.send(None, Method::GET, &path, "").await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path} for nobody");
    }
}

#[tokio::test]
async fn each_form_is_for_those_whom_it_is_for() {
    for (path, form, expected) in FORMS {
        for (role, expected) in Role::ALL.into_iter().zip(expected) {
            let (house, id) = with_job().await;
            house.answers(StatusCode::OK, json!({"id": "x", "name": "x", "secret": "jmn_x"}));
            let viewer = house.store.user_by_name("viewer".into()).await.unwrap().unwrap();
            let path = path.replace("JOB", &id).replace("VIEWER", &viewer.id.to_string());
            let before = house.store.audit(None, 100).await.unwrap().len();
            let answer = house.send(Some(role), Method::POST, &path, form).await;
            assert_eq!(answer.status.as_u16(), *expected, "{path} by {}: {}", role.name(), answer.body);
            if *expected == 403 {
                assert!(house.calls().is_empty(), "{path} by {}", role.name());
                assert_eq!(house.store.audit(None, 100).await.unwrap().len(), before, "{path} by {}", role.name());
            }
        }
    }
}

#[tokio::test]
async fn what_the_interface_refuses_is_told_and_what_was_typed_stays() {
    let (house, id) = with_job().await;
    house.answers(StatusCode::BAD_REQUEST, json!({"error": "that will not do"}));
    for (path, form, kept) in [
        ("/projects".to_owned(), "id=my-id&where=hosted", "my-id"),
        ("/projects".to_owned(), "id=my-id&where=remote&repository=https://x.example/typed", "https://x.example/typed"),
        ("/projects/shop/jobs".to_owned(), "prompt=what+I+typed", "what I typed"),
        (format!("/projects/shop/jobs/{id}/messages"), "prompt=what+I+typed", "what I typed"),
        ("/keys".to_owned(), "name=my+key", "my key"),
        ("/projects/shop/settings/agent".to_owned(), "model=typed-model", "typed-model"),
    ] {
        let answer = house.send(Some(Role::Administrator), Method::POST, &path, form).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
        assert!(answer.body.contains("That will not do."), "{path}: {}", answer.body);
        assert!(answer.body.contains(kept), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_member_makes_keys_for_projects_that_are_named() {
    let (house, _) = with_job().await;
    house.answers(StatusCode::CREATED, json!({"name": "ci", "secret": "jmn_x", "projects": ["shop"]}));
    let form = "name=ci&scope=write&days=30&project=shop&where=all";
    let page = house.send(Some(Role::Member), Method::POST, "/keys", form).await;
    assert!(page.body.contains("jmn_x") && page.body.contains("/v2/agent/shop/job"), "{}", page.body);
    let calls = house.calls();
    assert!(calls[0].starts_with("member POST /v2/keys ") && calls[0].contains("\"projects\":[\"shop\"]"), "{calls:?}");
    assert!(calls[0].contains("\"expiresAt\":\"2026-12-21T01:25:30.123Z\""), "{calls:?}");
}

#[tokio::test]
async fn the_last_administrator_stays_one() {
    let (house, _) = with_job().await;
    let own = house.store.user_by_name("administrator".into()).await.unwrap().unwrap().id;
    for (path, form) in [("disable", ""), ("role", "role=viewer")] {
        let answer = house.send(Some(Role::Administrator), Method::POST, &format!("/users/{own}/{path}"), form).await;
        assert_eq!(answer.status, StatusCode::CONFLICT, "{path}");
        assert!(answer.body.contains("This is the last administrator; make another one first."), "{}", answer.body);
    }
}
