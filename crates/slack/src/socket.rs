//! Connections of Socket Mode: WebSockets over connections that were opened as all others of the service.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{SinkExt as _, StreamExt as _};
use journeyman_core::ports::{SlackEnvelope, SlackError, SlackSocket};
use journeyman_net::{Policy, SystemResolver, connect, is_loopback};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::Url;

use crate::events;

/// The time for each step of opening a connection.
const OPEN_TIME: Duration = Duration::from_secs(15);

/// The time for sending an acknowledgment.
const SEND_TIME: Duration = Duration::from_secs(10);

/// The largest message, in bytes.
const MESSAGE_BYTES: usize = 1 << 20;

fn unavailable(error: impl std::fmt::Display) -> SlackError {
    SlackError::Unavailable(format!("Socket Mode: {error}"))
}

/// Opens a connection to the URL that Slack has given, without TLS only to this machine and if `may_be_plain`. The URL
/// contains a ticket, so no error contains it.
pub(crate) async fn open(url: &str, policy: &Policy, may_be_plain: bool) -> Result<Box<dyn SlackSocket>, SlackError> {
    let url = Url::parse(url).map_err(|_| unavailable("Slack gave a malformed URL"))?;
    let host = url.host_str().ok_or_else(|| unavailable("Slack gave a URL without a host"))?;
    let port = url.port_or_known_default().ok_or_else(|| unavailable("Slack gave a URL without a port"))?;
    let is_plain = url.scheme() == "ws" && may_be_plain && is_loopback(&url);
    if url.scheme() != "wss" && !is_plain {
        return Err(unavailable("Slack gave a URL that is not wss"));
    }
    // The brackets of an IPv6 address belong to the URL.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let stream = connect(&SystemResolver, policy, &host, port, OPEN_TIME).await.map_err(unavailable)?;
    match url.scheme() {
        "wss" => {
            let name = ServerName::try_from(host).map_err(unavailable)?;
            let connected = timeout(OPEN_TIME, TlsConnector::from(tls()?).connect(name, stream)).await;
            shake_hands(&url, connected.map_err(unavailable)?.map_err(unavailable)?).await
        }
        _ => shake_hands(&url, stream).await,
    }
}

fn tls() -> Result<Arc<ClientConfig>, SlackError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(unavailable)?;
    let builder = builder.with_platform_verifier().map_err(unavailable)?;
    Ok(Arc::new(builder.with_no_client_auth()))
}

async fn shake_hands<S>(url: &Url, stream: S) -> Result<Box<dyn SlackSocket>, SlackError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES)).max_frame_size(Some(MESSAGE_BYTES));
    let opened = timeout(OPEN_TIME, client_async_with_config(url.as_str(), stream, Some(config))).await;
    let (stream, _) = opened.map_err(unavailable)?.map_err(|_| unavailable("the handshake failed"))?;
    Ok(Box::new(Socket { stream }))
}

struct Socket<S> {
    stream: WebSocketStream<S>,
}

#[async_trait]
impl<S: AsyncRead + AsyncWrite + Unpin + Send> SlackSocket for Socket<S> {
    async fn next(&mut self) -> Result<SlackEnvelope, SlackError> {
        match self.stream.next().await {
            Some(Ok(Message::Text(text))) => events::envelope(text.as_str()).map_err(unavailable),
            Some(Ok(Message::Close(_))) | None => Err(unavailable("the connection was closed")),
            // The library answers pings.
            Some(Ok(_)) => Ok(SlackEnvelope::Other),
            Some(Err(error)) => Err(unavailable(error)),
        }
    }

    async fn acknowledge(&mut self, envelope: &str) -> Result<(), SlackError> {
        let text = json!({ "envelope_id": envelope }).to_string();
        let sent = timeout(SEND_TIME, self.stream.send(Message::text(text))).await;
        sent.map_err(unavailable)?.map_err(unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_of_slack_leads_to_a_private_address_or_past_tls_only_on_this_machine() {
        let public = Policy::Public(Arc::default());
        for (url, policy, may_be_plain, error) in [
            ("ws://127.0.0.1:1/", &public, false, "is not wss"),
            ("ws://example.com/", &Policy::Any, true, "is not wss"),
            ("http://127.0.0.1:1/", &Policy::Any, true, "is not wss"),
            ("wss://127.0.0.1:1/", &public, false, "no public address"),
            ("wss://169.254.169.254/", &public, false, "no public address"),
            ("wss://[::1]:1/", &public, false, "no public address"),
            ("no url", &public, false, "malformed"),
        ] {
            let Err(SlackError::Unavailable(text)) = open(url, policy, may_be_plain).await else { panic!("{url}") };
            assert!(text.contains(error), "{url}: {text}");
        }
    }
}
