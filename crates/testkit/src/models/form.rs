//! The response formats of the providers.

use serde_json::{Value, json};

use super::{Asked, TOKENS};

/// The format of an answer.
pub(super) struct Form {
    dialect: Dialect,
    pub(super) streams: bool,
    model: Value,
    /// The number of the request, which makes the IDs in the answer unique.
    number: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Messages,
    Chat,
    Responses,
    Contents,
    Ollama,
}

/// Returns the format that a request expects; `None` if it is not a model call.
pub(super) fn of(asked: &Asked) -> Option<Form> {
    let path = asked.path.split('?').next().unwrap_or_default();
    let asks_stream = asked.body["stream"] == true;
    let (dialect, streams) = match path {
        _ if path.ends_with("/messages") => (Dialect::Messages, asks_stream),
        _ if path.ends_with("/chat/completions") => (Dialect::Chat, asks_stream),
        _ if path.ends_with("/responses") => (Dialect::Responses, asks_stream),
        _ if path.ends_with(":streamGenerateContent") => (Dialect::Contents, true),
        _ if path.ends_with(":generateContent") => (Dialect::Contents, false),
        "/api/chat" => (Dialect::Ollama, asked.body["stream"] != false),
        _ => return None,
    };
    Some(Form { dialect, streams, model: asked.body["model"].clone(), number: asked.number })
}

impl Form {
    pub(super) fn content_type(&self) -> &'static str {
        match (self.streams, self.dialect) {
            (false, _) => "application/json",
            (true, Dialect::Ollama) => "application/x-ndjson",
            (true, _) => "text/event-stream",
        }
    }

    /// Returns an answer with a text and the end of the turn, in pieces.
    pub(super) fn text(&self, text: &str) -> Vec<String> {
        let model = &self.model;
        let usage = self.usage();
        match (self.dialect, self.streams) {
            (Dialect::Messages, false) => vec![
                json!({"id": self.id("msg"), "type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn",
                    "content": [{"type": "text", "text": text}], "usage": usage})
                .to_string(),
            ],
            (Dialect::Messages, true) => self.messages(
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": text}),
                "end_turn",
            ),
            (Dialect::Chat, false) => vec![self.chat_whole(json!({"role": "assistant", "content": text}), "stop")],
            (Dialect::Chat, true) => self.chat(json!({"role": "assistant", "content": text}), "stop"),
            (Dialect::Responses, _) => self.responses(json!({"type": "message", "id": self.id("item"), "status": "completed",
                "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]})),
            (Dialect::Contents, _) => self.contents(json!({"text": text})),
            (Dialect::Ollama, _) => self.ollama(json!({"role": "assistant", "content": text})),
        }
    }

    /// Returns an answer with a tool call, in pieces.
    pub(super) fn tool(&self, name: &str, arguments: &Value) -> Vec<String> {
        let id = self.id("call");
        let model = &self.model;
        match (self.dialect, self.streams) {
            (Dialect::Messages, false) => vec![
                json!({"id": self.id("msg"), "type": "message", "role": "assistant", "model": model, "stop_reason": "tool_use",
                    "content": [{"type": "tool_use", "id": id, "name": name, "input": arguments}], "usage": self.usage()})
                .to_string(),
            ],
            (Dialect::Messages, true) => self.messages(
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
                "tool_use",
            ),
            (Dialect::Chat, streams) => {
                let function = json!({"name": name, "arguments": arguments.to_string()});
                let call = json!({"index": 0, "id": id, "type": "function", "function": function});
                let delta = json!({"role": "assistant", "content": null, "tool_calls": [call]});
                if streams { self.chat(delta, "tool_calls") } else { vec![self.chat_whole(delta, "tool_calls")] }
            }
            (Dialect::Responses, _) => self.responses(json!({"type": "function_call", "id": self.id("item"),
                "status": "completed", "call_id": id, "name": name, "arguments": arguments.to_string()})),
            (Dialect::Contents, _) => self.contents(json!({"functionCall": {"name": name, "args": arguments}})),
            (Dialect::Ollama, _) => {
                let call = json!({"function": {"name": name, "arguments": arguments}});
                self.ollama(json!({"role": "assistant", "content": "", "tool_calls": [call]}))
            }
        }
    }

    /// Returns an error as it appears in a stream.
    pub(super) fn error(&self, text: &str) -> String {
        match self.dialect {
            Dialect::Messages => {
                event(json!({"type": "error", "error": {"type": "overloaded_error", "message": text}}))
            }
            Dialect::Responses => event(json!({"type": "response.failed", "response": {"status": "failed",
                "error": {"code": "server_error", "message": text}}})),
            Dialect::Ollama => format!("{}\n", json!({"error": text})),
            Dialect::Chat | Dialect::Contents => event(json!({"error": {"code": 503, "message": text}})),
        }
    }

    fn id(&self, kind: &str) -> String {
        format!("{kind}_{}", self.number)
    }

    fn usage(&self) -> Value {
        let (input, cached, output) = TOKENS;
        match self.dialect {
            Dialect::Messages => json!({"input_tokens": input - cached, "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": 0, "output_tokens": output}),
            Dialect::Chat => {
                json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
                "prompt_tokens_details": {"cached_tokens": cached}})
            }
            Dialect::Responses => {
                json!({"input_tokens": input, "output_tokens": output, "total_tokens": input + output,
                "input_tokens_details": {"cached_tokens": cached}, "output_tokens_details": {"reasoning_tokens": 0}})
            }
            Dialect::Contents => json!({"promptTokenCount": input, "candidatesTokenCount": output,
                "cachedContentTokenCount": cached, "totalTokenCount": input + output}),
            Dialect::Ollama => json!({"prompt_eval_count": input, "eval_count": output}),
        }
    }

    fn messages(&self, block: Value, delta: Value, reason: &str) -> Vec<String> {
        let mut usage = self.usage();
        usage["output_tokens"] = json!(1);
        let message = json!({"id": self.id("msg"), "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage});
        [
            json!({"type": "message_start", "message": message}),
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": TOKENS.2}}),
            json!({"type": "message_stop"}),
        ]
        .map(event)
        .into()
    }

    fn chat_whole(&self, message: Value, reason: &str) -> String {
        json!({"id": self.id("chat"), "object": "chat.completion", "created": 1, "model": self.model, "usage": self.usage(),
            "choices": [{"index": 0, "message": message, "finish_reason": reason}]})
        .to_string()
    }

    fn chat(&self, delta: Value, reason: &str) -> Vec<String> {
        let chunk = |choices: Value, usage: Value| {
            event(json!({"id": self.id("chat"), "object": "chat.completion.chunk", "created": 1, "model": self.model,
                "choices": choices, "usage": usage}))
        };
        let choice = |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        vec![
            chunk(choice(json!({"role": "assistant", "content": ""}), Value::Null), Value::Null),
            chunk(choice(delta, Value::Null), Value::Null),
            chunk(choice(json!({}), json!(reason)), Value::Null),
            chunk(json!([]), self.usage()),
            "data: [DONE]\n\n".to_owned(),
        ]
    }

    fn responses(&self, item: Value) -> Vec<String> {
        let response = |status: &str, output: Value, usage: Value| {
            json!({"id": self.id("resp"), "object": "response", "created_at": 1, "status": status, "model": self.model,
                "output": output, "error": null, "usage": usage})
        };
        let done = response("completed", json!([item]), self.usage());
        if !self.streams {
            return vec![done.to_string()];
        }
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        let mut events =
            vec![json!({"type": "response.created", "response": response("in_progress", json!([]), Value::Null)})];
        if item["type"] == "message" {
            begun["content"] = json!([]);
            let text = item["content"][0]["text"].clone();
            events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": begun}));
            events.push(json!({"type": "response.content_part.added", "item_id": item["id"], "output_index": 0,
                "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}));
            events.push(json!({"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0,
                "content_index": 0, "delta": text}));
            events.push(json!({"type": "response.output_text.done", "item_id": item["id"], "output_index": 0,
                "content_index": 0, "text": text}));
        } else {
            begun["arguments"] = json!("");
            events.push(json!({"type": "response.output_item.added", "output_index": 0, "item": begun}));
            events.push(json!({"type": "response.function_call_arguments.delta", "item_id": item["id"],
                "output_index": 0, "delta": item["arguments"]}));
            events.push(json!({"type": "response.function_call_arguments.done", "item_id": item["id"],
                "output_index": 0, "arguments": item["arguments"]}));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        events.push(json!({"type": "response.completed", "response": done}));
        let numbered = events.into_iter().enumerate().map(|(number, mut one)| {
            one["sequence_number"] = json!(number);
            event(one)
        });
        numbered.collect()
    }

    fn contents(&self, part: Value) -> Vec<String> {
        let one = |part: Value, reason: Option<&str>, usage: Value| {
            let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
            if let Some(reason) = reason {
                candidate["finishReason"] = json!(reason);
            }
            json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": self.id("r")})
        };
        if !self.streams {
            return vec![one(part, Some("STOP"), self.usage()).to_string()];
        }
        let begun = json!({"promptTokenCount": TOKENS.0});
        vec![event(one(part, None, begun)), event(one(json!({"text": ""}), Some("STOP"), self.usage()))]
    }

    fn ollama(&self, message: Value) -> Vec<String> {
        let empty = json!({"role": "assistant", "content": ""});
        let mut done = json!({"model": self.model, "created_at": "2026-01-01T00:00:00Z", "message": empty,
            "done": true, "done_reason": "stop"});
        for (name, value) in self.usage().as_object().unwrap() {
            done[name] = value.clone();
        }
        if !self.streams {
            done["message"] = message;
            return vec![done.to_string()];
        }
        let begun =
            json!({"model": self.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false});
        vec![format!("{begun}\n"), format!("{done}\n")]
    }
}

/// Returns a server-sent event. Its name is its type, as with Anthropic and OpenAI.
fn event(data: Value) -> String {
    match data["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}
