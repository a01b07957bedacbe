//! The bodies of requests that are answered before they were read, such as one with a wrong key.
//!
//! hyper closes a connection after such an answer if the rest of the body has not arrived yet, and does not announce it.
//! A client that reuses the connection then loses its next request. Therefore a short rest is read and discarded, and
//! otherwise the answer says that the connection closes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The maximum number of bytes that are read and discarded.
const DISCARDED_BYTES: usize = 256 * 1024;

/// The maximum time that an answer waits for them.
const DISCARD: Duration = Duration::from_secs(1);

/// Returns a request with the same body, and what tells whether that body was read.
pub(super) fn watched(request: Request<Incoming>) -> (Unread, Request<Body>) {
    let (sender, receiver) = oneshot::channel();
    let body = |incoming| Body::new(Watched { body: Some(incoming), unread: Some(sender) });
    (Unread(receiver), request.map(body))
}

/// Receives the body of a request if it was dropped before its end.
pub(super) struct Unread(oneshot::Receiver<Incoming>);

impl Unread {
    /// Reads and discards what is left of the body. Returns `false` if that is too much, or if the client waits for
    /// leave to send it, which `expects` says. A body that is still being read is left alone.
    pub(super) async fn drained(mut self, expects: bool) -> bool {
        let Ok(mut body) = self.0.try_recv() else { return true };
        if expects {
            return false;
        }
        let discard = async {
            let mut bytes = 0;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > DISCARDED_BYTES {
                    return false;
                }
            }
            true
        };
        timeout(DISCARD, discard).await.unwrap_or(false)
    }
}

/// The body of a request, which is given back if it is dropped before its end.
struct Watched {
    body: Option<Incoming>,
    unread: Option<oneshot::Sender<Incoming>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let (Some(body), Some(unread)) = (self.body.take(), self.unread.take())
            && !hyper::body::Body::is_end_stream(&body)
        {
            // Nobody waits for it if the connection has ended.
            drop(unread.send(body));
        }
    }
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), hyper::body::Body::size_hint)
    }
}
