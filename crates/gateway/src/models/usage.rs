//! Reads a provider's answer while it passes through, for its token counts and for whether it is complete.

use std::collections::BTreeMap;

use journeyman_core::json::replace_lone_surrogates;
use journeyman_core::model::price::Tokens;
use serde_json::Value;

use super::estimate::Arrived;
use super::fields::Tier;
use super::path::Shape;

#[cfg(test)]
mod recorded;

/// The maximum size in bytes of a line of a stream, or of an answer in one piece, that is read for its usage.
const MAX_BYTES: usize = 32 << 20;

/// The maximum number of alternatives of one answer of which the ends are awaited.
const MAX_CHOICES: usize = 1024;

/// The state of reading an answer.
#[derive(Debug)]
pub(crate) struct Reader {
    shape: Shape,
    /// `true` if the answer is a stream of lines.
    streams: bool,
    held: Vec<u8>,
    /// The input tokens outside of caches, if the provider counts them separately.
    plain: u64,
    /// The alternatives that have begun, by index; `true` if the model has finished one.
    choices: BTreeMap<u64, bool>,
    /// `true` if the provider has said that the whole answer has ended.
    is_done: bool,
    /// `true` if the current line is too long to be read.
    overflows: bool,
    pub(crate) reported: Reported,
}

/// The contents of an answer that the proxy needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    /// The tokens, if the provider reported them.
    pub(crate) tokens: Option<Tokens>,
    /// The tokens of each call of a model that is paid for, if the provider reported them separately. The models have no
    /// name if they are the one that was called. The tokens are included in `tokens`.
    pub(crate) parts: Vec<(String, Tokens)>,
    /// `true` if the provider does not charge for the answer.
    pub(crate) is_free: bool,
    /// The model that answered, as the provider calls it.
    pub(crate) model: Option<String>,
    /// The service tier that was used, as far as the provider reported it.
    pub(crate) tier: Tier,
    /// An estimate of the output tokens that have arrived.
    pub(crate) arrived: Arrived,
    /// `true` if the model has finished its answer.
    pub(crate) complete: bool,
    /// An error in an answer that began successfully.
    pub(crate) error: Option<String>,
}

impl Reader {
    /// Creates a reader for an answer of this content type.
    pub(crate) fn new(shape: Shape, content_type: &str) -> Self {
        let streams = ["text/event-stream", "application/x-ndjson"].iter().any(|kind| content_type.starts_with(kind));
        Self {
            shape,
            streams,
            held: Vec::new(),
            plain: 0,
            choices: BTreeMap::new(),
            is_done: false,
            overflows: false,
            reported: Reported::default(),
        }
    }

    /// Reads a piece of the answer.
    pub(crate) fn read(&mut self, mut piece: &[u8]) {
        if !self.streams {
            self.hold(piece);
            return;
        }
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.hold(&piece[..end]);
            piece = &piece[end + 1..];
            let line = std::mem::take(&mut self.held);
            if !std::mem::take(&mut self.overflows) {
                self.line(&line);
            }
        }
        self.hold(piece);
    }

    fn hold(&mut self, piece: &[u8]) {
        if self.held.len() + piece.len() > MAX_BYTES {
            self.overflows = true;
            self.held = Vec::new();
        }
        if !self.overflows {
            self.held.extend_from_slice(piece);
        }
    }

    /// Reads the end of the answer, and returns the result.
    pub(crate) fn end(mut self) -> Reported {
        let rest = std::mem::take(&mut self.held);
        if self.streams {
            self.line(&rest);
        } else if let Some(value) = parse(&rest) {
            // Gemini streams a list unless events are requested.
            match value {
                Value::Array(values) => values.iter().for_each(|value| self.value(value)),
                value => self.value(&value),
            }
        }
        let has_ended = !self.choices.is_empty() && self.choices.values().all(|ended| *ended);
        self.reported.complete = self.is_done || has_ended;
        self.reported
    }

    /// Reads a line of server-sent events, or of JSON lines.
    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let data = line.strip_prefix(b"data:").map_or(line, <[u8]>::trim_ascii);
        if data == b"[DONE]" {
            self.is_done = true;
        } else if data.starts_with(b"{")
            && let Some(value) = parse(data)
        {
            self.value(&value);
        }
    }

    fn value(&mut self, value: &Value) {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        self.reported.arrived.add(self.shape, value);
        self.properties(value);
        match self.shape {
            Shape::Messages => {
                let usage = value.pointer("/message/usage").or_else(|| value.get("usage"));
                self.tokens(usage, &Fields::MESSAGES);
                let stopped = value.pointer("/delta/stop_reason").or_else(|| value.get("stop_reason"));
                let is_refused = stopped.is_some_and(|reason| reason == "refusal");
                self.iterations(usage);
                // https://platform.claude.com/docs/en/release-notes/overview, 2026-06-02: a refusal before any output is
                // free.
                self.reported.is_free |= is_refused && self.reported.tokens.is_some_and(|tokens| tokens.output == 0);
                self.is_done |= matches!(kind, "message_stop" | "message");
            }
            Shape::Chat => {
                // Moonshot's streams have the usage in the last choice, and Groq's also in a field of their own.
                let usages = [value.get("usage"), value.pointer("/x_groq/usage"), value.pointer("/choices/0/usage")];
                let usage = usages.into_iter().flatten().find(|usage| usage.is_object());
                self.tokens(usage, &Fields::CHAT);
                self.alternatives(value.get("choices"), "finish_reason");
            }
            Shape::Responses => {
                let response = value.get("response").unwrap_or(value);
                self.tokens(response.get("usage"), &Fields::RESPONSES);
                let status = response.get("status").and_then(Value::as_str).unwrap_or_default();
                self.is_done |= matches!(status, "completed" | "incomplete")
                    || matches!(kind, "response.completed" | "response.incomplete");
            }
            Shape::Contents => {
                self.tokens(value.get("usageMetadata"), &Fields::CONTENTS);
                self.is_done |= value.pointer("/promptFeedback/blockReason").is_some();
                self.alternatives(value.get("candidates"), "finishReason");
            }
            Shape::Ollama => {
                self.tokens(Some(value), &Fields::OLLAMA);
                self.is_done |= value.get("done") == Some(&Value::Bool(true));
            }
        }
        let error = value.get("error").or_else(|| value.pointer("/response/error")).filter(|error| !error.is_null());
        if kind == "error" || error.is_some() {
            self.reported.error = Some(error.map_or_else(
                || value.to_string(),
                |error| {
                    let text = error.get("message").unwrap_or(error).as_str();
                    text.map_or_else(|| error.to_string(), str::to_owned)
                },
            ));
        }
    }

    /// Reads which alternatives of the answer have begun, and which have ended.
    fn alternatives(&mut self, all: Option<&Value>, reason: &str) {
        for (position, one) in (0..).zip(all.and_then(Value::as_array).into_iter().flatten()) {
            let index = one.get("index").and_then(Value::as_u64).unwrap_or(position);
            if self.choices.len() < MAX_CHOICES || self.choices.contains_key(&index) {
                let reason = one.get(reason).and_then(Value::as_str).unwrap_or_default();
                *self.choices.entry(index).or_default() |= !reason.is_empty();
            }
        }
    }

    /// Reads the model and the service tier of the answer. Later values replace earlier ones.
    fn properties(&mut self, value: &Value) {
        let text = |pointers: &[&str]| pointers.iter().find_map(|pointer| value.pointer(pointer)?.as_str());
        if let Some(model) = text(&["/model", "/message/model", "/response/model", "/modelVersion"]) {
            self.reported.model = Some(model.to_owned());
        }
        let service = text(&[
            "/service_tier",
            "/response/service_tier",
            "/message/usage/service_tier",
            "/usage/service_tier",
            "/usageMetadata/serviceTier",
            "/usageMetadata/trafficType",
        ]);
        let speed = text(&["/message/usage/speed", "/usage/speed"]);
        let region = text(&["/message/usage/inference_geo", "/usage/inference_geo"]);
        self.reported.tier = Tier::new(service, speed, region).or(&self.reported.tier);
    }

    /// Adds up the tokens of all iterations. If the model was called several times for one answer, the usage itself has
    /// only the last call's.
    fn iterations(&mut self, usage: Option<&Value>) {
        let Some(all) = usage.and_then(|usage| usage["iterations"].as_array()).filter(|all| !all.is_empty()) else {
            return;
        };
        let mut parts: Vec<(String, Tokens)> = Vec::new();
        let mut tokens = Tokens::default();
        for (position, one) in all.iter().enumerate() {
            let part = of_iteration(one);
            tokens = tokens.plus(&part);
            // A model that refused before any output is free; another one took over.
            let has_refused = all.get(position + 1).is_some_and(|next| next["type"] == "fallback_message");
            if !has_refused || part.output > 0 {
                // An iteration without a model is one of the model that was called.
                parts.push((one["model"].as_str().unwrap_or_default().to_owned(), part));
            }
        }
        self.reported.tokens = Some(tokens);
        self.reported.parts = parts;
    }

    /// Reads token counts. Later counts replace earlier ones, field by field.
    fn tokens(&mut self, usage: Option<&Value>, fields: &Fields) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let number = |pointer: &&str| usage.pointer(pointer).and_then(Value::as_u64);
        let sum = |pointers: &[&str]| {
            let found: Vec<u64> = pointers.iter().filter_map(number).collect();
            (!found.is_empty()).then(|| found.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)))
        };
        let (input, output) = (sum(fields.input), sum(fields.output));
        if input.is_none() && output.is_none() {
            return;
        }
        let known = self.reported.tokens.get_or_insert_default();
        let first = |pointers: &[&str]| pointers.iter().find_map(number);
        known.cached = first(fields.cached).unwrap_or(known.cached);
        let written = first(fields.cache_written).unwrap_or(known.cache_written);
        // The last event of a stream has only the sum of all lifetimes. If all writes were long before, all are.
        let was_long = known.cache_written > 0 && known.cache_written_long == known.cache_written;
        let long = if was_long { written } else { known.cache_written_long };
        known.cache_written_long = first(fields.cache_written_long).unwrap_or(long);
        known.cache_written = written;
        let of_cache = known.cached.saturating_add(known.cache_written);
        if fields.without_cache {
            self.plain = input.unwrap_or(self.plain);
            known.input = self.plain.saturating_add(of_cache);
        } else {
            known.input = input.unwrap_or(known.input).max(of_cache);
        }
        // Some servers count reasoning only in the sum.
        let rest = sum(fields.total).unwrap_or_default().saturating_sub(input.unwrap_or(known.input));
        known.output = output.map_or(known.output, |output| output.max(rest));
    }
}

/// Returns the tokens of one of the calls that a provider has made for an answer of Anthropic's interface.
fn of_iteration(one: &Value) -> Tokens {
    let number = |pointer: &str| one.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let (cached, cache_written) = (number("/cache_read_input_tokens"), number("/cache_creation_input_tokens"));
    Tokens {
        input: number("/input_tokens").saturating_add(cached).saturating_add(cache_written),
        cached,
        cache_written,
        cache_written_long: number("/cache_creation/ephemeral_1h_input_tokens"),
        output: number("/output_tokens"),
    }
}

/// Parses JSON of a provider, which may have cut an emoji in two.
fn parse(text: &[u8]) -> Option<Value> {
    serde_json::from_str(&replace_lone_surrogates(&String::from_utf8_lossy(text))).ok()
}

/// The JSON pointers of a provider's token counts. The counts of `input` and of `output` are added up; of the others,
/// the first that exists is used.
struct Fields {
    /// `true` if the count of input excludes cached tokens.
    without_cache: bool,
    input: &'static [&'static str],
    cached: &'static [&'static str],
    cache_written: &'static [&'static str],
    /// A part of `cache_written`.
    cache_written_long: &'static [&'static str],
    output: &'static [&'static str],
    /// The sum of input and output, for servers that leave reasoning out of `output`.
    total: &'static [&'static str],
}

impl Fields {
    const MESSAGES: Self = Self {
        without_cache: true,
        input: &["/input_tokens"],
        cached: &["/cache_read_input_tokens"],
        cache_written: &["/cache_creation_input_tokens"],
        cache_written_long: &["/cache_creation/ephemeral_1h_input_tokens"],
        output: &["/output_tokens"],
        total: &[],
    };
    const CHAT: Self = Self {
        without_cache: false,
        input: &["/prompt_tokens"],
        cached: &["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"],
        cache_written: &["/prompt_tokens_details/cache_write_tokens"],
        cache_written_long: &["/prompt_tokens_details/cache_write_tokens_details/ttl_12h_tokens"],
        output: &["/completion_tokens"],
        // xAI, and Google's server with OpenAI's interface.
        total: &["/total_tokens"],
    };
    const RESPONSES: Self = Self {
        without_cache: false,
        input: &["/input_tokens"],
        cached: &["/input_tokens_details/cached_tokens"],
        cache_written: &["/input_tokens_details/cache_write_tokens"],
        cache_written_long: &["/input_tokens_details/cache_write_tokens_details/ttl_12h_tokens"],
        output: &["/output_tokens"],
        total: &[],
    };
    const CONTENTS: Self = Self {
        without_cache: false,
        input: &["/promptTokenCount", "/toolUsePromptTokenCount"],
        cached: &["/cachedContentTokenCount"],
        cache_written: &[],
        cache_written_long: &[],
        // Thinking tokens are not included in the candidates' tokens.
        output: &["/candidatesTokenCount", "/thoughtsTokenCount"],
        total: &[],
    };
    const OLLAMA: Self = Self {
        without_cache: false,
        input: &["/prompt_eval_count"],
        cached: &[],
        cache_written: &[],
        cache_written_long: &[],
        output: &["/eval_count"],
        total: &[],
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn reported(shape: Shape, content_type: &str, text: &str) -> Reported {
        // The result must be the same for every way of cutting the text in two.
        let whole = {
            let mut reader = Reader::new(shape, content_type);
            reader.read(text.as_bytes());
            reader.end()
        };
        for cut in 0..text.len() {
            let mut reader = Reader::new(shape, content_type);
            reader.read(&text.as_bytes()[..cut]);
            reader.read(&text.as_bytes()[cut..]);
            assert_eq!(reader.end(), whole, "{cut}");
        }
        whole
    }

    const EVENTS: &str = "text/event-stream; charset=utf-8";

    #[test]
    fn the_usage_of_each_provider_is_read() {
        let messages = "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\
            \"cache_read_input_tokens\":100,\"cache_creation_input_tokens\":5,\"output_tokens\":1}}}\r\n\r\n\
            data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":10,\"output_tokens\":42}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
        let chat = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":null}],\"usage\":null}\n\n\
            data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":115,\
            \"completion_tokens\":42,\"prompt_tokens_details\":{\"cached_tokens\":100}}}\n\ndata: [DONE]\n";
        let responses = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"usage\"}\n\ndata: {\"type\":\
            \"response.completed\",\"response\":{\"status\":\"completed\",\"error\":null,\"usage\":{\"input_tokens\":115,\
            \"output_tokens\":42,\"input_tokens_details\":{\"cached_tokens\":100}}}}";
        let contents = "data: {\"candidates\":[{\"content\":{}}],\"usageMetadata\":{\"promptTokenCount\":115}}\n\ndata: \
            {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":115,\
            \"candidatesTokenCount\":40,\"thoughtsTokenCount\":2,\"cachedContentTokenCount\":100}}\n\n";
        let ollama = "{\"message\":{\"content\":\"x\"},\"done\":false}\n{\"done\":true,\"prompt_eval_count\":115,\
            \"eval_count\":42}\n";
        for (shape, kind, text, cached, written) in [
            (Shape::Messages, EVENTS, messages, 100, 5),
            (Shape::Chat, EVENTS, chat, 100, 0),
            (Shape::Responses, EVENTS, responses, 100, 0),
            (Shape::Contents, EVENTS, contents, 100, 0),
            (Shape::Ollama, "application/x-ndjson", ollama, 0, 0),
        ] {
            let tokens = Tokens { input: 115, cached, cache_written: written, output: 42, ..Tokens::default() };
            let Reported { tokens: found, complete, error, .. } = reported(shape, kind, text);
            assert_eq!((found, complete, error), (Some(tokens), true, None), "{shape:?}");
        }
    }

    #[test]
    fn an_answer_in_one_piece_is_read_at_its_end() {
        let json = "application/json";
        let tokens = |input, output| Some(Tokens { input, output, ..Tokens::default() });
        for (shape, text, expected) in [
            (Shape::Messages, r#"{"type":"message","usage":{"input_tokens":1,"output_tokens":2}}"#, tokens(1, 2)),
            (
                Shape::Chat,
                r#"{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
                tokens(1, 2),
            ),
            (
                Shape::Responses,
                r#"{"status":"completed","error":null,"usage":{"input_tokens":1,"output_tokens":2}}"#,
                tokens(1, 2),
            ),
            (
                Shape::Contents,
                r#"[{"candidates":[]},{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}]"#,
                tokens(1, 2),
            ),
            (Shape::Chat, r#"{"choices":[{"finish_reason":"stop"}]}"#, None),
            (
                Shape::Chat,
                r#"{"choices":[{"message":{"content":"cut \ud83d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,
                    "completion_tokens":2}}"#,
                tokens(1, 2),
            ),
            (
                Shape::Messages,
                r#"{"type":"message","usage":{"input_tokens":1,"output_tokens":2,"iterations":[
                    {"input_tokens":50,"output_tokens":9},{"input_tokens":1,"output_tokens":2}]}}"#,
                tokens(51, 11),
            ),
        ] {
            let reported = reported(shape, json, text);
            assert_eq!((reported.tokens, reported.complete, reported.error), (expected, true, None), "{text}");
        }
    }

    #[test]
    fn an_answer_that_breaks_off_or_fails_is_not_complete() {
        let begun =
            "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n";
        let cut = reported(Shape::Messages, EVENTS, begun);
        assert!(!cut.complete && cut.tokens.is_some(), "{cut:?}");
        for (shape, text) in [
            (
                Shape::Messages,
                "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
            ),
            (Shape::Chat, "data: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n"),
            (
                Shape::Responses,
                "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"message\":\"busy\"}}}\n\n",
            ),
            (Shape::Contents, "data: {\"error\":{\"code\":503,\"message\":\"busy\"}}\n\n"),
        ] {
            let reported = reported(shape, EVENTS, text);
            assert_eq!((reported.complete, reported.error.as_deref()), (false, Some("busy")), "{shape:?}");
        }
    }

    #[test]
    fn an_endless_line_takes_bounded_memory() {
        let mut reader = Reader::new(Shape::Chat, EVENTS);
        for _ in 0..40 {
            reader.read(&vec![b'x'; 1 << 20]);
        }
        assert!(reader.held.capacity() <= MAX_BYTES * 2);
        reader.read(b"\ndata: [DONE]\n");
        assert!(reader.end().complete);
    }
}
