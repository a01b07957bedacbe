//! A socket and a response body that report traffic to the connection's [`super::activity::Activity`].

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use bytes::Buf;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::registry::Connection;
use super::unreadable;

/// The socket of a connection.
pub(super) struct Socket {
    stream: TcpStream,
    connection: Arc<Connection>,
    /// The unsent rest of the response that replaces a response of hyper.
    instead: Option<Bytes>,
}

impl Socket {
    pub(super) const fn new(stream: TcpStream, connection: Arc<Connection>) -> Self {
        Self { stream, connection, instead: None }
    }

    /// Sends the replacement for `bytes` if they are the response of hyper to a request head that it could not parse.
    fn poll_instead(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_none() {
            let is_https = self.connection.is_https();
            self.instead = self.connection.activity.is_in_head().then(|| unreadable::answer(bytes, is_https)).flatten();
        }
        let mut rest = self.instead.take()?;
        while !rest.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &rest) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => rest.advance(written),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => {
                    self.instead = Some(rest);
                    return Some(Poll::Pending);
                }
            }
        }
        Some(Poll::Ready(Ok(bytes.len())))
    }

    fn sent(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let activity = &self.connection.activity;
        match written {
            Poll::Pending => activity.blocked(self.connection.now()),
            Poll::Ready(Ok(bytes)) if bytes > 0 => {
                activity.took(bytes, || self.connection.now());
                activity.sent(|| self.connection.now());
            }
            Poll::Ready(_) => {}
        }
        written
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        if into.filled().len() > before {
            self.connection.activity.received(|| self.connection.now());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(written) = self.poll_instead(cx, bytes) {
            return written;
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [bytes] = slices
            && let Some(written) = self.poll_instead(cx, bytes)
        {
            return written;
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes the socket only after the socket has taken all bytes.
        self.connection.activity.flushed();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The body of a response. hyper drops it after it has taken the whole body.
pub(super) struct AnswerBody {
    body: Body,
    connection: Arc<Connection>,
}

impl AnswerBody {
    pub(super) const fn new(body: Body, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.connection.activity.request_ends(self.connection.now());
    }
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
