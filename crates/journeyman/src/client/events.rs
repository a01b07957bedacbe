//! Server-sent events (WHATWG HTML, section 9.2), resumed after a lost connection.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use reqwest::Method;
use serde_json::Value;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

use super::{Client, ClientError, Request};

/// The content type of an event stream.
pub(super) const STREAM: &str = "text/event-stream";

/// The maximum length of a line of a stream in bytes, which is more than any event has.
const LINE_BYTES: usize = 4 << 20;

/// The pause before the first reconnect. It doubles with each stream that ends without a line, up to 8 s.
const PAUSE: Duration = Duration::from_millis(250);
const MAX_DOUBLINGS: u32 = 5;

/// An event of a job, as the server sent it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) seq: u64,
    pub(crate) kind: String,
    /// The JSON document of the event.
    pub(crate) document: Value,
}

type Lines = Pin<Box<dyn Stream<Item = Result<String, LinesCodecError>> + Send>>;

/// The stream of a job's events, which reconnects after a lost connection.
pub(crate) struct Events<'a> {
    client: &'a Client,
    path: String,
    after: u64,
    open: Option<Lines>,
    data: String,
    /// The number of streams that ended without a line since the last line.
    empty: u32,
}

impl<'a> Events<'a> {
    pub(super) fn new(client: &'a Client, path: String, after: u64) -> Self {
        Self { client, path, after, open: None, data: String::new(), empty: 0 }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// The server refuses the request, sends an invalid event, or stays unreachable after the retries of [`Client`].
    pub(crate) async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            let mut lines = match self.open.take() {
                Some(lines) => lines,
                None => self.connect().await?,
            };
            match lines.next().await {
                Some(Ok(line)) => {
                    self.open = Some(lines);
                    self.empty = 0;
                    if let Some(event) = self.line(&line)? {
                        self.after = event.seq;
                        return Ok(event);
                    }
                }
                // The stream has ended or failed. After the reconnect, the server sends an unfinished event again.
                None | Some(Err(_)) => {
                    self.data.clear();
                    let pause = PAUSE * 2_u32.pow(self.empty.min(MAX_DOUBLINGS));
                    self.empty += 1;
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    async fn connect(&self) -> Result<Lines, ClientError> {
        let mut request = Request::new(Method::GET, &self.path).query("after", Some(self.after.to_string()));
        request.accept = STREAM;
        let response = self.client.send(&request).await?;
        let bytes = response.bytes_stream().map_err(io::Error::other);
        Ok(Box::pin(FramedRead::new(StreamReader::new(bytes), LinesCodec::new_with_max_length(LINE_BYTES))))
    }

    /// Parses a line, and returns the event that it completes. An empty line ends an event. Other lines than data are
    /// ignored, because the data contains the type and the number.
    fn line(&mut self, line: &str) -> Result<Option<Event>, ClientError> {
        if let Some(data) = line.strip_prefix("data:") {
            if !self.data.is_empty() {
                self.data.push('\n');
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            return Ok(None);
        }
        if !line.is_empty() || self.data.is_empty() {
            return Ok(None);
        }
        let text = std::mem::take(&mut self.data);
        let document: Value = serde_json::from_str(&text).unwrap_or_default();
        match (document["seq"].as_u64(), document["type"].as_str()) {
            (Some(seq), Some(kind)) => Ok(Some(Event { seq, kind: kind.to_owned(), document })),
            _ => Err(ClientError::Unusable("the server sent an invalid event".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Vec<Event> {
        let client = Client::new("http://localhost", "jmn_x").expect("a client");
        let mut events = client.events("/x".to_owned(), 0);
        let lines = text.split('\n').map(|line| line.trim_end_matches('\r'));
        lines.filter_map(|line| events.line(line).expect("a line")).collect()
    }

    #[test]
    fn events_are_parsed_with_either_line_ending() {
        for end in ["\n", "\r\n"] {
            let text = [
                ": hello",
                "",
                "id: 3",
                "event: run.started",
                "data: {\"seq\":3,",
                "data:\"type\":\"run.started\"}",
                "",
            ];
            let expected =
                Event { seq: 3, kind: "run.started".into(), document: json!({"seq": 3, "type": "run.started"}) };
            assert_eq!(read(&(text.join(end) + end)), [expected]);
        }
        let expected = Event { seq: 1, kind: "x".into(), document: json!({"seq": 1, "type": "x"}) };
        for start in ["data:", "data: "] {
            let text = format!("{start}{{\"seq\":1,\"type\":\"x\"}}\n\n");
            assert_eq!(read(&text), std::slice::from_ref(&expected), "{text}");
        }
    }

    #[tokio::test]
    async fn a_server_that_closes_streams_at_once_is_asked_again_after_growing_pauses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            for body in ["", "", "data: {\"seq\":1,\"type\":\"x\"}\n\n"] {
                let (mut stream, _) = listener.accept().expect("a connection");
                let head = BufReader::new(stream.try_clone().expect("a stream"));
                assert!(head.lines().map_while(Result::ok).any(|line| line.is_empty()), "the head has an end");
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
                stream.write_all(format!("{head}{body}").as_bytes()).expect("an answer");
            }
        });
        let client = Client::new(&url, "jmn_x").expect("a client");
        let begun = Instant::now();
        let event = client.events("/x".to_owned(), 0).next().await.expect("an event");
        assert_eq!(event.seq, 1);
        assert!(begun.elapsed() >= PAUSE * 3, "after {:?}", begun.elapsed());
        server.join().expect("a server");
    }

    #[test]
    fn an_invalid_event_is_an_error() {
        let client = Client::new("http://localhost", "jmn_x").expect("a client");
        let mut events = client.events("/x".to_owned(), 0);
        assert_eq!(events.line("data: {}").expect("a line"), None);
        assert!(events.line("").is_err());
    }

    #[test]
    fn a_key_with_a_line_break_and_a_url_of_another_scheme_are_refused() {
        assert!(Client::new("http://localhost", "a\nb").is_err());
        assert!(Client::new("ftp://localhost", "a").is_err());
        assert!(Client::new("localhost:8080", "a").is_err());
    }
}
