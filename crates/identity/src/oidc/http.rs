//! Requests to the provider: over https, without redirects, with limits of time and size.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use journeyman_net::{Client, Error as NetError, Limits, Settings, is_loopback};
use openidconnect::http::{Request, StatusCode, header::ACCEPT};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use serde::de::DeserializeOwned;
use url::Url;

use super::OidcError;

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
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json").body(Vec::new());
        let request = request.map_err(|error| Failure::Malformed(error.to_string()))?;
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

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Failure> {
        let url = Url::parse(&request.uri().to_string()).map_err(|error| Failure::Malformed(error.to_string()))?;
        if !self.permits(&url) {
            return Err(Failure::Insecure(url.origin().ascii_serialization()));
        }
        let limits = Limits { time: self.patience, bytes: MAX_BYTES };
        let answer = self.client.send(request.map(Bytes::from), limits).await?;
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Failure::Failing(status));
        }
        Ok(answer.map(|body| body.to_vec()))
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Failure>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}
