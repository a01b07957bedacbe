//! Tests of the pages of webhooks.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use journeyman_core::code_host::PullState;
use journeyman_core::feed::FeedKind;
use journeyman_core::ports::WebhookStore as _;
use journeyman_core::user::Role;
use journeyman_core::webhook::{Disabled, GIVE_UP_AFTER, Webhook};

use super::job::create_job;
use super::pulls::{Fake, detail};
use super::{Fixture, Reply};

const ADMIN: Option<Role> = Some(Role::Administrator);
const PATH: &str = "/projects/shop/webhooks";

async fn fixture() -> Fixture {
    super::fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

async fn see(fixture: &Fixture, path: &str) -> Reply {
    fixture.send(ADMIN, Method::GET, path, "").await
}

async fn post(fixture: &Fixture, path: &str, form: &str) -> Reply {
    fixture.send(ADMIN, Method::POST, path, form).await
}

async fn webhooks(fixture: &Fixture) -> Vec<Webhook> {
    fixture.store.webhooks_after("shop".parse().unwrap(), None, 9).await.unwrap()
}

/// Adds a webhook, and returns the path of its page.
async fn added(fixture: &Fixture) -> String {
    let form = "url=https%3A%2F%2Fhooks.example%2Fa&format=standard&event=job.created&description=CI";
    let created = fixture.follow(Role::Administrator, &post(fixture, PATH, form).await).await;
    assert_eq!(created.status, StatusCode::OK, "{}", created.body);
    assert!(created.body.contains("whsec_"), "{}", created.body);
    format!("{PATH}/{}", webhooks(fixture).await.pop().unwrap().id)
}

async fn deliver(fixture: &Fixture) -> usize {
    fixture.cases.deliverer(fixture.world.clone()).deliver_due().await.unwrap()
}

#[tokio::test]
async fn a_webhook_is_added_edited_disabled_enabled_and_removed() {
    let fixture = fixture().await;
    assert!(see(&fixture, PATH).await.body.contains("No webhooks yet"));
    let page = added(&fixture).await;
    let list = see(&fixture, PATH).await.body;
    assert!(list.contains("https://hooks.example/a") && list.contains("job.created") && list.contains("active"));
    assert!(
        !list.contains("whsec_") && !see(&fixture, &page).await.body.contains("whsec_"),
        "the secret is shown once"
    );

    let edit = see(&fixture, &format!("{page}/edit")).await.body;
    assert!(edit.contains("value=\"https://hooks.example/a\"") && edit.contains("value=\"CI\""), "{edit}");
    let all: Vec<String> = FeedKind::ALL.iter().map(|kind| format!("event={}", kind.name())).collect();
    let form = format!("version=1&url=https%3A%2F%2Fhooks.example%2Fb&format=slack&{}", all.join("&"));
    let saved = post(&fixture, &format!("{page}/edit"), &form).await;
    assert_eq!((saved.status, saved.header("location")), (StatusCode::SEE_OTHER, &*format!("{page}?done=saved")));
    let stored = webhooks(&fixture).await.remove(0);
    assert_eq!((stored.settings.url.as_str(), stored.settings.kinds.len()), ("https://hooks.example/b", 0));
    let late = post(&fixture, &format!("{page}/edit"), &form).await;
    assert_eq!(late.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", late.body);
    assert!(late.body.contains("Nothing was saved"), "{}", late.body);

    let sent = post(&fixture, &format!("{page}/disable"), "").await;
    let toast = fixture.follow(Role::Administrator, &sent).await.body;
    let undo = format!("<form method=\"post\" action=\"{page}/enable\"><button class=\"button small\">Undo</button>");
    assert!(toast.contains("The webhook is disabled.</p>") && toast.contains(&undo), "{toast}");
    assert_eq!(webhooks(&fixture).await[0].disabled, Some(Disabled::OnRequest));
    let disabled = see(&fixture, &page).await.body;
    assert!(disabled.contains("A person disabled it.") && !disabled.contains("Deliver again the events"), "{disabled}");
    let refused = post(&fixture, &format!("{page}/replay"), "hours=1").await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.body.contains("The webhook is disabled"), "{}", refused.body);
    post(&fixture, &format!("{page}/enable"), "").await;
    assert_eq!(webhooks(&fixture).await[0].disabled, None);

    let rotated = post(&fixture, &format!("{page}/rotate"), "keep=24").await;
    let rotated = fixture.follow(Role::Administrator, &rotated).await;
    assert!(
        rotated.body.contains("whsec_") && rotated.body.contains(">22 Nov 2026, 01:25 UTC</time>"),
        "{}",
        rotated.body
    );
    assert_eq!(post(&fixture, &format!("{page}/rotate"), "keep=x").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(post(&fixture, &format!("{page}/remove"), "version=1").await.status, StatusCode::CONFLICT);
    let version = webhooks(&fixture).await[0].version;
    assert_eq!(
        post(&fixture, &format!("{page}/remove"), &format!("version={version}")).await.status,
        StatusCode::SEE_OTHER
    );
    assert_eq!(webhooks(&fixture).await, []);
    assert_eq!(see(&fixture, &page).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_refused_form_keeps_its_input_and_names_the_field() {
    let fixture = fixture().await;
    for (form, named) in [
        ("url=nonsense&format=standard&event=job.created", "must be an http or https URL"),
        ("url=https%3A%2F%2Fa.example&format=standard", "Select at least one type of event."),
        ("url=https%3A%2F%2Fa.example&format=standard&event=job.exploded", "there is no event"),
    ] {
        let refused = post(&fixture, PATH, form).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{form}: {}", refused.body);
        assert!(refused.body.contains(named), "{named}: {}", refused.body);
        assert!(refused.body.contains("nonsense") || refused.body.contains("https://a.example"), "the input stays");
    }
    let unknown = post(&fixture, PATH, "url=https%3A%2F%2Fa.example&format=fax&event=job.created").await;
    assert_eq!(unknown.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(webhooks(&fixture).await, []);
}

#[tokio::test]
async fn the_log_shows_deliveries_and_delivers_them_again() {
    let fixture = fixture().await;
    let page = added(&fixture).await;
    assert!(see(&fixture, &page).await.body.contains("No deliveries yet"));
    create_job(&fixture, "Fix the <b>tax</b>").await;
    assert_eq!(deliver(&fixture).await, 1);
    let log = see(&fixture, &page).await.body;
    assert!(log.contains("Status 204 after 5 ms") && log.contains("1 attempt"), "{log}");
    assert!(log.contains("Fix the &#60;b&#62;tax&#60;/b&#62;"), "titles are text: {log}");
    let failed = see(&fixture, &format!("{page}?state=failed")).await.body;
    assert!(failed.contains("No matching deliveries"), "{failed}");
    let again = post(&fixture, &format!("{page}/redeliver/1"), "").await;
    assert_eq!(again.header("location"), format!("{page}?done=redelivered"));
    assert_eq!(deliver(&fixture).await, 1);
    assert_eq!(post(&fixture, &format!("{page}/redeliver/99"), "").await.status, StatusCode::NOT_FOUND);
    let replayed = post(&fixture, &format!("{page}/replay"), "hours=24").await;
    assert_eq!(replayed.header("location"), format!("{page}?done=replayed&count=1"));
    let shown = fixture.follow(Role::Administrator, &replayed).await.body;
    assert!(shown.contains("<p role=\"status\">1 event will be delivered again.</p>"), "{shown}");
    assert_eq!(post(&fixture, &format!("{page}/replay"), "hours=2").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    let tested = post(&fixture, &format!("{page}/test"), "").await.body;
    assert!(tested.contains("<p role=\"status\">The endpoint accepted the test. Status 204, after"), "{tested}");
    fixture.endpoints.answer(webhooks(&fixture).await[0].id, 500);
    let tested = post(&fixture, &format!("{page}/test"), "").await.body;
    assert!(tested.contains("<p role=\"alert\">The test failed. Status 500, after"), "{tested}");
    let again =
        format!("<form method=\"post\" action=\"{page}/test\"><button class=\"button small\">Try again</button>");
    assert!(tested.contains(&again), "{tested}");
}

#[tokio::test]
async fn with_a_script_the_result_of_a_test_is_added_to_the_open_page() {
    let fixture = fixture().await;
    let page = added(&fixture).await;
    for (status, text) in
        [(204, "role=\"status\">The endpoint accepted the test."), (500, "role=\"alert\">The test failed.")]
    {
        fixture.endpoints.answer(webhooks(&fixture).await[0].id, status);
        let tested = fixture.send_with_turbo(Role::Administrator, &format!("{page}/test"), "").await;
        assert_eq!(tested.status, StatusCode::OK, "{}", tested.body);
        assert_eq!(tested.header("content-type"), "text/vnd.turbo-stream.html; charset=utf-8");
        assert!(tested.body.starts_with("<turbo-stream action=\"append\" target=\"toasts\">"), "{}", tested.body);
        assert!(tested.body.contains(text) && tested.body.contains("data-dismiss hidden"), "{}", tested.body);
    }
    let missing = fixture.send_with_turbo(Role::Administrator, &format!("{PATH}/nonsense/test"), "").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.body.contains("There is no such webhook."), "{}", missing.body);
}

#[tokio::test]
async fn administrators_are_notified_of_a_webhook_that_its_endpoint_disabled() {
    let fixture = fixture().await;
    let page = added(&fixture).await;
    let id = webhooks(&fixture).await[0].id;
    fixture.endpoints.answer(id, 500);
    create_job(&fixture, "x").await;
    deliver(&fixture).await;
    assert!(see(&fixture, &page).await.body.contains("The last request failed."));
    fixture.world.advance(GIVE_UP_AFTER + Duration::from_secs(1));
    deliver(&fixture).await;
    assert_eq!(webhooks(&fixture).await[0].disabled, Some(Disabled::Failing));
    let jobs = see(&fixture, "/projects/shop/jobs").await.body;
    assert!(jobs.contains("A webhook was disabled.") && jobs.contains(&page), "{jobs}");
    let member = fixture.send(Some(Role::Member), Method::GET, "/projects/shop/jobs", "").await.body;
    assert!(!member.contains("A webhook was disabled."), "{member}");
}

#[tokio::test]
async fn only_administrators_see_webhooks() {
    let fixture = fixture().await;
    let page = added(&fixture).await;
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Administrator) {
        for path in [PATH, &page, &format!("{PATH}/new")] {
            let reply = fixture.send(Some(role), Method::GET, path, "").await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{} {path}", role.name());
            assert!(!reply.body.contains("hooks.example"), "{} {path}", role.name());
        }
        let removed = fixture.send(Some(role), Method::POST, &format!("{page}/remove"), "").await;
        assert_eq!(removed.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(webhooks(&fixture).await.len(), 1);
}
