//! Sends requests, and repeats them after temporary failures.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{AUTHORIZATION, USER_AGENT};
use tokio::time::Instant;
use url::Url;

use crate::call::Response;
use crate::client::Client;
use crate::error::{ApiError, Error};
use crate::request::Request;
use crate::retry;

impl Client {
    /// Sends a request, and repeats it after temporary failures.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response, Error> {
        let most = request.max_retries.unwrap_or(self.shared.max_retries);
        let mut attempt = 1;
        loop {
            let error = match self.attempt(request).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let delay = self.retry_delay(&error, request, attempt).filter(|_| attempt <= most);
            let Some(delay) = delay else { return Err(error) };
            if request.deadline.is_some_and(|deadline| Instant::now() + delay > deadline) {
                return Err(error);
            }
            tokio::time::sleep(delay).await;
            attempt += 1;
        }
    }

    /// Returns the delay until the next attempt at a request; `None` if there should be none.
    pub(crate) fn retry_delay(&self, error: &Error, request: &Request, attempt: u32) -> Option<Duration> {
        retry::delay(error, request.is_repeatable(), attempt, self.shared.max_retry_after, retry::jitter())
    }

    async fn attempt(&self, request: &Request) -> Result<Response, Error> {
        let timeout = self.timeout(request);
        let mut response = self.open(request).await?;
        let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
        let body = self.body(&mut response, timeout).await?;
        Ok(Response { status, headers, body, url: self.url().to_string() })
    }

    fn timeout(&self, request: &Request) -> Duration {
        request.timeout.unwrap_or(self.shared.timeout).saturating_add(request.extra_time)
    }

    /// Sends a request once, and returns its response, whose body is not read yet. The status is a success or 304.
    pub(crate) async fn open(&self, request: &Request) -> Result<reqwest::Response, Error> {
        let mut sent = self.shared.http.request(request.method.clone(), self.target(request));
        sent = sent.headers(request.headers.clone());
        if let Some(authorization) = &self.shared.authorization {
            sent = sent.header(AUTHORIZATION, authorization.clone());
        }
        sent = sent.header(USER_AGENT, self.shared.user_agent.clone());
        if let Some(body) = &request.body {
            sent = sent.body(body.clone());
        }
        let timeout = self.timeout(request);
        let answer = tokio::time::timeout(timeout, sent.send()).await.map_err(|_| self.timed_out(timeout))?;
        let mut response = answer.map_err(|error| self.lost(&error))?;
        let status = response.status().as_u16();
        if response.status().is_success() || status == 304 {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = self.body(&mut response, timeout).await?;
        Err(Error::Api(Box::new(ApiError::read(status, &headers, &body))))
    }

    /// Returns the URL of a request. The path cannot change the host, to which the key is sent.
    fn target(&self, request: &Request) -> Url {
        let mut url = self.shared.base.clone();
        url.set_path(&format!("{}{}", url.path().trim_end_matches('/'), request.path));
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        url
    }

    async fn body(&self, response: &mut reqwest::Response, timeout: Duration) -> Result<Bytes, Error> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk(response, timeout).await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// Reads the next part of a body; `None` at its end.
    pub(crate) async fn chunk(
        &self,
        response: &mut reqwest::Response,
        timeout: Duration,
    ) -> Result<Option<Bytes>, Error> {
        let chunk = tokio::time::timeout(timeout, response.chunk()).await.map_err(|_| self.timed_out(timeout))?;
        chunk.map_err(|error| self.lost(&error))
    }

    fn timed_out(&self, timeout: Duration) -> Error {
        let cause = format!("nothing was received for {} s", timeout.as_secs());
        Error::Connection { url: self.url().to_string(), cause, is_unsent: false, is_timeout: true }
    }

    fn lost(&self, error: &reqwest::Error) -> Error {
        // The innermost cause is the specific one, such as "connection refused".
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        Error::Connection {
            url: self.url().to_string(),
            cause: cause.to_string(),
            is_unsent: error.is_connect(),
            is_timeout: error.is_timeout(),
        }
    }

    /// Returns the error for a stream that the server has ended.
    pub(crate) fn ended(&self) -> Error {
        let cause = "the server ended the stream".to_owned();
        Error::Connection { url: self.url().to_string(), cause, is_unsent: false, is_timeout: false }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;

    use super::*;

    #[test]
    fn a_path_cannot_change_the_host_and_keeps_the_prefix() {
        let client = Client::new("https://example.com/jm", "jmn_x").expect("a client");
        for (path, url) in [
            ("/v2/me", "https://example.com/jm/v2/me"),
            ("//evil.example/x", "https://example.com/jm//evil.example/x"),
            ("/http://evil.example", "https://example.com/jm/http://evil.example"),
            ("/v2/keys/a%2Fb", "https://example.com/jm/v2/keys/a%2Fb"),
        ] {
            assert_eq!(client.target(&Request::new(Method::GET, path.to_owned())).as_str(), url);
        }
        let mut request = Request::new(Method::GET, "/v2/jobs".to_owned());
        request.query.push(("q".to_owned(), "a&b c".to_owned()));
        assert_eq!(client.target(&request).as_str(), "https://example.com/jm/v2/jobs?q=a%26b+c");
    }
}
