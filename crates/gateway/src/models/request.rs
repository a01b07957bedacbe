//! Checks the body of a call. The body is parsed once and serialized again, so that the provider reads what was
//! checked.
//!
//! Only known content passes. Unknown fields, and those of groups that the operator does not allow ([`super::fields`]),
//! are removed. Parts that reach beyond the sandbox through the provider are
//! removed or refused: tools that it runs, files and pages that it fetches, state that it keeps, and fields that change
//! the price. Where a list is expected, only a list is accepted, because servers accept other forms instead.

mod checked;
mod rules;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use journeyman_core::json::replace_lone_surrogates;
use serde_json::{Map, Value, json};

use self::checked::Checked;
pub(crate) use self::rules::Rules;
use super::estimate;
use super::fields::Tier;
use super::path::{Path, Shape};

/// The maximum number of JSON values in a body. A whole conversation has some thousands. Bounds the memory that a
/// parsed body takes.
const MAX_VALUES: usize = 500_000;

/// The maximum size of a model's name in bytes.
const NAME_BYTES: usize = 200;

/// A checked body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prepared {
    pub(crate) body: Bytes,
    /// The model, as its provider calls it.
    pub(crate) model: String,
    /// The output limit of one answer in tokens, if the body sets one.
    pub(crate) most_output: Option<u64>,
    /// The number of answers that the body asks for.
    pub(crate) answers: u64,
    /// The tokens that are set aside for images and files, in addition to those for their bytes.
    pub(crate) attached: u64,
    /// `true` if the model may call tools, so that the turn continues with this call.
    pub(crate) has_tools: bool,
    /// An estimate of the input tokens, in case that the provider does not report them.
    pub(crate) estimate: u64,
    /// The other models that may answer the call.
    pub(crate) fallbacks: Vec<String>,
    /// The service tier that the body asks for.
    pub(crate) tier: Tier,
    /// The names of what was removed.
    pub(crate) removed: Vec<String>,
}

/// Checks a body.
///
/// # Errors
/// The body cannot be sent; the error gives the reason to its author.
pub(crate) fn prepare(path: &Path, body: &[u8], rules: &Rules) -> Result<Prepared, String> {
    // Each value except the first follows one of these characters.
    if body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b':')).count() > MAX_VALUES * 2 {
        return Err(format!("the body has more than {MAX_VALUES} values"));
    }
    let text = std::str::from_utf8(body).map_err(|error| format!("the body is not UTF-8: {error}"))?;
    let text = replace_lone_surrogates(text);
    let mut value: Value = serde_json::from_str(&text).map_err(|error| format!("the body is not JSON: {error}"))?;
    let Some(fields) = value.as_object_mut() else { return Err("the body must be a JSON object".to_owned()) };
    let named = path.model.clone().or_else(|| Some(fields.get("model")?.as_str()?.to_owned()));
    let model = named.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES).ok_or("the body names no model")?;
    // Some servers ignore the case of names, and use the last of several.
    if fields.keys().any(|name| name != "model" && name.eq_ignore_ascii_case("model")) {
        return Err("the body names its model twice".to_owned());
    }
    let mut checked = Checked { shape: path.shape, removed: Vec::new(), attached: 0, rules };
    checked.refuse_state(fields)?;
    checked.keep_allowed(fields);
    let (fallbacks, tier) = (fallbacks(fields)?, asked_tier(fields));
    checked.tools(fields)?;
    checked.contents(fields)?;
    let has_tools = fields.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
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
    if let (Shape::Ollama, Some(tokens)) = (path.shape, rules.context_tokens) {
        set_window(fields, tokens);
    }
    let Checked { removed, attached, .. } = checked;
    let estimate = estimate::of_body(&value).saturating_add(attached);
    let body = serde_json::to_vec(&value).map_err(|error| error.to_string())?.into();
    Ok(Prepared { body, model, most_output, answers, attached, has_tools, estimate, fallbacks, tier, removed })
}

/// Returns the other models that may answer a call.
fn fallbacks(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut models = Vec::new();
    for name in ["fallbacks", "models"] {
        for one in fields.get(name).and_then(Value::as_array).into_iter().flatten() {
            let model = one.as_str().or_else(|| one.get("model")?.as_str());
            models.push(model.ok_or_else(|| format!("an entry of {name} names no model"))?.to_owned());
        }
        if fields.get(name).is_some_and(|value| !value.is_array() && !value.is_null()) {
            return Err(format!("{name} must be a list"));
        }
    }
    Ok(models)
}

/// Returns the service tier that a body asks for.
fn asked_tier(fields: &Map<String, Value>) -> Tier {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    Tier::new(text("service_tier").or_else(|| text("serviceTier")), text("speed"), text("inference_geo"))
}

/// Returns the output limit of one answer in tokens, and the number of answers. If a body sets a limit several times,
/// the largest counts.
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

/// Returns a whole number, which may be in quotes, as some servers accept it.
fn whole(value: &Value) -> Result<u64, String> {
    let text = value.as_str().map(str::trim);
    let number = value.as_u64().or_else(|| text?.parse().ok());
    // Some servers take a negative number for no limit.
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
                // Use the spelling that the body has.
                Shape::Contents if fields.contains_key("generation_config") => {
                    ("generation_config", "max_output_tokens")
                }
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

/// Sets the context window in a body for Ollama, unless the body sets it.
fn set_window(fields: &mut Map<String, Value>, tokens: u64) {
    if let Some(options) = fields.entry("options").or_insert_with(|| json!({})).as_object_mut() {
        options.entry("num_ctx").or_insert_with(|| json!(tokens));
    }
}
