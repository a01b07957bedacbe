//! A collector of traces: OTLP over HTTP with protocol buffers.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;

use crate::patience::PATIENCE;

/// A span that a program has exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedSpan {
    /// The name.
    pub name: String,
    /// The trace ID in hexadecimal digits.
    pub trace: String,
    /// The span ID in hexadecimal digits.
    pub id: String,
    /// The ID of the parent; empty if there is none.
    pub parent: String,
    /// The trace and span IDs of the linked spans.
    pub links: Vec<(String, String)>,
    /// The attributes, as text.
    pub attributes: Vec<(String, String)>,
    /// The names of the events.
    pub events: Vec<String>,
}

impl ExportedSpan {
    /// Returns the value of an attribute; empty if there is none.
    #[must_use]
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

#[derive(Default)]
struct Received {
    spans: Vec<ExportedSpan>,
    headers: Vec<HeaderMap>,
}

/// A collector on the loopback interface, until it is dropped.
pub struct Collector {
    /// The URL, such as `http://127.0.0.1:1234`.
    pub url: String,
    received: Arc<Mutex<Received>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Collector {
    /// Starts a collector.
    ///
    /// # Panics
    /// No address is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received: Arc<Mutex<Received>> = Arc::default();
        let sink = Arc::clone(&received);
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let sink = Arc::clone(&sink);
                let service = service_fn(move |request| receive(Arc::clone(&sink), request));
                tokio::spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(client), service).await;
                });
            }
        });
        Self { url, received, serving }
    }

    /// Returns all spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<ExportedSpan> {
        self.received.lock().unwrap().spans.clone()
    }

    /// Returns the header fields of the requests so far.
    #[must_use]
    pub fn headers(&self) -> Vec<HeaderMap> {
        self.received.lock().unwrap().headers.clone()
    }

    /// Waits for a span that satisfies a condition.
    ///
    /// # Panics
    /// There is none within [`PATIENCE`].
    #[must_use]
    pub fn wait_for(&self, what: &str, condition: impl Fn(&ExportedSpan) -> bool) -> ExportedSpan {
        let end = Instant::now() + PATIENCE;
        loop {
            let spans = self.spans();
            if let Some(span) = spans.iter().find(|span| condition(span)) {
                return span.clone();
            }
            assert!(Instant::now() < end, "no {what} in {spans:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

async fn receive(sink: Arc<Mutex<Received>>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    assert_eq!(head.uri.path(), "/v1/traces");
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let spans = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    let mut received = sink.lock().unwrap();
    received.headers.push(head.headers);
    received.spans.extend(spans.flat_map(|scope| scope.spans).map(exported));
    Ok(Response::new(Full::default()))
}

fn exported(span: Span) -> ExportedSpan {
    let text = |value: Option<Value>| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = span.attributes.into_iter().map(|pair| (pair.key, text(pair.value.and_then(|value| value.value))));
    ExportedSpan {
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
        attributes: attributes.collect(),
        events: span.events.into_iter().map(|event| event.name).collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
