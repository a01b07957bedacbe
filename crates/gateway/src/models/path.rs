//! The paths of providers that the proxy allows.

use http::Method;
use journeyman_core::model::Dialect;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The format of a body and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Anthropic's Messages API.
    Messages,
    /// OpenAI's Chat Completions API.
    Chat,
    /// OpenAI's Responses API.
    Responses,
    /// Gemini's API.
    Contents,
    /// Ollama's own API.
    Ollama,
}

/// The purpose of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Generates an answer, which costs money.
    Generate,
    /// Asks for details, such as the number of tokens of a request.
    Ask,
    /// Lists models.
    List,
}

/// A path that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) purpose: Purpose,
    pub(crate) shape: Shape,
    /// The part after the provider's base URL.
    pub(crate) rest: String,
    /// The model's name, decoded, if the path has it.
    pub(crate) model: Option<String>,
}

/// The characters of a model's name that are encoded in a path: all except those that never have a meaning in one.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the allowed path that a request has. Paths are compared literally; only the name of a model in one is
/// decoded. Other paths with percent-encoding, doubled slashes or `..` are not allowed.
pub(crate) fn find(dialect: Dialect, method: &Method, path: &str) -> Option<Path> {
    use Purpose::{Ask, Generate, List};
    use Shape::{Chat, Contents, Messages, Responses};
    let under = |start: &str| path.strip_prefix(start);
    let of = |purpose, shape, rest: &str| Some(Path { purpose, shape, rest: rest.to_owned(), model: None });
    match (dialect, method) {
        (Dialect::Anthropic, &Method::POST) => match under("/v1/")? {
            rest @ "messages" => of(Generate, Messages, rest),
            rest @ "messages/count_tokens" => of(Ask, Messages, rest),
            _ => None,
        },
        (Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::Compatible, &Method::POST) => match under("/v1/")? {
            rest @ "chat/completions" => of(Generate, Chat, rest),
            rest @ "responses" => of(Generate, Responses, rest),
            _ => None,
        },
        (Dialect::Gemini, &Method::POST) => {
            let rest = under("/v1beta/")?;
            let (model, verb) = rest.strip_prefix("models/")?.rsplit_once(':')?;
            let purpose = match verb {
                "generateContent" | "streamGenerateContent" => Generate,
                "countTokens" => Ask,
                _ => return None,
            };
            let (model, encoded) = name(model)?;
            Some(Path { purpose, shape: Contents, rest: format!("models/{encoded}:{verb}"), model: Some(model) })
        }
        (Dialect::Ollama, &Method::POST) => match path {
            "/api/chat" | "/api/generate" => of(Generate, Shape::Ollama, path.trim_start_matches('/')),
            "/api/show" => of(Ask, Shape::Ollama, "api/show"),
            "/v1/chat/completions" => of(Generate, Chat, "v1/chat/completions"),
            _ => None,
        },
        (Dialect::Ollama, &Method::GET) => match path {
            "/api/tags" | "/api/version" | "/v1/models" => of(List, Shape::Ollama, path.trim_start_matches('/')),
            _ => None,
        },
        (dialect, &Method::GET) => {
            let (start, shape) = if dialect == Dialect::Gemini { ("/v1beta/", Contents) } else { ("/v1/", Chat) };
            let rest = under(start)?;
            match rest.strip_prefix("models/") {
                Some(model) => of(List, shape, &format!("models/{}", name(model)?.1)),
                None if rest == "models" => of(List, shape, rest),
                None => None,
            }
        }
        _ => None,
    }
}

/// Decodes the name of a model in a path, and encodes it for the provider. Returns `None` if it is not UTF-8, has a
/// control character, or could lead out of the folder of the models, in a server that decodes it too. A name may have
/// slashes, as at OpenRouter, encoded or not.
fn name(encoded: &str) -> Option<(String, String)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(|name| name.into_owned());
    let name = decode(encoded)?;
    let is_good = |part: &str| !part.is_empty() && !part.bytes().all(|b| b == b'.');
    if name.contains(char::is_control) || !name.split(['/', '\\']).all(is_good) {
        return None;
    }
    let parts: Option<Vec<String>> =
        encoded.split('/').map(|part| Some(utf8_percent_encode(&decode(part)?, ENCODED).to_string())).collect();
    Some((name, parts?.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_for_models_are_allowed() {
        for (dialect, method, path, purpose, rest) in [
            (Dialect::Anthropic, Method::POST, "/v1/messages", Purpose::Generate, "messages"),
            (Dialect::Anthropic, Method::POST, "/v1/messages/count_tokens", Purpose::Ask, "messages/count_tokens"),
            (Dialect::Anthropic, Method::GET, "/v1/models", Purpose::List, "models"),
            (Dialect::OpenAi, Method::POST, "/v1/chat/completions", Purpose::Generate, "chat/completions"),
            (Dialect::OpenAi, Method::POST, "/v1/responses", Purpose::Generate, "responses"),
            (Dialect::Compatible, Method::GET, "/v1/models/x-1.5", Purpose::List, "models/x-1.5"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/g:countTokens", Purpose::Ask, "models/g:countTokens"),
            (Dialect::Gemini, Method::GET, "/v1beta/models", Purpose::List, "models"),
            (Dialect::Ollama, Method::POST, "/api/chat", Purpose::Generate, "api/chat"),
            (Dialect::Ollama, Method::GET, "/api/tags", Purpose::List, "api/tags"),
        ] {
            let found = find(dialect, &method, path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!((found.purpose, found.rest.as_str()), (purpose, rest), "{path}");
        }
    }

    #[test]
    fn the_name_in_a_path_is_decoded_and_sent_encoded() {
        for (encoded, name, sent) in [
            ("gemini-2.5", "gemini-2.5", "gemini-2.5"),
            ("gemini-3-pro-high", "gemini-3-pro-high", "gemini-3-pro-high"),
            ("g%65mini", "gemini", "gemini"),
            ("a%20b%3Ac", "a b:c", "a%20b%3Ac"),
            ("org%2Fm", "org/m", "org%2Fm"),
            ("org/m", "org/m", "org/m"),
            ("a:b", "a:b", "a%3Ab"),
            ("a%3A%3Ab", "a::b", "a%3A%3Ab"),
            ("%252e", "%2e", "%252e"),
            ("gr%C3%B6%C3%9Fe", "größe", "gr%C3%B6%C3%9Fe"),
            ("a%3Fb%23c", "a?b#c", "a%3Fb%23c"),
        ] {
            let path = format!("/v1beta/models/{encoded}:streamGenerateContent");
            let found = find(Dialect::Gemini, &Method::POST, &path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(found.model.as_deref(), Some(name), "{path}");
            assert_eq!(found.rest, format!("models/{sent}:streamGenerateContent"), "{path}");
        }
        for (encoded, sent) in [
            ("x-1.5", "x-1.5"),
            ("org/m", "org/m"),
            ("org%2Fm", "org%2Fm"),
            ("a%20b", "a%20b"),
            ("qwen3:8b", "qwen3%3A8b"),
        ] {
            let path = format!("/v1/models/{encoded}");
            let found = find(Dialect::Compatible, &Method::GET, &path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(found.rest, format!("models/{sent}"), "{path}");
        }
    }

    #[test]
    fn a_name_in_a_path_stays_below_the_base_url() {
        let base = url::Url::parse("https://h/secret/v1beta/").unwrap();
        for name in ["..", "../b", "a/../../..", "..\\b", "%2e%2e", ".", "//evil", "?x", "#x", " ", "..;/x"] {
            let encoded = utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
            for encoded in [encoded.as_str(), name] {
                let paths = [
                    (Method::POST, format!("/v1beta/models/{encoded}:generateContent")),
                    (Method::GET, format!("/v1beta/models/{encoded}")),
                ];
                for (method, path) in paths {
                    let Some(found) = find(Dialect::Gemini, &method, &path) else { continue };
                    let mut url = base.clone();
                    url.set_path(&format!("{}{}", base.path(), found.rest));
                    assert!(url.path().starts_with("/secret/v1beta/models/"), "{method} {path}: {url}");
                    assert_eq!((url.host_str(), url.query(), url.fragment()), (Some("h"), None, None), "{path}");
                }
            }
        }
    }

    #[test]
    fn other_paths_are_not_allowed() {
        for (dialect, method, path) in [
            (Dialect::Anthropic, Method::POST, "/v1/messages/batches"),
            (Dialect::Anthropic, Method::POST, "/v1/files"),
            (Dialect::Anthropic, Method::GET, "/v1/organizations/api_keys"),
            (Dialect::Anthropic, Method::GET, "/v1/models/../organizations"),
            (Dialect::Anthropic, Method::GET, "/v1/models/.."),
            (Dialect::Anthropic, Method::GET, "/v1/models/%2e%2e"),
            (Dialect::Anthropic, Method::GET, "/v1/models/%2E./x"),
            (Dialect::Anthropic, Method::GET, "/v1/models/a%2F..%2F..%2Forganizations"),
            (Dialect::Anthropic, Method::GET, "/v1/models/..%5Cx"),
            (Dialect::Anthropic, Method::GET, "/v1/models/a//b"),
            (Dialect::Anthropic, Method::GET, "/v1/models/"),
            (Dialect::Anthropic, Method::GET, "/v1/models/a%00"),
            (Dialect::Anthropic, Method::GET, "/v1/models/%ff"),
            (Dialect::Anthropic, Method::GET, "/v1/%6dodels"),
            (Dialect::Anthropic, Method::POST, "/v1/messages/"),
            (Dialect::Anthropic, Method::POST, "//v1/messages"),
            (Dialect::Anthropic, Method::POST, "/v1/chat/completions"),
            (Dialect::Anthropic, Method::DELETE, "/v1/messages"),
            (Dialect::OpenAi, Method::POST, "/v1/files"),
            (Dialect::OpenAi, Method::POST, "/v1/embeddings"),
            (Dialect::OpenAi, Method::GET, "/v1/responses/resp_1"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/:generateContent"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/a%0Ab:generateContent"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/..:generateContent"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/../x:generateContent"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/a%2F..%2F..%2Fx:generateContent"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/x:predict"),
            (Dialect::Gemini, Method::POST, "/upload/v1beta/files"),
            (Dialect::Ollama, Method::POST, "/api/pull"),
            (Dialect::Ollama, Method::DELETE, "/api/delete"),
        ] {
            assert_eq!(find(dialect, &method, path), None, "{method} {path}");
        }
    }
}
