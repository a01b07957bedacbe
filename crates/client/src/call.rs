//! Calls, which are sent when they are awaited.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{ACCEPT, ETAG, HeaderMap, HeaderValue, IF_MATCH};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::request::{Request, path};
use crate::retry;

/// A response with a success status, or 304.
#[derive(Clone)]
#[non_exhaustive]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The URL of the server, for errors.
    pub(crate) url: String,
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The body may contain a secret.
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Response {
    /// Returns a header, if it is a text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Reads the body as JSON.
    ///
    /// # Errors
    /// Returns [`Error::InvalidResponse`] if the body is not a document of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let document: Value = serde_json::from_slice(&self.body).map_err(|_| {
            Error::InvalidResponse(format!("{} did not respond with JSON; is it a Journeyman server?", self.url))
        })?;
        serde_json::from_value(document).map_err(|error| {
            let hint = "is the server older than this client?";
            Error::InvalidResponse(format!("{} responded with an unexpected document ({error}); {hint}", self.url))
        })
    }
}

/// An object with its version.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Versioned<T> {
    /// The object.
    pub value: T,
    /// The `ETag` of the object, for [`Call::if_match`].
    pub etag: String,
}

type Read<T> = Box<dyn FnOnce(&Response) -> Result<T, Error> + Send>;

/// A call of an operation, which is sent when it is awaited.
#[must_use = "a call is sent when it is awaited"]
pub struct Call<T> {
    client: Client,
    request: Result<Request, Error>,
    read: Read<T>,
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Bodies may contain secrets.
        let target = self.request.as_ref().map(|request| format!("{} {}", request.method, request.path));
        f.debug_struct("Call").field("request", &target).finish_non_exhaustive()
    }
}

impl<T> Call<T> {
    pub(crate) fn new(
        client: Client,
        request: Result<Request, Error>,
        read: impl FnOnce(&Response) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        Self { client, request, read: Box::new(read) }
    }

    fn change(mut self, change: impl FnOnce(&mut Request) -> Result<(), Error>) -> Self {
        if let Ok(request) = &mut self.request
            && let Err(error) = change(request)
        {
            self.request = Err(error);
        }
        self
    }

    /// Adds a query parameter.
    pub fn query(self, name: &str, value: impl ToString) -> Self {
        self.change(|request| {
            request.query.push((name.to_owned(), value.to_string()));
            Ok(())
        })
    }

    /// Adds a query parameter for each pair.
    pub(crate) fn pairs(self, pairs: Vec<(&'static str, String)>) -> Self {
        pairs.into_iter().fold(self, |call, (name, value)| call.query(name, value))
    }

    /// Sets a header. `Authorization` and `Host` cannot be set.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.change(|request| request.set_header(name, value))
    }

    /// Sets the media type of the response.
    pub(crate) fn accept(self, media_type: &'static str) -> Self {
        self.change(|request| {
            request.headers.insert(ACCEPT, HeaderValue::from_static(media_type));
            Ok(())
        })
    }

    /// Sets the body to a JSON document.
    pub fn json(self, body: &impl Serialize) -> Self {
        self.change(|request| request.set_body(body))
    }

    /// Sets the idempotency key, of 1 to 255 ASCII characters. A repetition within 24 hours has no further effect and
    /// returns the same result. Operations that need one have a random key by default, which protects only the retries
    /// of this call.
    pub fn idempotency_key(self, key: &str) -> Self {
        self.change(|request| request.set_idempotency_key(key))
    }

    pub(crate) fn with_random_key(self) -> Self {
        self.idempotency_key(&retry::idempotency_key())
    }

    /// Carries the operation out only if the object still has this `ETag`; otherwise, the error has the status 412.
    pub fn if_match(self, etag: &str) -> Self {
        self.change(|request| {
            request.set_header(IF_MATCH.as_str(), etag)?;
            // If the first attempt changed the version, a retry would be refused. The server remembers deletions.
            request.is_harmless &= request.method == Method::DELETE;
            Ok(())
        })
    }

    /// Sets the time for which the server may send nothing, in place of that of the client.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|request| {
            request.timeout = Some(timeout);
            Ok(())
        })
    }

    /// Sets the number of times that the request is repeated after a temporary failure, in place of that of the client.
    pub fn max_retries(self, max_retries: u32) -> Self {
        self.change(|request| {
            request.max_retries = Some(max_retries);
            Ok(())
        })
    }

    /// Allows the answer to take longer than the timeout.
    pub(crate) fn extra_time(self, seconds: u64) -> Self {
        self.change(|request| {
            request.extra_time = Duration::from_secs(seconds);
            Ok(())
        })
    }

    /// Ends the repetitions at this time.
    pub(crate) fn deadline(self, deadline: Option<Instant>) -> Self {
        self.change(|request| {
            request.deadline = deadline;
            Ok(())
        })
    }

    /// Declares that a repetition has no further effect.
    pub(crate) fn harmless(self) -> Self {
        self.change(|request| {
            request.is_harmless = request.method == Method::DELETE || !request.has_precondition();
            Ok(())
        })
    }

    /// Returns the JSON document of the response as the server sent it, with fields that this version does not know.
    pub fn raw(self) -> Call<Value> {
        self.read_with(|response| response.json())
    }

    /// Reads the response in another way.
    pub(crate) fn read_with<U>(self, read: impl FnOnce(&Response) -> Result<U, Error> + Send + 'static) -> Call<U> {
        Call::new(self.client, self.request, read)
    }

    /// Returns the object with its version.
    pub fn versioned(self) -> Call<Versioned<T>>
    where
        T: 'static,
    {
        let read = self.read;
        Call::new(self.client, self.request, move |response| {
            let etag = response.header(ETAG.as_str()).map(str::to_owned);
            let missing = || Error::InvalidResponse("the response has no ETag".to_owned());
            Ok(Versioned { etag: etag.ok_or_else(missing)?, value: read(response)? })
        })
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, request, read } = self;
        Box::pin(async move {
            let response = client.send(&request?).await?;
            read(&response)
        })
    }
}

impl Client {
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

    /// Returns a call whose response is a JSON document.
    pub(crate) fn call<T: DeserializeOwned + 'static>(&self, method: Method, segments: &[&str]) -> Call<T> {
        let request = path(segments).map(|path| Request::new(method, path));
        Call::new(self.clone(), request, |response| response.json())
    }

    pub(crate) fn get<T: DeserializeOwned + 'static>(&self, segments: &[&str]) -> Call<T> {
        self.call(Method::GET, segments)
    }

    /// Returns a call of a `POST` operation that accepts an idempotency key.
    pub(crate) fn post<T: DeserializeOwned + 'static>(&self, segments: &[&str]) -> Call<T> {
        self.call(Method::POST, segments).with_random_key()
    }

    /// Returns a call whose response has no body.
    pub(crate) fn call_nothing(&self, method: Method, segments: &[&str]) -> Call<()> {
        let request = path(segments).map(|path| Request::new(method, path));
        Call::new(self.clone(), request, |_| Ok(()))
    }

    /// Returns a call whose response is not JSON.
    pub(crate) fn call_bytes(&self, segments: &[&str], media_type: &'static str) -> Call<Bytes> {
        let request = path(segments).map(|path| Request::new(Method::GET, path));
        Call::new(self.clone(), request, |response| Ok(response.body.clone())).accept(media_type)
    }
}
