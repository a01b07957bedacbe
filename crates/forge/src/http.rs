//! Requests to the HTTP interfaces of code hosts: errors, rate limits, pages, renamed repositories.
//!
//! A `GET` is repeated after a failure; other requests never are, because they may have taken effect. Answers are read
//! leniently: fields that the service does not need may be missing or have other types.

mod answer;
mod download;
mod limits;
mod pace;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use journeyman_core::code_host::HostKind;
use journeyman_core::poll::Quota;
use journeyman_core::ports::ForgeError;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Clock;
use journeyman_net::{Client, Limits};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use url::Url;

pub(crate) use self::answer::Answer;
pub(crate) use self::download::FileAddress;
use self::limits::{Operation, Stopped};
use self::pace::Pace;

/// The limits of a request.
const LIMITS: Limits = Limits { time: Duration::from_secs(30), bytes: 16 << 20 };

/// The maximum number of requests to a code host at the same time. GitHub permits 100, for all clients of a token.
const CONCURRENT: usize = 16;

/// The delays before a `GET` is repeated.
const DELAYS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// The maximum number of redirects of a `GET`.
const REDIRECTS: usize = 3;

/// The maximum number of pages of a list.
pub(crate) const PAGES: usize = 50;

/// The maximum number of pages of each list of a conversation. The newest are read.
pub(crate) const CONVERSATION_PAGES: usize = 5;

/// The value of the header `Authorization`, or of another one that the host expects.
#[derive(Clone)]
pub(crate) enum Authorization {
    /// `Authorization: Bearer …`.
    Bearer(SecretValue),
    /// `Authorization: Basic …`.
    Basic(String, SecretValue),
    /// `PRIVATE-TOKEN: …`, of GitLab.
    PrivateToken(SecretValue),
    /// `Authorization: token …`, of Gitea.
    Token(SecretValue),
}

impl Authorization {
    fn header(&self) -> (&'static str, String) {
        match self {
            Self::Bearer(SecretValue(token)) => ("authorization", format!("Bearer {token}")),
            Self::Token(SecretValue(token)) => ("authorization", format!("token {token}")),
            Self::PrivateToken(SecretValue(token)) => ("private-token", token.clone()),
            Self::Basic(user, SecretValue(password)) => {
                ("authorization", format!("Basic {}", BASE64.encode(format!("{user}:{password}"))))
            }
        }
    }
}

/// The state that all requests to a code host share.
pub(crate) struct Throttle {
    concurrent: Semaphore,
    /// The operations that the host accepts only later.
    stopped: Mutex<Stopped>,
    /// The rate limit, as the newest answer describes it.
    quota: Mutex<Option<Quota>>,
    /// The requests that write content.
    pace: Mutex<Pace>,
}

impl Throttle {
    /// Returns the state for a credential on a kind of code host.
    pub(crate) fn new(kind: HostKind) -> Self {
        Self {
            concurrent: Semaphore::new(CONCURRENT),
            stopped: Mutex::default(),
            quota: Mutex::default(),
            pace: Mutex::new(Pace::of(kind)),
        }
    }
}

/// A client of the HTTP interface of a code host. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Http {
    pub(crate) client: Client,
    /// The client for the targets of redirects to other servers.
    pub(crate) others: Client,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) throttle: Arc<Throttle>,
    /// The address of the interface, without a slash at its end.
    pub(crate) base: String,
    /// Headers of every request.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
}

impl Http {
    /// Sends a request, and returns the answer. `path` is relative to the address of the interface, or an address on the
    /// same server.
    ///
    /// # Errors
    /// The host cannot be reached, failed (status 5xx), accepts no more requests, or moved the resource.
    pub(crate) async fn call(
        &self,
        authorization: Option<&Authorization>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ForgeError> {
        self.exchange(authorization, method, path, body, None).await
    }

    /// Reads a resource, unless it is still the one with this `ETag`; then the status is 304.
    ///
    /// # Errors
    /// As [`Http::call`].
    pub(crate) async fn get_if_changed(
        &self,
        authorization: Option<&Authorization>,
        path: &str,
        tag: Option<&str>,
    ) -> Result<Answer, ForgeError> {
        self.exchange(authorization, Method::GET, path, None, tag).await
    }

    /// Returns the rate limit, as the newest answer describes it.
    pub(crate) fn quota(&self) -> Option<Quota> {
        *self.throttle.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn exchange(
        &self,
        authorization: Option<&Authorization>,
        method: Method,
        path: &str,
        body: Option<&Value>,
        tag: Option<&str>,
    ) -> Result<Answer, ForgeError> {
        let mut url = self.address(path)?;
        let (mut delays, mut redirects) = (DELAYS.into_iter(), 0);
        loop {
            let answer = self.once(authorization, &method, &url, body, tag).await;
            let failed = match answer {
                Ok(answer) if answer.status.is_redirection() && answer.status != StatusCode::NOT_MODIFIED => {
                    match self.redirected(&url, &answer)? {
                        // The request had no effect yet.
                        Some(target) if redirects < REDIRECTS => {
                            redirects += 1;
                            url = target;
                            continue;
                        }
                        _ => return Ok(answer),
                    }
                }
                Ok(answer) if answer.status.is_server_error() => answer.error(),
                Ok(answer) => return Ok(answer),
                Err(error @ ForgeError::Unclear(_)) => error,
                Err(error) => return Err(error),
            };
            match delays.next().filter(|_| method == Method::GET) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(failed),
            }
        }
    }

    /// Returns the target of a redirect on the same server; `None` if the answer names none.
    ///
    /// Behind a proxy, a host may name itself by an internal name or by another scheme. A target with another path of the
    /// same interface is used with the configured address, so the credential goes nowhere else.
    ///
    /// # Errors
    /// The target is on another server, or is the same resource at another address.
    fn redirected(&self, url: &Url, answer: &Answer) -> Result<Option<Url>, ForgeError> {
        let Some(target) = answer.header("location").and_then(|target| url.join(target).ok()) else { return Ok(None) };
        if target.origin() == url.origin() {
            return Ok(Some(target));
        }
        let interface = self.interface();
        let ours = self.address(target.as_str())?;
        let is_below = ours.path().strip_prefix(&interface).is_some_and(|rest| rest.starts_with('/'));
        if !interface.is_empty() && is_below && ours != *url {
            return Ok(Some(ours));
        }
        let origin = target.origin().ascii_serialization();
        Err(ForgeError::Refused(format!(
            "it redirects to {origin}, another address, to which the service sends no credential. If the code host has \
             moved there, change its URL here. If not, correct the external URL in the settings of the code host or of \
             its reverse proxy"
        )))
    }

    /// Returns the path of the interface, without a slash at its end; empty if all paths of the server belong to it.
    fn interface(&self) -> String {
        Url::parse(&self.base).map(|base| base.path().trim_end_matches('/').to_owned()).unwrap_or_default()
    }

    async fn once(
        &self,
        authorization: Option<&Authorization>,
        method: &Method,
        url: &Url,
        body: Option<&Value>,
        tag: Option<&str>,
    ) -> Result<Answer, ForgeError> {
        self.permitted(method, url)?;
        self.keep_pace(method, url).await?;
        // The host may have refused another request meanwhile.
        let operation = self.permitted(method, url)?;
        let _permit = self.throttle.concurrent.acquire().await;
        let mut request = http::Request::builder().method(method).uri(url.as_str());
        request = request.header("user-agent", "journeyman").header("accept", "application/json");
        for (name, value) in &self.headers {
            if let Some(headers) = request.headers_mut() {
                headers.insert(*name, http::HeaderValue::from_static(value));
            }
        }
        if let Some(authorization) = authorization {
            let (name, value) = authorization.header();
            let mut value = http::HeaderValue::from_str(&value)
                .map_err(|_| ForgeError::Credential("the token has characters that no header can have".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        if let Some(tag) = tag {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        let bytes = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        let request = request.body(bytes).map_err(|error| ForgeError::Refused(error.to_string()))?;
        let host = url.host_str().unwrap_or_default();
        let sent = self.client.send(request, LIMITS).await;
        let sent = sent.map_err(|error| ForgeError::Unclear(format!("{host} cannot be used: {error}")))?;
        let (parts, body) = sent.into_parts();
        let answer = Answer { status: parts.status, headers: parts.headers, body };
        self.observe(&operation, &answer)?;
        Ok(answer)
    }

    /// Returns whether half of a limit on written content is used.
    pub(crate) fn is_busy(&self) -> bool {
        let now = self.clock.now();
        self.throttle.pace.lock().unwrap_or_else(PoisonError::into_inner).is_half_used(now)
    }

    /// Waits until a request that writes content is within the limits of the host.
    ///
    /// # Errors
    /// The request would have to wait for too long.
    async fn keep_pace(&self, method: &Method, url: &Url) -> Result<(), ForgeError> {
        let now = self.clock.now();
        let wait = {
            let mut pace = self.throttle.pace.lock().unwrap_or_else(PoisonError::into_inner);
            pace.reserve(method, url.path(), now).map_err(ForgeError::RateLimited)?
        };
        if !wait.is_zero() {
            tracing::debug!(
                seconds = wait.as_secs(),
                "a request waits, because the code host limits how much is written"
            );
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Returns the operation of a request, unless the host accepts it only later.
    fn permitted(&self, method: &Method, url: &Url) -> Result<Operation, ForgeError> {
        let base = self.interface();
        let operation = Operation::of(method, url.path().strip_prefix(&base).unwrap_or(url.path()));
        let now = self.clock.now();
        let stopped = self.throttle.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        match stopped.until(&operation, now) {
            Some(until) => Err(ForgeError::RateLimited(until.since(now))),
            None => Ok(operation),
        }
    }

    /// Records the rate limits in an answer.
    ///
    /// # Errors
    /// The answer refuses the request because of a rate limit.
    fn observe(&self, operation: &Operation, answer: &Answer) -> Result<(), ForgeError> {
        let now = self.clock.now();
        if let Some(quota) = answer.quota(now) {
            *self.throttle.quota.lock().unwrap_or_else(PoisonError::into_inner) = quota;
        }
        let mut stopped = self.throttle.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.record(operation, answer, now).map_or(Ok(()), |wait| Err(ForgeError::RateLimited(wait)))
    }

    /// Reads the newest items of a list that the host sorts oldest first, at most `pages` pages, unless the host does not
    /// say which page is the last one; then all of them. Returns the items oldest first, and whether there are older ones.
    ///
    /// # Errors
    /// A request failed.
    pub(crate) async fn newest<T: DeserializeOwned>(
        &self,
        authorization: Option<&Authorization>,
        path: &str,
        pages: usize,
    ) -> Result<(Vec<T>, bool), ForgeError> {
        let first = self.call(authorization, Method::GET, path, None).await?.ok()?;
        let Some(mut path) = first.link("last") else {
            let mut all: Vec<T> = first.json()?;
            if let Some(next) = first.next() {
                all.extend(self.list(authorization, &next, |_| false).await?);
            }
            return Ok((all, false));
        };
        let mut found: Vec<Vec<T>> = Vec::new();
        loop {
            let page = self.call(authorization, Method::GET, &path, None).await?.ok()?;
            found.push(page.json()?);
            match page.link("prev") {
                Some(before) if found.len() < pages => path = before,
                before => return Ok((found.into_iter().rev().flatten().collect(), before.is_some())),
            }
        }
    }

    fn address(&self, path: &str) -> Result<Url, ForgeError> {
        let invalid = |error: url::ParseError| ForgeError::Refused(format!("the address of the code host: {error}"));
        if path.starts_with('/') {
            return Url::parse(&format!("{}{path}", self.base)).map_err(invalid);
        }
        let (mut base, url) = (Url::parse(&self.base).map_err(invalid)?, Url::parse(path).map_err(invalid)?);
        // Behind a proxy, a host may name itself by another scheme or port. The credential goes only to its address.
        base.set_path(url.path());
        base.set_query(url.query());
        Ok(base)
    }

    /// Reads a list page by page, until `enough` returns true for the items of a page. Follows the header `Link`.
    ///
    /// # Errors
    /// A request failed.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        authorization: Option<&Authorization>,
        path: &str,
        mut enough: impl FnMut(&[T]) -> bool,
    ) -> Result<Vec<T>, ForgeError> {
        let (mut all, mut path) = (Vec::new(), path.to_owned());
        for _ in 0..PAGES {
            let answer = self.call(authorization, Method::GET, &path, None).await?.ok()?;
            let items: Vec<T> = answer.json()?;
            let is_enough = enough(&items);
            all.extend(items);
            match answer.next().filter(|_| !is_enough) {
                Some(next) => path = next,
                None => return Ok(all),
            }
        }
        Ok(all)
    }
}

/// The characters that stay as they are in a segment of a path and in the value of a query parameter.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Encodes a text as a segment of a path, or as the value of a query parameter.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}
