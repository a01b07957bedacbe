//! Lines of bytes, to and from the agent's process.
//!
//! Invariant: a line from the agent takes no more memory than the limit. The protocol crate has no limit of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::Sink;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;

use super::{Sender, Tap};

/// What was read where a line was due.
pub(super) enum Read {
    /// A line; the last one may lack its newline.
    Line(Vec<u8>),
    /// More bytes without a newline than are allowed. What follows is the rest of that line.
    TooLong,
    /// More bytes than the allowance.
    TooMuch,
    /// The stream has ended.
    End,
}

/// Bytes that may still be read: renewed for each turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// From now on so many.
    pub(super) fn renew(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// False if it is not enough for so many.
    fn spend(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// Cuts the agent's stdout into lines.
pub(super) struct LineReader {
    source: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    limit: usize,
    allowance: Allowance,
}

impl LineReader {
    /// A reader that accepts lines of at most `limit` bytes, not counting the newline, and no more than the allowance.
    pub(super) fn new(source: Box<dyn AsyncRead + Send + Unpin>, limit: usize, allowance: Allowance) -> Self {
        Self { source: BufReader::new(source), limit, allowance }
    }

    /// The longest line that is accepted, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Reads the next line.
    pub(super) async fn read(&mut self) -> io::Result<Read> {
        // One byte more than the limit: the newline of the longest line, or the proof that it is too long.
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(1);
        let mut line = Vec::new();
        AsyncReadExt::take(&mut self.source, most).read_until(b'\n', &mut line).await?;
        let read = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if !self.allowance.spend(read) {
            return Ok(Read::TooMuch);
        }
        Ok(match line.last() {
            None => Read::End,
            Some(b'\n') => Read::Line(line),
            Some(_) if line.len() > self.limit => Read::TooLong,
            Some(_) => Read::Line(line),
        })
    }
}

/// Writes whole lines to the agent's stdin. Each answer to a request of the agent gives a permit back to `unanswered`
/// once it is written: see [`super::inbound`].
pub(super) fn write_lines(
    stdin: Box<dyn AsyncWrite + Send + Unpin>,
    unanswered: Arc<Semaphore>,
    tap: Option<Tap>,
) -> impl Sink<String, Error = io::Error> + Send + 'static {
    futures::sink::unfold(stdin, move |mut stdin: Box<dyn AsyncWrite + Send + Unpin>, line: String| {
        let unanswered = Arc::clone(&unanswered);
        if let Some(tap) = &tap {
            tap(Sender::Client, &line);
        }
        async move {
            let answer = is_answer(&line);
            let mut bytes = line.into_bytes();
            bytes.push(b'\n');
            stdin.write_all(&bytes).await?;
            stdin.flush().await?;
            if answer {
                unanswered.add_permits(1);
            }
            Ok::<_, io::Error>(stdin)
        }
    })
}

/// Requests and notifications have a method, answers have none.
fn is_answer(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|message| message.get("method").is_none())
}

/// The first `chars` characters of `text`.
pub(super) fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &'static [u8], limit: usize) -> Vec<String> {
        read_some(bytes, limit, u64::MAX).await
    }

    async fn read_some(bytes: &'static [u8], limit: usize, total: u64) -> Vec<String> {
        let allowance = Allowance::default();
        allowance.renew(total);
        let mut reader = LineReader::new(Box::new(bytes), limit, allowance);
        let mut read = Vec::new();
        loop {
            match reader.read().await.unwrap() {
                Read::Line(line) => read.push(String::from_utf8(line).unwrap()),
                Read::TooLong => {
                    read.push("too long".to_owned());
                    return read;
                }
                Read::TooMuch => {
                    read.push("too much".to_owned());
                    return read;
                }
                Read::End => return read,
            }
        }
    }

    #[tokio::test]
    async fn all_lines_together_have_a_limit_too() {
        assert_eq!(read_some(b"12\n34\n", 4, 6).await, ["12\n", "34\n"]);
        assert_eq!(read_some(b"12\n34\n", 4, 5).await, ["12\n", "too much"]);
    }

    #[tokio::test]
    async fn lines_up_to_the_limit_are_read_also_without_a_last_newline() {
        assert_eq!(read_all(b"1234\n\n123\r\n1234", 4).await, ["1234\n", "\n", "123\r\n", "1234"]);
    }

    #[tokio::test]
    async fn a_line_above_the_limit_is_told() {
        assert_eq!(read_all(b"1234\n12345\n", 4).await, ["1234\n", "too long"]);
        assert_eq!(read_all(b"12345", 4).await, ["too long"]);
    }

    #[test]
    fn head_counts_characters_and_not_bytes() {
        assert_eq!(head("äöü", 2), "äö");
        assert_eq!(head("äö", 2), "äö");
        assert_eq!(head("", 2), "");
    }
}
