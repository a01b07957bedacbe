//! Streams of server-sent events, which resume after a lost connection without a gap or a repetition.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::request::Request;
use crate::sse::{Message, Parser};

/// The content type of a stream.
const STREAM: &str = "text/event-stream";

/// A stream sends a comment every 15 seconds. After this time without one, the connection is dead.
const SILENCE: Duration = Duration::from_secs(45);

/// The time for which a stream tries to reconnect, unless the caller sets another.
pub(crate) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(300);

/// A stream that reconnects.
pub(crate) struct Connection {
    client: Client,
    request: Result<Request, Error>,
    /// The ID of the last event, or the cursor at which the stream begins.
    pub(crate) last_event_id: Option<String>,
    pub(crate) reconnect_timeout: Option<Duration>,
    response: Option<reqwest::Response>,
    parser: Parser,
    messages: VecDeque<Message>,
    has_connected: bool,
    /// The number of attempts since the server last sent something.
    attempts: u32,
    contact: Instant,
}

impl Connection {
    pub(crate) fn new(client: Client, request: Result<Request, Error>, last_event_id: Option<String>) -> Self {
        let request = request.map(|mut request| {
            request.headers.insert(ACCEPT, HeaderValue::from_static(STREAM));
            request
        });
        Self {
            client,
            request,
            last_event_id,
            reconnect_timeout: Some(RECONNECT_TIMEOUT),
            response: None,
            parser: Parser::default(),
            messages: VecDeque::new(),
            has_connected: false,
            attempts: 0,
            contact: Instant::now(),
        }
    }

    /// Adds a query parameter.
    pub(crate) fn query(&mut self, name: &str, value: String) {
        if let Ok(request) = &mut self.request {
            request.query.push((name.to_owned(), value));
        }
    }

    /// Waits for the next event, and returns its document.
    pub(crate) async fn next(&mut self) -> Result<Value, Error> {
        loop {
            while let Some(message) = self.messages.pop_front() {
                let is_new = self.is_new(message.id.as_deref());
                if let Some(id) = message.id
                    && is_new
                {
                    self.last_event_id = Some(id);
                }
                if let Some(data) = message.data.filter(|_| is_new) {
                    return serde_json::from_str(&data)
                        .map_err(|_| Error::InvalidResponse("the server sent an event that is not JSON".to_owned()));
                }
            }
            self.receive().await?;
        }
    }

    /// Connects, and returns the cursor at which the stream begins.
    pub(crate) async fn begin(&mut self) -> Result<String, Error> {
        loop {
            if let Some(id) = &self.last_event_id {
                return Ok(id.clone());
            }
            match self.messages.pop_front() {
                Some(Message { id: Some(id), data: None }) => self.last_event_id = Some(id),
                Some(_) => {
                    let text = "the stream did not begin with its cursor; is the server older than this client?";
                    return Err(Error::InvalidResponse(text.to_owned()));
                }
                None => self.receive().await?,
            }
        }
    }

    /// Returns `true` if an event comes after the last one. IDs are increasing numbers.
    fn is_new(&self, id: Option<&str>) -> bool {
        let number = |id: Option<&str>| id.and_then(|id| id.parse::<u128>().ok());
        match (number(id), number(self.last_event_id.as_deref())) {
            (Some(id), Some(last)) => id > last,
            _ => true,
        }
    }

    /// Reads the next part of the stream. Connects first if there is no connection.
    async fn receive(&mut self) -> Result<(), Error> {
        let error = match self.read().await {
            Ok(messages) => {
                self.messages.extend(messages);
                self.attempts = 0;
                self.contact = Instant::now();
                return Ok(());
            }
            Err(error) => error,
        };
        self.response = None;
        self.attempts = self.attempts.saturating_add(1);
        let delay = match &self.request {
            Ok(request) => self.client.retry_delay(&error, request, self.attempts),
            Err(_) => None,
        };
        let Some(delay) = delay.filter(|_| !self.is_hopeless()) else { return Err(error) };
        tokio::time::sleep(delay).await;
        Ok(())
    }

    fn is_hopeless(&self) -> bool {
        if !self.has_connected {
            return self.attempts > self.client.shared.max_retries;
        }
        self.reconnect_timeout.is_some_and(|timeout| self.contact.elapsed() > timeout)
    }

    async fn read(&mut self) -> Result<Vec<Message>, Error> {
        if self.response.is_none() {
            let response = connect(&self.client, &self.request, self.last_event_id.as_deref()).await?;
            (self.has_connected, self.parser) = (true, Parser::default());
            self.response = Some(response);
        }
        let Some(response) = &mut self.response else { return Err(self.client.ended()) };
        match self.client.chunk(response, SILENCE).await? {
            Some(chunk) => self.parser.feed(&chunk),
            None => Err(self.client.ended()),
        }
    }
}

/// Opens a stream after an event.
async fn connect(
    client: &Client,
    request: &Result<Request, Error>,
    last_event_id: Option<&str>,
) -> Result<reqwest::Response, Error> {
    let mut request = match request {
        Ok(request) => request.clone(),
        Err(error) => return Err(Error::Invalid(error.to_string())),
    };
    if let Some(id) = last_event_id {
        request.set_header("last-event-id", id)?;
    }
    let response = client.open(&request).await?;
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !content_type.is_some_and(|text| text.starts_with(STREAM)) {
        let sent = content_type.unwrap_or("nothing");
        return Err(Error::InvalidResponse(format!("the server sent {sent} instead of events")));
    }
    Ok(response)
}
