//! Tests of the compaction of conversations.

use genai::chat::{ToolCall, ToolResponse};
use serde_json::json;

use super::*;
use crate::store::Measured;

fn call() -> ChatMessage {
    ChatMessage::from(vec![ToolCall {
        call_id: "c".to_owned(),
        fn_name: "read_file".to_owned(),
        fn_arguments: json!({"path": "a"}),
        thought_signatures: None,
    }])
}

fn output(bytes: usize) -> ChatMessage {
    ChatMessage::from(vec![ToolResponse::new("c", "x".repeat(bytes))])
}

fn file(messages: Vec<ChatMessage>) -> SessionFile {
    let mut file = SessionFile::new("openai/m");
    file.chat_mut().messages = messages;
    file
}

fn roles(messages: &[ChatMessage]) -> Vec<ChatRole> {
    messages.iter().map(|message| message.role.clone()).collect()
}

#[test]
fn the_cut_is_before_the_earliest_request_that_fits() {
    let messages = vec![
        ChatMessage::user("first"),
        call(),
        output(4_000),
        ChatMessage::assistant("done"),
        ChatMessage::user("second"),
        call(),
        output(400),
        ChatMessage::assistant("done"),
        ChatMessage::user("third"),
    ];
    assert_eq!(cut(&messages, 10_000), 4);
    assert_eq!(cut(&messages, 50), 8);
    // Not even the last request fits: no message stays.
    assert_eq!(cut(&messages, 0), 9);
}

#[test]
fn a_single_long_turn_is_summarized_completely() {
    let messages = vec![ChatMessage::user("only"), call(), output(4_000)];
    assert_eq!(cut(&messages, 1_000_000), 3);
    assert_eq!(cut(&[], 10), 0);
}

#[test]
fn calls_and_answers_stay_together() {
    let mut messages =
        vec![ChatMessage::user("first"), call(), output(4_000), ChatMessage::user("second"), call(), output(10)];
    let at = cut(&messages, 100);
    replace(&mut messages, at, "the summary");
    assert_eq!(
        roles(&messages),
        [ChatRole::User, ChatRole::Assistant, ChatRole::User, ChatRole::Assistant, ChatRole::Tool]
    );
    let first = messages[0].content.first_text().unwrap();
    assert!(is_summary(first) && first.contains("the summary"), "{first}");
    assert_eq!(messages[2].content.first_text(), Some("second"));
}

#[test]
fn the_last_request_is_repeated_if_no_message_stays() {
    let mut messages = vec![ChatMessage::user("first"), ChatMessage::user("second"), call(), output(10)];
    replace(&mut messages, 4, "the summary");
    assert_eq!(roles(&messages), [ChatRole::User]);
    let text = messages[0].content.first_text().unwrap();
    assert!(text.contains("the summary") && text.contains("second"), "{text}");

    // The second compaction does not mistake the first summary for a request.
    messages.push(call());
    messages.push(output(10));
    replace(&mut messages, 3, "the next summary");
    let text = messages[0].content.first_text().unwrap();
    assert!(!text.contains("word for word"), "{text}");
}

#[test]
fn the_oldest_outputs_are_dropped_first_and_the_newest_stays() {
    let mut messages = vec![call(), output(1_000), call(), output(1_000), call(), output(1_000)];
    drop_outputs(&mut messages, 2_300);
    let sizes: Vec<_> = messages
        .iter()
        .flat_map(|message| message.content.tool_responses())
        .map(|answer| answer.content.len())
        .collect();
    assert_eq!(sizes, [DROPPED.len(), 1_000, 1_000]);
    drop_outputs(&mut messages, 0);
    assert_eq!(messages[5].content.tool_responses()[0].content.len(), 1_000);
}

#[test]
fn the_estimate_uses_the_measurement_of_the_provider_where_it_applies() {
    let mut file = file(vec![ChatMessage::user("a"), output(4_000)]);
    let by_bytes = estimate(&file);
    assert!(by_bytes >= 1_000, "{by_bytes}");
    file.measured = Some(Measured { tokens: 50, messages: 1 });
    let measured = estimate(&file);
    assert!((1_050..1_100).contains(&measured), "{measured}");
    file.measured = Some(Measured { tokens: 50, messages: 9 });
    assert_eq!(estimate(&file), by_bytes);
}

#[test]
fn compaction_is_due_above_four_fifths_of_the_window() {
    let mut file = file(vec![ChatMessage::user("a")]);
    let compactor = Compactor::new(1_000);
    for (tokens, due) in [(800, false), (801, true)] {
        file.measured = Some(Measured { tokens, messages: 1 });
        assert_eq!(compactor.is_due(&file), due, "{tokens}");
    }
}

#[test]
fn the_log_names_the_speakers_and_is_bounded() {
    let messages = [ChatMessage::user("do"), ChatMessage::assistant("yes"), call(), output(50_000)];
    let text = log(&messages, 100_000);
    for expected in ["## User\ndo", "## Agent\nyes", "## Agent calls read_file", "## Result\nxxx"] {
        assert!(text.contains(expected), "{expected}");
    }
    assert!(text.len() < 3_000);
    assert!(log(&messages, 100).len() < 200);
}
