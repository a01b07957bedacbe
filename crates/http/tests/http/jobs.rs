//! Tests of the operations on jobs, messages, and events.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use journeyman_core::job::command::{NextAttempt, Outcome, Report};
use journeyman_core::ports::HoldStore;
use journeyman_core::project::hold::{HoldCause, HoldFailure};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_core::time::Clock;
use journeyman_core::time::Timestamp;
use journeyman_testkit::within;
use serde_json::{Value, json};

use super::fixtures::service;

#[tokio::test]
async fn the_record_has_seven_fields_in_a_fixed_order() {
    let service = service().await;
    let made = service.post("/v2/agent/shop/job", r#"{"prompt":"Add a README","unknown":1}"#).await;
    assert_eq!(made.status, 201);
    let order: Vec<usize> = ["id", "status", "source", "model", "prLink", "createdAt", "archivedAt"]
        .iter()
        .map(|field| made.text.find(&format!("\"{field}\":")).unwrap())
        .collect();
    assert!(order.is_sorted(), "{}", made.text);
    let record = made.json();
    assert_eq!(record.as_object().unwrap().len(), 7);
    assert_eq!(record["status"], "active");
    assert_eq!(record["source"], json!({"repository": "local:shop", "ref": "HEAD"}));
    assert_eq!((record["prLink"].is_null(), record["archivedAt"].is_null()), (true, true));
    assert_eq!(made.header("ratelimit-policy"), "\"create\";q=100;w=3600");
    assert_eq!(made.header("ratelimit"), "\"create\";r=99;t=3600");
    let got = service.get(&format!("/v2/agent/shop/job/{}", record["id"].as_str().unwrap())).await;
    assert_eq!((got.status.as_u16(), got.text), (200, made.text));
}

#[tokio::test]
async fn a_message_has_the_documented_effect_in_each_status() {
    let service = service().await;
    let job = service.job("x").await;
    let send = |body: &'static str| service.post(format!("{job}/message"), body);
    let sent = send(r#"{"prompt":"more"}"#).await;
    assert_eq!((sent.status.as_u16(), sent.json()["status"].clone()), (200, json!("active")));
    let busy = send(r#"{"prompt":"more","delivery":"reject"}"#).await;
    assert_eq!((busy.status.as_u16(), busy.code()), (409, "job_busy".to_owned()));

    service.work().await;
    assert_eq!(service.get(&job).await.json()["status"], "completed");
    assert_eq!(send(r#"{"prompt":"again","delivery":"reject"}"#).await.json()["status"], "active");
    service.work().await;

    assert_eq!(send(r#"{"prompt":"again"}"#).await.json()["status"], "active");
    let cancelled = service.post(&format!("{job}/cancel"), "").await;
    assert_eq!((cancelled.status.as_u16(), cancelled.json()["status"].clone()), (200, json!("failed")));
    assert_eq!(send(r#"{"prompt":"once more"}"#).await.json()["status"], "active");

    let archived = service.post(&format!("{job}/archive"), "").await.json();
    assert_eq!(archived["status"], "archived");
    assert!(archived["archivedAt"].is_string());
    assert_eq!(service.post(&format!("{job}/archive"), "").await.json(), archived);
    let lines = service.log_length(&job).await;
    let refused = send(r#"{"prompt":"too late"}"#).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "job_archived".to_owned()));
    assert_eq!(service.log_length(&job).await, lines, "nothing is stored");
    assert_eq!(service.post(&format!("{job}/unarchive"), "").await.json()["status"], "failed");
}

#[tokio::test]
async fn the_details_show_what_a_job_waits_for_and_a_retry_ends_the_wait() {
    let service = service().await;
    let job = service.job("first").await;
    service.post(&format!("{job}/message"), r#"{"prompt":"second"}"#).await;
    let details = service.get(&format!("{job}/details")).await.json();
    assert_eq!((&details["waiting"], &details["queueLength"]), (&json!(null), &json!(2)), "{details:#}");
    assert_eq!(details.as_object().unwrap().len(), 22);

    let (id, token) = service.claim().await.unwrap();
    let reason = Reason::new(ReasonCode::RepositoryUnreachable, "the code host is unavailable");
    let (since, patience) = (service.world.now(), Duration::from_secs(3600));
    let outcome = Outcome::Waiting { reason: reason.clone(), since, patience, next: NextAttempt::Backoff(999) };
    service.engine.report(id, token, Report::Finished { outcome, usage: Usage::default() }).await.unwrap();
    let details = service.get(&format!("{job}/details")).await.json();
    let waiting = &details["waiting"];
    assert_eq!(waiting["reason"], json!({"code": "repository_unreachable", "text": "the code host is unavailable"}));
    assert_eq!((&waiting["attempts"], &waiting["projectOnHold"]), (&json!(1), &json!(false)), "{details:#}");
    let metrics = service.get("/metrics").await.text;
    assert!(metrics.contains("journeyman_jobs_waiting{cause=\"repository_unreachable\"} 1"), "{metrics}");

    assert!(service.claim().await.is_none(), "the message waits");
    let retried = service.post(&format!("{job}/retry"), "").await;
    assert_eq!((retried.status.as_u16(), retried.json()["status"].clone()), (200, json!("active")));
    assert!(service.claim().await.is_some(), "the retry is due now");
    assert_eq!(service.get(&format!("{job}/details")).await.json()["waiting"], json!(null), "an attempt runs");

    // The hold of a project is also shown for jobs without an attempt.
    let other = service.job("other").await;
    let at = service.world.now();
    let failure = HoldFailure { reason, cause: HoldCause::Fetch, started_at: at, at, permille: 0 };
    service.store.hold_project("shop".parse().unwrap(), failure).await.unwrap().unwrap();
    let waiting = service.get(&format!("{other}/details")).await.json()["waiting"].clone();
    assert_eq!((&waiting["projectOnHold"], &waiting["messageId"]), (&json!(true), &json!(null)), "{waiting:#}");
    assert!(service.get("/metrics").await.text.contains("journeyman_projects_on_hold 1"));
}

#[tokio::test]
async fn messages_have_receipts_and_can_be_withdrawn_while_they_are_queued() {
    let service = service().await;
    let job = service.job("first").await;
    let sent = service.post(&format!("{job}/message"), r#"{"prompt":"second","delivery":"queue"}"#).await;
    let (_, _) = service.claim().await.unwrap();
    let listed = service.get(&format!("{job}/messages")).await.json();
    let messages = listed["messages"].as_array().unwrap();
    assert_eq!((messages[0]["status"].clone(), messages[1]["status"].clone()), (json!("delivered"), json!("queued")));
    assert_eq!(messages[0]["author"], "ci");
    let location = sent.header("location").to_owned();
    assert_eq!(location, format!("{job}/message/{}", messages[1]["id"].as_str().unwrap()));
    assert_eq!(service.get(&location).await.json(), messages[1]);
    let other = service.job("another").await;
    let elsewhere = format!("{other}/message/{}", messages[1]["id"].as_str().unwrap());
    assert_eq!(service.get(&elsewhere).await.code(), "message_not_found");
    assert_eq!(messages[0].as_object().unwrap().len(), 19);
    let path = |number: usize| format!("{job}/message/{}", messages[number]["id"].as_str().unwrap());
    let late = service.call("DELETE", &path(0), "", |_| {}).await;
    assert_eq!((late.status.as_u16(), late.code()), (409, "message_already_delivered".to_owned()));
    let back = service.call("DELETE", &path(1), "", |_| {}).await;
    assert_eq!((back.status.as_u16(), back.json()["status"].clone()), (200, json!("active")));
    let again = service.call("DELETE", &path(1), "", |_| {}).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, back.json()), "a second withdrawal gets the same response");
    let none = service.call("DELETE", &format!("{job}/message/msg_{}", "0".repeat(32)), "", |_| {}).await;
    assert_eq!((none.status.as_u16(), none.code()), (404, "message_not_found".to_owned()));
    let other = service.job("another").await;
    let foreign = service.call("DELETE", &path(1).replace(&job, &other), "", |_| {}).await;
    assert_eq!(foreign.code(), "message_not_found");

    let runs = service.get(&format!("{job}/runs")).await.json();
    let run = runs["runs"][0].as_object().unwrap();
    assert_eq!((run["status"].clone(), run["attempt"].clone(), run.len()), (json!("running"), json!(1), 12));
}

#[tokio::test]
async fn a_time_filter_with_the_job_s_own_time_excludes_the_job() {
    let service = service().await;
    let job = service.job("first").await;
    let at = service.get(&job).await.json()["createdAt"].as_str().unwrap().to_owned();
    let moment: Timestamp = at.parse().unwrap();
    let other = |micros: i64| Timestamp::from_micros(moment.as_micros() + micros).to_string();
    for (query, found) in [
        (format!("createdAfter={at}"), 0),
        (format!("createdBefore={at}"), 0),
        (format!("createdAfter={}", other(-1000)), 1),
        (format!("createdBefore={}", other(1000)), 1),
        (format!("createdAfter={}&createdBefore={}", other(-1000), other(1000)), 1),
    ] {
        let listed = service.get(&format!("/v2/agent/shop/jobs?{query}")).await.json();
        assert_eq!(listed["jobs"].as_array().unwrap().len(), found, "{query}");
    }
}

#[tokio::test]
async fn a_request_with_an_idempotency_key_takes_effect_once() {
    let service = service().await;
    let keyed = |key: &'static str| {
        move |request: &mut Request<Body>| drop(request.headers_mut().insert("idempotency-key", key.parse().unwrap()))
    };
    let create = |body: &'static str| service.call("POST", "/v2/agent/shop/job", body, keyed("a"));
    let first = create(r#"{"prompt":"x"}"#).await;
    let again = create(r#"{"prompt":"x"}"#).await;
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    let other = create(r#"{"prompt":"y"}"#).await;
    assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency_key_reused".to_owned()));

    let job = format!("/v2/agent/shop/job/{}", first.json()["id"].as_str().unwrap());
    let message = format!("{job}/message");
    let send = || service.call("POST", &message, r#"{"prompt":"more"}"#, keyed("b"));
    let (one, two) = tokio::join!(send(), send());
    assert_eq!((one.status.as_u16(), two.status.as_u16()), (200, 200));
    assert_eq!(one.header("location"), two.header("location"), "a repetition names the same message");
    let messages = service.get(&format!("{job}/messages")).await.json();
    assert_eq!(messages["messages"].as_array().unwrap().len(), 2, "the prompt of the creation, and one message");
    let long = "k".repeat(256);
    let invalid = service
        .call("POST", &message, r#"{"prompt":"x"}"#, |request| {
            drop(request.headers_mut().insert("idempotency-key", long.parse().unwrap()));
        })
        .await;
    assert_eq!(invalid.code(), "invalid_idempotency_key");
}

#[tokio::test]
async fn the_hourly_limit_applies_to_each_project_and_kind() {
    let service = service().await;
    service.call("PATCH", "/v2/projects/shop", r#"{"limits":{"messagePerHour":2}}"#, |_| {}).await;
    let job = service.job("x").await;
    let send = || service.post(format!("{job}/message"), r#"{"prompt":"x"}"#);
    assert_eq!(send().await.header("ratelimit"), "\"message\";r=1;t=3600");
    assert_eq!(send().await.status, 200);
    let refused = send().await;
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "rate_limited".to_owned()));
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), ("3600", "\"message\";r=0;t=3600"));
    service.world.advance(Duration::from_secs(3600));
    assert_eq!(send().await.status, 200);
    service.call("PATCH", "/v2/projects/shop", r#"{"limits":{"messagePerHour":0}}"#, |_| {}).await;
    let unlimited = send().await;
    assert_eq!((unlimited.status.as_u16(), unlimited.header("ratelimit")), (200, ""));
}

#[tokio::test]
async fn a_full_queue_and_a_used_up_limit_have_different_errors() {
    let service = service().await;
    service.call("PATCH", "/v2/projects/shop", r#"{"limits":{"messagePerHour":0}}"#, |_| {}).await;
    let job = service.job("x").await;
    let mut last = None;
    for _ in 0..101 {
        last = Some(service.post(&format!("{job}/message"), r#"{"prompt":"x"}"#).await);
    }
    let last = last.unwrap();
    assert_eq!((last.status.as_u16(), last.code(), last.header("retry-after")), (429, "queue_full".to_owned(), "60"));
    assert_eq!((last.header("ratelimit-policy"), last.header("ratelimit")), ("\"queue\";q=100", "\"queue\";r=0;t=60"));
}

#[tokio::test]
async fn a_list_is_read_page_by_page_while_jobs_are_created() {
    let service = service().await;
    for number in 0..5 {
        service.world.advance(Duration::from_secs(1));
        service.job(&format!("job {number}")).await;
    }
    let mut seen = Vec::new();
    let mut path = "/v2/agent/shop/jobs?limit=2".to_owned();
    loop {
        let page = service.get(&path).await.json();
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].clone()));
        service.world.advance(Duration::from_secs(1));
        service.job("new").await;
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v2/agent/shop/jobs?limit=2&cursor={cursor}");
    }
    assert_eq!(seen.len(), 5);
    let mut distinct = seen.clone();
    distinct.sort_by_key(ToString::to_string);
    distinct.dedup();
    assert_eq!(distinct.len(), 5);
    let found = service.get("/v2/agent/shop/jobs?q=JOB%203&status=active&unknown=1").await.json();
    assert_eq!(found["jobs"].as_array().unwrap().len(), 1);
    let none = service.get("/v2/agent/shop/jobs?createdBefore=2000-01-01T00:00:00Z").await.json();
    assert_eq!(none, json!({"jobs": [], "nextCursor": null}));
}

#[tokio::test]
async fn a_client_that_has_the_current_record_gets_304() {
    let service = service().await;
    let job = service.job("x").await;
    let tag = service.get(&job).await.header("etag").to_owned();
    let known = |path: String| {
        let tag = tag.clone();
        let service = &service;
        async move {
            let with =
                |request: &mut Request<Body>| drop(request.headers_mut().insert("if-none-match", tag.parse().unwrap()));
            service.call("GET", &path, "", with).await
        }
    };
    let same = known(job.clone()).await;
    assert_eq!((same.status.as_u16(), same.text.as_str(), same.header("etag")), (304, "", tag.as_str()));
    service.work().await;
    let changed = known(job).await;
    assert_eq!((changed.status.as_u16(), changed.json()["status"].clone()), (200, json!("completed")));
}

#[tokio::test]
async fn a_long_poll_returns_when_the_job_is_completed() {
    let service = service().await;
    let job = service.job("x").await;
    let waiting = format!("{job}?wait=60");
    let (answer, ()) = tokio::join!(service.get(&waiting), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        service.work().await;
    });
    assert_eq!(answer.json()["status"], "completed");
    assert_eq!(service.get(&waiting).await.json()["status"], "completed", "a completed job is returned immediately");
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_after_its_time_and_at_shutdown() {
    let service = service().await;
    let job = service.job("x").await;
    let begun = tokio::time::Instant::now();
    assert_eq!(service.get(&format!("{job}?wait=30")).await.json()["status"], "active");
    assert_eq!(begun.elapsed().as_secs(), 30);
    let path = format!("{job}?wait=60");
    let (answer, ()) = tokio::join!(service.get(&path), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.shutdown.cancel();
    });
    assert_eq!(answer.json()["status"], "active");
    let late = service.post(&format!("{job}/message"), r#"{"prompt":"x"}"#).await;
    assert_eq!((late.status.as_u16(), late.code(), late.header("retry-after")), (503, "shutting_down".to_owned(), "2"));
}

#[tokio::test]
async fn events_are_pages_of_json_on_request() {
    let service = service().await;
    let job = service.job("x").await;
    service.work().await;
    let json = |request: &mut Request<Body>| {
        drop(request.headers_mut().insert("accept", "application/json".parse().unwrap()));
    };
    let path = format!("{job}/events?limit=2");
    let page = service.call("GET", &path, "", json).await.json();
    assert_eq!((page["nextAfter"].clone(), page["hasMore"].clone()), (json!(2), json!(true)));
    assert_eq!(page["events"][0]["type"], "job.created");
    assert_eq!(page["events"][1]["type"], "message.accepted");
    let rest = service.call("GET", &format!("{job}/events?after=2"), "", json).await.json();
    assert_eq!(rest["events"][0]["seq"], 3);
    assert_eq!(rest["hasMore"], false);
    assert_eq!(rest["events"].as_array().unwrap().last().unwrap()["type"], "job.completed");
    let end = service.call("GET", &format!("{job}/events?after={}", rest["nextAfter"]), "", json).await;
    assert_eq!((end.status.as_u16(), end.json()["events"].clone()), (200, json!([])));
    // Only a history that was lost by a restore can have had this number.
    for path in ["events?after=999", "events/stream?after=999"] {
        let lost = service.call("GET", &format!("{job}/{path}"), "", json).await;
        assert_eq!((lost.status.as_u16(), lost.code()), (410, "cursor_expired".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn an_event_stream_is_resumed_after_the_last_event() {
    let service = service().await;
    let job = service.job("x").await;
    let resume = |request: &mut Request<Body>| {
        drop(request.headers_mut().insert("last-event-id", "1".parse().unwrap()));
    };
    let response = service.begin("GET", &format!("{job}/events/stream"), "", resume).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let by_accept = service.begin("GET", &format!("{job}/events"), "", |_| {}).await;
    assert_eq!(by_accept.headers()["content-type"], "text/event-stream");
    let beyond = service.get(&format!("{job}/events/stream?after=9007199254740992")).await;
    assert_eq!((beyond.status.as_u16(), beyond.code()), (400, "invalid_query".to_owned()));
    let mut body = response.into_body();
    let mut text = String::new();
    let mut read_until = async |end: &str| {
        while !text.contains(end) {
            let frame = within(end, body.frame()).await;
            text.push_str(std::str::from_utf8(frame.unwrap().unwrap().data_ref().unwrap()).unwrap());
        }
        text.clone()
    };
    let begun = read_until("\n\n").await;
    assert!(begun.starts_with("id: 2\nevent: message.accepted\ndata: {\"seq\":2,"), "{begun}");
    service.work().await;
    read_until("event: job.completed").await;
    service.shutdown.cancel();
    while let Some(frame) = within("the end", body.frame()).await {
        frame.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_key_is_revoked() {
    let service = service().await;
    let job = service.job("x").await;
    let other = service.post("/v2/keys", r#"{"name":"other"}"#).await.json();
    let value = format!("Bearer {}", other["secret"].as_str().unwrap()).parse().unwrap();
    let with = |request: &mut Request<Body>| drop(request.headers_mut().insert("authorization", value));
    let response = service.begin("GET", &format!("{job}/events"), "", with).await;
    let revoke = service.call("DELETE", &format!("/v2/keys/{}", other["id"].as_str().unwrap()), "", |_| {}).await;
    assert_eq!(revoke.status, 204);
    let begun = tokio::time::Instant::now();
    response.into_body().collect().await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(16), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_job_is_deleted() {
    let service = service().await;
    let job = service.job("x").await;
    let response = service.begin("GET", &format!("{job}/events"), "", |_| {}).await;
    service.post(&format!("{job}/cancel"), "").await;
    assert_eq!(service.call("DELETE", "/v2/projects/shop", "", |_| {}).await.status, 204);
    let begun = tokio::time::Instant::now();
    response.into_body().collect().await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(16), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_diff_is_text_and_an_unavailable_repository_is_an_error() {
    let service = service().await;
    let job = service.job("x").await;
    let diff = service.get(&format!("{job}/diff")).await;
    assert_eq!((diff.header("content-type"), diff.text.as_str()), ("text/x-diff; charset=utf-8", "--- a/x\n+++ b/x\n"));
    let away = service.get(&format!("{}/diff", service.job("no diff").await)).await;
    assert_eq!((away.status.as_u16(), away.code()), (503, "repository_unavailable".to_owned()));
}

#[tokio::test]
async fn a_job_can_be_created_with_a_ref_model_agent_branch_and_title() {
    let service = service().await;
    let body =
        json!({"prompt": "x", "ref": "v1", "model": "m", "agent": "other", "branch": "b", "draft": true, "title": "T"});
    let made = service.post("/v2/agent/shop/job", &body.to_string()).await.json();
    assert_eq!((made["model"].clone(), made["source"]["ref"].clone()), (json!("m"), json!("v1")));
    let unknown = service.post("/v2/agent/shop/job", r#"{"prompt":"x","agent":"nobody"}"#).await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (400, "unknown_agent".to_owned()));
    assert!(unknown.text.contains("journeyman, other"), "{}", unknown.text);
}

#[tokio::test]
async fn the_effort_of_a_job_is_its_own_or_else_the_project_s() {
    let service = service().await;
    let effort = async |body: Value| {
        let made = service.post("/v2/agent/shop/job", &body.to_string()).await;
        assert_eq!(made.status, 201, "{}", made.text);
        assert_eq!(made.json().as_object().unwrap().len(), 7, "the record stays as it is");
        let job = format!("/v2/agent/shop/job/{}", made.json()["id"].as_str().unwrap());
        (service.get(&format!("{job}/details")).await.json()["effort"].clone(), job)
    };
    assert_eq!(effort(json!({"prompt": "x"})).await.0, json!(null));
    for name in ["none", "minimal", "low", "medium", "high", "xhigh", "max"] {
        assert_eq!(effort(json!({"prompt": "x", "effort": name})).await.0, name);
    }
    let changed = service.call("PATCH", "/v2/projects/shop", r#"{"effort":"high"}"#, |_| {}).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["effort"]), (200, &json!("high")));
    assert_eq!(effort(json!({"prompt": "x", "effort": null})).await.0, "high");
    let (own, job) = effort(json!({"prompt": "x", "effort": "low"})).await;
    assert_eq!(own, "low");
    let json_of = |request: &mut Request<Body>| {
        drop(request.headers_mut().insert("accept", "application/json".parse().unwrap()));
    };
    let created = &service.call("GET", &format!("{job}/events"), "", json_of).await.json()["events"][0];
    assert_eq!((&created["type"], &created["data"]["effort"]), (&json!("job.created"), &json!("low")));
    // A later change of the project does not change the jobs that exist.
    service.call("PATCH", "/v2/projects/shop", r#"{"effort":null}"#, |_| {}).await;
    assert_eq!(service.get("/v2/projects/shop").await.json()["effort"], json!(null));
    service.post(&format!("{job}/message"), r#"{"prompt":"more"}"#).await;
    assert_eq!(service.get(&format!("{job}/details")).await.json()["effort"], "low");
}

#[tokio::test]
async fn an_unknown_effort_is_refused_with_the_names() {
    let service = service().await;
    for effort in ["huge", "High", "zero", "", " low"] {
        let job = service.post("/v2/agent/shop/job", &json!({"prompt": "x", "effort": effort}).to_string()).await;
        let body = json!({"effort": effort}).to_string();
        let project = service.call("PATCH", "/v2/projects/shop", body, |_| {}).await;
        for answer in [job, project] {
            assert_eq!((answer.status.as_u16(), answer.code()), (400, "invalid_body".to_owned()), "{effort}");
            let names = "`none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`";
            assert!(answer.text.contains("effort: ") && answer.text.contains(names), "{effort}: {}", answer.text);
        }
    }
    for effort in [json!(3), json!(["high"]), json!(true)] {
        let job = service.post("/v2/agent/shop/job", &json!({"prompt": "x", "effort": effort}).to_string()).await;
        assert_eq!(job.status, 400, "{effort}");
    }
}

#[tokio::test]
async fn a_policy_that_the_agent_does_not_support_is_refused() {
    let service = service().await;
    let change = |sandbox: serde_json::Value| json!({ "sandbox": sandbox }).to_string();
    let set = service
        .call("PATCH", "/v2/projects/shop", change(json!({"permissionKinds": {"fetch": "refuse"}})), |_| {})
        .await;
    assert_eq!((set.status.as_u16(), set.code()), (400, "unsupported_policy".to_owned()));
    assert!(set.text.contains("does not ask for permission for fetch") && set.text.contains("edit"), "{}", set.text);
    let set = service.call("PATCH", "/v2/projects/shop", change(json!({"permissions": "refuse"})), |_| {}).await;
    assert_eq!(set.status, 200, "{}", set.text);
    let refused = service.post("/v2/agent/shop/job", r#"{"prompt":"x","agent":"other"}"#).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (400, "unsupported_policy".to_owned()));
    assert!(refused.text.contains("never asks"), "{}", refused.text);
    assert_eq!(service.post("/v2/agent/shop/job", r#"{"prompt":"x"}"#).await.status, 201);
}

#[tokio::test]
async fn idempotency_keys_of_different_api_keys_are_independent() {
    let service = service().await;
    let other = service.make_key(|_| {}).await;
    let create = async |key: &str| {
        let body = r#"{"prompt":"x"}"#.to_owned();
        let answer = service
            .call("POST", "/v2/agent/shop/job", body, |request| {
                request.headers_mut().insert("idempotency-key", "k1".parse().unwrap());
                request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
            })
            .await;
        (answer.json()["id"].clone(), answer.headers.contains_key("idempotent-replayed"))
    };
    let (first, replayed) = create(&service.key).await;
    assert!(!replayed);
    let (second, replayed) = create(&other).await;
    assert!(!replayed && first != second, "{first} {second}");
    assert_eq!(create(&service.key).await, (first, true));
    assert_eq!(create(&other).await, (second, true));
}

#[tokio::test]
async fn a_branch_of_an_unarchived_job_is_refused_for_another_job() {
    let service = service().await;
    let create = async || service.post("/v2/agent/shop/job", r#"{"prompt":"x","branch":"fix"}"#).await;
    let first = create().await.json();
    let refused = create().await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "branch_taken".to_owned()));
    assert!(refused.text.contains(first["id"].as_str().unwrap()), "{}", refused.text);
    let path = format!("/v2/agent/shop/job/{}", first["id"].as_str().unwrap());
    assert_eq!(service.post(format!("{path}/archive"), "").await.status, 200);
    assert_eq!(create().await.status, 201);
    let refused = service.post(format!("{path}/unarchive"), "").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "branch_taken".to_owned()));
}

#[tokio::test]
async fn the_response_to_a_creation_has_a_location() {
    let service = service().await;
    let job = service.post("/v2/agent/shop/job", r#"{"prompt":"x"}"#).await;
    let location = job.header("location");
    assert_eq!(service.get(location).await.json()["id"], job.json()["id"]);
    let project = service.post("/v2/projects", r#"{"id":"blog","repository":"local:blog"}"#).await;
    assert_eq!(service.get(project.header("location")).await.json()["id"], "blog");
}
