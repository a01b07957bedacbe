//! Requests to the provider: over https, to where they are meant to go, and no longer or larger than need be.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use openidconnect::http::{Request, Response, StatusCode, header::ACCEPT};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use serde::de::DeserializeOwned;
use url::{Host, Url};

use super::OidcError;

/// Bytes of an answer. Real ones have some kilobytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The provider sends us to where anybody could listen.
    #[error("it names the address {0}, which is not https")]
    Insecure(String),
    /// A machine without certificates.
    #[error(
        "it is reached by https, and the service found no certificates on its machine when it began (apt install \
         ca-certificates, and start it again): {0}"
    )]
    NoTls(String),
    /// No answer in time.
    #[error("it did not answer within {} seconds", .0.as_secs_f32())]
    Slow(Duration),
    /// No connection, or one that broke.
    #[error("it could not be reached: {0}")]
    Unreachable(String),
    /// It says itself that it cannot.
    #[error("it answered with status {0}")]
    Failing(StatusCode),
    /// An answer without end.
    #[error("its answer has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// A request that cannot be made of what the provider said.
    #[error("no request could be made of what its discovery document says: {0}")]
    Malformed(String),
}

impl From<Failure> for OidcError {
    fn from(failure: Failure) -> Self {
        let detail = super::error::tidy(&failure.to_string());
        match failure {
            Failure::Insecure(_) | Failure::Malformed(_) => Self::NotConfigured(detail),
            Failure::NoTls(_) | Failure::Slow(_) | Failure::Unreachable(_) | Failure::Failing(_) => {
                Self::ProviderUnreachable(detail)
            }
            Failure::TooLarge => Self::BadAnswer(detail),
        }
    }
}

/// The client for one provider.
pub(super) struct Http {
    client: reqwest::Client,
    /// Why there is no https, if there is none.
    no_tls: Option<String>,
    /// The provider is on this machine, where http is as good.
    loopback: bool,
    /// How long an answer may take, to its last byte.
    pub(super) patience: Duration,
}

impl Http {
    pub(super) fn new(issuer: &Url, patience: Duration) -> Result<Self, String> {
        let loopback = is_loopback(issuer);
        let client = || {
            let client = reqwest::Client::builder()
                // One that sends us elsewhere would be sent the secret there.
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(patience);
            if loopback { client.no_proxy() } else { client }
        };
        // A machine without certificates still starts, and can sign people in by a provider of its own.
        let (client, no_tls) = match client().build() {
            Ok(client) => (client, None),
            Err(error) => (client().tls_certs_only([]).build().map_err(|error| cause(&error))?, Some(cause(&error))),
        };
        Ok(Self { client, no_tls, loopback, patience })
    }

    /// Whether something secret may be sent there.
    pub(super) fn permits(&self, url: &Url) -> bool {
        url.scheme() == "https" || (self.loopback && url.scheme() == "http" && is_loopback(url))
    }

    /// Gets a document.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: &Url) -> Result<T, OidcError> {
        let request = Request::get(url.as_str()).header(ACCEPT, "application/json").body(Vec::new());
        let request = request.map_err(|error| Failure::Malformed(error.to_string()))?;
        let answer = self.send(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(OidcError::unconfigured(format!(
                "{url} answers with status {}; oidc.issuer must be the provider's address",
                answer.status()
            )));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| OidcError::bad(format!("{url} is not what it should be: {error}")))
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

/// Whether an address is this machine's own, whatever is in its table of names.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The innermost text: the outermost says nothing but the address, and that may have a code in it.
fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
