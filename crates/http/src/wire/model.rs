//! The wire format of models and their providers.

use journeyman_core::model::ProviderInfo;
use serde::Serialize;
use utoipa::ToSchema;

/// The providers of models.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    /// The providers, by ID.
    pub(crate) providers: Vec<Provider>,
}

/// A provider of models.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Provider {
    /// The ID: the part of a model's name before the slash.
    #[schema(example = "anthropic")]
    id: String,
    /// The wire format of its server: `anthropic`, `openai`, `openai-responses`, `gemini`, `ollama` or `compatible`.
    dialect: &'static str,
    /// `true` if calls can be made without a secret of the project: the server has a key, or none is needed.
    ready: bool,
    /// The name of the project's secret with a key, which takes precedence; `null` if the provider needs no key.
    #[schema(required)]
    key_variable: Option<String>,
    /// The size of the models' context window in tokens; `null` if it is not configured.
    #[schema(required)]
    context_tokens: Option<u64>,
    /// The prices of its models. Calls of a model without a price have no known cost.
    prices: Vec<ModelPrice>,
    /// The date of the table of prices in use, such as `2026-11-20`; `null` if the table has none. Prices of the
    /// configuration take precedence.
    #[schema(required, example = "2026-11-20")]
    prices_date: Option<String>,
}

/// The prices of a million tokens of a model, in millionths of a US dollar.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelPrice {
    /// The name of the model, or a prefix of it and `*`.
    #[schema(example = "anthropic/claude-*")]
    model: String,
    /// The price of input tokens, which the model reads.
    input_micros: u64,
    /// The price of output tokens, which the model writes.
    output_micros: u64,
    /// The price of input tokens that are read from the provider's cache.
    cached_micros: u64,
    /// The price of input tokens that are also written to the provider's cache.
    cache_written_micros: u64,
    /// The price of input tokens that are also written to a cache that lasts for an hour or longer.
    cache_written_long_micros: u64,
}

impl From<&ProviderInfo> for Provider {
    fn from(info: &ProviderInfo) -> Self {
        Self {
            id: info.prefix.clone(),
            dialect: info.dialect.name(),
            ready: info.is_ready,
            key_variable: info.key_variable.clone(),
            context_tokens: info.context_tokens,
            prices: info
                .prices
                .iter()
                .map(|(model, price)| ModelPrice {
                    model: model.clone(),
                    input_micros: price.input,
                    output_micros: price.output,
                    cached_micros: price.cached,
                    cache_written_micros: price.cache_written,
                    cache_written_long_micros: price.cache_written_long,
                })
                .collect(),
            prices_date: info.prices_date.clone(),
        }
    }
}
