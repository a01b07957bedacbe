//! Tests of the handshake, and of opening sessions.

use std::collections::BTreeMap;

use journeyman_core::model::Effort;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::{AcpError, OpenSession, Opened, Policy, SessionRequest, connect};
use super::{connected, limits, message, new_session, received, run_agent};

/// Returns a session that has all wanted settings.
fn opened(id: &str, opened: Opened) -> OpenSession {
    OpenSession { id: id.to_owned(), opened, not_set: BTreeMap::new() }
}

fn continued() -> SessionRequest {
    SessionRequest { previous: Some("old".to_owned()), ..new_session() }
}

#[tokio::test(start_paused = true)]
async fn neither_files_nor_terminals_are_offered() {
    let (streams, agent) = run_agent(|mut agent| async move {
        let request = agent.receive_method("initialize").await;
        let offered = &request["params"]["clientCapabilities"];
        assert_eq!(request["params"]["protocolVersion"], 1);
        assert_eq!(offered["terminal"], false);
        assert_eq!(offered["fs"]["readTextFile"], false);
        assert_eq!(offered["fs"]["writeTextFile"], false);
        agent.answer(&request, json!({ "protocolVersion": 1 })).await;
        let request = agent.receive_method("session/new").await;
        assert_eq!(request["params"]["cwd"], "/workspace");
        assert_eq!(request["params"]["mcpServers"], json!([]));
        agent.answer(&request, json!({ "sessionId": "s1" })).await;
        agent.stay_open().await;
    });
    let (connection, _updates) = connected(streams, Policy::ALLOW).await;
    let session = connection.open(&continued()).await.unwrap();
    assert_eq!(session, opened("s1", Opened::New));
    // The agent's streams end with the connection.
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_version_is_an_error() {
    let (streams, _agent) = run_agent(|mut agent| async move {
        let request = agent.receive_method("initialize").await;
        agent.answer(&request, json!({ "protocolVersion": 2 })).await;
        agent.stay_open().await;
    });
    let (sender, _updates) = mpsc::channel(1);
    let error = connect(streams, limits(), Policy::REFUSE, sender).await.unwrap_err();
    assert_eq!(error, AcpError::Version(2));
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_times_out() {
    let (streams, _agent) = run_agent(|agent| agent.stay_open());
    let (sender, _updates) = mpsc::channel(1);
    let mut limits = limits();
    limits.initialize_timeout = std::time::Duration::from_millis(50);
    let error = connect(streams, limits, Policy::REFUSE, sender).await.unwrap_err();
    let what = "initialize".to_owned();
    assert_eq!(error, AcpError::Timeout { what, seconds: 1 });
}

#[tokio::test(start_paused = true)]
async fn updates_that_are_repeated_while_loading_are_dropped() {
    let (streams, agent) = run_agent(|mut agent| async move {
        agent.handshake(json!({ "loadSession": true })).await;
        let request = agent.receive_method("session/load").await;
        assert_eq!(request["params"]["sessionId"], "old");
        agent.message("said long ago").await;
        agent.answer(&request, json!(null)).await;
        agent.message("repeated too late").await;
        let prompt = agent.receive_method("session/prompt").await;
        assert_eq!(prompt["params"]["sessionId"], "old");
        agent.message("new").await;
        agent.answer(&prompt, json!({ "stopReason": "end_turn" })).await;
        agent.stay_open().await;
    });
    let (connection, mut updates) = connected(streams, Policy::ALLOW).await;
    let session = connection.open(&continued()).await.unwrap();
    assert_eq!(session, opened("old", Opened::Loaded));
    // The late repetition must be read before the turn begins; otherwise it counts as new.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let cancel = CancellationToken::new();
    connection.prompt("old", ("go on", &[]), &cancel).await.unwrap();
    assert_eq!(received(&mut updates), [message("new")]);
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn resume_is_tried_before_load_and_load_before_new() {
    let (streams, agent) = run_agent(|mut agent| async move {
        agent.handshake(json!({ "loadSession": true, "sessionCapabilities": { "resume": {} } })).await;
        let request = agent.receive_method("session/resume").await;
        agent.answer(&request, json!({})).await;
        let request = agent.receive_method("session/resume").await;
        agent.refuse(&request, -32002, "no such session").await;
        let request = agent.receive_method("session/load").await;
        agent.refuse(&request, -32603, "broken file").await;
        let request = agent.receive_method("session/new").await;
        agent.answer(&request, json!({ "sessionId": "fresh" })).await;
        agent.stay_open().await;
    });
    let (connection, _updates) = connected(streams, Policy::ALLOW).await;
    let session = connection.open(&continued()).await.unwrap();
    assert_eq!(session, opened("old", Opened::Resumed));
    let session = connection.open(&continued()).await.unwrap();
    assert_eq!(session, opened("fresh", Opened::New));
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn model_and_mode_are_set_if_they_are_offered() {
    let (streams, agent) = run_agent(|mut agent| async move {
        agent.handshake(json!({})).await;
        let request = agent.receive_method("session/new").await;
        let option = json!({
            "id": "m", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask",
            "options": [{ "value": "yolo", "name": "Yolo" }],
        });
        let models = json!({ "currentModelId": "small", "availableModels": [{ "modelId": "large" }] });
        agent.answer(&request, json!({ "sessionId": "s1", "configOptions": [option], "models": models })).await;
        let request = agent.receive_method("session/set_model").await;
        assert_eq!(request["params"], json!({ "sessionId": "s1", "modelId": "large" }));
        // A refusal does not end the session.
        agent.refuse(&request, -32601, "no").await;
        let request = agent.receive_method("session/set_config_option").await;
        assert_eq!(request["params"], json!({ "sessionId": "s1", "configId": "m", "value": "yolo" }));
        agent.answer(&request, json!({ "configOptions": [] })).await;

        let request = agent.receive_method("session/new").await;
        let modes = json!({ "currentModeId": "ask", "availableModes": [{ "id": "ask" }, { "id": "yolo" }] });
        agent.answer(&request, json!({ "sessionId": "s2", "modes": modes })).await;
        let request = agent.receive_method("session/set_mode").await;
        assert_eq!(request["params"], json!({ "sessionId": "s2", "modeId": "yolo" }));
        agent.answer(&request, json!({})).await;

        // If the agent offers nothing, nothing is set.
        let request = agent.receive_method("session/new").await;
        agent.answer(&request, json!({ "sessionId": "s3" })).await;
        assert!(agent.receive().await.is_none());
    });
    let (connection, _updates) = connected(streams, Policy::ALLOW).await;
    let request = SessionRequest { mode: Some("yolo".to_owned()), model: Some("large".to_owned()), ..new_session() };
    let not_set =
        |names: &[(&'static str, &str)]| names.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    for (session, not_set) in [
        ("s1", not_set(&[("model", "large")])),
        ("s2", not_set(&[("model", "large")])),
        ("s3", not_set(&[("model", "large"), ("mode", "yolo")])),
    ] {
        let opened = OpenSession { not_set, ..opened(session, Opened::New) };
        assert_eq!(connection.open(&request).await.unwrap(), opened);
    }
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_effort_is_set_after_the_model_if_the_agent_offers_it() {
    let option = |id: &str, category: &str, current: &str, values: &[&str]| {
        let options: Vec<_> = values.iter().map(|value| json!({ "value": value, "name": value })).collect();
        json!({ "id": id, "category": category, "type": "select", "currentValue": current, "options": options })
    };
    let (streams, agent) = run_agent(move |mut agent| async move {
        agent.handshake(json!({})).await;
        let request = agent.receive_method("session/new").await;
        let model = |current: &str| option("model", "model", current, &["small", "large"]);
        // The small model has no efforts.
        agent.answer(&request, json!({ "sessionId": "s1", "configOptions": [model("small")] })).await;
        let request = agent.receive_method("session/set_config_option").await;
        assert_eq!(request["params"], json!({ "sessionId": "s1", "configId": "model", "value": "large" }));
        let effort = option("reasoning", "thought_level", "low", &["low", "xhigh"]);
        agent.answer(&request, json!({ "configOptions": [model("large"), effort] })).await;
        let request = agent.receive_method("session/set_config_option").await;
        assert_eq!(request["params"], json!({ "sessionId": "s1", "configId": "reasoning", "value": "xhigh" }));
        agent.answer(&request, json!({ "configOptions": [] })).await;

        let request = agent.receive_method("session/new").await;
        let effort = option("reasoning", "thought_level", "low", &["low", "high"]);
        agent.answer(&request, json!({ "sessionId": "s2", "configOptions": [model("large"), effort] })).await;
        assert!(agent.receive().await.is_none(), "a value that is not offered is not set");
    });
    let (connection, _updates) = connected(streams, Policy::ALLOW).await;
    let request = SessionRequest { model: Some("large".to_owned()), effort: Some(Effort::XHigh), ..new_session() };
    assert_eq!(connection.open(&request).await.unwrap(), opened("s1", Opened::New));
    let not_set = [("effort", "xhigh".to_owned())].into();
    assert_eq!(connection.open(&request).await.unwrap(), OpenSession { not_set, ..opened("s2", Opened::New) });
    drop(connection);
    agent.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_session_without_an_id_is_an_error() {
    let (streams, _agent) = run_agent(|mut agent| async move {
        agent.handshake(json!({})).await;
        let request = agent.receive_method("session/new").await;
        agent.answer(&request, json!({})).await;
        agent.stay_open().await;
    });
    let (connection, _updates) = connected(streams, Policy::ALLOW).await;
    let error = connection.open(&new_session()).await.unwrap_err();
    assert!(matches!(error, AcpError::Protocol(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn authentication_is_sent_if_the_agent_requires_it_and_the_session_is_opened_again() {
    for (methods, wanted_method) in [
        (json!([{ "id": "login", "type": "terminal" }, { "id": "key", "name": "Key" }]), None),
        (json!([{ "id": "browser" }, { "id": "key" }]), Some("key".to_owned())),
    ] {
        let (streams, agent) = run_agent(|mut agent| async move {
            let request = agent.receive_method("initialize").await;
            agent.answer(&request, json!({ "protocolVersion": 1, "authMethods": methods })).await;
            let request = agent.receive_method("session/new").await;
            agent.refuse(&request, -32000, "Authentication required").await;
            let request = agent.receive_method("authenticate").await;
            assert_eq!(request["params"]["methodId"], "key");
            agent.answer(&request, json!({})).await;
            let request = agent.receive_method("session/new").await;
            agent.answer(&request, json!({ "sessionId": "s1" })).await;
            agent.stay_open().await;
        });
        let (connection, _updates) = connected(streams, Policy::ALLOW).await;
        let request = SessionRequest { auth_method: wanted_method, ..new_session() };
        assert_eq!(connection.open(&request).await, Ok(opened("s1", Opened::New)));
        drop(connection);
        agent.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_impossible_authentication_explains_the_cause() {
    for (methods, wanted_method, word) in [
        (json!([]), None, "needs a key"),
        (json!([{ "id": "login", "type": "terminal" }]), None, "needs a key"),
        (json!([{ "id": "a" }, { "id": "b" }]), None, "methods a, b: set auth-method"),
        (json!([{ "id": "a" }]), Some("c".to_owned()), "methods a: set auth-method"),
        (json!([{ "id": "a" }]), None, "authentication by a failed: wrong key"),
    ] {
        let (streams, _agent) = run_agent(|mut agent| async move {
            let request = agent.receive_method("initialize").await;
            agent.answer(&request, json!({ "protocolVersion": 1, "authMethods": methods })).await;
            let request = agent.receive_method("session/new").await;
            agent.refuse(&request, -32000, "Authentication required").await;
            if let Some(request) = agent.receive().await {
                agent.refuse(&request, -32603, "wrong key").await;
            }
            agent.stay_open().await;
        });
        let (connection, _updates) = connected(streams, Policy::ALLOW).await;
        let request = SessionRequest { auth_method: wanted_method, ..new_session() };
        let error = connection.open(&request).await.unwrap_err().to_string();
        assert!(error.contains("Authentication required") && error.contains(word), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_without_its_required_mode_is_not_used() {
    let (streams, _agent) = run_agent(|mut agent| async move {
        agent.handshake(json!({})).await;
        let request = agent.receive_method("session/new").await;
        let modes = json!({ "currentModeId": "yolo", "availableModes": [{ "id": "yolo" }] });
        agent.answer(&request, json!({ "sessionId": "s1", "modes": modes })).await;
        agent.stay_open().await;
    });
    let (connection, _updates) = connected(streams, Policy::REFUSE).await;
    let request = SessionRequest { mode: Some("ask".to_owned()), mode_is_required: true, ..new_session() };
    let error = connection.open(&request).await.unwrap_err();
    assert!(matches!(&error, AcpError::Protocol(text) if text.contains("the mode ask")), "{error}");
}
