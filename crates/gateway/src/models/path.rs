//! The paths of providers that the proxy allows.

use http::Method;
use journeyman_core::model::Dialect;

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
    /// The model, if the path names it.
    pub(crate) model: Option<String>,
}

/// Returns the allowed path that a request has. Paths are compared literally: a path with percent-encoding, doubled
/// slashes or `..` is not allowed.
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
            let (model, verb) = rest.strip_prefix("models/")?.split_once(':')?;
            let purpose = match verb {
                "generateContent" | "streamGenerateContent" => Generate,
                "countTokens" => Ask,
                _ => return None,
            };
            let model = is_name(model).then(|| model.to_owned())?;
            Some(Path { purpose, shape: Contents, rest: rest.to_owned(), model: Some(model) })
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
            let one = rest.strip_prefix("models/").is_some_and(is_name);
            if rest == "models" || one { of(List, shape, rest) } else { None }
        }
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    !text.is_empty() && text.bytes().all(good) && text.bytes().any(|b| b != b'.')
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
        let gemini = find(Dialect::Gemini, &Method::POST, "/v1beta/models/gemini-2.5:streamGenerateContent").unwrap();
        assert_eq!(gemini.model.as_deref(), Some("gemini-2.5"));
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
            (Dialect::Anthropic, Method::POST, "/v1/messages/"),
            (Dialect::Anthropic, Method::POST, "//v1/messages"),
            (Dialect::Anthropic, Method::POST, "/v1/chat/completions"),
            (Dialect::Anthropic, Method::DELETE, "/v1/messages"),
            (Dialect::OpenAi, Method::POST, "/v1/files"),
            (Dialect::OpenAi, Method::POST, "/v1/embeddings"),
            (Dialect::OpenAi, Method::GET, "/v1/responses/resp_1"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/a/b:generateContent"),
            (Dialect::Gemini, Method::POST, "/v1beta/models/x:predict"),
            (Dialect::Gemini, Method::POST, "/upload/v1beta/files"),
            (Dialect::Ollama, Method::POST, "/api/pull"),
            (Dialect::Ollama, Method::DELETE, "/api/delete"),
        ] {
            assert_eq!(find(dialect, &method, path), None, "{method} {path}");
        }
    }
}
