//! Server-sent events (WHATWG HTML, section 9.2).

use crate::error::Error;

/// The maximum size of an event in bytes, which is more than any event has.
const MOST_BYTES: usize = 8 << 20;

/// An event of a stream. A stream of the feed begins with an ID without data, which is its cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: Option<String>,
    pub(crate) data: Option<String>,
}

/// A parser of one stream.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// `true` if the last byte was a carriage return, of which a line feed may be the second half.
    after_return: bool,
    id: Option<String>,
    data: Option<String>,
}

impl Parser {
    /// Returns the events that a chunk of the stream completes.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Result<Vec<Message>, Error> {
        let mut messages = Vec::new();
        for &byte in chunk {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => messages.extend(self.end_line()),
                byte => self.line.push(byte),
            }
        }
        if self.line.len() + self.data.as_ref().map_or(0, String::len) > MOST_BYTES {
            return Err(Error::InvalidResponse("the server sent an event that is too large".to_owned()));
        }
        Ok(messages)
    }

    /// Reads the line. An empty line ends an event. The type is ignored, because the data contains it.
    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let (id, data) = (self.id.take(), self.data.take());
            return (id.is_some() || data.is_some()).then_some(Message { id, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((&*line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", data) => *data = Some(value.to_owned()),
            ("id", _) if !value.contains('\0') => self.id = Some(value.to_owned()),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: Option<&str>, data: Option<&str>) -> Message {
        Message { id: id.map(str::to_owned), data: data.map(str::to_owned) }
    }

    #[test]
    fn events_are_parsed_with_any_line_ending_and_in_any_chunks() {
        for end in ["\n", "\r\n", "\r"] {
            let text =
                [": hello", "", "id: 3", "", "id: 4", "event: x", "data: a", "data:b", "", "data: c", "", "data: cut"];
            let text = text.join(end);
            let expected = [message(Some("3"), None), message(Some("4"), Some("a\nb")), message(None, Some("c"))];
            for size in [1, 2, 3, 1000] {
                let mut parser = Parser::default();
                let chunks = text.as_bytes().chunks(size).flat_map(|chunk| parser.feed(chunk).expect("events"));
                assert_eq!(chunks.collect::<Vec<_>>(), expected, "{end:?} {size}");
            }
        }
    }

    #[test]
    fn an_event_without_end_is_an_error() {
        let mut parser = Parser::default();
        assert!(parser.feed(&vec![b'x'; MOST_BYTES + 1]).is_err());
    }
}
