//! Tests of the pages of a job, with a fake log.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use journeyman_core::code_host::{HostName, PullRepository, PullState};
use journeyman_core::diff_stat::{CommitDiff, DiffStat, MessageDiff, TurnDiff};
use journeyman_core::engine::{Admission, NewJob, Prompt};
use journeyman_core::ids::{JobId, Sha, WorkerId};
use journeyman_core::job::JobOptions;
use journeyman_core::job::command::{NextAttempt, Outcome, Published, Report};
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::job::turn::{Ending, TurnArtifacts, TurnBegun};
use journeyman_core::message::{DeliveryMode, MessageSource, Origin};
use journeyman_core::ports::{JobStore, WorkerStore};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Clock;
use journeyman_core::user::Role;
use journeyman_core::worker::{WorkerReport, WorkerState};
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
    let claimed = engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
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
        "<span class=\"badge running\" id=\"job-status\" role=\"status\"><span class=\"word\">running</span></span>",
        "<div class=\"message-text\" dir=\"auto\">Fix it</div>",
        "<span class=\"state\">Working,</span> <span role=\"timer\"",
        "<dt>Runs</dt><dd>1 run</dd>",
        "<p>I <strong>look</strong> first.</p>",
        "<span>Plan</span><span>1 of 2</span>",
        "cargo test --all",
        "it broke",
        "<details class=\"tool failed\"",
        "class=\"bad\">it broke</span>",
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
    assert!(newest.contains("<strong>390 steps</strong>"), "the newest steps stay outside of the fold: {newest}");
    assert!(newest.contains("<ol class=\"thread before\""), "the message is above its steps: {newest}");
    assert!(newest.contains("call 1999.") && !newest.contains("call 1000."), "the newest events are shown");
    let last = fixture.store.job(id).await.unwrap().unwrap().last_seq;
    let earlier = format!("?before={}\">Show 1,600 earlier steps", last - 399);
    assert!(newest.contains(&earlier), "{earlier}: {newest}");
    let before = page(&fixture, id, &format!("?before={}", last - 399)).await;
    assert_eq!(before.matches("<li class=\"step\"").count(), 400);
    assert!(before.contains("call 1599.") && !before.contains("call 1600."), "windows are adjacent");
    assert!(!before.contains("class=\"fold\""), "who asks for earlier steps reads them");
    assert!(before.contains("Show later steps") && !before.contains("<turbo-stream-source"), "{before}");
    let first = page(&fixture, id, "?before=5").await;
    assert!(!first.contains(" earlier step") && !first.contains("Show earlier"), "{first}");
}

#[tokio::test]
async fn pages_can_show_the_largest_number_of_tokens() {
    let fixture = shop().await;
    let (engine, id) = (&fixture.engine, create_job(&fixture, "first").await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let max = u64::MAX;
    let usage = Usage {
        input_tokens: max,
        output_tokens: max,
        cached_tokens: max,
        cost_micros: Some(max),
        estimated_micros: max,
    };
    for next in [Some("second"), None] {
        let claimed = engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
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

/// Claims the job, carries out its message within `seconds`, and finishes it with one commit.
pub(super) async fn complete(fixture: &Fixture, id: JobId, seconds: u64, entries: Vec<(TranscriptKind, Value)>) {
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = fixture.engine.claim(worker, Duration::from_secs(3600)).await.unwrap().unwrap();
    let (token, at) = (claimed.lease.token, fixture.world.now());
    let entries = entries.into_iter().map(|(kind, data)| TranscriptEntry { kind, data, at }).collect();
    let sha = |digit: char| -> Sha { String::from(digit).repeat(40).parse().unwrap() };
    let begun = TurnBegun {
        branch: "journeyman/x".into(),
        generation: 1,
        base: sha('a'),
        head: sha('a'),
        pushed: None,
        default_branch: None,
        repository: None,
    };
    fixture.world.advance(Duration::from_secs(seconds));
    let stat = DiffStat { additions: 1145, deletions: 18, files: 6 };
    let commit = CommitDiff { sha: sha('b'), subject: "Add a <layer>".to_owned(), stat, paths: Vec::new() };
    let message = MessageDiff { stat, commits: vec![commit], ..MessageDiff::default() };
    let artifacts = TurnArtifacts {
        answer: Some("I **did** it.".to_owned()),
        diff: Some(Box::new(TurnDiff { branch: stat, message })),
        ..TurnArtifacts::default()
    };
    let ended = Report::TurnEnded { head: sha('b'), commits: vec![sha('b')], artifacts, ending: Ending::Done };
    let outcome = Outcome::Published { pushed: Some(sha('b')), pull: Published::Nothing };
    let finished = Report::Finished { outcome, usage: Usage::default() };
    for report in [Report::TurnBegun(begun), Report::Transcript(entries), ended, finished] {
        fixture.engine.report(id, token, report).await.unwrap();
    }
}

#[tokio::test]
async fn a_finished_job_opens_with_its_result() {
    let fixture = shop().await;
    let id = create_job(&fixture, "Fix it").await;
    let call = |number: usize, status: &str| {
        (
            TranscriptKind::ToolCall,
            json!({"toolCallId": number.to_string(), "title": "ls", "kind": "read", "status": status}),
        )
    };
    complete(&fixture, id, 100, (0..20).map(|number| call(number, "completed")).collect()).await;
    // The time until a person writes again does not count.
    fixture.world.advance(Duration::from_secs(5000));
    fixture.engine.add_message(&project().id, id, prompt("Again"), Admission::default()).await.unwrap();
    complete(&fixture, id, 20, vec![call(1, "in_progress")]).await;
    let page = page(&fixture, id, "").await;
    for part in [
        "<title>Completed · Fix it · Journeyman</title>",
        "<span class=\"clock wide-only\">2 min</span>",
        "Review<span class=\"wide-only\"> changes</span></span><span class=\"diffstat wide-only\">+1,145 −18</span></a>",
        "<span class=\"count\">6</span> <span class=\"tiny\"><span class=\"plus\">+1,145</span> <span class=\"minus\">−18</span></span>",
        "answer to message 2",
        "<p>I <strong>did</strong> it.</p>",
        "<bdi>Add a &#60;layer&#62;</bdi></a>",
        "<span class=\"where\">message 2</span>",
        "<span>in 1 min 40 s</span>",
        "data-open=\"f3d\">20 steps</a>",
        "in 6 files</span>",
        "<span class=\"mark stopped\">",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_eq!(page.matches("<details class=\"past\"").count(), 2, "messages are two lines each: {page}");
    let filled =
        ["class=\"button primary\"", "class=\"button primary to-changes\""].map(|class| page.matches(class).count());
    assert_eq!(filled, [1, 1], "to send, and to review: {page}");
    assert!(page.find("id=\"job-outcome\"") < page.find("id=\"thread\""), "the result comes first");
    let commit = format!("/projects/shop/jobs/{id}/changes?commit={}", "b".repeat(40));
    assert!(page.contains(&commit), "{commit}: {page}");
    assert!(!page.contains("Try again") && !page.contains("Cancel the job"), "{page}");
}

#[tokio::test]
async fn the_id_the_link_and_the_branch_of_a_job_can_be_copied() {
    let fixture = shop().await;
    let id = create_job(&fixture, "Fix it").await;
    complete(&fixture, id, 10, Vec::new()).await;
    // The menu is on all tabs, the branch at the side of the conversation.
    for tab in ["", "/runs"] {
        let page = page(&fixture, id, tab).await;
        assert!(page.contains(&format!("<span id=\"copied-id\" hidden>{id}</span>")), "{page}");
        let link = format!("http://localhost:8080/projects/shop/jobs/{id}");
        assert!(page.contains(&format!("<span id=\"copied-link\" hidden>{link}</span>")), "{page}");
    }
    let page = page(&fixture, id, "").await;
    assert!(page.contains("id=\"job-branch\"><bdi>journeyman/<wbr>x<wbr></bdi>"), "{page}");
    assert!(page.contains("data-copy=\"job-branch\""), "{page}");
}

#[tokio::test]
async fn an_archived_job_is_unarchived_in_place_by_those_who_may() {
    let fixture = shop().await;
    let id = create_job(&fixture, "Fix it").await;
    complete(&fixture, id, 10, Vec::new()).await;
    let path = format!("/projects/shop/jobs/{id}");
    fixture.send(Some(Role::Member), Method::POST, &format!("{path}/archive"), "").await;
    let form = format!("action=\"{path}/unarchive\"");
    let member = page(&fixture, id, "").await;
    assert!(member.contains("This job is archived. Unarchive it to send a message."), "{member}");
    assert_eq!(member.matches(&form).count(), 2, "in the menu and in place: {member}");
    let viewer = fixture.send(Some(Role::Viewer), Method::GET, &path, "").await.body;
    assert!(viewer.contains("This job is archived.") && !viewer.contains("Unarchive"), "{viewer}");
}

#[tokio::test]
async fn a_failed_job_says_why_once_and_can_be_tried_again_once() {
    let fixture = shop().await;
    let (engine, id) = (&fixture.engine, create_job(&fixture, "Fix <it>").await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
    let reason = Reason::new(ReasonCode::ModelUnauthorized, "the provider answered 401");
    let outcome = Outcome::Failed { reason, retry: None };
    engine.report(id, claimed.lease.token, Report::Finished { outcome, usage: Usage::default() }).await.unwrap();
    let path = format!("/projects/shop/jobs/{id}");
    let failed = page(&fixture, id, "").await;
    for part in [
        "<h2 id=\"why\">The model provider refused the key</h2><p>The provider answered 401.</p>",
        "href=\"/projects/shop/settings/environment#secret-name\">Open the secrets</a>",
        "<a href=\"#why\">The run failed</a>",
        "Say what to do instead",
    ] {
        assert!(failed.contains(part), "{part} is not in {failed}");
    }
    assert_eq!(failed.matches("answered 401").count(), 1, "the reason is said once: {failed}");
    let message = claimed.message.id;
    let form = format!("message={message}&once=again-{message}");
    assert!(failed.contains(&format!("value=\"again-{message}\"")), "{failed}");
    let viewer = fixture.send(Some(Role::Viewer), Method::GET, &path, "").await.body;
    assert!(!viewer.contains("Try again"), "{viewer}");
    // Twice with the same form, and once from a page that is out of date.
    for body in [form.as_str(), form.as_str(), "message=msg_x&once=other"] {
        let sent = fixture.send(Some(Role::Member), Method::POST, &format!("{path}/again"), body).await;
        assert_eq!(sent.status.as_u16(), 303, "{}", sent.body);
    }
    let messages = fixture.store.messages(id).await.unwrap();
    assert_eq!(messages.iter().map(|message| message.prompt.as_str()).collect::<Vec<_>>(), ["Fix <it>", "Fix <it>"]);
    let running = page(&fixture, id, "").await;
    assert!(!running.contains("Try again") && running.contains("Waiting for a slot"), "{running}");
}

#[tokio::test]
async fn a_canceled_job_is_no_failure_and_its_open_steps_are_stopped() {
    let fixture = shop().await;
    let call = json!({"toolCallId": "1", "title": "sleep", "kind": "execute", "status": "in_progress"});
    let id = running_job(&fixture, "Fix it", vec![(TranscriptKind::ToolCall, call)]).await;
    let running = page(&fixture, id, "").await;
    assert!(
        running.contains("<code class=\"cut\"><bdi>sleep</bdi></code>"),
        "the line says what happens now: {running}"
    );
    assert!(
        running.contains("<span class=\"mark in_progress\"><span class=\"unseen\">running</span></span>"),
        "{running}"
    );
    fixture.engine.cancel(&project().id, id).await.unwrap();
    let page = page(&fixture, id, "").await;
    assert!(page.contains("<span class=\"mark stopped\"><span class=\"unseen\">stopped</span></span>"), "{page}");
    assert!(page.contains("<h2 id=\"why\">Canceled</h2>") && !page.contains("class=\"reason\""), "{page}");
    assert!(!page.contains("Try again") && page.contains("id=\"job-now\" hidden"), "{page}");
}

#[tokio::test]
async fn a_line_does_not_turn_after_the_lease_of_its_worker_has_ended() {
    let fixture = shop().await;
    let call = json!({"toolCallId": "1", "title": "sleep", "kind": "execute", "status": "in_progress"});
    let id = running_job(&fixture, "Fix it", vec![(TranscriptKind::ToolCall, call)]).await;
    let live = format!(
        "/projects/shop/jobs/{id}/live?from=0&after={}",
        fixture.store.job(id).await.unwrap().unwrap().last_seq
    );
    let stream = async || fixture.send(Some(Role::Viewer), Method::GET, &live, "").await.body;
    fixture.world.advance(Duration::from_secs(30));
    let id_of_worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let report = WorkerReport { id: id_of_worker, seen_at: fixture.world.now(), state: WorkerState::default() };
    fixture.store.report_worker(report, Duration::from_secs(86_400)).await.unwrap();
    fixture.world.advance(Duration::from_secs(29));
    for text in [page(&fixture, id, "").await, stream().await] {
        assert!(text.contains("<span class=\"mark in_progress\"></span><code class=\"cut\"><bdi>sleep"), "{text}");
        assert!(!text.contains("No sign of the worker"), "the lease is valid: {text}");
    }
    for (seconds, mark, elapsed) in [(11, "lost", "40 s"), (109, "lost", "2 min"), (1, "stopped", "2 min")] {
        fixture.world.advance(Duration::from_secs(seconds));
        for text in [page(&fixture, id, "").await, stream().await] {
            let line =
                format!("<span class=\"mark {mark}\"></span><span class=\"cut\">No sign of the worker for <span");
            assert!(text.contains(&line), "{line}: {text}");
            assert!(text.contains(&format!(">{elapsed}</span></span>")), "{elapsed}: {text}");
        }
    }
    fixture.engine.claim(WorkerId::from_uuid(Uuid::from_u128(10)), Duration::from_secs(60)).await.unwrap();
    let page = page(&fixture, id, "").await;
    assert!(!page.contains("No sign of the worker"), "the run was given up: {page}");
    assert!(page.contains("<span class=\"mark stopped\"><span class=\"unseen\">stopped</span></span>"), "{page}");
}

#[tokio::test]
async fn a_plan_from_long_before_the_window_is_shown_and_stops_with_its_run() {
    let fixture = shop().await;
    let step = |text: &str, status: &str| json!({"content": text, "status": status});
    let plan = json!({"entries": [step("look", "completed"), step("fix", "in_progress"), step("test", "pending")]});
    let call = |number: usize| {
        let id = number.to_string();
        (TranscriptKind::ToolCall, json!({"toolCallId": id, "title": "ls", "kind": "read", "status": "completed"}))
    };
    let entries = std::iter::once((TranscriptKind::Plan, plan)).chain((0..2000).map(call));
    let id = running_job(&fixture, "Fix it", entries.collect()).await;
    let running = page(&fixture, id, "").await;
    assert!(running.contains("<span>Plan</span><span>step 2 of 3</span>"), "{running}");
    fixture.engine.cancel(&project().id, id).await.unwrap();
    let page = page(&fixture, id, "").await;
    assert!(page.contains("<span>Plan</span><span>stopped at 2 of 3</span>"), "{page}");
}

#[tokio::test]
async fn a_waiting_job_shows_its_reason_and_a_retry_button() {
    let fixture = shop().await;
    let (engine, id) = (&fixture.engine, create_job(&fixture, "Fix it").await);
    let worker = WorkerId::from_uuid(Uuid::from_u128(9));
    let claimed = engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
    let reason = Reason::new(ReasonCode::RepositoryUnreachable, "the code host <b>is away</b>");
    let (since, patience) = (fixture.world.now(), Duration::from_secs(3600));
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
            newer: None,
            repository: PullRepository { host: HostName("git.example".to_owned()), id: "7".to_owned() },
            number: 1,
            id: "1".to_owned(),
            url: "https://git.example/acme/shop/pull/1".to_owned(),
            author: None,
            comments: Vec::new(),
            inbox: Vec::new(),
            logs: Vec::new(),
            files: Vec::new(),
        };
        let prompt = Prompt { origin, author: None, source: Some(Box::new(source)), ..prompt("Repair the checks") };
        let new = NewJob::new(prompt);
        let id = fixture.engine.create_job(&project(), new, Admission::default()).await.unwrap().record.id;
        let queued = page(&fixture, id, "").await;
        assert!(queued.contains(&format!("<span class=\"muted nowrap\"><bdi>{author}</bdi></span>")), "{queued}");
        let worker = WorkerId::from_uuid(Uuid::from_u128(9));
        fixture.engine.claim(worker, Duration::from_secs(60)).await.unwrap().unwrap();
        let page = page(&fixture, id, "").await;
        assert!(page.contains(&format!("<strong class=\"message-author\"><bdi>{author}</bdi></strong>")), "{page}");
        assert!(!page.contains("<span class=\"chip\">checks</span>"), "{page}");
    }
}

#[tokio::test]
async fn runs_are_counted_in_words() {
    let fixture = shop().await;
    let id = running_job(&fixture, "Fix it", Vec::new()).await;
    let page = page(&fixture, id, "").await;
    assert!(page.contains("<dt>Runs</dt><dd>1 run"), "{page}");
}
