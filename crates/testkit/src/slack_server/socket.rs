//! The connections of Socket Mode.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use super::{Connection, Shared, State};

/// The time between two looks for events.
const LOOK: Duration = Duration::from_millis(10);

/// Serves connections until the future is dropped.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut clients = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        clients.spawn(async move {
            let number = shared.state().connect();
            exchange(&shared, client, number).await;
            shared.state().connections.remove(&number);
        });
    }
}

/// Sends events and reads acknowledgments until the connection ends.
async fn exchange(shared: &Shared, client: TcpStream, number: u64) -> Option<()> {
    let mut stream = accept_async(client).await.ok()?;
    let hello = json!({ "type": "hello", "num_connections": 1, "connection_info": { "app_id": "A0APP" } });
    stream.send(Message::text(hello.to_string())).await.ok()?;
    loop {
        let (texts, breaks) = shared.state().next(number);
        for text in texts {
            stream.send(Message::text(text)).await.ok()?;
        }
        if breaks {
            return None;
        }
        match timeout(LOOK, stream.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => shared.state().acknowledge(text.as_str()),
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return None,
            Ok(Some(Ok(_))) | Err(_) => {}
        }
    }
}

impl State {
    fn connect(&mut self) -> u64 {
        self.connected += 1;
        self.connections.insert(self.connected, Connection::default());
        self.most_connections = self.most_connections.max(self.connections.len());
        self.connected
    }

    /// Returns the messages to send on a connection, and whether it breaks. An event is on one connection at a time.
    fn next(&mut self, number: u64) -> (Vec<String>, bool) {
        let Some(connection) = self.connections.get_mut(&number) else { return (Vec::new(), true) };
        let mut texts = Vec::new();
        if std::mem::take(&mut connection.announces) {
            connection.ends = true;
            texts.push(json!({ "type": "disconnect", "reason": "refresh_requested" }).to_string());
        }
        let (ends, breaks) = (connection.ends, connection.breaks);
        if ends || breaks {
            return (texts, breaks);
        }
        for envelope in self.envelopes.iter_mut().filter(|envelope| !envelope.is_acknowledged) {
            let is_waiting = envelope.sent_on.last().is_some_and(|last| self.connections.contains_key(last));
            if is_waiting {
                continue;
            }
            let attempt = envelope.sent_on.len();
            envelope.sent_on.push(number);
            let text = json!({
                "envelope_id": envelope.id, "type": "events_api", "accepts_response_payload": false,
                "payload": envelope.payload, "retry_attempt": attempt,
                "retry_reason": if attempt > 0 { "timeout" } else { "" },
            });
            texts.push(text.to_string());
        }
        (texts, false)
    }

    fn acknowledge(&mut self, text: &str) {
        let answer: Value = serde_json::from_str(text).unwrap_or_default();
        for envelope in self.envelopes.iter_mut().filter(|envelope| answer["envelope_id"] == envelope.id.as_str()) {
            envelope.is_acknowledged = true;
        }
    }
}
