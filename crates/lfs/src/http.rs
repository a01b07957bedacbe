//! The batch API of Git LFS, and the transfer `basic`.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use journeyman_core::lfs::{PIECE_BYTES, Pointer, pointer_of};
use journeyman_core::ports::{Credential, LfsError, LfsFailure, LfsUpload};
use journeyman_net::{Client, Error, Limits, Response};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::disk::{blocking, disk};
use crate::file::Incoming;
use crate::wire::{Action, Answer, Answered, Batch, MEDIA_TYPE, Message, Object, ObjectError, Reference};

/// The limits of requests without content.
const LIMITS: Limits = Limits { time: Duration::from_secs(60), bytes: 16 << 20 };

/// The maximum number of objects of a request. GitHub permits 100.
const BATCH: usize = 100;

/// The number of objects that are transferred at the same time.
const CONCURRENT: usize = 4;

/// The number of attempts for what may pass.
const ATTEMPTS: u32 = 3;

/// The maximum number of redirects of a request.
const REDIRECTS: usize = 5;

/// The longest wait for the next bytes.
const IDLE: Duration = Duration::from_secs(60);

/// The slowest transfer in bytes per second. A server that sends a byte now and then must not keep a run for ever.
const SLOWEST: u64 = 16 << 10;

/// The time in which a download must keep up with [`SLOWEST`]. A server that was fast before may not be slow afterward.
const WINDOW: Duration = Duration::from_secs(60);

/// The maximum number of characters of a server's message.
const MESSAGE_CHARS: usize = 300;

/// The headers that a server cannot set for a request.
const OURS: [HeaderName; 5] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE];

/// An LFS server of a repository.
pub(crate) struct Server<'a> {
    /// The client for the origin of the repository's URL.
    pub(crate) client: &'a Client,
    /// The client for other origins.
    pub(crate) others: &'a Client,
    /// The URL of the server.
    pub(crate) endpoint: Url,
    /// The credential of the repository.
    pub(crate) credential: Option<&'a Credential>,
    /// The delay before a failed request is repeated for the first time.
    pub(crate) pause: Duration,
}

/// An operation of the batch API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Download,
    Upload,
}

impl Server<'_> {
    pub(crate) async fn download(&self, objects: &[Pointer], folder: &Path) -> Result<Vec<LfsFailure>, LfsError> {
        let (mut open, mut failed) = (objects.to_vec(), Vec::new());
        for attempt in 1.. {
            match self.download_once(&open, folder).await {
                Ok(failures) => {
                    let again = |failure: &LfsFailure| failure.error.may_pass() && attempt < ATTEMPTS;
                    let (again, rest): (Vec<_>, Vec<_>) = failures.into_iter().partition(again);
                    failed.extend(rest);
                    open = again.into_iter().map(|failure| failure.pointer).collect();
                    if open.is_empty() {
                        break;
                    }
                }
                Err(error) if error.may_pass() && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
            self.wait(attempt).await;
        }
        Ok(failed)
    }

    pub(crate) async fn missing(&self, branch: &str, objects: &[Pointer]) -> Result<Vec<LfsFailure>, LfsError> {
        for attempt in 1.. {
            match self.missing_once(branch, objects).await {
                Err(error) if error.may_pass() && attempt < ATTEMPTS => self.wait(attempt).await,
                done => return done,
            }
        }
        Ok(Vec::new())
    }

    pub(crate) async fn upload(&self, branch: &str, objects: &[LfsUpload]) -> Result<(), LfsError> {
        for attempt in 1.. {
            // The server says each time which objects it does not have.
            match self.upload_once(branch, objects).await {
                Err(error) if error.may_pass() && attempt < ATTEMPTS => self.wait(attempt).await,
                done => return done,
            }
        }
        Ok(())
    }

    async fn wait(&self, attempt: u32) {
        tokio::time::sleep(self.pause * (1 << (attempt - 1))).await;
    }

    async fn download_once(&self, objects: &[Pointer], folder: &Path) -> Result<Vec<LfsFailure>, LfsError> {
        let mut failures = Vec::new();
        for part in objects.chunks(BATCH) {
            let answered = self.batch(Operation::Download, None, part).await?;
            let mut transfers: Vec<BoxFuture<'_, (&Pointer, Result<(), LfsError>)>> = Vec::new();
            for pointer in part {
                let answered = answered.get(&pointer.oid);
                transfers.push(Box::pin(async move { (pointer, self.fetch(pointer, answered, folder).await) }));
            }
            let done: Vec<_> = stream::iter(transfers).buffer_unordered(CONCURRENT).collect().await;
            let failed = done.into_iter().filter_map(|(pointer, done)| Some((pointer, done.err()?)));
            failures.extend(failed.map(|(pointer, error)| LfsFailure { pointer: pointer.clone(), error }));
        }
        Ok(failures)
    }

    /// Downloads an object.
    async fn fetch(&self, pointer: &Pointer, answered: Option<&Answered>, folder: &Path) -> Result<(), LfsError> {
        let answered = answered.ok_or_else(|| not_answered(pointer))?;
        if let Some(error) = &answered.error {
            return Err(object_error(error));
        }
        let action = answered.actions.as_ref().and_then(|actions| actions.download.as_ref());
        let action = action.ok_or(LfsError::Missing)?;
        let mut answer = self.get(action).await?;
        check_length(pointer, &answer)?;
        let mut file = Incoming::create(pointer, folder).await?;
        let mut pace = Pace::new(Instant::now());
        loop {
            let piece = timeout(IDLE, answer.chunk()).await.map_err(|_| slow())?;
            let Some(piece) = piece.map_err(|error| LfsError::Failed(journeyman_net::root_cause(&error)))? else {
                return file.finish().await;
            };
            file.write(&piece).await?;
            if !pace.keeps_up(Instant::now(), piece.len()) {
                return Err(slow());
            }
        }
    }

    /// Starts the download of an action, and follows redirects.
    async fn get(&self, action: &Action) -> Result<Response, LfsError> {
        let mut url = self.url(&action.href)?;
        // Another server that the first one redirects to gets no headers.
        let origin = url.origin();
        for _ in 0..=REDIRECTS {
            let headers = if url.origin() == origin { action.header.as_ref() } else { None };
            let request = self.request(Method::GET, &url, headers).body(Bytes::new()).map_err(malformed)?;
            let answer = timeout(IDLE, self.client_for(&url).start(request)).await.map_err(|_| slow())?;
            let answer = answer.map_err(not_sent)?;
            if let Some(next) = redirect(&url, answer.status(), answer.headers().get(header::LOCATION)) {
                url = self.checked(next?)?;
                continue;
            }
            return match answer.status() {
                StatusCode::OK => Ok(answer),
                status => Err(match status_error(status, message_of(answer).await) {
                    LfsError::Unsupported(_) => LfsError::Missing,
                    error => error,
                }),
            };
        }
        Err(too_many_redirects())
    }

    async fn missing_once(&self, branch: &str, objects: &[Pointer]) -> Result<Vec<LfsFailure>, LfsError> {
        let mut failures = Vec::new();
        for part in objects.chunks(BATCH) {
            let answered = self.batch(Operation::Upload, Some(branch), part).await?;
            for pointer in part {
                let answered = answered.get(&pointer.oid).ok_or_else(|| not_answered(pointer))?;
                let wanted = answered.actions.as_ref().and_then(|actions| actions.upload.as_ref());
                let error = match (&answered.error, wanted) {
                    (Some(error), _) => Some(match object_error(error) {
                        LfsError::Missing => LfsError::Refused(coded(error)),
                        error => error,
                    }),
                    (None, Some(_)) => Some(LfsError::Missing),
                    (None, None) => None,
                };
                failures.extend(error.map(|error| LfsFailure { pointer: pointer.clone(), error }));
            }
        }
        Ok(failures)
    }

    async fn upload_once(&self, branch: &str, objects: &[LfsUpload]) -> Result<(), LfsError> {
        for part in objects.chunks(BATCH) {
            let pointers: Vec<Pointer> = part.iter().map(|object| object.pointer.clone()).collect();
            let answered = self.batch(Operation::Upload, Some(branch), &pointers).await?;
            let mut transfers: Vec<BoxFuture<'_, Result<(), LfsError>>> = Vec::new();
            for object in part {
                transfers.push(Box::pin(self.put(object, answered.get(&object.pointer.oid))));
            }
            let done: Vec<_> = stream::iter(transfers).buffer_unordered(CONCURRENT).collect().await;
            // What another attempt cannot repair is told first.
            let errors = done.into_iter().filter_map(Result::err);
            if let Some(error) = errors.min_by_key(LfsError::may_pass) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Uploads an object, if the server does not have it.
    async fn put(&self, object: &LfsUpload, answered: Option<&Answered>) -> Result<(), LfsError> {
        let LfsUpload { pointer, file } = object;
        let answered = answered.ok_or_else(|| not_answered(pointer))?;
        if let Some(error) = &answered.error {
            return Err(match object_error(error) {
                LfsError::Missing => LfsError::Refused(coded(error)),
                error => error,
            });
        }
        let Some(actions) = &answered.actions else { return Ok(()) };
        if let Some(action) = &actions.upload {
            let path = file.clone();
            let found = blocking(move || pointer_of(&mut File::open(path)?)).await.map_err(|error| disk(&error))?;
            if found != *pointer {
                return Err(LfsError::Refused(format!("the file of the object {} has other content", pointer.oid)));
            }
            let url = self.url(&action.href)?;
            let mut request = self.request(Method::PUT, &url, action.header.as_ref());
            request = request.header(header::CONTENT_LENGTH, pointer.bytes);
            if request.headers_ref().is_some_and(|headers| !headers.contains_key(header::CONTENT_TYPE)) {
                request = request.header(header::CONTENT_TYPE, "application/octet-stream");
            }
            let request = request.body(()).map_err(malformed)?;
            let body = content(tokio::fs::File::open(file).await.map_err(|error| disk(&error))?);
            let limit = IDLE + Duration::from_secs(pointer.bytes / SLOWEST);
            let answer =
                timeout(limit, self.client_for(&url).start_with_body(request, body)).await.map_err(|_| slow())?;
            check(answer.map_err(not_sent)?).await?;
        }
        if let Some(action) = &actions.verify {
            let url = self.url(&action.href)?;
            let mut request = self.request(Method::POST, &url, action.header.as_ref());
            request = request.header(header::ACCEPT, MEDIA_TYPE);
            if request.headers_ref().is_some_and(|headers| !headers.contains_key(header::CONTENT_TYPE)) {
                request = request.header(header::CONTENT_TYPE, MEDIA_TYPE);
            }
            let request = request.body(json(&Object::from(pointer))?).map_err(malformed)?;
            let answer = self.client_for(&url).send(request, LIMITS).await.map_err(not_sent)?;
            if !answer.status().is_success() {
                return Err(status_error(answer.status(), message_in(answer.status(), answer.body())));
            }
        }
        Ok(())
    }

    /// Asks the server what to do with objects. Returns its answers by the names of the objects.
    async fn batch(
        &self,
        operation: Operation,
        branch: Option<&str>,
        objects: &[Pointer],
    ) -> Result<HashMap<String, Answered>, LfsError> {
        let batch = Batch {
            operation: match operation {
                Operation::Download => "download",
                Operation::Upload => "upload",
            },
            transfers: ["basic"],
            reference: branch.map(|branch| Reference { name: format!("refs/heads/{branch}") }),
            objects: objects.iter().map(Object::from).collect(),
            hash_algo: "sha256",
        };
        let body = json(&batch)?;
        let mut url = self.url(&format!("{}/objects/batch", self.endpoint))?;
        for _ in 0..=REDIRECTS {
            let request = self.request(Method::POST, &url, None);
            let request = request.header(header::ACCEPT, MEDIA_TYPE).header(header::CONTENT_TYPE, MEDIA_TYPE);
            let request = request.body(body.clone()).map_err(malformed)?;
            let answer = self.client.send(request, LIMITS).await.map_err(not_sent)?;
            if let Some(next) = redirect(&url, answer.status(), answer.headers().get(header::LOCATION)) {
                url = self.checked(next?)?;
                if url.origin() != self.endpoint.origin() {
                    tracing::info!(to = url.host_str(), "an LFS server redirects to another server");
                    let text = "the LFS server redirects to another server, which does not get the project's credential; \
                                change the address of the project's repository";
                    return Err(LfsError::Unsupported(text.to_owned()));
                }
                continue;
            }
            if answer.status() != StatusCode::OK {
                return Err(status_error(answer.status(), message_in(answer.status(), answer.body())));
            }
            return read_answer(answer.body());
        }
        Err(too_many_redirects())
    }

    /// Returns the client for a URL.
    fn client_for(&self, url: &Url) -> &Client {
        if url.origin() == self.endpoint.origin() { self.client } else { self.others }
    }

    /// Parses a URL that the server named.
    fn url(&self, href: &str) -> Result<Url, LfsError> {
        let url = Url::parse(href);
        self.checked(url.map_err(|error| LfsError::Refused(format!("the server named a malformed URL: {error}")))?)
    }

    /// Refuses a URL that is less protected than the repository's.
    fn checked(&self, url: Url) -> Result<Url, LfsError> {
        match (self.endpoint.scheme(), url.scheme()) {
            (_, "https") | ("http", "http") => Ok(url),
            (_, other) => {
                tracing::info!(scheme = other, host = url.host_str(), "an LFS server named a URL without encryption");
                let text = "the server named a URL that does not use https, although its own does";
                Err(LfsError::Refused(text.to_owned()))
            }
        }
    }

    /// Begins a request with the headers that the server named. The credential is added only for the origin of the
    /// repository.
    fn request(
        &self,
        method: Method,
        url: &Url,
        headers: Option<&std::collections::BTreeMap<String, String>>,
    ) -> http::request::Builder {
        let mut request = http::Request::builder().method(method).uri(url.as_str());
        for (name, value) in headers.into_iter().flatten() {
            let name = HeaderName::try_from(name.as_str());
            let (Ok(name), Ok(mut value)) = (name, HeaderValue::try_from(value.as_str())) else { continue };
            value.set_sensitive(true);
            if !OURS.contains(&name) {
                request = request.header(name, value);
            }
        }
        let has_own = request.headers_ref().is_some_and(|headers| headers.contains_key(header::AUTHORIZATION));
        if let Some(credential) = self.credential.filter(|_| !has_own && url.origin() == self.endpoint.origin()) {
            let pair = format!("{}:{}", credential.username, credential.password);
            if let Ok(mut value) = HeaderValue::try_from(format!("Basic {}", BASE64.encode(pair))) {
                value.set_sensitive(true);
                request = request.header(header::AUTHORIZATION, value);
            }
        }
        request
    }
}

/// Refuses an answer that says that its content has another size than the pointer: no further attempt changes that.
fn check_length(Pointer { oid, bytes }: &Pointer, answer: &Response) -> Result<(), LfsError> {
    let length = answer.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match length.filter(|length: &u64| length != bytes) {
        None => Ok(()),
        Some(length) => Err(LfsError::Refused(format!(
            "the server has other content for the object {oid}: it has {length} bytes instead of {bytes}"
        ))),
    }
}

/// The bytes of a download in the current [`WINDOW`].
struct Pace {
    since: Instant,
    bytes: u64,
}

impl Pace {
    const fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0 }
    }

    /// Counts bytes that have arrived. Returns false if the window that has ended had too few.
    fn keeps_up(&mut self, now: Instant, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let passed = now.saturating_duration_since(self.since);
        if passed < WINDOW {
            return true;
        }
        let keeps_up = self.bytes >= passed.as_secs() * SLOWEST;
        *self = Self::new(now);
        keeps_up
    }
}

fn read_answer(body: &[u8]) -> Result<HashMap<String, Answered>, LfsError> {
    // The error may quote the answer.
    let answer: Answer = serde_json::from_slice(body).map_err(|error| {
        tracing::info!(%error, "the answer of an LFS server cannot be read");
        LfsError::Unsupported("the repository's host has no LFS server that the service understands".to_owned())
    })?;
    if let Some(other) = answer.transfer.filter(|transfer| transfer != "basic") {
        tracing::info!(transfer = shortened(&other), "an LFS server insists on a transfer");
        return Err(LfsError::Unsupported("the LFS server insists on a transfer other than \"basic\"".to_owned()));
    }
    if let Some(other) = answer.hash_algo.filter(|hash| hash != "sha256") {
        tracing::info!(hash = shortened(&other), "an LFS server insists on a hash");
        return Err(LfsError::Unsupported("the LFS server insists on a hash other than SHA-256".to_owned()));
    }
    Ok(answer.objects.into_iter().map(|object| (object.oid.clone(), object)).collect())
}

/// Returns the URL to which an answer redirects, if it does.
fn redirect(from: &Url, status: StatusCode, location: Option<&HeaderValue>) -> Option<Result<Url, LfsError>> {
    let is_redirect = matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = location.filter(|_| is_redirect)?.to_str().unwrap_or_default();
    let malformed = |error| LfsError::Refused(format!("the server redirects to a malformed URL: {error}"));
    Some(from.join(location).map_err(malformed))
}

fn too_many_redirects() -> LfsError {
    LfsError::Refused(format!("the server redirected more than {REDIRECTS} times"))
}

/// Fails if the answer to a request with content is an error.
async fn check(answer: Response) -> Result<(), LfsError> {
    match answer.status() {
        status if status.is_success() => Ok(()),
        status => Err(status_error(status, message_of(answer).await)),
    }
}

/// Returns the error of a status.
fn status_error(status: StatusCode, text: String) -> LfsError {
    match status.as_u16() {
        401 => LfsError::Credential(text),
        403 => LfsError::Denied(text),
        404 | 410 | 501 => LfsError::Unsupported(format!(
            "the host has no LFS server for the repository, or the credential may not \
                                           use it: {text}"
        )),
        408 | 425 | 429 | 500 | 502 | 503 | 504 => LfsError::Failed(text),
        _ => LfsError::Refused(text),
    }
}

/// Describes the error of an object by its code. The message of the server is only in the log of the service.
fn coded(error: &ObjectError) -> String {
    tracing::info!(code = error.code, text = shortened(&error.message), "an LFS server refused an object");
    format!("code {}", error.code)
}

fn object_error(error: &ObjectError) -> LfsError {
    let text = coded(error);
    match error.code {
        404 | 410 => LfsError::Missing,
        code => match StatusCode::from_u16(code) {
            Ok(status) => match status_error(status, text) {
                LfsError::Unsupported(text) => LfsError::Refused(text),
                error => error,
            },
            Err(_) => LfsError::Refused(text),
        },
    }
}

fn not_answered(pointer: &Pointer) -> LfsError {
    LfsError::Refused(format!("the server did not answer about the object {}", pointer.oid))
}

/// Reads the beginning of an error's body.
async fn message_of(mut answer: Response) -> String {
    let (status, mut body) = (answer.status(), BytesMut::new());
    while let Ok(Ok(Some(piece))) = timeout(IDLE, answer.chunk()).await {
        body.extend_from_slice(&piece);
        if body.len() > PIECE_BYTES {
            break;
        }
    }
    message_in(status, &body)
}

/// Describes an error by its status. The message of the server is only in the log of the service.
fn message_in(status: StatusCode, body: &[u8]) -> String {
    let status = status.as_u16();
    if let Ok(found) = serde_json::from_slice::<Message>(body) {
        tracing::info!(status, text = shortened(&found.message), "an LFS server refused a request");
    }
    format!("HTTP {status}")
}

/// Returns the beginning of a text of a server, in one line.
fn shortened(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().chars().take(MESSAGE_CHARS).collect()
}

fn slow() -> LfsError {
    LfsError::Failed("the server is too slow".to_owned())
}

fn malformed(error: http::Error) -> LfsError {
    LfsError::Refused(format!("the server named a malformed request: {error}"))
}

fn not_sent(error: Error) -> LfsError {
    match error {
        Error::NotPermitted(host) => LfsError::Refused(format!(
            "{host}, where the LFS server has the objects, has only private or link-local addresses; the operator can \
             allow its network with code-host-networks"
        )),
        Error::Scheme(_) | Error::Malformed(_) | Error::TooLarge(_) => LfsError::Refused(error.to_string()),
        Error::NotFound { .. } | Error::NoTls(_) | Error::Slow(_) | Error::Unreachable(_) => {
            LfsError::Failed(error.to_string())
        }
    }
}

fn json(body: &impl serde::Serialize) -> Result<Bytes, LfsError> {
    serde_json::to_vec(body).map(Bytes::from).map_err(|error| LfsError::Refused(error.to_string()))
}

/// Reads a file piece by piece.
fn content(file: tokio::fs::File) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::unfold(Some(file), |file| async move {
        let mut file = file?;
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        match file.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(piece.freeze()), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_must_keep_its_pace_also_after_a_fast_beginning() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new(start);
        assert!(pace.keeps_up(at(1), 5 << 30), "a fast beginning");
        assert!(pace.keeps_up(at(60), 1), "it counts for its own window");
        assert!(pace.keeps_up(at(119), 1), "the next window has not ended");
        assert!(!pace.keeps_up(at(120), 1), "3 bytes in a minute");
        let mut pace = Pace::new(start);
        assert!((1..600).all(|second| pace.keeps_up(at(second), 17 << 10)), "slow, but fast enough");
        let mut pace = Pace::new(start);
        assert!(!(1..600).all(|second| pace.keeps_up(at(second), 15 << 10)), "too slow");
    }
}
