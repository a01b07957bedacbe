//! The client of one server, and its builder.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use url::Url;

use crate::call::{Call, Response};
use crate::error::Error;
use crate::job::JobHandle;
use crate::request::Request;
use crate::resources::{
    Audit, CodeHosts, Events, Inbox, Jobs, Keys, Messages, Projects, Pulls, Runs, Slack, Templates, Trusts,
    UsageReports, Users, Webhooks,
};

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

    /// Returns a client without an API key, which can exchange tokens ([`Trusts::exchange`]).
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

    /// Returns the operations on one job.
    pub fn job(&self, project: impl Into<String>, job: impl Into<String>) -> JobHandle {
        JobHandle::new(self.clone(), project.into(), job.into())
    }

    /// Returns the operations on jobs.
    pub fn jobs(&self) -> Jobs {
        Jobs { client: self.clone() }
    }

    /// Returns the operations on messages.
    pub fn messages(&self) -> Messages {
        Messages { client: self.clone() }
    }

    /// Returns the operations on runs.
    pub fn runs(&self) -> Runs {
        Runs { client: self.clone() }
    }

    /// Returns the operations on the feed of events.
    pub fn events(&self) -> Events {
        Events { client: self.clone() }
    }

    /// Returns the operations on projects.
    pub fn projects(&self) -> Projects {
        Projects { client: self.clone() }
    }

    /// Returns the operations on the pull requests of projects.
    pub fn pulls(&self) -> Pulls {
        Pulls { client: self.clone() }
    }

    /// Returns the operations on code hosts.
    pub fn code_hosts(&self) -> CodeHosts {
        CodeHosts { client: self.clone() }
    }

    /// Returns the operations on the inbox, which has the events of code hosts.
    pub fn inbox(&self) -> Inbox {
        Inbox { client: self.clone() }
    }

    /// Returns the operations on API keys.
    pub fn keys(&self) -> Keys {
        Keys { client: self.clone() }
    }

    /// Returns the operations on webhooks.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks { client: self.clone() }
    }

    /// Returns the operations on templates, which people choose when they create a job.
    pub fn templates(&self) -> Templates {
        Templates { client: self.clone() }
    }

    /// Returns the operations on trusts, and the exchange of tokens.
    pub fn trusts(&self) -> Trusts {
        Trusts { client: self.clone() }
    }

    /// Returns the operations on users of the dashboard.
    pub fn users(&self) -> Users {
        Users { client: self.clone() }
    }

    /// Returns the operations on Slack workspaces.
    pub fn slack(&self) -> Slack {
        Slack { client: self.clone() }
    }

    /// Returns the reports on usage.
    pub fn usage(&self) -> UsageReports {
        UsageReports { client: self.clone() }
    }

    /// Returns the operations on the audit log.
    pub fn audit(&self) -> Audit {
        Audit { client: self.clone() }
    }

    /// Sends any request with the key, for operations and headers without a method. `path` begins with a slash and ends
    /// before the query.
    ///
    /// Only `GET` and `HEAD` requests, and those with an idempotency key, are repeated if their answer is lost.
    pub fn request(&self, method: Method, path: &str) -> Call<Response> {
        let is_valid = path.starts_with('/') && !path.contains(['?', '#']);
        let request = Request::new(method, path.to_owned());
        let invalid = || Error::Invalid(format!("the path {path:?} must begin with a slash, and have no query"));
        Call::new(self.clone(), if is_valid { Ok(request) } else { Err(invalid()) }, |response| Ok(response.clone()))
    }
}
