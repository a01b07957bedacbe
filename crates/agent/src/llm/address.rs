//! Addresses a call so that the model's server receives exactly the name that was chosen.
//!
//! `genai` interprets names: it cuts off a part before `::` as a namespace, and an ending such as `-high` as an effort.
//! So `genai` gets a guarded name, whose extra parts it may cut off, and the real name is set where the dialect has it:
//! in the body, or in the URL.
//!
//! Invariant: the name on the wire is [`Target::name`], in every dialect and for every string.

use genai::chat::{ChatOptions, ReasoningEffort};
use genai::resolver::{AuthData, Endpoint};
use genai::{Headers, ModelIden, ServiceTarget};
use journeyman_core::model::{Dialect, Effort};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::model::{Target, adapter};

/// The namespace of a guarded name. It is empty, and ends at the first `::`, so that a `::` in the name stays.
const NAMESPACE: &str = "::";

/// The ending of a guarded name. It is no effort, and `genai`, which knows the abilities of models by the beginnings of
/// their names, ignores it.
const ENDING: &str = "-x";

/// The characters of a name that are encoded in a path: all except those that never have a meaning in one.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the name that `genai` gets. Its adapter for Ollama cuts off the namespace only, and sends the rest, so that
/// name has no ending.
fn guarded(target: &Target) -> String {
    let ending = if target.dialect == Dialect::Ollama { "" } else { ENDING };
    format!("{NAMESPACE}{}{ending}", target.name)
}

/// Returns the target of a streamed call and its options, with `effort` if one is set.
pub(crate) fn address(target: &Target, options: ChatOptions, effort: Option<Effort>) -> (ServiceTarget, ChatOptions) {
    // The adapters send a key in any case; servers without authentication ignore it.
    let key = target.key().unwrap_or("none");
    let options = match effort {
        Some(effort) => options.with_reasoning_effort(reasoning(target, effort)),
        None => options,
    };
    let (auth, options) = match target.dialect {
        Dialect::Anthropic | Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::Compatible => {
            (AuthData::from_single(key), options.with_extra_body(json!({ "model": target.name })))
        }
        Dialect::Gemini => {
            let headers = Headers::from(("x-goog-api-key", key));
            (AuthData::RequestOverride { url: gemini_url(target), headers }, options)
        }
        Dialect::Ollama => (AuthData::from_single(key), options),
    };
    let service = ServiceTarget {
        endpoint: Endpoint::from_owned(target.base_url()),
        auth,
        model: ModelIden::new(adapter(target.dialect), guarded(target)),
    };
    (service, options)
}

/// Replaces the guarded name in the text of an error by the real one.
pub(crate) fn with_real_name(target: &Target, text: &str) -> String {
    text.replace(&guarded(target), &target.name)
}

/// Returns the URL of a streamed call, whose path has the name.
fn gemini_url(target: &Target) -> String {
    let (path, query) = target.base_url().split_once('?').unwrap_or((target.base_url(), ""));
    let and = if query.is_empty() { "" } else { "&" };
    let name = utf8_percent_encode(&target.name, ENCODED);
    format!("{path}models/{name}:streamGenerateContent?{query}{and}alt=sse")
}

/// Translates an effort. `genai` does not send `none` to Gemini, whose models reason by default; they get the nearest
/// value that their API has.
fn reasoning(target: &Target, effort: Effort) -> ReasoningEffort {
    let has_levels = || ["gemini-3", "gemma-4"].iter().any(|family| target.name.contains(family));
    match effort {
        Effort::None if target.dialect == Dialect::Gemini && has_levels() => ReasoningEffort::Minimal,
        Effort::None if target.dialect == Dialect::Gemini => ReasoningEffort::Budget(0),
        Effort::None => ReasoningEffort::Zero,
        Effort::Minimal => ReasoningEffort::Minimal,
        Effort::Low => ReasoningEffort::Low,
        Effort::Medium => ReasoningEffort::Medium,
        Effort::High => ReasoningEffort::High,
        Effort::XHigh => ReasoningEffort::XHigh,
        Effort::Max => ReasoningEffort::Max,
    }
}
