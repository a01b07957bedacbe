//! Serves one connection, from its acceptance to its end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, EXPECT};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use journeyman_core::ports::ClientConnection;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::activity::Expired;
use super::io::{AnswerBody, Socket};
use super::registry::{Connection, Ticket};
use super::request_body;
use super::strict_transport;
use super::unreadable::HEAD_BYTES;

/// Serves a connection to its end: the client closes it, a timeout passes, or another connection needs its slot.
pub(super) async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut ticket: Ticket,
    drain: CancellationToken,
    slot: OwnedSemaphorePermit,
) {
    let expired = {
        let known = Arc::clone(&ticket.connection);
        let socket = TokioIo::new(Socket::new(stream, Arc::clone(&known)));
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |request: Request<Incoming>| {
            known.activity.request_begins(known.now());
            let expects = request.headers().contains_key(EXPECT);
            let (unread, mut request) = request_body::watched(request);
            request.extensions_mut().insert(ConnectInfo(peer));
            request.extensions_mut().insert(Arc::clone(&known) as Arc<dyn ClientConnection>);
            let (answer, known) = (router.call(request), Arc::clone(&known));
            async move {
                let mut answer = answer.await?;
                strict_transport::add(answer.headers_mut(), known.is_https());
                if !unread.drained(expects).await {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(answer.map(|body| AnswerBody::new(body, known)))
            }
        });
        // `Deadline` enforces the timeouts of heads and of idle connections, because hyper has one timeout for both.
        let http = http1::Builder::new()
            .header_read_timeout(None)
            .max_header_size(HEAD_BYTES)
            .serve_connection(socket, service);
        let mut http = pin!(http);
        let mut draining = pin!(drain.cancelled());
        let mut deadline = pin!(Deadline::new(&ticket.connection));
        let (evicted, mut drained) = (&mut ticket.evicted, false);
        poll_fn(|cx| {
            // Ignore the errors of clients: the connection is over either way.
            if http.as_mut().poll(cx).is_ready() || Pin::new(&mut *evicted).poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            if !drained && draining.as_mut().poll(cx).is_ready() {
                drained = true;
                http.as_mut().graceful_shutdown();
                if http.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
            }
            deadline.as_mut().poll(cx).map(Some)
        })
        .await
    };
    // The socket is closed, so its slot is free now.
    ticket.expired = expired;
    drop((ticket, slot));
}

/// A future that waits for the deadline of a connection, which moves with each request. The timer is reset only if the
/// deadline has come nearer or the timer has fired, so that a request costs no timer.
struct Deadline<'a> {
    connection: &'a Connection,
    timer: Pin<Box<Sleep>>,
}

impl<'a> Deadline<'a> {
    fn new(connection: &'a Connection) -> Self {
        let at = connection.deadline().map_or_else(Instant::now, |(at, _)| at);
        Self { connection, timer: Box::pin(sleep_until(at)) }
    }
}

impl Future for Deadline<'_> {
    type Output = Expired;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Expired> {
        loop {
            let deadline = self.connection.deadline();
            if let Some((at, _)) = deadline.filter(|(at, _)| *at < self.timer.deadline()) {
                self.timer.as_mut().reset(at);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            match deadline {
                Some((at, expired)) if at <= now => return Poll::Ready(expired),
                Some((at, _)) => self.timer.as_mut().reset(at),
                None => {
                    let at = now + self.connection.recheck_interval();
                    self.timer.as_mut().reset(at);
                }
            }
        }
    }
}
