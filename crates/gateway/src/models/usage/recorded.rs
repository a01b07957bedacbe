//! Answers that providers have given, or that their documents show, with what they cost. The files in `recorded/` have
//! the fields, the numbers and the order of events of their sources; the texts are shorter, and some fields that nothing
//! depends on are left out. `made` says what is not from the source.
//!
//! The fragment of a source names the part of a large file: a path in an OpenAPI document, or a recording.

use std::collections::BTreeSet;

use journeyman_core::model::price::Tokens;
use serde::Deserialize;
use serde_json::Value;

use super::super::cost::Pricing;
use super::super::fields::Tier;
use super::super::path::Shape;
use super::super::prices::PriceTable;
use super::tests::reported;

const FILES: [(Shape, &str); 5] = [
    (Shape::Messages, include_str!("recorded/messages.json")),
    (Shape::Chat, include_str!("recorded/chat.json")),
    (Shape::Responses, include_str!("recorded/responses.json")),
    (Shape::Contents, include_str!("recorded/contents.json")),
    (Shape::Ollama, include_str!("recorded/ollama.json")),
];

/// The minimum number of answers in each file.
const MINIMUM: usize = 6;

/// An answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    /// What the answer shows.
    shows: String,
    /// The document with the answer.
    source: String,
    /// What is not from the source.
    made: Option<String>,
    #[serde(rename = "type")]
    content_type: String,
    /// The answer in one piece.
    body: Option<Value>,
    /// The lines of a stream. An object is the data of an event; a text is a line by itself.
    lines: Option<Vec<Value>>,
    /// The model whose prices apply, with its prefix.
    model: String,
    /// The other models that were allowed to answer.
    #[serde(default)]
    fallbacks: Vec<String>,
    /// The service tier that the call asked for.
    asked: Option<String>,
    tokens: Option<Counts>,
    /// The calls that are paid for separately: the model and its tokens.
    #[serde(default)]
    parts: Vec<(String, Counts)>,
    tier: Option<String>,
    complete: bool,
    error: Option<String>,
    /// Millionths of a US dollar; `null` without a price, and if the answer is not complete or has no tokens.
    cost: Option<u64>,
    /// How the cost is worked out. Prices are in US dollars for a million tokens.
    because: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Counts {
    input: u64,
    cached: u64,
    cache_written: u64,
    cache_written_long: u64,
    output: u64,
}

impl From<Counts> for Tokens {
    fn from(counts: Counts) -> Self {
        let Counts { input, cached, cache_written, cache_written_long, output } = counts;
        Self { input, cached, cache_written, cache_written_long, output }
    }
}

impl Recorded {
    fn text(&self) -> String {
        let Some(lines) = &self.lines else { return self.body.as_ref().unwrap().to_string() };
        let is_lines_of_json = self.content_type.starts_with("application/x-ndjson");
        let line = |line: &Value| match line {
            Value::String(text) => format!("{text}\n"),
            value if is_lines_of_json => format!("{value}\n"),
            value => format!("data: {value}\n\n"),
        };
        lines.iter().map(line).collect()
    }
}

fn all() -> Vec<(Shape, Recorded)> {
    let mut all = Vec::new();
    for (shape, text) in FILES {
        let answers: Vec<Recorded> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        assert!(answers.len() >= MINIMUM, "{shape:?}");
        all.extend(answers.into_iter().map(|answer| (shape, answer)));
    }
    all
}

#[test]
fn the_usage_of_recorded_answers_is_read_in_any_pieces() {
    let mut names = BTreeSet::new();
    for (shape, answer) in all() {
        let name = format!("{shape:?}: {}", answer.shows);
        assert!(names.insert(name.clone()), "{name} is there twice");
        assert!(answer.source.starts_with("https://"), "{name}");
        assert!(answer.made.as_ref().is_none_or(|made| !made.is_empty()), "{name}");
        assert_eq!(answer.body.is_some(), answer.lines.is_none(), "{name}");
        let found = reported(shape, &answer.content_type, &answer.text());
        assert_eq!(found.tokens, answer.tokens.map(Tokens::from), "{name}");
        let parts: Vec<(String, Tokens)> =
            answer.parts.iter().map(|(of, counts)| (of.clone(), (*counts).into())).collect();
        assert_eq!(found.parts, parts, "{name}");
        assert_eq!(found.tier.name(), answer.tier, "{name}");
        assert_eq!((found.complete, found.error), (answer.complete, answer.error), "{name}");
    }
}

#[test]
fn recorded_answers_cost_what_was_worked_out() {
    let table = PriceTable::built_in().unwrap();
    for (shape, answer) in all() {
        let name = format!("{shape:?}: {}", answer.shows);
        let found = reported(shape, &answer.content_type, &answer.text());
        let (prefix, model) = answer.model.split_once('/').unwrap();
        let pricing = Pricing {
            reported: &found,
            model,
            fallbacks: &answer.fallbacks,
            tier: found.tier.clone().or(&Tier::new(answer.asked.as_deref(), None, None)).name(),
            prices: |model: &str| Some(table.find(prefix, model)?.prices.clone()),
        };
        let is_reported = found.complete && found.error.is_none();
        let cost = found.tokens.filter(|_| is_reported).and_then(|tokens| pricing.of_reported(&tokens));
        assert_eq!(cost, answer.cost, "{name}: {}", answer.because);
        // The last number of the calculation is the cost, before it is rounded up.
        let result = answer.because.rsplit(" = ").next().and_then(|end| end.replace(',', "").parse::<f64>().ok());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "costs of tests are small")]
        let rounded = result.map(|result| result.ceil() as u64);
        assert_eq!(rounded, answer.cost, "{name}: {}", answer.because);
    }
}
