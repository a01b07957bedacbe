//! Requests to the provider: over https, without redirects, with limits of time and size.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use journeyman_net::{Client, Error as NetError, Limits, Settings, is_loopback};
use serde::de::DeserializeOwned;
use url::Url;

use super::OidcError;

/// The media type of all requested documents.
pub(super) const JSON: &str = "application/json";

/// The maximum size of a response body, in bytes. Real ones have a few kilobytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The failure of a request to the provider.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The provider names a URL that does not use https.
    #[error("the provider names the address {0}, which does not use https")]
    Insecure(String),
    /// The provider answered with a server error, or with 429 Too Many Requests.
    #[error("the provider answered with status {0}")]
    Failing(StatusCode),
    /// The request could not be built.
    #[error("a request to the provider is malformed: {0}")]
    Malformed(String),
    /// The request failed.
    #[error("the provider cannot be reached: {0}")]
    Net(#[from] journeyman_net::Error),
}

impl From<http::Error> for Failure {
    fn from(error: http::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<Failure> for OidcError {
    fn from(failure: Failure) -> Self {
        let detail = super::error::one_line(&failure.to_string());
        match failure {
            Failure::Insecure(_) | Failure::Malformed(_) | Failure::Net(NetError::Malformed(_)) => {
                Self::NotConfigured(detail)
            }
            Failure::Net(NetError::TooLarge(_)) => Self::BadAnswer(detail),
            Failure::Failing(_) | Failure::Net(_) => Self::ProviderUnreachable(detail),
        }
    }
}

/// The HTTP client for one provider.
pub(super) struct Http {
    client: Client,
    /// True if the provider runs on this machine, where plain http is safe.
    loopback: bool,
    /// The timeout for a response, to its last byte.
    pub(super) patience: Duration,
}

impl Http {
    pub(super) fn new(issuer: &Url, patience: Duration) -> Self {
        let loopback = is_loopback(issuer);
        let settings = Settings { connect_time: patience, no_proxy: loopback, ..Settings::default() };
        Self { client: Client::new(settings), loopback, patience }
    }

    /// Returns true if it is safe to send secrets to the URL.
    pub(super) fn permits(&self, url: &Url) -> bool {
        url.scheme() == "https" || (self.loopback && url.scheme() == "http" && is_loopback(url))
    }

    /// Fetches and parses a JSON document.
    ///
    /// # Errors
    /// Fails if the request fails, or if the response is not a valid document with status 200.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<T, OidcError> {
        let request = Request::get(url.as_str()).header(ACCEPT, JSON).body(Bytes::new()).map_err(Failure::from)?;
        let answer = self.send(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(OidcError::unconfigured(format!(
                "{url} answers with status {}; oidc-issuer must be the provider's address",
                answer.status()
            )));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| OidcError::bad(format!("the document at {url} is not valid: {error}")))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Fails if the URL does not use https, if no complete response arrives in time, or if the provider reports that it
    /// is unavailable.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Failure> {
        let url = Url::parse(&request.uri().to_string()).map_err(|error| Failure::Malformed(error.to_string()))?;
        if !self.permits(&url) {
            return Err(Failure::Insecure(url.origin().ascii_serialization()));
        }
        let limits = Limits { time: self.patience, bytes: MAX_BYTES };
        let answer = self.client.send(request, limits).await?;
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Failure::Failing(status));
        }
        Ok(answer)
    }
}

/// Returns the media type of a response if it is not JSON. A response without a media type counts as JSON.
pub(super) fn other_media_type(response: &Response<Bytes>) -> Option<&HeaderValue> {
    let is_json = |value: &HeaderValue| {
        // Parameters such as `charset` follow a semicolon.
        let essence = value.to_str().ok().and_then(|text| text.split(';').next());
        essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
    };
    response.headers().get(CONTENT_TYPE).filter(|value| !is_json(value))
}

/// Parses JSON that may contain a secret.
///
/// # Errors
/// Returns the path of the invalid field, without its value.
pub(super) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| error.path().to_string())?;
    json.end().map_err(|_| "the end".to_owned())?;
    Ok(parsed)
}
