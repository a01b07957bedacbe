//! Tests with agents that violate the protocol or fail.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{AcpError, Policy, Stop, Update};
use super::{LINE_BYTES, TOTAL_BYTES, message, opened, received, run_agent};

#[tokio::test(start_paused = true)]
async fn junk_between_the_messages_is_reported_and_skipped() {
    let (streams, agent) = run_agent(|mut agent| async move {
        agent.send_raw(b"Welcome to the agent!\n\n{\"level\":30}\n\xff\xfe\n").await;
        let prompt = agent.prompted().await;
        agent.send_raw(b"[1, 2]\n{\"jsonrpc\": \"2.0\", \"met\n").await;
        agent.message("a").await;
        agent.send(json!({ "jsonrpc": "2.0", "method": "_vendor/notice", "params": { "sessionId": "s1" } })).await;
        agent.send(json!({ "jsonrpc": "2.0", "id": "never-asked", "result": {} })).await;
        // An answer without a version, and with an error that is null.
        let answer = json!({ "id": prompt["id"], "result": { "stopReason": "end_turn" }, "error": null });
        agent.send(answer).await;
        assert_eq!(agent.receive().await, None);
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let cancel = CancellationToken::new();
    let end = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::EndTurn);
    let (dropped, messages) = split(received(&mut updates));
    assert_eq!(messages, [message("a")]);
    let lines =
        ["Welcome to the agent!", "{\"level\":30}", "\u{fffd}\u{fffd}", "[1, 2]", "{\"jsonrpc\": \"2.0\", \"met"];
    assert_eq!(dropped, lines);
    drop(connection);
    agent.await.unwrap();
}

/// Returns the beginnings of the dropped lines, and the other updates.
fn split(updates: Vec<Update>) -> (Vec<String>, Vec<Update>) {
    let (dropped, others): (Vec<_>, Vec<_>) =
        updates.into_iter().partition(|update| matches!(update, Update::Dropped { .. }));
    let beginning = |update| match update {
        Update::Dropped { beginning, .. } => Some(beginning),
        _ => None,
    };
    (dropped.into_iter().filter_map(beginning).collect(), others)
}

#[tokio::test(start_paused = true)]
async fn a_line_above_the_limit_ends_the_connection() {
    let (streams, agent) = run_agent(|mut agent| async move {
        agent.prompted().await;
        agent.message(&"x".repeat(LINE_BYTES)).await;
        // The client has closed its side.
        assert_eq!(agent.receive().await, None);
    });
    let (connection, _updates, session) = opened(streams, Policy::ALLOW).await;
    let cancel = CancellationToken::new();
    let error = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap_err();
    let rule = format!("the agent sent a line of more than {LINE_BYTES} bytes");
    assert_eq!(error, AcpError::Protocol(rule.clone()));
    agent.await.unwrap();
    // Later calls return the same error.
    let error = connection.prompt(&session, ("again", &[]), &cancel).await.unwrap_err();
    assert_eq!(error, AcpError::Protocol(rule));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_stops_sending_is_disconnected() {
    let (streams, _agent) = run_agent(|mut agent| async move {
        agent.prompted().await;
        loop {
            agent.message(&"x".repeat(LINE_BYTES / 2)).await;
        }
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let drain = tokio::spawn(async move { while updates.recv().await.is_some() {} });
    let error = connection.prompt(&session, ("do it", &[]), &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error, AcpError::TooMuch { bytes: TOTAL_BYTES });
    drop(connection);
    drain.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_output_limit_applies_to_each_turn_separately() {
    let (streams, agent) = run_agent(|mut agent| async move {
        let mut prompt = agent.prompted().await;
        for turn in 1.. {
            for _ in 0..TOTAL_BYTES / (LINE_BYTES as u64) {
                agent.message(&"x".repeat(LINE_BYTES / 2)).await;
            }
            agent.answer(&prompt, json!({ "stopReason": "end_turn" })).await;
            if turn == 4 {
                break;
            }
            prompt = agent.receive_method("session/prompt").await;
        }
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let drain = tokio::spawn(async move { while updates.recv().await.is_some() {} });
    for _ in 0..4 {
        connection.prompt(&session, ("do it", &[]), &CancellationToken::new()).await.unwrap();
    }
    agent.await.unwrap();
    drop(connection);
    drain.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_exit_during_a_turn_is_reported_after_the_updates() {
    let (streams, _agent) = run_agent(|mut agent| async move {
        agent.prompted().await;
        agent.message("last words").await;
        agent.send_raw(b"{\"jsonrpc\":\"2.0\",\"id").await;
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let cancel = CancellationToken::new();
    let error = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap_err();
    assert_eq!(error, AcpError::Exited);
    assert_eq!(split(received(&mut updates)).1, [message("last words")]);
    let error = connection.prompt(&session, ("again", &[]), &cancel).await.unwrap_err();
    assert_eq!(error, AcpError::Exited);
}

#[tokio::test(start_paused = true)]
async fn an_ignored_cancellation_ends_in_a_timeout() {
    let cancel = CancellationToken::new();
    let fire = cancel.clone();
    let (streams, _agent) = run_agent(|mut agent| async move {
        agent.prompted().await;
        fire.cancel();
        agent.stay_open().await;
    });
    let (connection, _updates, session) = opened(streams, Policy::ALLOW).await;
    let error = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap_err();
    let what = "session/cancel".to_owned();
    assert_eq!(error, AcpError::Timeout { what, seconds: 1 });
}

#[tokio::test(start_paused = true)]
async fn each_request_for_an_unsupported_method_is_answered() {
    let (streams, agent) = run_agent(|mut agent| async move {
        let prompt = agent.prompted().await;
        // More requests than may be unanswered at a time.
        for id in 0..200 {
            let params = json!({ "sessionId": "s1", "path": "/etc/shadow" });
            agent.send(json!({ "jsonrpc": "2.0", "id": id, "method": "fs/read_text_file", "params": params })).await;
        }
        for id in 0..200 {
            let answer = agent.receive().await.unwrap();
            assert_eq!(answer["id"], id);
            assert_eq!(answer["error"]["code"], -32601);
            assert_eq!(answer.get("result"), None::<&Value>);
        }
        agent.answer(&prompt, json!({ "stopReason": "end_turn" })).await;
        agent.stay_open().await;
    });
    let (connection, mut updates, session) = opened(streams, Policy::ALLOW).await;
    let cancel = CancellationToken::new();
    let end = connection.prompt(&session, ("do it", &[]), &cancel).await.unwrap();
    assert_eq!(end.stop, Stop::EndTurn);
    assert!(received(&mut updates).is_empty());
    drop(connection);
    agent.await.unwrap();
}
