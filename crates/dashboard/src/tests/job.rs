//! Tests of the pages of a job, with a fake log.

use std::sync::Arc;

use axum::http::Method;
use journeyman_core::code_host::HostName;
use journeyman_core::engine::{Admission, NewJob, Prompt};
use journeyman_core::ids::{JobId, WorkerId};
use journeyman_core::job::command::{NextAttempt, Outcome, Report};
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::job::{JobOptions, PullRepository};
use journeyman_core::message::{DeliveryMode, MessageSource, Origin};
use journeyman_core::ports::JobStore;
use journeyman_core::pull::PullState;
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Clock;
use journeyman_core::user::Role;
use serde_json::{Value, json};
use uuid::Uuid;

use super::pulls::{Fake, detail};
use super::{Fixture, fixture, project};

pub(super) fn prompt(text: &str) -> Prompt {
    Prompt {
        text: text.to_owned(),
        origin: Origin::Api,
        author: Some("ci".to_owned()),
        key: None,
        delivery: DeliveryMode::Queue,
        traceparent: None,
        source: None,
    }
}

/// Creates a job, which stays queued.
pub(super) async fn create_job(fixture: &Fixture, text: &str) -> JobId {
    let options = JobOptions::default();
    let new = NewJob { options, ..NewJob::new(prompt(text)) };
    let done = fixture.engine.create_job(&project(), new, Admission { idempotency: None, limit: 0 }).await.unwrap();
    done.record.id
}

/// Creates a job whose agent has sent these entries and is still running.
pub(super) async fn running_job(fixture: &Fixture, text: &str, entries: Vec<(TranscriptKind, Value)>) -> JobId {
    let (engine, id) = (&fixture.engine, create_job(fixture, text).await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = engine.claim(worker, std::time::Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(claimed.job.id, id);
    let at = fixture.world.now();
    for chunk in entries.chunks(500) {
        let entries = chunk.iter().map(|(kind, data)| TranscriptEntry { kind: *kind, data: data.clone(), at });
        engine.report(id, claimed.lease.token, Report::Transcript(entries.collect())).await.unwrap();
    }
    id
}

async fn page(fixture: &Fixture, id: JobId, rest: &str) -> String {
    fixture.send(Some(Role::Member), Method::GET, &format!("/projects/shop/jobs/{id}{rest}"), "").await.body
}

async fn shop() -> Fixture {
    fixture(Arc::new(Fake::with(detail(PullState::Open)))).await
}

#[tokio::test]
async fn a_conversation_shows_texts_and_tool_calls() {
    let fixture = shop().await;
    let said = |text: &str| (TranscriptKind::Message, json!({ "text": text }));
    let id = running_job(
        &fixture,
        "Fix it",
        vec![
            (TranscriptKind::Thought, json!({"text": "hm"})),
            said("I **look** "),
            said("first."),
            (TranscriptKind::Plan, json!({"entries": [{"content": "look", "status": "completed"}, {"content": "fix"}]})),
            (TranscriptKind::ToolCall, json!({"toolCallId": "1", "title": "cargo test", "kind": "execute", "rawInput": {"command": "cargo test --all"}})),
            (TranscriptKind::ToolCall, json!({"toolCallId": "1", "status": "failed", "rawOutput": "it broke", "update": true})),
            (TranscriptKind::Permission, json!({"title": "rm -rf", "granted": false})),
            (TranscriptKind::EgressDenied, json!({"destination": "evil.example:443", "reason": "not allowed"})),
        ],
    )
    .await;
    fixture
        .engine
        .add_message(&project().id, id, prompt("and then this"), Admission { idempotency: None, limit: 0 })
        .await
        .unwrap();
    let page = page(&fixture, id, "").await;
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
        "Connection blocked: not allowed <code><bdi>evil.example:443</bdi></code>",
        "<span class=\"cut\"><bdi>and then this</bdi></span>",
        &format!("formaction=\"/projects/shop/jobs/{id}/messages/msg_"),
        &format!(" src=\"/projects/shop/jobs/{id}/live?from=0&#38;after="),
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[tokio::test]
async fn output_of_an_agent_is_always_escaped() {
    let fixture = shop().await;
    let bad = "<img src=x onerror=alert(1)><script>alert(1)</script>\u{202e}";
    let text = |field: &str| json!({ field: bad });
    let id = running_job(
        &fixture,
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
        let page = page(&fixture, id, rest).await;
        for markup in ["<img", "<script>", "\u{202e}"] {
            assert!(!page.contains(markup), "{markup} at {rest}: {page}");
        }
        assert!(page.contains("&#60;img src=x"), "{rest}: {page}");
    }
}

#[tokio::test]
async fn a_long_conversation_is_divided_into_windows() {
    let fixture = shop().await;
    let call = |number: usize| {
        (TranscriptKind::ToolCall, json!({"toolCallId": number.to_string(), "title": format!("call {number}.")}))
    };
    let id = running_job(&fixture, "Count", (0..2000).map(call).collect()).await;
    let newest = page(&fixture, id, "").await;
    assert_eq!(newest.matches("<li class=\"step\"").count(), 400);
    assert!(newest.contains("call 1999.") && !newest.contains("call 1000."), "the newest events are shown");
    let last = fixture.store.job(id).await.unwrap().unwrap().last_seq;
    assert!(newest.contains(&format!("?before={}\">Show earlier events", last - 399)), "{newest}");
    let before = page(&fixture, id, &format!("?before={}", last - 399)).await;
    assert_eq!(before.matches("<li class=\"step\"").count(), 400);
    assert!(before.contains("call 1599.") && !before.contains("call 1600."), "windows are adjacent");
    assert!(before.contains("Show later events") && !before.contains("<turbo-stream-source"), "{before}");
    let first = page(&fixture, id, "?before=5").await;
    assert!(!first.contains("Show earlier events"), "{first}");
}

#[tokio::test]
async fn pages_can_show_the_largest_number_of_tokens() {
    let fixture = shop().await;
    let (engine, id) = (&fixture.engine, create_job(&fixture, "first").await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let max = u64::MAX;
    let usage = Usage { input_tokens: max, output_tokens: max, cached_tokens: max, cost_micros: Some(max) };
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
    let runs = page(&fixture, id, "/runs").await;
    let shown = runs.matches("18446744073709.5 M in, 18446744073709.5 M out").count();
    assert_eq!(shown, 3, "both runs, and their sum: {runs}");
    assert!(runs.contains("$18446744073709.55"), "{runs}");
    assert!(page(&fixture, id, "").await.contains("18446744073709.5 M in"));
}

#[tokio::test]
async fn a_waiting_job_shows_its_reason_and_a_retry_button() {
    let fixture = shop().await;
    let (engine, id) = (&fixture.engine, create_job(&fixture, "Fix it").await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = engine.claim(worker, std::time::Duration::from_secs(60)).await.unwrap().unwrap();
    let reason = Reason::new(ReasonCode::RepositoryUnreachable, "the code host <b>is away</b>");
    let (since, patience) = (fixture.world.now(), std::time::Duration::from_secs(3600));
    let outcome = Outcome::Waiting { reason, since, patience, next: NextAttempt::Backoff(999) };
    engine.report(id, claimed.lease.token, Report::Finished { outcome, usage: Usage::default() }).await.unwrap();
    let shown = page(&fixture, id, "").await;
    for part in ["Waiting to retry.", "the code host &#60;b&#62;is away", "Retry now", "waiting to retry"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let viewer = fixture.send(Some(Role::Viewer), Method::GET, &format!("/projects/shop/jobs/{id}"), "").await.body;
    assert!(viewer.contains("Waiting to retry.") && !viewer.contains("Retry now"), "{viewer}");
}

#[tokio::test]
async fn a_message_without_an_author_names_what_sent_it() {
    let fixture = shop().await;
    for (origin, author) in [(Origin::Check, "Checks"), (Origin::Review, "git.example")] {
        let source = MessageSource {
            origin,
            repository: PullRepository { host: HostName("git.example".to_owned()), id: "7".to_owned() },
            number: 1,
            id: "1".to_owned(),
            url: "https://git.example/acme/shop/pull/1".to_owned(),
            author: None,
            comments: Vec::new(),
            inbox: Vec::new(),
            logs: Vec::new(),
        };
        let prompt = Prompt { origin, author: None, source: Some(Box::new(source)), ..prompt("Repair the checks") };
        let new = NewJob::new(prompt);
        let id = fixture.engine.create_job(&project(), new, Admission::default()).await.unwrap().record.id;
        let queued = page(&fixture, id, "").await;
        assert!(queued.contains(&format!("<span class=\"muted nowrap\"><bdi>{author}</bdi></span>")), "{queued}");
        let worker = WorkerId::from_uuid(Uuid::from_u128(9));
        fixture.engine.claim(worker, std::time::Duration::from_secs(60)).await.unwrap().unwrap();
        let page = page(&fixture, id, "").await;
        assert!(page.contains(&format!("<span class=\"message-author\"><bdi>{author}</bdi></span>")), "{page}");
        assert!(!page.contains("<span class=\"chip\">checks</span>"), "{page}");
    }
}
