//! The table of prices and context windows: a file in the shape of LiteLLM's `model_prices_and_context_window.json`
//! (<https://docs.litellm.ai/docs/provider_registration/add_model_pricing>). The program contains one; operators can
//! replace it.
//!
//! A price is a field `KIND[_above_Nhr][_above_Nk_tokens][_TIER]` with US dollars for one token. Other fields, and models
//! that are not priced by tokens, are ignored.

use std::collections::BTreeMap;

use journeyman_core::model::price::{ModelPrices, Price, TierPrices};
use serde_json::{Map, Value};

/// The table that the program contains.
const BUILT_IN: &str = include_str!("../../data/prices.json");

/// The maximum price of a token in US dollars. A price above it is an error of the file.
const MAX_DOLLARS: f64 = 1.0;

/// The endings of fields that name a tier, and the names of the tiers.
const TIERS: [(&str, &str); 4] =
    [("_batches", "batch"), ("_flex", "flex"), ("_priority", "priority"), ("_ultrafast", "ultrafast")];

/// The prices and windows of models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceTable {
    /// The date of the prices, such as `2026-11-20`; `None` if the file has none.
    pub date: Option<String>,
    models: BTreeMap<String, Listed>,
}

/// A model of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// The provider, as the table names it.
    provider: String,
    /// The prices.
    pub prices: ModelPrices,
    /// The size of the context window in tokens, if it is known.
    pub window: Option<u64>,
}

/// An error in a table of prices.
#[derive(Debug, thiserror::Error)]
pub enum PriceTableError {
    /// The file is not a JSON object.
    #[error("it is not a JSON object in the shape of model_prices_and_context_window.json: {0}")]
    Shape(serde_json::Error),
    /// A price is not a number of dollars from 0 to 1.
    #[error("{field} of the model {model:?} must be a number of dollars for one token, from 0 to 1")]
    Price {
        /// The model.
        model: String,
        /// The field.
        field: String,
    },
    /// No model has a price.
    #[error("it has no model with input_cost_per_token and output_cost_per_token")]
    Empty,
}

impl PriceTable {
    /// Returns the table that the program contains.
    ///
    /// # Errors
    /// Never: a test reads the table.
    pub fn built_in() -> Result<Self, PriceTableError> {
        Self::parse(BUILT_IN)
    }

    /// Reads a table.
    ///
    /// # Errors
    /// The text has another shape, or a price is out of range.
    pub fn parse(text: &str) -> Result<Self, PriceTableError> {
        let all: Map<String, Value> = serde_json::from_str(text).map_err(PriceTableError::Shape)?;
        let date = all.get("_source").and_then(|source| source["date"].as_str()).map(str::to_owned);
        let mut models = BTreeMap::new();
        for (name, fields) in all {
            if let Some(listed) = listed(&name, &fields)? {
                models.insert(name, listed);
            }
        }
        if models.is_empty() { Err(PriceTableError::Empty) } else { Ok(Self { date, models }) }
    }

    /// Returns the entry of a model: by its full name, or by its name at the provider. A name that ends with a date has
    /// the entry of the name without it, unless it has its own.
    #[must_use]
    pub fn find(&self, prefix: &str, name: &str) -> Option<&Listed> {
        let provider = provider(prefix);
        let at = |name: &str| {
            let full = self.models.get(&format!("{provider}/{name}"));
            full.or_else(|| self.models.get(name).filter(|listed| listed.provider == provider))
        };
        at(name).or_else(|| at(without_date(name)?))
    }

    /// Returns the models of a provider, by full name.
    pub fn of<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (String, &'a Listed)> {
        let provider = provider(prefix);
        self.models.iter().filter(move |(_, listed)| listed.provider == provider).map(move |(name, listed)| {
            let name = name.strip_prefix(provider).and_then(|name| name.strip_prefix('/')).unwrap_or(name);
            (format!("{prefix}/{name}"), listed)
        })
    }
}

/// Returns the name that the table has for a provider of this service.
fn provider(prefix: &str) -> &str {
    // OpenAI serves two interfaces.
    if prefix == "openai-responses" { "openai" } else { prefix }
}

/// Removes a date from the end of a name: `-20250929` or `-2025-09-29`.
fn without_date(name: &str) -> Option<&str> {
    let ends = |length: usize| {
        let (name, date) = name.split_at_checked(name.len().checked_sub(length + 1)?)?;
        let digits: String = date.strip_prefix('-')?.chars().filter(|c| *c != '-').collect();
        (digits.len() == 8 && digits.starts_with("20") && digits.bytes().all(|b| b.is_ascii_digit())).then_some(name)
    };
    ends(10).or_else(|| ends(8))
}

fn listed(name: &str, fields: &Value) -> Result<Option<Listed>, PriceTableError> {
    let Some(fields) = fields.as_object() else { return Ok(None) };
    if !fields.get("input_cost_per_token").is_some_and(Value::is_number)
        || !fields.get("output_cost_per_token").is_some_and(Value::is_number)
    {
        return Ok(None);
    }
    let mut prices = ModelPrices { standard: tier(name, fields, "", None)?, tiers: BTreeMap::new() };
    for (ending, tier_name) in TIERS {
        if fields.contains_key(&format!("input_cost_per_token{ending}")) {
            let tier = tier(name, fields, ending, Some(&prices.standard.base))?;
            prices.tiers.insert(tier_name.to_owned(), tier);
        }
    }
    // Factors of all prices, such as for a region.
    for (option, factor) in fields.get("provider_specific_entry").and_then(Value::as_object).into_iter().flatten() {
        if let Some(factor) = factor.as_f64().filter(|factor| (0.0..=100.0).contains(factor)) {
            prices.tiers.insert(option.clone(), times(&prices.standard, factor));
        }
    }
    let provider = fields.get("litellm_provider").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Some(Listed { provider, prices, window: fields.get("max_input_tokens").and_then(Value::as_u64) }))
}

/// Reads the prices of a tier; `ending` is the ending of its fields, and `standard` has the prices of the usual tier.
fn tier(
    model: &str,
    fields: &Map<String, Value>,
    ending: &str,
    standard: Option<&Price>,
) -> Result<TierPrices, PriceTableError> {
    let base = price(model, fields, ("", ending), None, standard)?;
    let mut above = BTreeMap::new();
    for field in fields.keys() {
        let size = field.strip_prefix("input_cost_per_token_above_").and_then(|rest| rest.strip_suffix(ending));
        if let Some(size) = size.and_then(|size| size.strip_suffix("k_tokens")?.parse::<u64>().ok()) {
            let size_field = format!("_above_{size}k_tokens");
            let price = price(model, fields, (&size_field, ending), Some(&base), Some(&base))?;
            above.insert(size.saturating_mul(1000), price);
        }
    }
    Ok(TierPrices { base, above })
}

/// Reads one price. A kind of token without a price of its own has the price of `usual`, or else of the input; a cache
/// with a longer lifetime costs as much more than one with the usual lifetime as in `similar`.
fn price(
    model: &str,
    fields: &Map<String, Value>,
    (size, ending): (&str, &str),
    usual: Option<&Price>,
    similar: Option<&Price>,
) -> Result<Price, PriceTableError> {
    let read = |kind: &str| -> Result<Option<u64>, PriceTableError> {
        let field = format!("{kind}{size}{ending}");
        let Some(value) = fields.get(&field).filter(|value| !value.is_null()) else { return Ok(None) };
        let dollars = value.as_f64().filter(|dollars| (0.0..=MAX_DOLLARS).contains(dollars));
        dollars.map(micros).map(Some).ok_or_else(|| PriceTableError::Price { model: model.to_owned(), field })
    };
    let input = read("input_cost_per_token")?.or(usual.map(|price| price.input)).unwrap_or_default();
    let written = read("cache_creation_input_token_cost")?;
    let cache_written = written.or(usual.map(|price| price.cache_written)).unwrap_or(input);
    // The lifetimes that cost more: an hour at Anthropic, twelve at OpenAI.
    let long = match read("cache_creation_input_token_cost_above_1hr")? {
        None => read("cache_creation_input_token_cost_above_12hr")?,
        long => long,
    };
    // If only the usual lifetime has a price here, the other one costs more by the same factor as elsewhere.
    let long = long.or_else(|| Some(in_proportion(written?, similar?)));
    Ok(Price {
        input,
        output: read("output_cost_per_token")?.or(usual.map(|price| price.output)).unwrap_or_default(),
        cached: read("cache_read_input_token_cost")?.or(usual.map(|price| price.cached)).unwrap_or(input),
        cache_written,
        cache_written_long: long.or(usual.map(|price| price.cache_written_long)).unwrap_or(cache_written),
    })
}

/// Returns the price of writes to a cache with a longer lifetime, where those with the usual lifetime have this price.
fn in_proportion(written: u64, usual: &Price) -> u64 {
    let long = u128::from(written) * u128::from(usual.cache_written_long);
    let long = long.checked_div(u128::from(usual.cache_written)).unwrap_or_default();
    u64::try_from(long).unwrap_or(u64::MAX).max(written)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
fn micros(dollars_of_token: f64) -> u64 {
    (dollars_of_token * 1e12).round() as u64
}

fn times(tier: &TierPrices, factor: f64) -> TierPrices {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "prices are at most a dollar for a token, and factors at most 100"
    )]
    let one = |micros: u64| (micros as f64 * factor).round() as u64;
    let all = |price: &Price| Price {
        input: one(price.input),
        output: one(price.output),
        cached: one(price.cached),
        cache_written: one(price.cache_written),
        cache_written_long: one(price.cache_written_long),
    };
    TierPrices { base: all(&tier.base), above: tier.above.iter().map(|(size, price)| (*size, all(price))).collect() }
}

#[cfg(test)]
mod tests {
    use journeyman_core::model::price::Tokens;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_built_in_table_has_the_prices_of_its_date() {
        let table = PriceTable::built_in().unwrap();
        assert_eq!(table.date.as_deref(), Some("2026-11-20"));
        let tokens = Tokens { input: 1000, cached: 500, cache_written: 100, cache_written_long: 50, output: 100 };
        // https://platform.claude.com/docs/en/about-claude/pricing: 4, 0.20, 5, 8 and 20 dollars.
        let opus = table.find("anthropic", "claude-opus-5-5").unwrap();
        assert_eq!(opus.prices.of(&tokens, None), Some(1600 + 100 + 250 + 400 + 2000));
        assert_eq!(opus.window, Some(1_000_000));
        // https://developers.openai.com/api/docs/pricing: 2, 0.20, 2.50, 5 and 10 dollars; twice for long inputs.
        let sol = table.find("openai-responses", "gpt-6-sol").unwrap();
        assert_eq!(sol.prices.of(&tokens, None), Some(800 + 100 + 125 + 250 + 1000));
        assert_eq!(sol.prices.of(&tokens, Some("priority")), Some(2 * (800 + 100 + 125 + 250 + 1000)));
        assert_eq!(sol.prices.of(&tokens, Some("batch")), Some(1138), "half, rounded up");
        let long = Tokens { input: 272_001, output: 100, ..Tokens::default() };
        assert_eq!(sol.prices.of(&long, None), Some(272_001 * 4 + 1500));
        assert_eq!(sol.prices.of(&Tokens { input: 272_000, ..long }, None), Some(272_000 * 2 + 1000));
        for (prefix, name) in [
            ("anthropic", "claude-sonnet-5-5"),
            ("openai", "gpt-5.1-codex-max"),
            ("gemini", "gemini-2.5-pro"),
            ("xai", "grok-4.7"),
            ("deepseek", "deepseek-v4-pro"),
            ("mistral", "mistral-large-4"),
            ("moonshot", "kimi-k3"),
            ("zai", "glm-5.3"),
        ] {
            let price = table.find(prefix, name).unwrap_or_else(|| panic!("{prefix}/{name}")).prices.standard.base;
            assert!(price.input > 0 && price.output > price.input && price.cached <= price.input, "{name} {price:?}");
        }
    }

    #[test]
    fn a_name_with_a_date_has_the_prices_of_the_name_without_it() {
        let table = PriceTable::built_in().unwrap();
        let plain = table.find("anthropic", "claude-haiku-4-5");
        assert!(plain.is_some());
        for name in ["claude-haiku-4-5-20251001", "claude-haiku-4-5-2025-10-01"] {
            assert_eq!(table.find("anthropic", name), plain, "{name}");
        }
        for (prefix, name) in [
            ("anthropic", "claude-haiku-4-5-19251001"),
            ("anthropic", "claude-haiku-4-5-high"),
            ("anthropic", ""),
            ("anthropic", "gpt-5"),
            ("compatible", "claude-haiku-4-5"),
        ] {
            assert_eq!(table.find(prefix, name), None, "{prefix}/{name}");
        }
    }

    #[test]
    fn models_are_listed_by_their_full_names() {
        let table = PriceTable::built_in().unwrap();
        let names = |prefix: &'static str| table.of(prefix).map(|(name, _)| name).collect::<Vec<_>>();
        assert!(names("gemini").contains(&"gemini/gemini-2.5-pro".to_owned()));
        assert!(names("openai-responses").contains(&"openai-responses/gpt-6-sol".to_owned()));
        assert!(names("compatible").is_empty());
    }

    #[test]
    fn another_table_can_have_more_fields_and_fewer() {
        let table = PriceTable::parse(
            &json!({
                "sample_spec": {"input_cost_per_token": 0.0, "max_tokens": "words"},
                "image": {"litellm_provider": "p", "output_cost_per_image": 0.1},
                "p/m": {"litellm_provider": "p", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6,
                    "input_cost_per_token_above_128k_tokens": 3e-6, "input_cost_per_token_flex": 5e-7,
                    "provider_specific_entry": {"us": 1.5, "note": "x"}, "mode": "chat"},
            })
            .to_string(),
        )
        .unwrap();
        assert_eq!(table.date, None);
        let prices = &table.find("p", "m").unwrap().prices;
        let base = Price {
            input: 1_000_000,
            output: 2_000_000,
            cached: 1_000_000,
            cache_written: 1_000_000,
            cache_written_long: 1_000_000,
        };
        assert_eq!(prices.standard.base, base, "other kinds of tokens cost as the input");
        let long = &prices.standard.above[&128_000];
        assert_eq!((long.input, long.output), (3_000_000, 2_000_000));
        assert_eq!(prices.tiers["us"].base.output, 3_000_000);
        assert_eq!(prices.tiers["flex"].base.input, 500_000);
        assert_eq!(prices.tiers.len(), 2);
    }

    #[test]
    fn an_error_names_what_is_wrong() {
        let model = |price: Value| json!({"m": {"input_cost_per_token": 1e-6, "output_cost_per_token": price}});
        for (text, words) in [
            ("[]".to_owned(), "not a JSON object"),
            ("{}".to_owned(), "no model"),
            (model(json!("free")).to_string(), "no model"),
            (model(json!(2)).to_string(), "output_cost_per_token of the model \"m\""),
            (model(json!(-1)).to_string(), "from 0 to 1"),
        ] {
            let error = PriceTable::parse(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
