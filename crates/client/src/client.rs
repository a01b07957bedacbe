//! The client of one server, and its builder.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use url::Url;

use crate::error::Error;

/// The timeout of connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of a Journeyman server. Clones share the connections.
///
/// Calls are lazy: nothing is sent before the [`Call`] is awaited.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

/// The settings of a client and its clones.
pub(crate) struct Shared {
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    /// The header with the key; `None` for a client without one.
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) user_agent: HeaderValue,
    pub(crate) timeout: Duration,
    pub(crate) max_retries: u32,
    pub(crate) max_retry_after: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("url", &self.url().as_str()).finish_non_exhaustive()
    }
}

/// The settings of a new client.
#[derive(Clone)]
pub struct Builder {
    url: String,
    key: Option<String>,
    timeout: Duration,
    max_retries: u32,
    max_retry_after: Duration,
    user_agent: Option<String>,
    http: Option<reqwest::Client>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may contain a password until `build` has refused it.
        f.debug_struct("Builder")
            .field("timeout", &self.timeout)
            .field("max_retries", &self.max_retries)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Sets the time for which the server may send nothing during a request; by default, 30 seconds. The time for which
    /// a request asks the server to wait is added.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of times that a request is repeated after a temporary failure; by default, 4.
    #[must_use]
    pub fn max_retries(mut self, max_retries: u32) -> Self {
        self.max_retries = max_retries;
        self
    }

    /// Sets the longest `Retry-After` for which the client waits; by default, a minute. A longer one is left to the
    /// caller.
    #[must_use]
    pub fn max_retry_after(mut self, longest: Duration) -> Self {
        self.max_retry_after = longest;
        self
    }

    /// Adds the name of a program, such as `nightly/1.2`, to the header `User-Agent`.
    #[must_use]
    pub fn user_agent(mut self, program: impl Into<String>) -> Self {
        self.user_agent = Some(program.into());
        self
    }

    /// Uses another client of reqwest, for example with other proxies or certificates. It should not follow redirects.
    #[must_use]
    pub fn http_client(mut self, http: reqwest::Client) -> Self {
        self.http = Some(http);
        self
    }

    /// Returns the client.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the URL, the key or the name of the program is invalid.
    pub fn build(self) -> Result<Client, Error> {
        let invalid = |text: &str| Error::Invalid(text.to_owned());
        // The message must not contain the URL, which may have a password.
        let mut base =
            Url::parse(&self.url).map_err(|error| Error::Invalid(format!("the URL of the server: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(invalid("the URL of the server must begin with http:// or https://"));
        }
        if !base.username().is_empty()
            || base.password().is_some()
            || base.query().is_some()
            || base.fragment().is_some()
        {
            return Err(invalid("the URL of the server must have no user, query or fragment"));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let authorization = self.key.as_deref().map(authorization).transpose()?;
        let own = concat!("journeyman-client-rust/", env!("CARGO_PKG_VERSION"));
        let user_agent = self.user_agent.map_or_else(|| own.to_owned(), |program| format!("{own} {program}"));
        let user_agent =
            HeaderValue::from_str(&user_agent).map_err(|_| invalid("the user agent contains invalid characters"))?;
        let http = match self.http {
            Some(http) => http,
            // A redirect could send the key to another server.
            None => reqwest::Client::builder()
                .redirect(Policy::none())
                .connect_timeout(CONNECT_TIMEOUT)
                .build()
                .map_err(|error| Error::Invalid(format!("the HTTP client cannot be created: {error}")))?,
        };
        let Self { timeout, max_retries, max_retry_after, .. } = self;
        let shared = Shared { http, base, authorization, user_agent, timeout, max_retries, max_retry_after };
        Ok(Client { shared: Arc::new(shared) })
    }
}

/// Returns the header with a key.
fn authorization(key: &str) -> Result<HeaderValue, Error> {
    let key = key.trim();
    if key.is_empty() {
        return Err(Error::Invalid("the API key is missing".to_owned()));
    }
    let invalid = |_| Error::Invalid("the API key contains invalid characters".to_owned());
    let mut header = HeaderValue::from_str(&format!("Bearer {key}")).map_err(invalid)?;
    header.set_sensitive(true);
    Ok(header)
}

impl Client {
    /// Returns a client of the server at `url`, with the usual settings.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the URL or the key is invalid.
    pub fn new(url: impl Into<String>, key: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url, key).build()
    }

    /// Returns the settings of a new client.
    pub fn builder(url: impl Into<String>, key: impl Into<String>) -> Builder {
        Builder { key: Some(key.into()), ..Self::builder_without_key(url) }
    }

    /// Returns a client without an API key, which can exchange tokens
    /// ([`Trusts::exchange`](crate::resources::Trusts::exchange)).
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the URL is invalid.
    pub fn without_key(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder_without_key(url).build()
    }

    /// Returns the settings of a new client without an API key.
    pub fn builder_without_key(url: impl Into<String>) -> Builder {
        Builder {
            url: url.into(),
            key: None,
            timeout: Duration::from_secs(30),
            max_retries: 4,
            max_retry_after: Duration::from_secs(60),
            user_agent: None,
            http: None,
        }
    }

    /// Returns the URL of the server, which ends with a slash.
    pub fn url(&self) -> &Url {
        &self.shared.base
    }
}
