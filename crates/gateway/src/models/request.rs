//! The body of a call: read once, and written anew, so that what was checked is what the provider reads.
//!
//! Nothing goes through that is not known: fields that are not are taken out, and what reaches beyond the sandbox by way of
//! the provider is taken out or refused: tools that it runs itself, files and pages that it fetches, state that it keeps,
//! what changes the price. Where a list is expected only a list is taken: servers take other forms for one.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::path::{Path, Shape};

/// Values that a body may have: a whole conversation has some thousands. Bounds the memory that one takes.
const MOST_VALUES: usize = 500_000;

/// Characters of a name that are told, and how many names.
const TOLD_CHARS: usize = 64;
const TOLD_NAMES: usize = 10;

/// Bytes that a model's name may have.
const NAME_BYTES: usize = 200;

/// Fields by which the same tokens cost more.
const PRICED: [&str; 4] = ["service_tier", "serviceTier", "speed", "inference_geo"];

/// Tokens that are set aside for an image, and for any other file, however few bytes it has.
const IMAGE_TOKENS: u64 = 5_000;
const FILE_TOKENS: u64 = 100_000;

/// A body that may be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prepared {
    pub(crate) body: Bytes,
    /// The model, as its provider calls it.
    pub(crate) model: String,
    /// Tokens that one answer may have, where the body says so.
    pub(crate) most_output: Option<u64>,
    /// Answers that are asked for.
    pub(crate) answers: u64,
    /// Tokens that images and files may have beyond their bytes.
    pub(crate) attached: u64,
    /// What was taken out.
    pub(crate) removed: Vec<String>,
}

/// What an operator says of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Whether what reaches beyond the sandbox may stay.
    pub(crate) hosted_tools: bool,
    /// The most that an answer may have, for bodies that say nothing about it.
    pub(crate) max_output: Option<u64>,
    /// Whether the server is OpenAI's own, which has another name for that.
    pub(crate) is_openai: bool,
}

/// Reads a body.
///
/// # Errors
/// It cannot be sent: why, for whoever has written it.
pub(crate) fn prepare(path: &Path, body: &[u8], rules: Rules) -> Result<Prepared, String> {
    // Each value but the first stands behind one of these, or within them.
    if body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b':')).count() > MOST_VALUES * 2 {
        return Err(format!("the body has more than {MOST_VALUES} values"));
    }
    let mut value: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let Some(fields) = value.as_object_mut() else { return Err("the body must be a JSON object".to_owned()) };
    let named = path.model.clone().or_else(|| Some(fields.get("model")?.as_str()?.to_owned()));
    let model = named.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES).ok_or("the body names no model")?;
    // Some servers take names in any letters, and the last of several.
    if fields.keys().any(|name| name != "model" && name.eq_ignore_ascii_case("model")) {
        return Err("the body names its model twice".to_owned());
    }
    let mut checked = Checked { shape: path.shape, removed: Vec::new(), attached: 0 };
    for name in PRICED {
        if fields.shift_remove(name).is_some() {
            checked.removed(name);
        }
    }
    if !rules.hosted_tools {
        checked.refuse_state(fields)?;
        checked.keep_known(fields);
        checked.tools(fields)?;
        checked.contents(fields)?;
    }
    if path.shape == Shape::Chat && fields.get("stream") == Some(&Value::Bool(true)) {
        let options = fields.entry("stream_options").or_insert_with(|| json!({}));
        match options.as_object_mut() {
            Some(options) => drop(options.insert("include_usage".to_owned(), Value::Bool(true))),
            None => *options = json!({"include_usage": true}),
        }
    }
    let (mut most_output, answers) = limits(path.shape, fields)?;
    if let (None, Some(most)) = (most_output, rules.max_output) {
        set_most(path.shape, fields, most, rules.is_openai);
        most_output = Some(most);
    }
    let body = serde_json::to_vec(&value).map_err(|error| error.to_string())?.into();
    let Checked { removed, attached, .. } = checked;
    Ok(Prepared { body, model, most_output, answers, attached, removed })
}

/// What the model may write: in one answer, and how many answers. Of several words the largest counts.
fn limits(shape: Shape, fields: &Map<String, Value>) -> Result<(Option<u64>, u64), String> {
    let at = |outer: &str, inner: &[&str]| -> Vec<Value> {
        let found = fields.get(outer).and_then(Value::as_object);
        found.into_iter().flat_map(|found| inner.iter().filter_map(|name| found.get(*name).cloned())).collect()
    };
    let own = |names: &[&str]| -> Vec<Value> { names.iter().filter_map(|name| fields.get(*name).cloned()).collect() };
    let (most, answers) = match shape {
        Shape::Messages => (own(&["max_tokens"]), Vec::new()),
        Shape::Chat => (own(&["max_completion_tokens", "max_tokens"]), own(&["n"])),
        Shape::Responses => (own(&["max_output_tokens"]), Vec::new()),
        Shape::Contents => {
            let both = |names: &[&str]| [at("generationConfig", names), at("generation_config", names)].concat();
            (both(&["maxOutputTokens", "max_output_tokens"]), both(&["candidateCount", "candidate_count"]))
        }
        Shape::Ollama => (at("options", &["num_predict"]), Vec::new()),
    };
    let largest = |values: Vec<Value>| -> Result<Option<u64>, String> {
        let numbers = values.iter().filter(|value| !value.is_null()).map(whole).collect::<Result<Vec<_>, _>>()?;
        Ok(numbers.into_iter().max())
    };
    Ok((largest(most)?, largest(answers)?.unwrap_or(1).max(1)))
}

/// A number, also in quotes, as some servers take it.
fn whole(value: &Value) -> Result<u64, String> {
    let text = value.as_str().map(str::trim);
    let number = value.as_u64().or_else(|| text?.parse().ok());
    // A negative one means no limit to some.
    let open = value.as_i64().or_else(|| text?.parse().ok()).filter(|number| *number < 0).map(|_| u64::from(u32::MAX));
    number.or(open).ok_or_else(|| "a limit of tokens or answers must be a whole number".to_owned())
}

fn set_most(shape: Shape, fields: &mut Map<String, Value>, most: u64, is_openai: bool) {
    let name = match shape {
        Shape::Messages => "max_tokens",
        Shape::Chat if is_openai => "max_completion_tokens",
        Shape::Chat => "max_tokens",
        Shape::Responses => "max_output_tokens",
        Shape::Contents | Shape::Ollama => {
            let (outer, inner) = match shape {
                Shape::Contents => ("generationConfig", "maxOutputTokens"),
                _ => ("options", "num_predict"),
            };
            if let Some(outer) = fields.entry(outer).or_insert_with(|| json!({})).as_object_mut() {
                outer.insert(inner.to_owned(), json!(most));
            }
            return;
        }
    };
    fields.insert(name.to_owned(), json!(most));
}

/// The fields of a body that are let through.
const fn known(shape: Shape) -> &'static [&'static str] {
    match shape {
        Shape::Messages => &[
            "model",
            "messages",
            "system",
            "max_tokens",
            "metadata",
            "stop_sequences",
            "stream",
            "temperature",
            "thinking",
            "tool_choice",
            "tools",
            "top_k",
            "top_p",
            "output_config",
            "output_format",
            "context_management",
            "cache_control",
        ],
        Shape::Chat => &[
            "model",
            "messages",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "stream",
            "stream_options",
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "max_tokens",
            "max_completion_tokens",
            "n",
            "stop",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "repetition_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "response_format",
            "reasoning_effort",
            "reasoning",
            "include_reasoning",
            "verbosity",
            "user",
            "metadata",
            "store",
            "prediction",
            "functions",
            "function_call",
            "modalities",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "thinking",
            "enable_thinking",
            "thinking_budget",
            "chat_template_kwargs",
        ],
        Shape::Responses => &[
            "model",
            "input",
            "instructions",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "reasoning",
            "store",
            "stream",
            "stream_options",
            "include",
            "temperature",
            "top_p",
            "max_output_tokens",
            "metadata",
            "text",
            "truncation",
            "user",
            "prompt_cache_key",
            "prompt_cache_retention",
            "safety_identifier",
            "max_tool_calls",
            "top_logprobs",
            "client_metadata",
        ],
        Shape::Contents => &[
            "model",
            "contents",
            "tools",
            "toolConfig",
            "tool_config",
            "systemInstruction",
            "system_instruction",
            "generationConfig",
            "generation_config",
            "safetySettings",
            "safety_settings",
            "labels",
        ],
        Shape::Ollama => &[
            "model", "name", "messages", "prompt", "suffix", "images", "tools", "format", "options", "stream",
            "system", "template", "raw", "think", "verbose",
        ],
    }
}

/// A body on its way.
struct Checked {
    shape: Shape,
    removed: Vec<String>,
    attached: u64,
}

impl Checked {
    fn removed(&mut self, name: &str) {
        if self.removed.len() < TOLD_NAMES {
            self.removed.push(name.chars().take(TOLD_CHARS).collect());
        }
    }

    /// What refers to things that the provider keeps: they may be another job's, and their tokens are not seen.
    fn refuse_state(&self, fields: &Map<String, Value>) -> Result<(), String> {
        let names: &[&str] = match self.shape {
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

    /// Takes out what is not known: it may do anything, such as call another model.
    fn keep_known(&mut self, fields: &mut Map<String, Value>) {
        let others: Vec<String> =
            fields.keys().filter(|name| !known(self.shape).contains(&name.as_str())).cloned().collect();
        for name in others {
            fields.shift_remove(&name);
            self.removed(&name);
        }
    }

    /// Takes tools away that the provider would run.
    fn tools(&mut self, fields: &mut Map<String, Value>) -> Result<(), String> {
        let Some(tools) = fields.get_mut("tools").filter(|tools| !tools.is_null()) else { return Ok(()) };
        let tools = list(tools, "tools")?;
        let (had, before) = (!tools.is_empty(), self.removed.len());
        self.keep_tools(tools)?;
        if had && tools.is_empty() {
            let names = self.removed[before..].join(", ");
            return Err(format!(
                "the tools {names} are run by the provider and reach beyond the sandbox; the operator can allow them with \
                 hosted-tools = true for this provider"
            ));
        }
        Ok(())
    }

    fn keep_tools(&mut self, tools: &mut Vec<Value>) -> Result<(), String> {
        let mut kept = Vec::with_capacity(tools.len());
        for mut tool in std::mem::take(tools) {
            let Some(fields) = tool.as_object_mut() else { return Err("a tool must be an object".to_owned()) };
            if self.shape == Shape::Contents {
                let is_run_here =
                    |name: &String| matches!(name.as_str(), "functionDeclarations" | "function_declarations");
                let others: Vec<String> = fields.keys().filter(|name| !is_run_here(name)).cloned().collect();
                for name in others {
                    fields.shift_remove(&name);
                    self.removed(&name);
                }
                if fields.is_empty() {
                    continue;
                }
            } else {
                let kind = match fields.get("type") {
                    None | Some(Value::Null) => None,
                    Some(kind) => Some(kind.as_str().ok_or("the type of a tool must be a string")?.to_owned()),
                };
                if let Some(kind) = kind.filter(|kind| !is_run_here(self.shape, kind)) {
                    self.removed(&kind);
                    continue;
                }
                lower_cache(fields);
                // A group of tools.
                if self.shape == Shape::Responses
                    && let Some(inner) = fields.get_mut("tools")
                {
                    self.keep_tools(list(inner, "tools")?)?;
                }
            }
            kept.push(tool);
        }
        *tools = kept;
        Ok(())
    }

    /// Looks at each part of a conversation's contents: texts, images, files, results of tools. What stands in arguments
    /// of tools is text for the model, whatever it looks like.
    fn contents(&mut self, fields: &mut Map<String, Value>) -> Result<(), String> {
        lower_cache(fields);
        match self.shape {
            Shape::Messages => {
                if let Some(system) = fields.get_mut("system") {
                    self.parts(system, "system")?;
                }
                for message in members(fields, "messages")? {
                    if let Some(content) = message.get_mut("content") {
                        self.parts(content, "content")?;
                    }
                }
            }
            Shape::Chat => {
                for message in members(fields, "messages")? {
                    if let Some(content) = message.get_mut("content") {
                        self.parts(content, "content")?;
                    }
                }
            }
            Shape::Responses => {
                if fields.get("input").is_some_and(Value::is_string) {
                    return Ok(());
                }
                for item in members(fields, "input")? {
                    self.item(item)?;
                }
            }
            Shape::Contents => {
                for name in ["systemInstruction", "system_instruction"] {
                    if let Some(content) = fields.get_mut(name) {
                        self.content(content)?;
                    }
                }
                if let Some(contents) = fields.get_mut("contents") {
                    for content in list(contents, "contents")? {
                        self.content(content)?;
                    }
                }
            }
            // Its images are in the body.
            Shape::Ollama => {}
        }
        Ok(())
    }

    /// A text, or a list of parts.
    fn parts(&mut self, parts: &mut Value, name: &str) -> Result<(), String> {
        match parts {
            Value::Null | Value::String(_) => Ok(()),
            Value::Array(parts) => parts.iter_mut().try_for_each(|part| self.part(part)),
            _ => Err(format!("{name} must be a text or a list")),
        }
    }

    fn part(&mut self, part: &mut Value) -> Result<(), String> {
        // Short forms of a text.
        if part.is_string() {
            return Ok(());
        }
        let Some(fields) = part.as_object_mut() else { return Err("a part of a content must be an object".to_owned()) };
        lower_cache(fields);
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match self.shape {
            Shape::Messages => {
                self.attached += match kind.as_str() {
                    "image" => IMAGE_TOKENS,
                    "document" => FILE_TOKENS,
                    "container_upload" => return Err(remote()),
                    _ => 0,
                };
                // Results of tools have parts of their own, and so have documents.
                if let Some(content) = fields.get_mut("content").filter(|content| content.is_array()) {
                    self.parts(content, "content")?;
                }
                if let Some(source) = fields.get_mut("source").filter(|source| source.is_object()) {
                    let kind = source.get("type").and_then(Value::as_str);
                    if !matches!(kind, Some("base64" | "text" | "content")) {
                        return Err(remote());
                    }
                    if let Some(content) = source.get_mut("content") {
                        self.parts(content, "content")?;
                    }
                }
                Ok(())
            }
            Shape::Chat => match kind.as_str() {
                "" | "text" | "refusal" | "thinking" | "input_audio" | "reasoning" => Ok(()),
                "image_url" => {
                    self.attached += IMAGE_TOKENS;
                    is_data(fields.get("image_url").map(|image| image.get("url").unwrap_or(image)))
                }
                "file" => {
                    self.attached += FILE_TOKENS;
                    let file = fields.get("file").and_then(Value::as_object).ok_or_else(remote)?;
                    if file.get("file_id").is_some_and(|id| !id.is_null()) {
                        return Err(remote());
                    }
                    is_data(file.get("file_data"))
                }
                _ => Err(format!(
                    "a part of the type {} is not let through",
                    kind.chars().take(TOLD_CHARS).collect::<String>()
                )),
            },
            Shape::Responses => self.responses_part(fields),
            Shape::Contents | Shape::Ollama => Ok(()),
        }
    }

    /// An item of what a model is told in the responses interface.
    fn item(&mut self, item: &mut Value) -> Result<(), String> {
        let Some(fields) = item.as_object_mut() else { return Err("an item of input must be an object".to_owned()) };
        match fields.get("type") {
            // A reference may leave its type out.
            None | Some(Value::Null) if !fields.contains_key("role") => return Err(remote()),
            Some(Value::String(kind)) if kind == "item_reference" => return Err(remote()),
            _ => {}
        }
        self.responses_part(fields)?;
        if let Some(tools) = fields.get_mut("tools") {
            self.keep_tools(list(tools, "tools")?)?;
        }
        for name in ["content", "output"] {
            match fields.get_mut(name) {
                Some(Value::Array(parts)) => parts.iter_mut().try_for_each(|part| self.part(part))?,
                // What a screen looks like, for tools that use one.
                Some(Value::Object(part)) => self.responses_part(part)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn responses_part(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        let is_there = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        if ["file_url", "file_id", "container_id"].into_iter().any(is_there) {
            return Err(remote());
        }
        if is_there("image_url") {
            self.attached += IMAGE_TOKENS;
            is_data(fields.get("image_url"))?;
        }
        if is_there("file_data") {
            self.attached += FILE_TOKENS;
        }
        Ok(())
    }

    /// A content of Gemini.
    fn content(&mut self, content: &mut Value) -> Result<(), String> {
        if content.is_null() || content.is_string() {
            return Ok(());
        }
        let Some(content) = content.as_object_mut() else { return Err("a content must be an object".to_owned()) };
        let Some(parts) = content.get_mut("parts") else { return Ok(()) };
        for part in list(parts, "parts")? {
            let Some(fields) = part.as_object_mut() else {
                return Err("a part of a content must be an object".to_owned());
            };
            for (name, value) in fields {
                match name.as_str() {
                    "fileData" | "file_data" => return Err(remote()),
                    "inlineData" | "inline_data" => {
                        let kind = value.get("mimeType").or_else(|| value.get("mime_type")).and_then(Value::as_str);
                        let is_image = kind.is_some_and(|kind| kind.starts_with("image/"));
                        self.attached += if is_image { IMAGE_TOKENS } else { FILE_TOKENS };
                    }
                    // Results of tools have parts of their own.
                    "functionResponse" | "function_response" => self.content(value)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Whether whoever calls runs a tool of that type, and not the provider.
fn is_run_here(shape: Shape, kind: &str) -> bool {
    match shape {
        Shape::Messages => {
            let versions = ["bash_", "text_editor_", "computer_", "memory_"];
            kind == "custom" || versions.iter().any(|start| kind.starts_with(start))
        }
        Shape::Responses => {
            matches!(kind, "function" | "custom" | "local_shell" | "apply_patch" | "namespace" | "tool_search")
        }
        Shape::Chat | Shape::Ollama | Shape::Contents => matches!(kind, "function" | "custom"),
    }
}

/// A cache that lasts an hour costs more to fill than one that lasts five minutes, which is the price that is known.
fn lower_cache(fields: &mut Map<String, Value>) {
    if let Some(cache) = fields.get_mut("cache_control").and_then(Value::as_object_mut) {
        cache.shift_remove("ttl");
    }
}

fn list<'a>(value: &'a mut Value, name: &str) -> Result<&'a mut Vec<Value>, String> {
    value.as_array_mut().ok_or_else(|| format!("{name} must be a list"))
}

fn members<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Result<&'a mut [Value], String> {
    match fields.get_mut(name) {
        Some(Value::Array(members)) => Ok(members),
        None | Some(Value::Null) => Ok(&mut []),
        Some(_) => Err(format!("{name} must be a list")),
    }
}

/// Whether an address holds what it stands for.
fn is_data(address: Option<&Value>) -> Result<(), String> {
    match address.and_then(Value::as_str) {
        Some(address) if address.starts_with("data:") => Ok(()),
        _ => Err(remote()),
    }
}

fn remote() -> String {
    "an image, file or item that the provider would fetch is not let through: send it in the body itself".to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::path::Purpose;
    use super::*;

    const RULES: Rules = Rules { hosted_tools: false, max_output: None, is_openai: false };

    fn path(shape: Shape) -> Path {
        let model = (shape == Shape::Contents).then(|| "m".to_owned());
        Path { purpose: Purpose::Generate, shape, rest: String::new(), model }
    }

    fn sent(shape: Shape, mut body: Value) -> Result<(Value, Prepared), String> {
        if shape != Shape::Contents {
            body["model"] = json!("m");
        }
        let prepared = prepare(&path(shape), body.to_string().as_bytes(), RULES)?;
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
            let all = prepared.most_output.map(|most| most * prepared.answers);
            assert_eq!((value, all, prepared.removed.len()), (expected, most, 0), "{shape:?}");
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
            // Where a list is expected some servers take one thing.
            (Shape::Contents, json!({"contents": [{"parts": {"fileData": {"fileUri": "https://evil"}}}]}), "list"),
            (Shape::Contents, json!({"contents": {"parts": [{"text": "x"}]}}), "list"),
            (Shape::Contents, json!({"tools": {"urlContext": {}}}), "list"),
            (
                Shape::Chat,
                json!({"messages": [{"content": {"type": "image_url", "image_url": "https://evil"}}]}),
                "list",
            ),
            (Shape::Messages, json!({"messages": {"content": []}}), "list"),
            (Shape::Responses, json!({"input": {"type": "item_reference"}}), "list"),
            // Other spellings and places.
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
            (Shape::Chat, json!({"MODEL": "dear"}), "twice"),
            (Shape::Chat, json!({"max_tokens": "many"}), "whole number"),
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
    fn what_is_not_known_is_taken_out_and_told_in_few_words() {
        let tool = json!({"type": "function", "name": "f"});
        let inner = json!([{"type": "mcp", "server_url": "https://evil"}, tool]);
        let item = json!({"type": "tool_search_output", "tools": inner});
        let group = json!({"type": "namespace", "tools": inner});
        let (value, prepared) = sent(Shape::Responses, json!({"input": [item], "tools": [group]})).unwrap();
        assert!(!value.to_string().contains("evil") && value.to_string().matches("\"f\"").count() == 2, "{value}");
        assert_eq!(prepared.removed, ["mcp", "mcp"]);
        let body =
            json!({"models": ["dear"], "plugins": [{"id": "web"}], "SERVICE_TIER": "priority", "serviceTier": "x"});
        let (value, prepared) = sent(Shape::Chat, body).unwrap();
        assert_eq!((value, prepared.removed.len()), (json!({"model": "m"}), 4));
        let cached =
            json!({"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]});
        let (value, _) = sent(Shape::Messages, cached).unwrap();
        assert_eq!(value["system"][0]["cache_control"], json!({"type": "ephemeral"}));
        let many: Map<String, Value> = (0..100).map(|n| (format!("{n}{}", "x".repeat(5000)), json!(1))).collect();
        let (_, prepared) = sent(Shape::Chat, Value::Object(many)).unwrap();
        assert!(prepared.removed.len() == TOLD_NAMES && prepared.removed.iter().all(|name| name.len() == TOLD_CHARS));
    }

    #[test]
    fn of_several_limits_the_largest_counts() {
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
        let rules = Rules { max_output: Some(7), ..RULES };
        for (shape, is_openai, place) in [
            (Shape::Chat, false, "/max_tokens"),
            (Shape::Chat, true, "/max_completion_tokens"),
            (Shape::Responses, true, "/max_output_tokens"),
            (Shape::Contents, false, "/generationConfig/maxOutputTokens"),
            (Shape::Ollama, false, "/options/num_predict"),
        ] {
            let prepared = prepare(&path(shape), br#"{"model":"m"}"#, Rules { is_openai, ..rules }).unwrap();
            let value: Value = serde_json::from_slice(&prepared.body).unwrap();
            assert_eq!((value.pointer(place), prepared.most_output), (Some(&json!(7)), Some(7)), "{value}");
        }
    }

    #[test]
    fn an_image_is_more_than_its_bytes_and_many_values_are_no_conversation() {
        let source = json!({"type": "base64", "data": "x"});
        let parts = json!([{"type": "image", "source": source}, {"type": "document", "source": source}]);
        let (_, prepared) = sent(Shape::Messages, json!({"messages": [{"content": parts}]})).unwrap();
        assert_eq!(prepared.attached, IMAGE_TOKENS + FILE_TOKENS);
        let many = format!("{{\"model\":\"m\",\"messages\":[{}0]}}", "0,".repeat(2 * MOST_VALUES));
        assert!(prepare(&path(Shape::Chat), many.as_bytes(), RULES).unwrap_err().contains("values"));
    }

    #[test]
    fn an_operator_may_allow_them() {
        let body = json!({"model": "m", "tools": [{"type": "web_search"}], "previous_response_id": "r"});
        let prepared =
            prepare(&path(Shape::Responses), body.to_string().as_bytes(), Rules { hosted_tools: true, ..RULES })
                .unwrap();
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
        let prepared = prepare(&path(Shape::Messages), body, RULES).unwrap();
        let value: Value = serde_json::from_slice(&prepared.body).unwrap();
        assert_eq!(value["model"], prepared.model.as_str());
        assert_eq!(String::from_utf8_lossy(&prepared.body).matches("model").count(), 1);
        for bad in ["", "[]", "{}", "{\"model\": 1}", "{\"model\": \"\"}", "not json"] {
            assert!(prepare(&path(Shape::Messages), bad.as_bytes(), RULES).is_err(), "{bad}");
        }
    }
}
