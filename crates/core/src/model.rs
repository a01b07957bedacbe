//! Models: their names, and the wire formats of their servers.

pub mod budget;
mod effort;
pub mod price;

use serde::{Deserialize, Serialize};

pub use self::effort::Effort;
use self::price::Price;

/// A wire format that model servers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Chat Completions API of OpenAI.
    #[serde(rename = "openai")]
    OpenAi,
    /// The Responses API of OpenAI.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// The API of Google Gemini.
    Gemini,
    /// The native API of Ollama.
    Ollama,
    /// The Chat Completions API of any other server.
    Compatible,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 6] =
        [Self::Anthropic, Self::OpenAi, Self::OpenAiResponses, Self::Gemini, Self::Ollama, Self::Compatible];

    /// Returns the dialect's name, which is also the default prefix of its models' names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Compatible => "compatible",
        }
    }

    /// Finds a dialect by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Returns the base URL of the dialect's usual server; `None` if there is no such server.
    #[must_use]
    pub const fn public_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com/v1/"),
            Self::OpenAi | Self::OpenAiResponses => Some("https://api.openai.com/v1/"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com/v1beta/"),
            Self::Ollama => Some("http://localhost:11434/"),
            Self::Compatible => None,
        }
    }

    /// Returns the size of the context window, in tokens, that is assumed if the configuration does not set it. Only
    /// calls to Ollama need one: its default can be as small as 4,096 tokens, and it truncates longer conversations
    /// silently.
    #[must_use]
    pub const fn usual_context_tokens(self) -> Option<u64> {
        match self {
            Self::Ollama => Some(32_768),
            Self::Anthropic | Self::OpenAi | Self::OpenAiResponses | Self::Gemini | Self::Compatible => None,
        }
    }

    /// Returns the usual path between a server's address and the paths of the dialect.
    #[must_use]
    pub const fn usual_path(self) -> &'static str {
        match self {
            Self::Anthropic | Self::OpenAi | Self::OpenAiResponses | Self::Compatible => "v1/",
            Self::Gemini => "v1beta/",
            Self::Ollama => "",
        }
    }

    /// Returns the environment variable in which the provider's own programs expect the key. A `compatible` server gets
    /// no key by default, because the key of OpenAI must not be sent to other servers.
    #[must_use]
    pub const fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama | Self::Compatible => None,
        }
    }

    /// Returns the base URL for the paths of the dialect: `given`, with the usual path if it has no path, and with a
    /// slash at its end. A query stays after the path.
    ///
    /// # Errors
    /// Returns an error if `given` is not an http or https URL.
    pub fn base_url(self, given: &str) -> Result<String, InvalidBaseUrl> {
        let (address, query) = match given.split_once('?') {
            Some((address, query)) => (address, format!("?{query}")),
            None => (given, String::new()),
        };
        let after_scheme = address
            .strip_prefix("http://")
            .or_else(|| address.strip_prefix("https://"))
            .filter(|rest| !rest.is_empty())
            .ok_or(InvalidBaseUrl)?;
        let has_path = after_scheme.split_once('/').is_some_and(|(_, path)| !path.is_empty());
        let path = if has_path { "" } else { self.usual_path() };
        Ok(format!("{}/{path}{query}", address.trim_end_matches('/')))
    }
}

/// A configured provider of models, without its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderInfo {
    /// The prefix of its models' names, before the slash.
    pub prefix: String,
    /// The wire format of its server.
    pub dialect: Dialect,
    /// `true` if calls can be made without a secret of the project: the service has a key, or none is needed.
    pub is_ready: bool,
    /// The name of the project's secret with a key; `None` if the provider needs no key.
    pub key_variable: Option<String>,
    /// The size of the models' context window in tokens, if it is configured.
    pub context_tokens: Option<u64>,
    /// The prices of its models, by their names, or by prefixes of them and `*`.
    pub prices: Vec<(String, Price)>,
    /// The date of the table that the other prices come from, such as `2026-11-20`, if it has one.
    pub prices_date: Option<String>,
}

/// An error for a base URL with a scheme other than `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the base URL of a model must start with http:// or https://")]
pub struct InvalidBaseUrl;

/// The prefix of the names of the built-in test models, which have no server.
pub const TEST: &str = "test";

/// Splits a model's name into its prefix, which names the provider, and the model's name at the provider, which may
/// contain slashes.
#[must_use]
pub fn split(model: &str) -> Option<(&str, &str)> {
    model.split_once('/').filter(|(prefix, name)| !prefix.is_empty() && !name.is_empty())
}

/// Returns whether a pattern matches a name. A pattern is a name, or a prefix followed by `*`.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_two_parts() {
        assert_eq!(split("openrouter/qwen/qwen3"), Some(("openrouter", "qwen/qwen3")));
        for bad in ["", "gpt", "/x", "openai/"] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_base_url_gets_the_usual_path_only_if_it_has_none() {
        for (given, expected) in [
            ("http://localhost:1234", "http://localhost:1234/v1/"),
            ("http://localhost:1234/", "http://localhost:1234/v1/"),
            ("https://host/api", "https://host/api/"),
            ("https://host/api/v3/", "https://host/api/v3/"),
            ("https://host/v1?version=2", "https://host/v1/?version=2"),
            ("https://host?version=2", "https://host/v1/?version=2"),
        ] {
            assert_eq!(Dialect::Compatible.base_url(given).as_deref(), Ok(expected), "{given}");
        }
        for given in ["", "localhost", "ftp://host", "http://"] {
            assert!(Dialect::OpenAi.base_url(given).is_err(), "{given}");
        }
    }

    #[test]
    fn the_name_of_a_dialect_is_its_serialized_form() {
        for dialect in Dialect::ALL {
            assert_eq!(serde_json::to_value(dialect).unwrap(), dialect.name());
            assert_eq!(Dialect::from_name(dialect.name()), Some(dialect));
        }
        assert_eq!(Dialect::from_name("azure"), None);
    }

    #[test]
    fn a_pattern_is_a_name_or_a_prefix() {
        assert!(matches("claude-*", "claude-x") && matches("claude-x", "claude-x") && matches("*", "y"));
        assert!(!matches("claude-*", "gpt") && !matches("claude-x", "claude-x-2"));
    }
}
