//! Reads logs and files, which may be large and on other servers.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use journeyman_core::ports::{CommentFile, ForgeError};
use journeyman_net::Response;
use url::Url;

use super::answer::Answer;
use super::{Authorization, DELAYS, Http, REDIRECTS};

/// The time limit for reading a log.
const LOG_TIME: Duration = Duration::from_secs(60);

/// The time limit for reading a file.
const FILE_TIME: Duration = Duration::from_secs(30);

/// The address of a file.
pub(crate) enum FileAddress<'a> {
    /// A path of the interface, or an address on its server.
    OfInterface(&'a str),
    /// A page of the code host, which may have the credential.
    Page(&'a Url),
    /// An address on another server.
    Other(&'a Url),
}

impl Http {
    /// Reads a log, and returns its end, at most `limit` bytes; `None` if there is no log. If the log is on another server,
    /// that server gets no credential.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) async fn log(
        &self,
        authorization: &Authorization,
        path: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ForgeError> {
        let read = async {
            let answer = self.download(Some(authorization), self.address(path)?, true, "log").await?;
            match answer {
                Some(answer) if answer.status().is_success() => end_of(answer, limit).await.map(Some),
                _ => Ok(None),
            }
        };
        let slow = |_| ForgeError::Unclear("the log was not sent in time".to_owned());
        tokio::time::timeout(LOG_TIME, read).await.map_err(slow)?
    }

    /// Reads a file with at most `limit` bytes. A server other than the code host gets no credential. Like each `GET`, it is
    /// repeated after a failure.
    ///
    /// # Errors
    /// The file cannot be read, or a page for people was sent in its place.
    pub(crate) async fn file(
        &self,
        authorization: Option<&Authorization>,
        address: FileAddress<'_>,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        let (url, is_ours) = match address {
            FileAddress::OfInterface(path) => (self.address(path)?, true),
            FileAddress::Page(url) => (url.clone(), true),
            FileAddress::Other(url) => (url.clone(), false),
        };
        let mut delays = DELAYS.into_iter();
        loop {
            let read =
                tokio::time::timeout(FILE_TIME, self.read_file(authorization, url.clone(), is_ours, limit)).await;
            let read = read.unwrap_or_else(|_| Err(ForgeError::Unclear("the file was not sent in time".to_owned())));
            match (read, delays.next()) {
                (Err(ForgeError::Unclear(_)), Some(delay)) => tokio::time::sleep(delay).await,
                (read, _) => return read,
            }
        }
    }

    async fn read_file(
        &self,
        authorization: Option<&Authorization>,
        url: Url,
        is_ours: bool,
        limit: usize,
    ) -> Result<CommentFile, ForgeError> {
        let missing = || ForgeError::NotFound("the code host leads nowhere".to_owned());
        let mut answer = self.download(authorization, url, is_ours, "file").await?.ok_or_else(missing)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if !status.is_success() {
            return Err(Answer { status, headers, body: Bytes::new() }.error());
        }
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/html") {
            // Hosts send uploads with another type, and a page to sign in to those who may not see them.
            let text = "a page was sent in place of the file; the credential may not see it";
            return Err(ForgeError::Denied(text.to_owned()));
        }
        if answer.content_length().is_some_and(|length| length > limit as u64) {
            return Ok(CommentFile::TooLarge);
        }
        let mut content = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| cut_short("file", &error))? {
            if content.len() + piece.len() > limit {
                return Ok(CommentFile::TooLarge);
            }
            content.extend_from_slice(&piece);
        }
        Ok(CommentFile::Content(content.into()))
    }

    /// Sends a `GET` and follows redirects; `None` if one of them leads nowhere. `is_ours` is true if the address is one of
    /// the code host, which gets the credential, as long as redirects stay on its server.
    async fn download(
        &self,
        authorization: Option<&Authorization>,
        origin: Url,
        is_ours: bool,
        what: &str,
    ) -> Result<Option<Response>, ForgeError> {
        let operation = self.permitted(&Method::GET, &origin)?;
        let mut url = origin.clone();
        for _ in 0..=REDIRECTS {
            let is_at_host = is_ours && url.origin() == origin.origin();
            let mut request = http::Request::get(url.as_str()).header("user-agent", "journeyman");
            if let Some(authorization) = authorization.filter(|_| is_at_host) {
                let (name, value) = authorization.header();
                request = request.header(name, value);
            }
            let request = request.body(Bytes::new()).map_err(|error| ForgeError::Refused(error.to_string()))?;
            // Administrators choose the address of the code host, but not the target of a redirect.
            let client = if is_at_host { &self.client } else { &self.others };
            let sent = client.start(request).await;
            let answer = sent.map_err(|error| match error {
                journeyman_net::Error::NotPermitted(host) => ForgeError::Refused(format!(
                    "the {what} is on {host}, which has only private or link-local addresses; the operator can allow its \
                     network with code-host-networks"
                )),
                error => ForgeError::Unclear(format!("the {what} cannot be read: {error}")),
            })?;
            if is_at_host {
                // The body of a refusal is not read.
                let (status, headers) = (answer.status(), answer.headers().clone());
                self.observe(&operation, &Answer { status, headers, body: Bytes::new() })?;
            }
            if answer.status().is_redirection() {
                let target = answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                match target.and_then(|target| url.join(target).ok()) {
                    Some(target) if url.scheme() == "https" && target.scheme() != "https" => {
                        tracing::info!(to = target.host_str(), "a code host redirects to a {what} without encryption");
                        return Err(ForgeError::Refused(format!("the {what} is at a URL without encryption")));
                    }
                    Some(target) => url = target,
                    None => return Ok(None),
                }
            } else if answer.status().is_server_error() || answer.status() == StatusCode::REQUEST_TIMEOUT {
                return Err(ForgeError::Unclear(format!("the {what} cannot be read: status {}", answer.status())));
            } else {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }
}

fn cut_short(what: &str, error: &(dyn std::error::Error + 'static)) -> ForgeError {
    ForgeError::Unclear(format!("the {what} cannot be read: {}", journeyman_net::root_cause(error)))
}

/// Reads the body of an answer, and keeps its last `limit` bytes.
async fn end_of(mut answer: Response, limit: usize) -> Result<Vec<u8>, ForgeError> {
    let mut end = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| cut_short("log", &error))? {
        end.extend_from_slice(&piece);
        if end.len() > 2 * limit {
            end.drain(..end.len() - limit);
        }
    }
    end.drain(..end.len().saturating_sub(limit));
    Ok(end)
}
