//! Reads and writes lines of bytes from and to the agent's process.
//!
//! Invariant: a line from the agent uses no more memory than the limit. The protocol crate has no such limit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::Sink;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;

use super::{Sender, Tap};

/// The result of reading a line.
pub(super) enum Read {
    /// A line; the last one may lack its newline.
    Line(Vec<u8>),
    /// A line with more bytes than the limit. The rest of the line has not been read.
    TooLong,
    /// More bytes than the allowance.
    TooMuch,
    /// The stream has ended.
    End,
}

/// The number of bytes that may still be read. It is renewed for each turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// Sets the number of bytes that may be read from now on.
    pub(super) fn renew(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Subtracts `bytes`. Returns false, and subtracts nothing, if fewer are left.
    fn spend(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// Splits the agent's stdout into lines.
pub(super) struct LineReader {
    source: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    limit: usize,
    allowance: Allowance,
}

impl LineReader {
    /// Returns a reader that accepts lines of at most `limit` bytes, not counting the newline, and no more bytes in
    /// total than the allowance.
    pub(super) fn new(source: Box<dyn AsyncRead + Send + Unpin>, limit: usize, allowance: Allowance) -> Self {
        Self { source: BufReader::new(source), limit, allowance }
    }

    /// Returns the maximum length of a line in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Reads the next line.
    pub(super) async fn read(&mut self) -> io::Result<Read> {
        // One byte more than the limit: either the newline of the longest line, or the evidence that the line is too
        // long.
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

/// Returns a sink that writes whole lines to the agent's stdin. After it has written an answer to a request of the
/// agent, it returns a permit to `unanswered` (see [`super::inbound`]).
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

/// Returns whether a line is an answer: requests and notifications have a method, and answers have none.
fn is_answer(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|message| message.get("method").is_none())
}

/// Returns the first `chars` characters of `text`.
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
    async fn the_total_of_all_lines_is_limited() {
        assert_eq!(read_some(b"12\n34\n", 4, 6).await, ["12\n", "34\n"]);
        assert_eq!(read_some(b"12\n34\n", 4, 5).await, ["12\n", "too much"]);
    }

    #[tokio::test]
    async fn lines_up_to_the_limit_are_read_even_without_a_final_newline() {
        assert_eq!(read_all(b"1234\n\n123\r\n1234", 4).await, ["1234\n", "\n", "123\r\n", "1234"]);
    }

    #[tokio::test]
    async fn a_line_above_the_limit_is_reported() {
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
