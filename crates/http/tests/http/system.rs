//! Tests of health, metrics, and the description of the interface.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use journeyman_core::job::command::{Outcome, Report};
use journeyman_core::run::{Reason, ReasonCode, Usage};
use journeyman_http::document;
use journeyman_testkit::BlobFault;
use serde_json::{Value, json};

use super::fixtures::{Answer, Service, service};

#[tokio::test]
async fn health_metrics_and_documentation_need_no_key() {
    let service = service().await;
    service.job("x").await;
    for (path, kind, part) in [
        ("/healthz", "application/json", "ok"),
        ("/readyz", "application/json", "ready"),
        ("/metrics", "application/openmetrics-text; version=1.0.0; charset=utf-8", "journeyman_jobs_active 1"),
        ("/openapi.json", "application/json", "\"openapi\":\"3.1"),
        ("/docs", "text/html; charset=utf-8", "/docs/guides/quickstart"),
        ("/docs/reference/createJob", "text/html; charset=utf-8", "/v2/agent/{projectId}/job"),
        ("/docs/openapi.json", "application/json", "\"openapi\":\"3.1"),
        ("/assets/journeyman.css", "text/css; charset=utf-8", "{"),
    ] {
        let answer = service.call("GET", path, "", |request| drop(request.headers_mut().remove("authorization"))).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, kind), "{path}");
        assert!(answer.text.contains(part), "{path}");
    }
    let metrics = service.get("/metrics").await.text;
    let line = "journeyman_http_requests_total{method=\"POST\",route=\"/v2/agent/{projectId}/job\",status=\"201\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    for line in [
        "journeyman_accepted_total{kind=\"create\"} 1",
        "journeyman_model_calls_total{provider=\"anthropic\",outcome=\"ok\"} 2",
        "journeyman_model_calls_total{provider=\"anthropic\",outcome=\"model_cut\"} 1",
        "journeyman_model_tokens_total{provider=\"anthropic\",kind=\"cached\"} 40",
        "journeyman_model_cost_dollars_total{provider=\"anthropic\"} 0.000007",
        "journeyman_connections_limit 100",
        "journeyman_connections_open{authenticated=\"true\"} 1",
        "journeyman_connections_open{authenticated=\"false\"} 2",
        "journeyman_connections_accepted_total 9",
        "journeyman_connections_refused_total{cause=\"address_limit\"} 3",
        "journeyman_connections_closed_total{cause=\"idle_timeout\"} 4",
        "journeyman_duty_runs_total{duty=\"retention\"} 3",
        "journeyman_poll_requests_total{code_host=\"github.com\"} 9",
        "journeyman_credential_expiry_timestamp_seconds{code_host=\"github\",owner=\"code_host\"} 8\n",
        "journeyman_credential_problems{code_host=\"github\",owner=\"code_host\"} 0\n",
        "journeyman_credential_problems{code_host=\"github\",owner=\"project\"} 2\n",
        "journeyman_duty_failures_total{duty=\"retention\"} 1",
        "journeyman_duty_last_duration_seconds{duty=\"retention\"} 1.5",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn the_metrics_show_due_and_running_runs_tasks_and_event_streams() {
    let service = service().await;
    let expect = async |step: &str, lines: &[&str]| {
        let metrics = service.get("/metrics").await.text;
        for line in lines {
            assert!(metrics.contains(&format!("journeyman_{line}\n")), "{step}: {line}: {metrics}");
        }
    };
    expect("no job", &["runs_due 0", "runs_running 0", "oldest_due_seconds 0.0", "outbox_tasks 0"]).await;
    let job = service.job("x").await;
    service.world.advance(Duration::from_secs(5));
    expect("a waiting job", &["runs_due 1", "runs_running 0", "oldest_due_seconds 5.0"]).await;
    let (id, token) = service.claim().await.unwrap();
    expect("a run", &["runs_due 0", "runs_running 1", "oldest_due_seconds 0.0", "outbox_tasks 0"]).await;
    let outcome = Outcome::Failed { reason: Reason::new(ReasonCode::Internal, "x"), retry: None };
    service.engine.report(id, token, Report::Finished { outcome, usage: Usage::default() }).await.unwrap();
    service.world.advance(Duration::from_secs(2));
    let ended =
        ["runs_due 0", "runs_running 0", "outbox_tasks 1", "outbox_tasks_retried 0", "outbox_oldest_seconds 2.0"];
    expect("an ended run", &ended).await;
    expect("no stream", &["event_streams_open 0"]).await;
    let stream = service.begin("GET", &format!("{job}/events/stream"), "", |_| {}).await;
    expect("a stream", &["event_streams_open 1"]).await;
    drop(stream);
    expect("a closed stream", &["event_streams_open 0"]).await;
}

#[tokio::test]
async fn the_metrics_show_the_backlog_of_webhooks() {
    let service = service().await;
    let expect = async |step: &str, lines: [&str; 3]| {
        let metrics = service.get("/metrics").await.text;
        for line in lines {
            assert!(metrics.contains(&format!("journeyman_{line}\n")), "{step}: {line}: {metrics}");
        }
    };
    let hook = json!({"url": "https://hooks.example/a", "events": ["job.created"]}).to_string();
    let hook = service.post("/v2/projects/shop/webhooks", &hook).await.json();
    expect("no event", ["webhook_deliveries_pending 0", "webhook_oldest_due_seconds 0.0", "webhooks_failing 0"]).await;
    service.endpoints.answer(hook["id"].as_str().unwrap().parse().unwrap(), 500);
    service.job("x").await;
    service.deliverer.deliver_due().await.unwrap();
    service.world.advance(Duration::from_secs(15));
    let metrics = service.get("/metrics").await.text;
    let age = metrics.lines().find_map(|line| line.strip_prefix("journeyman_webhook_oldest_due_seconds ")).unwrap();
    assert!((9.0..=10.0).contains(&age.parse::<f64>().unwrap()), "due 5 to 6 s after the failure: {age}");
    expect("a failure", ["webhook_deliveries_pending 1", "webhooks_failing 1", "outbox_tasks 0"]).await;
}

/// The alerts and the dashboard in `deploy/` name metrics; a metric that was renamed would disable them.
#[tokio::test]
async fn the_alerts_and_the_dashboard_use_metrics_that_exist() {
    let service = service().await;
    service.job("x").await;
    let metrics = service.get("/metrics").await.text;
    let files = [
        include_str!("../../../../deploy/prometheus/alerts.yml"),
        include_str!("../../../../deploy/grafana/journeyman.json"),
    ];
    let mut seen = 0;
    for name in files.iter().flat_map(|file| file.split(|c: char| !(c.is_ascii_lowercase() || c == '_'))) {
        let Some(rest) = name.strip_prefix("journeyman_") else { continue };
        // SQLite has no limit on its connections, and no job waits.
        if rest.starts_with("database_connections_") || rest == "jobs_waiting" {
            continue;
        }
        let stem = ["_total", "_bucket", "_info"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(metrics.contains(&format!("# TYPE {stem} ")), "there is no metric {name}");
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}

#[tokio::test]
async fn administrators_see_the_guarantees_of_the_sandbox() {
    let service = service().await;
    assert!(service.get("/readyz").await.json()["sandbox"].is_null(), "the sandbox was not tested yet");
    let system = service.get("/v2/system").await.json();
    let lost = json!({"name": "memory", "holds": false, "givenUp": true, "note": "no control groups"});
    assert_eq!(system["sandbox"]["guarantees"][1], lost, "{system}");
    assert_eq!((&system["sandbox"]["kind"], &system["sandbox"]["enough"]), (&json!("fake"), &json!(true)));
    let ready = service.get("/readyz").await.json();
    assert_eq!(ready["sandbox"], json!({"kind": "fake", "enough": true, "lost": ["memory"]}));
}

#[tokio::test]
async fn a_disk_below_its_reserve_is_reported() {
    let service = service().await;
    let ready = service.get("/readyz").await.json();
    assert_eq!(ready["status"], "ready", "requests are still handled");
    let disk = json!({"freeBytes": 10, "reserveBytes": 20, "enough": false});
    assert_eq!(ready["disk"], disk, "no run is claimed");
    let metrics = service.get("/metrics").await.text;
    let hosted = ["journeyman_hosted_git_bytes 7", "journeyman_hosted_lfs_bytes 8", "journeyman_hosted_lfs_objects 9"];
    for line in ["journeyman_disk_free_bytes 10", "journeyman_disk_reserve_bytes 20"].into_iter().chain(hosted) {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn a_machine_that_cannot_create_a_sandbox_is_healthy_but_not_ready() {
    let service = service().await;
    service.machine.is_away.store(true, Ordering::SeqCst);
    let answer = service.get("/readyz").await;
    let body = answer.json();
    assert_eq!((answer.status.as_u16(), &body["code"]), (503, &json!("sandbox_unavailable")), "{answer:?}");
    assert_eq!((&body["reads"]["ok"], &body["writes"]["ok"]), (&json!(true), &json!(true)), "{answer:?}");
    assert!(answer.text.contains("the container engine does not answer"), "{answer:?}");
    assert!(!answer.text.contains("/run/"), "the path is not for clients without a key: {answer:?}");
    assert_eq!(service.get("/healthz").await.status.as_u16(), 200, "a restart would not help");
    service.machine.is_away.store(false, Ordering::SeqCst);
    assert_eq!(service.get("/readyz").await.status.as_u16(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_blob_store_fails_handles_requests_and_says_so() {
    let service = service().await;
    let ready = service.get("/readyz").await.json();
    assert_eq!((&ready["status"], &ready["storage"]["ok"]), (&json!("ready"), &json!(true)), "{ready}");
    // A check is made at intervals, and one that hangs is not waited for. The clock of the test is paused.
    let until = async |status: &str| loop {
        let answer = service.get("/readyz").await;
        assert_eq!(answer.status.as_u16(), 200, "messages are accepted: {answer:?}");
        if answer.json()["status"] == status {
            return answer;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    for fault in [BlobFault::Writes, BlobFault::Everything, BlobFault::EndlessWrites] {
        service.blobs.set(Some(fault));
        let answer = until("degraded").await;
        let storage = &answer.json()["storage"];
        assert_eq!((&storage["ok"], &storage["code"]), (&json!(false), &json!("storage_unavailable")), "{answer:?}");
        assert!(storage["checkedAt"].is_string() && !answer.text.contains("on request"), "{answer:?}");
        assert!(storage["text"].as_str().unwrap().contains("cannot be written"), "{answer:?}");
        service.blobs.set(None);
        let answer = until("ready").await;
        assert_eq!(answer.json()["storage"]["ok"], true, "{fault:?}: {answer:?}");
    }
}

/// Returns the answer to a health check from an address, with header fields in place of the key of an administrator.
async fn seen_by(service: &Service, path: &str, peer: &str, headers: &[(&'static str, String)]) -> Answer {
    let change = |request: &mut Request<Body>| {
        request.headers_mut().remove("authorization");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        request.extensions_mut().insert(ConnectInfo(peer.parse::<std::net::SocketAddr>().unwrap()));
    };
    service.call("GET", path, "", change).await
}

#[tokio::test(start_paused = true)]
async fn strangers_get_only_the_status_of_a_machine() {
    let service = service().await;
    let bearer = |key: &str| vec![("authorization", format!("Bearer {key}"))];
    let limited = service.make_key(|key| key.projects = Some(vec!["shop".parse().unwrap()])).await;
    let administrator = service.make_key(|_| {}).await;
    let proxied = |name: &'static str| vec![(name, "192.0.2.9".to_owned())];
    let strangers = [
        ("192.0.2.1:1", vec![]),
        ("192.0.2.1:1", bearer(&limited)),
        ("192.0.2.1:1", bearer("jmn_wrong")),
        ("192.0.2.1:1", vec![("authorization", "Basic !".to_owned())]),
        ("127.0.0.1:1", proxied("x-forwarded-for")),
        ("127.0.0.1:1", proxied("forwarded")),
        ("[::1]:1", proxied("x-real-ip")),
    ];
    let known = [("127.0.0.1:1", vec![]), ("[::ffff:127.0.0.1]:1", vec![]), ("192.0.2.1:1", bearer(&administrator))];
    for path in ["/readyz", "/readyz/reads"] {
        for (peer, headers) in &strangers {
            let answer = seen_by(&service, path, peer, headers).await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()),
                (200, json!({"status": "ready"})),
                "{peer} {headers:?}"
            );
        }
        for (peer, headers) in &known {
            let answer = seen_by(&service, path, peer, headers).await;
            let body = answer.json();
            assert_eq!(
                (answer.status.as_u16(), &body["writes"]["ok"]),
                (200, &json!(true)),
                "{peer} {headers:?}: {body}"
            );
        }
    }
    service.machine.is_away.store(true, Ordering::SeqCst);
    for (peer, headers) in &strangers {
        let answer = seen_by(&service, "/readyz", peer, headers).await;
        let expected = (503, json!({"status": "unavailable"}));
        assert_eq!((answer.status.as_u16(), answer.json()), expected, "a load balancer needs the status code");
        assert_eq!(answer.header("retry-after"), "2");
    }
    for (peer, headers) in &known {
        let answer = seen_by(&service, "/readyz", peer, headers).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (503, &json!("sandbox_unavailable")), "{peer}");
    }
    service.machine.is_away.store(false, Ordering::SeqCst);
    service.blobs.set(Some(BlobFault::Writes));
    // The result of the last check is too old after this. The clock of the test is paused.
    tokio::time::sleep(Duration::from_secs(16)).await;
    let answer = seen_by(&service, "/readyz", "192.0.2.1:1", &[]).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"status": "degraded"})));
}

#[test]
fn the_stored_document_is_the_generated_one() {
    let generated: Value = serde_json::from_str(&document(env!("CARGO_PKG_VERSION")).to_string()).unwrap();
    let stored: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    assert!(generated == stored, "the interface has changed: run `make openapi` and review docs/openapi.json");
}

#[test]
fn every_operation_is_described() {
    let document: Value = document("1");
    let mut operations = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(operation["summary"].is_string(), "{method} {path} has a summary");
            assert!(operations.insert(id.to_owned()), "{id} is there once");
            let named: Vec<&str> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            let in_path: Vec<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
            assert_eq!(named, in_path, "{method} {path}");
        }
    }
    assert_eq!(operations.len(), 91, "{operations:?}");
    assert_eq!(document["components"]["schemas"]["Job"]["required"].as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn every_json_answer_to_get_has_a_tag_with_which_it_is_not_sent_again() {
    let service = service().await;
    let job = service.job("x").await;
    let message =
        service.get(&format!("{job}/messages")).await.json()["messages"][0]["id"].as_str().unwrap().to_owned();
    let (job, key) = (job.rsplit('/').next().unwrap().to_owned(), service.get("/v2/keys").await.json());
    let key = key["keys"][0]["id"].as_str().unwrap().to_owned();
    let host = json!({ "id": "github", "kind": "github", "url": "https://github.com/", "token": "t" });
    assert_eq!(service.post("/v2/code-hosts", &host.to_string()).await.status, 201);
    let hook = service.post("/v2/projects/shop/webhooks", r#"{"url":"https://hooks.example/"}"#).await.json();
    let hook = hook["id"].as_str().unwrap().to_owned();
    let template = service.post("/v2/projects/shop/templates", r#"{"name":"a","prompt":"b"}"#).await.json();
    let template = template["id"].as_str().unwrap().to_owned();
    let trust =
        json!({ "name": "ci", "issuer": "https://ci.example/", "claims": { "sub": "a" }, "projects": ["shop"] });
    let trust = service.post("/v2/oidc/trusts", &trust.to_string()).await.json();
    let trust = trust["id"].as_str().unwrap().to_owned();
    let user = service.post("/v2/users", r#"{"name":"ada"}"#).await.json()["id"].as_str().unwrap().to_owned();
    let slack = service.post("/v2/slack/workspaces", r#"{"botToken":"xoxb-12345","signingSecret":"0123456789"}"#).await;
    let slack = slack.json()["id"].as_str().unwrap().to_owned();
    let document: Value = document("1");
    let mut tagged = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if item["get"].pointer("/responses/200/content/application~1json").is_none() {
            continue;
        }
        let id = match path {
            _ if path.starts_with("/v2/keys") => &key,
            _ if path.contains("/webhooks/") => &hook,
            _ if path.contains("/templates/") => &template,
            _ if path.starts_with("/v2/oidc/trusts") => &trust,
            _ if path.starts_with("/v2/users") => &user,
            _ if path.starts_with("/v2/slack/") => &slack,
            _ => &job,
        };
        let path = path.replace("{projectId}", "shop").replace("{id}", id).replace("{codeHost}", "github");
        let path = path.replace("{messageId}", &message).replace("{number}", "1");
        let send = async |tag: &str| {
            service
                .call("GET", &path, "", |request| {
                    request.headers_mut().insert("accept", "application/json".parse().unwrap());
                    request.headers_mut().insert("if-none-match", tag.parse().unwrap());
                })
                .await
        };
        let read = send("\"another\"").await;
        assert_eq!((read.status.as_u16(), read.header("content-type")), (200, "application/json"), "{path}: {read:?}");
        assert_eq!(read.header("cache-control"), "private, no-cache", "{path}");
        let again = send(read.header("etag")).await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{path}: {again:?}");
        assert_eq!(again.header("etag"), read.header("etag"), "{path}");
        let get = &item["get"];
        assert!(get["responses"]["304"]["headers"]["ETag"].is_object(), "{path}");
        assert!(get["parameters"].as_array().unwrap().iter().any(|one| one["name"] == "If-None-Match"), "{path}");
        tagged += 1;
    }
    assert!(tagged >= 20, "{tagged}");
}

#[test]
fn every_operation_has_the_common_responses_and_examples() {
    let document: Value = document("1");
    assert_eq!(document["servers"][0]["url"], "/");
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = format!("{method} {path}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("405"), "{name}");
            assert_eq!(responses.contains_key("408"), operation.get("requestBody").is_some(), "{name}");
            for (status, response) in responses {
                assert!(response["headers"].get("X-Request-Id").is_some(), "{name} {status}");
                for (kind, content) in response["content"].as_object().into_iter().flatten() {
                    assert!(!content["example"].is_null(), "{name} {status} {kind}");
                }
            }
            for content in operation["requestBody"]["content"].as_object().into_iter().flatten() {
                assert!(!content.1["example"].is_null(), "{name}");
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["schema"]["type"].is_string(), "{name} {parameter}");
            }
        }
    }
    let codes = document["components"]["schemas"]["ErrorCode"]["enum"].as_array().unwrap();
    assert!(codes.contains(&json!("job_not_found")) && codes.len() > 40);
}

/// Code generators give a schema without a name a numbered one, such as `CreateProjectEnvironmentType0`.
#[test]
fn no_schema_is_an_object_without_a_name_or_null() {
    fn check(path: &str, schema: &Value) {
        for choice in schema["oneOf"].as_array().into_iter().flatten() {
            assert!(choice.get("$ref").is_some() || choice["type"] == "null", "{path}: {schema}");
        }
        let types = schema["type"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(!types.contains(&json!("object")), "{path}: {schema}");
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            check(&format!("{path}.{field}"), schema);
        }
    }
    for (name, schema) in document("1")["components"]["schemas"].as_object().unwrap() {
        check(name, schema);
    }
}
