//! Tests of the session files.

use genai::chat::{ChatMessage, ToolCall, ToolResponse};
use serde_json::json;

use super::*;

fn store() -> (tempfile::TempDir, SessionStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SessionStore::open(directory.path().join("sessions")).unwrap();
    (directory, store)
}

#[test]
fn only_safe_identifiers_are_accepted() {
    for id in ["a", "sess_01-AZ", "x".repeat(64).as_str()] {
        assert!(SessionKey::parse(id).is_ok(), "{id}");
    }
    for id in ["", ".", "../x", "a/b", "a.json", "ä", "a b", "x".repeat(65).as_str()] {
        assert!(SessionKey::parse(id).is_err(), "{id}");
    }
}

#[tokio::test]
async fn a_session_survives_the_round_trip() {
    let (_directory, store) = store();
    let key = SessionKey::parse("s1").unwrap();
    let call = ToolCall {
        call_id: "c1".to_owned(),
        fn_name: "read_file".to_owned(),
        fn_arguments: json!({"path": "a \"quoted\" name"}),
        thought_signatures: None,
    };
    let mut file = SessionFile::new("openai/gpt-5");
    file.push_line(Speaker::User, "hello\n\"you\"");
    file.calls = 3;
    file.measured = Some(Measured { tokens: 12, messages: 2 });
    let chat = file.chat_mut();
    chat.system = Some("be good".to_owned());
    chat.messages.push(ChatMessage::user("hi"));
    chat.messages.push(ChatMessage::from(vec![call.clone()]));
    chat.messages.push(ChatMessage::from(vec![ToolResponse::from_tool_call(&call, "text")]));

    store.save(&key, &file).await.unwrap();
    store.save(&key, &file).await.unwrap();
    let loaded = store.load(&key).await.unwrap();

    assert_eq!(serde_json::to_value(&loaded).unwrap(), serde_json::to_value(&file).unwrap());
}

#[tokio::test]
async fn missing_sessions_and_invalid_files_are_reported() {
    let (_directory, store) = store();
    let key = SessionKey::parse("s1").unwrap();
    assert!(matches!(store.load(&key).await, Err(StoreError::Unknown(_))));

    fs::write(store.path(&key), r#"{"version":99,"shape":"new"}"#).unwrap();
    let error = store.load(&key).await.unwrap_err();
    assert!(matches!(error, StoreError::Version { found: 99, .. }));
    assert!(error.to_string().contains("version 99"), "{error}");

    fs::write(store.path(&key), "{").unwrap();
    assert!(matches!(store.load(&key).await, Err(StoreError::Corrupt { .. })));
}

#[test]
fn calls_are_numbered_throughout_the_session() {
    let mut file = SessionFile::new("test/scripted");
    assert_eq!(file.next_call_id(), "call-1");
    assert_eq!(file.next_call_id(), "call-2");
    assert_eq!(file.calls, 2);
}
