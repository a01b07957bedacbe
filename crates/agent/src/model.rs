//! Which model is meant by `prefix/name`, how it is reached, and with which key.
//!
//! Invariant: the key leaves this module only inside the request to the model; [`Target::redact`] takes it out of
//! every text that is shown.

use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget};

/// The name of the test model.
const SCRIPTED: &str = "test/scripted";

/// The environment variables that may hold a key of a model; commands that the agent runs do not see them.
pub(crate) const KEY_VARIABLES: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The text is not `prefix/name` with a known prefix.
    #[error(
        "unknown model `{0}`: give test/scripted, or a name after one of anthropic/, openai/, openai-responses/, gemini/, ollama/, compatible/"
    )]
    Unknown(String),
    /// A `compatible/` model has no public address.
    #[error("the model `{0}` needs a base URL")]
    BaseUrlMissing(String),
    /// The base URL has another scheme than `http` or `https`.
    #[error("the base URL of the model must start with http:// or https://")]
    BaseUrlInvalid,
    /// The HTTP client could not be made.
    #[error("the HTTP client for the model could not be built: {0}")]
    Client(String),
}

/// The wire format that a model's server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Anthropic messages.
    Anthropic,
    /// Chat completions at OpenAI.
    OpenAi,
    /// The responses interface of OpenAI.
    OpenAiResponses,
    /// Google Gemini.
    Gemini,
    /// Ollama's own interface.
    Ollama,
    /// Chat completions at any other server.
    Compatible,
}

impl Dialect {
    fn from_prefix(prefix: &str) -> Option<Self> {
        Some(match prefix {
            "anthropic" => Self::Anthropic,
            "openai" => Self::OpenAi,
            "openai-responses" => Self::OpenAiResponses,
            "gemini" => Self::Gemini,
            "ollama" => Self::Ollama,
            "compatible" => Self::Compatible,
            _ => return None,
        })
    }

    fn adapter(self) -> AdapterKind {
        match self {
            Self::Anthropic => AdapterKind::Anthropic,
            Self::OpenAi | Self::Compatible => AdapterKind::OpenAI,
            Self::OpenAiResponses => AdapterKind::OpenAIResp,
            Self::Gemini => AdapterKind::Gemini,
            Self::Ollama => AdapterKind::Ollama,
        }
    }

    fn public_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com/v1/"),
            Self::OpenAi | Self::OpenAiResponses => Some("https://api.openai.com/v1/"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com/v1beta/"),
            Self::Ollama => Some("http://localhost:11434/"),
            Self::Compatible => None,
        }
    }

    /// The path that is usual between a server's address and the paths of the dialect.
    fn usual_path(self) -> &'static str {
        match self {
            Self::Anthropic | Self::OpenAi | Self::OpenAiResponses | Self::Compatible => "v1/",
            Self::Gemini => "v1beta/",
            Self::Ollama => "",
        }
    }

    /// A `compatible` server gets no key from the environment: the key of OpenAI is not for others.
    fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama | Self::Compatible => None,
        }
    }
}

/// A model as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Model {
    /// The test model.
    Scripted,
    /// A language model.
    Llm {
        /// What its server speaks.
        dialect: Dialect,
        /// Its name at the provider.
        name: String,
    },
}

impl Model {
    /// Reads `prefix/name`; the name may have slashes of its own.
    pub(crate) fn parse(model: &str) -> Result<Self, ModelError> {
        if model == SCRIPTED {
            return Ok(Self::Scripted);
        }
        let unknown = || ModelError::Unknown(model.to_owned());
        let (prefix, name) = model.split_once('/').ok_or_else(unknown)?;
        let dialect = Dialect::from_prefix(prefix).ok_or_else(unknown)?;
        if name.is_empty() {
            return Err(unknown());
        }
        Ok(Self::Llm { dialect, name: name.to_owned() })
    }
}

/// The context window in tokens that is assumed for a model whose size is not given: rather too small than too large.
pub(crate) fn usual_window(dialect: Dialect, name: &str) -> u64 {
    match dialect {
        Dialect::Anthropic => 200_000,
        Dialect::OpenAi | Dialect::OpenAiResponses => match name {
            _ if name.starts_with("gpt-4.1") => 1_000_000,
            _ if name.starts_with("gpt-5") || name.starts_with("gpt-6") => 272_000,
            _ if name.starts_with("o1") || name.starts_with("o3") || name.starts_with("o4") => 200_000,
            _ => 128_000,
        },
        Dialect::Gemini => 1_000_000,
        Dialect::Ollama => 32_768,
        Dialect::Compatible => 128_000,
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
    /// What the server speaks.
    pub(crate) dialect: Dialect,
    /// The model's name at the provider.
    pub(crate) name: String,
    base_url: String,
    key: Key,
}

impl Target {
    /// Works out address and key. A missing key is no error yet: the agent must be able to say so in a session.
    pub(crate) fn new(
        dialect: Dialect,
        name: &str,
        base_url: Option<&str>,
        api_key: Option<&str>,
    ) -> Result<Self, ModelError> {
        let base_url = match (base_url, dialect.public_url()) {
            (Some(given), _) => complete_url(given, dialect.usual_path())?,
            (None, Some(public)) => public.to_owned(),
            (None, None) => return Err(ModelError::BaseUrlMissing(name.to_owned())),
        };
        let key = match (api_key, dialect.key_variable()) {
            (Some(key), _) => Key::Known(key.to_owned()),
            (None, Some(variable)) => {
                AuthData::from_env(variable).single_key_value().map_or(Key::Missing { variable }, Key::Known)
            }
            (None, None) => Key::NotNeeded,
        };
        Ok(Self { dialect, name: name.to_owned(), base_url, key })
    }

    /// What is missing before the model can be called, as a text for the user.
    pub(crate) fn missing_key(&self) -> Option<String> {
        match &self.key {
            Key::Missing { variable } => {
                Some(format!("There is no key for the model `{}`: configure one, or set {variable}.", self.name))
            }
            Key::Known(_) | Key::NotNeeded => None,
        }
    }

    /// The target in the terms of `genai`.
    pub(crate) fn service(&self) -> ServiceTarget {
        let key = match &self.key {
            Key::Known(key) => key.as_str(),
            // Servers without authentication ignore the header that the adapter insists on sending.
            Key::Missing { .. } | Key::NotNeeded => "none",
        };
        ServiceTarget {
            endpoint: Endpoint::from_owned(self.base_url.as_str()),
            auth: AuthData::from_single(key),
            model: ModelIden::new(self.dialect.adapter(), self.name.as_str()),
        }
    }

    /// `text` without the key.
    pub(crate) fn redact(&self, text: &str) -> String {
        match &self.key {
            Key::Known(key) if !key.is_empty() => text.replace(key.as_str(), "[key]"),
            Key::Known(_) | Key::Missing { .. } | Key::NotNeeded => text.to_owned(),
        }
    }
}

/// The address that the paths of a dialect are appended to; it ends with a slash. A query is kept at its end.
fn complete_url(given: &str, usual_path: &str) -> Result<String, ModelError> {
    let (address, query) = match given.split_once('?') {
        Some((address, query)) => (address, format!("?{query}")),
        None => (given, String::new()),
    };
    let after_scheme = address
        .strip_prefix("http://")
        .or_else(|| address.strip_prefix("https://"))
        .filter(|rest| !rest.is_empty())
        .ok_or(ModelError::BaseUrlInvalid)?;
    let has_path = after_scheme.split_once('/').is_some_and(|(_, path)| !path.is_empty());
    let path = if has_path { "" } else { usual_path };
    Ok(format!("{}/{path}{query}", address.trim_end_matches('/')))
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
    fn a_base_url_gets_the_usual_path_only_if_it_has_none() {
        for (given, expected) in [
            ("http://localhost:1234", "http://localhost:1234/v1/"),
            ("http://localhost:1234/", "http://localhost:1234/v1/"),
            ("https://host/api", "https://host/api/"),
            ("https://host/api/v3/", "https://host/api/v3/"),
            ("https://host/v1?version=2", "https://host/v1/?version=2"),
            ("https://host?version=2", "https://host/v1/?version=2"),
        ] {
            assert_eq!(complete_url(given, "v1/").unwrap(), expected, "{given}");
        }
        for given in ["", "localhost", "ftp://host", "http://"] {
            assert!(complete_url(given, "v1/").is_err(), "{given}");
        }
    }

    #[test]
    fn the_key_is_taken_out_of_texts() {
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
