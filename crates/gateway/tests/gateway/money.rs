//! Budgets.

use journeyman_core::model::Dialect;
use journeyman_core::model::price::{Budgets, Tokens};
use journeyman_core::run::ReasonCode;
use journeyman_testkit::{Fault, ModelServer, Reply, TOKENS};
use serde_json::json;

use super::given::{PRICE, house, open};

/// What a call of the server costs.
fn cost() -> u64 {
    PRICE.of(&Tokens { input: TOKENS.0, cached: TOKENS.1, cache_written: 0, output: TOKENS.2 })
}

#[tokio::test]
async fn what_calls_cost_is_stored_though_nothing_is_limited() {
    let server = ModelServer::saying("hello").await;
    let house = open(Dialect::Anthropic, &server).await;
    for _ in 0..3 {
        house.call(1000).await.text().await.unwrap();
    }
    assert_eq!(house.close().await.usage.unwrap().cost_micros, Some(3 * cost()));
    assert_eq!(house.spent().await, [3 * cost(); 3]);
}

#[tokio::test]
async fn a_call_that_could_go_beyond_a_budget_is_not_made() {
    let free = Budgets::default();
    // A call of at most 100 tokens is let through, one of a million is not, though it would have cost as little.
    let most = 10_000;
    for (budgets, name) in [
        (Budgets { run: Some(most), ..free }, "run"),
        (Budgets { job: Some(most), ..free }, "job"),
        (Budgets { day: Some(most), ..free }, "day"),
        (Budgets { project: Some(most), ..free }, "project"),
    ] {
        let server = ModelServer::saying("hello").await;
        let house = house(Dialect::Anthropic, &server.url).await;
        house.open(budgets);
        assert_eq!(house.call(100).await.status(), 200, "{name}");
        assert_eq!(house.spent().await, [cost(); 3], "{name}: what was set aside came back");
        let refused = house.call(1_000_000).await;
        let (status, text) = (refused.status(), refused.text().await.unwrap());
        assert!(status == 402 && text.contains(&format!("limits.budget.{name}Micros")), "{status} {text}");
        let used = house.close().await;
        assert_eq!(used.failure.unwrap().reason.code, ReasonCode::OverBudget, "{name}");
        assert_eq!((house.spent().await, server.asked().len()), ([cost(); 3], 1), "{name}");
        assert_eq!(house.denied().len(), 1, "{name}");
        // The next run of the job: only the budget of a run is a new one.
        house.open(budgets);
        let calls = most / cost() + 1;
        let mut last = 200;
        for _ in 0..calls {
            last = house.call(1).await.status().as_u16();
        }
        assert_eq!(last, 402, "{name}: it is used up in the end");
        assert!(house.spent().await[0] <= 2 * most, "{name}");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_share_a_budget() {
    let server = ModelServer::saying("hello").await;
    let house = house(Dialect::Anthropic, &server.url).await;
    // One call of 1000 tokens may cost 15,000 millionths and a little: there is room for three at a time.
    house.open(Budgets { job: Some(50_000), ..Budgets::default() });
    let answers = futures::future::join_all((0..10).map(|_| house.call(1000))).await;
    let went = answers.iter().filter(|answer| answer.status() == 200).count();
    assert!((3..10).contains(&went), "{went}");
    for answer in answers {
        answer.text().await.unwrap();
    }
    house.close().await;
    assert_eq!(house.spent().await[0], went as u64 * cost());
}

#[tokio::test]
async fn a_call_on_a_budget_may_not_write_more_than_was_set_aside_for_it() {
    let server = ModelServer::saying("hello").await;
    let house = house(Dialect::OpenAiResponses, &server.url).await;
    let body = json!({"model": "m", "input": "x"});
    for (budgets, most) in
        [(Budgets::default(), json!(null)), (Budgets { job: Some(u64::MAX), ..Budgets::default() }, json!(32_000))]
    {
        house.open(budgets);
        let answer = house.post("/v1/responses", &body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap();
        house.close().await;
        assert_eq!(server.asked().last().unwrap().body["max_output_tokens"], most);
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_not_called_on_a_budget() {
    let server = ModelServer::saying("hello").await;
    let house = house(Dialect::Anthropic, &server.url).await.with_model("p/free");
    let body = json!({"model": "free", "messages": []});
    house.open(Budgets::default());
    assert_eq!(house.post("/v1/messages", &body).send().await.unwrap().status(), 200);
    let used = house.close().await;
    assert_eq!(used.usage.unwrap().cost_micros, None, "what is not known is not zero");
    house.open(Budgets { run: Some(u64::MAX), ..Budgets::default() });
    let refused = house.post("/v1/messages", &body).send().await.unwrap();
    let text = refused.text().await.unwrap();
    assert!(text.contains("[prices.\\\"p/free\\\"]"), "{text}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_failed_costs_nothing_and_what_was_cut_costs_something() {
    let most = PRICE.at_most(TOKENS.0, 1000);
    for (fault, costs) in [
        (Fault::Status(500), false),
        (Fault::Status(429), false),
        (Fault::Cut, true),
        (Fault::Silence, true),
        (Fault::SilenceInStream, true),
    ] {
        let server = ModelServer::start(move |_| Reply::Fault(fault)).await;
        let house = house(Dialect::Anthropic, &server.url).await;
        house.open(Budgets { job: Some(1_000_000), ..Budgets::default() });
        let body = json!({"model": "m", "stream": true, "max_tokens": 1000, "messages": []});
        let answer = house.post("/v1/messages", &body).send().await.unwrap();
        // Some break off.
        let _ = answer.text().await;
        house.close().await;
        let spent = house.spent().await[0];
        assert_eq!(spent > 0, costs, "{fault:?}: {spent}");
        assert!(spent <= most, "{fault:?}: {spent} of {most}");
    }
}
