//! Requests to a stand-in, and their answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;

/// The product whose interface the stand-in has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// GitHub Enterprise Server: the interface is below `/api/v3`.
    Github,
    /// GitLab: below `/api/v4`.
    Gitlab,
    /// Gitea: below `/api/v1`.
    Gitea,
    /// Forgejo: below `/api/v1`.
    Forgejo,
    /// Bitbucket Cloud: below `/2.0`.
    Bitbucket,
    /// Bitbucket Data Center: below `/rest`.
    BitbucketDataCenter,
}

/// A request to the interface.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// The method.
    pub method: Method,
    /// The path with the query, as it was sent.
    pub target: String,
    /// The decoded segments of the path, without the prefix of the interface.
    pub segments: Vec<String>,
    /// The query.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; `null` if it is empty or not JSON.
    pub body: Value,
}

impl ApiRequest {
    /// Returns a parameter of the query.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the token of the request, in any of the headers that hosts accept.
    #[must_use]
    pub fn token(&self) -> Option<String> {
        let text = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if let Some(token) = text("private-token") {
            return Some(token);
        }
        let value = text("authorization")?;
        if let Some(basic) = value.strip_prefix("Basic ") {
            let decoded = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
            return decoded.split_once(':').map(|(_, password)| password.to_owned());
        }
        value.split_once(' ').map(|(_, token)| token.to_owned())
    }
}

/// An answer of the interface.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// Returns an answer with a JSON body.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: Bytes::from(body.to_string()) }
    }

    /// Returns an answer with a text.
    #[must_use]
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: vec![("content-type".to_owned(), "text/plain".to_owned())], body: body.into().into() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// A request and its answer.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The request.
    pub call: ApiRequest,
    /// The answer; `None` if a fault was planned.
    pub reply: Option<Reply>,
}
