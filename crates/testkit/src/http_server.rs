//! An HTTP server on this machine whose answers a test computes.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A received request.
#[derive(Debug, Clone)]
pub struct HttpCall {
    /// The method.
    pub method: Method,
    /// The path with the query.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl HttpCall {
    /// Returns a header as text; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or_default())
    }

    /// Returns the body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A running server. It stops when it is dropped.
pub struct HttpServer {
    /// The URL, without a slash at its end.
    pub url: String,
    calls: Arc<Mutex<Vec<HttpCall>>>,
    task: JoinHandle<()>,
}

type Answer = Response<Bytes>;

impl HttpServer {
    /// Starts a server. `answer` gets the server's URL, the request, and the number of earlier requests.
    pub async fn start(answer: impl Fn(&str, &HttpCall, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::<Mutex<Vec<HttpCall>>>::default();
        let (known, own, answer) = (Arc::clone(&calls), url.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (known, own, answer) = (Arc::clone(&known), own.clone(), Arc::clone(&answer));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (known, own, answer) = (Arc::clone(&known), own.clone(), Arc::clone(&answer));
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                        let target = parts.uri.path_and_query().map_or_else(String::new, ToString::to_string);
                        let call = HttpCall { method: parts.method, target, headers: parts.headers, body };
                        let number = {
                            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                            known.push(call.clone());
                            known.len() - 1
                        };
                        Ok::<_, Infallible>(answer(&own, &call, number).map(Full::new))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, calls, task }
    }

    /// Returns the received requests.
    #[must_use]
    pub fn calls(&self) -> Vec<HttpCall> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
