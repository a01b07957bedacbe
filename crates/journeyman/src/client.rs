//! A client of the HTTP interface, for the commands that connect to a server.
//!
//! Requests can be repeated: those for new projects, jobs and messages carry an idempotency key, and repeating the
//! others has no further effect. The client therefore retries after a lost connection, while a server restarts, and
//! after a short rate limit. The API key never appears in an error text.

mod events;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use url::Url;

pub(crate) use self::events::{Event, Events};

/// The maximum number of attempts at a request.
const ATTEMPTS: u32 = 5;

/// The longest `Retry-After`, in seconds, for which the client waits; longer waits are left to the user.
const PATIENCE_SECONDS: u64 = 10;

/// The timeout of a response, in addition to the time that the request asks the server to wait.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The timeout of an answer of the Model Context Protocol. The server waits at most 50 seconds for a job.
const MCP_TIME: Duration = Duration::from_secs(90);

/// A client for one server.
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
}

/// An error of a request.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// The server cannot be reached.
    Unreachable {
        url: String,
        cause: String,
        /// `true` if no connection could be opened, so the request was not sent.
        is_unsent: bool,
    },
    /// The server responded with an error status.
    Refused {
        status: StatusCode,
        /// The error as the server sent it.
        body: Value,
    },
    /// The URL or the key is invalid, or the response is not one of this interface.
    Unusable(String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable { url, cause, .. } => {
                write!(f, "cannot reach a server at {url} ({cause}); start one with `journeyman serve`, or set --url")
            }
            Self::Refused { status, body } => match (body["error"].as_str(), body["requestId"].as_str()) {
                (Some(text), Some(id)) => write!(f, "{text} (request {id})"),
                _ => write!(f, "the server responded with {status} and no reason; is --url that of a Journeyman?"),
            },
            Self::Unusable(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ClientError {}

/// A request to the HTTP interface.
pub(crate) struct Request<'a> {
    method: Method,
    path: String,
    query: Vec<(&'a str, String)>,
    body: Option<&'a Value>,
    idempotency: Option<&'a str>,
    accept: &'static str,
    /// The time that the response may take in addition to [`ANSWER_TIME`].
    wait: Duration,
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let (query, accept) = (Vec::new(), "application/json");
        Self { method, path: path.into(), query, body: None, idempotency: None, accept, wait: Duration::ZERO }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn query(mut self, name: &'a str, value: Option<String>) -> Self {
        self.query.extend(value.map(|value| (name, value)));
        self
    }

    pub(crate) const fn body(mut self, body: &'a Value, idempotency: Option<&'a str>) -> Self {
        self.body = Some(body);
        self.idempotency = idempotency;
        self
    }

    /// Asks the server to wait up to `seconds` before it responds.
    pub(crate) fn wait(self, seconds: u64) -> Self {
        Self { wait: Duration::from_secs(seconds), ..self }.query("wait", Some(seconds.to_string()))
    }
}

/// The headers of a message of the Model Context Protocol.
#[derive(Debug, Default)]
pub(crate) struct McpHeaders {
    /// The version of the protocol.
    pub(crate) version: Option<String>,
    /// The method of the message.
    pub(crate) method: Option<String>,
    /// The tool, resource or task that the message is about.
    pub(crate) name: Option<String>,
}

/// Encodes a value of a header as the protocol says: in base64 if it is not plain ASCII.
fn header_value(text: &str) -> String {
    let is_plain = text.chars().all(|character| matches!(character, '!'..='~' | ' ')) && text.trim() == text;
    if is_plain && !text.starts_with("=?") { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

/// Returns a new idempotency key that starts with `prefix`.
pub(crate) fn idempotency_key(prefix: &str) -> String {
    format!("{prefix}-{:016x}", rand::Rng::next_u64(&mut rand::rng()))
}

impl Client {
    /// Returns a client for the server at `url`.
    ///
    /// # Errors
    /// The URL or the key is invalid.
    pub(crate) fn new(url: &str, key: &str) -> Result<Self, ClientError> {
        let unusable = |text: &str| ClientError::Unusable(text.to_owned());
        let mut base = Url::parse(url).map_err(|error| ClientError::Unusable(format!("the URL {url:?}: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(unusable("the URL of the server must begin with http:// or https://"));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let key = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
        let mut key = key.map_err(|_| unusable("the API key contains invalid characters"))?;
        key.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, key)]);
        let agent = concat!("journeyman/", env!("CARGO_PKG_VERSION"));
        let http = reqwest::Client::builder().default_headers(headers).user_agent(agent).build();
        Ok(Self { http: http.map_err(|error| ClientError::Unusable(error.to_string()))?, base })
    }

    /// Sends a request, and retries it after temporary failures. The status of the response is a success.
    pub(crate) async fn send(&self, request: &Request<'_>) -> Result<Response, ClientError> {
        let mut attempt = 1;
        loop {
            let (error, wait) = match self.attempt(request).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let Some(wait) = wait.filter(|_| attempt < ATTEMPTS) else { return Err(error) };
            tokio::time::sleep(wait.unwrap_or_else(|| Duration::from_millis(250 << attempt))).await;
            attempt += 1;
        }
    }

    /// Sends a request once. An error comes with `Some` if a retry makes sense, and with the delay that the server
    /// requests, if any.
    async fn attempt(&self, request: &Request<'_>) -> Result<Response, (ClientError, Option<Option<Duration>>)> {
        let url = self.base.join(request.path.trim_start_matches('/'));
        let url = url.map_err(|error| (ClientError::Unusable(format!("{:?}: {error}", request.path)), None))?;
        let mut sent = self.http.request(request.method.clone(), url).query(&request.query);
        sent = sent.header(ACCEPT, request.accept);
        if let Some(body) = request.body {
            sent = sent.json(body);
        }
        if let Some(key) = request.idempotency {
            sent = sent.header("idempotency-key", key);
        }
        // A stream of events stays open indefinitely, so it has no timeout.
        if request.accept != events::STREAM {
            sent = sent.timeout(ANSWER_TIME + request.wait);
        }
        let response = sent.send().await.map_err(|error| (self.unreachable(&error), Some(None)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let body = response.text().await.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let passes = matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
            && seconds.is_none_or(|seconds| seconds <= PATIENCE_SECONDS);
        Err((ClientError::Refused { status, body }, passes.then(|| seconds.map(Duration::from_secs))))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        // The innermost cause is the specific one, such as "connection refused".
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        ClientError::Unreachable { url: self.base.to_string(), cause: cause.to_string(), is_unsent: error.is_connect() }
    }

    /// Sends a request, and parses the response as JSON.
    pub(crate) async fn json(&self, request: Request<'_>) -> Result<Value, ClientError> {
        let response = self.send(&request).await?;
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_str(&text)
            .map_err(|_| ClientError::Unusable(format!("{} did not respond with JSON; is it a Journeyman?", self.base)))
    }

    /// Sends a message of the Model Context Protocol once, and returns the answer, if there is one.
    pub(crate) async fn mcp(&self, message: &Value, headers: &McpHeaders) -> Result<Option<Value>, ClientError> {
        let url = self.base.join("mcp").map_err(|error| ClientError::Unusable(error.to_string()))?;
        let mut sent = self.http.post(url).header(ACCEPT, "application/json, text/event-stream").json(message);
        let named =
            [("mcp-protocol-version", &headers.version), ("mcp-method", &headers.method), ("mcp-name", &headers.name)];
        for (name, value) in named {
            if let Some(value) = value {
                sent = sent.header(name, header_value(value));
            }
        }
        let response = sent.timeout(MCP_TIME).send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        let body: Option<Value> = serde_json::from_str(&text).ok();
        match body {
            // Errors of the protocol may have an error status.
            Some(answer) if answer["jsonrpc"] == "2.0" => Ok(Some(answer)),
            None if status.is_success() && text.is_empty() => Ok(None),
            body => Err(ClientError::Refused { status, body: body.unwrap_or_default() }),
        }
    }

    /// Sends a request, and returns the bytes of the response.
    pub(crate) async fn bytes(&self, request: Request<'_>) -> Result<Vec<u8>, ClientError> {
        let response = self.send(&request).await?;
        Ok(response.bytes().await.map_err(|error| self.unreachable(&error))?.into())
    }

    /// Returns the events of a job with a number above `after`, including future ones.
    pub(crate) fn events(&self, path: String, after: u64) -> Events<'_> {
        Events::new(self, path, after)
    }
}
