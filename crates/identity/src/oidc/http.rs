//! Requests to the provider: over https, without redirects, with limits of time and size.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use openidconnect::http::{Request, Response, StatusCode, header::ACCEPT};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use serde::de::DeserializeOwned;
use url::{Host, Url};

use super::OidcError;

/// The maximum size of a response body, in bytes. Real ones have a few kilobytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The failure of a request to the provider.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The provider names a URL that does not use https.
    #[error("the provider names the address {0}, which does not use https")]
    Insecure(String),
    /// No CA certificates were found on this machine at startup.
    #[error(
        "the provider uses https, and the service found no CA certificates on its machine at startup (apt install \
         ca-certificates, then restart the service): {0}"
    )]
    NoTls(String),
    /// The timeout expired before the end of the response.
    #[error("the provider did not answer within {} seconds", .0.as_secs_f32())]
    Slow(Duration),
    /// The connection could not be opened, or broke.
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    /// The provider answered with a server error, or with 429 Too Many Requests.
    #[error("the provider answered with status {0}")]
    Failing(StatusCode),
    /// The response body exceeds [`MAX_BYTES`].
    #[error("the provider's response has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// The request could not be built, or the response could not be converted.
    #[error("a request to the provider, or its response, is malformed: {0}")]
    Malformed(String),
}

impl From<Failure> for OidcError {
    fn from(failure: Failure) -> Self {
        let detail = super::error::one_line(&failure.to_string());
        match failure {
            Failure::Insecure(_) | Failure::Malformed(_) => Self::NotConfigured(detail),
            Failure::NoTls(_) | Failure::Slow(_) | Failure::Unreachable(_) | Failure::Failing(_) => {
                Self::ProviderUnreachable(detail)
            }
            Failure::TooLarge => Self::BadAnswer(detail),
        }
    }
}

/// The HTTP client for one provider.
pub(super) struct Http {
    client: reqwest::Client,
    /// The reason why https is not available, if it is not.
    no_tls: Option<String>,
    /// True if the provider runs on this machine, where plain http is safe.
    loopback: bool,
    /// The timeout for a response, to its last byte.
    pub(super) patience: Duration,
}

impl Http {
    pub(super) fn new(issuer: &Url, patience: Duration) -> Result<Self, String> {
        let loopback = is_loopback(issuer);
        let client = || {
            let client = reqwest::Client::builder()
                // A redirect would send the client secret to another server.
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(patience);
            if loopback { client.no_proxy() } else { client }
        };
        // Without CA certificates the service still starts, and a provider on the loopback still works.
        let (client, no_tls) = match client().build() {
            Ok(client) => (client, None),
            Err(error) => (client().tls_certs_only([]).build().map_err(|error| cause(&error))?, Some(cause(&error))),
        };
        Ok(Self { client, no_tls, loopback, patience })
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
        let mut request = reqwest::Request::try_from(request).map_err(|error| Failure::Malformed(cause(&error)))?;
        let url = request.url();
        if !self.permits(url) {
            return Err(Failure::Insecure(url.origin().ascii_serialization()));
        }
        if let Some(why) = self.no_tls.as_ref().filter(|_| url.scheme() == "https") {
            return Err(Failure::NoTls(why.clone()));
        }
        *request.timeout_mut() = Some(self.patience);
        let mut answer = self.client.execute(request).await.map_err(|error| self.failed(&error))?;
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Failure::Failing(status));
        }
        let mut copy = Response::builder().status(status);
        for (name, value) in answer.headers() {
            copy = copy.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| self.failed(&error))? {
            if body.len() + piece.len() > MAX_BYTES {
                return Err(Failure::TooLarge);
            }
            body.extend_from_slice(&piece);
        }
        copy.body(body).map_err(|error| Failure::Malformed(error.to_string()))
    }

    fn failed(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() { Failure::Slow(self.patience) } else { Failure::Unreachable(cause(error)) }
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Failure>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

/// Returns true for a loopback IP address and for the name `localhost`. Does not resolve other names.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Returns the text of the innermost error. The outermost one only names the URL, which may contain a code.
fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
