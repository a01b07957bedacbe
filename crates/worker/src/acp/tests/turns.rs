//! Tests of turns with agents that follow the protocol.

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::{AcpError, Policy, Stop, TurnEnd, Update, Usage, connect};
use super::{FakeAgent, limits, message, new_session, opened, received, run_agent};

/// Asks for permission with options of these kinds, which have the IDs `0`, `1`, …, and returns the outcome.
async fn ask(agent: &mut FakeAgent, id: u32, kinds: &[&str]) -> Value {
    let options: Vec<Value> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| json!({ "optionId": index.to_string(), "name": kind, "kind": kind }))
        .collect();
    let call = json!({ "toolCallId": "c1", "title": "rm -rf target" });
    let params = json!({ "sessionId": "s1", "toolCall": call, "options": options });
    let method = "session/request_permission";
    agent.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    let answer = agent.receive().await.unwrap();
    assert_eq!(answer["id"], id);
    answer["result"]["outcome"].clone()
}

fn permission(chosen: Option<(&str, &str)>, granted: bool) -> Update {
    Update::Permission {
        title: "rm -rf target".to_owned(),
        chosen: chosen.map(|(id, _)| id.to_owned()),
        kind: chosen.map(|(_, kind)| kind.to_owned()),
        granted,
    }
}

#[tokio::test(start_paused = true)]
async fn updates_arrive_in_order_and_before_the_answer() {
    let (streams, agent) = run_agent(|mut agent| async move {
        let prompt = agent.prompted().await;
        assert_eq!(prompt["params"]["prompt"][0]["type"], "text");
        assert_eq!(prompt["params"]["prompt"][0]["text"], "do it");
        agent.message("a").await;
        agent.message("").await;
        agent.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls" })).await;
        let outcome = ask(&mut agent, 1, &["allow_always", "allow_once", "allow_once"]).await;
        assert_eq!(outcome, json!({ "outcome": "selected", "optionId": "1" }));
        agent.update(json!({ "sessionUpdate": "brain_transplant" })).await;
        agent.message("b").await;
        let usage = json!({ "totalTokens": 6, "inputTokens": 1, "outputTokens": 2, "cachedReadTokens": 3 });
        agent.answer(&prompt, json!({ "stopReason": "end_turn", "usage": usage })).await;
        agent.stay_open().await;
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let cancel = CancellationToken::new();
    let end = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    assert_eq!(
        received(&mut updates),
        [
            message("a"),
            Update::ToolCall(json!({ "toolCallId": "c1", "title": "ls" })),
            permission(Some(("1", "allow_once")), true),
            Update::Other(json!({ "sessionUpdate": "brain_transplant" })),
            message("b"),
        ]
    );
    let usage = Usage { input: 1, output: 2, cached: Some(3), cache_written: None, thought: None };
    assert_eq!(end, TurnEnd { stop: Stop::EndTurn, usage: Some(usage), refused: None });
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permissions_are_refused_by_policy_and_if_the_kind_is_unknown() {
    let (streams, agent) = run_agent(|mut agent| async move {
        let prompt = agent.prompted().await;
        let outcome = ask(&mut agent, 1, &["allow_once", "reject_always", "reject_once"]).await;
        assert_eq!(outcome, json!({ "outcome": "selected", "optionId": "2" }));
        let outcome = ask(&mut agent, 2, &["allow_once", "allow_for_now"]).await;
        assert_eq!(outcome, json!({ "outcome": "cancelled" }));
        agent.answer(&prompt, json!({ "stopReason": "refusal" })).await;
        agent.stay_open().await;
    });
    let (connection, mut updates, session) = opened(streams, Policy::REFUSE).await;
    let cancel = CancellationToken::new();
    let end = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::Refusal);
    assert_eq!(received(&mut updates), [permission(Some(("2", "reject_once")), false), permission(None, false)]);
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unknown_stop_reason_is_not_an_error_and_a_second_turn_follows() {
    let (streams, agent) = run_agent(|mut agent| async move {
        let prompt = agent.prompted().await;
        agent.answer(&prompt, json!({ "stopReason": "out_of_coffee" })).await;
        let prompt = agent.receive_method("session/prompt").await;
        agent.message("again").await;
        agent.answer(&prompt, json!({ "stopReason": "max_turn_requests" })).await;
        agent.stay_open().await;
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let cancel = CancellationToken::new();
    let end = connection.prompt(&session, ("one", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::Unknown("out_of_coffee".to_owned()));
    let end = connection.prompt(&session, ("two", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::MaxTurnRequests);
    assert_eq!(received(&mut updates), [message("again")]);
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_is_cancelled_once() {
    let cancel = CancellationToken::new();
    let fire = cancel.clone();
    let (streams, agent) = run_agent(|mut agent| async move {
        let prompt = agent.prompted().await;
        fire.cancel();
        let cancelled = agent.receive_method("session/cancel").await;
        assert_eq!(cancelled["params"]["sessionId"], "s1");
        // Permissions that the agent asks for after the cancellation are not given.
        let outcome = ask(&mut agent, 1, &["allow_once"]).await;
        assert_eq!(outcome, json!({ "outcome": "cancelled" }));
        agent.message("stopping").await;
        agent.answer(&prompt, json!({ "stopReason": "cancelled" })).await;
        assert_eq!(agent.receive().await, None);
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let end = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::Cancelled);
    assert_eq!(received(&mut updates), [permission(None, false), message("stopping")]);
    // A turn that was cancelled before it began is not sent: the agent receives nothing more.
    let end = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::Cancelled);
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_after_a_cancellation_ends_the_turn() {
    let cancel = CancellationToken::new();
    let fire = cancel.clone();
    let (streams, _agent) = run_agent(|mut agent| async move {
        let prompt = agent.prompted().await;
        fire.cancel();
        agent.receive_method("session/cancel").await;
        agent.refuse(&prompt, -32800, "cancelled").await;
        agent.stay_open().await;
    });
    let (connection, _updates, session) = opened(streams, Policy::ALLOW).await;
    let end = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_message_of_an_error_from_the_agent_is_cut() {
    let (streams, _agent) = run_agent(|mut agent| async move {
        let prompt = agent.prompted().await;
        agent.refuse(&prompt, -32000, &"ä".repeat(5_000)).await;
        agent.stay_open().await;
    });
    let (connection, _updates, session) = opened(streams, Policy::ALLOW).await;
    let cancel = CancellationToken::new();
    let error = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap_err();
    let message = "ä".repeat(2_000);
    assert_eq!(error, AcpError::Agent { code: -32_000, message });
}

#[tokio::test(start_paused = true)]
async fn a_full_channel_slows_the_agent_and_loses_nothing() {
    let (streams, _agent) = run_agent(|mut agent| async move {
        let request = agent.receive_method("initialize").await;
        // The channel has no reader yet. This must neither block nor fail the requests that follow.
        for _ in 0..10 {
            agent.message("too early").await;
        }
        agent.answer(&request, json!({ "protocolVersion": 1 })).await;
        let request = agent.receive_method("session/new").await;
        agent.answer(&request, json!({ "sessionId": "s1" })).await;
        let prompt = agent.receive_method("session/prompt").await;
        for number in 0..2_000 {
            agent.message(&number.to_string()).await;
        }
        agent.answer(&prompt, json!({ "stopReason": "end_turn" })).await;
        agent.stay_open().await;
    });
    let (sender, mut updates) = mpsc::channel(1);
    let connection = connect(streams, limits(), Policy::ALLOW, sender).await.unwrap();
    let session = connection.open(&new_session()).await.unwrap().id;
    assert_eq!(received(&mut updates), [message("too early")]);
    let reader = tokio::spawn(async move {
        let mut read = Vec::new();
        while let Some(update) = updates.recv().await {
            read.push(update);
        }
        read
    });
    let cancel = CancellationToken::new();
    connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    drop(connection);
    let expected: Vec<Update> = (0..2_000).map(|number: u32| message(&number.to_string())).collect();
    assert_eq!(reader.await.unwrap(), expected);
}
