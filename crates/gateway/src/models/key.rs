//! The token that callers send, and the key that replaces it in the request to the provider.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use journeyman_core::model::Dialect;
use journeyman_core::secret::SecretValue;
use subtle::ConstantTimeEq;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The header fields of a request that are passed on to providers.
const PASSED: [&str; 5] = ["anthropic-beta", "anthropic-version", "openai-beta", "user-agent", "x-goog-api-client"];

/// The query parameters that are passed on to providers, with their values: an answer in another form could not be
/// counted.
const PASSED_PARAMETERS: [(&str, &str); 3] = [("alt", "sse"), ("alt", "json"), ("beta", "true")];

/// Returns whether a request has the token in one of the header fields or parameters in which the clients of providers
/// send their key.
pub(crate) fn is_shown(token: &str, headers: &HeaderMap, query: &str) -> bool {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let own = [X_API_KEY, X_GOOG_API_KEY].map(|name| headers.get(name).map(HeaderValue::as_bytes));
    let parameter = parameters(query).into_iter().find(|(name, _)| name == "key").map(|(_, value)| value);
    let shown = own.into_iter().chain([bearer, parameter.as_deref().map(str::as_bytes)]).flatten();
    // Compare all of them, so that the time reveals nothing.
    shown.fold(false, |found, shown| found | bool::from(shown.ct_eq(token.as_bytes())))
}

/// Returns the header fields for a provider, including the key.
pub(crate) fn headers(dialect: Dialect, given: &HeaderMap, key: Option<&SecretValue>) -> Result<HeaderMap, BadKey> {
    let mut headers = HeaderMap::new();
    for name in PASSED {
        if let Some(value) = given.get(name) {
            headers.insert(HeaderName::from_static(name), value.clone());
        }
    }
    // The tokens of a compressed answer could not be counted.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(SecretValue(key)) = key {
        let (name, value) = match dialect {
            Dialect::Anthropic => (X_API_KEY, key.trim().to_owned()),
            Dialect::Gemini => (X_GOOG_API_KEY, key.trim().to_owned()),
            Dialect::OpenAi | Dialect::OpenAiResponses | Dialect::Compatible | Dialect::Ollama => {
                (header::AUTHORIZATION, format!("Bearer {}", key.trim()))
            }
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| BadKey)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// An error for a key with characters that a header field cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadKey;

/// Returns the query parameters for a provider.
pub(crate) fn passed_parameters(query: &str) -> Vec<(String, String)> {
    let is_passed = |(name, value): &(String, String)| PASSED_PARAMETERS.contains(&(name.as_str(), value.as_str()));
    parameters(query).into_iter().filter(is_passed).collect()
}

fn parameters(query: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_token_is_taken_from_where_clients_put_keys() {
        for (headers, query, shown) in [
            (given(&[("authorization", "Bearer t0ken")]), "", true),
            (given(&[("x-api-key", "t0ken")]), "", true),
            (given(&[("x-goog-api-key", "t0ken")]), "", true),
            (given(&[]), "alt=sse&key=t0ken", true),
            (given(&[]), "", false),
            (given(&[("authorization", "Bearer other")]), "", false),
            (given(&[("authorization", "t0ken")]), "", false),
            (given(&[("x-api-key", "t0ke")]), "key=", false),
            (given(&[("cookie", "t0ken")]), "token=t0ken", false),
        ] {
            assert_eq!(is_shown("t0ken", &headers, query), shown, "{headers:?} {query}");
        }
    }

    #[test]
    fn a_provider_sees_its_key_and_little_else() {
        let asked = given(&[
            ("authorization", "Bearer t0ken"),
            ("x-api-key", "t0ken"),
            ("cookie", "c"),
            ("host", "evil"),
            ("x-forwarded-for", "1.2.3.4"),
            ("anthropic-version", "2023-06-01"),
        ]);
        let key = SecretValue("sk-real\n".to_owned());
        for (dialect, field, value) in [
            (Dialect::Anthropic, "x-api-key", "sk-real"),
            (Dialect::Gemini, "x-goog-api-key", "sk-real"),
            (Dialect::OpenAi, "authorization", "Bearer sk-real"),
        ] {
            let sent = headers(dialect, &asked, Some(&key)).unwrap();
            assert_eq!(sent.get(field).unwrap(), value);
            let mut names: Vec<&str> = sent.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            let mut expected = vec!["accept-encoding", "anthropic-version", field];
            expected.sort_unstable();
            assert_eq!(names, expected);
            assert!(!format!("{sent:?}").contains("real"), "{sent:?}");
        }
        assert!(headers(Dialect::OpenAi, &asked, Some(&SecretValue("a\nb".to_owned()))).is_err());
        assert_eq!(passed_parameters("alt=proto&alt=sse&key=t0ken&x=1"), [("alt".to_owned(), "sse".to_owned())]);
    }
}
