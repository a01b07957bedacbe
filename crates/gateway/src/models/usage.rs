//! Reads a provider's answer while it passes through, for its token counts and for whether it is complete.

use journeyman_core::json::replace_lone_surrogates;
use journeyman_core::model::price::Tokens;
use serde_json::Value;

use super::estimate::Arrived;
use super::fields::{joined, speed, tier};
use super::path::Shape;

/// The maximum size in bytes of a line of a stream, or of an answer in one piece, that is read for its usage.
const MAX_BYTES: usize = 32 << 20;

/// The state of reading an answer.
#[derive(Debug)]
pub(crate) struct Reader {
    shape: Shape,
    /// `true` if the answer is a stream of lines.
    streams: bool,
    held: Vec<u8>,
    /// The input tokens outside of caches, if the provider counts them separately.
    plain: u64,
    /// `true` if the current line is too long to be read.
    overflows: bool,
    pub(crate) reported: Reported,
}

/// The contents of an answer that the proxy needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    /// The tokens, if the provider reported them.
    pub(crate) tokens: Option<Tokens>,
    /// The tokens of each model that took part, if the provider reported them separately; they are included in `tokens`.
    pub(crate) parts: Vec<(String, Tokens)>,
    /// The model that answered, as the provider calls it.
    pub(crate) model: Option<String>,
    /// The service tier that was used; `None` is the usual one.
    pub(crate) tier: Option<String>,
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
        Self { shape, streams, held: Vec::new(), plain: 0, overflows: false, reported: Reported::default() }
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
        self.reported
    }

    /// Reads a line of server-sent events, or of JSON lines.
    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let data = line.strip_prefix(b"data:").map_or(line, <[u8]>::trim_ascii);
        if data == b"[DONE]" {
            self.reported.complete = true;
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
                self.iterations(usage);
                self.reported.complete |= matches!(kind, "message_stop" | "message");
            }
            Shape::Chat => {
                self.tokens(value.get("usage"), &Fields::CHAT);
                let ended = |choice: &Value| choice.get("finish_reason").is_some_and(Value::is_string);
                self.reported.complete |=
                    value.get("choices").and_then(Value::as_array).is_some_and(|all| all.iter().any(ended));
            }
            Shape::Responses => {
                let response = value.get("response").unwrap_or(value);
                self.tokens(response.get("usage"), &Fields::RESPONSES);
                let status = response.get("status").and_then(Value::as_str).unwrap_or_default();
                self.reported.complete |= matches!(status, "completed" | "incomplete");
            }
            Shape::Contents => {
                self.tokens(value.get("usageMetadata"), &Fields::CONTENTS);
                let ended = |one: &Value| one.get("finishReason").is_some_and(Value::is_string);
                let blocked = value.pointer("/promptFeedback/blockReason").is_some();
                let candidates = value.get("candidates").and_then(Value::as_array);
                self.reported.complete |= blocked || candidates.is_some_and(|all| all.iter().any(ended));
            }
            Shape::Ollama => {
                self.tokens(Some(value), &Fields::OLLAMA);
                self.reported.complete |= value.get("done") == Some(&Value::Bool(true));
            }
        }
        let error = value.get("error").or_else(|| value.pointer("/response/error")).filter(|error| !error.is_null());
        if kind == "error" || error.is_some() {
            self.reported.error = Some(error.map_or_else(
                || value.to_string(),
                |error| error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned),
            ));
        }
    }

    /// Reads the model and the service tier of the answer. Later values replace earlier ones.
    fn properties(&mut self, value: &Value) {
        let text = |places: &[&str]| places.iter().find_map(|place| value.pointer(place)?.as_str());
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
        let fast = text(&["/message/usage/speed", "/usage/speed"]);
        let region = text(&["/message/usage/inference_geo", "/usage/inference_geo"]);
        if service.is_some() || fast.is_some() || region.is_some() {
            self.reported.tier = joined([service.and_then(tier), fast.and_then(speed), region.and_then(tier)]);
        }
    }

    /// Adds up the tokens of all iterations. If the model was called several times for one answer, the usage itself has
    /// only the last call's.
    fn iterations(&mut self, usage: Option<&Value>) {
        let Some(all) = usage.and_then(|usage| usage["iterations"].as_array()).filter(|all| !all.is_empty()) else {
            return;
        };
        let mut parts: Vec<(String, Tokens)> = Vec::new();
        let mut tokens = Tokens::default();
        for one in all {
            let part = of_iteration(one);
            tokens = tokens.plus(&part);
            // An iteration without a model is one of the model that was called.
            let model = one["model"].as_str().unwrap_or_default();
            match parts.iter_mut().find(|(known, _)| known == model) {
                Some((_, known)) => *known = known.plus(&part),
                None => parts.push((model.to_owned(), part)),
            }
        }
        self.reported.tokens = Some(tokens);
        self.reported.parts = parts;
    }

    /// Reads token counts. Later counts replace earlier ones, field by field.
    fn tokens(&mut self, usage: Option<&Value>, fields: &Fields) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let number = |place: &&str| usage.pointer(place).and_then(Value::as_u64);
        let sum = |places: &[&str]| {
            let found: Vec<u64> = places.iter().filter_map(number).collect();
            (!found.is_empty()).then(|| found.iter().fold(0, |sum: u64, one| sum.saturating_add(*one)))
        };
        let (input, output) = (sum(fields.input), sum(fields.output));
        if input.is_none() && output.is_none() {
            return;
        }
        let known = self.reported.tokens.get_or_insert_default();
        let first = |places: &[&str]| places.iter().find_map(number);
        known.cached = first(fields.cached).unwrap_or(known.cached);
        known.cache_written = first(fields.cache_written).unwrap_or(known.cache_written);
        known.cache_written_long = first(fields.cache_written_long).unwrap_or(known.cache_written_long);
        let of_cache = known.cached.saturating_add(known.cache_written);
        if fields.without_cache {
            self.plain = input.unwrap_or(self.plain);
            known.input = self.plain.saturating_add(of_cache);
        } else {
            known.input = input.unwrap_or(known.input).max(of_cache);
        }
        known.output = output.unwrap_or(known.output);
    }
}

/// Returns the tokens of one of the calls that a provider has made for an answer of Anthropic's interface.
fn of_iteration(one: &Value) -> Tokens {
    let number = |place: &str| one.pointer(place).and_then(Value::as_u64).unwrap_or_default();
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
}

impl Fields {
    const MESSAGES: Self = Self {
        without_cache: true,
        input: &["/input_tokens"],
        cached: &["/cache_read_input_tokens"],
        cache_written: &["/cache_creation_input_tokens"],
        cache_written_long: &["/cache_creation/ephemeral_1h_input_tokens"],
        output: &["/output_tokens"],
    };
    const CHAT: Self = Self {
        without_cache: false,
        input: &["/prompt_tokens"],
        cached: &["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"],
        cache_written: &["/prompt_tokens_details/cache_write_tokens"],
        cache_written_long: &["/prompt_tokens_details/cache_write_tokens_details/ttl_12h_tokens"],
        output: &["/completion_tokens"],
    };
    const RESPONSES: Self = Self {
        without_cache: false,
        input: &["/input_tokens"],
        cached: &["/input_tokens_details/cached_tokens"],
        cache_written: &["/input_tokens_details/cache_write_tokens"],
        cache_written_long: &["/input_tokens_details/cache_write_tokens_details/ttl_12h_tokens"],
        output: &["/output_tokens"],
    };
    const CONTENTS: Self = Self {
        without_cache: false,
        input: &["/promptTokenCount", "/toolUsePromptTokenCount"],
        cached: &["/cachedContentTokenCount"],
        cache_written: &[],
        cache_written_long: &[],
        // Thinking tokens are not included in the candidates' tokens.
        output: &["/candidatesTokenCount", "/thoughtsTokenCount"],
    };
    const OLLAMA: Self = Self {
        without_cache: false,
        input: &["/prompt_eval_count"],
        cached: &[],
        cache_written: &[],
        cache_written_long: &[],
        output: &["/eval_count"],
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(shape: Shape, content_type: &str, text: &str) -> Reported {
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
