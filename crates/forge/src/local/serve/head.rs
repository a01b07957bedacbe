//! The head of a CGI answer: `Status:` and the other headers, followed by an empty line.
//!
//! Invariant: the parsed head can be used in an HTTP answer without changes.

use bytes::{Bytes, BytesMut};
use journeyman_core::ports::GitServerError;
use tokio::sync::mpsc::Receiver;

use super::exchange::Piece;

/// The maximum size of a head in bytes; git's heads have a few hundred.
const HEAD_BYTES: usize = 16 << 10;

/// The status and the headers of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
}

/// Reads the head of an answer. Also returns the part of the body that arrived with it.
pub(super) async fn receive(pieces: &mut Receiver<Piece>) -> Result<(Head, Bytes), GitServerError> {
    let mut received = BytesMut::new();
    while let Some(Piece::Data(bytes)) = pieces.recv().await {
        received.extend_from_slice(&bytes);
        if let Some(end) = end(&received) {
            let head = received.split_to(end);
            return Ok((parse(&head)?, received.freeze()));
        }
        if received.len() > HEAD_BYTES {
            break;
        }
    }
    Err(GitServerError::Failed("git ended without an answer".to_owned()))
}

/// Returns the position after the empty line.
fn end(received: &[u8]) -> Option<usize> {
    let behind = |line: &[u8]| received.windows(line.len()).position(|window| window == line).map(|at| at + line.len());
    behind(b"\r\n\r\n").into_iter().chain(behind(b"\n\n")).min()
}

fn parse(head: &[u8]) -> Result<Head, GitServerError> {
    let malformed = || GitServerError::Failed("git answered with a malformed header".to_owned());
    let mut parsed = Head { status: 200, headers: Vec::new() };
    for line in std::str::from_utf8(head).map_err(|_| malformed())?.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(malformed)?;
        let value = value.trim();
        let token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !token || value.chars().any(char::is_control) {
            return Err(malformed());
        }
        if name.eq_ignore_ascii_case("status") {
            let status = value.get(..3).and_then(|code| code.parse::<u16>().ok());
            parsed.status = status.filter(|status| (200..600).contains(status)).ok_or_else(malformed)?;
        } else {
            parsed.headers.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_head_in_several_pieces_is_parsed() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(8);
        for piece in ["Status: 404 Not F", "ound\r\nPragma: no-cache\r", "\n\r\nbo", "dy"] {
            assert!(sender.send(Piece::Data(Bytes::from_static(piece.as_bytes()))).await.is_ok());
        }
        let (head, rest) = receive(&mut receiver).await.unwrap();
        assert_eq!(head, Head { status: 404, headers: vec![("Pragma".into(), "no-cache".into())] });
        assert_eq!(rest, "bo");
        assert!(matches!(receiver.recv().await, Some(Piece::Data(bytes)) if bytes == "dy"));
    }

    #[tokio::test]
    async fn a_head_without_an_end_is_refused() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(8);
        assert!(sender.send(Piece::Data(Bytes::from(vec![b'a'; HEAD_BYTES + 1]))).await.is_ok());
        assert!(receive(&mut receiver).await.is_err());
        drop(sender);
        assert!(receive(&mut receiver).await.is_err());
    }

    #[test]
    fn a_malformed_head_is_refused() {
        for bad in ["no colon", "a b: c", ": c", "Status: ok", "Status: 42", "Status: 999", "A: b\rc", "A: \0"] {
            assert!(parse(format!("{bad}\n\n").as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(parse(b"A: b\n\n").unwrap().status, 200);
    }
}
