//! Streams a request's body into git and git's answer out of it, one piece at a time.
//!
//! Invariants: the process ends when the answer is dropped, when the request breaks off, and when no byte moves for too
//! long; a truncated answer ends with an error and never looks complete.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use journeyman_core::ports::GitBody;
use journeyman_git::Piped;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

use super::Pushed;

const PIECE_BYTES: usize = 32 << 10;

/// The maximum number of pieces that wait for the client.
const PIECES: usize = 4;

/// The maximum number of bytes of git's error output that are logged.
const STDERR_BYTES: u64 = 4 << 10;

/// The time that a stopped git has to remove its lock files.
const GRACE: Duration = Duration::from_secs(5);

/// A part of git's answer.
#[derive(Debug)]
pub(super) enum Piece {
    /// The next bytes of the answer.
    Data(Bytes),
    /// The end of a complete answer.
    End,
}

/// The reason why an exchange ended early, for the log.
type Interruption = String;

const CLIENT_DISCONNECTED: &str = "the client disconnected";

/// Starts the exchange, which ends early if the receiver is dropped. Before the response to a push ends,
/// [`Pushed::finish`] runs.
pub(super) fn start(process: Piped, body: GitBody, idle: Duration, pushed: Option<Pushed>) -> Receiver<Piece> {
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::spawn(run(process, body, (idle, pushed), sender));
    receiver
}

/// Returns the rest of an answer as a body.
pub(super) fn body(first: Bytes, pieces: Receiver<Piece>) -> GitBody {
    let rest = stream::unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        match pieces.recv().await {
            Some(Piece::Data(bytes)) => Some((Ok(bytes), Some(pieces))),
            Some(Piece::End) => None,
            None => {
                let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "git was stopped before the end of its answer");
                Some((Err(cut), None))
            }
        }
    });
    let first = (!first.is_empty()).then_some(Ok(first));
    Box::pin(stream::iter(first).chain(rest))
}

async fn run(mut process: Piped, body: GitBody, (idle, pushed): (Duration, Option<Pushed>), sender: Sender<Piece>) {
    let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    let moved = Notify::new();
    let answering = async {
        let (answered, errors) = tokio::join!(answer(stdout, &sender, &moved), read_errors(stderr));
        answered.map(|()| errors)
    };
    let outcome = tokio::select! {
        ended = answering => ended,
        reason = feed(body, stdin, &moved) => Err(reason),
        () = sender.closed() => Err(CLIENT_DISCONNECTED.to_owned()),
        () = stalled(&moved, idle) => Err(format!("no byte moved for {} seconds", idle.as_secs())),
    };
    match outcome {
        Ok(errors) => {
            // The exit code is not part of the answer: git reports refusals to the client within the protocol.
            let status = timeout(GRACE, process.wait()).await;
            tracing::debug!(?status, %errors, "git http-backend ended");
            if let Some(pushed) = pushed
                && let Err(error) = pushed.finish().await
            {
                // Without its end the response looks truncated, and the client retries.
                tracing::error!(%error, "the default branch of the repository could not be set after a push, or the repository not synced to disk");
                return;
            }
            // The client may have stopped reading at this point.
            let _ = timeout(idle, sender.send(Piece::End)).await;
        }
        Err(reason) => {
            tracing::info!(%reason, "git http-backend was stopped");
            process.stop(GRACE).await;
        }
    }
}

/// Sends the request's body to git; returns only if the request breaks off.
async fn feed(mut body: GitBody, stdin: Option<ChildStdin>, moved: &Notify) -> Interruption {
    if let Some(mut stdin) = stdin {
        while let Some(piece) = body.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => return format!("the request broke off: {error}"),
            };
            moved.notify_one();
            if stdin.write_all(&piece).await.is_err() {
                // Git stopped reading because its answer is ready.
                break;
            }
            moved.notify_one();
        }
    }
    std::future::pending().await
}

/// Forwards git's answer as fast as the client accepts it.
async fn answer(stdout: Option<ChildStdout>, sender: &Sender<Piece>, moved: &Notify) -> Result<(), Interruption> {
    let Some(mut stdout) = stdout else { return Ok(()) };
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE_BYTES);
        let read = stdout.read_buf(&mut buffer).await;
        if read.map_err(|error| format!("git's answer cannot be read: {error}"))? == 0 {
            return Ok(());
        }
        moved.notify_one();
        let piece = Piece::Data(buffer.split().freeze());
        sender.send(piece).await.map_err(|_| CLIENT_DISCONNECTED.to_owned())?;
        moved.notify_one();
    }
}

/// Reads the beginning of git's error output and drains the rest.
async fn read_errors(stderr: Option<ChildStderr>) -> String {
    let mut errors = Vec::new();
    if let Some(stderr) = stderr {
        let mut beginning = stderr.take(STDERR_BYTES);
        let _ = beginning.read_to_end(&mut errors).await;
        let _ = tokio::io::copy(&mut beginning.into_inner(), &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&errors).trim().to_owned()
}

/// Returns after no byte has moved for `idle`.
async fn stalled(moved: &Notify, idle: Duration) {
    while timeout(idle, moved.notified()).await.is_ok() {}
}

#[cfg(test)]
mod tests;
