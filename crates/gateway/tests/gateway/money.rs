//! Tests of budgets.

use journeyman_core::model::Dialect;
use journeyman_core::model::price::{Budgets, Tokens};
use journeyman_core::run::ReasonCode;
use journeyman_testkit::{Fault, ModelServer, Reply, TOKENS};
use serde_json::json;

use super::given::{PRICE, fixture, open};

/// Returns the cost of a call of the test server.
fn cost() -> u64 {
    PRICE.of(&Tokens { input: TOKENS.0, cached: TOKENS.1, cache_written: 0, output: TOKENS.2 })
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
        assert_eq!(fixture.spent().await, [cost(); 3], "{name}: the rest of what was set aside is free again");
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
async fn concurrent_calls_share_a_budget() {
    let server = ModelServer::saying("hello").await;
    let fixture = fixture(Dialect::Anthropic, &server.url).await;
    // One call of 1000 tokens may cost slightly more than 15,000 millionths, so the budget allows three at a time.
    fixture.open(Budgets { job: Some(50_000), ..Budgets::default() });
    let answers = futures::future::join_all((0..10).map(|_| fixture.call(1000))).await;
    let succeeded = answers.iter().filter(|answer| answer.status() == 200).count();
    assert!((3..10).contains(&succeeded), "{succeeded}");
    for answer in answers {
        answer.text().await.unwrap();
    }
    fixture.close().await;
    assert_eq!(fixture.spent().await[0], succeeded as u64 * cost());
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
    let most = PRICE.at_most(TOKENS.0, 1000);
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
