//! The model that `prefix/name` selects, its address, and its key.
//!
//! Invariant: the key leaves this module only inside the request to the model; [`Target::redact`] removes it from every
//! text that is shown.

use genai::adapter::AdapterKind;
use genai::resolver::AuthData;
use journeyman_core::model::{Dialect, InvalidBaseUrl, split};

/// The name of the test model.
const SCRIPTED: &str = "test/scripted";

/// The environment variable with the key of any model; it takes precedence over the variable of the provider.
const KEY_VARIABLE: &str = "JOURNEYMAN_AGENT_KEY";

/// The environment variables that may hold a key of a model; commands that the agent runs do not see them.
pub(crate) const KEY_VARIABLES: [&str; 4] = [KEY_VARIABLE, "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// An error in the choice or the configuration of a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The text is not `prefix/name` with a known prefix.
    #[error(
        "unknown model `{0}`: use test/scripted, or a name with one of the prefixes anthropic/, openai/, openai-responses/, gemini/, ollama/, compatible/"
    )]
    Unknown(String),
    /// A `compatible/` model has no public address, so it needs a base URL.
    #[error("the model `{0}` needs a base URL")]
    BaseUrlMissing(String),
    /// The base URL has a scheme other than `http` or `https`.
    #[error(transparent)]
    BaseUrl(#[from] InvalidBaseUrl),
    /// The HTTP client could not be built.
    #[error("the HTTP client for the model could not be built: {0}")]
    Client(String),
}

/// Returns the adapter of `genai` for a dialect.
pub(crate) fn adapter(dialect: Dialect) -> AdapterKind {
    match dialect {
        Dialect::Anthropic => AdapterKind::Anthropic,
        Dialect::OpenAi | Dialect::Compatible => AdapterKind::OpenAI,
        Dialect::OpenAiResponses => AdapterKind::OpenAIResp,
        Dialect::Gemini => AdapterKind::Gemini,
        Dialect::Ollama => AdapterKind::Ollama,
    }
}

/// A model that the user selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Model {
    /// The test model.
    Scripted,
    /// A language model.
    Llm {
        /// The wire format that the model's server speaks.
        dialect: Dialect,
        /// The model's name at the provider.
        name: String,
    },
}

impl Model {
    /// Parses `prefix/name`; the name may contain slashes.
    pub(crate) fn parse(model: &str) -> Result<Self, ModelError> {
        if model == SCRIPTED {
            return Ok(Self::Scripted);
        }
        let unknown = || ModelError::Unknown(model.to_owned());
        let (prefix, name) = split(model).ok_or_else(unknown)?;
        let dialect = Dialect::from_name(prefix).ok_or_else(unknown)?;
        Ok(Self::Llm { dialect, name: name.to_owned() })
    }
}

/// Returns the context window in tokens that is assumed for a model whose size is not given. The values err on the
/// small side.
pub(crate) fn usual_window(dialect: Dialect, name: &str) -> u64 {
    if let Some(tokens) = dialect.usual_context_tokens() {
        return tokens;
    }
    match dialect {
        Dialect::Anthropic => 200_000,
        Dialect::OpenAi | Dialect::OpenAiResponses => match name {
            _ if name.starts_with("gpt-4.1") => 1_000_000,
            _ if name.starts_with("gpt-5") || name.starts_with("gpt-6") => 272_000,
            _ if name.starts_with("o1") || name.starts_with("o3") || name.starts_with("o4") => 200_000,
            _ => 128_000,
        },
        Dialect::Gemini => 1_000_000,
        // `usual_context_tokens` covers Ollama.
        Dialect::Ollama | Dialect::Compatible => 128_000,
    }
}

/// The key of a model.
enum Key {
    Known(String),
    Missing { variable: &'static str },
    NotNeeded,
}

/// A model with its address and key, ready to be called.
pub(crate) struct Target {
    /// The wire format that the server speaks.
    pub(crate) dialect: Dialect,
    /// The model's name at the provider.
    pub(crate) name: String,
    base_url: String,
    key: Key,
}

impl Target {
    /// Determines the address and the key. A missing key is not an error here: the agent must be able to report it in a
    /// session.
    pub(crate) fn new(
        dialect: Dialect,
        name: &str,
        base_url: Option<&str>,
        api_key: Option<&str>,
    ) -> Result<Self, ModelError> {
        let base_url = match (base_url, dialect.public_url()) {
            (Some(given), _) => dialect.base_url(given)?,
            (None, Some(public)) => public.to_owned(),
            (None, None) => return Err(ModelError::BaseUrlMissing(name.to_owned())),
        };
        let of_variable = |variable: &str| AuthData::from_env(variable).single_key_value().ok();
        let given = api_key.map(str::to_owned).or_else(|| of_variable(KEY_VARIABLE));
        let key = match (given, dialect.key_variable()) {
            (Some(key), _) => Key::Known(key),
            (None, Some(variable)) => of_variable(variable).map_or(Key::Missing { variable }, Key::Known),
            (None, None) => Key::NotNeeded,
        };
        Ok(Self { dialect, name: name.to_owned(), base_url, key })
    }

    /// Returns a message for the user if the model needs a key and has none.
    pub(crate) fn missing_key(&self) -> Option<String> {
        match &self.key {
            Key::Missing { variable } => {
                Some(format!("There is no key for the model `{}`: configure one, or set {variable}.", self.name))
            }
            Key::Known(_) | Key::NotNeeded => None,
        }
    }

    /// Returns whether the server is reached over HTTPS.
    pub(crate) fn has_tls(&self) -> bool {
        self.base_url.starts_with("https:")
    }

    /// Returns the key, if it is known.
    pub(crate) fn key(&self) -> Option<&str> {
        match &self.key {
            Key::Known(key) => Some(key),
            Key::Missing { .. } | Key::NotNeeded => None,
        }
    }

    /// Returns the URL to which the paths of the dialect are appended.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns `text` with the key replaced by `[key]`.
    pub(crate) fn redact(&self, text: &str) -> String {
        match &self.key {
            Key::Known(key) if !key.is_empty() => text.replace(key.as_str(), "[key]"),
            Key::Known(_) | Key::Missing { .. } | Key::NotNeeded => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_by_prefix_and_name() {
        let llm = |dialect, name: &str| Model::Llm { dialect, name: name.to_owned() };
        for (text, expected) in [
            ("test/scripted", Model::Scripted),
            ("anthropic/claude-x", llm(Dialect::Anthropic, "claude-x")),
            ("openai/gpt-5", llm(Dialect::OpenAi, "gpt-5")),
            ("openai-responses/gpt-5", llm(Dialect::OpenAiResponses, "gpt-5")),
            ("gemini/g", llm(Dialect::Gemini, "g")),
            ("ollama/qwen3:8b", llm(Dialect::Ollama, "qwen3:8b")),
            ("compatible/org/model", llm(Dialect::Compatible, "org/model")),
        ] {
            assert_eq!(Model::parse(text).unwrap(), expected, "{text}");
        }
        for text in ["", "gpt-5", "openai/", "test/other", "azure/x"] {
            assert!(Model::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_key_is_removed_from_texts() {
        let target = Target::new(Dialect::OpenAi, "m", None, Some("sk-123")).unwrap();
        assert_eq!(target.redact("bad key sk-123!"), "bad key [key]!");
        let open = Target::new(Dialect::Ollama, "m", None, None).unwrap();
        assert_eq!(open.redact("text"), "text");
    }

    #[test]
    fn a_compatible_server_needs_an_address_but_no_key() {
        assert!(Target::new(Dialect::Compatible, "m", None, None).is_err());
        let target = Target::new(Dialect::Compatible, "m", Some("http://h"), None).unwrap();
        assert!(target.missing_key().is_none());
    }
}
