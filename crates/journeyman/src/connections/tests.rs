//! Tests of the accept loop over real sockets, with a minimal interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Extension};
use axum::http::StatusCode;
use axum::routing::{get, post};
use futures::stream;
use journeyman_core::ports::{ClientConnection, ConnectionMeter};
use journeyman_testkit::{until_async, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::limits::Limits;
use super::registry::Registry;
use super::{Timeouts, listen, serve};

type Known = Extension<Arc<dyn ClientConnection>>;

const LONG: Duration = Duration::from_secs(3600);

/// The timeout that a test waits for. The others are long, because on a busy machine any of them may pass early.
const SHORT: Duration = Duration::from_millis(100);

const NO_TIMEOUT: Timeouts = Timeouts { header: LONG, idle: LONG, request: LONG, write: LONG };

struct Running {
    address: SocketAddr,
    registry: Arc<Registry>,
    drain: CancellationToken,
    task: JoinHandle<()>,
}

/// Returns the interface: `/` needs no authentication, `/known` authenticates, `/body` and `/known-body` read a body,
/// `/unread` does not, `/stream` sends text until the server drains, and `/flood` sends zeros without an end.
fn router(drain: CancellationToken) -> Router {
    let events = move |Extension(connection): Known| async move {
        connection.set_authenticated(true);
        Body::from_stream(stream::unfold(drain, |drain| async move {
            tokio::select! {
                () = drain.cancelled() => None,
                () = tokio::time::sleep(Duration::from_millis(50)) => {
                    Some((Ok::<_, std::io::Error>(Bytes::from_static(b"still here\n")), drain))
                }
            }
        }))
    };
    let flood = |Extension(connection): Known| async move {
        connection.set_authenticated(true);
        let zeros = Bytes::from_static(&[0; 32 << 10]);
        Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(zeros.clone())))
    };
    let known_body = |Extension(connection): Known, body: Body| async move {
        connection.set_authenticated(true);
        axum::body::to_bytes(body, 1000).await.map_or_else(|error| error.to_string(), |body| body.len().to_string())
    };
    Router::new()
        .route("/", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() }))
        .route("/known", get(|Extension(connection): Known| async move { connection.set_authenticated(true) }))
        .route("/refused", get(|Extension(connection): Known| async move { connection.set_authenticated(false) }))
        .route("/body", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/unread", post(async || StatusCode::UNAUTHORIZED))
        .route("/known-body", post(known_body))
        .route("/stream", get(events))
        .route("/flood", get(flood))
}

fn start(total: usize, per_address: usize, timeouts: Timeouts) -> Running {
    start_at(total, per_address, timeouts, false)
}

fn start_at(total: usize, per_address: usize, timeouts: Timeouts, is_https: bool) -> Running {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let registry = Registry::new(Limits { total, per_address }, timeouts, Vec::new(), is_https);
    let drain = CancellationToken::new();
    let task = tokio::spawn(serve(listener, router(drain.clone()), Arc::clone(&registry), drain.clone()));
    Running { address, registry, drain, task }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Opens a connection and sends a text on it.
    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.expect("it is sent");
        stream
    }

    async fn until(&self, what: &str, holds: impl Fn(&journeyman_core::ports::ConnectionTotals) -> bool) {
        until_async(what, async || holds(&self.registry.connection_totals()).then_some(())).await;
    }

    /// Opens a connection, and sends a request that is answered. Returns the connection, and the number of earlier ones
    /// whose timeout for heads has passed before the head arrived.
    async fn answered(&self, path: &str, end: &str) -> (TcpStream, u64) {
        for late in 0..1000 {
            let mut stream = self.connect().await;
            if ask(&mut stream, path, end).await.starts_with("HTTP/1.1 200") {
                return (stream, late);
            }
        }
        panic!("no request for {path} is answered")
    }
}

/// Reads until the received text ends with `end` or the connection ends; returns the text.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut piece = [0; 4096];
    while !text.ends_with(end) {
        match within("text or the end of the connection", stream.read(&mut piece)).await {
            Ok(0) | Err(_) => break,
            Ok(length) => text.push_str(&String::from_utf8_lossy(&piece[..length])),
        }
    }
    text
}

/// Waits until the server has closed a connection; returns what the server sent before.
async fn closed(stream: &mut TcpStream) -> String {
    read_until(stream, "never received").await
}

async fn ask(stream: &mut TcpStream, path: &str, end: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    if stream.write_all(request.as_bytes()).await.is_err() {
        return String::new();
    }
    read_until(stream, end).await
}

#[tokio::test]
async fn held_connections_block_neither_new_clients_nor_authenticated_ones() {
    let server = start(8, 8, NO_TIMEOUT);
    let mut known = server.connect().await;
    assert!(ask(&mut known, "/known", "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    let mut held = Vec::new();
    for number in 0..40 {
        held.push(
            server
                .send(
                    ["", "GET / HTTP/1.1\r\nhos", "POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1"]
                        [number % 3],
                )
                .await,
        );
        let mut health = server.connect().await;
        assert!(ask(&mut health, "/", "127.0.0.1").await.starts_with("HTTP/1.1 200"), "{number}");
    }
    assert!(ask(&mut known, "/known", "\r\n\r\n").await.starts_with("HTTP/1.1 200"), "it was not evicted");
    let totals = server.registry.connection_totals();
    assert!(totals.authenticated == 1 && totals.unauthenticated <= 7 && totals.accepted == 81, "{totals:?}");
    closed(&mut held[0]).await;
}

#[tokio::test]
async fn partial_heads_idle_connections_and_partial_bodies_time_out() {
    let server = start(8, 8, Timeouts { header: SHORT, ..NO_TIMEOUT });
    assert_eq!(closed(&mut server.connect().await).await, "");
    assert_eq!(closed(&mut server.send("GET / HTTP/1.1\r\nhost: ").await).await, "");
    let (mut second, late) = server.answered("/", "127.0.0.1").await;
    second.write_all(b"GET / HTT").await.expect("it is sent");
    assert_eq!(closed(&mut second).await, "", "the head of a later request has the same timeout");
    server.until("heads", |totals| totals.closed["header_timeout"] == 3 + late).await;

    let server = start(8, 8, Timeouts { idle: SHORT, ..NO_TIMEOUT });
    let mut idle = server.connect().await;
    assert!(ask(&mut idle, "/known", "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    assert_eq!(closed(&mut idle).await, "", "authenticated or not");
    server.until("idle", |totals| totals.closed["idle_timeout"] == 1).await;

    let server = start(8, 8, Timeouts { request: SHORT, ..NO_TIMEOUT });
    let head = |path| format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nab");
    let mut proxied = server.connect().await;
    assert!(ask(&mut proxied, "/known", "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    proxied.write_all(head("/body").as_bytes()).await.expect("it is sent");
    let mut known = server.send(&head("/known-body")).await;
    assert_eq!(closed(&mut server.send(&head("/body")).await).await, "");
    assert_eq!(closed(&mut proxied).await, "", "an earlier request does not authenticate a later one");
    server.until("bodies", |totals| totals.closed["request_timeout"] == 2).await;
    known.write_all(b"cd").await.expect("it has no timeout");
    assert!(read_until(&mut known, "4").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_stream_of_an_authenticated_client_outlives_every_timeout_and_ends_when_the_server_drains() {
    for (timeouts, held) in [
        (Timeouts { header: SHORT, ..NO_TIMEOUT }, ""),
        (Timeouts { idle: SHORT, ..NO_TIMEOUT }, "GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
        (Timeouts { request: SHORT, ..NO_TIMEOUT }, "POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1"),
    ] {
        let server = start(2, 2, timeouts);
        let (mut stream, _) = server.answered("/stream", "still here\n\r\n").await;
        for _ in 0..4 {
            // Each connection takes a slot for its whole timeout.
            closed(&mut server.send(held).await).await;
        }
        assert_eq!(server.registry.connection_totals().authenticated, 1);
        let waiting = server.connect().await;
        server.drain.cancel();
        assert!(closed(&mut stream).await.ends_with("still here\n\r\n0\r\n\r\n"), "the stream ends cleanly");
        within("the server ends", server.task).await.expect("it does not panic");
        assert!(TcpStream::connect(server.address).await.is_err(), "the listener is closed");
        drop(waiting);
    }
}

#[tokio::test]
async fn a_client_that_does_not_take_its_response_is_disconnected_and_one_that_does_is_not() {
    let server = start(8, 8, Timeouts { write: SHORT, ..NO_TIMEOUT });
    let mut quiet = server.connect().await;
    assert!(ask(&mut quiet, "/stream", "still here\n\r\n").await.starts_with("HTTP/1.1 200"));
    let request = "GET /flood HTTP/1.1\r\nhost: x\r\n\r\n";
    let stuck = [server.send(request).await, server.send(request).await];
    server.until("the ends of both", |totals| totals.closed["write_timeout"] == 2).await;
    server.until("their slots", |totals| totals.authenticated == 1).await;
    assert!(read_until(&mut quiet, "still here\n\r\n").await.ends_with("still here\n\r\n"), "it has taken all bytes");
    drop(stuck);
}

#[tokio::test]
async fn an_address_whose_connections_are_all_authenticated_gets_503_at_its_limit() {
    let server = start(8, 2, NO_TIMEOUT);
    let mut connections = [server.connect().await, server.connect().await];
    for connection in &mut connections {
        assert!(ask(connection, "/known", "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    }
    let refused = closed(&mut server.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("too_many_connections"), "{refused}");
    assert!(ask(&mut connections[0], "/refused", "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    let mut health = server.connect().await;
    assert!(ask(&mut health, "/", "127.0.0.1").await.starts_with("HTTP/1.1 200"), "one is no longer authenticated");
    closed(&mut connections[0]).await;
}

#[tokio::test]
async fn pipelined_and_keep_alive_requests_are_answered_on_one_connection() {
    let server = start(8, 8, NO_TIMEOUT);
    let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut stream = server.send(&request.repeat(3)).await;
    let mut text = String::new();
    while text.matches("127.0.0.1").count() < 3 {
        let piece = read_until(&mut stream, "127.0.0.1").await;
        assert!(!piece.is_empty(), "{text}");
        text.push_str(&piece);
    }
    assert_eq!(text.matches("HTTP/1.1 200").count(), 3);
    assert_eq!(server.registry.connection_totals().accepted, 1);
    drop(stream);
    server.until("an end", |totals| totals.unauthenticated == 0).await;
}

#[tokio::test]
async fn a_connection_stays_open_after_a_body_that_was_not_read() {
    let server = start(8, 8, NO_TIMEOUT);
    let mut stream = server.send("POST /unread HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n").await;
    // The answer waits for the body, so the body comes after the handler has ended.
    tokio::time::sleep(SHORT).await;
    stream.write_all(b"the body.").await.expect("it is sent");
    assert!(read_until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 401"));
    assert!(ask(&mut stream, "/", "127.0.0.1").await.starts_with("HTTP/1.1 200"), "the connection is open");
}

#[tokio::test]
async fn an_answer_says_that_the_connection_closes_if_the_body_is_not_read() {
    let head = |length: usize, more: &str| {
        format!("POST /unread HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{more}\r\n")
    };
    let server = start(8, 8, NO_TIMEOUT);
    for (request, body) in [
        (head(300_000, ""), "x".repeat(300_000)),
        (head(9, ""), "part".to_owned()),
        (head(9, "expect: 100-continue\r\n"), String::new()),
    ] {
        let mut stream = server.send(&request).await;
        // The server may close the connection before it has taken the whole body.
        drop(stream.write_all(body.as_bytes()).await);
        let answer = read_until(&mut stream, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("connection: close"), "{request}: {answer}");
    }
}

#[tokio::test]
async fn a_head_of_more_than_64_kib_is_refused() {
    let server = start(8, 8, NO_TIMEOUT);
    let mut stream = server.send(&format!("GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "a".repeat(70_000))).await;
    assert!(closed(&mut stream).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn every_answer_of_a_service_with_https_and_no_other_has_strict_transport_security() {
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "a".repeat(70_000));
    for is_https in [true, false] {
        let server = start_at(8, 1, NO_TIMEOUT, is_https);
        let mut answers = vec![closed(&mut server.send(&long).await).await];
        for path in ["/nothing", "/known"] {
            let mut known = server.connect().await;
            answers.push(ask(&mut known, path, "\r\n\r\n").await);
            if path == "/known" {
                answers.push(closed(&mut server.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await).await);
            }
            drop(known);
            server.until("the connection is closed", |totals| totals.authenticated + totals.unauthenticated == 0).await;
        }
        for (answer, status) in answers.iter().zip([431, 404, 200, 503]) {
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            let has = answer.contains("\r\nstrict-transport-security: max-age=31536000\r\n");
            assert_eq!(has, is_https, "{answer}");
        }
        assert_eq!(answers.len(), 4);
    }
}
