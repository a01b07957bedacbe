//! Reads the output of programs, and keeps its end.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::claim::redaction::whole_lines;

/// Reads a stream to its end, so that the program never waits for us, and keeps the last `limit` bytes.
pub(crate) async fn read_last(mut stream: Receiver, limit: usize) -> io::Result<Vec<u8>> {
    let (mut last, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while let count @ 1.. = stream.read(&mut piece).await? {
        last.extend_from_slice(&piece[..count]);
        // Cut at twice the limit, so that the kept bytes are not moved for each piece.
        if last.len() > limit.saturating_mul(2) {
            last.drain(..last.len() - limit);
        }
    }
    let excess = last.len().saturating_sub(limit);
    last.drain(..excess);
    Ok(last)
}

/// Reads stderr to its end, and returns the last `limit` bytes as text. A cut text starts with a whole line, because
/// half of a secret would not be recognized and redacted.
pub(crate) async fn last_output(mut stderr: Receiver, limit: usize) -> String {
    let (mut last, mut is_cut, mut piece) = (Vec::new(), false, [0; 4096]);
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        last.extend_from_slice(&piece[..count]);
        let excess = last.len().saturating_sub(limit);
        last.drain(..excess);
        is_cut |= excess > 0;
    }
    let text = String::from_utf8_lossy(&last).replace('\0', "");
    if is_cut { whole_lines(&text) } else { &text }.trim().to_owned()
}
