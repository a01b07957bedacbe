//! Checks the fields, tools and contents of a body.

use serde_json::{Map, Value};

use super::super::fields::{Field, FieldGroup, field};
use super::super::path::Shape;
use super::rules::Rules;

/// The maximum number of characters of a name that is reported, and of reported names.
pub(super) const NAME_CHARS: usize = 64;
pub(super) const MAX_NAMES: usize = 10;

/// The tokens that are set aside for an image, and for any other file, regardless of its size.
pub(super) const IMAGE_TOKENS: u64 = 5_000;
pub(super) const FILE_TOKENS: u64 = 100_000;

/// The state of checking a body.
pub(super) struct Checked<'a> {
    pub(super) shape: Shape,
    pub(super) removed: Vec<String>,
    pub(super) attached: u64,
    /// The operator's rules.
    pub(super) rules: &'a Rules,
}

impl Checked<'_> {
    /// Refuses a part that the provider would fetch.
    fn refuse_remote(&self) -> Result<(), String> {
        self.refuse("an image, file or item that the provider would fetch is not allowed; send its content in the body")
    }

    fn refuse(&self, why: &str) -> Result<(), String> {
        if self.rules.hosted_tools { Ok(()) } else { Err(why.to_owned()) }
    }

    /// Refuses an address that does not contain the data itself.
    fn require_data(&self, address: Option<&Value>) -> Result<(), String> {
        match address.and_then(Value::as_str) {
            Some(address) if address.starts_with("data:") => Ok(()),
            _ => self.refuse_remote(),
        }
    }

    pub(super) fn report(&mut self, name: &str) {
        if self.removed.len() < MAX_NAMES {
            self.removed.push(name.chars().take(NAME_CHARS).collect());
        }
    }

    /// Refuses fields by which the provider uses state that it keeps, or other servers. The state may belong to another
    /// job, and its tokens cannot be counted.
    pub(super) fn refuse_state(&self, fields: &Map<String, Value>) -> Result<(), String> {
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
                self.refuse(&format!("{name} is not allowed: it reaches beyond the sandbox through the provider"))
            }
            None => Ok(()),
        }
    }

    /// Removes the fields of groups that are not allowed, and unknown fields, which may do anything, such as call another
    /// model.
    pub(super) fn keep_allowed(&mut self, fields: &mut Map<String, Value>) {
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            match field(self.shape, &name) {
                Field::Known => continue,
                Field::Grouped(group) if self.rules.groups.contains(&group) => continue,
                // Other spellings of a field that changes the price are unknown.
                Field::Unknown if self.rules.hosted_tools && !is_priced(&name) => continue,
                Field::Unknown if self.rules.fields.contains(&name) => continue,
                Field::Grouped(group) => self.report(&format!("{name} ({})", group.name())),
                Field::Unknown => self.report(&name),
            }
            fields.shift_remove(&name);
        }
        if self.rules.hosted_tools {
            return;
        }
        // These values are inputs of a template, which is a program on a self-hosted server. Only plain values stay.
        if let Some(template) = fields.get_mut("chat_template_kwargs").and_then(Value::as_object_mut) {
            template.retain(|_, value| value.is_boolean());
        }
    }

    /// Removes the lifetimes of caches, unless long ones are allowed.
    fn limit_cache(&self, fields: &mut Map<String, Value>) {
        if self.rules.groups.contains(&FieldGroup::LongCaches) {
            return;
        }
        for name in ["cache_control", "prompt_cache_options"] {
            if let Some(cache) = fields.get_mut(name).and_then(Value::as_object_mut) {
                cache.shift_remove("ttl");
            }
        }
    }

    /// Removes tools that the provider would run.
    pub(super) fn tools(&mut self, fields: &mut Map<String, Value>) -> Result<(), String> {
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
                let stays = self.rules.hosted_tools;
                for name in others.into_iter().filter(|_| !stays) {
                    fields.shift_remove(&name);
                    self.report(&name);
                }
                if fields.is_empty() {
                    continue;
                }
            } else {
                let kind = match fields.get("type") {
                    None | Some(Value::Null) => None,
                    Some(kind) => Some(kind.as_str().ok_or("the type of a tool must be a string")?.to_owned()),
                };
                if let Some(kind) = kind.filter(|kind| !self.rules.hosted_tools && !is_run_here(self.shape, kind)) {
                    self.report(&kind);
                    continue;
                }
                self.limit_cache(fields);
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

    /// Checks each part of a conversation's contents: texts, images, files, results of tools. The arguments of tools
    /// are text for the model, whatever they look like.
    pub(super) fn contents(&mut self, fields: &mut Map<String, Value>) -> Result<(), String> {
        self.limit_cache(fields);
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
            // Ollama's images are in the body.
            Shape::Ollama => {}
        }
        Ok(())
    }

    /// Checks a text, or a list of parts.
    fn parts(&mut self, parts: &mut Value, name: &str) -> Result<(), String> {
        match parts {
            Value::Null | Value::String(_) => Ok(()),
            Value::Array(parts) => parts.iter_mut().try_for_each(|part| self.part(part)),
            _ => Err(format!("{name} must be a text or a list")),
        }
    }

    fn part(&mut self, part: &mut Value) -> Result<(), String> {
        // A string is a short form of a text.
        if part.is_string() {
            return Ok(());
        }
        let Some(fields) = part.as_object_mut() else { return Err("a part of a content must be an object".to_owned()) };
        self.limit_cache(fields);
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match self.shape {
            Shape::Messages => {
                self.attached += match kind.as_str() {
                    "image" => IMAGE_TOKENS,
                    "document" => FILE_TOKENS,
                    "container_upload" => {
                        self.refuse_remote()?;
                        FILE_TOKENS
                    }
                    _ => 0,
                };
                // Results of tools and documents contain parts too.
                if let Some(content) = fields.get_mut("content").filter(|content| content.is_array()) {
                    self.parts(content, "content")?;
                }
                if let Some(source) = fields.get_mut("source").filter(|source| source.is_object()) {
                    let kind = source.get("type").and_then(Value::as_str);
                    if !matches!(kind, Some("base64" | "text" | "content")) {
                        self.refuse_remote()?;
                    }
                    if let Some(content) = source.get_mut("content") {
                        self.parts(content, "content")?;
                    }
                }
                Ok(())
            }
            Shape::Chat => match kind.as_str() {
                "text" | "refusal" | "thinking" | "input_audio" | "reasoning" => Ok(()),
                "image_url" => {
                    self.attached += IMAGE_TOKENS;
                    self.require_data(fields.get("image_url").map(|image| image.get("url").unwrap_or(image)))
                }
                "file" => {
                    self.attached += FILE_TOKENS;
                    let Some(file) = fields.get("file").and_then(Value::as_object) else { return self.refuse_remote() };
                    if file.get("file_id").is_some_and(|id| !id.is_null()) {
                        return self.refuse_remote();
                    }
                    self.require_data(file.get("file_data"))
                }
                // Some servers accept parts without a type, in which the field determines the type.
                "" if fields.keys().all(|name| matches!(name.as_str(), "text" | "type" | "cache_control")) => Ok(()),
                _ => {
                    let kind: String = kind.chars().take(NAME_CHARS).collect();
                    self.refuse(&format!("a part of the type {kind:?} is not allowed"))
                }
            },
            Shape::Responses => self.responses_part(fields),
            Shape::Contents | Shape::Ollama => Ok(()),
        }
    }

    /// Checks an item of the input of the Responses API.
    fn item(&mut self, item: &mut Value) -> Result<(), String> {
        let Some(fields) = item.as_object_mut() else { return Err("an item of input must be an object".to_owned()) };
        match fields.get("type") {
            // A reference may have no type.
            None | Some(Value::Null) if !fields.contains_key("role") => self.refuse_remote()?,
            Some(Value::String(kind)) if kind == "item_reference" => self.refuse_remote()?,
            _ => {}
        }
        self.responses_part(fields)?;
        if let Some(tools) = fields.get_mut("tools") {
            self.keep_tools(list(tools, "tools")?)?;
        }
        for name in ["content", "output"] {
            match fields.get_mut(name) {
                Some(Value::Array(parts)) => parts.iter_mut().try_for_each(|part| self.part(part))?,
                // A screenshot, for tools that use a screen.
                Some(Value::Object(part)) => self.responses_part(part)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn responses_part(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        let is_there = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        if ["file_url", "file_id", "container_id"].into_iter().any(is_there) {
            self.refuse_remote()?;
        }
        if is_there("image_url") {
            self.attached += IMAGE_TOKENS;
            self.require_data(fields.get("image_url"))?;
        }
        if is_there("file_data") {
            self.attached += FILE_TOKENS;
        }
        Ok(())
    }

    /// Checks a content of Gemini's.
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
                    "fileData" | "file_data" => {
                        self.refuse_remote()?;
                        self.attached += FILE_TOKENS;
                    }
                    "inlineData" | "inline_data" => {
                        let kind = value.get("mimeType").or_else(|| value.get("mime_type")).and_then(Value::as_str);
                        let is_image = kind.is_some_and(|kind| kind.starts_with("image/"));
                        self.attached += if is_image { IMAGE_TOKENS } else { FILE_TOKENS };
                    }
                    // Results of tools contain parts too.
                    "functionResponse" | "function_response" => self.content(value)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the caller runs a tool of this type, and not the provider.
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

/// Returns whether a field makes the same tokens cost more, whatever its spelling.
fn is_priced(name: &str) -> bool {
    let plain = name.to_ascii_lowercase().replace('_', "");
    matches!(plain.as_str(), "servicetier" | "speed" | "inferencegeo")
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
