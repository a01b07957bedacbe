//! A server of models that says what a test tells it to, in the forms of Anthropic, OpenAI (chat and responses), Gemini and
//! Ollama, whole or streamed, and that fails in the ways in which they do.

mod form;

use std::convert::Infallible;
use std::io;
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

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// With the query.
    pub path: String,
    /// Its fields.
    pub headers: HeaderMap,
    /// Its body; null where it has none.
    pub body: Value,
    /// How many came before it.
    pub number: usize,
}

impl Asked {
    /// A field as text, empty where it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or_default())
    }

    /// The tools that are offered, by name, whatever the form.
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

/// What the server answers.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The model says something and ends its turn.
    Text(String),
    /// The model calls a tool.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// It fails.
    Fault(Fault),
}

/// How a server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It answers with a status and an error that quotes the key.
    Status(u16),
    /// It begins to answer, and the connection breaks.
    Cut,
    /// It begins to answer, and ends as if that were all.
    Short,
    /// It begins to answer, and then tells of an error.
    ErrorInStream,
    /// It says nothing.
    Silence,
    /// It begins to answer, and says nothing more.
    SilenceInStream,
    /// It sends the caller elsewhere.
    Redirect,
}

/// Tokens that every answer tells of: read, read from the cache among them, written.
pub const TOKENS: (u64, u64, u64) = (100, 40, 10);

type Script = Box<dyn Fn(&Asked) -> Reply + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A server, until it is dropped.
pub struct ModelServer {
    /// Such as `http://127.0.0.1:1234`.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl ModelServer {
    /// A server that answers as `script` says.
    pub async fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (script, seen): (Arc<Script>, _) = (Arc::new(Box::new(script)), Arc::clone(&asked));
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                client.set_nodelay(true).unwrap();
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                let service = service_fn(move |request| answer(Arc::clone(&script), Arc::clone(&seen), request));
                tokio::spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
                });
            }
        });
        Self { url, asked, serving }
    }

    /// A server whose model always says the same.
    pub async fn saying(text: &str) -> Self {
        let text = text.to_owned();
        Self::start(move |_| Reply::Text(text.clone())).await
    }

    /// All requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Asked>>>,
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
            let text = format!("it is no good: {}", shown.concat());
            let body = json!({"type": "error", "error": {"type": "some_error", "message": text}});
            return Ok(whole(status, "application/json", body.to_string()));
        }
        Reply::Fault(Fault::Redirect) => {
            let mut answer = whole(307, "text/plain", String::new());
            answer.headers_mut().insert("location", http::HeaderValue::from_static("http://127.0.0.1:9/elsewhere"));
            return Ok(answer);
        }
        Reply::Fault(Fault::Silence) => std::future::pending().await,
        Reply::Fault(fault) => {
            let mut pieces = form.text("It begins well");
            // The last piece, which marks the answer as complete, is left out.
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
    let mut answer = Response::new(streamed(pieces, end));
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    Ok(answer)
}

/// What comes after the last piece.
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

/// Piece by piece, each by itself.
fn streamed(pieces: Vec<String>, end: End) -> Body {
    let pieces = pieces.into_iter();
    let stream = unfold((pieces, end), async |(mut pieces, end)| {
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
            End::Silent => std::future::pending().await,
        }
    });
    StreamBody::new(Box::pin(stream)).boxed_unsync()
}
