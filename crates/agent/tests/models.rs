//! Tests of the calls to models as their servers receive them.

use journeyman_core::model::{Dialect, Effort};
use journeyman_testkit::{Asked, ModelServer};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::support::Agent;

/// Names that a library or a path could change.
const NAMES: [&str; 34] = [
    "m",
    "gpt-5.1-codex-max",
    "gemini-3-pro-high",
    "gpt-5-minimal",
    "gpt-5.6-none",
    "claude-opus-4-5-zero",
    "claude-sonnet-5-xhigh",
    "qwen-max",
    "x-low",
    "x-medium",
    "x-high-max",
    "-high",
    "high",
    "o3-mini-2025-01-31-high",
    "gpt-4o-2024-08-06",
    "org/model",
    "org/team/model-high",
    "/m",
    "m/",
    "a//b",
    "..",
    "a/../../b",
    "space::name",
    "openai::gpt-5-high",
    "::m",
    ":m",
    "m::",
    "qwen3:8b",
    "model name",
    " m ",
    "50%-off%2Fx",
    "a?b=c&d#e",
    "größe-模型-🦀",
    "\"\\`'<>{}|^[]~+,;@$!*()=",
];

/// Sends one prompt to the model, and returns the request that the server received.
async fn call(server: &ModelServer, dialect: Dialect, name: &str, effort: Option<Effort>) -> Asked {
    let state = tempfile::tempdir().unwrap();
    let mut agent = Agent::start_with(state.path(), |options| {
        options.model = format!("{}/{name}", dialect.name());
        options.base_url = Some(server.url.clone());
        options.api_key = Some("key".to_owned());
        options.effort = effort;
    })
    .await;
    let session = agent.session(state.path()).await;
    let answer = agent.prompt(&session, "Do it.").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{dialect:?} {name:?}: {answer} {}", agent.said());
    agent.stop().await;
    server.asked().pop().unwrap()
}

/// Returns the name of the model in a request.
fn name_of(asked: &Asked, dialect: Dialect) -> String {
    if dialect == Dialect::Gemini {
        assert!(asked.body.get("model").is_none(), "{}", asked.body);
        let name = asked.path.strip_prefix("/v1beta/models/").unwrap();
        let name = name.strip_suffix(":streamGenerateContent?alt=sse").unwrap();
        assert!(!name.contains(['/', ':', '?', '#', ' ']), "{name}");
        percent_decode_str(name).decode_utf8().unwrap().into_owned()
    } else {
        asked.body["model"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn the_chosen_name_is_the_name_on_the_wire() {
    let server = ModelServer::saying("Done.").await;
    for dialect in Dialect::ALL {
        let with_effort = NAMES.into_iter().take(6).map(|name| (name, Some(Effort::High)));
        for (name, effort) in NAMES.into_iter().map(|name| (name, None)).chain(with_effort) {
            let asked = call(&server, dialect, name, effort).await;
            assert_eq!(name_of(&asked, dialect), name, "{dialect:?} {effort:?}");
        }
    }
    assert_eq!(server.asked().len(), Dialect::ALL.len() * (NAMES.len() + 6), "one request for each prompt");
}

#[tokio::test]
async fn the_key_is_sent_where_the_dialect_expects_it() {
    let server = ModelServer::saying("Done.").await;
    for (dialect, header, value) in [
        (Dialect::Anthropic, "x-api-key", "key"),
        (Dialect::OpenAi, "authorization", "Bearer key"),
        (Dialect::OpenAiResponses, "authorization", "Bearer key"),
        (Dialect::Gemini, "x-goog-api-key", "key"),
        (Dialect::Ollama, "authorization", "Bearer key"),
        (Dialect::Compatible, "authorization", "Bearer key"),
    ] {
        assert_eq!(call(&server, dialect, "m", None).await.header(header), value, "{dialect:?}");
    }
}

/// Returns the parts of a request that set the effort.
fn effort_of(asked: &Asked) -> Value {
    let mut found = serde_json::Map::new();
    for pointer in [
        "/output_config/effort",
        "/thinking/type",
        "/thinking/budget_tokens",
        "/reasoning_effort",
        "/reasoning/effort",
        "/generationConfig/thinkingConfig/thinkingLevel",
        "/generationConfig/thinkingConfig/thinkingBudget",
        "/think",
    ] {
        if let Some(value) = asked.body.pointer(pointer) {
            found.insert(pointer.to_owned(), value.clone());
        }
    }
    Value::Object(found)
}

#[tokio::test]
async fn an_effort_is_sent_in_the_form_of_the_dialect_and_only_if_it_is_set() {
    use Dialect::{Anthropic, Compatible, Gemini, Ollama, OpenAi, OpenAiResponses};
    use Effort::{High, Low, Max, Medium, Minimal, None as Off, XHigh};
    let server = ModelServer::saying("Done.").await;
    for dialect in Dialect::ALL {
        for name in ["gpt-5.1-codex-max", "claude-opus-4-8-high", "gemini-3-pro-high", "qwen3:8b-low"] {
            assert_eq!(effort_of(&call(&server, dialect, name, None).await), json!({}), "{dialect:?} {name}");
        }
    }
    let levels = |level: &str| json!({"/generationConfig/thinkingConfig/thinkingLevel": level});
    let budget = |tokens: u64| json!({"/generationConfig/thinkingConfig/thinkingBudget": tokens});
    let adaptive = |effort: &str| json!({"/output_config/effort": effort, "/thinking/type": "adaptive"});
    for (dialect, name, effort, expected) in [
        (Anthropic, "claude-opus-4-8", Minimal, adaptive("low")),
        (Anthropic, "claude-opus-4-8", Low, adaptive("low")),
        (Anthropic, "claude-opus-4-8", Medium, adaptive("medium")),
        (Anthropic, "claude-opus-4-8", High, adaptive("high")),
        (Anthropic, "claude-opus-4-8", XHigh, adaptive("xhigh")),
        (Anthropic, "claude-opus-4-8", Max, adaptive("max")),
        (Anthropic, "claude-opus-4-6", XHigh, adaptive("high")),
        (Anthropic, "claude-opus-4-8", Off, json!({})),
        (Anthropic, "claude-sonnet-5", Off, json!({"/thinking/type": "disabled"})),
        (Anthropic, "claude-haiku-4-5", High, json!({"/thinking/type": "enabled", "/thinking/budget_tokens": 24000})),
        (OpenAi, "gpt-5", Off, json!({"/reasoning_effort": "none"})),
        (OpenAi, "gpt-5", Minimal, json!({"/reasoning_effort": "minimal"})),
        (OpenAi, "gpt-5", XHigh, json!({"/reasoning_effort": "xhigh"})),
        (Compatible, "org/m", Max, json!({"/reasoning_effort": "max"})),
        (OpenAiResponses, "gpt-5.1-codex-max", Off, json!({"/reasoning/effort": "none"})),
        (OpenAiResponses, "gpt-5.1-codex-max", XHigh, json!({"/reasoning/effort": "xhigh"})),
        (OpenAiResponses, "gpt-5.1-codex-max", Medium, json!({"/reasoning/effort": "medium"})),
        (Gemini, "gemini-3-pro", Off, levels("MINIMAL")),
        (Gemini, "gemini-3-pro", Minimal, levels("MINIMAL")),
        (Gemini, "gemini-3-pro", Medium, levels("MEDIUM")),
        (Gemini, "gemini-3-pro-high", Max, levels("HIGH")),
        (Gemini, "gemini-2.5-flash", Off, budget(0)),
        (Gemini, "gemini-2.5-flash", Low, budget(1000)),
        (Gemini, "gemini-2.5-flash", XHigh, budget(24000)),
        (Ollama, "m", Off, json!({"/think": false})),
        (Ollama, "m", Minimal, json!({"/think": "low"})),
        (Ollama, "m", High, json!({"/think": "high"})),
        (Ollama, "m", XHigh, json!({"/think": "max"})),
    ] {
        let asked = call(&server, dialect, name, Some(effort)).await;
        assert_eq!(effort_of(&asked), expected, "{dialect:?} {name} {effort:?}");
    }
}
