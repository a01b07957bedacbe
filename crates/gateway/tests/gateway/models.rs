//! Tests of which calls are allowed, and of how failures are distinguished.

use std::collections::BTreeMap;

use journeyman_core::model::Dialect;
use journeyman_core::model::budget::Budgets;
use journeyman_core::model::price::Tokens;
use journeyman_core::ports::{Gateway, ModelCall};
use journeyman_core::run::ReasonCode;
use journeyman_core::secret::SecretValue;
use journeyman_gateway::{FieldGroup, PriceTable};
use journeyman_testkit::{Fault, ModelServer, Recorded, Reply, TOKENS};
use serde_json::{Value, json};

use super::fixtures::{
    Fixture, KEY, PRICE, TOKEN, fixture, fixture_with, open, provider, read_beginning, skip_silence,
};

/// Returns a path and a body of each form, and the header field with the key.
fn forms() -> Vec<(Dialect, &'static str, Value, &'static str)> {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let chat = |stream: bool| json!({"model": "m", "stream": stream, "messages": messages, "max_tokens": 20});
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    let mut forms = Vec::new();
    for stream in [false, true] {
        forms.push((Dialect::Anthropic, "/v1/messages?beta=true", chat(stream), "x-api-key"));
        forms.push((Dialect::OpenAi, "/v1/chat/completions", chat(stream), "authorization"));
        forms.push((Dialect::Compatible, "/v1/chat/completions", chat(stream), "authorization"));
        let responses = json!({"model": "m", "stream": stream, "input": "hi"});
        forms.push((Dialect::OpenAiResponses, "/v1/responses", responses, "authorization"));
        let ollama = json!({"model": "m", "stream": stream, "messages": messages});
        forms.push((Dialect::Ollama, "/api/chat", ollama, "authorization"));
    }
    forms.push((Dialect::Gemini, "/v1beta/models/m:generateContent", contents.clone(), "x-goog-api-key"));
    let streamed = "/v1beta/models/m:streamGenerateContent?alt=sse&key=t0ken-of-the-run";
    forms.push((Dialect::Gemini, streamed, contents, "x-goog-api-key"));
    forms
}

#[tokio::test]
async fn each_form_is_sent_with_the_key_and_counted() {
    for (dialect, path, body, field) in forms() {
        let server = ModelServer::saying("hello").await;
        let fixture = open(dialect, &server).await;
        let answer = fixture.post(path, &body).header("cookie", "c").send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success() && text.contains("hello"), "{path}: {status} {text}");
        let asked = server.asked().pop().unwrap();
        assert!(asked.header(field).ends_with(KEY), "{path}: {:?}", asked.headers);
        let shown = format!("{:?}{}", asked.headers, asked.path);
        assert!(!shown.contains(TOKEN) && !shown.contains("cookie"), "{path}: {shown}");
        let known = ["/v1/messages?beta=true", "/v1/chat/completions", "/v1/responses", "/api/chat"];
        let passed = path.replace("&key=t0ken-of-the-run", "");
        assert!(known.contains(&asked.path.as_str()) || asked.path.starts_with("/v1beta/models/m:"), "{}", asked.path);
        assert_eq!(asked.path, passed);
        let usage = fixture.close().await.usage.unwrap();
        let cached = if dialect == Dialect::Ollama { 0 } else { TOKENS.1 };
        assert_eq!(
            (usage.input_tokens, usage.cached_tokens, usage.output_tokens),
            (TOKENS.0, cached, TOKENS.2),
            "{path}"
        );
        let tokens = Tokens { input: TOKENS.0, cached, output: TOKENS.2, ..Tokens::default() };
        assert_eq!(usage.cost_micros, Some(PRICE.of(&tokens)), "{path}");
        let calls = fixture.calls();
        let [ModelCall::Made { model, tokens: counted, failure: None, .. }] = calls.as_slice() else {
            panic!("{path}: {calls:?}")
        };
        assert_eq!((model.as_str(), counted), ("p/m", &tokens), "{path}");
        assert_eq!((fixture.totals().calls.get("ok"), fixture.totals().tokens), (Some(&1), tokens), "{path}");
    }
}

#[tokio::test]
async fn the_first_piece_is_passed_on_before_the_second_arrives() {
    let server = ModelServer::start(|_| Reply::Fault(Fault::SilenceInStream)).await;
    let fixture = open(Dialect::Anthropic, &server).await;
    let body = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": []});
    let mut answer = fixture.post("/v1/messages", &body).send().await.unwrap();
    read_beginning(&mut answer).await;
    // The provider is silent from here on. After a while, the answer breaks off.
    skip_silence().await;
    assert!(answer.chunk().await.is_err());
    let used = fixture.close().await;
    assert_eq!(used.failure.unwrap().reason.code, ReasonCode::ModelTimedOut);
    assert_eq!(used.usage.unwrap().input_tokens, TOKENS.0, "the reported tokens are counted");
}

#[tokio::test]
async fn calls_need_the_token_and_an_open_account() {
    let server = ModelServer::saying("hello").await;
    let fixture = fixture(Dialect::Anthropic, &server.url).await;
    let body = json!({"model": "m", "messages": []});
    assert_eq!(fixture.post("/v1/messages", &body).send().await.unwrap().status(), 403, "no turn is running");
    fixture.open(Budgets::default());
    let url = format!("{}/v1/messages", fixture.url);
    for request in [
        fixture.client.post(&url),
        fixture.client.post(&url).bearer_auth("t0ken-of-the-ruN"),
        fixture.client.post(&url).bearer_auth(KEY),
        fixture.client.post(&url).header("x-api-key", ""),
        fixture.client.post(format!("{url}?token={TOKEN}")),
    ] {
        let answer = request.json(&body).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status == 401 && text.contains("authentication_error"), "{status} {text}");
    }
    fixture.close().await;
    assert_eq!(fixture.post("/v1/messages", &body).send().await.unwrap().status(), 403, "the turn has ended");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn only_allowed_paths_and_models_are_reached() {
    let server = ModelServer::saying("hello").await;
    let fixture = open(Dialect::Anthropic, &server).await;
    for path in
        ["/v1/files", "/v1/messages/batches", "/v1/models/../files", "/v1/organizations/api_keys", "/", "//v1/messages"]
    {
        let answer = fixture.post(path, &json!({"model": "m"})).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
    }
    for (body, status, word) in [
        (json!({"model": "dearest"}), 403, "dearest"),
        (json!({"model": "m", "mcp_servers": [{"url": "https://evil"}]}), 400, "mcp_servers"),
        (json!({"model": "m", "tools": [{"type": "web_search_20250305"}]}), 400, "hosted-tools"),
        (json!([]), 400, "object"),
    ] {
        let answer = fixture.post("/v1/messages", &body).send().await.unwrap();
        let (found, text) = (answer.status(), answer.text().await.unwrap());
        assert!(found == status && text.contains(word), "{body}: {found} {text}");
    }
    assert!(server.asked().is_empty());
    assert_eq!(fixture.denied().len(), 10, "{:?}", fixture.denied());
    let small = fixture.post("/v1/messages", &json!({"model": "small-1", "messages": []})).send().await.unwrap();
    assert_eq!(small.status(), 200, "the operator has allowed it");
    let count = fixture.post("/v1/messages/count_tokens", &json!({"model": "m"})).send().await.unwrap();
    assert_eq!(count.status(), 200);
    let list = fixture.client.get(format!("{}/v1/models", fixture.url)).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(list.status(), 200);
    let used = fixture.close().await;
    assert_eq!(used.usage.unwrap().input_tokens, TOKENS.0, "counting and listing cost nothing");
    assert_eq!(used.failure, None, "a denied call alone does not fail the run");
}

#[tokio::test]
async fn only_the_exact_name_of_the_model_is_reached() {
    let server = ModelServer::saying("hello").await;
    for (dialect, chosen, in_path, others) in [
        (Dialect::OpenAi, "gpt-5.1-codex-max", "", ["gpt-5.1-codex", "gpt-5.1-codex-max-max"]),
        (Dialect::OpenAiResponses, "gpt-5-high", "", ["gpt-5", "gpt-5-low"]),
        (Dialect::Anthropic, "claude-none", "", ["claude", "CLAUDE-NONE"]),
        (Dialect::Compatible, "org/m:free", "", ["org/m", "m:free"]),
        (Dialect::Compatible, "a::b", "", ["b", "a"]),
        (Dialect::Ollama, "qwen3:8b", "", ["qwen3", "8b"]),
        (Dialect::Gemini, "gemini-3-pro-high", "gemini-3-pro-high", ["gemini-3-pro", "gemini-3-pro%2Dlow"]),
        (Dialect::Gemini, "tuned/my model:2", "tuned%2Fmy%20model%3A2", ["my%20model%3A2", "tuned"]),
    ] {
        let fixture = fixture(dialect, &server.url).await.with_model(&format!("p/{chosen}"));
        fixture.open(Budgets::default());
        let (field, path) = match dialect {
            Dialect::Anthropic => ("messages", "/v1/messages"),
            Dialect::OpenAiResponses => ("input", "/v1/responses"),
            Dialect::Ollama => ("messages", "/api/chat"),
            _ => ("messages", "/v1/chat/completions"),
        };
        let call = async |name: &str| {
            let (path, body) = if dialect == Dialect::Gemini {
                (format!("/v1beta/models/{name}:generateContent"), json!({"contents": []}))
            } else {
                (path.to_owned(), json!({"model": name, "max_tokens": 5, field: []}))
            };
            fixture.post(&path, &body).send().await.unwrap().status()
        };
        let before = server.asked().len();
        for other in others {
            assert_eq!(call(other).await, 403, "{chosen}: {other}");
        }
        assert_eq!(server.asked().len(), before, "{chosen}: no other model is called");
        let name = if in_path.is_empty() { chosen } else { in_path };
        assert_eq!(call(name).await, 200, "{chosen}");
        let asked = server.asked().pop().unwrap();
        if dialect == Dialect::Gemini {
            assert_eq!(asked.path, format!("/v1beta/models/{in_path}:generateContent"));
        } else {
            assert_eq!(asked.body["model"], chosen);
        }
    }
}

#[tokio::test]
async fn failures_of_a_provider_are_distinguished_and_show_no_key() {
    for (fault, status, code, may_pass) in [
        (Fault::Status(401), Some(401), ReasonCode::ModelUnauthorized, false),
        (Fault::Status(403), Some(403), ReasonCode::ModelUnauthorized, false),
        (Fault::Status(429), Some(429), ReasonCode::ModelRateLimited, true),
        (Fault::Status(500), Some(500), ReasonCode::ModelUnavailable, true),
        (Fault::Status(529), Some(529), ReasonCode::ModelUnavailable, true),
        (Fault::Status(400), Some(400), ReasonCode::ModelRefused, false),
        (Fault::Redirect, Some(502), ReasonCode::ModelRefused, false),
        (Fault::Silence, Some(504), ReasonCode::ModelTimedOut, true),
        (Fault::Cut, None, ReasonCode::ModelCut, true),
        (Fault::Short, None, ReasonCode::ModelCut, true),
        (Fault::ErrorInStream, None, ReasonCode::ModelUnavailable, true),
    ] {
        let server = ModelServer::start(move |_| Reply::Fault(fault)).await;
        let fixture = open(Dialect::Anthropic, &server).await;
        let body = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": []});
        let answer = fixture.call_with_fault(&server, fault, &body).await;
        assert_eq!(answer.status(), status.unwrap_or(200), "{fault:?}");
        let text = answer.text().await;
        assert_eq!(text.is_err(), matches!(fault, Fault::Cut | Fault::Short), "{fault:?}: {text:?}");
        let used = fixture.close().await;
        let failure = used.failure.unwrap();
        assert_eq!((failure.reason.code, failure.may_pass), (code, may_pass), "{fault:?}: {}", failure.reason.text);
        assert_eq!(server.asked().len(), 1, "{fault:?}: called once, and no other server");
        let shown = format!("{text:?}{}{:?}", failure.reason.text, fixture.calls());
        assert!(!shown.contains(KEY), "{fault:?}: {shown}");
        let name = serde_json::to_value(code).unwrap();
        assert_eq!(fixture.totals().calls.get(name.as_str().unwrap()), Some(&1), "{fault:?}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported() {
    let fixture = fixture(Dialect::Anthropic, "http://127.0.0.1:1").await;
    fixture.open(Budgets::default());
    assert_eq!(fixture.call(9).await.status(), 502);
    let failure = fixture.close().await.failure.unwrap();
    assert_eq!(failure.reason.code, ReasonCode::ModelUnavailable);
    assert!(failure.reason.text.contains("refused"), "{}", failure.reason.text);
}

#[tokio::test]
async fn a_successful_call_clears_an_earlier_failure() {
    let server = ModelServer::start(|asked| match asked.number {
        0 => Reply::Fault(Fault::Status(529)),
        _ => Reply::Text("hello".to_owned()),
    })
    .await;
    let fixture = open(Dialect::Anthropic, &server).await;
    assert_eq!(fixture.call(9).await.status(), 529);
    assert_eq!(fixture.call(9).await.text().await.unwrap().matches("hello").count(), 1);
    let used = fixture.close().await;
    assert_eq!((used.failure, used.usage.unwrap().output_tokens), (None, TOKENS.2));
}

#[tokio::test]
async fn a_call_without_tools_does_not_decide_about_a_turn_with_tools() {
    let server = ModelServer::start(|asked| match asked.body["system"].as_str() {
        Some("fail") => Reply::Fault(Fault::Status(529)),
        _ => Reply::Text("hello".to_owned()),
    })
    .await;
    let call = |system: &str, tools: bool| {
        let tools = if tools { json!([{"name": "t", "input_schema": {}}]) } else { json!([]) };
        json!({"model": "m", "max_tokens": 9, "messages": [], "system": system, "tools": tools})
    };
    for (calls, fails) in [
        // A title that fails after the last answer, or before the first.
        (vec![("go", true), ("fail", false)], false),
        (vec![("fail", false), ("go", true)], false),
        // A title that succeeds does not make up for a failed turn.
        (vec![("go", true), ("fail", true), ("go", false)], true),
        (vec![("fail", true), ("go", true)], false),
        // Without tools, every call may be the last of the turn.
        (vec![("go", false), ("fail", false)], true),
    ] {
        let fixture = open(Dialect::Anthropic, &server).await;
        for (system, tools) in &calls {
            fixture.post("/v1/messages", &call(system, *tools)).send().await.unwrap().text().await.unwrap();
        }
        assert_eq!(fixture.close().await.failure.is_some(), fails, "{calls:?}");
    }
}

#[tokio::test]
async fn closing_cancels_running_calls() {
    let server = ModelServer::start(|_| Reply::Fault(Fault::SilenceInStream)).await;
    let fixture = open(Dialect::Anthropic, &server).await;
    let body = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": []});
    let mut answer = fixture.post("/v1/messages", &body).send().await.unwrap();
    read_beginning(&mut answer).await;
    // The provider is silent from here on, and closing does not wait for it: a call that is not canceled would not be
    // counted, or counted as a failure.
    let used = fixture.close().await;
    assert!(used.usage.is_some() && used.failure.is_none(), "{used:?}");
    let calls = fixture.calls();
    assert!(matches!(calls.as_slice(), [ModelCall::Made { failure: None, .. }]), "{calls:?}");
    let end = loop {
        match answer.chunk().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(end.is_err(), "the caller sees that the answer is incomplete");
}

#[tokio::test]
async fn the_key_of_a_project_takes_precedence_and_a_missing_key_is_an_error() {
    let server = ModelServer::saying("hello").await;
    let keyless = |fixture: &Fixture| fixture.gateway.route("p/m", &BTreeMap::new()).unwrap_err();
    let fixture = fixture_with(provider(Dialect::OpenAi, &server.url), PriceTable::default()).await;
    let own = BTreeMap::from([("MODEL_KEY".to_owned(), SecretValue("sk-own".to_owned()))]);
    fixture.open_with(Budgets::default(), own.clone());
    let body = json!({"model": "m", "messages": []});
    fixture.post("/v1/chat/completions", &body).send().await.unwrap().text().await.unwrap();
    assert_eq!(server.asked()[0].header("authorization"), "Bearer sk-own");
    let none = {
        let provider = journeyman_gateway::Provider { key: None, ..provider(Dialect::OpenAi, &server.url) };
        fixture_with(provider, PriceTable::default()).await
    };
    let reason = keyless(&none);
    assert!(reason.code == ReasonCode::ModelNotConfigured && reason.text.contains("MODEL_KEY"), "{}", reason.text);
    assert!(none.gateway.route("p/m", &own).unwrap().is_some());
    let unknown = none.gateway.route("other/m", &own).unwrap_err();
    assert!(unknown.text.contains("one of p"), "{}", unknown.text);
    assert_eq!(none.gateway.route("test/scripted", &own), Ok(None));
}

#[tokio::test]
async fn bodies_and_heads_that_are_too_large_are_refused() {
    let server = ModelServer::saying("hello").await;
    let fixture = open(Dialect::Anthropic, &server).await;
    let large = json!({"model": "m", "messages": "x".repeat(33 << 20)});
    // The server may close the connection before all was sent.
    if let Ok(answer) = fixture.post("/v1/messages", &large).send().await {
        assert_eq!(answer.status(), 413);
    }
    assert!(server.asked().is_empty());
    let stuffed = fixture.client.post(format!("{}/v1/messages", fixture.url)).header("x", "y".repeat(500 << 10));
    if let Ok(answer) = stuffed.send().await {
        assert_eq!(answer.status(), 431);
    }
    assert_eq!(fixture.call(9).await.status(), 200, "other calls still work");
}

#[tokio::test]
async fn the_rate_limits_of_providers_are_passed_on() {
    for limits in [
        vec![("anthropic-ratelimit-tokens-remaining", "5"), ("retry-after", "7"), ("request-id", "r")],
        vec![("x-ratelimit-remaining-requests", "3"), ("x-ratelimit-reset-tokens", "6ms"), ("retry-after-ms", "9")],
    ] {
        let mut headers = limits.clone();
        headers.push(("set-cookie", "c"));
        let recorded = Recorded {
            headers,
            content_type: "application/json",
            pieces: vec![json!({"type": "message", "usage": {"input_tokens": 1, "output_tokens": 1}}).to_string()],
            ..Recorded::default()
        };
        let server = ModelServer::start(move |_| Reply::Recorded(recorded.clone())).await;
        let fixture = open(Dialect::Anthropic, &server).await;
        let answer = fixture.call(10).await;
        for (name, value) in limits {
            assert_eq!(answer.headers().get(name).unwrap(), value, "{name}");
        }
        assert!(!answer.headers().contains_key("set-cookie"));
    }
}

#[tokio::test]
async fn another_model_may_answer_only_if_it_is_allowed() {
    let server = ModelServer::saying("hello").await;
    let groups = [FieldGroup::Fallbacks].into();
    let provider = journeyman_gateway::Provider { groups, ..provider(Dialect::Anthropic, &server.url) };
    let fixture = fixture_with(provider, PriceTable::default()).await;
    fixture.open(Budgets::default());
    for (other, status) in [("small-1", 200), ("dear", 403)] {
        let body = json!({"model": "m", "max_tokens": 5, "messages": [], "fallbacks": [{"model": other}]});
        let answer = fixture.post("/v1/messages", &body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{other}");
    }
    assert_eq!(server.asked().len(), 1);
}
