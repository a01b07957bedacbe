//! A request's body into git and git's answer out of it, a piece at a time.
//!
//! Invariants: the process ends when the answer is dropped, when the request breaks off, and when no byte moves for too
//! long; an answer that was cut short ends with an error and never looks whole.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use journeyman_core::ports::GitBody;
use journeyman_git::{Folders, Piped};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;

use crate::local::blocking;

const PIECE_BYTES: usize = 32 << 10;

/// Pieces that wait for the client.
const PIECES: usize = 4;

/// What git complains of, for the log.
const SAID_BYTES: u64 = 4 << 10;

/// What git has for removing its lock files when it is told to end.
const GRACE: Duration = Duration::from_secs(5);

/// A part of git's answer.
#[derive(Debug)]
pub(super) enum Piece {
    /// Its next bytes.
    Data(Bytes),
    /// It is whole.
    End,
}

/// Why an exchange ended before its time, for the log.
type Broken = String;

const CLIENT_GONE: &str = "the client went away";

/// Starts the exchange; it goes on for as long as the receiver is there.
/// Before the response ends, the folders of the repository that git may have changed are synced.
pub(super) fn start(process: Piped, body: GitBody, idle: Duration, folders: Option<Folders>) -> Receiver<Piece> {
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::spawn(carry(process, body, (idle, folders), sender));
    receiver
}

/// The rest of an answer, as a body.
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

async fn carry(mut process: Piped, body: GitBody, (idle, folders): (Duration, Option<Folders>), sender: Sender<Piece>) {
    let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    let moved = Notify::new();
    let answering = async {
        let (answered, said) = tokio::join!(answer(stdout, &sender, &moved), listen(stderr));
        answered.map(|()| said)
    };
    let outcome = tokio::select! {
        ended = answering => ended,
        broken = feed(body, stdin, &moved) => Err(broken),
        () = sender.closed() => Err(CLIENT_GONE.to_owned()),
        () = stalled(&moved, idle) => Err(format!("no byte moved for {} seconds", idle.as_secs())),
    };
    match outcome {
        Ok(said) => {
            // Its exit code is no part of the answer: what git refuses it has told the client in the protocol's words.
            let status = timeout(GRACE, process.wait()).await;
            tracing::debug!(?status, %said, "git http-backend ended");
            if let Some(folders) = folders
                && let Err(error) = blocking(move || folders.sync()).await
            {
                // Without its end the response looks truncated, and the client retries.
                tracing::error!(%error, "a repository cannot be synced to disk after a push");
                return;
            }
            // The client may have stopped reading just here.
            let _ = timeout(idle, sender.send(Piece::End)).await;
        }
        Err(broken) => {
            tracing::info!(%broken, "git http-backend was stopped");
            process.stop(GRACE).await;
        }
    }
}

/// Gives git the request's body; returns only where that breaks off.
async fn feed(mut body: GitBody, stdin: Option<ChildStdin>, moved: &Notify) -> Broken {
    if let Some(mut stdin) = stdin {
        while let Some(piece) = body.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => return format!("the request broke off: {error}"),
            };
            moved.notify_one();
            if stdin.write_all(&piece).await.is_err() {
                // A git that wants no more has its answer ready.
                break;
            }
            moved.notify_one();
        }
    }
    std::future::pending().await
}

/// Sends git's answer on, as fast as the client takes it.
async fn answer(stdout: Option<ChildStdout>, sender: &Sender<Piece>, moved: &Notify) -> Result<(), Broken> {
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
        sender.send(piece).await.map_err(|_| CLIENT_GONE.to_owned())?;
        moved.notify_one();
    }
}

/// The beginning of what git complains of; the rest is drained.
async fn listen(stderr: Option<ChildStderr>) -> String {
    let mut said = Vec::new();
    if let Some(stderr) = stderr {
        let mut beginning = stderr.take(SAID_BYTES);
        let _ = beginning.read_to_end(&mut said).await;
        let _ = tokio::io::copy(&mut beginning.into_inner(), &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&said).trim().to_owned()
}

/// Returns when nothing moved for `idle`.
async fn stalled(moved: &Notify, idle: Duration) {
    while timeout(idle, moved.notified()).await.is_ok() {}
}

#[cfg(test)]
mod tests;
