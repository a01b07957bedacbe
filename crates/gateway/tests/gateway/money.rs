//! Tests of budgets.

use journeyman_core::model::Dialect;
use journeyman_core::model::budget::{Budgets, Used};
use journeyman_core::model::price::{Maximum, Tokens};
use journeyman_core::ports::ModelCall;
use journeyman_core::run::ReasonCode;
use journeyman_gateway::PriceTable;
use journeyman_testkit::{Fault, ModelServer, Recorded, Reply, TOKENS, until_async};
use serde_json::{Value, json};

use super::fixtures::{PRICE, fixture, fixture_with, open, provider};

/// Returns the cost of a call of the test server.
fn cost() -> u64 {
    PRICE.of(&Tokens { input: TOKENS.0, cached: TOKENS.1, output: TOKENS.2, ..Tokens::default() })
}

#[tokio::test]
async fn costs_are_stored_even_without_a_budget() {
    let server = ModelServer::saying("hello").await;
    let fixture = open(Dialect::Anthropic, &server).await;
    for _ in 0..3 {
        fixture.call(1000).await.text().await.unwrap();
    }
    assert_eq!(fixture.close().await.usage.unwrap().cost_micros, Some(3 * cost()));
    assert_eq!(fixture.spent().await, [3 * cost(); 3]);
}

#[tokio::test]
async fn a_call_that_could_exceed_a_budget_is_not_made() {
    let free = Budgets::default();
    // A call of at most 100 tokens is made. One of a million is not, although it would have cost as little.
    let most = 10_000;
    for (budgets, name) in [
        (Budgets { run: Some(most), ..free }, "run"),
        (Budgets { job: Some(most), ..free }, "job"),
        (Budgets { day: Some(most), ..free }, "day"),
        (Budgets { project: Some(most), ..free }, "project"),
    ] {
        let server = ModelServer::saying("hello").await;
        let fixture = fixture(Dialect::Anthropic, &server.url).await;
        fixture.open(budgets);
        assert_eq!(fixture.call(100).await.status(), 200, "{name}");
        let is_settled = async || (fixture.spent().await == [cost(); 3]).then_some(());
        until_async("the rest of what was set aside is free again", is_settled).await;
        let refused = fixture.call(1_000_000).await;
        let (status, text) = (refused.status(), refused.text().await.unwrap());
        assert!(status == 402 && text.contains(&format!("limits.budget.{name}Micros")), "{status} {text}");
        let used = fixture.close().await;
        assert_eq!(used.failure.unwrap().reason.code, ReasonCode::OverBudget, "{name}");
        assert_eq!((fixture.spent().await, server.asked().len()), ([cost(); 3], 1), "{name}");
        assert_eq!(fixture.denied().len(), 1, "{name}");
        // The next run of the job starts only the budget of a run from zero.
        fixture.open(budgets);
        let calls = most / cost() + 1;
        let mut last = 200;
        for _ in 0..calls {
            last = fixture.call(1).await.status().as_u16();
        }
        assert_eq!(last, 402, "{name}: the budget is used up");
        assert!(fixture.spent().await[0] <= 2 * most, "{name}");
    }
}

#[tokio::test]
async fn concurrent_calls_wait_for_what_others_have_set_aside() {
    let server = ModelServer::saying("hello").await;
    let fixture = fixture(Dialect::Anthropic, &server.url).await;
    // A call may cost slightly more than 15,000 millionths, so each budget allows three at a time. All together cost less
    // than one may.
    for budgets in [
        Budgets { run: Some(50_000), ..Budgets::default() },
        Budgets { job: Some(50_000), ..Budgets::default() },
        Budgets { day: Some(50_000), project: Some(50_000), ..Budgets::default() },
    ] {
        fixture.open(budgets);
        let before = fixture.spent().await[0];
        let calls = (0..12).map(async |_| {
            let answer = fixture.call(1000).await;
            (answer.status().as_u16(), answer.text().await.unwrap())
        });
        for (status, text) in futures::future::join_all(calls).await {
            assert_eq!(status, 200, "{budgets:?}: {text}");
        }
        assert_eq!(fixture.close().await.failure, None, "{budgets:?}");
        let used = fixture.used().await[0];
        assert_eq!(used, Used { spent: before + 12 * cost(), set_aside: 0 }, "{budgets:?}");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_money_ends_with_its_caller_and_its_turn() {
    let server = ModelServer::start(|_| Reply::Fault(Fault::Silence)).await;
    let fixture = fixture(Dialect::Anthropic, &server.url).await;
    fixture.open(Budgets { job: Some(20_000), ..Budgets::default() });
    let first = fixture.call(1000);
    let second = async {
        until_async("the provider is asked", async || server.asked().pop()).await;
        // The rest of the budget is set aside.
        let set_aside = fixture.used().await[0].set_aside;
        assert!(set_aside > 15_000, "{set_aside}");
        let mut waiting = Box::pin(fixture.call(1000));
        let is_waiting = futures::poll!(&mut waiting).is_pending();
        drop(waiting);
        let waiting = fixture.call(1000);
        let closing = async { fixture.close().await };
        let (refused, _) = tokio::join!(waiting, closing);
        (is_waiting, refused.status().as_u16())
    };
    let (first, (is_waiting, refused)) = tokio::join!(first, second);
    assert!(is_waiting);
    assert_eq!((first.status().as_u16(), refused), (403, 403), "the turn has ended");
    assert_eq!(server.asked().len(), 1);
    assert_eq!(fixture.used().await[0].set_aside, 0);
}

/// Returns the beginnings of answers in five dialects, with the path and the body of the call. The model has written eight
/// tokens, and has not ended. The calls have 1000 bytes of text.
fn beginnings() -> [(Dialect, &'static str, Value, &'static str, Vec<String>); 5] {
    let text = "x".repeat(1000);
    let events = "text/event-stream";
    let event = |value: Value| format!("data: {value}\n\n");
    let words = ["This", " is ", "an a", "nswe", "r th", "at i", "s cu", "t.  "];
    let all = |piece: &dyn Fn(&str) -> Value| words.iter().map(|word| event(piece(word))).collect::<Vec<String>>();
    let begun = json!({"type": "message_start", "message": {"model": "m", "usage":
        {"input_tokens": 200, "cache_read_input_tokens": 50, "output_tokens": 1}}});
    let messages = all(&|word| json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": word}}));
    let chat = all(&|word| json!({"model": "m", "choices": [{"delta": {"content": word}, "finish_reason": null}]}));
    let responses = all(&|word| json!({"type": "response.output_text.delta", "delta": word}));
    let contents = all(&|word| {
        json!({"candidates": [{"content": {"parts": [{"text": word}]}}], "usageMetadata":
        {"promptTokenCount": 250, "candidatesTokenCount": 8, "cachedContentTokenCount": 50}})
    });
    let ollama =
        words.iter().map(|word| json!({"message": {"content": word}, "done": false}).to_string() + "\n").collect();
    let conversation = json!([{"role": "user", "content": text}]);
    let chat_body = json!({"model": "m", "stream": true, "messages": conversation});
    [
        (
            Dialect::Anthropic,
            "/v1/messages",
            json!({"model": "m", "stream": true, "max_tokens": 32_000, "messages": conversation}),
            events,
            [vec![event(begun)], messages].concat(),
        ),
        (Dialect::OpenAi, "/v1/chat/completions", chat_body.clone(), events, chat),
        (
            Dialect::OpenAiResponses,
            "/v1/responses",
            json!({"model": "m", "stream": true, "input": text}),
            events,
            responses,
        ),
        (
            Dialect::Gemini,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            json!({"contents": [{"role": "user", "parts": [{"text": text}]}]}),
            events,
            contents,
        ),
        (Dialect::Ollama, "/api/chat", chat_body, "application/x-ndjson", ollama),
    ]
}

#[tokio::test]
async fn an_interrupted_call_costs_what_arrived() {
    for (dialect, path, body, content_type, pieces) in beginnings() {
        // The caller stops at each of the pieces.
        for count in 1..=pieces.len() {
            let recorded =
                Recorded { content_type, pieces: pieces[..count].to_vec(), stays_open: true, ..Recorded::default() };
            let server = ModelServer::start(move |_| Reply::Recorded(recorded.clone())).await;
            let fixture = fixture(dialect, &server.url).await;
            fixture.open(Budgets { job: Some(100_000_000), ..Budgets::default() });
            let mut answer = fixture.post(path, &body).send().await.unwrap();
            let (mut read, all) = (0, pieces[..count].concat().len());
            while read < all {
                read += answer.chunk().await.unwrap().unwrap().len();
            }
            drop(answer);
            let case = format!("{dialect:?}, {count} pieces");
            let used = fixture.close().await.usage.unwrap_or_else(|| panic!("{case}"));
            let written = count as u64 - u64::from(dialect == Dialect::Anthropic);
            let (reported, known) = match dialect {
                // 250 input tokens, of which 50 are cached, are reported at the beginning.
                Dialect::Anthropic => ((250, written.max(1)), Some(200 * 3 + 15 + written.max(1) * 15)),
                Dialect::Gemini => ((250, 8), Some(200 * 3 + 15 + 8 * 15)),
                // The text has 1000 bytes, and the names of the model and of the role a few.
                _ => ((used.input_tokens, written), None),
            };
            assert_eq!((used.input_tokens, used.output_tokens), reported, "{case}");
            let cost = used.cost_micros.unwrap();
            assert_eq!(cost, known.unwrap_or(used.input_tokens * 3 + written * 15), "{case}");
            assert!((250..256).contains(&used.input_tokens), "{case}: {used:?}");
            assert_eq!(used.estimated_micros, cost, "{case}: it is said to be an estimate");
            assert_eq!(fixture.used().await, [Used { spent: cost, set_aside: 0 }; 3], "{case}");
            let ModelCall::Made { is_estimated, .. } = fixture.calls().pop().unwrap() else { panic!("{case}") };
            assert!(is_estimated, "{case}");
        }
    }
}

#[tokio::test]
async fn an_estimate_is_corrected_by_the_call_before() {
    let text = "x".repeat(4000);
    let usage = json!({"model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}], "usage":
        {"prompt_tokens": 3000, "completion_tokens": 5}});
    let whole = Recorded {
        content_type: "text/event-stream",
        pieces: vec![format!("data: {usage}\n\ndata: [DONE]\n\n")],
        ..Recorded::default()
    };
    let cut = Recorded {
        content_type: "text/event-stream",
        pieces: vec!["data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n".to_owned()],
        stays_open: true,
        ..Recorded::default()
    };
    let server =
        ModelServer::start(move |asked| Reply::Recorded(if asked.number == 0 { whole.clone() } else { cut.clone() }))
            .await;
    let fixture = open(Dialect::OpenAi, &server).await;
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}]});
    fixture.post("/v1/chat/completions", &body).send().await.unwrap().text().await.unwrap();
    let mut answer = fixture.post("/v1/chat/completions", &body).send().await.unwrap();
    answer.chunk().await.unwrap();
    drop(answer);
    let used = fixture.close().await.usage.unwrap();
    assert_eq!((used.input_tokens, used.output_tokens), (6000, 6), "the text has more tokens than four bytes suggest");
    assert_eq!((used.cost_micros, used.estimated_micros), (Some(6000 * 3 + 6 * 15), 3000 * 3 + 15));
}

#[tokio::test]
async fn the_tier_and_the_models_that_answered_have_their_prices() {
    let table = json!({
        "p/m": {"input_cost_per_token": 1e-6, "output_cost_per_token": 10e-6, "input_cost_per_token_priority": 2e-6,
            "output_cost_per_token_priority": 20e-6, "input_cost_per_token_above_272k_tokens": 2e-6,
            "output_cost_per_token_above_272k_tokens": 15e-6, "cache_creation_input_token_cost": 1.25e-6,
            "cache_read_input_token_cost": 1e-7, "cache_creation_input_token_cost_above_1hr": 2e-6,
            "provider_specific_entry": {"us": 1.1}},
        "p/small-1": {"input_cost_per_token": 1e-7, "output_cost_per_token": 1e-6},
    });
    for (name, dialect, path, answer, cost) in [
        (
            "a cache write of OpenAI",
            Dialect::OpenAiResponses,
            "/v1/responses",
            json!({"model": "m", "status": "completed", "service_tier": "default", "usage": {"input_tokens": 1000,
                "input_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 200}, "output_tokens": 10}}),
            Some(400 + 40 + 250 + 100),
        ),
        (
            "priority",
            Dialect::OpenAi,
            "/v1/chat/completions",
            json!({"model": "m", "service_tier": "priority", "choices": [{"finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}),
            Some(2000 + 200),
        ),
        (
            "a tier without a price",
            Dialect::OpenAi,
            "/v1/chat/completions",
            json!({"model": "m", "service_tier": "flex", "choices": [{"finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}),
            None,
        ),
        (
            "a long input",
            Dialect::Gemini,
            "/v1beta/models/m:generateContent",
            json!({"candidates": [{"finishReason": "STOP"}], "modelVersion": "m", "usageMetadata":
                {"promptTokenCount": 300_000, "candidatesTokenCount": 8, "thoughtsTokenCount": 2, "trafficType": "ON_DEMAND"}}),
            Some(600_000 + 150),
        ),
        (
            "a cache for an hour, in a region",
            Dialect::Anthropic,
            "/v1/messages",
            json!({"type": "message", "model": "m", "usage": {"input_tokens": 100, "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 300, "cache_creation": {"ephemeral_5m_input_tokens": 100,
                "ephemeral_1h_input_tokens": 200}, "output_tokens": 10, "service_tier": "standard", "speed": "standard",
                "inference_geo": "us"}}),
            // 1.1 × (100 × 1 + 100 × 1.25 + 200 × 2 + 10 × 10), rounded up.
            Some(798),
        ),
        (
            "a fallback",
            Dialect::Anthropic,
            "/v1/messages",
            json!({"type": "message", "model": "small-1", "usage": {"input_tokens": 1, "output_tokens": 1, "iterations": [
                {"type": "message", "input_tokens": 100, "output_tokens": 1},
                {"type": "fallback_message", "model": "small-1", "input_tokens": 100, "output_tokens": 10}]}}),
            Some(100 + 10 + 10 + 10),
        ),
    ] {
        let recorded =
            Recorded { content_type: "application/json", pieces: vec![answer.to_string()], ..Recorded::default() };
        let server = ModelServer::start(move |_| Reply::Recorded(recorded.clone())).await;
        let fixture =
            fixture_with(provider(dialect, &server.url), PriceTable::parse(&table.to_string()).unwrap()).await;
        fixture.open(Budgets::default());
        let body = json!({"model": "m", "max_tokens": 10});
        fixture.post(path, &body).send().await.unwrap().text().await.unwrap();
        assert_eq!(fixture.close().await.usage.unwrap().cost_micros, cost, "{name}");
    }
}

#[tokio::test]
async fn a_call_on_a_budget_gets_an_output_limit() {
    let server = ModelServer::saying("hello").await;
    let fixture = fixture(Dialect::OpenAiResponses, &server.url).await;
    let body = json!({"model": "m", "input": "x"});
    for (budgets, most) in
        [(Budgets::default(), json!(null)), (Budgets { job: Some(u64::MAX), ..Budgets::default() }, json!(32_000))]
    {
        fixture.open(budgets);
        let answer = fixture.post("/v1/responses", &body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap();
        fixture.close().await;
        assert_eq!(server.asked().last().unwrap().body["max_output_tokens"], most);
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_not_called_on_a_budget() {
    let server = ModelServer::saying("hello").await;
    let fixture = fixture(Dialect::Anthropic, &server.url).await.with_model("p/free");
    let body = json!({"model": "free", "messages": []});
    fixture.open(Budgets::default());
    assert_eq!(fixture.post("/v1/messages", &body).send().await.unwrap().status(), 200);
    let used = fixture.close().await;
    assert_eq!(used.usage.unwrap().cost_micros, None, "an unknown cost is not zero");
    fixture.open(Budgets { run: Some(u64::MAX), ..Budgets::default() });
    let refused = fixture.post("/v1/messages", &body).send().await.unwrap();
    let text = refused.text().await.unwrap();
    assert!(text.contains("[prices.\\\"p/free\\\"]"), "{text}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn failed_calls_cost_nothing_and_interrupted_calls_cost_something() {
    let most = PRICE.at_most(Maximum { input: TOKENS.0, output: 1000, ..Maximum::default() });
    for (fault, costs) in [
        (Fault::Status(500), false),
        (Fault::Status(429), false),
        (Fault::Cut, true),
        (Fault::Silence, true),
        (Fault::SilenceInStream, true),
    ] {
        let server = ModelServer::start(move |_| Reply::Fault(fault)).await;
        let fixture = fixture(Dialect::Anthropic, &server.url).await;
        fixture.open(Budgets { job: Some(1_000_000), ..Budgets::default() });
        let body = json!({"model": "m", "stream": true, "max_tokens": 1000, "messages": []});
        let answer = fixture.call_with_fault(&server, fault, &body).await;
        // Some answers break off.
        let _ = answer.text().await;
        fixture.close().await;
        let spent = fixture.spent().await[0];
        assert_eq!(spent > 0, costs, "{fault:?}: {spent}");
        assert!(spent <= most, "{fault:?}: {spent} of {most}");
    }
}
