//! Slack workspaces, and the events that Slack sends.

use serde_json::json;

use super::fixtures::{Service, service};

const WORKSPACES: &str = "/v2/slack/workspaces";

/// Connects a workspace, and returns its path.
async fn connect(service: &Service) -> String {
    let body = json!({ "botToken": "xoxb-12345", "signingSecret": "0123456789", "channels": { "C1": "shop" } });
    let answer = service.post(WORKSPACES, &body.to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(!answer.text.contains("xoxb") && !answer.text.contains("0123456789"), "{answer:?}");
    format!("{WORKSPACES}/{}", answer.json()["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_workspace_is_connected_changed_and_removed() {
    let service = service().await;
    let path = connect(&service).await;
    assert_eq!(service.post(WORKSPACES, r#"{"botToken":"xoxb-12345","signingSecret":"0123456789"}"#).await.status, 409);
    let changed = service.call("PATCH", &path, r#"{"channels":{"C1":null,"C2":"shop"}}"#, |_| {}).await.json();
    assert_eq!(changed["channels"], json!({ "C2": "shop" }));
    for (body, code) in [
        (r#"{"channels":{"C3":"nothing"}}"#, "invalid_body"),
        (r#"{"channels":{"general":"shop"}}"#, "invalid_body"),
        (r#"{"botToken":"xapp-12345"}"#, "invalid_body"),
        (r#"{"botToken":null}"#, "invalid_body"),
        (r#"{"botToken":"xoxb-revoked"}"#, "slack_failed"),
    ] {
        let answer = service.call("PATCH", &path, body, |_| {}).await;
        assert_eq!(answer.code(), code, "{body}: {answer:?}");
    }
    for _ in 0..2 {
        assert_eq!(service.call("DELETE", &path, "", |_| {}).await.status, 204);
    }
    assert_eq!(service.get(&path).await.code(), "slack_workspace_not_found");
}

#[tokio::test]
async fn an_event_is_answered_after_it_is_stored() {
    let service = service().await;
    let path = connect(&service).await;
    let hook = path.replace(WORKSPACES, "/hooks/slack");
    let body =
        json!({ "id": "Ev1", "user": "U1", "channel": "C1", "ts": "1.0", "thread": "1.0", "text": "<@UBOT> Go." });
    let send = async |body: String, signature: &'static str| {
        let sign = |request: &mut axum::http::Request<axum::body::Body>| {
            request.headers_mut().insert("x-slack-signature", signature.parse().unwrap());
        };
        service.call("POST", &hook, body, sign).await
    };
    assert_eq!(send(body.to_string(), "wrong").await.code(), "invalid_signature");
    assert_eq!(send(body.to_string(), "valid").await.json()["status"], "stored");
    assert_eq!(send(body.to_string(), "valid").await.json()["status"], "known");
    assert_eq!(send(r#"{"challenge":"abc"}"#.to_owned(), "valid").await.json()["challenge"], "abc");
    assert_eq!(send("no json".to_owned(), "valid").await.status, 400);
    let events = service.get(&format!("{path}/events")).await.json();
    assert_eq!(events["events"].as_array().unwrap().len(), 1, "{events}");
}

#[tokio::test]
async fn a_code_host_with_the_id_slack_keeps_the_webhooks_of_its_projects() {
    let service = service().await;
    let code = async |path: &str| service.call("POST", path, "{}", |_| {}).await.code();
    assert_eq!(code("/hooks/slack/shop").await, "code_host_not_found");
    assert_eq!(code("/hooks/slack").await, "code_host_not_found");
    let unknown = "/hooks/slack/slw_0193456789ab7def8123456789abcdef";
    assert_eq!(code(unknown).await, "slack_workspace_not_found");
}
