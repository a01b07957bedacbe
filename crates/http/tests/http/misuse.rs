//! Tests of invalid requests.

use std::io::Write;

use axum::body::Body;
use axum::http::Request;

use super::fixtures::service;

#[tokio::test]
async fn an_invalid_body_is_refused_and_the_error_names_the_problem() {
    let service = service().await;
    let job = service.job("x").await;
    let too_long = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(100_001));
    let too_large = format!(r#"{{"prompt":"x","pad":"{}"}}"#, "x".repeat(1 << 20));
    let cases: Vec<(&[u8], u16, &str, &str)> = vec![
        (b"", 400, "invalid_json", "JSON"),
        (b"{", 400, "invalid_json", "JSON"),
        (b"not json", 400, "invalid_json", "JSON"),
        (br#"{"prompt":"x"} trailing"#, 400, "invalid_json", "JSON"),
        (b"\xff\xfe", 400, "invalid_json", "JSON"),
        (b"{\"prompt\":\"\xff\"}", 400, "invalid_json", "JSON"),
        (br#"{}"#, 400, "invalid_body", "prompt"),
        (br#"[]"#, 400, "invalid_body", "JSON object"),
        (br#"["x",null]"#, 400, "invalid_body", "JSON object"),
        (br#""x""#, 400, "invalid_body", "JSON object"),
        (br#"{"prompt":5}"#, 400, "invalid_body", "prompt"),
        (br#"{"prompt":null}"#, 400, "invalid_body", "prompt"),
        (br#"{"prompt":""}"#, 400, "invalid_prompt", "at least 1 character"),
        (br#"{"prompt":"a\u0000b"}"#, 400, "invalid_prompt", "NUL"),
        (br#"{"prompt":"\ud800"}"#, 400, "invalid_json", "hex escape"),
        (br#"{"prompt":"x","prompt":"y"}"#, 400, "invalid_body", "prompt"),
        (br#"{"prompt":"x","delivery":"later"}"#, 400, "invalid_body", "delivery"),
        (too_long.as_bytes(), 413, "prompt_too_long", "100000"),
        (too_large.as_bytes(), 413, "body_too_large", "1048576"),
    ];
    for (body, status, code, named) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = service.call("POST", &format!("{job}/message"), body.to_vec(), |_| {}).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code.to_owned()), "{shown}: {answer:?}");
        assert!(answer.text.contains(named), "{shown}: {}", answer.text);
    }
    assert_eq!(service.get(&format!("{job}/messages")).await.json()["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_fields_of_a_new_job_are_checked() {
    let service = service().await;
    for (body, named) in [
        (r#"{"prompt":"x","ref":"a b"}"#, "ref"),
        (r#"{"prompt":"x","ref":""}"#, "ref"),
        (r#"{"prompt":"x","branch":"-x"}"#, "branch"),
        (r#"{"prompt":"x","model":""}"#, "model"),
        (r#"{"prompt":"x","title":"a\nb"}"#, "title"),
        (r#"{"prompt":"x","draft":"yes"}"#, "draft"),
        (r#"{"prompt":"x","pullRequest":true}"#, "\"pullRequest: expected the number or the URL of a pull request"),
        (r#"{"prompt":"x","pullRequest":0}"#, "pullRequest"),
        (r#"{"prompt":"x","pullRequest":"https://example.com/"}"#, "pullRequest"),
        (r#"{"prompt":"x","pullRequest":1,"branch":"a"}"#, "branch and ref must not be given"),
    ] {
        let answer = service.post("/v2/agent/shop/job", body).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, "invalid_body".to_owned()), "{body}");
        assert!(answer.text.contains(named), "{body}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_body_without_a_json_content_type_is_refused() {
    let service = service().await;
    let job = service.job("x").await;
    let path = format!("{job}/message");
    for (kind, status) in [
        (Some("application/json"), 200),
        (Some("application/json; charset=utf-8"), 200),
        (Some("APPLICATION/JSON"), 200),
        (Some("application/vnd.x+json"), 415),
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (None, 415),
    ] {
        let answer = service
            .call("POST", &path, r#"{"prompt":"x"}"#, |request| {
                request.headers_mut().remove("content-type");
                if let Some(kind) = kind {
                    request.headers_mut().insert("content-type", kind.parse().unwrap());
                }
            })
            .await;
        assert_eq!(answer.status, status, "{kind:?}");
        if status == 415 {
            assert_eq!(answer.code(), "content_type_not_json");
        }
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_get_errors_in_the_common_form() {
    let service = service().await;
    let job = service.job("x").await;
    let job_id = job.rsplit('/').next().unwrap().to_owned();
    for (method, path, status, code) in [
        ("GET", "/nothing".to_owned(), 404, "not_found"),
        ("GET", "/v1/agent/shop/jobs".to_owned(), 404, "not_found"),
        ("GET", format!("{job}/nothing"), 404, "not_found"),
        ("GET", "/v2/agent/nowhere/jobs".to_owned(), 404, "project_not_found"),
        ("GET", "/v2/agent/NO/jobs".to_owned(), 404, "project_not_found"),
        ("GET", format!("/v2/agent/nowhere/job/{job_id}"), 404, "job_not_found"),
        ("GET", "/v2/agent/shop/job/nonsense".to_owned(), 404, "job_not_found"),
        ("GET", format!("/v2/agent/shop/job/job_{}", "f".repeat(32)), 404, "job_not_found"),
        ("GET", "/v2/agent/shop/job/%00".to_owned(), 404, "job_not_found"),
        ("GET", "/v2/agent/shop/job/%ff".to_owned(), 404, "project_not_found"),
        ("PUT", job.clone(), 405, "method_not_allowed"),
        ("GET", format!("{job}/message"), 405, "method_not_allowed"),
        ("DELETE", "/v2/keys".to_owned(), 405, "method_not_allowed"),
    ] {
        let answer = service.call(method, &path, r#"{"prompt":"x"}"#, |_| {}).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code.to_owned()), "{method} {path}");
        if status == 405 {
            assert!(!answer.header("allow").is_empty(), "{method} {path} names the methods");
        }
    }
}

#[tokio::test]
async fn an_invalid_query_parameter_is_named() {
    let service = service().await;
    let job = service.job("x").await;
    for (path, named) in [
        ("/v2/agent/shop/jobs?limit=0".to_owned(), "limit"),
        ("/v2/agent/shop/jobs?limit=101".to_owned(), "limit"),
        ("/v2/agent/shop/jobs?limit=x".to_owned(), "limit"),
        ("/v2/agent/shop/jobs?status=done".to_owned(), "status"),
        ("/v2/agent/shop/jobs?createdAfter=yesterday".to_owned(), "createdAfter"),
        ("/v2/agent/shop/jobs?cursor=nonsense".to_owned(), "cursor"),
        ("/v2/agent/shop/jobs?cursor=%F0".to_owned(), "cursor"),
        ("/v2/agent/shop/jobs?q=%00".to_owned(), "q"),
        ("/v2/inbox?limit=0".to_owned(), "limit"),
        ("/v2/inbox?state=open".to_owned(), "state"),
        ("/v2/projects/shop/inbox?outcome=lost".to_owned(), "outcome: must be one of message, message_changed"),
        ("/v2/projects/shop/inbox?outcome=unknown".to_owned(), "outcome"),
        ("/v2/inbox?outcome=".to_owned(), "outcome"),
        (format!("{job}?wait=61"), "wait"),
        (format!("{job}?wait=-1"), "wait"),
        (format!("{job}/events?after=x"), "after"),
        (format!("{job}/events?limit=0"), "limit"),
    ] {
        let answer = service.get(&path).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, "invalid_query".to_owned()), "{path}");
        assert!(answer.text.contains(named), "{path}: {}", answer.text);
    }
    let id = |request: &mut Request<Body>| drop(request.headers_mut().insert("last-event-id", "x".parse().unwrap()));
    assert_eq!(service.call("GET", &format!("{job}/events"), "", id).await.code(), "invalid_last_event_id");
}

#[tokio::test]
async fn the_client_s_request_id_is_used_if_it_has_a_safe_form() {
    let service = service().await;
    for (given, taken) in [("trace-1.2_3", true), ("", false), ("a b", false), ("<x>", false)] {
        let answer = service
            .call("GET", "/v2/projects", "", |request| {
                drop(request.headers_mut().insert("x-request-id", given.parse().unwrap()));
            })
            .await;
        assert_eq!(answer.header("x-request-id") == given, taken, "{given:?}");
        assert!(!answer.header("x-request-id").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out() {
    let service = service().await;
    let job = service.job("x").await;
    let begun = tokio::time::Instant::now();
    let never = Body::from_stream(futures::stream::pending::<std::io::Result<axum::body::Bytes>>());
    let answer = service.call("POST", &format!("{job}/message"), never, |_| {}).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (408, "body_timeout".to_owned()));
    assert_eq!(begun.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn an_incomplete_body_is_refused() {
    let service = service().await;
    let job = service.job("x").await;
    let broken = Body::from_stream(futures::stream::once(async {
        Err::<axum::body::Bytes, _>(std::io::Error::other("the connection was reset"))
    }));
    let answer = service.call("POST", &format!("{job}/message"), broken, |_| {}).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (400, "body_broken".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_end_use_up_the_memory_of_their_key_only() {
    let service = std::sync::Arc::new(service().await);
    let job = service.job("x").await;
    let path = format!("{job}/message");
    let other = service.make_key(|_| {}).await;
    let large = format!(r#"{{"prompt":"x","pad":"{}"}}"#, "x".repeat(1_000_000));
    // Bodies that never end, after their first megabyte.
    let mut open = tokio::task::JoinSet::new();
    for _ in 0..33 {
        let (service, path, first) = (std::sync::Arc::clone(&service), path.clone(), large.clone());
        open.spawn(async move {
            let first = futures::stream::iter([Ok::<_, std::io::Error>(axum::body::Bytes::from(first))]);
            let body = Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()));
            service.call("POST", &path, body, |_| {}).await
        });
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    // The clock stands still, so the time for a body does not end.
    assert_eq!(service.post(&path, &large).await.status, 200, "the oldest of the same key makes room");
    let ended = open.join_next().await.unwrap().unwrap();
    assert_eq!((ended.status.as_u16(), ended.code()), (503, "overloaded".to_owned()), "{ended:?}");
    assert!(ended.headers.contains_key("retry-after"));
    let value = format!("Bearer {other}").parse().unwrap();
    let change = |request: &mut axum::http::Request<Body>| {
        request.headers_mut().insert("authorization", value);
    };
    assert_eq!(service.call("POST", &path, large.clone(), change).await.status, 200, "another key is served");
    open.shutdown().await;
    assert_eq!(service.post(&path, &large).await.status, 200, "the memory is released");
}

#[tokio::test]
async fn senders_who_declare_much_and_send_nothing_take_no_memory_from_webhooks() {
    let service = std::sync::Arc::new(service().await);
    let mut open = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let service = std::sync::Arc::clone(&service);
        open.spawn(async move {
            let body = Body::from_stream(futures::stream::pending::<std::io::Result<axum::body::Bytes>>());
            let declare = |request: &mut axum::http::Request<Body>| {
                request.headers_mut().insert("content-length", (25_u32 << 20).into());
            };
            service.call("POST", "/hooks/github", body, declare).await
        });
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let answer = service.call("POST", "/hooks/github", "{}", |_| {}).await;
    assert_ne!(answer.status.as_u16(), 503, "{answer:?}");
    open.shutdown().await;
}

/// Returns a body compressed with `gzip` or `zstd`.
fn compressed(coding: &str, body: &str) -> Vec<u8> {
    if coding == "zstd" {
        return zstd::encode_all(body.as_bytes(), 3).unwrap();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_compressed_body_is_read_within_the_limits() {
    let service = service().await;
    let send = async |coding: &str, body: Vec<u8>| {
        let named = coding.parse().unwrap();
        let answer = service
            .call("POST", "/v2/agent/shop/job", body, |request| {
                request.headers_mut().insert("content-encoding", named);
            })
            .await;
        let code = if answer.status.is_client_error() { answer.code() } else { String::new() };
        (answer.status.as_u16(), code)
    };
    let (small, bomb) = (r#"{"prompt":"x"}"#, format!(r#"{{"prompt":"{}"}}"#, "x".repeat(3 << 20)));
    for coding in ["gzip", "zstd"] {
        assert_eq!(send(coding, compressed(coding, small)).await, (201, String::new()), "{coding}");
        assert_eq!(send(coding, compressed(coding, &bomb)).await, (413, "body_too_large".to_owned()), "{coding}");
        assert_eq!(send(coding, small.as_bytes().to_vec()).await, (400, "body_broken".to_owned()), "{coding}");
    }
    // A window of 512 MiB, which a decoder would allocate.
    let window = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98][..], &[0; 16]].concat();
    assert_eq!(send("zstd", window).await, (400, "body_broken".to_owned()));
    assert_eq!(send("identity", small.as_bytes().to_vec()).await.0, 201);
    for coding in ["br", "deflate", "gzip, gzip"] {
        let unknown = (415, "content_encoding_unknown".to_owned());
        assert_eq!(send(coding, compressed("gzip", small)).await, unknown, "{coding}");
    }
}

#[tokio::test]
async fn a_body_is_json_in_utf_8_and_a_patch_may_be_a_merge_patch() {
    let service = service().await;
    for (method, path, kind, status) in [
        ("POST", "/v2/agent/shop/job", "application/json; charset=utf-8", 201),
        ("POST", "/v2/agent/shop/job", "Application/JSON; Charset=\"UTF-8\"", 201),
        ("POST", "/v2/agent/shop/job", "application/json; charset=utf-16", 415),
        ("POST", "/v2/agent/shop/job", "application/merge-patch+json", 415),
        ("POST", "/v2/agent/shop/job", "application/problem+json", 415),
        ("PATCH", "/v2/projects/shop", "application/merge-patch+json", 200),
    ] {
        let body = if method == "POST" { r#"{"prompt":"x"}"# } else { "{}" };
        let change = |request: &mut axum::extract::Request| {
            request.headers_mut().insert("content-type", kind.parse().unwrap());
        };
        assert_eq!(service.call(method, path, body, change).await.status.as_u16(), status, "{method} {kind}");
    }
}

#[tokio::test]
async fn responses_are_compressed_as_the_client_accepts_and_streams_are_not() {
    let service = service().await;
    let job = service.job(&"long prompt ".repeat(500)).await;
    let coding = async |path: &str, accepted: &'static str| {
        let answer = service
            .begin("GET", path, "", |request| {
                request.headers_mut().insert("accept-encoding", accepted.parse().unwrap());
            })
            .await;
        let coding = answer.headers().get("content-encoding").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), coding)
    };
    let messages = format!("{job}/messages");
    for name in ["gzip", "br", "zstd"] {
        assert_eq!(coding(&messages, name).await, (200, Some(name.to_owned())));
    }
    assert_eq!(coding(&messages, "identity").await, (200, None));
    assert_eq!(coding(&job, "gzip").await, (200, None), "a record is small");
    assert_eq!(coding(&format!("{job}/events"), "gzip").await, (200, None), "a stream");
}

#[tokio::test]
async fn accept_is_case_insensitive_and_respects_quality() {
    let service = service().await;
    let path = format!("{}/events", service.job("x").await);
    for (accept, kind) in [
        ("APPLICATION/JSON", "application/json"),
        ("application/json; q=0.5, text/event-stream; q=0.1", "application/json"),
        ("application/json; q=0, */*", "text/event-stream"),
        ("application/json, text/event-stream", "text/event-stream"),
        ("*/*", "text/event-stream"),
    ] {
        let change = |request: &mut axum::extract::Request| {
            request.headers_mut().insert("accept", accept.parse().unwrap());
        };
        let answer = service.begin("GET", &path, "", change).await;
        assert_eq!(answer.headers()["content-type"], kind, "{accept}");
    }
}
