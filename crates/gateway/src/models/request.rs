//! The body of a call: read once, and written anew, so that what was checked is what the provider reads.
//!
//! Taken out, or refused where nothing would be left: what reaches beyond the sandbox by way of the provider (tools that it
//! runs itself, files and pages that it fetches, state that it keeps), and what changes the price.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::path::{Path, Shape};

/// Fields by which the same tokens cost more.
const PRICED: [&str; 3] = ["service_tier", "speed", "inference_geo"];

/// A body that may be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prepared {
    pub(crate) body: Bytes,
    /// The model, as its provider calls it.
    pub(crate) model: String,
    /// Tokens that it may write, over all answers, where the body says so.
    pub(crate) most_output: Option<u64>,
    /// What was taken out.
    pub(crate) removed: Vec<String>,
}

/// Reads a body.
///
/// # Errors
/// It cannot be sent: why, for whoever has written it.
pub(crate) fn prepare(path: &Path, body: &[u8], hosted_tools: bool) -> Result<Prepared, String> {
    let mut value: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let Some(fields) = value.as_object_mut() else { return Err("the body must be a JSON object".to_owned()) };
    let named = path.model.clone().or_else(|| Some(fields.get("model")?.as_str()?.to_owned()));
    let model = named.filter(|name| !name.is_empty()).ok_or("the body names no model")?;
    let mut removed = Vec::new();
    for name in PRICED {
        if fields.shift_remove(name).is_some() {
            removed.push(name.to_owned());
        }
    }
    if !hosted_tools {
        refuse_state(path.shape, fields)?;
        remove_tools(path.shape, fields, &mut removed)?;
        contents(path.shape, fields, &mut |part| refuse_remote(path.shape, part))?;
    }
    if path.shape == Shape::Chat && fields.get("stream") == Some(&Value::Bool(true)) {
        let options = fields.entry("stream_options").or_insert_with(|| json!({}));
        match options.as_object_mut() {
            Some(options) => drop(options.insert("include_usage".to_owned(), Value::Bool(true))),
            None => *options = json!({"include_usage": true}),
        }
    }
    let most_output = most_output(path.shape, fields);
    let body = serde_json::to_vec(&value).map_err(|error| error.to_string())?.into();
    Ok(Prepared { body, model, most_output, removed })
}

fn most_output(shape: Shape, fields: &Map<String, Value>) -> Option<u64> {
    let number = |place: &[&str]| {
        let (first, rest) = place.split_first()?;
        rest.iter().try_fold(fields.get(*first)?, |value, name| value.get(name))?.as_u64()
    };
    let (each, answers) = match shape {
        Shape::Messages => (number(&["max_tokens"]), None),
        Shape::Chat => (number(&["max_completion_tokens"]).or_else(|| number(&["max_tokens"])), number(&["n"])),
        Shape::Responses => (number(&["max_output_tokens"]), None),
        Shape::Contents => {
            (number(&["generationConfig", "maxOutputTokens"]), number(&["generationConfig", "candidateCount"]))
        }
        Shape::Ollama => (number(&["options", "num_predict"]), None),
    };
    Some(each?.saturating_mul(answers.unwrap_or(1).max(1)))
}

/// What refers to things that the provider keeps: they may be another job's, and their tokens are not seen.
fn refuse_state(shape: Shape, fields: &Map<String, Value>) -> Result<(), String> {
    let names: &[&str] = match shape {
        Shape::Messages => &["mcp_servers", "container"],
        Shape::Responses => &["background", "previous_response_id", "conversation", "prompt"],
        Shape::Contents => &["cachedContent", "cached_content"],
        Shape::Chat | Shape::Ollama => &[],
    };
    let is_nothing = |value: &Value| {
        matches!(value, Value::Null | Value::Bool(false)) || value.as_array().is_some_and(Vec::is_empty)
    };
    match names.iter().find(|name| fields.get(**name).is_some_and(|value| !is_nothing(value))) {
        Some(name) => {
            Err(format!("{name} is not let through: it uses what is beyond the sandbox, by way of the provider"))
        }
        None => Ok(()),
    }
}

/// Takes tools away that the provider would run.
fn remove_tools(shape: Shape, fields: &mut Map<String, Value>, removed: &mut Vec<String>) -> Result<(), String> {
    if shape == Shape::Chat && fields.shift_remove("web_search_options").is_some() {
        removed.push("web_search_options".to_owned());
    }
    let Some(tools) = fields.get_mut("tools").and_then(Value::as_array_mut).filter(|tools| !tools.is_empty()) else {
        return Ok(());
    };
    let before = removed.len();
    match shape {
        Shape::Contents => {
            for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
                let other = |name: &String| !matches!(name.as_str(), "functionDeclarations" | "function_declarations");
                let others: Vec<String> = tool.keys().filter(|name| other(name)).cloned().collect();
                for name in others {
                    tool.shift_remove(&name);
                    removed.push(name);
                }
            }
            tools.retain(|tool| tool.as_object().is_some_and(|tool| !tool.is_empty()));
        }
        Shape::Messages | Shape::Chat | Shape::Responses | Shape::Ollama => tools.retain(|tool| {
            let kind = tool.get("type").and_then(Value::as_str);
            let stays = kind.is_none_or(|kind| is_run_here(shape, kind));
            if !stays {
                removed.extend(kind.map(str::to_owned));
            }
            stays
        }),
    }
    if tools.is_empty() && removed.len() > before {
        let names = removed[before..].join(", ");
        return Err(format!(
            "the tools {names} are run by the provider and reach beyond the sandbox; the operator can allow them with \
             hosted-tools = true for this provider"
        ));
    }
    Ok(())
}

/// Whether whoever calls runs a tool of that type, and not the provider.
fn is_run_here(shape: Shape, kind: &str) -> bool {
    match shape {
        Shape::Messages => {
            let versions = ["bash_", "text_editor_", "computer_", "memory_"];
            kind == "custom" || versions.iter().any(|start| kind.starts_with(start))
        }
        Shape::Responses => matches!(kind, "function" | "custom" | "local_shell" | "apply_patch" | "namespace"),
        Shape::Chat | Shape::Ollama | Shape::Contents => matches!(kind, "function" | "custom"),
    }
}

/// Shows each part of a conversation's contents: texts, images, files, results of tools. What stands in arguments of
/// tools is text for the model, whatever it looks like.
fn contents(
    shape: Shape,
    fields: &Map<String, Value>,
    see: &mut dyn FnMut(&Value) -> Result<(), String>,
) -> Result<(), String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    match shape {
        Shape::Messages => {
            let mut parts = list(fields.get("system"));
            parts.extend(list(fields.get("messages")).iter().flat_map(|message| list(message.get("content"))));
            while let Some(part) = parts.pop() {
                see(&part)?;
                // Results of tools have parts of their own, and so have documents.
                parts.extend(list(part.get("content")));
                parts.extend(list(part.get("source").and_then(|source| source.get("content"))));
            }
        }
        Shape::Chat => {
            for part in list(fields.get("messages")).iter().flat_map(|message| list(message.get("content"))) {
                see(&part)?;
            }
        }
        Shape::Responses => {
            for item in list(fields.get("input")) {
                see(&item)?;
                for part in list(item.get("content")).iter().chain(&list(item.get("output"))) {
                    see(part)?;
                }
                // What a screen looks like, for tools that use one.
                if let Some(output) = item.get("output").filter(|output| output.is_object()) {
                    see(output)?;
                }
            }
        }
        Shape::Contents => {
            let system = fields.get("systemInstruction").or_else(|| fields.get("system_instruction"));
            let all = list(fields.get("contents"));
            for part in all.iter().chain(system).flat_map(|content| list(content.get("parts"))) {
                see(&part)?;
                for part in list(part.get("functionResponse").and_then(|response| response.get("parts"))) {
                    see(&part)?;
                }
            }
        }
        Shape::Ollama => {}
    }
    Ok(())
}

/// A part that the provider would fetch from somewhere.
fn refuse_remote(shape: Shape, part: &Value) -> Result<(), String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let is_data = |address: &str| address.starts_with("data:");
    let remote = match shape {
        Shape::Messages => {
            let kind = part.get("source").and_then(|source| source.get("type")).and_then(Value::as_str);
            kind.is_some_and(|kind| !matches!(kind, "base64" | "text" | "content"))
                || part.get("type").and_then(Value::as_str) == Some("container_upload")
        }
        Shape::Chat => {
            let image = part.get("image_url").and_then(|image| image.get("url").and_then(text).or_else(|| text(image)));
            image.is_some_and(|address| !is_data(&address))
                || part.get("file").is_some_and(|file| file.get("file_id").is_some())
        }
        Shape::Responses => {
            part.get("image_url").and_then(text).is_some_and(|address| !is_data(&address))
                || part.get("file_url").is_some_and(|address| !address.is_null())
                || part.get("file_id").is_some_and(|id| !id.is_null())
                || part.get("type").and_then(Value::as_str) == Some("item_reference")
        }
        Shape::Contents => part.get("fileData").or_else(|| part.get("file_data")).is_some(),
        Shape::Ollama => false,
    };
    if remote {
        let text = "an image or file that the provider would fetch is not let through: send it in the body itself";
        return Err(text.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::path::Purpose;
    use super::*;

    fn path(shape: Shape) -> Path {
        let model = (shape == Shape::Contents).then(|| "m".to_owned());
        Path { purpose: Purpose::Generate, shape, rest: String::new(), model }
    }

    fn sent(shape: Shape, mut body: Value) -> Result<(Value, Prepared), String> {
        if shape != Shape::Contents {
            body["model"] = json!("m");
        }
        let prepared = prepare(&path(shape), body.to_string().as_bytes(), false)?;
        Ok((serde_json::from_slice(&prepared.body).unwrap(), prepared))
    }

    #[test]
    fn a_plain_call_is_sent_as_it_is() {
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
            assert_eq!((value, prepared.most_output, prepared.removed.len()), (expected, most, 0), "{shape:?}");
        }
    }

    #[test]
    fn what_reaches_beyond_the_sandbox_is_refused() {
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
            (
                Shape::Responses,
                json!({"input": [{"content": [{"type": "input_file", "file_url": "https://e"}]}]}),
                "fetch",
            ),
            (Shape::Contents, json!({"tools": [{"googleSearch": {}}]}), "googleSearch"),
            (Shape::Contents, json!({"cachedContent": "c"}), "cachedContent"),
            (Shape::Contents, json!({"contents": [{"parts": [{"fileData": {"fileUri": "https://evil"}}]}]}), "fetch"),
        ] {
            let error = sent(shape, body.clone()).map(|_| ()).unwrap_err();
            assert!(error.contains(named), "{body}: {error}");
        }
    }

    #[test]
    fn of_several_tools_those_of_the_provider_are_taken_out() {
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
    fn an_operator_may_allow_them() {
        let body = json!({"model": "m", "tools": [{"type": "web_search"}], "previous_response_id": "r"});
        let prepared = prepare(&path(Shape::Responses), body.to_string().as_bytes(), true).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&prepared.body).unwrap(), body);
    }

    #[test]
    fn a_streamed_chat_tells_its_usage() {
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
    fn what_was_checked_is_what_is_sent() {
        // One reader takes the first, another the last.
        let body = br#"{"model":"cheap","model":"dear","max_tokens":1}"#;
        let prepared = prepare(&path(Shape::Messages), body, false).unwrap();
        let value: Value = serde_json::from_slice(&prepared.body).unwrap();
        assert_eq!(value["model"], prepared.model.as_str());
        assert_eq!(String::from_utf8_lossy(&prepared.body).matches("model").count(), 1);
        for bad in ["", "[]", "{}", "{\"model\": 1}", "{\"model\": \"\"}", "not json"] {
            assert!(prepare(&path(Shape::Messages), bad.as_bytes(), false).is_err(), "{bad}");
        }
    }
}
