//! The HTTP client.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect;
use url::Url;

use crate::error::root_cause;
use crate::{Error, Policy, Proxies, Resolver, SystemResolver, Target};

/// The settings of a [`Client`].
#[derive(Clone)]
pub struct Settings {
    /// The addresses that requests may go to.
    pub policy: Policy,
    /// Resolves names.
    pub resolver: Arc<dyn Resolver>,
    /// The time limit for opening a connection.
    pub connect_time: Duration,
    /// True if each request needs a separate connection. On a shared one, an answer that is not read would block the
    /// others.
    pub http1_only: bool,
    /// The longest time between two parts of an answer; `None` means no limit.
    pub read_time: Option<Duration>,
    /// True if http URLs are refused.
    pub https_only: bool,
    /// True if requests ignore the proxy that the environment names.
    pub no_proxy: bool,
    /// The proxies that the environment names, for [`Policy::PublicOrProxied`].
    pub proxies: Arc<Proxies>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Any,
            resolver: Arc::new(SystemResolver),
            connect_time: Duration::from_secs(15),
            http1_only: false,
            read_time: None,
            https_only: false,
            no_proxy: false,
            proxies: Arc::default(),
        }
    }
}

/// The limits of a request whose answer is read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The time from the start of the request to the last byte of the answer.
    pub time: Duration,
    /// The maximum size of the body of the answer, in bytes.
    pub bytes: usize,
}

/// An HTTP client that follows no redirects and connects only to permitted addresses. Cheap to clone.
///
/// Reading the CA certificates of the machine takes about 10 ms of processor time, and most clients of a process send no
/// request. So a client is built for its first request.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    settings: Settings,
    /// The client for http and https.
    full: OnceLock<reqwest::Client>,
    /// The client for http that is used until the machine has CA certificates.
    plain: OnceLock<reqwest::Client>,
}

impl Client {
    /// Creates a client. Without CA certificates on the machine, only http works; each request by https looks for them
    /// again.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Inner { settings, full: OnceLock::new(), plain: OnceLock::new() }))
    }

    // The futures are boxed: for each function that awaits one, the compiler would otherwise look through the large futures
    // of the HTTP library again, which takes minutes in all.

    /// Sends a request, and returns the answer when its head has arrived. The caller must limit the time and the size.
    ///
    /// # Errors
    /// The URL is not permitted, or the server cannot be reached.
    pub fn start(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<reqwest::Response, Error>> {
        Box::pin(self.0.execute(request, None))
    }

    /// Sends a request, and reads the whole answer.
    ///
    /// # Errors
    /// The URL is not permitted, the server cannot be reached, or a limit is exceeded.
    pub fn send(
        &self,
        request: http::Request<Bytes>,
        limits: Limits,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, Error>> {
        Box::pin(self.0.send(request, limits))
    }

    /// Sends a request whose body is a stream, and returns the answer when its head has arrived. If the size of the body is
    /// known, the request must have a `Content-Length`. The caller must limit the time and the size.
    ///
    /// # Errors
    /// The URL is not permitted, the body cannot be read, or the server cannot be reached.
    pub fn start_with_body<S>(
        &self,
        request: http::Request<()>,
        body: S,
    ) -> BoxFuture<'_, Result<reqwest::Response, Error>>
    where
        S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    {
        let request = request.map(|()| reqwest::Body::wrap_stream(body));
        Box::pin(self.0.execute(request, None))
    }

    /// Returns the inner client, for libraries that make their own requests to URLs that the operator chose.
    ///
    /// # Errors
    /// The client cannot be built; only https is permitted, and there are no CA certificates.
    pub fn for_library(&self) -> Result<reqwest::Client, Error> {
        self.0.built(self.0.settings.https_only).cloned()
    }
}

impl Inner {
    async fn send(&self, request: http::Request<Bytes>, limits: Limits) -> Result<http::Response<Bytes>, Error> {
        let mut answer = self.execute(request, Some(limits.time)).await?;
        let mut whole = http::Response::builder().status(answer.status());
        for (name, value) in answer.headers() {
            whole = whole.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| Error::from_client(&error, limits.time))? {
            if body.len() + piece.len() > limits.bytes {
                return Err(Error::TooLarge(limits.bytes));
            }
            body.extend_from_slice(&piece);
        }
        whole.body(body.into()).map_err(|error| Error::Malformed(error.to_string()))
    }

    async fn execute(
        &self,
        request: http::Request<impl Into<reqwest::Body>>,
        limit: Option<Duration>,
    ) -> Result<reqwest::Response, Error> {
        let mut request = reqwest::Request::try_from(request).map_err(|error| Error::Malformed(root_cause(&error)))?;
        let url = request.url();
        let Settings { policy, connect_time, https_only, .. } = &self.settings;
        let http = match url.scheme() {
            "http" if !https_only => self.built(false)?,
            "https" => self.built(true)?,
            other => return Err(Error::Scheme(other.to_owned())),
        };
        policy.check_literal(url)?;
        self.settings.check_proxied(url).await?;
        *request.timeout_mut() = limit;
        let sent = http.execute(request).await;
        sent.map_err(|error| match limit {
            Some(limit) if !error.is_connect() => Error::from_client(&error, limit),
            // Without a limit for the request, only opening the connection has one.
            _ => Error::from_client(&error, limit.unwrap_or(*connect_time).min(*connect_time)),
        })
    }

    /// Returns the client, which the first call builds.
    fn built(&self, needs_tls: bool) -> Result<&reqwest::Client, Error> {
        if let Some(http) = self.full.get().or_else(|| self.plain.get().filter(|_| !needs_tls)) {
            return Ok(http);
        }
        match self.settings.builder().build() {
            Ok(http) => Ok(self.full.get_or_init(|| http)),
            Err(error) if needs_tls => Err(Error::NoTls(root_cause(&error))),
            Err(_) => {
                let built = self.settings.builder().tls_certs_only([]).build();
                let http =
                    built.map_err(|error| Error::Malformed(format!("the HTTP client: {}", root_cause(&error))))?;
                Ok(self.plain.get_or_init(|| http))
            }
        }
    }
}

impl Settings {
    /// Checks the host of a URL to which a proxy connects.
    async fn check_proxied(&self, url: &Url) -> Result<(), Error> {
        let (Policy::PublicOrProxied(_), Some(host)) = (&self.policy, url.host_str()) else { return Ok(()) };
        let target = Target { host: host.to_owned(), port: url.port_or_known_default().unwrap_or_default() };
        let is_proxy = self.proxies.hosts().iter().any(|proxy| proxy.eq_ignore_ascii_case(host));
        match self.proxies.of(url.scheme(), &target) {
            None if !is_proxy => Ok(()),
            _ => self.policy.check_proxied(&*self.resolver, host).await,
        }
    }

    fn builder(&self) -> reqwest::ClientBuilder {
        let Self { policy, resolver, connect_time, http1_only, read_time, https_only, no_proxy, proxies } = self;
        let proxies = proxies.hosts();
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(*connect_time)
            .https_only(*https_only)
            .dns_resolver(CheckedResolver { resolver: Arc::clone(resolver), policy: policy.clone(), proxies });
        if *http1_only {
            builder = builder.http1_only();
        }
        if let Some(time) = read_time {
            builder = builder.read_timeout(*time);
        }
        // A proxy would resolve names without the check.
        if *no_proxy || matches!(policy, Policy::Public(_)) { builder.no_proxy() } else { builder }
    }
}

/// Resolves names for the HTTP client, and returns only permitted addresses.
struct CheckedResolver {
    resolver: Arc<dyn Resolver>,
    policy: Policy,
    /// The hosts of the operator's proxies, which may have any address.
    proxies: Vec<String>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, policy) = (Arc::clone(&self.resolver), self.policy.clone());
        let is_proxy = self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(name.as_str()));
        let policy = if is_proxy && matches!(policy, Policy::PublicOrProxied(_)) { Policy::Any } else { policy };
        Box::pin(async move {
            let host = name.as_str();
            let found = resolver.resolve(host).await;
            let found = found.map_err(|error| Error::NotFound { host: host.to_owned(), cause: error.to_string() })?;
            let permitted = policy.filter(host, found)?;
            Ok(Box::new(permitted.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
