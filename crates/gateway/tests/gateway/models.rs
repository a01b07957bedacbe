//! What is let through, what is not, and how failures are told apart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use journeyman_core::model::Dialect;
use journeyman_core::model::price::{Budgets, Tokens};
use journeyman_core::ports::{Gateway, ModelCall};
use journeyman_core::project::SecretValue;
use journeyman_core::run::ReasonCode;
use journeyman_testkit::{Fault, ModelServer, Reply, TOKENS};
use serde_json::{Value, json};

use super::given::{House, KEY, PRICE, TOKEN, house, house_with, open, provider};

/// A path and a body of each form, with the fields in which a key is shown.
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
async fn each_form_goes_through_with_the_key_and_is_counted() {
    for (dialect, path, body, field) in forms() {
        let server = ModelServer::saying("hello").await;
        let house = open(dialect, &server).await;
        let answer = house.post(path, &body).header("cookie", "c").send().await.unwrap();
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
        let usage = house.close().await.usage.unwrap();
        let cached = if dialect == Dialect::Ollama { 0 } else { TOKENS.1 };
        assert_eq!(
            (usage.input_tokens, usage.cached_tokens, usage.output_tokens),
            (TOKENS.0, cached, TOKENS.2),
            "{path}"
        );
        let tokens = Tokens { input: TOKENS.0, cached, cache_written: 0, output: TOKENS.2 };
        assert_eq!(usage.cost_micros, Some(PRICE.of(&tokens)), "{path}");
        let told = house.told();
        let [ModelCall::Made { model, tokens: counted, failure: None, .. }] = told.as_slice() else {
            panic!("{path}: {told:?}")
        };
        assert_eq!((model.as_str(), counted), ("p/m", &tokens), "{path}");
        assert_eq!((house.totals().calls.get("ok"), house.totals().tokens), (Some(&1), tokens), "{path}");
    }
}

#[tokio::test]
async fn the_first_piece_goes_through_before_there_is_a_second() {
    let server = ModelServer::start(|_| Reply::Fault(Fault::SilenceInStream)).await;
    let house = open(Dialect::Anthropic, &server).await;
    let body = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": []});
    let mut answer = house.post("/v1/messages", &body).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("content_block_start") {
        text.push_str(&String::from_utf8_lossy(&answer.chunk().await.unwrap().unwrap()));
    }
    // The provider is silent from here on; after a while the answer breaks off.
    assert!(answer.chunk().await.is_err());
    let used = house.close().await;
    assert_eq!(used.failure.unwrap().reason.code, ReasonCode::ModelTimedOut);
    assert_eq!(used.usage.unwrap().input_tokens, TOKENS.0, "what it has told is counted");
}

#[tokio::test]
async fn only_who_shows_the_token_is_let_through_and_only_in_a_turn() {
    let server = ModelServer::saying("hello").await;
    let house = house(Dialect::Anthropic, &server.url).await;
    let body = json!({"model": "m", "messages": []});
    assert_eq!(house.post("/v1/messages", &body).send().await.unwrap().status(), 403, "no run is under way");
    house.open(Budgets::default());
    let url = format!("{}/v1/messages", house.url);
    for request in [
        house.client.post(&url),
        house.client.post(&url).bearer_auth("t0ken-of-the-ruN"),
        house.client.post(&url).bearer_auth(KEY),
        house.client.post(&url).header("x-api-key", ""),
        house.client.post(format!("{url}?token={TOKEN}")),
    ] {
        let answer = request.json(&body).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status == 401 && text.contains("authentication_error"), "{status} {text}");
    }
    house.close().await;
    assert_eq!(house.post("/v1/messages", &body).send().await.unwrap().status(), 403, "the run is over");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn nothing_but_models_and_no_other_model_is_reached() {
    let server = ModelServer::saying("hello").await;
    let house = open(Dialect::Anthropic, &server).await;
    for path in
        ["/v1/files", "/v1/messages/batches", "/v1/models/../files", "/v1/organizations/api_keys", "/", "//v1/messages"]
    {
        let answer = house.post(path, &json!({"model": "m"})).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
    }
    for (body, status, word) in [
        (json!({"model": "dearest"}), 403, "dearest"),
        (json!({"model": "m", "mcp_servers": [{"url": "https://evil"}]}), 400, "mcp_servers"),
        (json!({"model": "m", "tools": [{"type": "web_search_20250305"}]}), 400, "hosted-tools"),
        (json!([]), 400, "object"),
    ] {
        let answer = house.post("/v1/messages", &body).send().await.unwrap();
        let (found, text) = (answer.status(), answer.text().await.unwrap());
        assert!(found == status && text.contains(word), "{body}: {found} {text}");
    }
    assert!(server.asked().is_empty());
    assert_eq!(house.denied().len(), 10, "{:?}", house.denied());
    let small = house.post("/v1/messages", &json!({"model": "small-1", "messages": []})).send().await.unwrap();
    assert_eq!(small.status(), 200, "the operator has allowed it");
    let count = house.post("/v1/messages/count_tokens", &json!({"model": "m"})).send().await.unwrap();
    assert_eq!(count.status(), 200);
    let list = house.client.get(format!("{}/v1/models", house.url)).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(list.status(), 200);
    let used = house.close().await;
    assert_eq!(used.usage.unwrap().input_tokens, TOKENS.0, "counting and listing cost nothing");
    assert_eq!(used.failure, None, "a call that is not let through does not fail the run by itself");
}

#[tokio::test]
async fn failures_of_a_provider_are_told_apart_and_show_no_key() {
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
        let house = open(Dialect::Anthropic, &server).await;
        let body = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": []});
        let answer = house.post("/v1/messages", &body).send().await.unwrap();
        assert_eq!(answer.status(), status.unwrap_or(200), "{fault:?}");
        let text = answer.text().await;
        assert_eq!(text.is_err(), matches!(fault, Fault::Cut | Fault::Short), "{fault:?}: {text:?}");
        let used = house.close().await;
        let failure = used.failure.unwrap();
        assert_eq!((failure.reason.code, failure.may_pass), (code, may_pass), "{fault:?}: {}", failure.reason.text);
        assert_eq!(server.asked().len(), 1, "{fault:?}: asked once, and nowhere else");
        let shown = format!("{text:?}{}{:?}", failure.reason.text, house.told());
        assert!(!shown.contains(KEY), "{fault:?}: {shown}");
        let name = serde_json::to_value(code).unwrap();
        assert_eq!(house.totals().calls.get(name.as_str().unwrap()), Some(&1), "{fault:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_of() {
    let house = house(Dialect::Anthropic, "http://127.0.0.1:1").await;
    house.open(Budgets::default());
    assert_eq!(house.call(9).await.status(), 502);
    let failure = house.close().await.failure.unwrap();
    assert_eq!(failure.reason.code, ReasonCode::ModelUnavailable);
    assert!(failure.reason.text.contains("refused"), "{}", failure.reason.text);
}

#[tokio::test]
async fn a_call_that_went_well_makes_an_earlier_failure_good() {
    let server = ModelServer::start(|asked| match asked.number {
        0 => Reply::Fault(Fault::Status(529)),
        _ => Reply::Text("hello".to_owned()),
    })
    .await;
    let house = open(Dialect::Anthropic, &server).await;
    assert_eq!(house.call(9).await.status(), 529);
    assert_eq!(house.call(9).await.text().await.unwrap().matches("hello").count(), 1);
    let used = house.close().await;
    assert_eq!((used.failure, used.usage.unwrap().output_tokens), (None, TOKENS.2));
}

#[tokio::test]
async fn a_call_beside_the_turn_does_not_decide_about_it() {
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
        // A title that is not made after the last answer, or before the first.
        (vec![("go", true), ("fail", false)], false),
        (vec![("fail", false), ("go", true)], false),
        // And one that is made does not mend the turn.
        (vec![("go", true), ("fail", true), ("go", false)], true),
        (vec![("fail", true), ("go", true)], false),
        // Without tools each may be the last word.
        (vec![("go", false), ("fail", false)], true),
    ] {
        let house = open(Dialect::Anthropic, &server).await;
        for (system, tools) in &calls {
            house.post("/v1/messages", &call(system, *tools)).send().await.unwrap().text().await.unwrap();
        }
        assert_eq!(house.close().await.failure.is_some(), fails, "{calls:?}");
    }
}

#[tokio::test]
async fn closing_cuts_what_is_under_way() {
    let server = ModelServer::start(|_| Reply::Fault(Fault::SilenceInStream)).await;
    let house = open(Dialect::Anthropic, &server).await;
    let body = json!({"model": "m", "stream": true, "max_tokens": 9, "messages": []});
    let mut answer = house.post("/v1/messages", &body).send().await.unwrap();
    answer.chunk().await.unwrap();
    let begun = Instant::now();
    let used = house.close().await;
    assert!(begun.elapsed() < Duration::from_millis(250), "it waits for no provider");
    assert!(used.usage.is_some() && used.failure.is_none(), "{used:?}");
    let end = loop {
        match answer.chunk().await {
            Ok(Some(_)) => {}
            end => break end,
        }
    };
    assert!(end.is_err(), "it is seen to be cut");
}

#[tokio::test]
async fn a_project_calls_with_its_own_key_and_without_one_nothing_is_called() {
    let server = ModelServer::saying("hello").await;
    let keyless = |house: &House| house.doors.route("p/m", &BTreeMap::new()).unwrap_err();
    let house = house_with(provider(Dialect::OpenAi, &server.url)).await;
    let own = BTreeMap::from([("MODEL_KEY".to_owned(), SecretValue("sk-own".to_owned()))]);
    house.open_with(Budgets::default(), own.clone());
    let body = json!({"model": "m", "messages": []});
    house.post("/v1/chat/completions", &body).send().await.unwrap().text().await.unwrap();
    assert_eq!(server.asked()[0].header("authorization"), "Bearer sk-own");
    let none = house_with(journeyman_gateway::Provider { key: None, ..provider(Dialect::OpenAi, &server.url) }).await;
    let reason = keyless(&none);
    assert!(reason.code == ReasonCode::ModelNotConfigured && reason.text.contains("MODEL_KEY"), "{}", reason.text);
    assert!(none.doors.route("p/m", &own).unwrap().is_some());
    let unknown = none.doors.route("other/m", &own).unwrap_err();
    assert!(unknown.text.contains("one of p"), "{}", unknown.text);
    assert_eq!(none.doors.route("test/scripted", &own), Ok(None));
}

#[tokio::test]
async fn bodies_that_are_too_large_or_never_end_are_refused() {
    let server = ModelServer::saying("hello").await;
    let house = open(Dialect::Anthropic, &server).await;
    let large = json!({"model": "m", "messages": "x".repeat(33 << 20)});
    // It may hang up before all was sent.
    if let Ok(answer) = house.post("/v1/messages", &large).send().await {
        assert_eq!(answer.status(), 413);
    }
    assert!(server.asked().is_empty());
    let stuffed = house.client.post(format!("{}/v1/messages", house.url)).header("x", "y".repeat(500 << 10));
    if let Ok(answer) = stuffed.send().await {
        assert_eq!(answer.status(), 431);
    }
    assert_eq!(house.call(9).await.status(), 200, "others go on");
}
