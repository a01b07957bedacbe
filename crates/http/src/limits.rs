//! Applies the limits of what callers use at the same time ([`Limiter`]) to requests and their answers.

use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};
use journeyman_app::{Class, Exceeded, Holder, Permit};

use crate::app::App;
use crate::attempts::network;
use crate::caller::{Actor, Caller};
use crate::error::{ApiError, ErrorCode};

/// The `Retry-After` of an exceeded limit, in seconds: clients that do not read are disconnected after about as long.
const RETRY_SECONDS: u64 = 10;

/// The size in bytes from which the memory of an answer is counted. Smaller ones wait in the socket.
const COUNTED_BYTES: u64 = 64 << 10;

/// The size of the pieces in which a counted answer is sent.
const PIECE_BYTES: usize = 64 << 10;

impl From<Exceeded> for ApiError {
    fn from(exceeded: Exceeded) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::LimitReached, exceeded.to_string())
            .with(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
    }
}

/// Returns the caller in whose name use is counted.
pub(crate) fn holder(caller: &Caller) -> Holder {
    match &caller.actor {
        Actor::Key(key) => Holder::Key(key.id),
        Actor::User(user) => Holder::User(user.id),
        Actor::CommandLine => Holder::Address(caller.address),
    }
}

/// Returns the sender of a request without a key, at an address. An IPv6 network of 64 bits counts as one.
pub(crate) fn sender(address: Option<IpAddr>) -> Holder {
    Holder::Address(address.map(|address| network(Some(address))))
}

/// Waits for the permission to run git for a caller.
pub(crate) async fn git(app: &App, caller: &Caller) -> Result<Permit, ApiError> {
    Ok(app.services.limiter.wait_for(Class::Git, holder(caller)).await?)
}

/// Waits for the permission to push to the built-in code host, in addition to that of [`git`].
pub(crate) async fn push(app: &App, caller: &Caller) -> Result<Permit, ApiError> {
    Ok(app.services.limiter.wait_for(Class::Pushes, holder(caller)).await?)
}

/// Takes the permission to open an event stream.
pub(crate) fn stream(app: &App, caller: &Caller) -> Result<Permit, ApiError> {
    Ok(app.services.limiter.take(Class::Streams, holder(caller))?)
}

/// Limits the concurrent calls of a protocol. The layer before must add the [`Caller`] to each request.
pub(crate) async fn calls(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(caller) = request.extensions().get::<Caller>() else {
        return ApiError::internal(&"the route requires a caller, but has no authentication layer").into_response();
    };
    match app.services.limiter.take(Class::Calls, holder(caller)) {
        Ok(permit) => next.run(request).await.map(|body| held(body, permit)),
        Err(exceeded) => ApiError::from(exceeded).into_response(),
    }
}

/// Counts the memory of an answer until its client has taken it. An answer that does not fit is replaced by an error, if
/// the request only reads.
pub(crate) fn counted(app: &App, holder: Holder, only_reads: bool, response: Response) -> Response {
    let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes >= COUNTED_BYTES) else {
        return response;
    };
    let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    let limiter = &app.services.limiter;
    let permit = match only_reads {
        true => match limiter.take_many(Class::Memory, holder, kib) {
            Ok(permit) => permit,
            Err(exceeded) => return ApiError::from(exceeded).into_response(),
        },
        false => limiter.take_anyway(Class::Memory, holder, kib),
    };
    response.map(|body| Body::new(Pieces { body, rest: Bytes::new(), left: bytes, _permit: permit }))
}

/// Returns a body that holds a permit to its end.
pub(crate) fn held(body: Body, permit: Permit) -> Body {
    Body::new(Held { inner: body, _permit: permit })
}

/// Returns a stream that holds a permit to its end.
pub(crate) fn held_stream<S: Stream + Unpin>(stream: S, permit: Permit) -> impl Stream<Item = S::Item> {
    Held { inner: stream, _permit: permit }
}

/// A body or a stream with a permit.
struct Held<T> {
    inner: T,
    _permit: Permit,
}

impl HttpBody for Held<Body> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<S: Stream + Unpin> Stream for Held<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        Pin::new(&mut self.inner).poll_next(cx)
    }
}

/// A body of a known size, which is copied out in pieces: the server drops a body once it has taken the last piece, and
/// would otherwise hold all of its memory for longer than the permit.
struct Pieces {
    body: Body,
    rest: Bytes,
    left: u64,
    _permit: Permit,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = Bytes::copy_from_slice(&self.rest.split_to(length));
        self.left = self.left.saturating_sub(length as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use journeyman_app::{Limiter, Limits};

    use super::*;

    #[tokio::test]
    async fn a_counted_body_is_the_same_and_holds_its_permit_until_it_is_taken() {
        let limiter = Limiter::new(Limits::default());
        let used = || limiter.uses().into_iter().find(|one| one.class == Class::Memory).map(|one| one.used);
        let permit = limiter.take_many(Class::Memory, Holder::Address(None), 200).unwrap();
        let whole: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        let mut body = Pieces { body: Body::from(whole.clone()), rest: Bytes::new(), left: 200_000, _permit: permit };
        let mut taken = Vec::new();
        while !body.is_end_stream() {
            assert_eq!((body.size_hint().exact(), used()), (Some(200_000 - taken.len() as u64), Some(200)));
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            taken.extend_from_slice(&piece);
        }
        assert_eq!(taken, whole);
        drop(body);
        assert_eq!(used(), Some(0));
    }
}
