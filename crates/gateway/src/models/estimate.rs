//! Estimates of tokens, for calls that were interrupted before the provider reported them.
//!
//! A token of English text or of code has about four bytes in the vocabularies of the large providers
//! (<https://developers.openai.com/api/docs/concepts>, "a token is about four characters"). Other scripts have about one
//! token for each character.

use serde_json::Value;

use super::path::Shape;

/// The minimum length of a text that is taken for the encoded data of a file. Files are estimated separately.
const DATA_BYTES: usize = 1024;

/// Estimates the tokens of texts that arrive in pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Text {
    ascii: u64,
    others: u64,
}

impl Text {
    pub(crate) fn add(&mut self, text: &str) {
        let ascii = text.bytes().filter(u8::is_ascii).count();
        self.ascii += ascii as u64;
        self.others += (text.chars().count() - ascii) as u64;
    }

    pub(crate) fn tokens(self) -> u64 {
        self.ascii.div_ceil(4).saturating_add(self.others)
    }
}

/// Estimates the tokens of the texts in a body. The encoded data of files and the names of fields do not count.
pub(crate) fn of_body(body: &Value) -> u64 {
    let mut text = Text::default();
    add_texts(body, &mut text);
    text.tokens()
}

fn add_texts(value: &Value, text: &mut Text) {
    match value {
        Value::String(string) if !is_data(string) => text.add(string),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, text)),
        Value::Object(fields) => fields.values().for_each(|value| add_texts(value, text)),
        _ => {}
    }
}

/// Returns whether a text is a `data:` URL, or the encoded data of a file.
fn is_data(text: &str) -> bool {
    let encodes = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte);
    text.len() >= DATA_BYTES && (text.starts_with("data:") || text.bytes().all(encodes))
}

/// What has arrived of a streamed answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    text: Text,
    pieces: u64,
}

impl Arrived {
    /// Adds a value of a stream.
    pub(crate) fn add(&mut self, shape: Shape, value: &Value) {
        let before = self.text;
        match shape {
            Shape::Messages => self.add_all(&value["delta"], &["text", "thinking", "partial_json"]),
            Shape::Chat => {
                for delta in list(&value["choices"]).map(|choice| &choice["delta"]) {
                    self.add_all(delta, &["content", "reasoning_content", "reasoning", "refusal"]);
                    for function in list(&delta["tool_calls"]).map(|call| &call["function"]) {
                        self.add_all(function, &["name", "arguments"]);
                    }
                }
            }
            Shape::Responses => self.add_all(value, &["delta"]),
            Shape::Contents => {
                for part in list(&value["candidates"]).flat_map(|one| list(&one["content"]["parts"])) {
                    self.add_all(part, &["text"]);
                    if let Some(call) = part.get("functionCall") {
                        self.text.add(&call.to_string());
                    }
                }
            }
            Shape::Ollama => {
                self.add_all(value, &["response", "thinking"]);
                self.add_all(&value["message"], &["content", "thinking"]);
            }
        }
        self.pieces += u64::from(self.text != before);
    }

    fn add_all(&mut self, value: &Value, fields: &[&str]) {
        fields.iter().filter_map(|field| value[*field].as_str()).for_each(|text| self.text.add(text));
    }

    /// Returns the tokens of what has arrived. A piece has at least one token.
    pub(crate) fn tokens(&self) -> u64 {
        self.text.tokens().max(self.pieces)
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_have_a_token_for_four_bytes_or_for_a_character_of_another_script() {
        for (text, tokens) in [("", 0), ("abcd", 1), ("abcde", 2), ("日本語", 3), ("äb", 2)] {
            let mut counted = Text::default();
            counted.add(text);
            assert_eq!(counted.tokens(), tokens, "{text}");
        }
    }

    #[test]
    fn files_in_a_body_do_not_count_as_text() {
        let data = "A".repeat(100_000);
        let body = json!({"model": "abcd", "messages": [{"content": [
            {"type": "text", "text": "x".repeat(400)},
            {"type": "image", "source": {"data": data}},
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}},
        ]}]});
        assert!((100..130).contains(&of_body(&body)), "{}", of_body(&body));
    }

    #[test]
    fn what_has_arrived_is_counted_in_each_shape() {
        for (shape, values) in [
            (
                Shape::Messages,
                vec![json!({"delta": {"text": "abcdefgh"}}), json!({"delta": {"partial_json": "{\"a\""}})],
            ),
            (
                Shape::Chat,
                vec![
                    json!({"choices": [{"delta": {"reasoning_content": "abcdefgh"}}]}),
                    json!({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{\"a\""}}]}}]}),
                ],
            ),
            (
                Shape::Responses,
                vec![json!({"type": "response.output_text.delta", "delta": "abcdefgh"}), json!({"delta": "abcd"})],
            ),
            (
                Shape::Contents,
                vec![json!({"candidates": [{"content": {"parts": [{"text": "abcdefgh"}, {"text": "abcd"}]}}]})],
            ),
            (Shape::Ollama, vec![json!({"message": {"content": "abcdefgh", "thinking": "abcd"}})]),
        ] {
            let mut arrived = Arrived::default();
            values.iter().for_each(|value| arrived.add(shape, value));
            assert_eq!(arrived.tokens(), 3, "{shape:?}");
        }
        let mut single = Arrived::default();
        (0..5).for_each(|_| single.add(Shape::Chat, &json!({"choices": [{"delta": {"content": "a"}}]})));
        assert_eq!(single.tokens(), 5, "each piece has a token");
    }
}
