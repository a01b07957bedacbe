//! The page of a job, from a log that is made up.

use std::sync::Arc;

use axum::http::Method;
use journeyman_core::engine::{Admission, Engine, NewJob, Prompt};
use journeyman_core::ids::{JobId, WorkerId};
use journeyman_core::job::JobOptions;
use journeyman_core::job::command::{NextAttempt, Outcome, Report};
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::JobStore;
use journeyman_core::pull::PullState;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Clock;
use journeyman_core::user::Role;
use serde_json::{Value, json};
use uuid::Uuid;

use super::pulls::{Fake, detail};
use super::{House, house, project};

fn engine(house: &House) -> Engine {
    Engine::new(house.store.clone(), house.world.clone(), house.world.clone())
}

fn prompt(text: &str) -> Prompt {
    Prompt { text: text.to_owned(), origin: Origin::Api, author: Some("ci".to_owned()), delivery: DeliveryMode::Queue }
}

/// A job that waits.
pub(super) async fn given(house: &House, text: &str) -> JobId {
    let options = JobOptions::default();
    let new = NewJob { prompt: prompt(text), reference: None, model: None, agent: None, options };
    let done = engine(house).create_job(&project(), new, Admission { idempotency: None, limit: 0 }).await.unwrap();
    done.record.id
}

/// A job whose agent has done these things, and is still at it.
async fn at_work(house: &House, text: &str, did: Vec<(TranscriptKind, Value)>) -> JobId {
    let (engine, id) = (engine(house), given(house, text).await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = engine.claim(worker, std::time::Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(claimed.job.id, id);
    let at = house.world.now();
    for did in did.chunks(500) {
        let entries = did.iter().map(|(kind, data)| TranscriptEntry { kind: *kind, data: data.clone(), at });
        engine.report(id, claimed.lease.token, Report::Transcript(entries.collect())).await.unwrap();
    }
    id
}

async fn page(house: &House, id: JobId, rest: &str) -> String {
    house.send(Some(Role::Member), Method::GET, &format!("/projects/shop/jobs/{id}{rest}"), "").await.body
}

async fn shop() -> House {
    house(Arc::new(Fake::with(detail(PullState::Open)))).await
}

#[tokio::test]
async fn a_conversation_shows_what_was_said_and_done() {
    let house = shop().await;
    let said = |text: &str| (TranscriptKind::Message, json!({ "text": text }));
    let id = at_work(
        &house,
        "Fix it",
        vec![
            (TranscriptKind::Thought, json!({"text": "hm"})),
            said("I **look** "),
            said("first."),
            (TranscriptKind::Plan, json!({"entries": [{"content": "look", "status": "completed"}, {"content": "mend"}]})),
            (TranscriptKind::ToolCall, json!({"toolCallId": "1", "title": "cargo test", "kind": "execute", "rawInput": {"command": "cargo test --all"}})),
            (TranscriptKind::ToolCall, json!({"toolCallId": "1", "status": "failed", "rawOutput": "it broke", "update": true})),
            (TranscriptKind::Permission, json!({"title": "rm -rf", "granted": false})),
            (TranscriptKind::EgressDenied, json!({"destination": "evil.example:443", "reason": "not allowed"})),
        ],
    )
    .await;
    engine(&house)
        .add_message(&project().id, id, prompt("and then this"), Admission { idempotency: None, limit: 0 })
        .await
        .unwrap();
    let page = page(&house, id, "").await;
    for part in [
        "<span class=\"badge running\" role=\"status\">running</span>",
        "<div class=\"message-text\" dir=\"auto\">Fix it</div>",
        "</span>delivered</footer>",
        "<p>I <strong>look</strong> first.</p>",
        "<h3>Plan <span>1 of 2</span></h3>",
        "cargo test --all",
        "it broke",
        "<details class=\"tool failed\"",
        "Refused <code><bdi>rm -rf</bdi></code>",
        "Was not let out: not allowed <code><bdi>evil.example:443</bdi></code>",
        "<span class=\"cut\"><bdi>and then this</bdi></span>",
        &format!("formaction=\"/projects/shop/jobs/{id}/messages/msg_"),
        &format!(" src=\"/projects/shop/jobs/{id}/live?from=0&#38;after="),
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[tokio::test]
async fn nothing_that_an_agent_says_becomes_markup() {
    let house = shop().await;
    let bad = "<img src=x onerror=alert(1)><script>alert(1)</script>\u{202e}";
    let text = |field: &str| json!({ field: bad });
    let id = at_work(
        &house,
        bad,
        vec![
            (TranscriptKind::Message, text("text")),
            (TranscriptKind::Thought, text("text")),
            (TranscriptKind::Plan, json!({"entries": [{"content": bad, "status": bad}]})),
            (
                TranscriptKind::ToolCall,
                json!({
                    "toolCallId": bad, "title": bad, "kind": bad, "status": bad, "rawInput": bad, "rawOutput": bad,
                    "content": [
                        {"type": "content", "content": {"type": "text", "text": bad}},
                        {"type": "diff", "path": bad, "oldText": bad, "newText": "other"},
                    ],
                }),
            ),
            (TranscriptKind::Permission, text("title")),
            (TranscriptKind::EgressDenied, json!({"destination": bad, "reason": bad})),
            (TranscriptKind::EgressAllowed, text("destination")),
            (TranscriptKind::Session, text("agent")),
            (TranscriptKind::ModelCalled, text("failure")),
            (TranscriptKind::ModelDenied, text("reason")),
        ],
    )
    .await;
    for rest in ["", "/changes", "/runs", "/events", "/record"] {
        let page = page(&house, id, rest).await;
        for markup in ["<img", "<script>", "\u{202e}"] {
            assert!(!page.contains(markup), "{markup} at {rest}: {page}");
        }
        assert!(page.contains("&#60;img src=x"), "{rest}: {page}");
    }
}

#[tokio::test]
async fn a_long_conversation_comes_in_windows() {
    let house = shop().await;
    let call = |number: usize| {
        (TranscriptKind::ToolCall, json!({"toolCallId": number.to_string(), "title": format!("call {number}.")}))
    };
    let id = at_work(&house, "Count", (0..2000).map(call).collect()).await;
    let newest = page(&house, id, "").await;
    assert_eq!(newest.matches("<li class=\"step\"").count(), 400);
    assert!(newest.contains("call 1999.") && !newest.contains("call 1000."), "the newest are there");
    let last = house.store.job(id).await.unwrap().unwrap().last_seq;
    assert!(newest.contains(&format!("?before={}\">Show what was before", last - 399)), "{newest}");
    let before = page(&house, id, &format!("?before={}", last - 399)).await;
    assert_eq!(before.matches("<li class=\"step\"").count(), 400);
    assert!(before.contains("call 1599.") && !before.contains("call 1600."), "they follow on one another");
    assert!(before.contains("Show what came after") && !before.contains("<turbo-stream-source"), "{before}");
    let first = page(&house, id, "?before=5").await;
    assert!(!first.contains("Show what was before"), "{first}");
}

#[tokio::test]
async fn a_provider_that_reports_the_largest_number_of_tokens_breaks_no_page() {
    let house = shop().await;
    let (engine, id) = (engine(&house), given(&house, "first").await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let most = u64::MAX;
    let usage = Usage { input_tokens: most, output_tokens: most, cached_tokens: most, cost_micros: Some(most) };
    for next in [Some("second"), None] {
        let claimed = engine.claim(worker, std::time::Duration::from_secs(60)).await.unwrap().unwrap();
        let outcome = Outcome::Failed { reason: Reason::new(ReasonCode::Internal, "over"), retry: None };
        engine.report(id, claimed.lease.token, Report::Finished { outcome, usage }).await.unwrap();
        if let Some(text) = next {
            engine
                .add_message(&project().id, id, prompt(text), Admission { idempotency: None, limit: 0 })
                .await
                .unwrap();
        }
    }
    let runs = page(&house, id, "/runs").await;
    let shown = runs.matches("18446744073709.5 M in, 18446744073709.5 M out").count();
    assert_eq!(shown, 3, "both runs, and their sum: {runs}");
    assert!(runs.contains("$18446744073709.55"), "{runs}");
    assert!(page(&house, id, "").await.contains("18446744073709.5 M in"));
}

#[tokio::test]
async fn what_a_job_waits_for_is_shown_with_a_way_to_try_now() {
    let house = shop().await;
    let (engine, id) = (engine(&house), given(&house, "Fix it").await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = engine.claim(worker, std::time::Duration::from_secs(60)).await.unwrap().unwrap();
    let reason = Reason::new(ReasonCode::RepositoryUnreachable, "the code host <b>is away</b>");
    let (since, patience) = (house.world.now(), std::time::Duration::from_secs(3600));
    let outcome = Outcome::Waiting { reason, since, patience, next: NextAttempt::Backoff(999) };
    engine.report(id, claimed.lease.token, Report::Finished { outcome, usage: Usage::default() }).await.unwrap();
    let shown = page(&house, id, "").await;
    for part in ["Waiting to retry.", "the code host &#60;b&#62;is away", "Retry now", "waiting to retry"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let viewer = house.send(Some(Role::Viewer), Method::GET, &format!("/projects/shop/jobs/{id}"), "").await.body;
    assert!(viewer.contains("Waiting to retry.") && !viewer.contains("Retry now"), "{viewer}");
}
