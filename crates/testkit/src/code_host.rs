//! A stand-in for a code host, with real git over HTTP, and faults. One state serves the interfaces of all products; the
//! modules below translate it.

mod bitbucket;
mod bitbucket_data_center;
mod changes;
mod exchange;
mod git;
mod gitea;
mod github;
mod gitlab;
mod products;
mod stamp;
mod state;
mod times;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use url::form_urlencoded;

pub use exchange::{ApiRequest, Exchange, Product, Reply};
pub use github::Records as GithubRecords;
pub use gitlab::Records as GitlabRecords;
pub use state::{
    App, Bridge, Check, Comment, CommentReply, CommentedOn, Installation, Issue, MergedResult, Output, Pipeline, Pull,
    PullState, Repository, Review, ReviewComment, State, Status, Token, UploadedFile, User,
};

/// A fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Status 500, without an effect.
    FailsBefore,
    /// Status 502 after the effect.
    FailsAfter,
    /// The connection is closed without an effect.
    ClosesBefore,
    /// The connection is closed after the effect.
    ClosesAfter,
    /// Status 429 with this number in `Retry-After`.
    RateLimited(u64),
    /// A refusal because of a rate limit that says no time: GitHub's secondary limit.
    RateLimitedSilently,
    /// A refusal because of GitHub's primary limit, which is reset at this time in seconds since 1970.
    RateLimitedUntil(u64),
    /// Status 401, as for an expired token.
    Unauthorized,
    /// A redirect to the same path at this origin.
    MovedTo(&'static str),
}

/// A request that was answered, with its times in seconds since 1970.
#[derive(Debug, Clone, PartialEq)]
struct Answered {
    request: String,
    begun: f64,
    ended: f64,
}

/// A fault that waits for requests.
struct Planned {
    fault: Fault,
    method: Method,
    /// A part of the target.
    part: String,
    times: u32,
}

/// The stand-in, which runs until it is dropped.
pub struct CodeHostServer {
    /// The URL of its pages, without a slash at its end.
    pub url: String,
    /// The product.
    pub product: Product,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    product: Product,
    folder: TempDir,
    state: Mutex<State>,
    faults: Mutex<Vec<Planned>>,
    requests: Mutex<Vec<ApiRequest>>,
    recorder: Mutex<Option<Sender<Exchange>>>,
    answered: Mutex<Vec<Answered>>,
}

impl Drop for CodeHostServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl CodeHostServer {
    /// Starts a stand-in without repositories. Its user `journeyman-bot` has the token [`State::TOKEN`].
    pub async fn start(product: Product) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            product,
            folder: tempfile::tempdir().unwrap(),
            state: Mutex::new(State::new(url.clone())),
            faults: Mutex::default(),
            requests: Mutex::default(),
            recorder: Mutex::default(),
            answered: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            // Dropping the set closes the connections.
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&served);
                let service = service_fn(move |request| timed(Arc::clone(&shared), request));
                clients.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
                });
            }
        });
        Self { url, product, shared, serving }
    }

    /// Returns the state, locked.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Creates a repository with one commit on `main`, to which the bot may push, and returns the URL to clone it.
    pub async fn repository(&self, path: &str) -> String {
        // A renamed repository keeps its folder.
        let folder = format!("{path}-{}.git", self.state().repositories.len());
        git::create(&self.shared.folder.path().join(&folder)).await;
        self.state().add_repository(path, folder);
        self.clone_url(path)
    }

    /// Returns the URL to clone a repository.
    #[must_use]
    pub fn clone_url(&self, path: &str) -> String {
        match self.product {
            Product::BitbucketDataCenter => format!("{}/scm/{path}.git", self.url),
            _ => format!("{}/{path}.git", self.url),
        }
    }

    /// Returns the bare repository on the disk. Renames do not move it.
    #[must_use]
    pub fn git_dir(&self, path: &str) -> std::path::PathBuf {
        self.shared.folder.path().join(&self.state().by_path(path).unwrap().folder)
    }

    /// Pushes a commit that adds a file to a branch, which is created from `main` if it does not exist, and returns the
    /// commit. Other people do this.
    pub async fn commit(&self, path: &str, branch: &str, file: &str, content: &str) -> String {
        git::commit(&self.git_dir(path), branch, file, content).await
    }

    /// Moves a branch to a commit.
    pub async fn move_branch(&self, path: &str, branch: &str, commit: &str) {
        git::move_branch(&self.git_dir(path), branch, commit).await;
    }

    /// Returns the newest commit of a branch.
    pub async fn head(&self, path: &str, branch: &str) -> Option<String> {
        git::head(&self.git_dir(path), branch).await
    }

    /// Plans a fault of the next `times` requests with this method whose target contains `part`.
    pub fn fault(&self, fault: Fault, method: Method, part: &str, times: u32) {
        self.shared.faults.lock().unwrap().push(Planned { fault, method, part: part.to_owned(), times });
    }

    /// Returns the requests to the interface so far.
    #[must_use]
    pub fn requests(&self) -> Vec<ApiRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Records the requests from now on with their answers, except those whose connection is closed.
    #[must_use]
    pub fn record(&self) -> Receiver<Exchange> {
        let (sender, receiver) = channel();
        *self.shared.recorder.lock().unwrap() = Some(sender);
        receiver
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark compares the times of several processes")]
fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Answers a request, and remembers its times. `GET /answered` returns the times so far, as JSON.
async fn timed(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Closed> {
    if request.uri().path() == "/answered" {
        let answered = std::mem::take(&mut *shared.answered.lock().unwrap());
        let show = |one: Answered| json!({ "request": one.request, "begun": one.begun, "ended": one.ended });
        return Ok(response(Reply::json(200, &answered.into_iter().map(show).collect())));
    }
    let (text, begun) = (format!("{} {}", request.method(), request.uri()), now());
    let answer = answer(Arc::clone(&shared), request).await;
    shared.answered.lock().unwrap().push(Answered { request: text, begun, ended: now() });
    answer
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Closed> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let path = head.uri.path().to_owned();
    if git::split(&path).is_some() {
        return Ok(git::answer(&shared, &head, &body).await);
    }
    let target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    if let Some(job) = path.strip_prefix("/logs/") {
        return Ok(response(log(&shared, job, &head.headers)));
    }
    let fault = {
        let mut faults = shared.faults.lock().unwrap();
        let hit = faults
            .iter_mut()
            .find(|planned| planned.times > 0 && planned.method == head.method && target.contains(&planned.part));
        hit.map(|planned| {
            planned.times -= 1;
            planned.fault
        })
    };
    let segments = path.trim_matches('/').split('/');
    let segments: Vec<String> = segments.map(git::decoded).collect();
    let query = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let call = ApiRequest {
        method: head.method.clone(),
        target,
        segments,
        query,
        headers: head.headers.clone(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    shared.requests.lock().unwrap().push(call.clone());
    if let Some(reply) = uploaded(&shared, &path, &call) {
        return Ok(response(reply));
    }
    let reply = match fault {
        Some(Fault::FailsBefore) => Reply::text(500, "Internal Server Error"),
        Some(Fault::ClosesBefore) => return Err(Closed),
        Some(Fault::RateLimited(seconds)) if shared.product == Product::Gitlab => gitlab::throttled(seconds),
        Some(Fault::RateLimited(seconds)) if shared.product == Product::Github => github::throttled(Some(seconds)),
        Some(Fault::RateLimited(seconds)) => {
            Reply::json(429, &json!({"message": "Too many requests"})).header("retry-after", seconds.to_string())
        }
        Some(Fault::RateLimitedSilently) => github::throttled(None),
        Some(Fault::RateLimitedUntil(reset)) => github::exhausted(reset),
        Some(Fault::MovedTo(origin)) => {
            let target = format!("{origin}{}", call.target);
            Reply::json(301, &json!({"message": "Moved Permanently"})).header("location", target)
        }
        Some(Fault::Unauthorized) if shared.product == Product::Gitlab => gitlab::unauthorized(),
        Some(Fault::Unauthorized) if shared.product == Product::Github => github::unauthorized(),
        Some(Fault::Unauthorized) => Reply::json(401, &json!({"message": "Bad credentials"})),
        Some(Fault::FailsAfter | Fault::ClosesAfter) | None => {
            refresh(&shared).await;
            let mut state = shared.state.lock().unwrap();
            dispatch(shared.product, &mut state, &call)
        }
    };
    if let Some(recorder) = &*shared.recorder.lock().unwrap() {
        let reply = fault.is_none().then(|| reply.clone());
        let _ = recorder.send(Exchange { call, reply });
    }
    match fault {
        Some(Fault::FailsAfter) => Ok(response(Reply::text(502, "<html>Bad Gateway</html>"))),
        Some(Fault::ClosesAfter) => Err(Closed),
        _ => Ok(response(reply)),
    }
}

fn dispatch(product: Product, state: &mut State, call: &ApiRequest) -> Reply {
    changes::answer(product, state, call).unwrap_or_else(|| products::answer(product, state, call))
}

/// Returns an RSA key in PEM format (PKCS #8), as for a GitHub App. It is the same in all tests of a program, because
/// making one takes a second of processor time without optimization.
#[must_use]
pub fn rsa_key() -> String {
    static KEY: LazyLock<String> = LazyLock::new(new_rsa_key);
    KEY.clone()
}

fn new_rsa_key() -> String {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    let key = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&key).unwrap();
    let text = STANDARD.encode(der.as_ref());
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

/// Answers a request for the log of a CI job, to which hosts redirect. It is on another server, which must not get the
/// credential.
fn log(shared: &Shared, job: &str, headers: &HeaderMap) -> Reply {
    if headers.contains_key("authorization") || headers.contains_key("private-token") {
        return Reply::text(400, "this server must not get a credential");
    }
    let state = shared.state.lock().unwrap();
    let mut checks = state.repositories.iter().flat_map(|repository| &repository.checks);
    match checks.find(|check| check.id.to_string() == job) {
        Some(check) => Reply::text(200, check.log.clone()),
        None => Reply::text(404, "BlobNotFound"),
    }
}

/// Answers a request for an uploaded file; `None` for other requests.
fn uploaded(shared: &Shared, path: &str, call: &ApiRequest) -> Option<Reply> {
    let mut state = shared.state.lock().unwrap();
    let Some(file) = state.files.get(path).cloned() else {
        // This is no address of the interface.
        return path.starts_with("/user-attachments/").then(|| Reply::text(404, "Not Found"));
    };
    let token = call.token();
    state.file_requests.push((path.to_owned(), token.is_some()));
    if file.is_private && state.signed_in(token.as_deref()).is_none() {
        return Some(Reply::text(404, "Not Found"));
    }
    if let Some(target) = file.redirect {
        return Some(Reply::text(302, "").header("location", target));
    }
    let headers = vec![("content-type".to_owned(), file.content_type)];
    Some(Reply { status: 200, headers, body: file.content.into() })
}

/// Reads the branches of all repositories, because pushes change them.
async fn refresh(shared: &Shared) {
    let folders: Vec<(u64, String)> = {
        let state = shared.state.lock().unwrap();
        state.repositories.iter().map(|repository| (repository.id, repository.folder.clone())).collect()
    };
    for (id, folder) in folders {
        let folder = shared.folder.path().join(folder);
        let heads = git::heads(&folder).await;
        let commits = match shared.product {
            Product::Github => git::commits(&folder).await,
            _ => BTreeMap::new(),
        };
        if let Some(repository) = shared.state.lock().unwrap().by_id(id) {
            repository.parents = heads.iter().map(|(_, sha, parents)| (sha.clone(), parents.clone())).collect();
            repository.github.commits = commits;
            repository.branches = heads.into_iter().map(|(name, sha, _)| (name, sha)).collect();
        }
    }
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap();
    for (name, value) in reply.headers {
        let name: http::HeaderName = name.parse().unwrap();
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}

/// The stand-in closes the connection without an answer.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is closed on purpose")
    }
}

impl std::error::Error for Closed {}

impl From<Infallible> for Closed {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Returns the HMAC-SHA256 of a webhook's body in hexadecimal digits.
#[must_use]
pub fn signature(secret: &str, body: &[u8]) -> String {
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = aws_lc_rs::hmac::sign(&key, body);
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
