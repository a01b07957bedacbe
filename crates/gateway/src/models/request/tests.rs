//! Tests of bodies of all shapes, valid and malicious.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::fields::FieldGroup;
use super::super::path::{Path, Purpose, Shape};
use super::checked::{FILE_TOKENS, IMAGE_TOKENS, MAX_NAMES, NAME_CHARS};
use super::*;

fn rules() -> Rules {
    Rules { groups: FieldGroup::usual(), ..Rules::default() }
}

fn path(shape: Shape) -> Path {
    let model = (shape == Shape::Contents).then(|| "m".to_owned());
    Path { purpose: Purpose::Generate, shape, rest: String::new(), model }
}

fn sent(shape: Shape, mut body: Value) -> Result<(Value, Prepared), String> {
    if shape != Shape::Contents {
        body["model"] = json!("m");
    }
    let prepared = prepare(&path(shape), body.to_string().as_bytes(), &rules())?;
    Ok((serde_json::from_slice(&prepared.body).unwrap(), prepared))
}

#[test]
fn an_emoji_that_was_cut_in_two_is_replaced() {
    let body = br#"{"model": "m", "messages": [{"role": "user", "content": "cut \ud83d, whole \ud83d\ude00"}]}"#;
    let prepared = prepare(&path(Shape::Messages), body, &rules()).unwrap();
    let sent: Value = serde_json::from_slice(&prepared.body).unwrap();
    assert_eq!(sent["messages"][0]["content"], "cut \u{fffd}, whole \u{1f600}");
}

#[test]
fn a_plain_call_is_sent_unchanged() {
    for (shape, body, most) in [
        (
            Shape::Messages,
            json!({"max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "data": "x"}},
                {"type": "tool_use", "input": {"source": {"type": "url", "url": "https://x"}}}]}],
                "tools": [{"name": "a", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]}),
            Some(9),
        ),
        (
            Shape::Chat,
            json!({"n": 3, "max_tokens": 5, "messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}]}],
                "tools": [{"type": "function", "function": {"name": "web_search"}}]}),
            Some(15),
        ),
        (
            Shape::Responses,
            json!({"input": [{"type": "message", "content": [{"type": "input_text", "text": "file_url"}]}],
                "store": false, "tools": [{"type": "custom", "name": "apply_patch"}, {"type": "local_shell"}]}),
            None,
        ),
        (
            Shape::Contents,
            json!({"contents": [{"parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": []}],
                "generationConfig": {"maxOutputTokens": 7, "candidateCount": 2}}),
            Some(14),
        ),
        (Shape::Ollama, json!({"messages": [], "options": {"num_predict": 4}}), Some(4)),
    ] {
        let (value, prepared) = sent(shape, body.clone()).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        let mut expected = body;
        if shape != Shape::Contents {
            expected["model"] = json!("m");
        }
        let all = prepared.most_output.map(|most| most * prepared.answers);
        assert_eq!((value, all, prepared.removed.len()), (expected, most, 0), "{shape:?}");
    }
}

#[test]
fn parts_that_reach_beyond_the_sandbox_are_refused() {
    let image = |source: Value| json!({"messages": [{"content": [{"type": "image", "source": source}]}]});
    let in_result = json!({"messages": [{"content": [{"type": "tool_result", "content": [
        {"type": "document", "source": {"type": "url", "url": "https://evil"}}]}]}]});
    for (shape, body, named) in [
        (Shape::Messages, json!({"mcp_servers": [{"url": "https://evil"}]}), "mcp_servers"),
        (Shape::Messages, json!({"tools": [{"type": "web_fetch_20250910", "name": "f"}]}), "web_fetch"),
        (Shape::Messages, image(json!({"type": "url", "url": "https://evil"})), "fetch"),
        (Shape::Messages, image(json!({"type": "file", "file_id": "f"})), "fetch"),
        (Shape::Messages, in_result, "fetch"),
        (
            Shape::Chat,
            json!({"messages": [{"content": [{"type": "image_url", "image_url": {"url": "https://evil"}}]}]}),
            "fetch",
        ),
        (Shape::Chat, json!({"messages": [{"content": [{"type": "file", "file": {"file_id": "f"}}]}]}), "fetch"),
        (Shape::Responses, json!({"previous_response_id": "r"}), "previous_response_id"),
        (Shape::Responses, json!({"background": true}), "background"),
        (Shape::Responses, json!({"tools": [{"type": "mcp", "server_url": "https://evil"}]}), "mcp"),
        (Shape::Responses, json!({"input": [{"type": "item_reference", "id": "i"}]}), "fetch"),
        (
            Shape::Responses,
            json!({"input": [{"type": "function_call_output", "output": [{"image_url": "https://evil"}]}]}),
            "fetch",
        ),
        (Shape::Responses, json!({"input": [{"content": [{"type": "input_file", "file_url": "https://e"}]}]}), "fetch"),
        (Shape::Contents, json!({"tools": [{"googleSearch": {}}]}), "googleSearch"),
        (Shape::Contents, json!({"cachedContent": "c"}), "cachedContent"),
        (Shape::Contents, json!({"contents": [{"parts": [{"fileData": {"fileUri": "https://evil"}}]}]}), "fetch"),
        // Some servers accept a single value where a list is expected.
        (Shape::Contents, json!({"contents": [{"parts": {"fileData": {"fileUri": "https://evil"}}}]}), "list"),
        (Shape::Contents, json!({"contents": {"parts": [{"text": "x"}]}}), "list"),
        (Shape::Contents, json!({"tools": {"urlContext": {}}}), "list"),
        (Shape::Chat, json!({"messages": [{"content": {"type": "image_url", "image_url": "https://evil"}}]}), "list"),
        (Shape::Messages, json!({"messages": {"content": []}}), "list"),
        (Shape::Responses, json!({"input": {"type": "item_reference"}}), "list"),
        // Alternative spellings and locations.
        (
            Shape::Contents,
            json!({"system_instruction": {"parts": [{"file_data": {}}]}, "systemInstruction": {"parts": []}}),
            "fetch",
        ),
        (
            Shape::Contents,
            json!({"contents": [{"parts": [{"function_response": {"parts": [{"file_data": {}}]}}]}]}),
            "fetch",
        ),
        (Shape::Responses, json!({"input": [{"id": "msg_1"}]}), "fetch"),
        (Shape::Responses, json!({"input": [], "tools": [{"type": ["mcp"]}]}), "type of a tool"),
        (Shape::Chat, json!({"messages": [{"content": [{"type": "video_url", "video_url": {}}]}]}), "video_url"),
        (
            Shape::Chat,
            json!({"messages": [{"content": [{"type": "file", "file": {"file_data": "https://evil"}}]}]}),
            "fetch",
        ),
        (Shape::Chat, json!({"messages": [{"content": [{"image_url": "http://10.0.0.1/"}]}]}), "not allowed"),
        (
            Shape::Chat,
            json!({"messages": [{"content": [{"type": 5, "video_url": "http://10.0.0.1/"}]}]}),
            "not allowed",
        ),
        (Shape::Chat, json!({"MODEL": "dear"}), "twice"),
        (Shape::Chat, json!({"max_tokens": "many"}), "whole number"),
    ] {
        let error = sent(shape, body.clone()).map(|_| ()).unwrap_err();
        assert!(error.contains(named), "{body}: {error}");
    }
}

#[test]
fn tools_that_the_provider_runs_are_removed() {
    let tools = json!([{"type": "web_search"}, {"type": "function", "name": "f"}]);
    let (value, prepared) = sent(Shape::Responses, json!({"input": [], "tools": tools})).unwrap();
    assert_eq!(
        (value["tools"].clone(), prepared.removed),
        (json!([{"type": "function", "name": "f"}]), vec!["web_search".to_owned()])
    );
    let tools = json!([{"functionDeclarations": [{"name": "f"}], "urlContext": {}}, {"codeExecution": {}}]);
    let (value, prepared) = sent(Shape::Contents, json!({"tools": tools})).unwrap();
    assert_eq!(value["tools"], json!([{"functionDeclarations": [{"name": "f"}]}]));
    assert_eq!(prepared.removed, ["urlContext", "codeExecution"]);
    let (value, _) = sent(Shape::Chat, json!({"service_tier": "priority", "web_search_options": {}})).unwrap();
    assert_eq!(value, json!({"model": "m"}));
}

#[test]
fn unknown_fields_are_removed_and_reported_briefly() {
    let tool = json!({"type": "function", "name": "f"});
    let inner = json!([{"type": "mcp", "server_url": "https://evil"}, tool]);
    let item = json!({"type": "tool_search_output", "tools": inner});
    let group = json!({"type": "namespace", "tools": inner});
    let (value, prepared) = sent(Shape::Responses, json!({"input": [item], "tools": [group]})).unwrap();
    assert!(!value.to_string().contains("evil") && value.to_string().matches("\"f\"").count() == 2, "{value}");
    assert_eq!(prepared.removed, ["mcp", "mcp"]);
    let body = json!({"models": ["dear"], "plugins": [{"id": "web"}], "SERVICE_TIER": "priority", "serviceTier": "x"});
    let (value, prepared) = sent(Shape::Chat, body).unwrap();
    assert_eq!((value, prepared.removed.len()), (json!({"model": "m"}), 4));
    let cached =
        json!({"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]});
    let (value, _) = sent(Shape::Messages, cached).unwrap();
    assert_eq!(value["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    let many: Map<String, Value> = (0..100).map(|n| (format!("{n}{}", "x".repeat(5000)), json!(1))).collect();
    let (_, prepared) = sent(Shape::Chat, Value::Object(many)).unwrap();
    assert!(prepared.removed.len() == MAX_NAMES && prepared.removed.iter().all(|name| name.len() == NAME_CHARS));
}

#[test]
fn the_largest_of_several_limits_counts() {
    for (shape, body, most, answers) in [
        (Shape::Chat, json!({"max_completion_tokens": 1, "max_tokens": 100_000}), Some(100_000), 1),
        (Shape::Chat, json!({"n": 128}), None, 128),
        (
            Shape::Contents,
            json!({"generationConfig": {"maxOutputTokens": "65536"}, "generation_config": {"candidate_count": "8"}}),
            Some(65_536),
            8,
        ),
        (Shape::Ollama, json!({"options": {"num_predict": -1}}), Some(u64::from(u32::MAX)), 1),
    ] {
        let (_, prepared) = sent(shape, body.clone()).unwrap();
        assert_eq!((prepared.most_output, prepared.answers), (most, answers), "{body}");
    }
    let limited = Rules { max_output: Some(7), ..rules() };
    for (shape, is_openai, pointer) in [
        (Shape::Chat, false, "/max_tokens"),
        (Shape::Chat, true, "/max_completion_tokens"),
        (Shape::Responses, true, "/max_output_tokens"),
        (Shape::Contents, false, "/generationConfig/maxOutputTokens"),
        (Shape::Ollama, false, "/options/num_predict"),
    ] {
        let prepared = prepare(&path(shape), br#"{"model":"m"}"#, &Rules { is_openai, ..limited.clone() }).unwrap();
        let value: Value = serde_json::from_slice(&prepared.body).unwrap();
        assert_eq!((value.pointer(pointer), prepared.most_output), (Some(&json!(7)), Some(7)), "{value}");
    }
}

#[test]
fn images_count_more_than_their_bytes_and_too_many_values_are_refused() {
    let source = json!({"type": "base64", "data": "x"});
    let parts = json!([{"type": "image", "source": source}, {"type": "document", "source": source}]);
    let (_, prepared) = sent(Shape::Messages, json!({"messages": [{"content": parts}]})).unwrap();
    assert_eq!(prepared.attached, IMAGE_TOKENS + FILE_TOKENS);
    let many = format!("{{\"model\":\"m\",\"messages\":[{}0]}}", "0,".repeat(2 * MAX_VALUES));
    assert!(prepare(&path(Shape::Chat), many.as_bytes(), &rules()).unwrap_err().contains("values"));
}

#[test]
fn an_operator_can_allow_parts_that_reach_beyond_the_sandbox() {
    let body = json!({"model": "m", "tools": [{"type": "web_search"}], "previous_response_id": "r"});
    let prepared =
        prepare(&path(Shape::Responses), body.to_string().as_bytes(), &Rules { hosted_tools: true, ..rules() })
            .unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&prepared.body).unwrap(), body);
}

#[test]
fn a_streamed_chat_reports_its_usage() {
    for options in [json!(null), json!({"include_usage": false, "x": 1})] {
        let mut body = json!({"stream": true});
        if !options.is_null() {
            body["stream_options"] = options;
        }
        let (value, _) = sent(Shape::Chat, body).unwrap();
        assert_eq!(value["stream_options"]["include_usage"], true);
    }
    let (value, _) = sent(Shape::Chat, json!({"stream": false})).unwrap();
    assert!(value.get("stream_options").is_none());
}

#[test]
fn the_sent_body_is_the_checked_one() {
    // Some parsers use the first field of this name, and others the last.
    let body = br#"{"model":"cheap","model":"dear","max_tokens":1}"#;
    let prepared = prepare(&path(Shape::Messages), body, &rules()).unwrap();
    let value: Value = serde_json::from_slice(&prepared.body).unwrap();
    assert_eq!(value["model"], prepared.model.as_str());
    assert_eq!(String::from_utf8_lossy(&prepared.body).matches("model").count(), 1);
    for bad in ["", "[]", "{}", "{\"model\": 1}", "{\"model\": \"\"}", "not json"] {
        assert!(prepare(&path(Shape::Messages), bad.as_bytes(), &rules()).is_err(), "{bad}");
    }
}

#[test]
fn calls_to_ollama_have_a_context_window() {
    let windowed = Rules { context_tokens: Some(32_768), ..rules() };
    for (shape, body, expected) in [
        (Shape::Ollama, json!({"model": "m"}), json!(32_768)),
        (Shape::Ollama, json!({"model": "m", "options": {"temperature": 0}}), json!(32_768)),
        (Shape::Ollama, json!({"model": "m", "options": {"num_ctx": 8192}}), json!(8192)),
        (Shape::Chat, json!({"model": "m"}), Value::Null),
    ] {
        let prepared = prepare(&path(shape), body.to_string().as_bytes(), &windowed).unwrap();
        let value: Value = serde_json::from_slice(&prepared.body).unwrap();
        assert_eq!(value["options"]["num_ctx"], expected, "{body}");
    }
}

#[test]
fn a_group_of_fields_passes_if_the_operator_allows_it() {
    for (shape, body, group, name) in [
        (
            Shape::Messages,
            json!({"context_management": {"edits": []}}),
            FieldGroup::ContextManagement,
            "context_management",
        ),
        (Shape::Messages, json!({"fallbacks": [{"model": "small"}]}), FieldGroup::Fallbacks, "fallbacks"),
        (Shape::Messages, json!({"speed": "fast"}), FieldGroup::ServiceTiers, "speed"),
        (Shape::Responses, json!({"service_tier": "priority"}), FieldGroup::ServiceTiers, "service_tier"),
        (Shape::Responses, json!({"context_management": []}), FieldGroup::ContextManagement, "context_management"),
        (Shape::Chat, json!({"provider": {"order": ["a"]}}), FieldGroup::Routing, "provider"),
        (Shape::Chat, json!({"models": ["small"]}), FieldGroup::Fallbacks, "models"),
        (Shape::Contents, json!({"serviceTier": "flex"}), FieldGroup::ServiceTiers, "serviceTier"),
    ] {
        let mut named = body.clone();
        named["model"] = json!("m");
        let prepared = |groups| {
            let rules = Rules { groups, ..Rules::default() };
            prepare(&path(shape), named.to_string().as_bytes(), &rules).unwrap()
        };
        let denied = prepared(BTreeSet::new());
        assert_eq!(denied.removed, [format!("{name} ({})", group.name())], "{shape:?} {name}");
        let allowed = prepared([group].into());
        let sent: Value = serde_json::from_slice(&allowed.body).unwrap();
        assert_eq!((&sent[name], allowed.removed.len()), (&body[name], 0), "{shape:?} {name}");
        let expects_tier = group == FieldGroup::ServiceTiers;
        assert_eq!((denied.tier.name().is_some(), allowed.tier.name().is_some()), (false, expects_tier), "{name}");
        let expected: &[&str] = if group == FieldGroup::Fallbacks { &["small"] } else { &[] };
        assert_eq!(allowed.fallbacks, expected, "{name}");
    }
    let body = br#"{"model": "m", "logit_processor": 1, "Service_Tier": "priority"}"#;
    for hosted_tools in [false, true] {
        let fields = [("logit_processor".to_owned())].into();
        let prepared = prepare(&path(Shape::Chat), body, &Rules { fields, hosted_tools, ..rules() }).unwrap();
        assert_eq!(prepared.removed, ["Service_Tier"], "another spelling");
    }
}

#[test]
fn the_lifetime_of_a_cache_passes_if_the_operator_allows_it() {
    let body = json!({"model": "m", "prompt_cache_options": {"mode": "explicit", "ttl": "12h"}});
    for (groups, options) in [
        (BTreeSet::new(), json!({"mode": "explicit"})),
        ([FieldGroup::LongCaches].into(), json!({"mode": "explicit", "ttl": "12h"})),
    ] {
        let rules = Rules { groups, ..Rules::default() };
        let prepared = prepare(&path(Shape::Responses), body.to_string().as_bytes(), &rules).unwrap();
        let sent: Value = serde_json::from_slice(&prepared.body).unwrap();
        assert_eq!(sent["prompt_cache_options"], options);
    }
}

#[test]
fn an_entry_of_fallbacks_must_name_a_model() {
    let rules = Rules { groups: [FieldGroup::Fallbacks].into(), ..Rules::default() };
    for (body, words) in [
        (json!({"model": "m", "fallbacks": [{"max_tokens": 1}]}), "names no model"),
        (json!({"model": "m", "fallbacks": {"model": "dear"}}), "must be a list"),
    ] {
        let error = prepare(&path(Shape::Messages), body.to_string().as_bytes(), &rules).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
