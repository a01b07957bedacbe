//! A fake model server with scripted answers, in the formats of Anthropic, OpenAI (chat and responses), Gemini and
//! Ollama, complete or streamed. It can also simulate their failures.

mod form;

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A received request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The path, with the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The JSON body; null if there is none.
    pub body: Value,
    /// The number of earlier requests.
    pub number: usize,
}

impl Asked {
    /// Returns a header as text; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or_default())
    }

    /// Returns the names of the offered tools, in any format.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().cloned().unwrap_or_default();
        let all = tools.iter().flat_map(|tool| match tool["functionDeclarations"].as_array() {
            Some(functions) => functions.clone(),
            None => vec![tool.clone()],
        });
        let name = |tool: Value| tool["name"].as_str().or(tool["function"]["name"].as_str()).map(str::to_owned);
        all.filter_map(name).collect()
    }
}

/// An answer of the server.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The model answers with text and ends its turn.
    Text(String),
    /// The model calls a tool.
    Tool {
        /// The name of the tool.
        name: String,
        /// The arguments of the call.
        arguments: Value,
    },
    /// The request fails.
    Fault(Fault),
    /// An answer as a provider has sent it.
    Recorded(Recorded),
}

/// An answer as a provider has sent it.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// The header fields, in addition to the content type.
    pub headers: Vec<(&'static str, &'static str)>,
    /// The content type.
    pub content_type: &'static str,
    /// The pieces of the body, each of which is sent separately.
    pub pieces: Vec<String>,
    /// `true` if nothing follows the last piece, and the connection stays open.
    pub stays_open: bool,
}

/// A failure of a model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Responds with this status and an error that quotes the API key.
    Status(u16),
    /// Starts to answer, then breaks the connection.
    Cut,
    /// Starts to answer, then ends the stream early, without an error.
    Short,
    /// Starts to answer, then reports an error in the stream.
    ErrorInStream,
    /// Never answers.
    Silence,
    /// Starts to answer, then sends nothing more.
    SilenceInStream,
    /// Redirects to another server.
    Redirect,
}

/// The token counts in every answer: input, the part of the input that was cached, and output.
pub const TOKENS: (u64, u64, u64) = (100, 40, 10);

type Script = Box<dyn Fn(&Asked) -> Reply + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A fake model server, which runs until it is dropped.
pub struct ModelServer {
    /// The base URL, such as `http://127.0.0.1:1234`.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    silent: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ModelServer {
    /// Starts a server that answers each request with the reply of `script`.
    pub async fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (script, seen): (Arc<Script>, _) = (Arc::new(Box::new(script)), Arc::clone(&asked));
        let silent = Arc::<AtomicUsize>::default();
        let fell_silent = Arc::clone(&silent);
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                client.set_nodelay(true).unwrap();
                let (script, seen, silent) = (Arc::clone(&script), Arc::clone(&seen), Arc::clone(&fell_silent));
                let service = service_fn(move |request| {
                    answer(Arc::clone(&script), Arc::clone(&seen), Arc::clone(&silent), request)
                });
                tokio::spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
                });
            }
        });
        Self { url, asked, silent, serving }
    }

    /// Starts a server whose model always answers with `text`.
    pub async fn saying(text: &str) -> Self {
        let text = text.to_owned();
        Self::start(move |_| Reply::Text(text.clone())).await
    }

    /// Returns the number of answers that have sent their beginning, and send nothing more.
    #[must_use]
    pub fn silent(&self) -> usize {
        self.silent.load(Ordering::SeqCst)
    }

    /// Returns all requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Asked>>>,
    silent: Arc<AtomicUsize>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let asked = {
        let mut seen = seen.lock().unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let number = seen.len();
        seen.push(Asked { path, headers: head.headers, body, number });
        seen.last().unwrap().clone()
    };
    let Some(form) = form::of(&asked) else {
        let body = json!({"object": "list", "data": [], "models": [], "input_tokens": 100, "totalTokens": 100});
        return Ok(whole(200, "application/json", body.to_string()));
    };
    let (pieces, end) = match script(&asked) {
        Reply::Text(text) => (form.text(&text), End::Closed),
        Reply::Tool { name, arguments } => (form.tool(&name, &arguments), End::Closed),
        Reply::Fault(Fault::Status(status)) => {
            let shown = [asked.header("x-api-key"), asked.header("authorization"), asked.header("x-goog-api-key")];
            let text = format!("the request failed: {}", shown.concat());
            let body = json!({"type": "error", "error": {"type": "some_error", "message": text}});
            return Ok(whole(status, "application/json", body.to_string()));
        }
        Reply::Fault(Fault::Redirect) => {
            let mut answer = whole(307, "text/plain", String::new());
            answer.headers_mut().insert("location", http::HeaderValue::from_static("http://127.0.0.1:9/elsewhere"));
            return Ok(answer);
        }
        Reply::Fault(Fault::Silence) => std::future::pending().await,
        Reply::Recorded(Recorded { headers, content_type, pieces, stays_open }) => {
            let end = if stays_open { End::Silent } else { End::Closed };
            let mut answer = Response::new(streamed(pieces, end, silent));
            answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
            for (name, value) in headers {
                answer.headers_mut().insert(name, http::HeaderValue::from_static(value));
            }
            return Ok(answer);
        }
        Reply::Fault(fault) => {
            let mut pieces = form.text("It begins well");
            // Omit the last piece, which marks the answer as complete.
            pieces.truncate(pieces.len().saturating_sub(1).min(2));
            match fault {
                Fault::Cut => (pieces, End::Cut),
                Fault::SilenceInStream => (pieces, End::Silent),
                Fault::ErrorInStream => {
                    pieces.push(form.error("overloaded"));
                    (pieces, End::Closed)
                }
                _ => (pieces, End::Closed),
            }
        }
    };
    let kind = form.content_type();
    if !form.streams && end == End::Closed {
        return Ok(whole(200, kind, pieces.concat()));
    }
    let mut answer = Response::new(streamed(pieces, end, silent));
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    Ok(answer)
}

/// The end of a stream, after its last piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Cut,
    Silent,
}

fn whole(status: u16, kind: &'static str, text: String) -> Response<Body> {
    let mut answer = Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    answer
}

/// Returns a body that sends each piece separately.
fn streamed(pieces: Vec<String>, end: End, silent: Arc<AtomicUsize>) -> Body {
    let pieces = pieces.into_iter();
    let stream = unfold((pieces, end), move |(mut pieces, end)| {
        let silent = Arc::clone(&silent);
        async move {
            if let Some(piece) = pieces.next() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                return Some((Ok(Frame::data(Bytes::from(piece))), (pieces, end)));
            }
            match end {
                End::Closed => None,
                End::Cut => {
                    let cut = io::Error::new(io::ErrorKind::ConnectionReset, "cut");
                    Some((Err(cut), (pieces, End::Closed)))
                }
                End::Silent => {
                    silent.fetch_add(1, Ordering::SeqCst);
                    std::future::pending().await
                }
            }
        }
    });
    StreamBody::new(Box::pin(stream)).boxed_unsync()
}
